"""Aggregates over a collection, by their definitions.

Nulls are skipped.  Sums are exact and rounded once, so the order of the elements does not
matter; `first` and ties go by the canonical order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Final

from incmrql.reference.navigate import Fail, ignore
from incmrql.reference.operators import ordered_elements
from incmrql.types.model import EXACT_SUM, Type, is_float
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Bag, Data, ExactSum, Value, average, exact_sum, sort_values, sum_floats
from incmrql.values.encoding import EXACT
from incmrql.values.exact import nearest_double, variance_of
from incmrql.values.exact.packed import pack_sum, unpack_sum
from incmrql.values.numbers import LONG, fit_or_null, nearest_decimal

# --- Sums in two steps ---
#
# Exact parts first, then their total; each part is multiplied by its count.
#
#   sum(n copies of every x in X, …)  =  sum#total({(sum#part(X), n), …})
#   avg(n copies of every x in X, …)  =  avg#total({(sum#part(X), count(X), n), …})
#
# Scripts cannot name these aggregates; rewrite rules introduce them. A part is always exact, so
# nothing is rounded or overflows before the end. The part of integers is a `decimal(38,0)`, that of
# decimals of up to 19 digits a decimal of 38 digits: both hold every sum of less than 2**63 terms.
# The part of doubles is an `EXACT_SUM`, which each engine represents in its own way.


def partial_sum(values: list[Value], type_: Type) -> Value:
    """The exact sum of some numbers, as a value that `sum#total` adds up."""
    if type_ == EXACT_SUM:
        return sum_part_value(exact_sum(values), type_)
    return sum_part_value(sum(map(Fraction, values), Fraction(0)), type_)


def sum_part_value(total: ExactSum | Fraction, type_: Type) -> Value:
    """An exact sum as a value."""
    if isinstance(total, ExactSum):
        return _as_data(total)
    scale = getattr(type_, "scale", 0)
    return Decimal(int(total * 10**scale)).scaleb(-scale, EXACT)


def sum_float_parts(parts: list[tuple[Value, int]]) -> ExactSum:
    """The sum of parts that are sums of doubles."""
    total = ExactSum.zero
    for part, times in parts:
        total = total.add(_from_data(part).scaled(times))
    return total


def sum_fraction_parts(parts: list[tuple[Value, int]]) -> Fraction:
    """The sum of parts that are integers or decimals."""
    return sum((Fraction(part) * times for part, times in parts), Fraction(0))


def pack_part(part: Value) -> bytes:
    """The bytes of an `EXACT_SUM` value, as columns hold it."""
    return pack_sum(_from_data(part))


def unpack_part(data: bytes) -> Value:
    """The `EXACT_SUM` value that `pack_part` packed."""
    return _as_data(unpack_sum(data))


def fraction_of_sum(part: Value) -> Fraction | None:
    """The number that an `EXACT_SUM` value is; None if a term was not finite."""
    total = _from_data(part)
    return Fraction(total.units, ExactSum.of(1.0).units) if total.finite else None


def _as_data(total: ExactSum) -> Data:
    counts = (total.infinite, total.minus_infinite, total.nan)
    return Data(EXACT_SUM.name, 0, (f"{total.units:x}", *counts))


def _from_data(part: Value) -> ExactSum:
    units, *counts = part.content
    return ExactSum(int(units, 16), *counts)


def exact_part(part: Value) -> ExactSum | Fraction:
    """The exact sum that a part is."""
    return _from_data(part) if isinstance(part, Data) else Fraction(part)


def sum_of_exact(total: ExactSum | Fraction, type_: Type) -> Value:
    """An exact sum in the type of a sum; null if it does not fit."""
    return total.result() if isinstance(total, ExactSum) else _fit_sum(total, type_, ignore)


def average_of_exact(total: ExactSum | Fraction, count: int, type_: Type) -> Value:
    """An exact sum of some values divided by their number, in the type of an average."""
    if isinstance(total, ExactSum):
        return average(total, count)
    return _mean(total, count, type_, ignore)


# --- By definition ---


def aggregate(
    name: str, operand: Value, type_: Type, extra: Value = None, fail: Fail = ignore
) -> Value:
    """An aggregate of the elements that are not null, in its type."""
    values = [value for value in ordered_elements(operand) if value is not None]
    match name:
        case "sum":
            return _sum(values, type_, fail)
        case "avg":
            return _average(values, type_, fail) if values else None
        case "sum#part":
            return partial_sum(values, type_)
        case "sum#total":
            return _total(values, type_, fail)
        case "avg#total":
            return _average_of_parts(values, type_, fail)
        case "percentile":
            return _percentile_or_null(values, extra, fail)
        case _ if name in SPARK_PERCENTILES:
            return spark_percentile(name, sort_values(values), len(values), extra)
        case _:
            return _PLAIN[name](values)


def _sum(values: list[Value], type_: Type, fail: Fail) -> Value:
    if is_float(type_):
        return sum_floats(values)
    return _fit_sum(sum(map(Fraction, values), Fraction(0)), type_, fail)


def _total(parts: list[Value], type_: Type, fail: Fail) -> Value:
    """The sum of (part, times)."""
    if is_float(type_):
        return sum_float_parts(parts).result()
    return _fit_sum(sum_fraction_parts(parts), type_, fail)


def _fit_sum(number: Fraction, type_: Type, fail: Fail) -> Value:
    """An exact sum in its type, or null."""
    total: Value = None
    if isinstance(type_, DecimalType):
        total = nearest_decimal(number, (type_.precision, type_.scale))
    else:
        total = fit_or_null(LONG, int(number))
    if total is None:
        fail(f"the sum does not fit {type_}")
    return total


def _average(values: list[Value], type_: Type, fail: Fail) -> Value:
    """The sum divided by the count."""
    # For doubles the rounded sum is divided, which rounds twice: that is what `avg` is defined
    # as, since engines have the sum as a double.  Integers and decimals are rounded once.
    if isinstance(values[0], float):
        return average(exact_sum(values), len(values))
    return _mean(sum(map(Fraction, values), Fraction(0)), len(values), type_, fail)


def _average_of_parts(parts: list[Value], type_: Type, fail: Fail) -> Value:
    """The average of (part, count, times)."""
    count = sum([size * times for _, size, times in parts])
    weighted = [(part, times) for part, _, times in parts]
    if count == 0:
        return None
    if isinstance(parts[0][0], Data):
        return average(sum_float_parts(weighted), count)
    return _mean(sum_fraction_parts(weighted), count, type_, fail)


def _mean(total: Fraction, count: int, type_: Type, fail: Fail) -> Value:
    mean = total / count
    if not isinstance(type_, DecimalType):
        return _to_double(mean)
    result = nearest_decimal(mean, (type_.precision, type_.scale))
    if result is None:
        fail(f"the average does not fit {type_}")
    return result


def _variance(values: list[Value]) -> float | None:
    """The sample variance, exact and then rounded once; null of fewer than two values."""
    if len(values) >= 2 and not all(map(_is_finite, values)):
        return math.nan
    exact = [Fraction(x) for x in values if _is_finite(x)]
    return variance_of(
        sum(exact, Fraction(0)), sum([x * x for x in exact], Fraction(0)), len(values)
    )


def _stddev(values: list[Value]) -> float | None:
    spread = _variance(values)
    return None if spread is None else math.sqrt(spread)


def _median(values: list[Value]) -> float | None:
    return _percentile(values, Fraction(1, 2))


def _percentile_or_null(values: list[Value], p: float | None, fail: Fail) -> float | None:
    if p is None:
        return None
    if not 0 <= p <= 1:
        fail(f"percentile {p} is not between 0 and 1")
        return None
    return _percentile(values, Fraction(p))


def _percentile(values: list[Value], p: Fraction) -> float | None:
    """The value at position (n - 1) p of the sorted values, interpolated linearly."""
    if not values:
        return None
    position = (len(values) - 1) * p
    below = math.floor(position)
    part = position - below
    ordered = sort_values(values)
    return _between(ordered[below], ordered[below + 1], part) if part else float(ordered[below])


def _between(low: Value, high: Value, part: Fraction) -> float:
    """The point on the line from `low` to `high`, exact and then rounded once."""
    if _is_finite(low) and _is_finite(high):
        return _to_double(Fraction(low) + (Fraction(high) - Fraction(low)) * part)
    return low if low == high else float(low) + float(high)


# --- Percentiles of Spark ---

SPARK_PERCENTILES: Final = {
    "spark.percentile": (True, False),
    "spark.percentile_desc": (True, True),
    "spark.percentile_disc": (False, False),
    "spark.percentile_disc_desc": (False, True),
}
"""Percentiles of Spark: whether they interpolate, and whether the largest value is first."""


def spark_percentile_span(name: str, count: int, p: float) -> tuple[int, int]:
    """The ranks of the sorted values that a percentile depends on: from the first to the last."""
    interpolates, descending = SPARK_PERCENTILES[name]
    position = _spark_position(count, p, interpolates=interpolates)
    below, above = math.floor(position), math.ceil(position)
    return (count - 1 - above, count - 1 - below) if descending else (below, above)


def spark_percentile(
    name: str, values: list[Value], count: int, p: float, start: int = 0
) -> float | None:
    """A percentile in doubles, of sorted values that begin at the rank `start` of `count`."""
    if not count:
        return None
    interpolates, descending = SPARK_PERCENTILES[name]
    first, last = spark_percentile_span(name, count, p)
    low, high = values[first - start], values[last - start]
    if first == last or low == high:
        return float(low)
    position = _spark_position(count, p, interpolates=interpolates)
    below, above = math.floor(position), math.ceil(position)
    if descending:
        low, high = high, low
    return (above - position) * float(low) + (position - below) * float(high)


def _spark_position(count: int, p: float, *, interpolates: bool) -> float:
    return (count - 1) * p if interpolates else max(float(math.ceil(count * p)) - 1, 0.0)


def _first(values: list[Value]) -> Value:
    return values[0] if values else None


def _least(values: list[Value]) -> Value:
    return _first(sort_values(values))


def _greatest(values: list[Value]) -> Value:
    return _first(sort_values(values)[::-1])


def _is_finite(value: Value) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _to_double(number: Fraction) -> float:
    return nearest_double(number.numerator, number.denominator)


_PLAIN: Final[Mapping[str, Callable[[list[Value]], Value]]] = {
    "count": len,
    "min": _least,
    "max": _greatest,
    "some": any,
    "all": all,
    "variance": _variance,
    "stddev": _stddev,
    "median": _median,
    "first": _first,
    "collect": Bag,
}
