"""Data on which tempting but wrong versions of the rules give wrong answers."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.translate.queries import translate
from incmrql.errors import SourceText
from incmrql.reference import Environment, evaluate, new_world
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types.infer.scripts import infer_script
from incmrql.types.model import BOOL, DOUBLE, INT, LONG, STRING, Type
from incmrql.types.model import Decimal as DecimalType
from incmrql.types.model import Record as RecordType
from incmrql.types.scope import Catalog
from incmrql.values import Bag, Record, Value, identical, show
from tests.algebra.evaluating import evaluate_query

LEFT = RecordType((("K", INT), ("G", STRING)))
COLUMNS: tuple[tuple[str, Type], ...] = (
    ("K", INT), ("V", LONG), ("D", DOUBLE), ("P", DecimalType(10, 2)), ("F", BOOL),
    ("H", DecimalType(38, 2)),
)  # fmt: skip
RIGHT = RecordType(COLUMNS)
CATALOG = Catalog(arguments=(), registered={"X": (LEFT, False), "Y": (RIGHT, False)})
JOINED = "from x in X, y in Y where x.K = y.K group by g: x.G"
BELOW_JOIN = "aggregate-below-join"


def x(key: int | None, group: str | None = "a") -> Record:
    return Record({"K": key, "G": group})


def y(key: int | None, **values: Value) -> Record:
    return Record({name: values.get(name) if name != "K" else key for name, _ in COLUMNS})


def answer(text: str, left: list[Value], right: list[Value]) -> tuple[Value, set[str]]:
    """What the normal form says, which is what the tree says, and the rules that led to it."""
    script = infer_script(parse_script(SourceText(text)), CATALOG)
    env = Environment(new_world(script, registered={"X": Bag(left), "Y": Bag(right)}))
    query, steps = normal_form(translate(script.items[0].expr, script))
    result = evaluate_query(query, env)
    expected = evaluate(script.items[0].expr, env)
    assert identical(result, expected), f"{show(result)} is not {show(expected)}"
    return result, {step.rule.name for step in steps}


MOST = 2**63 - 1


@pytest.mark.parametrize(
    ("aggregate", "left", "right", "expected"),
    [
        # the sum for key 1 alone does not fit a long, the sum for both does
        ("sum(y.V)", [x(1), x(2)], [y(1, V=MOST), y(1, V=5), y(2, V=-10)], MOST - 5),
        # what fits once does not fit twice
        ("sum(y.V)", [x(1), x(1)], [y(1, V=MOST)], None),
        # the sum for key 1 rounded alone would be infinite, or would lose the 1
        ("sum(y.D)", [x(1), x(2)], [y(1, D=1e308), y(1, D=1e308), y(2, D=-1e308)], 1e308),
        ("sum(y.D)", [x(1), x(2)], [y(1, D=1e16), y(1, D=1.0), y(2, D=-1e16)], 1.0),
        ("sum(y.D)", [x(1), x(2)], [y(1, D=math.inf), y(2, D=-math.inf)], math.nan),
        ("sum(y.D)", [x(1), x(1), x(1)], [y(1, D=0.1)], 0.30000000000000004),
        ("avg(y.D)", [x(1), x(1), x(2)], [y(1, D=1.0), y(2, D=4.0), y(2)], 2.0),
        ("avg(y.V)", [x(1), x(1), x(2)], [y(1, V=2**53 + 1), y(2, V=2**53 + 3)], 2.0**53 + 2),
        ("avg(y.D)", [x(1)], [y(1), y(1)], None),
        ("sum(y.P)", [x(1), x(1)], [y(1, P=Decimal("0.05")), y(1)], Decimal("0.10")),
        ("avg(y.P)", [x(1), x(2)], [y(1, P=Decimal("0.05")), y(2, P=Decimal(1))],
         Decimal("0.525")),
        # every row of one side counts once for every row of the other
        ("count(y)", [x(1), x(1)], [y(1), y(1), y(1)], 6),
        ("count(y.D)", [x(1), x(1)], [y(1), y(1, D=1.0), y(1)], 2),
        ("count(x.G)", [x(1), x(1)], [y(1), y(1)], 4),
        ("max(y.D)", [x(1), x(2)], [y(1, D=1.0), y(2), y(3, D=9.0)], 1.0),
        ("(some z in y: z.F)", [x(1), x(2)], [y(1, F=False), y(2)], False),
        ("(all z in y: z.F)", [x(1), x(2)], [y(1), y(2)], True),
        ("sum(select z.V from z in y where z.D > 0.5)", [x(1), x(1)],
         [y(1, V=1, D=1.0), y(1, V=2), y(1, V=4, D=0.0)], 2),
    ],
)  # fmt: skip
def test_parts_of_aggregates(
    aggregate: str, left: list[Value], right: list[Value], expected: Value
) -> None:
    rows, rules = answer(f"select (g, {aggregate}) {JOINED}", left, right)
    assert BELOW_JOIN in rules
    assert identical(rows, Bag([("a", expected)]))


def test_a_row_with_nothing_to_add_still_counts_for_the_other_side() -> None:
    text = "select (k, sum(y.D), count(x.G)) from x in X, y in Y where x.K = y.K group by k: x.K"
    rows, rules = answer(text, [x(1, None), x(1, "a")], [y(1, D=1.0), y(1)])
    assert BELOW_JOIN in rules
    assert identical(rows, Bag([(1, 2.0, 2)]))


def test_null_keys_do_not_meet_but_null_groups_do() -> None:
    left, right = [x(None), x(1, None), x(1, None)], [y(None, D=7.0), y(1, D=1.0)]
    rows, rules = answer(f"select (g, sum(y.D)) {JOINED}", left, right)
    assert BELOW_JOIN in rules
    assert identical(rows, Bag([(None, 2.0)]))


@pytest.mark.parametrize("aggregate", ["sum(y.D)", "count(y)", "avg(y.D)", "max(y.D)"])
def test_a_side_without_rows(aggregate: str) -> None:
    assert answer(f"select (g, {aggregate}) {JOINED}", [], [y(1, D=1.0)])[0] == Bag()
    assert answer(f"select (g, {aggregate}) {JOINED}", [x(1)], [])[0] == Bag()
    total = aggregate.replace("y.", "z.").replace("(y)", "(z)").replace("(z.D)", "(z)")
    rows = "select y.D from x in X, y in Y where x.K = y.K"
    answer(total.replace("(z)", f"({rows})"), [x(1)], [])


@pytest.mark.parametrize(
    "aggregate",
    [
        "median(y.D)",
        "variance(y.D)",
        "collect(y.D)",
        "sum(y.H)",  # parts of so many digits have no type
        "count(distinct(y.D))",
        "sum(y.D), y.D",
    ],
)
def test_what_needs_the_rows_themselves(aggregate: str) -> None:
    left, right = [x(1), x(1), x(2)], [y(1, D=1.0), y(1, D=2.0), y(2, H=Decimal(10) ** 35)]
    _, rules = answer(f"select (g, {aggregate}) {JOINED}", left, right)
    assert BELOW_JOIN not in rules


def test_a_key_of_both_sides_keeps_the_pairs() -> None:
    text = "select (k, sum(y.D)) from x in X, y in Y where x.K = y.K group by k: x.K + y.V"
    _, rules = answer(text, [x(1), x(1)], [y(1, D=1.0, V=1), y(1, D=2.0, V=2)])
    assert BELOW_JOIN not in rules


GROUPS = "(select (k, count(z)) from z in Y{where} group by k: z.K{having})"


@pytest.mark.parametrize("having", ["", " having count(z) > 1"])
@pytest.mark.parametrize("where", ["", " where z.D > 0.5"])
@pytest.mark.parametrize("outer", ["", " and y.V > 1"])
def test_a_group_that_filters_empty_has_no_answer(where: str, having: str, outer: str) -> None:
    right: list[Value] = [y(1, D=0.0, V=1), y(1, D=0.1, V=2), y(2, D=1.0, V=3), y(2), y(None, V=4)]
    groups = GROUPS.format(where=where, having=having)
    joined = f"select (y.V, n) from y in Y, (k, n) in {groups} where y.K = k{outer}"
    assert "group-self-join" in answer(joined, [], right)[1]
    beside = f"select (y.V, count(select n from (k, n) in {groups} where k = y.K)) from y in Y"
    assert "group-self-join" in answer(beside, [], right)[1]


def test_groups_by_more_than_the_join_key_are_several() -> None:
    groups = "(select (k, v, count(z)) from z in Y group by k: z.K, v: z.V)"
    text = f"select (y.D, n) from y in Y, (k, v, n) in {groups} where y.K = k"
    _, rules = answer(text, [], [y(1, V=1, D=1.0), y(1, V=2, D=2.0), y(1, V=2, D=3.0)])
    assert not {"group-self-join", "group-before-join"} & rules


def test_a_null_key_meets_nobody_and_stays() -> None:
    text = "select (y.V, count(select z from z in Y where z.K = y.K)) from y in Y"
    rows, rules = answer(text, [], [y(None, V=1), y(None, V=2), y(1, V=3)])
    assert "group-self-cogroup" in rules
    assert identical(rows, Bag([(1, 0), (2, 0), (3, 1)]))


def test_null_rows_are_not_counted() -> None:
    text = "select (k, count(y)) from y in Y group by k: y.K"
    assert identical(answer(text, [], [None, y(None), y(1)])[0], Bag([(None, 1), (1, 1)]))
    below = f"select n from (k, n) in ({text}) where k > 0"
    assert answer(below, [], [None, y(1), y(0)])[0] == Bag([1])


def test_a_null_part_does_not_make_a_counted_row_null() -> None:
    text = "select (k, count(y), sum(y.V)) from y in Y where y.K > 0 group by k: y.K"
    assert answer(text, [], [y(1), y(1, V=2)])[0] == Bag([(1, 2, 2)])


def test_a_limit_keeps_the_order_and_the_ties() -> None:
    rows = "(select (y.V, y.D) from y in Y order by y.V limit 1)"
    values, rules = answer(f"select v from (v, d) in {rows} where d > 1.0", [],
                           [y(1, V=1, D=2.0), y(1, V=1, D=1.0)])  # fmt: skip
    assert "forget-order" not in rules
    assert values == Bag()


def test_what_depends_on_a_loop_is_not_shared_outside() -> None:
    step = "select a + b from a in distinct(v), b in distinct(v)"
    rows, _ = answer(f"repeat v = (select y.K from y in Y) step {step} limit 2", [], [y(1)])
    assert rows == Bag([4])


def test_a_shared_grouping_has_the_groups_that_one_use_leaves_out() -> None:
    groups = "(select (k, count(y)) from y in Y group by k: y.K)"
    text = f"((select n from (k, n) in {groups} where k > 1), {groups})"
    bags, rules = answer(text, [], [y(1), y(2), y(2), y(None)])
    assert {"share-groups", "filter-groups-early"} <= rules
    assert identical(bags, (Bag([2]), Bag([(1, 1), (2, 2), (None, 1)])))


@pytest.mark.parametrize("rule", ["share-terms", "share-groups"])
def test_chance_is_not_shared(rule: str) -> None:
    drawn = "(select distinct y.V + random(9) from y in Y)"
    script = infer_script(parse_script(SourceText(f"({drawn}, {drawn})")), CATALOG)
    _, steps = normal_form(translate(script.items[0].expr, script))
    assert rule not in {step.rule.name for step in steps}


def test_a_list_that_is_used_twice_keeps_its_order() -> None:
    rows = "select y.V from y in Y order by y.V desc limit 2"
    text = f"(({rows}), (select v + 1 from v in ({rows})), (select v * 2 from v in ({rows})))"
    lists, rules = answer(text, [], [y(1, V=n) for n in (2, 3, 1)])
    assert "share-terms" in rules
    assert lists[0] == [3, 2]
