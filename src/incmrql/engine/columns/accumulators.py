"""The sums of groups as columns: what rows bring, how they merge, which aggregates they give.

An accumulator is spread over named parts, all of which are added up: `a3.n` counts values,
`a3.l17` is a limb of an exact sum, `a3.inf`, `a3.ninf` and `a3.nan` count the doubles that are not
finite.  A part that is zero for every key is not there.
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
from incmrql.plan.nodes import Request
from incmrql.types.model import EXACT_SUM, Decimal, Type, is_float
from incmrql.values.exact import nearest_double, square, sums, variance_of
from incmrql.values.exact.packed import pack, unpack
from incmrql.values.exact.sums import Integers, Limbs
from incmrql.values.numbers import decimal_of, half_up

# --- Merging ---
#
# `tidy` gives the one form of each accumulator.


Parts: TypeAlias = dict[str, Integers]
"""The columns of accumulators by name: `a0.n`, `a1.l33`, ..."""


def tidy(parts: Mapping[str, Integers]) -> Parts:
    """Every sum in its one form, and no part that is all zero."""
    limbs, others = split_limbs(parts)
    done = {name: column for name, column in others.items() if column.any()}
    for owner, digits in limbs.items():
        done |= named(sums.carried(digits), f"{owner}.")
    return dict(sorted(done.items()))


def split_limbs(parts: Mapping[str, Integers]) -> tuple[dict[str, Limbs], Parts]:
    """The limbs of each accumulator, by what its parts begin with, and the parts that are none."""
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
    """Which rows add nothing: tidy parts all zero, and no multiplicity."""
    neutral: npt.NDArray[np.bool_] = weights == 0
    for column in parts.values():
        neutral &= column == 0
    return neutral


def add(one: Mapping[str, Integers], two: Mapping[str, Integers]) -> Parts:
    """The merge of accumulators, key by key."""
    total = dict(one)
    for name, column in two.items():
        total[name] = total[name] + column if name in total else column
    return tidy(total)


def pick(parts: Mapping[str, Integers], places: npt.NDArray[Any]) -> Parts:
    """The accumulators of some keys."""
    return {name: column[places] for name, column in parts.items()}


def named(limbs: Limbs, owner: str = "") -> Parts:
    """The limbs of a sum as parts, whose names begin with that of their owner."""
    return {f"{owner}l{place}": column for place, column in limbs.items()}


# --- Rows to accumulators ---


Summed: TypeAlias = Literal["integers", "floats", "decimals"]
How: TypeAlias = Literal["count", "true", "false", "sum", "squares", "parts", "sizes"]

SQUARES_BITS = 2 * 1074
"""Squares of doubles are multiples of 2**-SQUARES_BITS."""


@dataclass(frozen=True, slots=True)
class Lift:
    """An accumulator: its number, how it adds up, which columns it looks at and of what type."""

    number: int
    how: How
    columns: tuple[int, ...]
    type: Type

    @property
    def summed(self) -> Summed:
        """What kind of numbers is added up."""
        return summed(self.type)

    @property
    def scale(self) -> int:
        """The digits behind the point of decimals, of which units are added up."""
        return self.type.scale if isinstance(self.type, Decimal) else 0


def summed(type_: Type) -> Summed:
    """How numbers of a type are added up."""
    if is_float(type_) or type_ == EXACT_SUM:
        return "floats"
    return "decimals" if isinstance(type_, Decimal) else "integers"


def lifted(lift: Lift, columns: list[Any], weights: Integers, of: Integers, n: int) -> Parts:
    """What rows add to an accumulator of `n` groups; `of` says which group each row is in."""
    chosen = [columns[place] for place in lift.columns]
    there = _there(chosen)
    if there is not None:
        index = pa.array(np.flatnonzero(there))
        chosen = [column.take(index) for column in chosen]
        weights, of = weights[there], of[there]
    found = _lifted(lift, chosen, weights, of, n)
    return {f"a{lift.number}.{name}": part for name, part in found.items() if part.any()}


def scaled_sums(parts: Parts, at: Integers, weights: Integers, of: Integers, n: int) -> Parts:
    """Accumulators at places, each as often as its weight says, added up over `n` groups."""
    if len(weights) and np.abs(weights).max() > 1:
        return _scaled(parts, at, weights, of, n)
    chosen = pick(parts, at)
    if not (weights == 1).all():
        chosen = {name: column * weights for name, column in chosen.items()}
    return {name: sums.added(column, of, n) for name, column in chosen.items()}


def _scaled(parts: Parts, at: Integers, weights: Integers, of: Integers, n: int) -> Parts:
    limbs, others = split_limbs(pick(parts, at))
    scaled = {name: sums.added(column * weights, of, n) for name, column in others.items()}
    for owner, digits in limbs.items():
        scaled |= named(sums.sum_limbs(digits, weights, of, n), f"{owner}.")
    return scaled


def _there(columns: list[Any]) -> Any:
    """Which rows have all columns; None if all have."""
    found = None
    for column in columns:
        if column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            found = valid if found is None else found & valid
    return found


def _lifted(lift: Lift, columns: list[Any], weights: Integers, of: Integers, n: int) -> Parts:
    match lift.how:
        case "count":
            return {"n": sums.added(weights, of, n)}
        case "true" | "false":
            bits = columns[0].to_numpy(zero_copy_only=False)
            which = bits if lift.how == "true" else ~bits
            return {"n": sums.added(weights[which], of[which], n)}
        case "sizes":
            first, second = (c.cast(pa.int64()).to_numpy(zero_copy_only=False) for c in columns)
            return {"n": sums.added(weights * first * second, of, n)}
        case "sum":
            return _summed(lift, columns[0], weights, of, n)
        case "parts":
            times = columns[1].cast(pa.int64()).to_numpy(zero_copy_only=False)
            if lift.type == EXACT_SUM:
                return _parts(columns[0], weights * times, of, n)
            return _summed(lift, columns[0], weights * times, of, n)
        case "squares":
            return named(_squares(lift, columns[0], weights, of, n))
        case _:
            assert_never(lift.how)


def _summed(lift: Lift, column: Any, weights: Integers, of: Integers, n: int) -> Parts:
    match lift.summed:
        case "integers":
            numbers = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            return named(sums.sum_integers(numbers, weights, of, n))
        case "decimals":
            return named(sums.sum_decimals(column, weights, of, n))
        case "floats":
            return _floats(column, weights, of, n)


def _floats(column: Any, weights: Integers, of: Integers, n: int) -> Parts:
    numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    finite = np.isfinite(numbers)
    if finite.all():
        return named(sums.sum_doubles(numbers, weights, of, n))
    parts = named(sums.sum_doubles(numbers[finite], weights[finite], of[finite], n))
    kinds = (("inf", numbers == np.inf), ("ninf", numbers == -np.inf), ("nan", np.isnan(numbers)))
    for name, which in kinds:
        parts[name] = sums.added(weights[which], of[which], n)
    return parts


def _parts(column: Any, weights: Integers, of: Integers, n: int) -> Parts:
    """Exact sums, each as often as its weight says."""
    limbs, counts = unpack(column)
    found = named(sums.sum_limbs(limbs, weights, of, n))
    for name, count in zip(("inf", "ninf", "nan"), counts, strict=True):
        found[name] = sums.added(weights * count, of, n)
    return found


def _squares(lift: Lift, column: Any, weights: Integers, of: Integers, n: int) -> Limbs:
    """Exact squares, number by number; those of numbers that are not finite count as nothing."""
    totals = [0] * n
    unit = 10**lift.scale if lift.summed == "decimals" else 1
    if lift.summed == "floats":
        unit = 1 << (SQUARES_BITS // 2)
    for value, weight, group in zip(
        values_of(column, lift.type), weights.tolist(), of.tolist(), strict=True
    ):
        exact = square(value) if isinstance(value, float) else Fraction(value) ** 2
        totals[group] += int(exact * unit * unit) * weight
    return sums.limbs_of(totals)


# --- Accumulators to aggregates ---


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
