"""Which queries are terms of Definition 2, what they look like, and why others are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.algebra import rows as build
from incmrql.algebra.interpret import elements
from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.term import CMap, CoGroup, GroupBy, Query, Shared, Term, element
from incmrql.algebra.walk import children, terms
from incmrql.errors import QueryError
from incmrql.paper.annotated import annotated_pairs
from incmrql.paper.form import Form, OutsideError, definition2, names_after, source_of
from incmrql.paper.inference import NoMonoidError, is_outer, lemma
from incmrql.reference import evaluate
from incmrql.types.model import bag
from incmrql.values import Bag, identical
from tests.algebra.check import Checker
from tests.algebra.refusals import reject_if_refused
from tests.algebra.shapes import shape_queries
from tests.effort import fewer
from tests.generators.tables import tables
from tests.paper.annotated import expand
from tests.paper.support import Case, Tables, case
from tests.plan.stepping import r, s


def forms(of: Case) -> list[Form]:
    return [form for _, form in definition2(of.query, names_after(of.query))]


def is_normal(term: Term) -> bool:
    """c of Definition 2."""
    if not isinstance(term, CMap):
        return False
    match term.source:
        case GroupBy(source):
            return is_normal(source)
        case CoGroup(left, right):
            return is_normal(left) and is_normal(right)
        case source:
            return source_of(source) is source


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(select x.A from x in R) union (select y.A from y in S)", "a union of terms"),
        ("select x.A from x in R order by x.B", "order by or limit"),
        ("select x.A from x in R limit 2", "order by or limit"),
        (
            "select y from y in (repeat X = R.A step select x from x in X limit 2) group by y",
            "a loop inside",
        ),
    ],
)
def test_what_is_outside_says_why(text: str, reason: str) -> None:
    with pytest.raises(OutsideError, match=reason):
        forms(case(text))


def test_total_aggregates_have_a_header() -> None:
    (form,) = forms(case("sum(select x.B from x in R)"))
    assert form.total is not None
    assert len(forms(case("(count(R), max(select y.D from x in R, y in S)) "))) == 2
    (plain,) = forms(case("select x.B from x in R"))
    assert plain.total is None


@fewer
@given(text=shape_queries(), data=tables(), ours=st.booleans())
def test_forms_are_normal_and_mean_the_same(text: str, data: Tables, ours: bool) -> None:
    """Of queries in our own normal form too, where parts share terms."""
    try:
        of = case(text)
        means_the_same(of, normal_form(of.query)[0] if ours else of.query, data)
    except QueryError as error:
        reject_if_refused(error)
    except OutsideError:
        return


def means_the_same(of: Case, query: Query, data: Tables) -> None:
    start = env = of.env(data)
    for variable, form in definition2(query, names_after(query)):
        assert is_normal(form.body)
        rows = Bag(elements(form.body, start))
        if form.total is not None:
            rows = Bag([evaluate(form.total.head, start.bind(form.total.members, rows))])
        env = env.bind(variable, rows)
    assert identical(evaluate(query.result, env), of.evaluator_answer(data))


def test_what_parts_share_is_written_out() -> None:
    groups = "(select (k, count(x)) from x in R group by k: x.A)"
    of = case(f"((select k from (k, n) in {groups}), max(select n from (k, n) in {groups}))")
    query, _ = normal_form(of.query)
    assert any(isinstance(part, Shared) for _, term in query.parts for part in terms(term))
    means_the_same(of, query, {"R": Bag([r(1), r(1), r(2)])})


@fewer
@given(text=shape_queries(), data=tables())
def test_lineage_can_be_forgotten(text: str, data: Tables) -> None:
    """T'(T_c[c]) = c, for functions that are ⊎ and joins that drop rows without partners."""
    try:
        of = case(text)
        all_forms = forms(of)
    except QueryError as error:
        reject_if_refused(error)
    except OutsideError:
        return
    for form in all_forms:
        for pairs in inner(form.body):
            forgets(pairs, of, data)


def inner(term: Term) -> list[Term]:
    """The terms that groupBys and coGroups are over."""
    groups = [part for part in terms(term) if isinstance(part, GroupBy | CoGroup)]
    return [below for group in groups for below in children(group)]


def forgets(pairs: Term, of: Case, data: Tables) -> bool:
    """Whether the law applies to a term; then it holds."""
    annotated = annotated_pairs(pairs)
    try:
        lemma(annotated, "left")
    except NoMonoidError:
        return False
    if is_outer(annotated):
        return False
    names = names_after(of.query)
    names.last += 10_000
    term = expand(annotated, names)
    rows = names.variable("rows", bag(element(term)))
    Checker().query(Query(((rows, term),), build.var(rows)))
    env = of.env(data)
    forgotten = Bag([(key, value) for key, (_, value) in elements(term, env)])
    assert identical(forgotten, Bag(elements(pairs, env)))
    return True


def test_lineage_can_be_forgotten_below_a_group_by_over_a_join() -> None:
    of = case("select (k, sum(y.D)) from x in R, y in S where x.B = y.A group by k: x.A")
    (form,) = forms(of)
    data = {"R": Bag([r(1, 5), r(2, 5), r(2, 6)]), "S": Bag([s(5, 1.0), s(5, 2.0), s(7, 3.0)])}
    assert [forgets(pairs, of, data) for pairs in inner(form.body)] == [True, True, True]
    (one, *_) = inner(form.body)
    assert len(elements(one, of.env(data))) == 4
