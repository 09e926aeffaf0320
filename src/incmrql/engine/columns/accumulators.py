"""Accumulators as columns: from rows to sums, merging by addition, from sums to aggregates.

An accumulator is spread over named parts, all of which are added up: `a3.n` counts values,
`a3.l17` is a limb of an exact sum, `a3.inf`, `a3.ninf` and `a3.nan` count the doubles that are not
finite.  A part that is zero for every key has no column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from incmrql.engine.columns.layouts import values_of
from incmrql.io.arrow.types import arrow_type
from incmrql.io.by_row import note_by_row
from incmrql.plan.nodes import Request
from incmrql.types.model import EXACT_SUM, Decimal, Type, is_float
from incmrql.values.exact import nearest_double, square, sums, variance_of
from incmrql.values.exact.packed import pack, unpack
from incmrql.values.exact.sums import Integers, Limbs
from incmrql.values.numbers import decimal_of, divide_half_up

# --- Merging ---
#
# One sum has many representations in limbs. `normalize_parts` gives the canonical one, so that
# equal accumulators have equal columns.


Parts: TypeAlias = dict[str, Integers]
"""The columns of accumulators by name: `a0.n`, `a1.l33`, ..."""


def normalize_parts(parts: Mapping[str, Integers]) -> Parts:
    """The parts with every sum in its canonical form, without columns of zeros."""
    limbs, others = split_limbs(parts)
    normalized = {name: column for name, column in others.items() if column.any()}
    for owner, digits in limbs.items():
        normalized |= limb_parts(sums.carry_limbs(digits), f"{owner}.")
    return dict(sorted(normalized.items()))


def split_limbs(parts: Mapping[str, Integers]) -> tuple[dict[str, Limbs], Parts]:
    """The limbs of each accumulator, by the prefix of its parts, and the parts without limbs."""
    limbs: dict[str, Limbs] = {}
    others: Parts = {}
    for name, column in parts.items():
        owner, _, part = name.partition(".")
        if part.startswith("l"):
            limbs.setdefault(owner, {})[int(part[1:])] = column
        else:
            others[name] = column
    return limbs, others


def is_neutral(parts: Mapping[str, Integers], weights: Integers) -> npt.NDArray[np.bool_]:
    """Which rows add nothing: all parts are zero, and so is the weight."""
    neutral: npt.NDArray[np.bool_] = weights == 0
    for column in parts.values():
        neutral &= column == 0
    return neutral


def add(left: Mapping[str, Integers], right: Mapping[str, Integers]) -> Parts:
    """The merge of accumulators, key by key."""
    total = dict(left)
    for name, column in right.items():
        total[name] = total[name] + column if name in total else column
    return normalize_parts(total)


def pick(parts: Mapping[str, Integers], rows: npt.NDArray[Any]) -> Parts:
    """The accumulators of some keys."""
    return {name: column[rows] for name, column in parts.items()}


def limb_parts(limbs: Limbs, owner: str = "") -> Parts:
    """The limbs of a sum as parts, with names that start with their owner's."""
    return {f"{owner}l{position}": column for position, column in limbs.items()}


# --- Rows to accumulators ---


NumberKind: TypeAlias = Literal["integers", "floats", "decimals"]
How: TypeAlias = Literal["count", "true", "false", "sum", "squares", "parts", "sizes"]

SQUARES_BITS = 2 * 1074
"""Squares of doubles are multiples of 2**-SQUARES_BITS."""


@dataclass(frozen=True, slots=True)
class Lift:
    """An accumulator: its number, how it sums, the columns that it reads and their type."""

    number: int
    how: How
    columns: tuple[int, ...]
    type: Type

    @property
    def number_kind(self) -> NumberKind:
        """The kind of numbers that it sums."""
        return number_kind(self.type)

    @property
    def scale(self) -> int:
        """The scale of decimals: sums count units of the last digit."""
        return self.type.scale if isinstance(self.type, Decimal) else 0


def number_kind(type_: Type) -> NumberKind:
    """The kind of exact sum for numbers of a type."""
    if is_float(type_) or type_ == EXACT_SUM:
        return "floats"
    return "decimals" if isinstance(type_, Decimal) else "integers"


def lift_rows(
    lift: Lift, columns: list[Any], weights: Integers, group_of_row: Integers, n: int
) -> Parts:
    """The parts that rows add to an accumulator of `n` groups; rows with a null add nothing."""
    chosen = [columns[index] for index in lift.columns]
    valid = _rows_without_nulls(chosen)
    if valid is not None:
        indices = pa.array(np.flatnonzero(valid))
        chosen = [column.take(indices) for column in chosen]
        weights, group_of_row = weights[valid], group_of_row[valid]
    sums = _lift_parts(lift, chosen, weights, group_of_row, n)
    return {f"a{lift.number}.{name}": part for name, part in sums.items() if part.any()}


def scaled_sums(
    parts: Parts, rows: Integers, weights: Integers, group_of_row: Integers, n: int
) -> Parts:
    """The sums over `n` groups of the accumulators of some rows, times their weights."""
    if len(weights) and np.abs(weights).max() > 1:
        return _weighted_sums(parts, rows, weights, group_of_row, n)
    chosen = pick(parts, rows)
    if not (weights == 1).all():
        chosen = {name: column * weights for name, column in chosen.items()}
    return {name: sums.sum_by_group(column, group_of_row, n) for name, column in chosen.items()}


def _weighted_sums(
    parts: Parts, rows: Integers, weights: Integers, group_of_row: Integers, n: int
) -> Parts:
    limbs, others = split_limbs(pick(parts, rows))
    sums_ = {
        name: sums.sum_by_group(column * weights, group_of_row, n)
        for name, column in others.items()
    }
    for owner, digits in limbs.items():
        sums_ |= limb_parts(sums.sum_limbs(digits, weights, group_of_row, n), f"{owner}.")
    return sums_


def _rows_without_nulls(columns: list[Any]) -> Any:
    """A mask of the rows without a null in any column; None if no row has a null."""
    valid_rows = None
    for column in columns:
        if column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            valid_rows = valid if valid_rows is None else valid_rows & valid
    return valid_rows


def _lift_parts(
    lift: Lift, columns: list[Any], weights: Integers, group_of_row: Integers, n: int
) -> Parts:
    match lift.how:
        case "count":
            return {"n": sums.sum_by_group(weights, group_of_row, n)}
        case "true" | "false":
            bits = columns[0].to_numpy(zero_copy_only=False)
            which = bits if lift.how == "true" else ~bits
            return {"n": sums.sum_by_group(weights[which], group_of_row[which], n)}
        case "sizes":
            first, second = (c.cast(pa.int64()).to_numpy(zero_copy_only=False) for c in columns)
            return {"n": sums.sum_by_group(weights * first * second, group_of_row, n)}
        case "sum":
            return _sum_parts(lift, columns[0], weights, group_of_row, n)
        case "parts":
            times = columns[1].cast(pa.int64()).to_numpy(zero_copy_only=False)
            if lift.type == EXACT_SUM:
                return _exact_sum_parts(columns[0], weights * times, group_of_row, n)
            return _sum_parts(lift, columns[0], weights * times, group_of_row, n)
        case "squares":
            return limb_parts(_squares(lift, columns[0], weights, group_of_row, n))
        case _:
            assert_never(lift.how)


def _sum_parts(lift: Lift, column: Any, weights: Integers, group_of_row: Integers, n: int) -> Parts:
    match lift.number_kind:
        case "integers":
            numbers = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            return limb_parts(sums.sum_integers(numbers, weights, group_of_row, n))
        case "decimals":
            return limb_parts(sums.sum_decimals(column, weights, group_of_row, n))
        case "floats":
            return _float_parts(column, weights, group_of_row, n)


def _float_parts(column: Any, weights: Integers, group_of_row: Integers, n: int) -> Parts:
    numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    finite = np.isfinite(numbers)
    if finite.all():
        return limb_parts(sums.sum_doubles(numbers, weights, group_of_row, n))
    parts = limb_parts(sums.sum_doubles(numbers[finite], weights[finite], group_of_row[finite], n))
    kinds = (("inf", numbers == np.inf), ("ninf", numbers == -np.inf), ("nan", np.isnan(numbers)))
    for name, which in kinds:
        parts[name] = sums.sum_by_group(weights[which], group_of_row[which], n)
    return parts


def _exact_sum_parts(column: Any, weights: Integers, group_of_row: Integers, n: int) -> Parts:
    """The parts of exact sums that are summed, times their weights."""
    limbs, counts = unpack(column)
    parts = limb_parts(sums.sum_limbs(limbs, weights, group_of_row, n))
    for name, count in zip(("inf", "ninf", "nan"), counts, strict=True):
        parts[name] = sums.sum_by_group(weights * count, group_of_row, n)
    return parts


def _squares(lift: Lift, column: Any, weights: Integers, group_of_row: Integers, n: int) -> Limbs:
    """The sums of exact squares, number by number; numbers that are not finite count as zero."""
    note_by_row(len(column))
    totals = [0] * n
    unit = 10**lift.scale if lift.number_kind == "decimals" else 1
    if lift.number_kind == "floats":
        unit = 1 << (SQUARES_BITS // 2)
    for value, weight, group in zip(
        values_of(column, lift.type), weights.tolist(), group_of_row.tolist(), strict=True
    ):
        exact = square(value) if isinstance(value, float) else Fraction(value) ** 2
        totals[group] += int(exact * unit * unit) * weight
    return sums.limbs_of(totals)


# --- Accumulators to aggregates ---


_EXACT_DOUBLE: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class AccumulatorRead:
    """A request whose aggregate is computed from accumulators."""

    request: Request
    lifts: tuple[Lift, ...]

    @property
    def type(self) -> Type:
        """The type of its values."""
        return self.request.variable.type


def aggregate_column(read: AccumulatorRead, parts: Mapping[str, Integers], n: int) -> Any:
    """The column of an aggregate, for `n` keys."""
    first, type_ = read.lifts[0], read.type
    match read.request.function:
        case "count":
            return pa.array(_count(parts, first, n))
        case "exists" | "some":
            return pa.array(_count(parts, first, n) != 0)
        case "all":
            return pa.array(_count(parts, first, n) == 0)
        case "sum" | "sum#total":
            return _sum(first, type_, parts, n)
        case "avg" | "avg#total":
            return _mean(first, _count(parts, read.lifts[1], n), type_, parts, n)
        case "variance" | "stddev":
            return _variances(read, parts, n)
        case _:
            return _exact_sum(first, type_, parts, n)


def _sum(lift: Lift, type_: Type, parts: Mapping[str, Integers], n: int) -> Any:
    if lift.number_kind == "floats":
        return pa.array(_float_sums(parts, lift, n))
    limbs = _limbs(parts, lift)
    if isinstance(type_, Decimal):
        return _decimals(limbs, n, type_)
    if is_float(type_):
        return pa.array(np.zeros(n, np.float64))  # all values are null
    return sums.as_longs(limbs, n)


def _mean(lift: Lift, count: Integers, type_: Type, parts: Mapping[str, Integers], n: int) -> Any:
    if lift.number_kind == "floats":
        with np.errstate(divide="ignore", invalid="ignore"):
            means = _float_sums(parts, lift, n) / count + 0.0
        return pa.array(means, mask=count == 0)
    limbs = _limbs(parts, lift)
    if isinstance(type_, Decimal):
        return _decimal_means(limbs, count, n, lift.scale, type_)
    return _integer_means(limbs, count, n)


def _exact_sum(lift: Lift, type_: Type, parts: Mapping[str, Integers], n: int) -> Any:
    """A column of exact sums, which an outer query sums up."""
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
    """Sums, given in units of the decimal's scale; null where they have too many digits."""
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
    total = sums.nearest_doubles(_limbs(parts, lift), n)
    infinite, minus, nan = _not_finite(parts, lift)
    if infinite is None and minus is None and nan is None:
        return total
    zero = np.zeros(n, np.int64)
    up, down = (zero if part is None else part for part in (infinite, minus))
    total = np.where(up != 0, np.inf, np.where(down != 0, -np.inf, total))
    neither = (up != 0) & (down != 0)
    return np.where(neither if nan is None else neither | (nan != 0), np.nan, total)


def _integer_means(limbs: Limbs, count: Integers, n: int) -> Any:
    """Exact sums divided by counts, rounded once."""
    # A division of doubles rounds once if both operands are exact, that is below 2**53. Larger
    # sums are divided as integers.
    totals = sums.as_longs(limbs, n)
    plain = totals.fill_null(_EXACT_DOUBLE).to_numpy(zero_copy_only=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = plain / count + 0.0
    wide = np.flatnonzero((np.abs(plain) >= _EXACT_DOUBLE) & (count != 0))
    if len(wide):
        chosen = {position: column[wide] for position, column in limbs.items()}
        exact = sums.as_integers(chosen, len(wide))
        for i, total in zip(wide.tolist(), exact, strict=True):
            means[i] = nearest_double(total, int(count[i]))
    return pa.array(means, mask=count == 0)


def _decimal_means(limbs: Limbs, count: Integers, n: int, scale: int, type_: Decimal) -> Any:
    """Exact sums divided by counts, at the scale of the result, halves away from zero."""
    digits = type_.precision, type_.scale
    means = [
        decimal_of(divide_half_up(total * 10**type_.scale, c * 10**scale), digits) if c else None
        for total, c in zip(sums.as_integers(limbs, n), count.tolist(), strict=True)
    ]
    return pa.array(means, arrow_type(type_))


def _variances(read: AccumulatorRead, parts: Mapping[str, Integers], n: int) -> Any:
    """The variance or standard deviation of each key, from exact sums, rounded once."""
    total, squares, number = read.lifts
    per_one = 1 << SQUARES_BITS // 2 if total.number_kind == "floats" else 10**total.scale
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
    return pc.sqrt(column) if read.request.function == "stddev" else column


def _not_finite(parts: Mapping[str, Integers], lift: Lift) -> list[Integers | None]:
    """The counts of terms that are infinity, minus infinity and NaN; None if no key has any."""
    return [parts.get(f"a{lift.number}.{name}") for name in ("inf", "ninf", "nan")]


def _limbs(parts: Mapping[str, Integers], lift: Lift) -> Limbs:
    start = f"a{lift.number}.l"
    names = [name for name in parts if name.startswith(start)]
    return {int(name[len(start) :]): parts[name] for name in names}


def _count(parts: Mapping[str, Integers], lift: Lift, n: int) -> Integers:
    counts = parts.get(f"a{lift.number}.n")
    return np.zeros(n, np.int64) if counts is None else counts
