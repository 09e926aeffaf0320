"""`variance` and `stddev` from exact sums in limbs of 32 bits, rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any as Arrow
from typing import Final

import pyarrow as pa

from incmrql.values.exact import nearest_double

FUNCTIONS: Final = ("variance#sums", "stddev#sums")


def apply(function: str, columns: Sequence[Arrow]) -> Arrow:
    """A column of variances or standard deviations.

    The columns: how many values there are; the sum of those that are not finite, 0.0 if none;
    the limbs of the sum of the others; those of the sum of their squares; what exponent of two
    the lowest limb of the sum has, which for squares is twice as low.
    """
    rows = zip(*[column.to_pylist() for column in columns], strict=True)
    found = [_variance(*row) for row in rows]
    if function == "stddev#sums":
        found = [None if each is None else math.sqrt(each) for each in found]
    return pa.array(found, pa.float64())


def _variance(
    count: int | None, special: float, limbs: list[int], squares: list[int], lowest: int
) -> float | None:
    """(sum of squares - square of sum / n) / (n - 1); null of fewer than two values."""
    if count is None or count < 2:
        return None
    if special != 0.0:
        return math.nan
    total, square = (sum(part << 32 * n for n, part in enumerate(p)) for p in (limbs, squares))
    unit = Fraction(2) ** (2 * lowest)
    exact = Fraction(square * count - total * total, count * (count - 1)) * unit
    return nearest_double(exact.numerator, exact.denominator)
