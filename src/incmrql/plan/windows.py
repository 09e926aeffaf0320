"""Windows over groups: which are groups in disguise, and which rows the others have to read.

| function | rows that are read when some rows of a partition change |
|---|---|
| all over whole partitions | an aggregate of the group, or the first or last row of it |
| `row_number() <= k` alone | the first k rows |
| with `row_number() <= k`, `rank() <= k`, `dense_rank() <= k` | the first rows, with ties |
| `lag`, `lead`, frames of n rows before to m after | the changed rows and their neighbours |
| numbers and (dense) ranks; running sums, counts, averages | from the first changed row on |
| anything else | the partition |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from incmrql.algebra import rows as build
from incmrql.algebra.rows import Names
from incmrql.plan.additivity import Additivity
from incmrql.plan.nodes import WindowRead
from incmrql.types import typed
from incmrql.types.model import (
    EXACT_SUM,
    INT,
    LONG,
    Collection,
    Decimal,
    Tuple,
    Type,
    is_float,
    is_integer,
    list_of,
)
from incmrql.types.show import show_window_function
from incmrql.types.walk import (
    children,
    conjuncts,
    free_variables,
    map_children,
    nodes,
    rename_binders,
    substitute,
    with_copies,
)

# --- Groups in disguise ---
#
#   window(r in B: f(values of e(r)))   =  select (r, f(select e(r) from r in B)) from r in B
#   window(r in B: row_number()) <= k   =  index(select r from r in B order by … limit k)


def expand_windows(body: typed.Expr, names: Names) -> typed.Expr:
    """A body without the windows that aggregates and ordered queries over the same bag can say."""
    body = map_children(lambda child: expand_windows(child, names), body)
    match body:
        case typed.Window() if all(_is_of_partition(function) for function in body.functions):
            return _as_aggregates(body, names)
        case typed.Select(group=None):
            body = _inline(body)
            return _with_first_rows(body, names) or body
        case _:
            return body


def _inline(query: typed.Select) -> typed.Select:
    """A query without names for windows that it uses once."""
    for index, qualifier in enumerate(query.qualifiers):
        if (
            isinstance(qualifier, typed.Binding)
            and isinstance(qualifier.pattern, typed.Bind)
            and isinstance(qualifier.value, typed.Window)
        ):
            variable = qualifier.pattern.variable
            rest = (*query.qualifiers[:index], *query.qualifiers[index + 1 :])
            shorter = replace(query, qualifiers=rest)
            uses = [
                n for n in nodes(shorter) if isinstance(n, typed.Var) and n.variable == variable
            ]
            if len(uses) == 1:
                inlined = substitute(shorter, {variable: qualifier.value})
                assert isinstance(inlined, typed.Select)
                return _inline(inlined)
    return query


def _is_of_partition(function: typed.WindowFunction) -> bool:
    """Whether all rows of a partition have the same value, which a group can say."""
    match function:
        case typed.Total(typed.Frame(_, None, None), _, values):
            return isinstance(values.type, Collection) and values.type.kind == "bag"
        case typed.Pick(frame, _, position, skips_nulls=False):
            # With the row itself in the frame there is a first and a last one.
            has_own = (frame.first is None or frame.first <= 0) and (
                frame.last is None or frame.last >= 0
            )
            at_start = frame.first is None and position == 1
            return has_own and (at_start or (frame.last is None and position == -1))
        case _:
            return False


def _as_aggregates(window: typed.Window, names: Names) -> typed.Expr:
    one = names.like(window.row)
    values = [_over_partition(function, window, names) for function in window.functions]
    head = build.tuple_of(build.var(one), build.tuple_of(*values))
    return build.for_each(one, rename_binders(window.operand, names.like), head)


def _over_partition(
    function: typed.WindowFunction, window: typed.Window, names: Names
) -> typed.Expr:
    one = names.like(window.row)
    match function:
        case typed.Total(_, argument, values, result):
            over = substitute(rename_binders(argument, names.like), {window.row: build.var(one)})
            bag = build.for_each(one, rename_binders(window.operand, names.like), over)
            return with_copies(rename_binders(result, names.like), values, bag, names.like)
        case typed.Pick(_, argument, position):
            index = typed.Const(0 if position > 0 else -1, type=LONG)
            first = typed.At(_in_order(window, None, names), index, type=window.row.type)
            return substitute(rename_binders(argument, names.like), {window.row: first})
        case typed.Rank():
            raise AssertionError("a rank differs from row to row")


def _in_order(window: typed.Window, limit: int | None, names: Names) -> typed.Expr:
    """The list of the rows of a window in its order, at most `limit`."""
    one = names.like(window.row)
    order = tuple(
        replace(
            key, expr=substitute(rename_binders(key.expr, names.like), {window.row: build.var(one)})
        )
        for key in window.order
    )
    if not order:  # a query without an order is a bag
        order = (typed.Order(build.unit(), descending=False),)
    domain = rename_binders(window.operand, names.like)
    most = None if limit is None else typed.Const(limit, type=LONG)
    return typed.Select(
        False, build.var(one), (typed.Generator(typed.Bind(one), domain),), None, None, None,
        order, most, type=list_of(window.row.type),
    )  # fmt: skip


def _with_first_rows(query: typed.Select, names: Names) -> typed.Expr | None:
    """A query over the rows with small numbers of a window, as one over the first rows."""
    bounded = _bounded_window(query)
    if bounded is None:
        return None
    window, variable, ranks = bounded
    if not all(f.name == "row_number" for f in window.functions if isinstance(f, typed.Rank)):
        return None
    if not all(isinstance(function, typed.Rank) for function in window.functions) or not ranks:
        return None
    most = min(ranks.values())
    first = _in_order(window, most, names)
    if most == 1:
        one = names.like(window.row)
        numbers = [typed.Const(1, type=INT) for _ in window.functions]
        row = build.tuple_of(build.var(one), build.tuple_of(*numbers))
        numbered = build.for_each(one, first, row)
    else:
        pair = names.variable("numbered", Tuple((window.row.type, LONG)))
        index = typed.Builtin("index", (first,), type=list_of(pair.type))
        place = typed.Arithmetic(
            "+", build.item(build.var(pair), 1), typed.Const(1, type=LONG), type=LONG
        )
        number = typed.Cast(place, type=INT)
        row = build.tuple_of(
            build.item(build.var(pair), 0), build.tuple_of(*(number for _ in window.functions))
        )
        numbered = build.for_each(pair, index, row)
    qualifiers = tuple(
        typed.Generator(qualifier.pattern, numbered)
        if isinstance(qualifier, typed.Generator)
        and isinstance(qualifier.pattern, typed.Bind)
        and qualifier.pattern.variable == variable
        else qualifier
        for qualifier in query.qualifiers
    )
    return replace(query, qualifiers=qualifiers)


def _bounded_window(
    query: typed.Select,
) -> tuple[typed.Window, typed.Variable, dict[int, int]] | None:
    """The only window that a query ranges over, the variable of its rows, and upper bounds.

    The bounds are those that conditions give for the values of functions, by their places.
    """
    windows: list[tuple[typed.Window, typed.Variable]] = []
    for qualifier in query.qualifiers:
        match qualifier:
            case typed.Generator(typed.Bind(row), typed.Window() as domain):
                windows.append((domain, row))
            case _:
                pass
    if len(windows) != 1 or sum(isinstance(node, typed.Window) for node in nodes(query)) != 1:
        return None
    window, variable = windows[0]
    tests = [
        test
        for qualifier in query.qualifiers
        if isinstance(qualifier, typed.Condition)
        for test in conjuncts(qualifier.condition)
    ]
    bounds: dict[int, int] = {}
    for test in [*tests, *conjuncts(query.where)]:
        bound = _upper_bound(test, variable)
        if bound is not None:
            bounds[bound[0]] = min(bound[1], bounds.get(bound[0], bound[1]))
    return window, variable, bounds


def _upper_bound(test: typed.Expr, variable: typed.Variable) -> tuple[int, int] | None:
    """The place of a function that a condition bounds from above, and the largest value."""
    match test:
        case typed.Compare("=" | "<=" | "<" as op, value, typed.Const(int(bound))):
            pass
        case typed.Compare("=" | ">=" | ">" as op, typed.Const(int(bound)), value):
            pass
        case _:
            return None
    while isinstance(value, typed.Widen):
        value = value.operand
    match value:
        case typed.Item(typed.Item(typed.Var(one), 1), place) if one == variable:
            return place, max(bound - 1 if op in ("<", ">") else bound, 0)
        case _:
            return None


# --- Windows that are read by rank ---


@dataclass(frozen=True, slots=True)
class Near:
    """A changed row concerns so many rows before it and after it, and these read as many."""

    before: int
    """How many rows before its own a function reads."""
    after: int


@dataclass(frozen=True, slots=True)
class Onward:
    """A changed row concerns all rows from its peers on, and `before` rows are read before them.

    `back` rows before it are concerned too, whose frames reach it.
    """

    before: int
    back: int


@dataclass(frozen=True, slots=True)
class Front:
    """Only the rows with the smallest values of a rank are answered, up to `most`."""

    place: int
    most: int


@dataclass(frozen=True, slots=True)
class Everything:
    """All rows of a partition are read."""


Reach: TypeAlias = Near | Onward | Front | Everything

_FROM_TOTALS: Final = frozenset(("count", "sum", "avg"))
"""Aggregates of the rows before a row that follow from those of all rows and of the rest."""


def reach_of(read: WindowRead) -> Reach:
    """Which rows of a partition a change concerns."""
    front = _front(read)
    if front is not None:
        return front
    reaches = [_reach_of_function(function) for function in read.window.functions]
    if any(isinstance(reach, Everything) for reach in reaches):
        return Everything()
    before = max((r.before for r in reaches if isinstance(r, Near | Onward)), default=0)
    after = max((r.after for r in reaches if isinstance(r, Near)), default=0)
    if all(isinstance(reach, Near) for reach in reaches):
        return Near(before, after)
    back = max(after, *(reach.back for reach in reaches if isinstance(reach, Onward)))
    if back and any(map(_counts_peers, read.window.functions)):
        # The peers of the rows before the first changed one would have to be read too.
        return Everything()
    return Onward(before, back)


def reads_partitions(read: WindowRead) -> list[typed.WindowFunction]:
    """The functions for which whole partitions are read."""
    if not isinstance(reach_of(read), Everything):
        return []
    functions = read.window.functions
    alone = [f for f in functions if isinstance(_reach_of_function(f), Everything)]
    return alone or list(functions)


def cost_of(read: WindowRead) -> str:
    """What a batch reads of the partitions that it changes, and for which function it is that."""
    whole = _cost_of_reach(reach_of(read))
    own = {show_window_function(f): _reach_of_function(f) for f in read.window.functions}
    if isinstance(reach_of(read), Front) or len({type(reach) for reach in own.values()}) == 1:
        return whole
    costs = "; ".join(f"{name} alone: {_cost_of_reach(reach)}" for name, reach in own.items())
    return f"{whole} ({costs})"


def _cost_of_reach(reach: Reach) -> str:
    match reach:
        case Near(before, after):
            return f"the changed rows, with {before + after} rows before and after each of them"
        case Onward():
            return "the rows of touched partitions from the first changed one on"
        case Front(_, most):
            return f"the rows of touched partitions up to rank {most}"
        case Everything():
            return "the partitions of the touched keys"


def _counts_peers(function: typed.WindowFunction) -> bool:
    """Whether the value for a row depends on where its peers begin."""
    match function:
        case typed.Rank(name):
            return name != "row_number"
        case typed.Pick(frame) | typed.Total(frame):
            return frame.kind == "range"


def _front(read: WindowRead) -> Front | None:
    """The first rows, if only they are answered and no function looks at later ones."""
    whole = substitute(
        read.body, {read.group: build.tuple_of(build.item(build.var(read.group), 0), read.window)}
    )
    whole = build.reduce_projections(whole)
    bounded = _bounded_window(whole) if isinstance(whole, typed.Select) else None
    if bounded is None:
        return None
    _, _, bounds = bounded
    ranked = [
        (most, place)
        for place, most in bounds.items()
        if isinstance(read.window.functions[place], typed.Rank)
        and _name(read.window.functions[place]) in ("row_number", "rank", "dense_rank")
    ]
    if not ranked or not all(map(_looks_back, read.window.functions)):
        return None
    most, place = min(ranked)
    return Front(place, most)


def _name(function: typed.WindowFunction) -> str:
    return function.name if isinstance(function, typed.Rank) else ""


def _looks_back(function: typed.WindowFunction) -> bool:
    """Whether a function reads no row after the peers of the row."""
    match function:
        case typed.Rank(name):
            return name in ("row_number", "rank", "dense_rank")
        case typed.Pick(frame) | typed.Total(frame):
            return frame.last is not None and frame.last <= 0


def _reach_of_function(function: typed.WindowFunction) -> Reach:
    match function:
        case typed.Rank("row_number" | "rank" | "dense_rank"):
            return Onward(0, 0)
        case typed.Rank():
            return Everything()
        case typed.Pick(frame) | typed.Total(frame) if _is_near(frame):
            return Near(max(-frame.first, 0), max(frame.last, 0))
        case typed.Pick(frame, _, -1, False) if _is_running(frame) and frame.last == 0:
            return Onward(0, 0)
        case typed.Total(frame) if _is_running(frame) and prefix_parts(function) is not None:
            return Onward(0, max(frame.last, 0))
        case _:
            return Everything()


def _is_near(frame: typed.Frame) -> bool:
    return frame.kind == "rows" and frame.first is not None and frame.last is not None


def _is_running(frame: typed.Frame) -> bool:
    is_up_to = frame.kind == "rows" or frame.last == 0
    return frame.first is None and frame.last is not None and is_up_to


def aggregates_of(function: typed.Total) -> list[typed.Aggregate] | None:
    """The aggregates over a whole frame that a result is made of; None if it is made otherwise."""
    aggregates: list[typed.Aggregate] = []
    return aggregates if _collect(function.result, function.values, aggregates) else None


def _collect(expr: typed.Expr, values: typed.Variable, aggregates: list[typed.Aggregate]) -> bool:
    match expr:
        case typed.Aggregate(_, typed.Var(variable), None) if variable == values:
            if expr not in aggregates:
                aggregates.append(expr)
            return True
        case typed.Var(variable):
            return variable != values
        case _:
            return all(_collect(child, values, aggregates) for child in children(expr))


def prefix_parts(function: typed.Total) -> tuple[Literal["sum", "count"], ...] | None:
    """What is kept of all rows, so that what is before a row follows; None if that is no help."""
    aggregates = aggregates_of(function)
    if aggregates is None or any(
        aggregate.function not in _FROM_TOTALS for aggregate in aggregates
    ):
        return None
    needs_sum = any(aggregate.function != "count" for aggregate in aggregates)
    if needs_sum and part_type(function.argument.type) is None:
        return None
    return ("sum", "count") if needs_sum else ("count",)


def part_type(summand: Type) -> Type | None:
    """The type of an exact sum; None for what cannot be summed exactly in parts."""
    match summand:
        case _ if is_float(summand):
            return EXACT_SUM
        case _ if is_integer(summand):
            return Decimal(_WIDEST, 0)
        case Decimal(precision, scale) if precision <= _HALF:
            return Decimal(_WIDEST, scale)
        case _:
            return None


_WIDEST: Final = 38
_HALF: Final = 19


def window_read(body: typed.Expr, additivity: Additivity, names: Names) -> WindowRead | None:
    """The window that a body maps row by row; None if it is something else."""
    windows = [node for node in nodes(body) if isinstance(node, typed.Window)]
    if len(windows) != 1 or additivity.count != 1:
        return None
    (window,) = windows
    if additivity.additive(window.operand) != frozenset((0,)):
        return None
    inside = [key.expr for key in window.order]
    for function in window.functions:
        match function:
            case typed.Pick(_, argument, _, _, default):
                inside += [argument, default]
            case typed.Total(_, argument, _, result):
                inside += [argument, result]
            case typed.Rank():
                pass
    if any(map(additivity.sides_read, inside)):
        return None
    if free_variables(window) - {additivity.group}:
        return None
    assert isinstance(additivity.group.type, Tuple)
    group = names.variable("windowed", Tuple((additivity.group.type.items[0], window.type)))
    replaced = _replace(body, window, build.item(build.var(group), 1))
    over = substitute(
        replaced,
        {additivity.group: build.tuple_of(build.item(build.var(group), 0), window.operand)},
    )
    over = build.reduce_projections(over)
    if Additivity(group, 1).additive(over) != frozenset((0,)) or free_variables(over) - {group}:
        return None
    return WindowRead(window, group, over)


def _replace(expr: typed.Expr, part: typed.Expr, by: typed.Expr) -> typed.Expr:
    if expr is part:
        return by
    return map_children(lambda child: _replace(child, part, by), expr)


def ordered_pairs(window: typed.Window, names: Names) -> typed.Expr:
    """The pairs (sort keys, row) of a window's rows."""
    one = names.like(window.row)
    keys = _sort_keys(window, one, names)
    return build.for_each(one, window.operand, build.tuple_of(keys, build.var(one)))


def _sort_keys(window: typed.Window, one: typed.Variable, names: Names) -> typed.Expr:
    """The tuple of the sort keys of a row."""
    return build.tuple_of(
        *(
            substitute(rename_binders(key.expr, names.like), {window.row: build.var(one)})
            for key in window.order
        )
    )


def prefix_requests(read: WindowRead, names: Names) -> Sequence[Sequence[typed.Expr]]:
    """For each function, the aggregates of all rows that its `prefix_parts` are."""
    requests: list[Sequence[typed.Expr]] = []
    is_onward = isinstance(reach_of(read), Onward)
    for function in read.window.functions:
        parts: list[typed.Expr] = []
        if is_onward and isinstance(function, typed.Rank) and function.name == "dense_rank":
            one = names.like(read.window.row)
            bag = build.for_each(
                one,
                rename_binders(read.window.operand, names.like),
                _sort_keys(read.window, one, names),
            )
            different = typed.Builtin("distinct", (bag,), type=bag.type)
            parts.append(typed.Aggregate("count", different, type=LONG))
        if is_onward and isinstance(function, typed.Total) and _is_running(function.frame):
            one = names.like(read.window.row)
            argument = substitute(
                rename_binders(function.argument, names.like), {read.window.row: build.var(one)}
            )
            for kind in prefix_parts(function) or ():
                bag = build.for_each(one, rename_binders(read.window.operand, names.like), argument)
                if kind == "count":
                    parts.append(typed.Aggregate("count", bag, type=LONG))
                else:
                    exact = part_type(argument.type)
                    assert exact is not None
                    parts.append(typed.Aggregate("sum#part", bag, type=exact))
        requests.append(parts)
    return requests
