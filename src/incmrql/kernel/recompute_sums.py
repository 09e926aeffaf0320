"""Exact sums of doubles in slices: each a stretch of bits that plain sums of doubles hold exactly.

    x  =  h1 + h2 + h3 + ...        h1 a multiple of 2**q1, h2 of a smaller 2**q2, and so on

What is added up of a slice stays below 2**53 of its units, so that no sum of it is rounded, in
whatever order it is made.  Numbers of ordinary size take two or three slices.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from incmrql.kernel import sums
from incmrql.kernel.sums import Integers, Limbs

_BITS: Final = 32
_MASK: Final = np.int64((1 << _BITS) - 1)
_DIGITS: Final = 53
_FEWEST: Final = 16
"""A slice of fewer bits is not worth it."""
_LARGEST: Final = 900
"""Numbers from 2**_LARGEST on are left to others: adding them up may overflow."""
_SMALLEST: Final = -1074
"""Doubles are multiples of 2**_SMALLEST."""
_MOST_SLICES: Final = 6


def sum_doubles(numbers: npt.NDArray[np.float64], weights: Integers, of: Integers, n: int) -> Limbs:
    """The sums of finite doubles, each times its weight, over `n` groups."""
    if not len(numbers):
        return {}
    once = bool((weights == 1).all())
    sizes = np.bincount(of, None if once else np.abs(weights))
    room = _DIGITS - 1 - math.frexp(float(sizes.max()))[1]
    top = math.frexp(max(float(numbers.max()), -float(numbers.min())))[1]
    if room < _FEWEST or top > _LARGEST:
        return sums.sum_doubles(numbers, weights, of, n)
    total: Limbs = {}
    rest, slice_ = numbers, np.empty_like(numbers)
    for _ in range(_MOST_SLICES):
        if not rest.any():
            return sums.carried(total)
        unit = max(top - room, _SMALLEST)
        shift = math.ldexp(1.5, 52 + unit)
        np.add(rest, shift, out=slice_)
        np.subtract(slice_, shift, out=slice_)
        rest = np.subtract(rest, slice_, out=None if rest is numbers else rest)
        terms = slice_ if once else slice_ * weights
        _add(total, np.bincount(of, terms, n), unit)
        top = unit
    for place, column in sums.sum_doubles(rest, weights, of, n).items():
        total[place] = total[place] + column if place in total else column
    return sums.carried(total)


def _add(total: Limbs, found: npt.NDArray[Any], unit: int) -> None:
    """Add multiples of 2**unit, fewer than 2**53, to sums."""
    whole = np.ldexp(found, -unit).astype(np.int64)
    place, shift = divmod(unit - _SMALLEST, _BITS)
    low = (whole & _MASK) << shift
    digits = low & _MASK, ((whole >> _BITS) << shift) + (low >> _BITS)
    for i, digit in enumerate(digits, place):
        total[i] = total[i] + digit if i in total else digit
