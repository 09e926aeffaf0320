"""One exact sum of doubles as an integer, and what rounds once: sums, averages, variances."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final

BITS: Final = 32
"""The digits of sums, in limbs and in bytes, have the base 2**BITS."""
_UNITS_PER_ONE: Final = 1 << 1074
_ONE: Final = Fraction(1)


@dataclass(frozen=True, slots=True)
class ExactSum:
    """A sum of doubles: `units` times 2**-1074, and how many terms were not finite."""

    units: int = 0
    infinite: int = 0
    minus_infinite: int = 0
    nan: int = 0

    zero: ClassVar[ExactSum]

    @staticmethod
    def of(x: float) -> ExactSum:
        """The sum of one number."""
        if math.isfinite(x):
            numerator, denominator = x.as_integer_ratio()
            return ExactSum(numerator * (_UNITS_PER_ONE // denominator))
        return ExactSum(0, int(x == math.inf), int(x == -math.inf), int(math.isnan(x)))

    def add(self, other: ExactSum) -> ExactSum:
        """The sum of the terms of both."""
        return ExactSum(
            self.units + other.units,
            self.infinite + other.infinite,
            self.minus_infinite + other.minus_infinite,
            self.nan + other.nan,
        )

    def negate(self) -> ExactSum:
        """The inverse of this sum: adding it gives `ExactSum.zero`."""
        return self.scaled(-1)

    def scaled(self, weight: int) -> ExactSum:
        """The sum of `weight` times every term; a negative weight deletes them."""
        return ExactSum(
            self.units * weight,
            self.infinite * weight,
            self.minus_infinite * weight,
            self.nan * weight,
        )

    def __add__(self, other: ExactSum) -> ExactSum:
        return self.add(other)

    def __neg__(self) -> ExactSum:
        return self.negate()

    def __sub__(self, other: ExactSum) -> ExactSum:
        return self.add(other.negate())

    @property
    def finite(self) -> bool:
        """Whether every term is a finite number."""
        return not (self.infinite or self.minus_infinite or self.nan)

    def result(self) -> float:
        """The double nearest to the sum, ties to even; with infinite terms as in IEEE 754."""
        if self.nan or (self.infinite and self.minus_infinite):
            return math.nan
        if self.infinite or self.minus_infinite:
            return math.inf if self.infinite else -math.inf
        return nearest_double(self.units, _UNITS_PER_ONE)


ExactSum.zero = ExactSum()


def nearest_double(numerator: int, denominator: int) -> float:
    """The double nearest to a fraction, ties to even, infinite beyond the largest; never -0.0."""
    try:
        return numerator / denominator + 0.0  # Python rounds the quotient of integers once
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def digits_of(total: int) -> list[int]:
    """The digits of an integer in base 2**BITS, the lowest first, each in [-2**31, 2**31)."""
    half, digits = 1 << (BITS - 1), []
    while total:
        digit = ((total + half) & ((1 << BITS) - 1)) - half
        total = (total - digit) >> BITS
        digits.append(digit)
    return digits


def exact_sum(numbers: Iterable[float]) -> ExactSum:
    """The sum of some doubles, not yet rounded."""
    total = ExactSum.zero
    for x in numbers:
        total = total.add(ExactSum.of(x))
    return total


def sum_floats(numbers: Iterable[float]) -> float:
    """The exact sum of some doubles, rounded once."""
    return exact_sum(numbers).result()


def average(total: ExactSum, count: int) -> float | None:
    """The rounded sum divided by the count, which rounds once more; null if the count is 0."""
    return total.result() / count + 0.0 if count else None


def square(x: float) -> Fraction:
    """The exact square of a finite double; 0 for infinities and NaN.

    Squares are multiples of 2**-2148.  `ExactSum` counts the numbers that are not finite.
    """
    return Fraction(x) ** 2 if math.isfinite(x) else Fraction(0)


def variance(total: ExactSum, squares: Fraction, count: int) -> float | None:
    """The sample variance, rounded once; null if n < 2, NaN if a number is not finite."""
    if count >= 2 and not total.finite:
        return math.nan
    return variance_of(Fraction(total.units, _UNITS_PER_ONE), squares, count)


def variance_of(
    total: Fraction | int, squares: Fraction | int, count: int, unit: Fraction = _ONE
) -> float | None:
    """The sample variance (squares - sum**2 / n) / (n - 1), rounded once; null if n < 2.

    The sum is a number of units, the sum of squares one of squared units.
    """
    if count < 2:
        return None
    exact = Fraction(squares * count - total * total, count * (count - 1)) * unit**2
    return nearest_double(exact.numerator, exact.denominator)


def stddev(total: ExactSum, squares: Fraction, count: int) -> float | None:
    """The square root of the sample variance."""
    spread = variance(total, squares, count)
    return None if spread is None else math.sqrt(spread)
