"""The translated query means what the reference evaluator says of the tree."""

from __future__ import annotations

import pytest
from hypothesis import given

from incmrql.algebra.translate.queries import translate
from incmrql.errors import QueryError, SourceText
from incmrql.reference import Environment, evaluate, new_world
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types.infer.scripts import infer_script
from incmrql.values import Bag, Record, Value, identical, show
from tests.algebra.evaluating import evaluate_query
from tests.algebra.refusals import reject_if_refused
from tests.effort import fewer
from tests.generators.queries import queries, scripts
from tests.generators.tables import CATALOG, tables

Tables = dict[str, Bag]


def both_ways(text: str, data: Tables) -> list[tuple[Value, Value]]:
    """What the evaluator of trees and that of terms say of each item."""
    script = infer_script(parse_script(SourceText(text)), CATALOG)
    world = new_world(script, registered=data)
    env = Environment(world)
    pairs = []
    for item in script.items:
        if item.kind == "store-value":
            world.stored[item.target] = evaluate(item.expr, env)
            continue
        expected = evaluate(item.expr, env)
        pairs.append((expected, evaluate_query(translate(item.expr, script), env)))
    return pairs


def agree(text: str, data: Tables) -> None:
    with deep_recursion():
        try:
            answers = both_ways(text, data)
        except QueryError as error:
            reject_if_refused(error)
        for expected, got in answers:
            assert identical(expected, got), f"{text}\n{show(expected)}\n{show(got)}"


def test_a_limit_that_reads_a_source_keeps_the_order() -> None:
    data = {"R": Bag([Record({"A": n, "B": 0, "C": 0.0, "S": ""}) for n in (2, 3, 1)])}
    agree("select x from x in R.A order by x desc limit min(R.A) + 1;", data)


EXISTENCE = (
    "select x from x in R where member(x.A, (select y.A from y in S))",
    "select x from x in R where not member(x.A, S.A)",
    "select (x.A, member(x.A + 1, (select max(y.A) from y in S group by y.T))) from x in R",
    "select x from x in R where member(null, S.A) or member(x.B, R.A)",
    "select x from x in R where some y in S: y.A = x.A and y.D > x.C",
    "select x from x in R where not (some y in S: x.B = y.A or y.A = x.A)",
    "select x from x in R where all y in S: y.A <> x.A",
    "select x from x in R where all y in S: not (y.A = x.A and y.D < 2.0)",
    "select x from x in R where not (all y in S: y.A <> x.A or y.D >= x.C)",
    "select (x.A, all y in S, z in R: y.A <> x.A or z.B <> y.A) from x in R",
    "select x from x in N where some i in x.items, y in S: i.v = y.A",
    "select x from x in R where some((select null as bool from y in S where y.A = x.A))",
)
"""Membership and quantifiers over a query, most of them by an equality; nulls are everywhere."""


@pytest.mark.parametrize("text", EXISTENCE)
@fewer
@given(data=tables())
def test_existence_means_membership_and_quantifiers(text: str, data: Tables) -> None:
    agree(text, data)


@given(text=queries(), data=tables())
def test_terms_mean_what_queries_mean(text: str, data: Tables) -> None:
    agree(text, data)


@fewer
@given(text=scripts(), data=tables())
def test_terms_mean_what_scripts_mean(text: str, data: Tables) -> None:
    agree(text, data)
