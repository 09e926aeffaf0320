"""What a row brings to an accumulator.

A weight says how often an element is added, or taken away where the accumulator has an inverse.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from incmrql.diagnostics import InternalError
from incmrql.incremental.monoids import Monoid
from incmrql.incremental.nodes import Accumulator, AccumulatorKind
from incmrql.incremental.sums import Number
from incmrql.reference.partial_sums import of_floats
from incmrql.values import Data, ExactSum, Value
from incmrql.values.exact import square


def taken_in(
    accumulator: Accumulator, monoid: Monoid, total: Any, elements: list[Value], weight: int
) -> Any:
    """A total with the elements that one row brings, as often as the row is there.

    Only a monoid with an inverse takes away.  Of the others each row is taken in so many times,
    once if that is the same.
    """
    known = [each for each in elements if each is not None or accumulator.kind == "rows"]
    if monoid.inverse is not None and accumulator.kind == "user":
        for each in known * abs(weight):
            total = monoid.merge(total, each if weight > 0 else monoid.inverse(each))
        return total
    if monoid.invertible:
        for each in known:
            total = monoid.merge(total, _scaled(_one(accumulator.kind, each), weight))
        return total
    if weight < 0:
        raise InternalError(f"{monoid} has no inverse")
    for each in known * (1 if monoid.idempotent else weight):
        total = monoid.merge(total, each)
    return total


def _scaled(number: Number, weight: int) -> Number:
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
            return of_floats([(part, times)]) if isinstance(part, Data) else Fraction(part) * times
        case "sizes":
            return int(element[1] * element[2])
        case _:
            raise InternalError(f"{kind} has no numbers")
