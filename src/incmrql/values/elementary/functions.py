"""exp, log, pow, sin, cos, tan, asin, acos, atan of columns of doubles, the same everywhere.

Libraries differ in the last bit of these functions, and so do machines.  Here every step is an
operation that IEEE 754 defines to the bit (+ - * / sqrt, rounding to integers, scaling by powers
of two), on numbers that are sums of two doubles.  The results carry about 100 bits before they
are rounded, so that they are the doubles nearest to the exact values, but for about one argument
in 2**45.  NaN and infinities are as in C; there is one zero.

A function is reduced to a small argument with a table, then summed as a series.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from incmrql.values.elementary.pairs import (
    Column,
    Pair,
    add,
    choose,
    constant,
    divide,
    exact_sum,
    fraction,
    multiply,
    negative,
    ordered_sum,
    product,
    root,
    series,
)
from incmrql.values.elementary.tables import (
    ARC_TANGENTS,
    BITS,
    COSINES,
    EXPONENTIALS,
    INVERSES,
    LOG_2,
    LOGARITHMS,
    SINES,
    half_pi,
    pair,
    parts,
)
from incmrql.values.exact import nearest_double

_BLOCK: Final = 8_192
"""Rows computed at a time, so that intermediate columns stay in the cache."""
_TINY: Final = 2.0**-27
"""Below this sin x, tan x, asin x and atan x are nearest to x."""
_LOG_2: Final = parts(LOG_2, BITS, 40, 3)
_PI: Final = pair(2 * half_pi(), BITS)
_HALF_PI: Final = pair(half_pi(), BITS)
_HALF_PI_PARTS: Final = parts(half_pi(), BITS, 24, 8)
_MOST_TURNS: Final = 2.0**28
"""Up to so many quarter turns the products of `_reduce_angle` are exact."""


# --- exp and log --------------------------------------------------------------------------

_INVERSE_FACTORIALS: Final = [fraction(1, math.factorial(n)) for n in range(6)]
_SMALL_FACTORIALS: Final = [1 / math.factorial(n) for n in range(6, 13)]
_ODD: Final = [fraction(1, n) for n in (1, 3, 5, 7)]
_SMALL_ODD: Final = [1 / n for n in (9, 11, 13, 15, 17)]


def _exp_and_exponent(x: Pair) -> tuple[Pair, npt.NDArray[np.int64]]:
    """Exp x as a pair between 1/2 and 2 times a power of two, for |x| < 2000."""
    steps = np.rint(x[0] * (64 / math.log(2)))
    rest = x
    for part in _LOG_2:
        rest = add(rest, product(steps, np.full_like(steps, -part / 64)))
    number = steps.astype(np.int64)
    base = EXPONENTIALS[0][number & 63], EXPONENTIALS[1][number & 63]
    return multiply(base, series(rest, _INVERSE_FACTORIALS, _SMALL_FACTORIALS)), number >> 6


def _scale(x: Pair, power: npt.NDArray[np.int64]) -> Column:
    """X * 2**power rounded once, also where the result is subnormal."""
    plain = np.ldexp(x[0], power)
    small = np.abs(plain) < 2.0**-1021
    if not small.any():
        return plain
    # `ldexp` would round x[0] to a subnormal number a second time.  Count units of 2**-1074
    # instead, and round high and low half together.
    units = np.ldexp(x[0], np.minimum(power + 1_074, 60))
    whole = np.rint(units)
    rest = (units - whole) + np.ldexp(x[1], np.minimum(power + 1_074, 60))
    nearest = np.where(rest > 0.5, whole + 1, np.where(rest < -0.5, whole - 1, whole))
    # `rint` sent a tie to the even neighbour, but the low half x[1] is not zero: it decides.
    tie = np.abs(units - whole) == 0.5
    neighbour = whole + np.sign(units - whole)
    nearest = np.where(tie & (np.sign(x[1]) * np.sign(units - whole) > 0), neighbour, nearest)
    return np.where(small, np.ldexp(nearest, -1_074), plain)


def _exp(x: Column) -> Column:
    bounded = np.clip(np.where(np.isnan(x), 0.0, x), -800.0, 800.0)
    result, power = _exp_and_exponent((bounded, np.zeros_like(bounded)))
    return np.where(np.isnan(x), np.nan, _scale(result, power))


def _log_pair(x: Column) -> Pair:
    """Log x for finite x > 0."""
    mantissa, power = np.frexp(x)
    small = mantissa < math.sqrt(0.5)
    mantissa = np.where(small, mantissa * 2, mantissa)
    exponent = (power - small).astype(np.float64)
    index = np.rint(mantissa * 128).astype(np.int64)
    high, least = product(mantissa, INVERSES[index])
    rest = ordered_sum(high - 1.0, least)
    denominator = add(rest, constant((2.0, 0.0), x))
    ratio = divide(rest, denominator)  # log(1 + r) = 2 atanh(r / (2 + r))
    powers = series(multiply(ratio, ratio), _ODD, _SMALL_ODD)
    near = multiply((2 * ratio[0], 2 * ratio[1]), powers)
    total = add((LOGARITHMS[0][index], LOGARITHMS[1][index]), near)
    for part in reversed(_LOG_2):
        total = add(product(exponent, np.full_like(exponent, part)), total)
    return total


def _log(x: Column) -> Column:
    usual = np.isfinite(x) & (x > 0)
    log = _log_pair(np.where(usual, x, 1.0))[0]
    special = np.where(x == 0, -np.inf, np.where(x == np.inf, np.inf, np.nan))
    return np.where(usual, log, special)


def _pow(x: Column, y: Column) -> Column:
    size = np.abs(x)
    usual = np.isfinite(x) & (size > 0) & np.isfinite(y)
    base = np.where(usual, size, 1.0)
    power = np.clip(np.where(usual, y, 0.0), -(2.0**70), 2.0**70)
    log = _log_pair(base)
    high, low = product(power, log[0])
    exponent = ordered_sum(high, low + power * log[1])
    bounded = np.clip(exponent[0], -800.0, 800.0)
    exponent = bounded, np.where(bounded == exponent[0], exponent[1], 0.0)
    pair_, scale = _exp_and_exponent(exponent)
    result = _scale(pair_, scale)
    for row in np.flatnonzero(usual & _is_near_midpoint(pair_, result)):
        exact = _exact_power(float(base[row]), float(power[row]))
        result[row] = result[row] if exact is None else exact
    whole = _pow_special(x, y, np.where(usual, result, np.nan))
    return np.where(y == 2.0, x * x, whole)  # one rounding, as engines do it natively


def _is_near_midpoint(pair_: Pair, result: Column) -> npt.NDArray[np.bool_]:
    """Whether a power may lie midway between two doubles, or is subnormal.

    100 bits do not suffice there to round correctly; `_exact_power` decides.
    """
    gap = np.spacing(pair_[0])
    rest = np.abs(pair_[1])
    near = (np.abs(rest - gap / 2) < gap * 2.0**-30) | (np.abs(rest - gap / 4) < gap * 2.0**-30)
    small = (np.abs(result) < 2.0**-1021) & (rest < gap * 2.0**-30)
    return np.asarray(near | small)


def _exact_power(x: float, y: float) -> float | None:
    """x**y rounded once if it is a rational number of few bits, for x, y > 0, else None."""
    numerator, denominator = x.as_integer_ratio()
    twos = (numerator & -numerator).bit_length() - denominator.bit_length()
    odd = numerator >> (numerator & -numerator).bit_length() - 1
    times, roots = y.as_integer_ratio()
    while roots > 1 and math.isqrt(odd) ** 2 == odd and twos % 2 == 0:
        odd, twos, roots = math.isqrt(odd), twos // 2, roots // 2
    few = odd == 1 or 0 < times <= 64
    if roots > 1 or not few or abs(twos * times) > 4_000:
        return None
    whole = 1 if odd == 1 else odd**times
    shift = twos * times
    return nearest_double(whole << max(shift, 0), 1 << max(-shift, 0))


def _pow_special(x: Column, y: Column, result: Column) -> Column:
    """The result with the special cases of C: zero, infinities, negative numbers and NaN."""
    whole = np.rint(y) == y
    odd = whole & (np.abs(y) < 2.0**53) & (np.fmod(np.where(np.isfinite(y), y, 0.0), 2.0) != 0)
    result = np.where(np.isfinite(x) & (x < 0) & ~(whole | np.isinf(y)), np.nan, result)
    size = np.abs(x)
    growing = np.where(y > 0, size > 1, size < 1)
    result = np.where(np.isinf(y) & ~np.isnan(x), np.where(growing, np.inf, 0.0), result)
    ends = (size == 0) | np.isinf(x)
    result = np.where(ends & ~np.isnan(y), np.where(growing, np.inf, 0.0), result)
    result = np.where((x < 0) & odd, -result, result)
    result = np.where((x == -1) & np.isinf(y), 1.0, result)
    return np.where((y == 0) | (x == 1), 1.0, result)


# --- sin, cos, tan ------------------------------------------------------------------------

_SINE: Final = [fraction((-1) ** n, math.factorial(2 * n + 1)) for n in range(4)]
_SMALL_SINE: Final = [(-1) ** n / math.factorial(2 * n + 1) for n in range(4, 9)]
_COSINE: Final = [fraction((-1) ** n, math.factorial(2 * n)) for n in range(5)]
_SMALL_COSINE: Final = [(-1) ** n / math.factorial(2 * n) for n in range(5, 9)]


def _reduce_angle(x: Column) -> tuple[Pair, npt.NDArray[np.int64]]:
    """X minus its quarter turns (at most an eighth of a turn), and their number modulo 4."""
    turns = np.rint(x * (2 / math.pi))
    near = np.abs(turns) <= _MOST_TURNS
    turns = np.where(near, turns, 0.0)
    terms = [np.where(near, x, 0.0), *[-turns * part for part in _HALF_PI_PARTS]]
    # The terms cancel almost entirely for x near a multiple of pi / 2.  Three passes of exact
    # additions bring the remainder to the front without losing a bit.
    for _ in range(3):
        for i in range(len(terms) - 1, 0, -1):
            terms[i - 1], terms[i] = exact_sum(terms[i - 1], terms[i])
    rest = terms[-1]
    for term in reversed(terms[1:-1]):
        rest = rest + term
    high, low = ordered_sum(terms[0], rest)
    quarter = turns.astype(np.int64) & 3
    for row in np.flatnonzero(~near):
        turns_mod_4, high[row], low[row] = _reduce_large_angle(float(x[row]))
        quarter[row] = turns_mod_4
    return (high, low), quarter


def _reduce_large_angle(x: float) -> tuple[int, float, float]:
    """`_reduce_angle` of one large number, with integers."""
    numerator, denominator = x.as_integer_ratio()
    quarter = half_pi()
    exact = (numerator << BITS) // denominator
    turns = (2 * exact + quarter) // (2 * quarter)
    high, low = pair(exact - turns * quarter, BITS)
    return turns & 3, high, low


def _sine_and_cosine(x: Pair) -> tuple[Pair, Pair]:
    """Sine and cosine of a pair of at most an eighth of a turn."""
    sign = np.where(x[0] < 0, -1.0, 1.0)
    steps = np.rint(np.abs(x[0]) * 64)
    rest = add((x[0] * sign, x[1] * sign), (-steps / 64, np.zeros_like(steps)))
    index = steps.astype(np.int64)
    square = multiply(rest, rest)
    s = multiply(rest, series(square, _SINE, _SMALL_SINE))
    c = series(square, _COSINE, _SMALL_COSINE)
    table_s, table_c = ((t[0][index], t[1][index]) for t in (SINES, COSINES))
    sine = add(multiply(table_s, c), multiply(table_c, s))
    cosine = add(multiply(table_c, c), negative(multiply(table_s, s)))
    return (sine[0] * sign, sine[1] * sign), cosine


def _circular(x: Column) -> tuple[Pair, Pair]:
    """Sin x and cos x of finite x, as pairs."""
    rest, quarter = _reduce_angle(x)
    sine, cosine = _sine_and_cosine(rest)
    swapped = quarter % 2 == 1
    s, c = choose(swapped, cosine, sine), choose(swapped, sine, cosine)
    below, left = np.where(quarter >= 2, -1.0, 1.0), np.where((quarter + 1) & 2, -1.0, 1.0)
    return (s[0] * below, s[1] * below), (c[0] * left, c[1] * left)


def _finite(function: Callable[[Column], Column]) -> Callable[[Column], Column]:
    """The function, with NaN where the argument is not finite."""

    def finite_only(x: Column) -> Column:
        finite = np.isfinite(x)
        return np.where(finite, function(np.where(finite, x, 0.0)), np.nan)

    return finite_only


def _sin(x: Column) -> Column:
    return np.where(np.abs(x) < _TINY, x, _circular(x)[0][0])


def _cos(x: Column) -> Column:
    return _circular(x)[1][0]


def _tan(x: Column) -> Column:
    sine, cosine = _circular(x)
    return np.where(np.abs(x) < _TINY, x, divide(sine, cosine)[0])


# --- asin, acos, atan ---------------------------------------------------------------------

_ARC: Final = [fraction((-1) ** n, 2 * n + 1) for n in range(4)]
_SMALL_ARC: Final = [(-1) ** n / (2 * n + 1) for n in range(4, 10)]


def _arc_tangent(x: Pair) -> Pair:
    """Atan of a pair that is 0 or at least 2**-80, and at most 2**80."""
    sign = np.where(x[0] < 0, -1.0, 1.0)
    size = x[0] * sign, x[1] * sign
    large = size[0] > 1
    one = constant((1.0, 0.0), x[0])
    size = choose(large, divide(one, choose(large, size, one)), size)
    steps = np.rint(size[0] * 64)
    index = steps.astype(np.int64)
    point = steps / 64, np.zeros_like(steps)
    rest = divide(add(size, negative(point)), add(one, multiply(size, point)))
    correction = multiply(rest, series(multiply(rest, rest), _ARC, _SMALL_ARC))
    angle = add((ARC_TANGENTS[0][index], ARC_TANGENTS[1][index]), correction)
    angle = choose(large, add(constant(_HALF_PI, x[0]), negative(angle)), angle)
    return angle[0] * sign, angle[1] * sign


def _atan(x: Column) -> Column:
    bounded = np.clip(np.where(np.isnan(x), 0.0, x), -(2.0**60), 2.0**60)
    usual = np.abs(bounded) >= _TINY
    size = np.where(usual, bounded, 1.0)
    angle = _arc_tangent((size, np.zeros_like(size)))[0]
    return np.where(np.isnan(x), np.nan, np.where(usual, angle, x))


def _asin(x: Column) -> Column:
    inside = np.abs(x) < 1
    usual = inside & (np.abs(x) >= _TINY)
    size = np.where(usual, x, 0.5)
    one = np.ones_like(size)
    cosine = root(multiply(exact_sum(one, size), exact_sum(one, -size)))
    angle = _arc_tangent(divide((size, np.zeros_like(size)), cosine))[0]
    ends = np.where(np.abs(x) == 1, np.sign(x) * _HALF_PI[0], np.nan)
    return np.where(usual, angle, np.where(inside, x, ends))


def _acos(x: Column) -> Column:
    inside = np.abs(x) < 1
    size = np.where(inside, x, 0.5)
    one = np.ones_like(size)
    angle = _arc_tangent(root(divide(exact_sum(one, -size), exact_sum(one, size))))[0] * 2
    ends = np.where(x == 1, 0.0, np.where(x == -1, _PI[0], np.nan))
    return np.where(inside, angle, ends)


# --- columns ------------------------------------------------------------------------------

_FUNCTIONS: Final[Mapping[str, Callable[..., Column]]] = {
    "exp": _exp,
    "log": _log,
    "pow": _pow,
    "sin": _finite(_sin),
    "cos": _finite(_cos),
    "tan": _finite(_tan),
    "asin": _asin,
    "acos": _acos,
    "atan": _atan,
}
NAMES: Final = tuple(_FUNCTIONS)


def elementary(name: str, *arguments: Column) -> Column:
    """The function `name` of columns of doubles; the result has one zero and one NaN."""
    result = np.empty_like(arguments[0])
    with np.errstate(all="ignore"):
        for start in range(0, len(result), _BLOCK):
            block = slice(start, start + _BLOCK)
            values = _FUNCTIONS[name](*(column[block] for column in arguments))
            result[block] = np.where(np.isnan(values), np.nan, values + 0.0)
    return result


@lru_cache(maxsize=65_536)
def elementary_scalar(name: str, *arguments: float) -> float:
    """The function `name` of single numbers."""
    return float(elementary(name, *(np.array([x]) for x in arguments))[0])
