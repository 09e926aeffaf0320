"""What rows bring to the accumulators of their groups: sums of integers, column by column.

An accumulator is spread over named parts, all of which are added up: `a3.n` counts, `a3.l17` is a
limb of an exact sum, `a3.inf`, `a3.ninf` and `a3.nan` count the doubles that are not finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias, assert_never

import numpy as np
import pyarrow as pa

from incmrql.kernel.accumulators import Parts, named, pick, split_limbs
from incmrql.kernel.layouts import values_of
from incmrql.types.model import EXACT_SUM, Decimal, Type, is_float
from incmrql.values.exact import square, sums
from incmrql.values.exact.packed import unpack
from incmrql.values.exact.sums import Integers, Limbs

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
