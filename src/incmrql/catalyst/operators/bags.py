"""Measures: what an aggregate takes of a row, and what it makes of the values of a group.

The modules of the families of aggregate functions build them with the helpers here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from incmrql.algebra import rows as build
from incmrql.algebra.failures.conditions import disjunction
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.relation import null
from incmrql.catalyst.scope import ColumnScope
from incmrql.errors import NOWHERE, Span
from incmrql.types import typed
from incmrql.types.model import BOOL, LONG, Collection, Type

Bag: TypeAlias = Callable[[], typed.Expr]
"""Makes the bag of the values of an argument: no binder may occur twice."""
Bags: TypeAlias = Sequence[Bag]
"""For each argument, a function that returns the bag of its values."""


@dataclass(frozen=True, slots=True)
class Measure:
    """An aggregate of a group: its arguments for a row, and the result of the bags of these."""

    arguments: tuple[typed.Expr, ...]
    result: Callable[[Bags], typed.Expr]


def distinct_bag(bag: Bag) -> Bag:
    """The bag of the same values, each once."""

    def distinct() -> typed.Expr:
        values = bag()
        return typed.Builtin("distinct", (values,), type=values.type)

    return distinct


def aggregate_of(name: str, bag: typed.Expr, type_: Type, span: Span = NOWHERE) -> typed.Expr:
    """An aggregate of the language over a bag."""
    return typed.Aggregate(name, bag, type=type_, span=span)


def count_of(bag: Bag) -> typed.Expr:
    """The number of the values that are not null."""
    return aggregate_of("count", bag(), LONG)


def span_of(function: PlanNode, scope: ColumnScope) -> Span:
    """Where a failure of an aggregate is reported."""
    return scope.conversion.refusals.span(function)


def if_any(bag: Bag, value: typed.Expr) -> typed.Expr:
    """A value, or null if no element of a bag has one."""
    some = typed.Compare(">", count_of(bag), typed.Const(0, type=LONG), type=BOOL)
    return typed.If(some, value, null(value.type), type=value.type)


def present(bag: Bag, scope: ColumnScope) -> typed.Expr:
    """The bag of the values that are not null."""
    values = bag()
    assert isinstance(values.type, Collection)
    one = scope.names.variable("one", values.type.element)
    there = typed.Not(typed.IsNull(build.var(one), type=BOOL), type=BOOL)
    return build.for_each(one, values, build.var(one), typed.Condition(there))


def unless_null(conditions: Sequence[typed.Expr], value: typed.Expr) -> typed.Expr:
    """A value, or null if one of some others is null, so that an aggregate skips it."""
    if not conditions:
        return value
    missing = disjunction([typed.IsNull(condition, type=BOOL) for condition in conditions])
    return typed.If(missing, null(value.type), value, type=value.type)


def widened(value: typed.Expr, type_: Type) -> typed.Expr:
    """A value in a wider type."""
    return value if value.type == type_ else typed.Widen(value, type=type_)
