"""Every rule keeps the meaning of every query it touches, and does touch some."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incmrql.algebra.normalize.rewrite import ExprRule, Rule, normalize
from incmrql.algebra.normalize.strategy import PHASES, normal_form
from incmrql.algebra.rows import Names
from incmrql.algebra.term import Query
from incmrql.algebra.translate.queries import translate
from incmrql.algebra.walk import variables_of
from incmrql.errors import QueryError, SourceText
from incmrql.reference import Environment, evaluate, new_world
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types import typed
from incmrql.types.infer.scripts import infer_script
from incmrql.values import Bag, Record, identical, show
from tests.algebra.check import well_typed
from tests.algebra.evaluating import evaluate_query
from tests.algebra.refusals import reject_if_refused
from tests.algebra.shapes import shape_queries
from tests.effort import half
from tests.generators.queries import queries
from tests.generators.tables import CATALOG, tables

Tables = dict[str, Bag]
RULES = list(dict.fromkeys(rule for phase in PHASES for rule in phase.rules))
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.name))

GROUPS = "(select (k, count(y)) from y in R group by k: y.A)"

SUB_QUERY = "exists (select y from y in R where y.A < x.A + {0} and y.B > {0})"
"""It depends on a row by more than equalities, so it is asked of the distinct values of rows."""

REACHED_BY = {
    "narrow-groups": "select (k, sum(x.A)) from x in R group by k: x.B",
    "count-present": "select (k, count(i), sum(i.w)) from m in N, i in m.items group by k: i.v",
    "fuse-cmaps": "select x.A from x in R",
    "identity-cmap": "select x from x in R",
    "cmap-below-union": "select x.A from x in R union R",
    "flatten-union": "(R union R) union R",
    "drop-empty": "{} union R",
    "field-of-record": "select x.A from x in R",
    "item-of-tuple": "select x.A from x in R",
    "inline-binding": "select x.A from x in R",
    "inline-single-use": "select (k, sum(x.A)) from x in R group by k: x.B",
    "inline-view": "select (a, sum(b), avg(b)) from (a, b) in "
    "(select (x.A, x.C) from x in R) group by a",
    "split-name": "select (k, avg(x.A)) from x in R group by k: x.B",
    "split-binding": "select a from x in R, (a, b) = (x.A, x.B + 1)",
    "generator-over-one": "select x.A + y from x in R, y in {x.B}",
    "flatten-query": "select y from x in N, y in (select z.v from z in x.items where z.v > 1)",
    "query-over-nothing": "select x.A from x in R where x.B > 1",
    "map-identity": "select (k, sum(x.A)) from x in R group by k: x.B",
    "fuse-maps": "select (k, sum(x.A)) from x in R group by k: x.B",
    "fold-constants": "select x.A from x in R where x.B > 1 + 2",
    "if-constant": "select x.A from x in R where true",
    "generator-over-map": "select y from x in N, y in x.items.v",
    "generator-over-if": "select n from x in R, (k, n) in (select (k, count(y)) from y in R "
    "where y.B > 1 group by k: y.A) where x.A = k",
    "repeated-condition": "select x.A from x in R where x.A > 1 and x.A > 1",
    "filter-groups-early": f"select n from (k, n) in {GROUPS} where k > 1",
    "filter-before-join": "select (x.A, z.B) from x in R, y in S, z in R "
    "where x.A = y.A and x.B = z.A",
    "forget-order": "select n from (k, n) in "
    "(select (k, count(x)) from x in R group by k: x.B order by k)",
    "group-self-join": f"select (x.A, n) from x in R, (k, n) in {GROUPS} where x.A = k",
    "group-self-cogroup": "select x.C from x in R "
    "where x.C > avg(select y.C from y in R where y.A = x.A)",
    "group-before-join": f"select (x.S, y.D, n) from x in R, y in S, (k, n) in {GROUPS} "
    "where x.A = k and y.A = x.B",
    "meet-once": "select (x.A, count(select y from y in S where y.A = x.B), "
    "sum(select y.D from y in S where y.A = x.B and y.D > 1.0)) from x in R",
    "share-groups": "(select (k, sum(x.A)) from x in R group by k: x.B) union "
    "(select (x.A, y) from x in R, (k, y) in (select (k, count(x)) from x in R group by k: x.B))",
    "aggregate-below-join": "select (x.A, avg(y.D)) from x in R, y in S where x.B = y.A "
    "group by x.A",
    "share-terms": "select (x, y) from x in distinct(R.A), y in distinct(R.A)",
}


def script_and_query(text: str) -> tuple[typed.Script, Query]:
    script = infer_script(parse_script(SourceText(text)), CATALOG)
    return script, translate(script.items[0].expr, script)


def normalize_with(query: Query, rules: list[Rule]) -> tuple[Query, set[str]]:
    names = Names(max((v.number for v in variables_of(query)), default=0))
    after, steps = normalize(query, rules, names)
    return after, {step.rule.name for step in steps}


def test_every_rule_has_a_query_that_reaches_it() -> None:
    assert set(REACHED_BY) == {rule.name for rule in RULES}


@each_rule
def test_rule_is_reachable(rule: Rule) -> None:
    """Guard against a vacuous pass: on the way to normal form, the rule is used."""
    _, steps = normal_form(script_and_query(REACHED_BY[rule.name])[1])
    assert rule.name in {step.rule.name for step in steps}


def ready_for(rule: Rule, query: Query) -> Query:
    """The query after the phases before the rule's own, which give it work.

    Rules for expressions come with the first phase, where maps are still apart: these are fused.
    """
    if isinstance(rule, ExprRule):
        return normalize_with(query, [rule for rule in RULES if rule.name == "fuse-cmaps"])[0]
    for phase in PHASES:
        if rule in phase.rules:
            return query
        query, _ = normalize_with(query, list(phase.rules))
    raise AssertionError(rule)


@settings(max_examples=2 * settings().max_examples)
@given(rule=st.sampled_from(RULES), text=st.one_of(queries(), shape_queries()), data=tables())
def test_each_rule_alone_keeps_the_meaning(rule: Rule, text: str, data: Tables) -> None:
    """What it does to random queries changes no answer, and no type."""
    with deep_recursion():
        try:
            script, query = script_and_query(text)
        except QueryError as error:
            reject_if_refused(error)
        env = Environment(new_world(script, registered=data))
        expected = evaluate(script.items[0].expr, env)
        after, fired = normalize_with(ready_for(rule, query), [rule])
        if fired:
            well_typed(after)
            assert identical(evaluate_query(after, env), expected), text


def test_a_group_inside_a_row_keeps_its_variables() -> None:
    """Inlining x below would leave the group without it."""
    text = "select x.A from x in R where exists (select y from y in {(x.A, 0.0)} group by y)"
    script, query = script_and_query(text)
    row = Record({"A": 1, "B": 1, "C": 0.0, "S": ""})
    env = Environment(new_world(script, registered={"R": Bag([row])}))
    assert evaluate_query(normal_form(query)[0], env) == Bag([1])


@half
@given(text=st.one_of(queries(), shape_queries(), shape_queries()), data=tables())
def test_normal_form_means_what_the_query_means(text: str, data: Tables) -> None:
    with deep_recursion():
        try:
            script, query = script_and_query(text)
        except QueryError as error:
            reject_if_refused(error)
        env = Environment(new_world(script, registered=data))
        expected = evaluate(script.items[0].expr, env)
        got = evaluate_query(normal_form(query)[0], env)
        assert identical(expected, got), f"{text}\n{show(expected)}\n{show(got)}"


def test_a_long_query_has_a_normal_form() -> None:
    """It takes more than ten thousand steps, each of them to something simpler."""
    columns = ", ".join(f"(x.A + ({n} + 1) * (2 + {n})) * y.A" for n in range(2_100))
    with deep_recursion():
        _, query = script_and_query(f"select ({columns}) from x in R, y in S where x.A = y.A")
        _, steps = normal_form(query)
    assert len(steps) > 10_000


@pytest.mark.parametrize("count", [4, 6])
def test_rows_that_sub_queries_share_are_rewritten_once(count: int) -> None:
    """Written out at each use, the innermost rows would be rewritten 2^n times."""

    def steps(tests: int) -> int:
        condition = " or ".join(SUB_QUERY.format(number) for number in range(tests))
        return len(normal_form(script_and_query(f"select x.A from x in R where {condition}")[1])[1])

    assert steps(2 * count) < 4 * steps(count)
