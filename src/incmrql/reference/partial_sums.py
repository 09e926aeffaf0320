"""Sums in two steps: exact parts first, then their total, each part as often as it counts.

    sum(n copies of every x in X, …)  =  sum#total({(sum#part(X), n), …})
    avg(n copies of every x in X, …)  =  avg#total({(sum#part(X), count(X), n), …})

No script can name these aggregates; rewrite rules make them.  A part is exact whatever its
terms are, so nothing is rounded, and no sum found too large, before the end.  The part of
integers is a `decimal(38,0)` and that of decimals of up to 19 digits a decimal of 38: both hold
every sum of less than 2**63 terms.  The part of doubles is an `EXACT_SUM`, whose form is each
engine's own affair.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from incmrql.types.model import EXACT_SUM, Type
from incmrql.values import Data, ExactSum, Value, exact_sum
from incmrql.values.encoding import EXACT
from incmrql.values.exact.packed import pack_one, unpack_one


def part_of(values: list[Value], type_: Type) -> Value:
    """The exact sum of some numbers, in a form that is added up later."""
    if type_ == EXACT_SUM:
        return as_part(exact_sum(values), type_)
    return as_part(sum(map(Fraction, values), Fraction(0)), type_)


def as_part(total: ExactSum | Fraction, type_: Type) -> Value:
    """An exact sum as a value."""
    if isinstance(total, ExactSum):
        return _as_data(total)
    scale = getattr(type_, "scale", 0)
    return Decimal(int(total * 10**scale)).scaleb(-scale, EXACT)


def of_floats(parts: list[tuple[Value, int]]) -> ExactSum:
    """The sum of parts that are sums of doubles."""
    total = ExactSum.zero
    for part, times in parts:
        total = total.add(_from_data(part).scaled(times))
    return total


def of_others(parts: list[tuple[Value, int]]) -> Fraction:
    """The sum of parts that are integers or decimals."""
    return sum((Fraction(part) * times for part, times in parts), Fraction(0))


def bytes_of(part: Value) -> bytes:
    """The bytes of a part of doubles, as columns hold it."""
    return pack_one(_from_data(part))


def part_of_bytes(data: bytes) -> Value:
    """The part of doubles that some bytes are."""
    return _as_data(unpack_one(data))


def _as_data(total: ExactSum) -> Data:
    counts = (total.infinite, total.minus_infinite, total.nan)
    return Data(EXACT_SUM.name, 0, (f"{total.units:x}", *counts))


def _from_data(part: Value) -> ExactSum:
    units, *counts = part.content
    return ExactSum(int(units, 16), *counts)
