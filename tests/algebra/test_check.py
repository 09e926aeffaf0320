"""Translated queries are well typed, and the check finds what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from incmrql.algebra import rows
from incmrql.algebra.normalize import strategy
from incmrql.algebra.normalize.rewrite import Rewriter
from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Loop,
    Query,
    Shared,
    Sort,
    Term,
    Union,
    element,
)
from incmrql.algebra.translate.queries import translate
from incmrql.errors import InternalError, QueryError, SourceText
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types import typed
from incmrql.types.infer.scripts import infer_script
from incmrql.types.model import BOOL, INT, LONG, STRING, bag
from tests.algebra.check import well_typed
from tests.algebra.refusals import reject_if_refused
from tests.generators.queries import scripts
from tests.generators.tables import CATALOG


def query_of(text: str) -> Query:
    script = infer_script(parse_script(SourceText(text)), CATALOG)
    return translate(script.items[-1].expr, script)


@given(text=scripts())
def test_translated_queries_are_well_typed(text: str) -> None:
    with deep_recursion():
        try:
            query = query_of(text)
        except QueryError as error:
            reject_if_refused(error)
        well_typed(query)


SCAN = query_of("R").parts[0][1]
ROW = typed.Variable("x", 1, element(SCAN))
A, S = rows.field(rows.var(ROW), "A"), rows.field(rows.var(ROW), "S")
OTHER = typed.Variable("y", 2, INT)


def over(body: typed.Expr) -> Term:
    return CMap(ROW, rows.bag_of(body), SCAN)


def pairs(key: typed.Expr) -> Term:
    return over(rows.tuple_of(key, A))


WRONG = {
    "an unbound variable": over(rows.var(OTHER)),
    "a variable of another type": CMap(OTHER, rows.bag_of(rows.var(OTHER)), SCAN),
    "no such field": over(typed.Field(rows.var(ROW), "Z", type=INT)),
    "a field of another type": over(typed.Field(rows.var(ROW), "A", type=STRING)),
    "no such component": over(typed.Item(rows.tuple_of(A), 1, type=INT)),
    "operands of two types": over(typed.Compare("=", A, S, type=BOOL)),
    "branches of two types": over(typed.If(rows.var(ROW), A, S, type=INT)),
    "a tuple of another type": over(replace(rows.tuple_of(A), type=rows.tuple_of(S).type)),
    "an aggregate of no number": over(typed.Aggregate("sum", rows.bag_of(S), type=LONG)),
    "a body that is no collection": CMap(ROW, A, SCAN),
    "groups of no pairs": GroupBy(SCAN),
    "sides with two types of keys": CoGroup(pairs(A), pairs(S)),
    "parts of two types": Union((over(A), over(S))),
    "rows of no loop": Loop(replace(OTHER, type=bag(INT))),
    "rows of no part": Shared(replace(OTHER, type=bag(INT))),
    "too few sort keys": Sort(pairs(rows.tuple_of(A)), (True, False), None, ordered=False),
    "a pattern of another type": over(
        rows.select(A, (typed.Binding(typed.Bind(OTHER), S),)),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_well_typed_is_found(name: str) -> None:
    with pytest.raises(InternalError):
        well_typed(_alone(WRONG[name]))


def _alone(term: Term) -> Query:
    whole = typed.Variable("answer", 9, bag(element(term)))
    return Query(((whole, term),), rows.var(whole))


def test_every_phase_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    spoiled = Query((), rows.var(OTHER))
    monkeypatch.setattr(Rewriter, "run", lambda _engine, _query, _rules: spoiled)
    with deep_recursion(), pytest.raises(InternalError):
        strategy.normal_form(query_of("R"))
