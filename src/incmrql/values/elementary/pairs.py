"""Sums of two doubles: about 106 bits, by the operations that IEEE 754 defines to the bit."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from incmrql.values.elementary.tables import pair

Column: TypeAlias = npt.NDArray[np.float64]
Pair: TypeAlias = tuple[Column, Column]
"""The sum of two columns, of which the first is the nearest double to it."""

_SPLITTER: Final = 2.0**27 + 1


def exact_sum(a: Column, b: Column) -> Pair:
    """A + b exactly."""
    high = a + b
    shadow = high - a
    return high, (a - (high - shadow)) + (b - shadow)


def ordered_sum(a: Column, b: Column) -> Pair:
    """A + b exactly, for |a| >= |b| or a = 0."""
    high = a + b
    return high, b - (high - a)


def product(a: Column, b: Column) -> Pair:
    """A * b exactly."""
    high = a * b
    a1, a2 = _halves(a)
    b1, b2 = _halves(b)
    return high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Column) -> Pair:
    """Two numbers of 26 bits whose sum is a."""
    large = _SPLITTER * a
    high = large - (large - a)
    return high, a - high


def add(a: Pair, b: Pair) -> Pair:
    """The sum."""
    high, low = exact_sum(a[0], b[0])
    more, least = exact_sum(a[1], b[1])
    high, low = ordered_sum(high, low + more)
    return ordered_sum(high, low + least)


def multiply(a: Pair, b: Pair) -> Pair:
    """The product."""
    high, low = product(a[0], b[0])
    return ordered_sum(high, low + (a[0] * b[1] + a[1] * b[0]))


def divide(a: Pair, b: Pair) -> Pair:
    """The quotient."""
    first = a[0] / b[0]
    rest = add(a, negative(multiply(b, (first, np.zeros_like(first)))))
    second = rest[0] / b[0]
    rest = add(rest, negative(multiply(b, (second, np.zeros_like(second)))))
    high, low = ordered_sum(first, second)
    return ordered_sum(high, low + rest[0] / b[0])


def root(a: Pair) -> Pair:
    """The square root."""
    first = np.sqrt(a[0])
    high, low = product(first, first)
    rest = add(a, (-high, -low))
    second = np.where(first > 0, rest[0] / (2 * first), 0.0)
    return ordered_sum(first, second)


def negative(a: Pair) -> Pair:
    """The opposite."""
    return -a[0], -a[1]


def choose(test: npt.NDArray[np.bool_], a: Pair, b: Pair) -> Pair:
    """`a` where the test holds, else `b`."""
    return np.where(test, a[0], b[0]), np.where(test, a[1], b[1])


def constant(value: tuple[float, float], like: Column) -> Pair:
    """The same pair in every row."""
    return np.full_like(like, value[0]), np.full_like(like, value[1])


def fraction(numerator: int, denominator: int) -> tuple[float, float]:
    """A quotient of integers as a pair."""
    return pair((numerator << 200) // denominator, 200)


def series(x: Pair, exact: list[tuple[float, float]], rough: list[float]) -> Pair:
    """The power series with the coefficients `exact`, then `rough`."""
    # The terms of high order are so small that plain doubles suffice for them.
    tail = np.full_like(x[0], rough[-1])
    for coefficient in reversed(rough[:-1]):
        tail = tail * x[0] + coefficient
    total = (tail, np.zeros_like(tail))
    for pair_ in reversed(exact):
        total = add(multiply(total, x), constant(pair_, x[0]))
    return total
