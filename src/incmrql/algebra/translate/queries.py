"""Typed expressions to terms.

    value of the expression  =  value of the query's result over the values of its terms

Comprehensions are flattened, equalities between generators become coGroups, sub-queries are
unnested (`clauses.py`, `unnest.py`).  What cannot be a term has a code: A001 and A002.
"""

from __future__ import annotations

from dataclasses import replace

from incmrql.algebra import rows as build
from incmrql.algebra.reading import Reading, flattened, last_number, refused
from incmrql.algebra.rows import NO_VARIABLES, Names, Rows, distinct_elements, over
from incmrql.algebra.term import (
    CMap,
    CoGroup,
    Loop,
    Query,
    Repeat,
    Scan,
    Sort,
    Term,
    Union,
    Values,
    element,
)
from incmrql.algebra.translate import unnest
from incmrql.algebra.translate.clauses import finished, from_where, is_sorted
from incmrql.types import typed
from incmrql.types.model import Collection, Tuple, Type, bag


def translate(expr: typed.Expr, script: typed.Script) -> Query:
    """The query that an expression asks."""
    return _Translation(Reading(script), Names(last_number(script, expr))).query(expr)


class _Translation:
    """One expression's way to terms; the `Translator` that the other modules see."""

    def __init__(self, reading: Reading, names: Names) -> None:
        self.reading = reading
        self.names = names

    def query(self, expr: typed.Expr) -> Query:
        """Terms for the collections, and the expression that puts their values together."""
        expr = self.reading.resolved(expr, self.names)
        if not self.reading.reads(expr):
            return Query((), expr)
        if isinstance(expr, typed.MakeTuple | typed.MakeRecord):
            queries = [self.query(item) for item in expr.items]
            parts = tuple(part for query in queries for part in query.parts)
            return Query(parts, replace(expr, items=tuple(query.result for query in queries)))
        if isinstance(expr, typed.Repeat) and len(expr.variables) > 1:
            return self._loop_of_several(expr)
        if self._is_term(expr):
            whole = self.names.variable("answer", expr.type)
            return Query(((whole, self.term(expr)),), build.var(whole))
        rows, result = self.attach(NO_VARIABLES, expr)
        one = self.names.variable("answer", bag(expr.type))
        term = over(self.names, rows, build.bag_of(result))
        return Query(((one, term),), typed.Builtin("elem", (build.var(one),), type=expr.type))

    def attach(self, rows: Rows, expr: typed.Expr) -> tuple[Rows, typed.Expr]:
        """The expression without sources: its sub-queries became variables of the rows."""
        return unnest.attach(self, rows, expr)

    def term(self, expr: typed.Expr) -> Term:
        """The term of a collection that no variable of a row has part in."""
        expr = self.reading.resolved(expr, self.names)
        if not self.reading.reads(expr):
            return Values(expr)
        match expr:
            case typed.Read(source):
                return Scan(source, _element(expr))
            case typed.Var(variable):
                return Loop(variable)
            case typed.Select() if self._has_plain_limit(expr):
                return self._select(expr)
            case typed.MapOver():
                return self._select(unnest.as_select(self, expr))
            case typed.Combine("union", left, right):
                return Union((self.term(left), self.term(right)))
            case typed.Combine():
                return self._combined(expr)
            case typed.Builtin("distinct", (inner,)):
                return distinct_elements(self.names, self.term(inner))
            case typed.Widen(operand):
                return self._widened(expr, operand)
            case typed.Repeat() if unnest.loops_over_bags(self, expr):
                return self._repeat(expr, 0)
            case _:
                rows, result = self.attach(NO_VARIABLES, expr)
                return over(self.names, rows, result)

    def _is_term(self, expr: typed.Expr) -> bool:
        """Whether a term says all of a collection: it is never null, nor a list but by order by."""
        if not isinstance(expr.type, Collection) or not self.reading.is_never_null(expr):
            return False
        return expr.type.kind == "bag" or (
            isinstance(expr, typed.Select) and self._has_plain_limit(expr)
        )

    def _has_plain_limit(self, expr: typed.Select) -> bool:
        return expr.limit is None or not self.reading.reads(expr.limit)

    def _widened(self, expr: typed.Widen, operand: typed.Expr) -> Term:
        """A collection with its elements in a wider type."""
        inner = self.term(operand)
        wanted = _element(expr)
        if element(inner) == wanted:
            return inner
        one = self.names.variable("x", element(inner))
        return CMap(one, build.bag_of(typed.Widen(build.var(one), type=wanted)), inner)

    def _combined(self, expr: typed.Combine) -> Term:
        """`intersect`, `except`: for each element, its copies on either side."""
        sides: list[Term] = []
        for side in (self.term(expr.left), self.term(expr.right)):
            one = self.names.variable("x", element(side))
            pair = build.bag_of(build.tuple_of(build.var(one), build.unit()))
            sides.append(CMap(one, pair, side))
        both = CoGroup(sides[0], sides[1])
        group = self.names.variable("group", element(both))
        value, parts = build.item(build.var(group), 0), build.item(build.var(group), 1)
        copies: list[typed.Expr] = []
        for i in range(2):
            each = self.names.variable("each", Tuple(()))
            part = build.item(parts, i)
            copies.append(typed.MapOver(each, part, value, False, type=bag(value.type)))
        return CMap(group, replace(expr, left=copies[0], right=copies[1]), both)

    def _repeat(self, expr: typed.Repeat, chosen: int) -> Term:
        """A loop over bags."""
        if expr.limit is not None and self.reading.reads(expr.limit):
            raise refused("A001", expr, "the limit of a loop over sources reads a source")
        initial = tuple(self.term(start) for start in expr.initial)
        outer, self.reading = self.reading, self.reading.inside(expr.variables)
        step = tuple(self.term(each) for each in expr.step)
        self.reading = outer
        return Repeat(expr.variables, initial, step, expr.flagged, expr.limit, chosen)

    def _loop_of_several(self, expr: typed.Repeat) -> Query:
        if not unnest.loops_over_bags(self, expr):
            raise refused("A001", expr, "a loop over sources has a variable that is not a bag")
        loop = self._repeat(expr, 0)
        assert isinstance(loop, Repeat)
        answers = [self.names.like(variable) for variable in expr.variables]
        parts = tuple((v, replace(loop, chosen=i)) for i, v in enumerate(answers))
        return Query(parts, build.tuple_of(*map(build.var, answers)))

    def _select(self, expr: typed.Select) -> Term:
        """A query of its own."""
        rows = from_where(self, flattened(expr, self.reading, self.names), NO_VARIABLES)
        pairs = finished(self, expr, rows, ())
        one = self.names.variable("pair", element(pairs))
        values = CMap(one, build.bag_of(build.item(build.var(one), 1)), pairs)
        if not is_sorted(expr):
            return values
        return Sort(values, tuple(o.descending for o in expr.order), expr.limit, bool(expr.order))


def _element(expr: typed.Expr) -> Type:
    assert isinstance(expr.type, Collection)
    return expr.type.element
