"""Typed expressions to terms.

    value of the expression  =  value of the query's result over the values of its terms

Comprehensions are flattened, equalities between generators become coGroups, sub-queries are
unnested (`clauses.py`, `unnest.py`).  An expression without a term is refused: A001 or A002.
Named queries with several uses are translated and normalised once (`views.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import flatten_clauses
from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.rows import NO_VARIABLES, Names, RowsTerm, distinct_elements, map_rows
from incmrql.algebra.scope import SourceScope, last_number, translation_error
from incmrql.algebra.term import (
    CMap,
    CoGroup,
    Loop,
    Query,
    Repeat,
    Scan,
    Shared,
    Sort,
    Term,
    Union,
    Values,
    View,
    element,
)
from incmrql.algebra.translate import unnest
from incmrql.algebra.translate.clauses import from_where, head_pairs, is_sorted
from incmrql.algebra.translate.views import view_keys
from incmrql.algebra.walk import with_views
from incmrql.errors import QueryError
from incmrql.types import typed
from incmrql.types.model import Collection, Tuple, Type, bag


class Views:
    """The views of a script for some of its expressions, by the keys of the named queries."""

    def __init__(self, script: typed.Script, last: int = 0) -> None:
        self.script = script
        self.by_key: dict[str, View] = {}
        self.last = last
        """The highest number of a variable in them."""

    @property
    def variables(self) -> dict[str, typed.Variable]:
        """The variable of each view."""
        return {key: view.variable for key, view in self.by_key.items()}

    def add(self, key: str) -> None:
        """Translate and normalise a named query over the views before it."""
        named, names = self.script.queries[key], Names(self.last)
        name = key.partition("@")[0]
        rows = names.variable(name, named.type)
        term = _Translation(SourceScope(self.script, views=self.variables), names).term(named)
        query = self.over(Query(((rows, term),), build.var(rows)))
        normal, steps = normal_form(query, names)
        of_others = sum(len(view.steps) for view in query.views)
        normal_view = View(name, rows, normal.own_parts)
        self.by_key[key] = View(name, rows, query.own_parts, normal_view, tuple(steps[of_others:]))
        self.last = names.last

    def over(self, query: Query) -> Query:
        """A query with the parts of the views that it uses before its own."""
        return with_views(query, list(self.by_key.values()))


WITHOUT_TERMS: Final = ("A001", "A002")
"""Codes of queries that can be answered but have no terms, and therefore no plan."""
NO_VIEWS: Final = Views(typed.Script((), {}, {}, {}, {}, {}, {}))


def views_of(exprs: Sequence[typed.Expr], script: typed.Script) -> Views:
    """The named queries that several uses in some expressions share.

    One that cannot be translated is not shared: who uses it reports why.
    """
    keys = view_keys(exprs, SourceScope(script))
    if not keys:
        return NO_VIEWS
    views = Views(script, max(last_number(script, expr) for expr in exprs))
    for key in keys:
        try:
            views.add(key)
        except QueryError as problem:
            if problem.code not in WITHOUT_TERMS:
                raise
    return views


def translate(expr: typed.Expr, script: typed.Script, views: Views | None = None) -> Query:
    """The terms of an expression over the views of a script; without any, over those of its own."""
    views = views_of([expr], script) if views is None else views
    scope, last = SourceScope(script, views=views.variables), last_number(script, expr)
    query = _Translation(scope, Names(max(last, views.last))).query(expr)
    return views.over(query)


class _Translation:
    """The translation of one expression; other modules see it as a `Translator`."""

    def __init__(self, scope: SourceScope, names: Names) -> None:
        self.scope = scope
        self.names = names

    def query(self, expr: typed.Expr) -> Query:
        """Terms for the collections of an expression, and what it makes of their values."""
        expr = self.scope.resolve(expr, self.names)
        if not self.scope.reads(expr):
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
        term = map_rows(self.names, rows, build.bag_of(result))
        return Query(((one, term),), typed.Builtin("elem", (build.var(one),), type=expr.type))

    def attach(self, rows: RowsTerm, expr: typed.Expr) -> tuple[RowsTerm, typed.Expr]:
        """Make each sub-query a variable of the rows: the new rows, the expression over them."""
        return unnest.attach(self, rows, expr)

    def term(self, expr: typed.Expr) -> Term:
        """The term of a collection that depends on no variable of a row."""
        expr = self.scope.resolve(expr, self.names)
        if not self.scope.reads(expr):
            return Values(expr)
        match expr:
            case typed.Read(source):
                return Scan(source, _element(expr))
            case typed.Var(variable):
                return Loop(variable)
            case typed.Global(key):
                return Shared(self.scope.views[key])
            case typed.Select() if self._has_plain_limit(expr):
                return self._select(expr)
            case typed.MapOver():
                return self._select(unnest.as_select(self, expr))
            case typed.Combine("union", left, right):
                return Union((self.term(left), self.term(right)))
            case typed.Combine():
                return self._combine(expr)
            case typed.Builtin("distinct", (inner,)):
                return distinct_elements(self.names, self.term(inner))
            case typed.Widen(operand):
                return self._widen(expr, operand)
            case typed.Repeat() if unnest.loops_over_bags(self, expr):
                return self._repeat(expr, 0)
            case _:
                rows, result = self.attach(NO_VARIABLES, expr)
                return map_rows(self.names, rows, result)

    def _is_term(self, expr: typed.Expr) -> bool:
        """Whether a collection can be a term: it is never null, and a list only by an order by."""
        if not isinstance(expr.type, Collection) or not self.scope.is_never_null(expr):
            return False
        return expr.type.kind == "bag" or (
            isinstance(expr, typed.Select) and self._has_plain_limit(expr)
        )

    def _has_plain_limit(self, expr: typed.Select) -> bool:
        return expr.limit is None or not self.scope.reads(expr.limit)

    def _widen(self, expr: typed.Widen, operand: typed.Expr) -> Term:
        """A collection with its elements in a wider type."""
        inner = self.term(operand)
        wanted = _element(expr)
        if element(inner) == wanted:
            return inner
        one = self.names.variable("x", element(inner))
        return CMap(one, build.bag_of(typed.Widen(build.var(one), type=wanted)), inner)

    def _combine(self, expr: typed.Combine) -> Term:
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
            unit = self.names.variable("each", Tuple(()))
            units = build.item(parts, i)
            copies.append(typed.MapOver(unit, units, value, False, type=bag(value.type)))
        return CMap(group, replace(expr, left=copies[0], right=copies[1]), both)

    def _repeat(self, expr: typed.Repeat, chosen: int) -> Term:
        """A loop over bags."""
        if expr.limit is not None and self.scope.reads(expr.limit):
            raise translation_error("A001", expr, "the limit of a loop over sources reads a source")
        initial = tuple(self.term(start) for start in expr.initial)
        outer, self.scope = self.scope, self.scope.inside(expr.variables)
        step = tuple(self.term(body) for body in expr.step)
        self.scope = outer
        return Repeat(expr.variables, initial, step, expr.flagged, expr.limit, chosen)

    def _loop_of_several(self, expr: typed.Repeat) -> Query:
        if not unnest.loops_over_bags(self, expr):
            raise translation_error(
                "A001", expr, "a loop over sources has a variable that is not a bag"
            )
        loop = self._repeat(expr, 0)
        assert isinstance(loop, Repeat)
        answers = [self.names.like(variable) for variable in expr.variables]
        parts = tuple((v, replace(loop, chosen=i)) for i, v in enumerate(answers))
        return Query(parts, build.tuple_of(*map(build.var, answers)))

    def _select(self, expr: typed.Select) -> Term:
        """A select that is not correlated."""
        rows = from_where(self, flatten_clauses(expr, self.scope, self.names), NO_VARIABLES)
        pairs = head_pairs(self, expr, rows, ())
        one = self.names.variable("pair", element(pairs))
        values = CMap(one, build.bag_of(build.item(build.var(one), 1)), pairs)
        if not is_sorted(expr):
            return values
        return Sort(values, tuple(o.descending for o in expr.order), expr.limit, bool(expr.order))


def _element(expr: typed.Expr) -> Type:
    assert isinstance(expr.type, Collection)
    return expr.type.element
