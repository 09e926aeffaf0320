"""Exact sums as columns of limbs: the group of `scalar`, vectorised.

A sum is an integer multiple of a unit (2**-1074 for doubles), held as digits in base 2**32,

    sum  =  unit * (limb[0] + limb[1] * 2**32 + limb[2] * 2**64 + ...)

Adding sums adds limbs; `carry_limbs` brings every digit back into [-2**31, 2**31), where each
integer has exactly one form, so that equal sums have equal limbs in whatever order they were added.
Limbs that are all zero are left out: numbers of ordinary size need three or four of the 68 that
the whole range of doubles takes.

Doubles are added up in slices, each a stretch of bits that plain sums of doubles hold exactly:

    x  =  h1 + h2 + h3 + ...        h1 a multiple of 2**q1, h2 of a smaller 2**q2, and so on

Sums of a slice stay below 2**53 of its units, so that none of them is rounded, in any order of
additions.  Numbers of ordinary size take two or three slices.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.values.exact.scalar import BITS, digits_of

Integers: TypeAlias = npt.NDArray[np.int64]
Limbs: TypeAlias = dict[int, Integers]
"""The digits of many sums, by the exponent of 2**32; a missing limb is all zero."""

_BASE: Final = 1 << BITS
_HALF: Final = 1 << (BITS - 1)
_MASK: Final = np.int64(_BASE - 1)
_EXACT: Final = 1 << 53
"""Doubles hold all integers below this."""
_ROOM: Final = 1 << 29
"""So many digits below 2**33 add up to less than 2**62."""
_SMALLEST: Final = 1074
"""Doubles are multiples of 2**-1074."""
_DIGITS: Final = 53
_FEWEST: Final = 16
"""A slice of fewer bits is not worth it."""
_LARGEST: Final = 900
"""Numbers of 2**_LARGEST and more are added up by their digits: sums of doubles may overflow."""
_MOST_SLICES: Final = 6


def sum_doubles(
    numbers: npt.NDArray[np.float64], weights: Integers, groups: Integers, n: int
) -> Limbs:
    """The sums of finite doubles, each times its weight, over `n` groups."""
    if not len(numbers):
        return {}
    once = bool((weights == 1).all())
    sizes = np.bincount(groups, None if once else np.abs(weights))
    room = _DIGITS - 1 - math.frexp(float(sizes.max()))[1]
    top = math.frexp(max(float(numbers.max()), -float(numbers.min())))[1]
    if room < _FEWEST or top > _LARGEST:
        return sum_digits(numbers, weights, groups, n)
    total: Limbs = {}
    rest, slice_ = numbers, np.empty_like(numbers)
    for _ in range(_MOST_SLICES):
        if not rest.any():
            return carry_limbs(total)
        unit = max(top - room, -_SMALLEST)
        # Adding and subtracting 1.5 * 2**(52 + unit) rounds to multiples of 2**unit: the
        # mantissa has no bits below.  What is left over goes to the next slice.
        shift = math.ldexp(1.5, 52 + unit)
        np.add(rest, shift, out=slice_)
        np.subtract(slice_, shift, out=slice_)
        rest = np.subtract(rest, slice_, out=None if rest is numbers else rest)
        terms = slice_ if once else slice_ * weights
        _add_slice(total, np.bincount(groups, terms, n), unit)
        top = unit
    for index, column in sum_digits(rest, weights, groups, n).items():
        total[index] = total[index] + column if index in total else column
    return carry_limbs(total)


def _add_slice(total: Limbs, multiples: npt.NDArray[Any], unit: int) -> None:
    """Add multiples of 2**unit, fewer than 2**53, to sums."""
    whole = np.ldexp(multiples, -unit).astype(np.int64)
    first, shift = divmod(unit + _SMALLEST, BITS)
    low = (whole & _MASK) << shift
    digits = low & _MASK, ((whole >> BITS) << shift) + (low >> BITS)
    for i, digit in enumerate(digits, first):
        total[i] = total[i] + digit if i in total else digit


def sum_digits(
    numbers: npt.NDArray[np.float64], weights: Integers, groups: Integers, n: int
) -> Limbs:
    """The same sums, of any sizes, by the digits of each number."""
    index, low, middle, high = _double_digits(numbers)
    return _sum_columns(index, (low, middle, high), weights, groups, n)


def sum_integers(numbers: Integers, weights: Integers, groups: Integers, n: int) -> Limbs:
    """The sums of integers of 64 bits."""
    index = np.zeros(len(numbers), np.int64)
    return _sum_columns(index, (numbers & _MASK, numbers >> BITS), weights, groups, n)


def sum_decimals(column: Any, weights: Integers, groups: Integers, n: int) -> Limbs:
    """The sums of decimals of 128 bits without nulls, in units of their scale."""
    words = np.frombuffer(column.buffers()[1], "<u4")[4 * column.offset :][: 4 * len(column)]
    digits = words.reshape(-1, 4).astype(np.int64)
    digits[:, 3] = digits[:, 3].astype(np.int32)  # the sign is in the last word
    index = np.zeros(len(column), np.int64)
    return _sum_columns(index, tuple(digits.T), weights, groups, n)


def sum_limbs(limbs: Limbs, weights: Integers, groups: Integers, n: int) -> Limbs:
    """The sums of sums, each times its weight."""
    if not limbs:
        return {}
    first, width = min(limbs), max(limbs) - min(limbs) + 1
    nothing = np.zeros(len(weights), np.int64)
    digits = tuple(limbs.get(first + i, nothing) for i in range(width))
    index = np.full(len(weights), first, np.int64)
    return _sum_columns(index, digits, weights, groups, n)


def limbs_of(totals: list[int]) -> Limbs:
    """Integers as carried digits."""
    limbs: Limbs = {}
    for i, total in enumerate(totals):
        for index, digit in enumerate(digits_of(total)):
            if digit:
                limbs.setdefault(index, np.zeros(len(totals), np.int64))[i] = digit
    return limbs


def _double_digits(numbers: npt.NDArray[np.float64]) -> tuple[Integers, ...]:
    """The index of the lowest of three digits of each double, and the digits."""
    fraction, exponent = np.frexp(numbers)
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    exponent_ = exponent.astype(np.int64) - 53 + _SMALLEST
    mantissa >>= np.maximum(-exponent_, 0)  # subnormal: the bits that are dropped are zero
    exponent_ = np.where(mantissa == 0, _SMALLEST, np.maximum(exponent_, 0))
    sign, size = np.sign(mantissa), np.abs(mantissa)
    index, shift = exponent_ // BITS, exponent_ % BITS
    low = (size & _MASK) << shift
    upper = ((size >> BITS) << shift) + (low >> BITS)
    return index, sign * (low & _MASK), sign * (upper & _MASK), sign * (upper >> BITS)


def _sum_columns(
    index: Integers, digits: tuple[Integers, ...], weights: Integers, groups: Integers, n: int
) -> Limbs:
    """The sums over groups of digits times weights; `index` is that of the lowest digit."""
    if not len(index):
        return {}
    largest = max(int(np.abs(weights).max()), 1)
    if largest * len(weights) >= _ROOM:
        digits = _times_weights(digits, weights)
    elif (weights != 1).any():
        digits = tuple(digit * weights for digit in digits)
    first = int(index.min())
    width = int(index.max()) - first + len(digits)
    at = groups if width == len(digits) else groups * width + (index - first)
    if width == len(digits):
        return carry_limbs(
            {first + i: sum_by_group(digit, at, n) for i, digit in enumerate(digits)}
        )
    totals = np.zeros(n * width, np.int64)
    for i, digit in enumerate(digits):
        np.add.at(totals, at + i, digit)
    columns = totals.reshape(n, width)
    return carry_limbs({first + i: columns[:, i] for i in range(width)})


def sum_by_group(numbers: Integers, groups: Integers, n: int) -> Integers:
    """The sums of numbers over `n` groups."""
    if not len(numbers):
        return np.zeros(n, np.int64)
    if int(np.abs(numbers).max()) * len(numbers) < _EXACT:  # then sums of doubles are exact
        return np.bincount(groups, weights=numbers, minlength=n).astype(np.int64)
    totals = np.zeros(n, np.int64)
    np.add.at(totals, groups, numbers)
    return totals


def _times_weights(digits: tuple[Integers, ...], weights: Integers) -> tuple[Integers, ...]:
    """Digits below 2**32 times weights of 64 bits, as more digits below 2**32."""
    halves = (weights & _MASK, weights >> BITS)
    products = [np.zeros(len(weights), np.int64) for _ in range(len(digits) + 3)]
    for i, digit in enumerate(digits):
        sign, size = np.sign(digit), np.abs(digit)
        for j, half in enumerate(halves):
            outer, factor = sign * np.sign(half), np.abs(half)
            for k, part in enumerate((factor & 0xFFFF, factor >> 16)):
                product = size * part  # below 2**48
                shifted = (product & 0xFFFF) << 16 if k else product & _MASK
                rest = product >> (16 if k else BITS)
                products[i + j] += outer * shifted
                products[i + j + 1] += outer * rest
    return tuple(products)


def carry_limbs(limbs: Limbs) -> Limbs:
    """The only form of each sum: digits in [-2**31, 2**31), without columns of zeros."""
    done: Limbs = {}
    carry: Any = None
    place = min(limbs, default=0)
    last = max(limbs, default=-1)
    while place <= last or carry is not None:
        digit = limbs.get(place)
        if digit is None and carry is None:
            place += 1
            continue
        total = carry if digit is None else digit if carry is None else digit + carry
        over = (total + _HALF) >> BITS
        total = total - (over << BITS)
        carry = over if over.any() else None
        if total.any():
            done[place] = total
        place += 1
    return done


def nearest_doubles(limbs: Limbs, n: int) -> npt.NDArray[np.float64]:
    """The doubles nearest to sums of doubles, ties to even, infinite beyond the largest."""
    if not limbs:
        return np.zeros(n, np.float64)
    first, width = min(limbs) - 2, max(limbs) - min(limbs) + 4
    digits = np.zeros((n, width), np.int64)
    for index, column in limbs.items():
        digits[:, index - first] = column
    negative = _is_negative(digits)
    digits[negative] *= -1
    for i in range(width - 1):  # digits in [0, 2**32), the sum is not negative
        carry = digits[:, i] >> BITS
        digits[:, i] &= _MASK
        digits[:, i + 1] += carry
    nonzero = digits != 0
    top = np.maximum(width - 1 - nonzero[:, ::-1].argmax(axis=1), 2)
    rows = np.arange(n)
    below = np.arange(width) < (top - 2)[:, None]
    sticky = (nonzero & below).any(axis=1)
    high, middle, low = (digits[rows, top - i].astype(np.uint64) for i in range(3))
    size = _half_even(high, middle, low, sticky, (top + first - 2) * BITS)
    nearest: npt.NDArray[np.float64] = np.where(negative, -size, size) + 0.0
    return nearest


def _is_negative(digits: Integers) -> npt.NDArray[np.bool_]:
    """Whether the last digit that is not zero is negative; the digits are carried."""
    width = digits.shape[1]
    last = width - 1 - (digits != 0)[:, ::-1].argmax(axis=1)
    negative: npt.NDArray[np.bool_] = digits[np.arange(len(digits)), last] < 0
    return negative


def _half_even(high: Any, middle: Any, low: Any, sticky: Any, exponent_of_low: Any) -> Any:
    """The double nearest to (high, middle, low) in base 2**32, ties to even.

    `low` counts 2**exponent_of_low units.  The leading 64 bits are shifted to the left end; 53 of
    them are the mantissa, the others and `sticky` decide the rounding.
    """
    length = np.frexp(high.astype(np.float64))[1].astype(np.uint64)  # bits of `high`: 0 to 32
    room = np.uint64(BITS) - length
    leading = ((high << np.uint64(BITS) | middle) << room) | (low >> length)
    sticky = sticky | ((low & ((np.uint64(1) << length) - np.uint64(1))) != 0)
    mantissa = leading >> np.uint64(11)
    half = (leading >> np.uint64(10)) & np.uint64(1)
    sticky = sticky | ((leading & np.uint64(1023)) != 0)
    mantissa = mantissa + (half & (sticky.astype(np.uint64) | (mantissa & np.uint64(1))))
    exponent = exponent_of_low + length.astype(np.int64) + 11 - _SMALLEST
    # This cannot round a second time: sums are multiples of 2**-1074, so for a subnormal result
    # `mantissa` ends in as many zeros as `ldexp` cuts off.
    with np.errstate(over="ignore"):
        return np.ldexp(mantissa.astype(np.float64), exponent.astype(np.int32))


def as_integers(limbs: Limbs, n: int) -> list[int]:
    """The sums as Python integers, in units."""
    totals = [0] * n
    for index, column in limbs.items():
        shift = index * BITS
        for i, digit in enumerate(column.tolist()):
            if digit:
                totals[i] += digit << shift
    return totals


def as_longs(limbs: Limbs, n: int) -> Any:
    """The sums of integers as longs, null where they do not fit."""
    first, second = (limbs.get(i, np.zeros(n, np.int64)) for i in (0, 1))
    plain = np.abs(second) < _HALF
    for index, column in limbs.items():
        if index > 1:
            plain &= column == 0
    totals = np.where(plain, second, 0) * _BASE + first
    if plain.all():
        return pa.array(totals)
    wide = as_integers(
        {index: column[~plain] for index, column in limbs.items()}, int((~plain).sum())
    )
    values = totals.tolist()
    for i, total in zip(np.flatnonzero(~plain).tolist(), wide, strict=True):
        values[i] = total if -(1 << 63) <= total < 1 << 63 else None
    return pa.array(values, pa.int64())
