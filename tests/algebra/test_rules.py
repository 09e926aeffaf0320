"""Every rule keeps the meaning of every query it touches, and does touch some."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incmrql.algebra.interpret import evaluate_query
from incmrql.algebra.optimize import PHASES, normal_form
from incmrql.algebra.rewrite import ExprRule, Rule, normalize
from incmrql.algebra.rows import Names
from incmrql.algebra.term import Query
from incmrql.algebra.translate import translate
from incmrql.algebra.walk import variables_of
from incmrql.diagnostics import QueryError, Source
from incmrql.reference import Environment, evaluate, new_world
from incmrql.syntax import parse_script
from incmrql.syntax.depth import room
from incmrql.types import infer_script, typed
from incmrql.values import Bag, Record, identical, show
from tests.algebra.refusals import reject_if_refused
from tests.queries import CATALOG, queries, tables

Tables = dict[str, Bag]
RULES = list(dict.fromkeys(rule for phase in PHASES for rule in phase.rules))
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.name))

REACHED_BY = {
    "narrow-groups": "select (k, sum(x.A)) from x in R group by k: x.B",
    "fuse-cmaps": "select x.A from x in R",
    "identity-cmap": "select x from x in R",
    "cmap-below-union": "select x.A from x in R union R",
    "flatten-union": "(R union R) union R",
    "drop-empty": "{} union R",
    "field-of-record": "select x.A from x in R",
    "item-of-tuple": "select x.A from x in R",
    "inline-binding": "select x.A from x in R",
    "inline-single-use": "select (k, sum(x.A)) from x in R group by k: x.B",
    "split-name": "select (k, avg(x.A)) from x in R group by k: x.B",
    "split-binding": "select a from x in R, (a, b) = (x.A, x.B + 1)",
    "generator-over-one": "select x.A + y from x in R, y in {x.B}",
    "flatten-query": "select y from x in N, y in (select z.v from z in x.items where z.v > 1)",
    "query-over-nothing": "select x.A from x in R where x.B > 1",
    "map-identity": "select (k, sum(x.A)) from x in R group by k: x.B",
    "fuse-maps": "select (k, sum(x.A)) from x in R group by k: x.B",
    "fold-constants": "select x.A from x in R where x.B > 1 + 2",
    "if-constant": "select x.A from x in R where true",
}


def translated(text: str) -> tuple[typed.Script, Query]:
    script = infer_script(parse_script(Source(text)), CATALOG)
    return script, translate(script.items[0].expr, script)


def used(query: Query, rules: list[Rule]) -> tuple[Query, set[str]]:
    names = Names(max((v.number for v in variables_of(query)), default=0))
    after, steps = normalize(query, rules, names)
    return after, {step.rule.name for step in steps}


def test_every_rule_has_a_query_that_reaches_it() -> None:
    assert set(REACHED_BY) == {rule.name for rule in RULES}


@each_rule
def test_rule_is_reachable(rule: Rule) -> None:
    """Guard against a vacuous pass: on the way to normal form, the rule is used."""
    _, steps = normal_form(translated(REACHED_BY[rule.name])[1])
    assert rule.name in {step.rule.name for step in steps}


@settings(max_examples=2 * settings().max_examples)
@given(rule=st.sampled_from(RULES), text=queries(), data=tables())
def test_each_rule_alone_keeps_the_meaning(rule: Rule, text: str, data: Tables) -> None:
    """On the translated query, and after the maps are fused, which gives most rules work."""
    with room():
        try:
            script, query = translated(text)
        except QueryError as error:
            reject_if_refused(error)
        env = Environment(new_world(script, registered=data))
        expected = evaluate(script.items[0].expr, env)
        fused, _ = used(query, [rule for rule in RULES if rule.name == "fuse-cmaps"])
        after, fired = used(fused if isinstance(rule, ExprRule) else query, [rule])
        if fired:
            assert identical(evaluate_query(after, env), expected), text


def test_a_group_inside_a_row_keeps_its_variables() -> None:
    """Inlining x below would leave the group without it."""
    text = "select x.A from x in R where exists (select y from y in {(x.A, 0.0)} group by y)"
    script, query = translated(text)
    row = Record({"A": 1, "B": 1, "C": 0.0, "S": ""})
    env = Environment(new_world(script, registered={"R": Bag([row])}))
    assert evaluate_query(normal_form(query)[0], env) == Bag([1])


@given(text=queries(), data=tables())
def test_normal_form_means_what_the_query_means(text: str, data: Tables) -> None:
    with room():
        try:
            script, query = translated(text)
        except QueryError as error:
            reject_if_refused(error)
        env = Environment(new_world(script, registered=data))
        expected = evaluate(script.items[0].expr, env)
        got = evaluate_query(normal_form(query)[0], env)
        assert identical(expected, got), f"{text}\n{show(expected)}\n{show(got)}"
