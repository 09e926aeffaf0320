"""Monoid inference inside of functions: sound, and every rule is reached."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.algebra import rows as build
from incmrql.algebra.term import CMap, CoGroup, GroupBy, element
from incmrql.errors import QueryError
from incmrql.paper.construct import open_aggregates, split
from incmrql.paper.form import names_after
from incmrql.paper.inference import RULES, Growth, Judgment, Rule, judge, show_judgment
from incmrql.plan.additivity import Additivity
from incmrql.plan.monoids import BAG, INVARIANT, Monoid, product
from incmrql.reference import Environment, evaluate
from incmrql.types import typed
from incmrql.types.model import LONG, Collection, Data, Record, Tuple, Type, bag
from incmrql.types.walk import free_variables, nodes
from incmrql.values import Bag, Value, identical
from tests.algebra.refusals import reject_if_refused
from tests.algebra.shapes import shape_queries
from tests.effort import fewer
from tests.generators.queries import queries
from tests.generators.tables import values
from tests.paper.carriers import carrier, is_product, same
from tests.paper.run import together
from tests.paper.support import Case, case, for_each

SIDES = ((BAG, BAG), (INVARIANT, BAG), (BAG, INVARIANT))

REACHED_BY: dict[Rule, str] = {
    "bind": "select (k, x) from x in R group by k: x.A",
    "box": "select (k, 1) from x in R group by k: x.A having k > 1",
    "part": "select (k, count(x)) from x in R group by k: x.A",
    "tuple": "select (k, count(x)) from x in R group by k: x.A",
    "reduce": "select (k, max(x.B)) from x in R group by k: x.A",
    "cMap": "select (k, sum(select y.B from y in x where y.B > k)) from x in R group by k: x.A",
    "union": "select (k, sum(x.B union x.A)) from x in R group by k: x.A",
    "zero": "select (k, sum(if k > 1 then x.B else {})) from x in R group by k: x.A",
    "if": "select (k, sum(if k > 1 then x.B else x.A)) from x in R group by k: x.A",
    "let": "select (k, let n = count(x) in (n, n)) from x in R group by k: x.A",
}


def growths(map_: CMap) -> Iterator[Growth]:
    """The ways in which groups grow."""
    match map_.source:
        case GroupBy():
            yield {map_.variable: product(INVARIANT, BAG)}
        case CoGroup():
            for sides in SIDES:
                yield {map_.variable: product(INVARIANT, product(*sides))}
        case _:
            return


def judgments_of(of: Case) -> Iterator[tuple[Growth, Judgment]]:
    """The judgments of a query: for every sub-term of every function of groups."""
    for map_ in of.maps():
        for growth in growths(map_):
            for expr in nodes(open_aggregates(map_.body)):
                judgment = judge(expr, growth) if free_variables(expr) <= growth.keys() else None
                if judgment is not None:
                    yield growth, judgment


def derivation(judgment: Judgment) -> Iterator[Judgment]:
    yield judgment
    for premise in judgment.premises:
        yield from derivation(premise)


def drawable(type_: Type) -> bool:
    match type_:
        case Tuple(items):
            return all(map(drawable, items))
        case Record(fields):
            return all(drawable(field_type) for _, field_type in fields)
        case Collection(_, inside):
            return drawable(inside)
        case _:
            return not isinstance(type_, Data) and str(type_) not in ("null", "any")


def bag_of(data: st.DataObject, type_: Type) -> Bag:
    assert isinstance(type_, Collection)
    return Bag(data.draw(st.lists(values(type_.element), max_size=3)))


def parts_and_whole(data: st.DataObject, monoid: Monoid, type_: Type) -> tuple[Value, ...]:
    """Two values and their sum."""
    if is_product(monoid):
        assert isinstance(type_, Tuple)
        parts = [
            parts_and_whole(data, m, t) for m, t in zip(monoid.parts, type_.items, strict=True)
        ]
        return tuple(zip(*parts, strict=True))
    if monoid == INVARIANT:
        value = bag_of(data, type_) if isinstance(type_, Collection) else data.draw(values(type_))
        return value, value, value
    one, other = bag_of(data, type_), bag_of(data, type_)
    return one, other, Bag([*one, *other])


def holds(growth: Growth, judgment: Judgment, env: Environment, data: st.DataObject) -> None:
    """The law of a judgment, for random groups."""
    ((variable, monoid),) = growth.items()
    parts = parts_and_whole(data, monoid, variable.type)
    assert judgment.subject is not None
    one, other, whole = (evaluate(judgment.subject, env.bind(variable, part)) for part in parts)
    if judgment.monoid == INVARIANT:
        assert identical(one, whole), show_judgment(judgment)
        assert identical(other, whole), show_judgment(judgment)
        return
    merged = judgment.monoid.merge(carrier(judgment.monoid, one), carrier(judgment.monoid, other))
    assert same(judgment.monoid, merged, carrier(judgment.monoid, whole)), show_judgment(judgment)


@fewer
@given(text=shape_queries() | queries(), data=st.data())
def test_what_is_judged_is_a_homomorphism(text: str, data: st.DataObject) -> None:
    try:
        of = case(text)
    except QueryError as error:
        reject_if_refused(error)
    env = of.env({})
    for growth, judgment in judgments_of(of):
        if all(drawable(variable.type) for variable in growth):
            holds(growth, judgment, env, data)


@pytest.mark.parametrize("rule", REACHED_BY)
@for_each
@given(data=st.data())
def test_every_rule_is_sound_where_it_is_reached(rule: Rule, data: st.DataObject) -> None:
    of = case(REACHED_BY[rule])
    cases = [(g, j) for g, j in judgments_of(of) if any(d.rule == rule for d in derivation(j))]
    assert cases, rule
    for growth, judgment in cases:
        holds(growth, judgment, of.env({}), data)


def test_all_rules_are_reached() -> None:
    assert set(REACHED_BY) == set(RULES)


# --- what has no monoid --------------------------------------------------------------------------


def body(text: str) -> tuple[typed.Expr, typed.Variable]:
    """The function of groups at the top of a query."""
    top = next(case(text).maps())
    return open_aggregates(top.body), top.variable


def of_group(text: str) -> list[str]:
    """The monoids of the aggregates in a query over one group."""
    expr, group = body(text)
    growth = {group: product(INVARIANT, BAG)}
    asked = [e for e in nodes(expr) if isinstance(e, typed.Aggregate) and "total" not in e.function]
    return [
        str(judgment.monoid) if judgment else "none"
        for judgment in (judge(e, growth) for e in asked)
    ]


def test_a_condition_over_what_grows_has_no_monoid() -> None:
    text = "select (k, count(if count(x) > 1 then x.B else {{}})) from x in R group by k: x.A"
    assert of_group(text.replace("{{}}", "{}")) == ["none", "count"]
    fixed = "select (k, count(if k > 1 then x.B else {})) from x in R group by k: x.A"
    assert of_group(fixed) == ["count"]


def test_a_filter_by_what_grows_has_no_monoid() -> None:
    text = "select (k, max(select y.B from y in x where y.B > {})) from x in R group by k: x.A"
    assert of_group(text.format("count(x)")) == ["none", "count"]
    assert of_group(text.format("k")) == ["max"]
    mapped = "select (k, max(select y.B + count(x) from y in x)) from x in R group by k: x.A"
    assert of_group(mapped) == ["none", "count"]


def test_a_map_to_what_grows_has_no_monoid() -> None:
    group = typed.Variable("group", 1, Tuple((LONG, bag(LONG))))
    one = typed.Variable("each", 2, LONG)
    rows = build.item(build.var(group), 1)
    growth = {group: product(INVARIANT, BAG)}

    def map_to(head: typed.Expr) -> Judgment | None:
        return judge(typed.MapOver(one, rows, head, False, type=bag(head.type)), growth)

    assert map_to(typed.Aggregate("count", rows, type=LONG)) is None
    assert map_to(build.tuple_of(build.var(one), build.item(build.var(group), 0))) is not None


def test_a_union_with_what_does_not_grow_has_no_monoid() -> None:
    """It would count once for each batch."""
    text = "select (k, count(x.B union {})) from x in R group by k: x.A"
    assert of_group(text.replace("{}", "{1}")) == ["none"]
    assert of_group(text.replace("{}", "x.A")) == ["count"]


def test_a_loop_over_two_bags_that_grow_has_no_monoid() -> None:
    text = "select (k, count(select (y, z) from y in x, z in x)) from x in R group by k: x.A"
    assert of_group(text) == ["none"]
    fixed = "select (k, count(select (y, z) from y in x, z in {1, 2})) from x in R group by k: x.A"
    assert of_group(fixed) == ["count"]


def test_the_sides_of_a_join_grow_one_at_a_time_only() -> None:
    expr, group = body("select (x.A, y.D) from x in R, y in S where x.B = y.A")
    of_sides = [judge(expr, {group: product(INVARIANT, product(*sides))}) for sides in SIDES]
    assert [judgment and str(judgment.monoid) for judgment in of_sides] == [None, "⊎", "⊎"]


def test_median_has_no_monoid() -> None:
    assert of_group("select (k, median(x.B)) from x in R group by k: x.A") == ["none"]


def test_what_is_random_is_not_even_invariant() -> None:
    expr = typed.Builtin("random", (typed.Const(5, type=LONG),), type=LONG)
    assert judge(expr, {}) is None


# --- its relations -------------------------------------------------------------------------------


@fewer
@given(text=shape_queries() | queries())
def test_what_is_additive_in_a_side_is_a_homomorphism_of_it(text: str) -> None:
    """`judge.py` is this inference for bags, one side growing at a time."""
    try:
        of = case(text)
    except QueryError as error:
        reject_if_refused(error)
    for map_ in of.maps():
        if isinstance(map_.source, GroupBy | CoGroup):
            count = 1 if isinstance(map_.source, GroupBy) else 2
            for expr in nodes(map_.body):
                sides = Additivity(map_.variable, count).additive(expr)
                if sides and free_variables(expr) <= {map_.variable}:
                    for side in range(count):
                        agrees(expr, map_.variable, count, side, additive=side in sides)


def agrees(
    expr: typed.Expr, group: typed.Variable, count: int, side: int, *, additive: bool
) -> None:
    grow = [BAG if place == side else INVARIANT for place in range(count)]
    value = grow[0] if count == 1 else product(*grow)
    judgment = judge(expr, {group: product(INVARIANT, value)})
    assert judgment is not None
    assert judgment.monoid == (BAG if additive else INVARIANT)


@fewer
@given(text=shape_queries() | queries(), data=st.data())
def test_a_function_is_what_it_is_split_into(text: str, data: st.DataObject) -> None:
    try:
        of = case(text)
    except QueryError as error:
        reject_if_refused(error)
    for map_ in of.maps():
        for growth in growths(map_):
            parts = split(map_.body, growth, names_after(of.query))
            group = element(map_.source)
            if drawable(group):
                monoid = growth[map_.variable]
                env = of.env({}).bind(map_.variable, parts_and_whole(data, monoid, group)[2])
                assert identical(evaluate(map_.body, env), evaluate(together(parts), env))
                assert all(judge(part.expr, growth) == part.judgment for part in parts.kept)
                assert all(free_variables(part.expr) <= growth.keys() for part in parts.kept)
