"""Factoring: a function of a group as F over its largest homomorphic sub-terms.

    f(k, v)  =  F(k, e1(v), …, en(v))        each ei a homomorphism

The sub-terms are found from the root down; what no rule gives a monoid is left to F, in the
worst case all but the bag itself.  Of a tuple its items are kept: F makes the tuple.
Aggregates are first opened to what the paper takes them for:

    sum(e)  =  sum#total({(sum#part(e), 1)})
    avg(e)  =  avg#total({(sum#part(e), count(e), 1)})
"""

from __future__ import annotations

from dataclasses import dataclass

from incmrql.algebra import build
from incmrql.algebra.alpha import fingerprint
from incmrql.algebra.rows import Names
from incmrql.incremental.monoids import Monoid, product
from incmrql.incremental.paper.judgments import Growth, Judgment, judge
from incmrql.types import typed
from incmrql.types.model import EXACT_SUM, LONG, Collection, Decimal, Type, is_float, is_integer
from incmrql.types.walk import children, free, map_children, used


@dataclass(frozen=True, slots=True)
class Kept:
    """A sub-term that is kept, the variable that stands for it in F, and why it may be."""

    variable: typed.Variable
    judgment: Judgment

    @property
    def expr(self) -> typed.Expr:
        """The sub-term."""
        return self.judgment.subject

    @property
    def monoid(self) -> Monoid:
        """What it is merged with."""
        return self.judgment.monoid


@dataclass(frozen=True, slots=True)
class Split:
    """F, and what it is a function of."""

    kept: tuple[Kept, ...]
    rest: typed.Expr

    @property
    def values(self) -> typed.Expr:
        """`(e1, …, en)`."""
        return build.tuple_of(*(each.expr for each in self.kept))

    @property
    def monoid(self) -> Monoid:
        """`(⊕1, …, ⊕n)`."""
        return product(*(each.monoid for each in self.kept))


def split(expr: typed.Expr, growth: Growth, names: Names) -> Split:
    """An expression taken apart.  F may read what of it does not change besides."""
    splitting = _Splitting(growth, names)
    rest = splitting.rest(opened(expr))
    return Split(tuple(splitting.kept), rest)


class _Splitting:
    def __init__(self, growth: Growth, names: Names) -> None:
        self.growth, self.names = growth, names
        self.kept: list[Kept] = []
        self._known: dict[str, typed.Variable] = {}

    def rest(self, expr: typed.Expr) -> typed.Expr:
        """The expression with variables for what is kept."""
        if not used(expr) & self.growth.keys():
            return expr
        if self._is_key(expr):
            return expr
        found = judge(expr, self.growth) if free(expr) <= self.growth.keys() else None
        if found is None or found.rule == "tuple":
            return map_children(self.rest, expr)
        known = fingerprint(expr)
        if known not in self._known:
            variable = self.names.variable("kept", expr.type)
            self._known[known] = variable
            self.kept.append(Kept(variable, found))
        return build.var(self._known[known])

    def _is_key(self, expr: typed.Expr) -> bool:
        """Whether an expression reads nothing of a group but its key, which F has."""
        match expr:
            case typed.Item(typed.Var(variable), 0) if variable in self.growth:
                return bool(self.growth[variable].parts)
            case typed.Var(variable):
                return variable not in self.growth
            case _:
                below = [child for child in children(expr) if used(child) & self.growth.keys()]
                return bool(below) and all(map(self._is_key, below))


def opened(expr: typed.Expr) -> typed.Expr:
    """Sums and averages as functions of exact parts."""
    inner = map_children(opened, expr)
    if not isinstance(inner, typed.Aggregate) or inner.function not in ("sum", "avg"):
        return inner
    assert isinstance(inner.operand.type, Collection)
    part_type = _part_type(inner.operand.type.element)
    if part_type is None:
        return inner
    part = typed.Aggregate("sum#part", inner.operand, type=part_type)
    count = typed.Aggregate("count", inner.operand, type=LONG)
    once = typed.Const(1, type=LONG)
    row = build.tuple_of(*((part, once) if inner.function == "sum" else (part, count, once)))
    return typed.Aggregate(f"{inner.function}#total", build.bag_of(row), type=inner.type)


def _part_type(summand: Type) -> Type | None:
    """The type of an exact sum."""
    if is_float(summand):
        return EXACT_SUM
    if is_integer(summand):
        return Decimal(38, 0)
    if isinstance(summand, Decimal) and summand.precision <= 19:
        return Decimal(38, summand.scale)
    return None
