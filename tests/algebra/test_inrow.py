"""A small collection inside the rows of a step means what it means as a term."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.algebra.interpret import elements
from incmrql.algebra.normalize.rules.inrow import in_row, with_values
from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.term import CoGroup, Loop, Query, Repeat, Term
from incmrql.algebra.walk import terms
from incmrql.reference import Environment, new_world
from incmrql.syntax.depth import deep_recursion
from incmrql.types import typed
from incmrql.values import Bag, Value, identical, show
from tests.algebra.check import well_typed
from tests.algebra.test_rules import Tables, script_and_query
from tests.generators.tables import tables

NEAREST = (
    "repeat c = {1, 2} step select max(x.B) from x in R "
    "group by k: (select v from v in c order by abs(v - x.A))[0] limit 1"
)
CROSSED = "repeat c = {1, 2} step select v + x.A from x in R, v in c limit 1"
COUNTED = "repeat c = {1, 2} step select count(c) + x.A from x in R limit 1"
SOME = "repeat c = {1, 2} step select x.A from x in R where some v in c: v < x.A limit 1"
WHERE = (
    "repeat c = {1, 2} step select max(select v from v in c where v > x.B and x.A > 0) "
    "from x in R where x.C > 0.0 limit 1"
)
JOINED = "repeat c = {1, 2} step select x.A from x in R, v in c where x.A = v limit 1"
ALONE = "repeat c = {1, 2} step select v + count(R) from v in c limit 1"

IN_ROW = (NEAREST, CROSSED, COUNTED, SOME, WHERE)
NOT_IN_ROW = (JOINED, ALONE)


def loop_of(text: str) -> tuple[typed.Script, Query, Repeat]:
    """The loop of a script in normal form."""
    script, query = script_and_query(text)
    normal, _ = normal_form(query)
    loops = [t for _, part in normal.parts for t in terms(part) if isinstance(t, Repeat)]
    return script, normal, loops[0]


def collection_of(values: list[Value], variable: typed.Variable) -> typed.Expr:
    element = variable.type.element  # type: ignore[union-attr]
    items = tuple(typed.Const(value, type=element) for value in values)
    return typed.MakeCollection(items, type=variable.type)


@pytest.mark.parametrize("text", IN_ROW)
def test_the_variable_is_no_term_any_more(text: str) -> None:
    _, _, loop = loop_of(text)
    body = in_row(loop.step[0], loop.variables[0])
    assert body is not None
    assert not any(isinstance(term, Loop | CoGroup) for term in terms(body))


@pytest.mark.parametrize("text", NOT_IN_ROW)
def test_a_variable_that_is_joined_or_gone_through_stays_a_term(text: str) -> None:
    _, _, loop = loop_of(text)
    assert in_row(loop.step[0], loop.variables[0]) is None


@given(
    text=st.sampled_from(IN_ROW),
    data=tables(),
    values=st.lists(st.one_of(st.none(), st.integers(-3, 3)), max_size=5),
)
def test_a_step_with_its_variable_in_row_means_the_same(
    text: str, data: Tables, values: list[Value]
) -> None:
    with deep_recursion():
        script, _, loop = loop_of(text)
        variable = loop.variables[0]
        body = in_row(loop.step[0], variable)
        assert body is not None
        inside = with_values(body, variable, collection_of(values, variable))
        well_typed(Query(((variable, inside),), typed.Var(variable, type=variable.type)))
        env = Environment(new_world(script, registered=data))
        expected = _rows(loop.step[0], env.bind(variable, Bag(values)))
        assert identical(_rows(inside, env), expected), show(expected)


def _rows(term: Term, env: Environment) -> Bag:
    return Bag(elements(term, env))
