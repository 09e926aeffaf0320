"""Factoring: what an answer asks of a group, as sums over the rows of one side.

    F(k, s)  =  F'(k, e1(s), ..., en(s))        ei(s + t) = ei(s) + ei(t)

An aggregate over a bag that is additive in one side (`judge.py`) becomes a variable of F': its
accumulators add up what the bag of each row alone holds.  Any other aggregate of one side
becomes a variable too, so that it is not computed again while its side stays as it is.
"""

from __future__ import annotations

from typing import Final

from incmrql.algebra import build
from incmrql.algebra.alpha import fingerprint
from incmrql.algebra.rows import Names
from incmrql.incremental.judge import Judge
from incmrql.incremental.nodes import Accumulator, AccumulatorKind, Request
from incmrql.types import typed
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


class Asking:
    """One pass over an answer; what is asked twice is kept once."""

    def __init__(self, judge: Judge, names: Names) -> None:
        self.judge, self.names = judge, names
        self.accumulators: list[Accumulator] = []
        self.requests: list[Request] = []
        self._places: dict[tuple[str, str], int] = {}
        self._made: dict[tuple[str, tuple[int, ...], str], typed.Variable] = {}

    def rewritten(self, expr: typed.Expr) -> typed.Expr:
        """The expression with variables in the places of aggregates."""
        match expr:
            case typed.Aggregate(function, operand, None) if function in ACCUMULATED:
                return self._asked(expr, function, operand)
            case typed.Exists(operand):
                return self._asked(expr, "exists", operand)
            case typed.Aggregate(function) | typed.UserAggregate(function):
                return self._whole(expr, function)
            case _:
                return map_children(self.rewritten, expr)

    def _whole(self, expr: typed.Expr, function: str) -> typed.Expr:
        """An aggregate without accumulators: one side's rows say all of it."""
        sides = self.judge.read(expr)
        if len(sides) != 1 or free(expr) - {self.judge.group}:
            return map_children(self.rewritten, expr)
        (side,) = sides
        variable = self.names.variable(function.replace("#", "_"), expr.type)
        return self._variable(Request(variable, function, (), side, expr), fingerprint(expr))

    def _variable(self, request: Request, text: str) -> typed.Expr:
        known = request.function, request.accumulators, text
        if known not in self._made:
            self._made[known] = request.variable
            self.requests.append(request)
        return build.var(self._made[known])

    def _asked(self, expr: typed.Expr, function: str, operand: typed.Expr) -> typed.Expr:
        sides = self.judge.additive(operand)
        if sides is None or len(sides) != 1 or free(operand) - {self.judge.group}:
            return self._whole(expr, function)
        (side,) = sides
        places = tuple(self._place(kind, side, operand) for kind in ACCUMULATED[function])
        variable = self.names.variable(function.replace("#", "_"), expr.type)
        return self._variable(Request(variable, function, places, side, expr), repr(expr.type))

    def _place(self, kind: AccumulatorKind, side: int, operand: typed.Expr) -> int:
        """The place of an accumulator."""
        wanted = kind, fingerprint(operand)
        if wanted not in self._places:
            self._places[wanted] = len(self.accumulators)
            self.accumulators.append(Accumulator(kind, side, operand))
        return self._places[wanted]
