"""Monoid inference of whole terms: sound, and every rule is reached."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.algebra.interpret import elements
from incmrql.algebra.term import Term
from incmrql.errors import QueryError
from incmrql.paper.inference import Judgment
from incmrql.plan.changes import Weighted
from incmrql.plan.monoids import BAG, INVARIANT, Monoid
from incmrql.values import Value, encode
from tests.algebra.refusals import reject_if_refused
from tests.algebra.shapes import shape_queries
from tests.effort import fewer
from tests.generators.queries import queries
from tests.generators.tables import tables
from tests.paper.carriers import carrier, same
from tests.paper.support import Case, Tables, both, case, change_of, for_each
from tests.paper.terms import TERM_RULES, TermJudgment, TermRule, judge_term, show_term_judgment
from tests.plan.stepping import ALL

STREAMS = (ALL, frozenset("R"), frozenset("SN"))

REACHED_BY: dict[TermRule, str] = {
    "source": "select x.A from x in R",
    "box": "select (x.A, y) from x in R, y in (select z.A from z in S group by z.A)",
    "union": "(select x.A from x in R) union (select y.A from y in S)",
    "cMap": "select x.A from x in R",
    "groupBy": "select (k, count(x)) from x in R group by k: x.A",
    "coGroup": "select (x.A, y.D) from x in R, y in S where x.B = y.A",
    "groups": "select (k, sum(y.D)) from x in R, y in S where x.B = y.A group by k: x.A",
    "keyed": "select (k, count(x)) from x in R group by k: x.A",
}


def element_of(monoid: Monoid, rows: list[Value]) -> Any:
    """The rows of a term as an element of its monoid."""
    if monoid in (BAG, INVARIANT):
        return Weighted((row, 1) for row in rows)
    (part,) = monoid.parts
    by_key = {encode(key): (key, carrier(part, value)) for key, value in rows}
    assert len(by_key) == len(rows), "a key is not unique"
    return by_key


def holds(judgment: TermJudgment, of: Case, one: Tables, other: Tables, streams: Any) -> None:
    """The law of a judgment: what a term is of all the data, and of both parts of it."""
    first, second, whole = (
        element_of(judgment.monoid, elements(judgment.subject, of.env(data)))
        for data in (one, change_of(one, other, streams), both(one, other, streams))
    )
    if judgment.monoid == INVARIANT:
        assert first == second == whole, show_term_judgment(judgment)
    else:
        merged = judgment.monoid.merge(first, second)
        assert same(judgment.monoid, merged, whole), show_term_judgment(judgment)


def judgments(judgment: TermJudgment | Judgment) -> Iterator[TermJudgment]:
    if isinstance(judgment, TermJudgment):
        yield judgment
        for premise in judgment.premises:
            yield from judgments(premise)


@fewer
@given(
    text=shape_queries() | queries(),
    streams=st.sampled_from(STREAMS),
    one=tables(),
    other=tables(),
)
def test_terms_that_are_judged_are_homomorphisms(
    text: str, streams: Collection[str], one: Tables, other: Tables
) -> None:
    try:
        of = case(text, streams)
    except QueryError as error:
        reject_if_refused(error)
    for term in of.terms():
        judgment = judge_term(term)
        if judgment is not None:
            holds(judgment, of, one, other, streams)


@pytest.mark.parametrize("rule", REACHED_BY)
@for_each
@given(one=tables(), other=tables())
def test_every_rule_is_sound_where_it_is_reached(
    rule: TermRule, one: Tables, other: Tables
) -> None:
    streams = frozenset("R") if rule in ("box", "groups") else ALL
    of = case(REACHED_BY[rule], streams)
    reached = [judgment for term in of.terms() if (judgment := judge_term(term)) is not None]
    assert any(inner.rule == rule for top in reached for inner in judgments(top)), rule
    for judgment in reached:
        holds(judgment, of, one, other, streams)


def test_all_rules_are_reached() -> None:
    assert set(REACHED_BY) == set(TERM_RULES)


def top(text: str, streams: Collection[str] = ALL) -> str | None:
    judgment = judge_term(top_term(text, streams))
    return None if judgment is None else str(judgment.monoid)


def top_term(text: str, streams: Collection[str] = ALL) -> Term:
    return next(case(text, streams).terms())


def test_a_join_of_two_streams_has_no_monoid_and_one_with_an_invariant_side_has() -> None:
    text = "select (x.A, y.D) from x in R, y in S where x.B = y.A"
    assert top(text) is None
    assert top(text, "R") == top(text, "S") == "⊎"
    assert top(text, ()) == "□"


def test_a_key_that_is_lost_or_only_in_part_there_is_not_unique() -> None:
    assert top("select (k, count(x)) from x in R group by k: x.A") == "⇑ count"
    assert top("select (k + 1, count(x)) from x in R group by k: x.A") is None
    assert top("select (k, count(x)) from x in R group by k: x.A, l: x.B") is None
    assert top("select ((l, k), max(x.C)) from x in R group by k: x.A, l: x.B") == "⇑ max"


def test_what_each_group_has_once_is_no_bag_of_rows() -> None:
    """Distinct keys: a key of both batches is there once, not twice."""
    assert top("select distinct x.A from x in R") is None
    assert top("select k from x in R group by k: x.A") is None


def test_the_derivation_of_a_group_by() -> None:
    judgment = judge_term(top_term("select (k, max(x.B)) from x in R group by k: x.A"))
    assert judgment is not None
    lines = show_term_judgment(judgment).split("\n")
    assert [line.rpartition(" : ")[2] for line in lines] == [
        "⇑ max   by keyed",
        "⇑ ⊎   by groupBy",
        "⊎   by cMap",
        "⊎   by source",
        "max   by reduce",
        "⊎   by part",
    ]
