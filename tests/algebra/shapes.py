"""Random queries of the shapes that the rules about joins, groups and sharing are about.

The general generator (`tests/generators/queries.py`) makes them too rarely.
"""

from __future__ import annotations

from hypothesis import strategies as st

_NUMBERS = {
    "R": ("A", "B", "C", "A + 1"),
    "S": ("A", "D"),
    "W": ("id", "price"),
}
_KEYS = {"R": ("A", "B", "S", "C"), "S": ("A", "T", "D"), "W": ("id", "flag", "pair")}
_LINKS = {"R": ("A", "B"), "S": ("A",), "W": ("id",)}
_TESTS = {"R": "x.A > 1", "S": "y.D > 0.5", "W": "y.flag"}


def shape_queries() -> st.SearchStrategy[str]:
    """Queries of any of these shapes."""
    return st.one_of(joins(), totals(), repetitions(), selfjoins(), siblings(), filtered_queries())


@st.composite
def joins(draw: st.DrawFn) -> str:
    """A join that is grouped and aggregated."""
    left, right = draw(st.sampled_from([("R", "S"), ("R", "W"), ("R", "R"), ("W", "S")]))
    sources = {"x": left, "y": right}
    where = draw(_conditions(sources))
    keys = draw(st.lists(_column(sources, _KEYS), min_size=1, max_size=2))
    if draw(st.integers(0, 7)) == 0:
        keys = ["x.A + y.A"] if left == "R" and right != "W" else ["1"]
    names = ["k", "l"][: len(keys)]
    aggregates = [draw(_aggregate(sources)) for _ in range(draw(st.integers(1, 3)))]
    having = draw(st.sampled_from(["", "", f" having {aggregates[0]} = {aggregates[0]}"]))
    key = f"k: {keys[0]}" if len(keys) == 1 else f"(k, l): ({', '.join(keys)})"
    head = ", ".join([*names, *aggregates])
    return f"select ({head}) from x in {left}, y in {right}{where} group by {key}{having}"


@st.composite
def totals(draw: st.DrawFn) -> str:
    """An aggregate over a join that nothing groups, alone or for every row of a third table."""
    sources = {"x": "R", "y": draw(st.sampled_from(["S", "W"]))}
    where = draw(_conditions(sources))
    function = draw(st.sampled_from(["sum", "avg", "count", "min", "max"]))
    rows = f"select {draw(_column(sources, _NUMBERS))} from x in R, y in {sources['y']}{where}"
    if draw(st.booleans()):
        return f"{function}({rows})"
    tie = " and " if where else " where "
    return f"select (z.A, {function}({rows}{tie}x.B = z.A)) from z in S"


@st.composite
def _conditions(draw: st.DrawFn, sources: dict[str, str]) -> str:
    conditions = []
    for _ in range(draw(st.integers(0, 2))):
        a, b = (draw(st.sampled_from(_LINKS[sources[v]])) for v in ("x", "y"))
        conditions.append(f"x.{a} = y.{b}")
    if draw(st.integers(0, 3)) == 0 and sources["x"] == "R":
        conditions.append(_TESTS["R"])
    if draw(st.integers(0, 3)) == 0 and sources["y"] != "R":
        conditions.append(_TESTS[sources["y"]])
    return f" where {' and '.join(conditions)}" if conditions else ""


@st.composite
def _column(draw: st.DrawFn, sources: dict[str, str], columns: dict[str, tuple[str, ...]]) -> str:
    variable = draw(st.sampled_from(sorted(sources)))
    return f"{variable}.{draw(st.sampled_from(columns[sources[variable]]))}"


@st.composite
def _aggregate(draw: st.DrawFn, sources: dict[str, str]) -> str:
    function = draw(st.sampled_from(["sum", "avg", "count", "min", "max", "sum", "avg", "median"]))
    variable = draw(st.sampled_from(sorted(sources)))
    column = draw(st.sampled_from(_NUMBERS[sources[variable]])).partition(" ")[0]
    match draw(st.integers(0, 7)):
        case 0:
            return f"count({variable})"
        case 1:
            return "count(partition)"
        case 2:
            first = _NUMBERS[sources[variable]][0]
            return f"{function}(select z.{column} from z in {variable} where z.{first} > 0)"
        case 3:
            quantifier = draw(st.sampled_from(["some", "all"]))
            return f"({quantifier} z in {variable}: z.{column} = z.{column})"
        case _:
            return f"{function}({variable}.{column})"


@st.composite
def selfjoins(draw: st.DrawFn) -> str:
    """Rows of a table that meet something about those that agree with them, or nearly so."""
    key, other = draw(st.sampled_from([("A", "A"), ("B", "B"), ("S", "S"), ("A", "B")]))
    function, column = draw(
        st.sampled_from([("count", ""), ("sum", ".B"), ("max", ".C"), ("count", ".S")])
    )
    outer = draw(st.sampled_from(["", "", " where x.B > 0", " where x.A = x.A and x.C > 0.5"]))
    inner = draw(st.sampled_from(["", "", " where y.B > 0", " where y.C > 0.5"]))
    having = draw(st.sampled_from(["", "", " having count(y) > 1"]))
    rows = f"select x from x in R{outer}"
    groups = f"select (k, {function}(y{column})) from y in R{inner} group by k: y.{other}{having}"
    tie = f"{inner} and" if inner else " where"
    nested = f"{function}(select y{column} from y in R{tie} y.{other} = x.{key})"
    third = "y.A = x.A" if key == "S" else f"y.A = x.{key}"
    return draw(
        st.sampled_from(
            [
                f"select (x.A, x.S, n) from x in ({rows}), (k, n) in ({groups}) where x.{key} = k",
                f"select (n, x.S) from (k, n) in ({groups}), x in ({rows}) where x.{key} = k",
                f"select (x.S, y.D, n) from x in ({rows}), y in S, (k, n) in ({groups}) "
                f"where x.{key} = k and {third}",
                f"select (x.S, y.D, n) from y in S, x in ({rows}), (k, n) in ({groups}) "
                f"where x.{key} = k and {third}",
                f"select (x.S, {nested}) from x in ({rows})",
                f"select x.C from x in ({rows}) where 1 < {nested}",
                f"select (x.S, count(select (k, n) from (k, n) in ({groups}) where k = x.{key})) "
                f"from x in ({rows})",
            ]
        ).filter(lambda text: "max" not in text or "1 < max" not in text)
    )


@st.composite
def siblings(draw: st.DrawFn) -> str:
    """Several sub-queries about the rows that agree with an outer row."""
    key = draw(st.sampled_from(["x.A", "x.B", "x.A"]))

    def inner() -> str:
        test = draw(st.sampled_from(["", "", " and y.D > 0.5", " and y.A > 0", " and x.B > 1"]))
        value = draw(st.sampled_from(["count(select y", "sum(select y.D", "count(select y.T"]))
        return f"{value} from y in S where y.A = {key}{test})"

    rows = draw(st.sampled_from(["R", "(select x from x in R where x.C > 0.5)"]))
    some = f"exists (select y from y in S where y.A = {key})"
    return draw(
        st.sampled_from(
            [
                f"select (x.S, {inner()}, {inner()}) from x in {rows}",
                f"select (x.S, {inner()}, {inner()}, {inner()}) from x in {rows}",
                f"select (x.S, {inner()}) from x in {rows} where {inner()} > 1",
                f"select (x.S, {inner()}) from x in {rows} where {some}",
                f"select (k, sum(n), count(x)) from x in {rows}, n = {inner()} "
                f"where not {some} group by k: x.S",
                f"select (x.S, z.D, {inner()}) from x in {rows}, z in S where z.A = {key}",
                f"select (x.S, {inner()}, (select y.T from y in S where y.A = {key})) from x in R",
            ]
        )
    )


@st.composite
def filtered_queries(draw: st.DrawFn) -> str:
    """Conditions on groups, on one side of a join, and on rows that were in order."""
    test = draw(st.sampled_from(["k > 1", "k = k", "n > 1", "k > 0 and n > 0", "k + n > 2"]))
    side = draw(st.sampled_from(["x.B > 0", "y.D > 0.5", "x.A > 1", "x.B > y.A", "y.A <> 1"]))
    order = draw(st.sampled_from(["", " order by k", " order by k limit 2"]))
    groups = draw(groupings())
    both = "(select < A: x.A, B: x.B > from x in R) union (select < A: y.A, B: y.A > from y in S)"
    return draw(
        st.sampled_from(
            [
                f"select n from (k, n) in ({groups}{order}) where {test}",
                f"select (n, x.A) from (k, n) in ({groups}), x in R where k = x.A and {test}",
                f"select (x.A, y.A) from x in R, y in S where x.A = y.A and {side}",
                "select (a, c) from (a, b) in (select (x.A, y.D) from x in R, y in S where "
                f"x.A = y.A and {side}), (a, c) in (select (x.A, x.B) from x in R) where c > 0",
                "select (a, (select y.D from y in S where y.A = a)) from a in "
                "(select x.A from x in R, y in S where x.B = y.A) where a > 0",
                "select (k, n, count(select y from y in S where y.A = k)) from (k, n) in "
                f"({groups}) where {test}",
                f"select (k, sum(z.A), count(z)) from z in {both} group by k: z.B having k > 0",
                f"select (k, count(y)) from z in {both}, y in S where z.A = y.A group by k: z.B",
            ]
        )
    )


@st.composite
def groupings(draw: st.DrawFn) -> str:
    """One grouping of a table, for a certain purpose."""
    key = draw(st.sampled_from(["x.A", "x.B"]))
    value = draw(st.sampled_from(["count(x)", "sum(x.B)", "max(x.C)", "count(x.S)", "k"]))
    where = draw(st.sampled_from(["", "", " where x.B > 0"]))
    more = draw(st.sampled_from(["", "", " having count(x) > 1"]))
    return f"select (k, {value}) from x in R{where} group by k: {key}{more}"


@st.composite
def repetitions(draw: st.DrawFn) -> str:
    """A query that groups, or sorts, or joins, the same rows at several places."""
    first, second, third = (draw(groupings()) for _ in range(3))
    return draw(
        st.sampled_from(
            [
                f"(({first}), ({second}), count({third}))",
                f"select (a, b) from (k, a) in ({first}), (k, b) in ({second})",
                f"select (x.A, n, count({second})) from x in R, (k, n) in ({first}) where x.A = k",
                f"(({first} order by k limit 2), count({first} order by k limit 2), ({second}))",
                f"repeat v = select (k, 0) from (k, n) in ({first}) "
                f"step select (k, i + 1) from (k, i) in v, (k, n) in ({second}) limit 2",
                f"select (y.A, count(select a from (k, a) in ({first}) where k = y.A), "
                f"count({second})) from y in S",
            ]
        )
    )
