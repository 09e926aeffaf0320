"""Accumulators: what they are merged by, and the aggregates they come to.

Those that add up form groups: integers, fractions and exact sums of doubles.  Others only ever
take in.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

from incmrql.incremental.monoids import COUNT, FLOATS, MAX, MIN, SUM, Monoid
from incmrql.incremental.nodes import AccumulatorKind, Request
from incmrql.reference.aggregates import aggregate
from incmrql.reference.navigate import Fail
from incmrql.reference.partial_sums import as_part
from incmrql.types.model import EXACT_SUM, Collection, Tuple, Type, is_float
from incmrql.values import ExactSum, Value, average, stddev, variance
from incmrql.values.exact import variance_of

Number: TypeAlias = int | Fraction | ExactSum


def monoid_of(kind: AccumulatorKind, operand: Type) -> Monoid:
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


def finished(request: Request, numbers: list[Any], fail: Fail) -> Value:
    """The aggregate that accumulators come to, as the reference evaluator rounds it."""
    first, type_ = numbers[0], request.variable.type
    match request.function:
        case "least" | "greatest" | "user":
            return first
        case "count":
            return first
        case "exists" | "some":
            return first != 0
        case "all":
            return first == 0
        case "sum" | "sum#total":
            return _sum(first, type_, fail)
        case "avg" | "avg#total":
            return _average(first, numbers[1], type_, fail)
        case "variance" | "stddev":
            return _spread(request.function, numbers)
        case _:
            return as_part(first if isinstance(first, ExactSum) else Fraction(first), type_)


def _sum(total: Number, type_: Type, fail: Fail) -> Value:
    if isinstance(total, ExactSum):
        return total.result()
    if is_float(type_):  # of nothing but nulls
        return 0.0
    return aggregate("sum#total", [(Fraction(total), 1)], type_, None, fail)


def _average(total: Number, count: Number, type_: Type, fail: Fail) -> Value:
    assert isinstance(count, int)
    if isinstance(total, ExactSum):
        return average(total, count)
    return aggregate("avg#total", [(Fraction(total), count, 1)], type_, None, fail)


def _spread(function: str, numbers: list[Number]) -> Value:
    total, squares, count = numbers
    assert not isinstance(squares, ExactSum)
    assert isinstance(count, int)
    if isinstance(total, ExactSum):
        of_doubles = variance if function == "variance" else stddev
        return of_doubles(total, Fraction(squares), count)
    spread = variance_of(total, squares, count)
    return spread if spread is None or function == "variance" else math.sqrt(spread)
