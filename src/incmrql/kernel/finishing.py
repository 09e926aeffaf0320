"""From accumulators to the aggregates that answers ask for, key by key, as columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from incmrql.formats.arrow_types import arrow_type
from incmrql.incremental.nodes import Request
from incmrql.kernel.lifting import SQUARES_BITS, Lift
from incmrql.types.model import EXACT_SUM, Decimal, Type, is_float
from incmrql.values.exact import nearest_double, sums, variance_of
from incmrql.values.exact.packed import pack
from incmrql.values.exact.sums import Integers, Limbs
from incmrql.values.numbers import decimal_of, half_up

_EXACT_DOUBLE: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class Asked:
    """An aggregate that comes from accumulators."""

    request: Request
    lifts: tuple[Lift, ...]

    @property
    def type(self) -> Type:
        """The type of its values."""
        return self.request.variable.type


def finished(asked: Asked, parts: Mapping[str, Integers], n: int) -> Any:
    """The aggregate of `n` keys, as a column."""
    first, type_ = asked.lifts[0], asked.type
    match asked.request.function:
        case "count":
            return pa.array(_count(parts, first, n))
        case "exists" | "some":
            return pa.array(_count(parts, first, n) != 0)
        case "all":
            return pa.array(_count(parts, first, n) == 0)
        case "sum" | "sum#total":
            return _sum(first, type_, parts, n)
        case "avg" | "avg#total":
            return _mean(first, _count(parts, asked.lifts[1], n), type_, parts, n)
        case "variance" | "stddev":
            return _spreads(asked, parts, n)
        case _:
            return _part(first, type_, parts, n)


def _sum(lift: Lift, type_: Type, parts: Mapping[str, Integers], n: int) -> Any:
    if lift.summed == "floats":
        return pa.array(_float_sums(parts, lift, n))
    limbs = _limbs(parts, lift)
    if isinstance(type_, Decimal):
        return _decimals(limbs, n, type_)
    if is_float(type_):
        return pa.array(np.zeros(n, np.float64))  # of nothing but nulls
    return sums.as_longs(limbs, n)


def _mean(lift: Lift, count: Integers, type_: Type, parts: Mapping[str, Integers], n: int) -> Any:
    if lift.summed == "floats":
        with np.errstate(divide="ignore", invalid="ignore"):
            means = _float_sums(parts, lift, n) / count + 0.0
        return pa.array(means, mask=count == 0)
    limbs = _limbs(parts, lift)
    if isinstance(type_, Decimal):
        return _decimal_means(limbs, count, n, lift.scale, type_)
    return _integer_means(limbs, count, n)


def _part(lift: Lift, type_: Type, parts: Mapping[str, Integers], n: int) -> Any:
    """An exact sum that is added up later."""
    limbs = _limbs(parts, lift)
    if type_ == EXACT_SUM:
        counts = _not_finite(parts, lift)
        if all(count is None for count in counts):
            return pack(limbs, None, n)
        zero = np.zeros(n, np.int64)
        infinite, minus, nan = (zero if count is None else count for count in counts)
        return pack(limbs, (infinite, minus, nan), n)
    assert isinstance(type_, Decimal)
    return _decimals(limbs, n, type_)


def _decimals(limbs: Limbs, n: int, type_: Decimal) -> Any:
    """Sums in units of a decimal's scale; null where they have too many digits."""
    if not limbs or max(limbs) <= 1:
        longs = sums.as_longs(limbs, n)
        plain = longs.fill_null(0).to_numpy(zero_copy_only=False)
        if not longs.null_count and (
            type_.precision >= 19 or np.abs(plain).max(initial=0) < 10**type_.precision
        ):
            words = np.stack([plain, plain >> 63], axis=1)
            data = pa.py_buffer(np.ascontiguousarray(words))
            return pa.Array.from_buffers(arrow_type(type_), n, [None, data])
    totals = sums.as_integers(limbs, n)
    digits = type_.precision, type_.scale
    return pa.array([decimal_of(total, digits) for total in totals], arrow_type(type_))


def _float_sums(parts: Mapping[str, Integers], lift: Lift, n: int) -> npt.NDArray[np.float64]:
    total = sums.rounded(_limbs(parts, lift), n)
    infinite, minus, nan = _not_finite(parts, lift)
    if infinite is None and minus is None and nan is None:
        return total
    zero = np.zeros(n, np.int64)
    up, down = (zero if part is None else part for part in (infinite, minus))
    total = np.where(up != 0, np.inf, np.where(down != 0, -np.inf, total))
    neither = (up != 0) & (down != 0)
    return np.where(neither if nan is None else neither | (nan != 0), np.nan, total)


def _integer_means(limbs: Limbs, count: Integers, n: int) -> Any:
    """Exact sums over counts, rounded once: one division where both are exact doubles."""
    totals = sums.as_longs(limbs, n)
    plain = totals.fill_null(_EXACT_DOUBLE).to_numpy(zero_copy_only=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = plain / count + 0.0
    wide = np.flatnonzero((np.abs(plain) >= _EXACT_DOUBLE) & (count != 0))
    if len(wide):
        chosen = {place: column[wide] for place, column in limbs.items()}
        exact = sums.as_integers(chosen, len(wide))
        for i, total in zip(wide.tolist(), exact, strict=True):
            means[i] = nearest_double(total, int(count[i]))
    return pa.array(means, mask=count == 0)


def _decimal_means(limbs: Limbs, count: Integers, n: int, scale: int, type_: Decimal) -> Any:
    """Exact sums over counts at the scale of the result, halves away from zero."""
    digits = type_.precision, type_.scale
    means = [
        decimal_of(half_up(total * 10**type_.scale, c * 10**scale), digits) if c else None
        for total, c in zip(sums.as_integers(limbs, n), count.tolist(), strict=True)
    ]
    return pa.array(means, arrow_type(type_))


def _spreads(asked: Asked, parts: Mapping[str, Integers], n: int) -> Any:
    """The variance or standard deviation of each key, from exact sums and rounded once."""
    total, squares, number = asked.lifts
    per_one = 1 << SQUARES_BITS // 2 if total.summed == "floats" else 10**total.scale
    odd = [count != 0 for count in _not_finite(parts, total) if count is not None]
    finite = ~np.logical_or.reduce(odd) if odd else np.ones(n, np.bool_)
    rows = zip(
        finite.tolist(),
        sums.as_integers(_limbs(parts, total), n),
        sums.as_integers(_limbs(parts, squares), n),
        _count(parts, number, n).tolist(),
        strict=True,
    )
    spreads = [
        variance_of(sum_, sum_of_squares, count, Fraction(1, per_one))
        if is_finite or count < 2
        else math.nan
        for is_finite, sum_, sum_of_squares, count in rows
    ]
    column = pa.array(spreads, pa.float64())
    return pc.sqrt(column) if asked.request.function == "stddev" else column


def _not_finite(parts: Mapping[str, Integers], lift: Lift) -> list[Integers | None]:
    """How many terms were infinite, minus infinite and NaN; None where no key has any."""
    return [parts.get(f"a{lift.number}.{name}") for name in ("inf", "ninf", "nan")]


def _limbs(parts: Mapping[str, Integers], lift: Lift) -> Limbs:
    start = f"a{lift.number}.l"
    found = [name for name in parts if name.startswith(start)]
    return {int(name[len(start) :]): parts[name] for name in found}


def _count(parts: Mapping[str, Integers], lift: Lift, n: int) -> Integers:
    found = parts.get(f"a{lift.number}.n")
    return np.zeros(n, np.int64) if found is None else found
