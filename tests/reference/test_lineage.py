"""Lineage: the values are those of the query, the sources those that matter."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.algebra.scripts import run_script
from incmrql.errors import SourceText
from incmrql.reference import new_world
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types.infer.scripts import infer_script
from incmrql.types.model import INT, Collection, Tuple
from incmrql.values import Bag, Record, Value, encode
from tests.effort import half
from tests.generators.queries import queries
from tests.generators.tables import CATALOG, tables
from tests.reference.running import Registered, run, value

PAIR = Tuple((INT, INT))
R = [(1, 10), (1, 20), (2, 30)]
S = [(1, 7), (3, 8)]
TABLES: Registered = {"R": (PAIR, R), "S": (PAIR, S)}


def lineage(text: str, tables: Registered = TABLES) -> dict[bytes, list[Value]]:
    """For each row of the answer the sorted contributions."""
    rows = value(f"lineage {text}", tables)
    return {encode(row): sorted(sources) for row, sources in rows}


def r(*positions: int) -> list[Value]:
    return [("R", R[position]) for position in positions]


def s(*positions: int) -> list[Value]:
    return [("S", S[position]) for position in positions]


EXPECTED: list[tuple[str, dict[Value, list[Value]]]] = [
    ("select y from (x, y) in R where x = 1", {10: r(0), 20: r(1)}),
    ("select (a, b) from (x, a) in R, (x, b) in S", {(10, 7): r(0) + s(0), (20, 7): r(1) + s(0)}),
    ("select (x, sum(y)) from (x, y) in R group by x", {(1, 30): r(0, 1), (2, 30): r(2)}),
    ("select x from (x, y) in R group by x having count(y) > 1", {1: r(0, 1)}),
    ("select distinct x from (x, y) in R", {1: r(0, 1), 2: r(2)}),
    ("select y from (x, y) in R order by y desc limit 1", {30: r(2)}),
    ("(select x from (x, y) in R where y = 10) union (select 9 from z in S where z#0 = 3)",
     {1: r(0), 9: s(1)}),
    ("(select x from (x, *) in R) intersect (select x from (x, *) in S)", {1: r(0, 1) + s(0)}),
    ("(select x from (x, *) in R) except (select x from (x, *) in S)",
     {1: r(0, 1), 2: r(2)}),
    ("select x from (x, y) in R where exists (select z from z in S where z#0 = x and y = 10)",
     {1: r(0) + s(0)}),
    ("select (y, count(S)) from (x, y) in R where y = 30", {(30, 2): r(2) + s(0, 1)}),
    ("count(R)", {3: r(0, 1, 2)}),
    ("R#1", {10: r(0), 20: r(1), 30: r(2)}),
    ("if count(S) > 1 then (select y from (x, y) in R where x = 2) else {}", {30: r(2)}),
    ("select a from (x, y) in R, a in {y, y + 1} where x = 2", {30: r(2), 31: r(2)}),
    ("case elem(S) { (a, b): a + b }", {8: s(0, 1)}),
    ("fold(\\(a: int, z: (int, int)): int. a + z#1, 0, S)", {15: s(0, 1)}),
    ("repeat n = 0 step n + count(S) limit 2", {4: s(0, 1)}),
    ("1 + 1", {2: []}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), EXPECTED, ids=[text for text, _ in EXPECTED])
def test_lineage(text: str, expected: dict[Value, list[Value]]) -> None:
    assert lineage(text) == {encode(row): sources for row, sources in expected.items()}


def test_named_queries_and_functions() -> None:
    text = "Q = select (x, y) from (x, y) in R where x = 2; lineage select y from (x, y) in Q"
    assert value(text, TABLES) == Bag([(30, Bag(r(2)))])
    text = "function f(n: int): long { n + count(S) }; "
    text += "lineage select f(y) from (x, y) in R where x = 2"
    assert value(text, TABLES) == Bag([(32, Bag(r(2) + s(0, 1)))])


def test_a_stored_value_is_a_source() -> None:
    text = "store x := select (a, b) from (a, b) in R; "
    text += "lineage select b from (a, b) in x where a = 2"
    assert value(text, TABLES) == Bag([(30, Bag([("x", (2, 30))]))])
    assert value("store n := 5; lineage n + 1") == Bag([(6, Bag([("n", 5)]))])
    text = "store n := 5; function f(k: int): int { k + n }; lineage f(1)"
    assert value(text) == Bag([(6, Bag([("n", 5)]))])


def test_the_lineage_of_a_list_is_a_list() -> None:
    sources = value("lineage select y from (x, y) in R order by y desc", TABLES)
    assert not isinstance(sources, Bag)
    assert sources == [(30, Bag(r(2))), (20, Bag(r(1))), (10, Bag(r(0)))]
    notes = value("debug select y from (x, y) in R order by y desc", TABLES)
    assert [row for row, _ in notes] == [30, 20, 10]


def test_the_same_row_twice_counts_by_occurrence() -> None:
    tables: Registered = {"R": (INT, [5, 5])}
    assert value("lineage sum(R)", tables) == Bag([(10, Bag([("R", 5), ("R", 5)]))])
    assert value("lineage select x + y from x in {1}, y in R limit 1", tables) == Bag(
        [(6, Bag([("R", 5)]))]
    )
    joined = value("lineage select (x, y) from x in R, y in R", tables)
    assert sorted(len(sources) for _, sources in joined) == [1, 1, 2, 2]


QUERIES = [
    "select (x, y) from (x, y) in R where y > 1",
    "select (x, a, b) from (x, a) in R, (x, b) in S",
    "select (k, sum(y), count(S)) from (x, y) in R group by k: x % 2 having count(x) > 1",
    "select distinct x from (x, y) in R order by x desc limit 2",
    "select (x, (select b from (a, b) in S where a = x)) from (x, y) in R",
    "(R union S) except (R intersect S)",
    "select (k, partition) from (x, y) in R, z = x + y group by k: z",
    "select (k, y) from (x, y) in R group by k: x order by sum(y), k",
    "select (a, s) from (a, s) in (select (x, sum(y)) from (x, y) in R group by x) where s > 1",
    "[R#0, S#1]",
    "(if exists R then R else S)#1",
    "flatten(select {x, y} from (x, y) in R)",
    "let z = count(R) in select (z, x) from (x, *) in S",
    "avg(R#1)",
    "select x from (x, y) in R limit 2",
    "select case x { 1: {y} | *: {} } from (x, y) in R",
    "repeat a = (R#0) step distinct(select x / 2 from x in a)",
    "select t from x in R, t = trace(x#0 + 1) where some (a, b) in S: a = t",
]
TIES = [
    "select x from (x, y) in R order by x limit 2",
    "select x % 2 from (x, y) in R limit 1",
    "select distinct x from (x, y) in R order by y desc limit 2",
    "select x from (x, y) in R where exists (select z from z in R where z#0 = x limit 1)",
]  # fmt: skip
ROWS = st.lists(st.tuples(st.none() | st.integers(0, 3), st.integers(0, 3)), max_size=5)


@pytest.mark.parametrize("text", QUERIES)
@half
@given(left=ROWS, right=ROWS)
def test_the_values_are_those_of_the_query(
    text: str, left: list[Value], right: list[Value]
) -> None:
    tables: Registered = {"R": (PAIR, left), "S": (PAIR, right)}
    plain, traced, shown = run(f"{text}; lineage {text}; debug {text};", tables)
    expected = Bag(plain) if isinstance(plain, list) else Bag([plain])
    assert Bag([row for row, _ in traced]) == expected
    assert Bag([row for row, _ in shown]) == expected
    read = {("R", row) for row in left} | {("S", row) for row in right}
    assert all(set(sources) <= read for _, sources in traced)


@pytest.mark.slow
@pytest.mark.parametrize("text", QUERIES[:-1] + TIES)
@half
@given(left=ROWS, right=ROWS, shuffle=st.randoms(use_true_random=False))
def test_the_order_of_the_rows_of_a_source_means_nothing(
    text: str, left: list[Value], right: list[Value], shuffle: Random
) -> None:
    answers = []
    for _ in range(2):
        tables: Registered = {"R": (PAIR, list(left)), "S": (PAIR, list(right))}
        answers.append(run(f"lineage {text}; debug {text};", tables))
        shuffle.shuffle(left)
        shuffle.shuffle(right)
    assert [encode(Bag(answer)) for answer in answers[0]] == [
        encode(Bag(answer)) for answer in answers[1]
    ]


def test_what_has_a_name_is_not_one_more_row() -> None:
    assert value("store n := 5; q = n; lineage q") == Bag([(5, Bag([("n", 5)]))])


def leaves(tree: Record) -> list[Value]:
    if tree["operator"].startswith("source "):
        return [(tree["operator"].removeprefix("source "), tree["value"])]
    return [leaf for part in tree["inputs"] for leaf in leaves(part)]


@given(left=ROWS, right=ROWS)
def test_the_leaves_of_the_debug_tree_are_the_lineage(
    left: list[Value], right: list[Value]
) -> None:
    tables: Registered = {"R": (PAIR, left), "S": (PAIR, right)}
    text = "select (x, trace(a), count(S)) from (x, a) in R, (x, b) in S where a > 0"
    traced, trees = run(f"lineage {text}; debug {text};", tables)
    by_row = {encode((row, set_of(sources))) for row, sources in traced}
    assert {encode((row, set_of(leaves(tree)))) for row, tree in trees} == by_row


def set_of(values: list[Value]) -> list[Value]:
    return sorted({encode(value).hex() for value in values})


def test_a_trace_is_a_named_node() -> None:
    ((_, tree),) = value("debug select trace(x + 1) from x in R#0 where x = 2", TABLES)

    def operators(node: Record) -> list[str]:
        return [node["operator"], *[name for part in node["inputs"] for name in operators(part)]]

    assert "trace x + 1" in operators(tree)


@given(queries(), tables())
def test_the_values_are_those_of_any_query(text: str, rows: dict[str, Bag]) -> None:
    script = infer_script(
        parse_script(SourceText(f"{text}; lineage {text}; debug {text};")), CATALOG
    )
    answers: list[Value] = []
    world = new_world(script, registered=rows)
    run_script(script, world, lambda _, answer: answers.append(answer))
    plain, traced, trees = answers
    type_ = script.items[0].expr.type
    expected = Bag(plain or []) if isinstance(type_, Collection) else Bag([plain])
    assert Bag([row for row, _ in traced]) == expected
    assert Bag([row for row, _ in trees]) == expected
