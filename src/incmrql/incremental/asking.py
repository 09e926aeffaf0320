"""Factoring: what an answer asks of a group, as what is merged over the rows of one side.

    F(k, s)  =  F'(k, e1(s), ..., en(s))        ei(s + t) = merge(ei(s), ei(t))

An aggregate over a bag that is additive in one side (`judge.py`) becomes a variable of F': its
accumulators merge what the bag of each row alone holds.  What needs values in order becomes one
that reads a table (`ordering.py`), or an accumulator where nothing is ever taken away.  Any other
aggregate of one side becomes a variable too, so that it is not computed again while its side
stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection as Some
from typing import Any, Final

from incmrql.algebra import build
from incmrql.algebra.alpha import fingerprint
from incmrql.algebra.rows import Names
from incmrql.incremental.judge import Judge
from incmrql.incremental.lattices import commutative_monoid
from incmrql.incremental.monoids import COUNT, FLOATS, MAX, MIN, SUM, Monoid
from incmrql.incremental.nodes import (
    Accumulator,
    AccumulatorKind,
    Distinct,
    Reading,
    Request,
    Table,
)
from incmrql.incremental.ordering import Need, front, need, once, one_side, undistinct
from incmrql.types import typed
from incmrql.types.model import EXACT_SUM, Collection, Tuple, Type, is_float
from incmrql.types.walk import free, map_children

ACCUMULATED: Final[dict[str, tuple[AccumulatorKind, ...]]] = {
    "exists": ("rows",),
    "count": ("count",),
    "sum": ("sum",),
    "avg": ("sum", "count"),
    "variance": ("sum", "squares", "count"),
    "stddev": ("sum", "squares", "count"),
    "some": ("true",),
    "all": ("false",),
    "sum#part": ("sum",),
    "sum#total": ("parts",),
    "avg#total": ("parts", "sizes"),
}
"""The accumulators of each aggregate that has some, all of them with an inverse."""

_EXTREMES: Final[dict[str, AccumulatorKind]] = {"least": "least", "greatest": "greatest"}

_IDEMPOTENT: Final = frozenset(("exists", "some", "all"))
"""To these it does not matter how often an element is there."""


class Asking:
    """One pass over an answer; what is asked twice is kept once.

    `growing` are the sides that nothing is ever taken away from.
    """

    def __init__(
        self,
        judge: Judge,
        names: Names,
        growing: Some[int] = (),
        aggregations: dict[str, typed.Aggregation] | None = None,
    ) -> None:
        self.judge, self.names, self.growing = judge, names, growing
        self.aggregations = aggregations or {}
        self.accumulators: list[Accumulator] = []
        self.tables: list[Table] = []
        self.requests: list[Request] = []
        self._known: dict[tuple[object, ...], int] = {}
        self._made: dict[tuple[object, ...], typed.Variable] = {}

    def rewritten(self, expr: typed.Expr) -> typed.Expr:
        """The expression with variables in the places of aggregates."""
        wanted = need(expr, self.judge, self.names)
        if wanted is not None:
            return self._in_order(expr, wanted)
        match expr:
            case typed.Aggregate(function, operand, None) if function in ACCUMULATED:
                return self._asked(expr, function, operand)
            case typed.Exists(operand):
                return self._asked(expr, "exists", operand)
            case typed.Aggregate(function) | typed.UserAggregate(function):
                return self._whole(expr, function)
            case _:
                return map_children(self.rewritten, expr)

    def _asked(self, expr: typed.Expr, function: str, operand: typed.Expr) -> typed.Expr:
        """An aggregate that accumulators come to."""
        if function in _IDEMPOTENT:
            operand = undistinct(operand)
        side = one_side(operand, self.judge)
        if side is not None:
            return self._request(expr, function, side, self._places(function, side, operand))
        found = once(operand, self.judge, self.names)
        if found is None:
            return self._whole(expr, function)
        side = one_side(found.values, self.judge)
        assert side is not None
        distinct = Distinct(self._table(Table(side, found.values, ())), found.group)
        places = self._places(function, side, found.operand, distinct)
        return self._request(expr, function, side, places)

    def _in_order(self, expr: typed.Expr, wanted: Need) -> typed.Expr:
        """What is read of a table; where nothing is taken away an extreme is all there is."""
        side = one_side(wanted.operand, self.judge)
        assert side is not None
        kind = _EXTREMES.get(wanted.how)
        if kind is not None and side in self.growing:
            places = (self._place(kind, side, wanted.operand),)
            return self._request(expr, kind, side, places)
        if isinstance(expr, typed.UserAggregate):
            monoid = commutative_monoid(self.aggregations[expr.aggregation])
            if monoid is not None and (monoid.invertible or side in self.growing):
                places = (self._place("user", side, wanted.operand, monoid=monoid),)
                return self._request(expr, "user", side, places)
        most = front(wanted) if side in self.growing else None
        table = self._table(Table(side, wanted.operand, wanted.order, most))
        reading = Reading(table, wanted.how, wanted.arguments, wanted.values)
        return self._request(expr, wanted.how, side, (), reading)

    def _whole(self, expr: typed.Expr, function: str) -> typed.Expr:
        """An aggregate of something else: of what is asked in turn, or of the rows of one side."""
        before = self._kept()
        inside = map_children(self.rewritten, expr)
        sides = self.judge.read(expr)
        if not self.judge.read(inside) or len(sides) != 1 or free(expr) - {self.judge.group}:
            return inside
        self._restore(before)
        (side,) = sides
        return self._request(expr, function, side, ())

    def _request(
        self,
        expr: typed.Expr,
        function: str,
        side: int,
        places: tuple[int, ...],
        reading: Reading | None = None,
    ) -> typed.Expr:
        """The variable of a request; the same for what is asked again."""
        same = repr(expr.type) if places else fingerprint(expr)
        known = function, places, same
        if known not in self._made:
            name = expr.function if isinstance(expr, typed.Aggregate) else function
            variable = self.names.variable(name.replace("#", "_"), expr.type)
            self._made[known] = variable
            self.requests.append(Request(variable, function, places, side, expr, reading))
        return build.var(self._made[known])

    def _places(
        self, function: str, side: int, operand: typed.Expr, distinct: Distinct | None = None
    ) -> tuple[int, ...]:
        kinds = ACCUMULATED[function]
        return tuple(self._place(kind, side, operand, distinct) for kind in kinds)

    def _place(
        self,
        kind: AccumulatorKind,
        side: int,
        operand: typed.Expr,
        distinct: Distinct | None = None,
        monoid: Monoid | None = None,
    ) -> int:
        """The place of an accumulator."""
        table = None if distinct is None else distinct.table
        wanted = kind, fingerprint(operand), table, monoid
        if wanted not in self._known:
            self._known[wanted] = len(self.accumulators)
            merged = monoid or _monoid_of(kind, operand.type)
            self.accumulators.append(Accumulator(kind, side, operand, merged, distinct))
        return self._known[wanted]

    def _table(self, table: Table) -> int:
        """The place of a table."""
        most = None if table.most is None else fingerprint(table.most)
        wanted = "table", fingerprint(table.operand), table.order, most
        if wanted not in self._known:
            self._known[wanted] = len(self.tables)
            self.tables.append(table)
        return self._known[wanted]

    def _kept(self) -> tuple[Any, ...]:
        lists = list(self.accumulators), list(self.tables), list(self.requests)
        return (*lists, dict(self._known), dict(self._made))

    def _restore(self, before: tuple[Any, ...]) -> None:
        self.accumulators, self.tables, self.requests, self._known, self._made = before


def _monoid_of(kind: AccumulatorKind, operand: Type) -> Monoid:
    """What the elements of a bag are merged by."""
    match kind:
        case "least":
            return MIN
        case "greatest":
            return MAX
        case "sum" | "parts":
            return FLOATS if _adds_doubles(kind, operand) else SUM
        case "squares":
            return SUM
        case _:
            return COUNT


def _adds_doubles(kind: AccumulatorKind, operand: Type) -> bool:
    assert isinstance(operand, Collection)
    element = operand.element
    if kind == "sum":
        return is_float(element)
    return isinstance(element, Tuple) and element.items[0] == EXACT_SUM
