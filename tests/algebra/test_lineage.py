"""A query with notes: its value is what the oracle, an evaluation that remembers, finds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incmrql.algebra.lineage.queries import annotate
from incmrql.algebra.scripts import run_item
from incmrql.errors import QueryError, SourceText
from incmrql.reference import Environment, evaluate, new_world
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types import typed
from incmrql.types.infer.scripts import infer_script
from incmrql.types.walk import bound_variables, free_variables, nodes
from incmrql.values import Bag, Value, identical, show
from tests.algebra.check import check_expr
from tests.algebra.shapes import shape_queries
from tests.effort import fewer, mostly_slow
from tests.generators.queries import queries, scripts
from tests.generators.tables import CATALOG, tables
from tests.oracle.lineage import debug, lineage
from tests.reference.running import typed_script
from tests.reference.test_lineage import EXPECTED, QUERIES, ROWS, TABLES, TIES

KINDS: tuple[typed.ItemKind, ...] = ("lineage", "debug")
MORE = [
    "(select (select (a, y) from (a, b) in S where a = x) from (x, y) in R)",
    "select z from x in (select (select b from (a, b) in S where a = r#0) from r in R), z in x",
    "select (k, (select z from z in y where z > 10)) from (x, y) in R group by k: x",
    "select z from q in (select y from (x, y) in R group by x), z in q",
    "select (w.y, v.x) from w in (select partition from (x, y) in R group by k: x % 2), v in w",
    "select z from t in (select s from x in R, s = (select y from y in S where y = x)), z in t",
    "select z from x in R, z in case x { (1, *): S | (a, *): (select y from y in S where y = x) }",
    "select distinct (x, (select b from (a, b) in S)) from (x, y) in R order by x desc, y limit 2",
    "flatten(select (select (a, x) from (a, *) in S) from (x, *) in R)",
    "select (x, count(y)) from (x, y) in (R union S) group by x having count(y) < 3",
    "(R except S) union (R intersect R)",
    "select z from x in {1, 2}, z in R where z#0 = x",
    "[S, R]#0",
    "(if count(S) > 1 then R else {(1, 1)})#0",
    "if count(S) > 1 then (select y from (x, y) in R) else {7}",
    "if count(S) > 1 then (if count(R) > 1 then S else {(1, 1)}) else R",
    "select z from (x, y) in R, z in (if x > 1 then S else {(x, y)})",
    "select z from (x, y) in R, v = (if x > 1 then S else {(x, y)}), z in v",
    "(if count(S) > 1 then R else {(1, 1)}) union (case count(S) { 1: {(2, 2)} | *: R })",
    "select w from v in (select (if x > 1 then S else {(x, y)}) from (x, y) in R), w in v",
    "flatten(if count(S) > 1 then (select (select b from (a, b) in S where a = x) "
    "from (x, y) in R) else {{1}, {2}})",
    "select z from x in ((select (select b from (a, b) in S where a = x) from (x, y) in R) "
    "union (select {y} from (x, y) in R)), z in x",
    "select case x { z as long: (z, y) | *: (0 as long, y) } from (x, y) in R",
    "case [elem(R)#0] { v as [long]: (select z from z in v) | *: {} }",
]  # fmt: skip


def check_notes(
    text: str, kind: typed.ItemKind, script: typed.Script, rows: dict[str, Value]
) -> bool:
    """Whether notes are a query; if so, check that its value is what the oracle remembers."""
    world = new_world(script, registered=rows)
    item = replace(script.items[-1], kind=kind)
    for before in script.items[:-1]:
        world.snapshots.clear()
        run_item(before, world, lambda _item, _value: None)
    world.snapshots.clear()
    remember = lineage if kind == "lineage" else debug
    expected = remember(item.expr, Environment(world))
    try:
        noted = annotate(item, script, world.stored, lambda source: source.name)
    except QueryError as error:
        if error.code != "A003":
            raise
        return False
    check_expr(noted.expr, frozenset())
    world.stored.update(noted.stored)
    world.snapshots.clear()
    answer = noted.answer(evaluate(noted.expr, Environment(world)))
    assert identical(answer, expected), f"{kind} {text}\n{show(answer)}, not\n{show(expected)}"
    return True


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text", mostly_slow([*[text for text, _ in EXPECTED], *QUERIES, *TIES, *MORE], 4)
)
@fewer
@given(left=ROWS, right=ROWS)
def test_notes(text: str, kind: typed.ItemKind, left: list[Value], right: list[Value]) -> None:
    script = typed_script(f"{text};", TABLES)
    assert check_notes(text, kind, script, {"R": left, "S": right})


@fewer
@given(
    text=st.one_of(queries(), scripts(), shape_queries()),
    rows=tables(),
    kind=st.sampled_from(KINDS),
)
def test_notes_of_any_query(text: str, rows: dict[str, Bag], kind: typed.ItemKind) -> None:
    with deep_recursion():
        check_notes(text, kind, infer_script(parse_script(SourceText(text)), CATALOG), {**rows})


@pytest.mark.parametrize("kind", KINDS)
def test_most_queries_have_notes(kind: typed.ItemKind) -> None:
    """Nearly all random queries are compared, and not refused."""
    outcomes: Counter[bool] = Counter()

    @settings(max_examples=60, database=None, derandomize=True)
    @given(text=st.one_of(queries(), shape_queries()))
    def count_outcome(text: str) -> None:
        with deep_recursion():
            script = infer_script(parse_script(SourceText(text)), CATALOG)
            outcomes[
                check_notes(text, kind, script, {name: Bag() for name in ("R", "S", "N", "W")})
            ] += 1

    count_outcome()
    assert outcomes[True] >= 50


def test_stored_values_are_sources() -> None:
    text = """
        store x := select y from (x, y) in R;
        store z := select y from (x, y) in R order by y;
        store n := 5;
        select (a, n) from a in x, b in z, c in z where a = b and b = c
    """
    script = typed_script(f"{text};", TABLES)
    for kind in KINDS:
        assert check_notes(text, kind, script, {"R": [(1, 2), (3, 2), (None, None)], "S": []})


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("select random(x) from (x, y) in R", "lineage", "random"),
        ("function f(n: int): long { random(n) }; select f(x) from (x, y) in R", "debug", "random"),
    ],
)
def test_what_has_no_notes(text: str, kind: typed.ItemKind, why: str) -> None:
    script = typed_script(f"{text};", TABLES)
    with pytest.raises(QueryError) as caught:
        annotate(replace(script.items[-1], kind=kind), script, {}, lambda source: source.name)
    assert caught.value.code == "A003"
    assert why in caught.value.problems[0].message


def test_an_inner_query_does_not_tell_of_the_row_around_it() -> None:
    """That would tie it to all of the outer row, and not only to a key."""
    text = "select x from (x, y) in R where exists (select a from (a, b) in S where a = x)"
    script = typed_script(f"lineage {text};", TABLES)
    noted = annotate(script.items[-1], script, {}, lambda source: source.name).expr
    outer = {v for v in bound_variables(noted) if v.name == "note" and _is_of(noted, v, "R")}
    inner = [node for node in nodes(noted) if isinstance(node, typed.Select) and node != noted]
    assert outer
    assert len(inner) > 2
    assert not [node for node in inner if free_variables(node) & outer]


def _is_of(query: typed.Expr, note: typed.Variable, source: str) -> bool:
    """Whether the outermost from clause ranges over a source and binds a note."""
    assert isinstance(query, typed.Select)
    generator = query.qualifiers[0]
    assert isinstance(generator, typed.Generator)
    reads = [node.source.name for node in nodes(generator.domain) if isinstance(node, typed.Read)]
    return reads == [source] and note in bound_variables(generator.pattern)
