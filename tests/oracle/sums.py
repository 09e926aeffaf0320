"""What a row brings to an accumulator, and the aggregates that accumulators come to.

A weight says how often an element is added, or taken away where the accumulator has an inverse.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

from incmrql.errors import InternalError
from incmrql.plan.monoids import Monoid
from incmrql.plan.nodes import Accumulator, AccumulatorKind, Request
from incmrql.reference.aggregates import aggregate, sum_float_parts, sum_part_value
from incmrql.reference.navigate import Fail
from incmrql.types.model import Type, is_float
from incmrql.values import Data, ExactSum, Value, average, stddev, variance
from incmrql.values.exact import square, variance_of

Number: TypeAlias = int | Fraction | ExactSum


def add_elements(
    accumulator: Accumulator, monoid: Monoid, total: Any, elements: list[Value], weight: int
) -> Any:
    """Add the elements of one row to a total, as often as its weight says.

    Only a monoid with an inverse can take elements away.  Without one they are added
    `weight` times, or once if the monoid is idempotent.
    """
    known = [element for element in elements if element is not None or accumulator.kind == "rows"]
    if monoid.inverse is not None and accumulator.kind == "user":
        for element in known * abs(weight):
            total = monoid.merge(total, element if weight > 0 else monoid.inverse(element))
        return total
    if monoid.invertible:
        for element in known:
            total = monoid.merge(total, _scale(_one(accumulator.kind, element), weight))
        return total
    if weight < 0:
        raise InternalError(f"{monoid} has no inverse")
    for element in known * (1 if monoid.idempotent else weight):
        total = monoid.merge(total, element)
    return total


def _scale(number: Number, weight: int) -> Number:
    return number.scaled(weight) if isinstance(number, ExactSum) else number * weight


def _one(kind: AccumulatorKind, element: Value) -> Number:
    match kind:
        case "rows" | "count":
            return 1
        case "true":
            return int(element)
        case "false":
            return int(not element)
        case "sum":
            return ExactSum.of(element) if isinstance(element, float) else Fraction(element)
        case "squares":
            return square(element) if isinstance(element, float) else Fraction(element) ** 2
        case "parts":
            part, times = element[0], element[-1]
            return (
                sum_float_parts([(part, times)])
                if isinstance(part, Data)
                else Fraction(part) * times
            )
        case "sizes":
            return int(element[1] * element[2])
        case _:
            raise InternalError(f"{kind} has no numbers")


def rounded_aggregate(request: Request, numbers: list[Any], fail: Fail) -> Value:
    """The aggregate of accumulators, rounded as the reference evaluator rounds it."""
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
            return sum_part_value(first if isinstance(first, ExactSum) else Fraction(first), type_)


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
