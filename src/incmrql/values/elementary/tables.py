"""Constants of `elementary`, computed with integers, hence the same on every machine.

A number is an integer times 2**-BITS.  `pair` rounds it to two doubles whose sum has 106 bits.
"""

from __future__ import annotations

from functools import cache
from math import isqrt
from typing import Final

import numpy as np
import numpy.typing as npt

from incmrql.values.exact import nearest_double

BITS: Final = 1_400
"""Enough to reduce the largest double modulo pi and still have all bits of a pair."""
_TABLE_BITS: Final = 200

Column = npt.NDArray[np.float64]


def pair(number: int, bits: int) -> tuple[float, float]:
    """The double nearest to number * 2**-bits, and the double nearest to its error."""
    high = nearest_double(number, 1 << bits)
    top, bottom = high.as_integer_ratio()
    rest = number * bottom - (top << bits)
    return high, nearest_double(rest, bottom << bits)


def parts(number: int, bits: int, width: int, count: int) -> list[float]:
    """`count` doubles that add up to number * 2**-bits, each with at most `width` bits."""
    doubles = []
    for _ in range(count):
        drop = max(number.bit_length() - width, 0)
        leading = number >> drop << drop
        doubles.append(nearest_double(leading, 1 << bits))
        number -= leading
    return doubles


def arc_tangent(numerator: int, denominator: int, bits: int) -> int:
    """atan(numerator / denominator), for 0 <= numerator <= denominator."""
    one = 1 << bits
    x = numerator * one // denominator
    halvings = 8
    for _ in range(halvings):  # atan x = 2 atan(x / (1 + sqrt(1 + x * x)))
        x = x * one // (one + isqrt(one * one + x * x))
    square, power, total, n = x * x >> bits, x, 0, 1
    while power:
        total += power // n if n % 4 == 1 else -(power // n)
        power, n = power * square >> bits, n + 2
    return total << halvings


def sine_and_cosine(x: int, bits: int) -> tuple[int, int]:
    """Sin and cos of x * 2**-bits, at most 1."""
    sine, cosine, term, n = 0, 0, 1 << bits, 0
    while term:
        signed = -term if n % 4 >= 2 else term
        sine, cosine = (sine, cosine + signed) if n % 2 == 0 else (sine + signed, cosine)
        n += 1
        term = (term * x >> bits) // n
    return sine, cosine


def exponential(x: int, bits: int) -> int:
    """Exp of x * 2**-bits, at most 1."""
    total, term, n = 0, 1 << bits, 0
    while term:
        total, n = total + term, n + 1
        term = (term * x >> bits) // n
    return total


def logarithm(numerator: int, denominator: int, bits: int) -> int:
    """log(numerator / denominator), for a quotient between 1/2 and 2."""
    x = ((numerator - denominator) << bits) // (numerator + denominator)
    square, power, total, n = x * x >> bits, x, 0, 1
    while abs(power) > 1:
        total += power // n
        power, n = power * square >> bits, n + 2
    return 2 * total


@cache
def half_pi() -> int:
    """Pi / 2 at BITS, by Machin's formula."""
    guard = BITS + 40
    quarter = 4 * _inverse_tangent(5, guard) - _inverse_tangent(239, guard)
    return 2 * quarter >> 40


def _inverse_tangent(n: int, bits: int) -> int:
    """atan(1 / n)."""
    power = (1 << bits) // n
    total, k = 0, 1
    while power:
        total += power // k if k % 4 == 1 else -(power // k)
        power, k = power // (n * n), k + 2
    return total


def _table(numbers: list[int]) -> tuple[Column, Column]:
    pairs = [pair(number, _TABLE_BITS) for number in numbers]
    return np.array([high for high, _ in pairs]), np.array([low for _, low in pairs])


def _sixty_fourths(count: int) -> list[int]:
    return [(j << _TABLE_BITS) // 64 for j in range(count)]


LOG_2: Final = logarithm(2, 1, BITS)
EXPONENTIALS: Final = _table(
    [exponential((LOG_2 >> BITS - _TABLE_BITS) * j // 64, _TABLE_BITS) for j in range(64)]
)
"""2**(j/64)."""
SINES: Final = _table([sine_and_cosine(x, _TABLE_BITS)[0] for x in _sixty_fourths(52)])
COSINES: Final = _table([sine_and_cosine(x, _TABLE_BITS)[1] for x in _sixty_fourths(52)])
ARC_TANGENTS: Final = _table([arc_tangent(j, 64, _TABLE_BITS) for j in range(65)])
INVERSES: Final = np.array([0.0] * 90 + [round(2**17 / j) / 2**10 for j in range(90, 182)])
"""About 128/j with ten bits after the point."""
LOGARITHMS: Final = _table(
    [0] * 90 + [-logarithm(round(2**17 / j), 2**10, _TABLE_BITS) for j in range(90, 182)]
)
"""The logarithms of the reciprocals of `INVERSES`."""
