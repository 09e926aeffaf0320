"""Moments of doubles and of pairs of doubles, from exact sums of powers and products.

A product of doubles is a sum of a few doubles, its parts, unless it is too large or too small for
one.  So the sum of the parts of x·y over a group is the exact sum of the products, and a row that
leaves takes exactly away what it brought.

    n·cov = Σxy - Σx·Σy / n        m3 = Σx³ - 3·m·Σx² + 2·n·m³        with m = Σx / n

What is left is arithmetic of fractions, rounded once.  With a term that is not finite, it is NaN.
"""

from __future__ import annotations

import math
from fractions import Fraction

from incmrql.reference.aggregates import fraction_of_sum
from incmrql.values import Value
from incmrql.values.exact import nearest_double

_DIGITS = 160
"""Binary digits to which a root is computed before it is rounded to 53."""


def product_parts(*factors: float) -> list[float]:
    """Doubles whose sum is the product; what is below the least double is left out."""
    if not all(map(math.isfinite, factors)):
        return [math.prod(factors)]
    exact = Fraction(1)
    for factor in factors:
        exact *= Fraction(factor)
    parts: list[float] = []
    while exact:
        part = nearest_double(exact.numerator, exact.denominator)
        if not math.isfinite(part):
            return [part]
        if not part:
            break
        parts.append(part)
        exact -= Fraction(part)
    return parts


def power_parts(x: float, exponent: int) -> list[float]:
    """Doubles whose sum is a power."""
    return product_parts(*(x,) * exponent)


def covariance_of_population(n: int, x: Value, y: Value, xy: Value) -> float | None:
    """`covar_pop`, from the sums of x, y and their products."""
    return _of_sums(n, 1, (x, y, xy), lambda a, b, ab: (ab - a * b / n) / n)


def covariance_of_sample(n: int, x: Value, y: Value, xy: Value) -> float | None:
    """`covar_samp`; null of fewer than two pairs."""
    return _of_sums(n, 2, (x, y, xy), lambda a, b, ab: (ab - a * b / n) / (n - 1))


def sum_of_products(n: int, x: Value, y: Value, xy: Value) -> float | None:
    """`regr_sxy`: the sum of the products of the distances to the means."""
    return _of_sums(n, 1, (x, y, xy), lambda a, b, ab: ab - a * b / n)


def sum_of_squares(n: int, x: Value, xx: Value) -> float | None:
    """`regr_sxx`: the sum of the squared distances to the mean."""
    return _of_sums(n, 1, (x, xx), lambda a, aa: aa - a * a / n)


def correlation(n: int, x: Value, y: Value, xx: Value, yy: Value, xy: Value) -> float | None:
    """`corr`; null of one pair, and where x or y does not vary."""

    def result(a: Fraction, b: Fraction, aa: Fraction, bb: Fraction, ab: Fraction) -> _Result:
        spread = (aa - a * a / n) * (bb - b * b / n)
        return _signed_root(ab - a * b / n, spread) if spread else None

    return _of_sums(n, 2, (x, y, xx, yy, xy), result)


def determination(n: int, x: Value, y: Value, xx: Value, yy: Value, xy: Value) -> float | None:
    """`regr_r2`: the square of the correlation; 1 where y does not vary, null where x does not."""

    def result(a: Fraction, b: Fraction, aa: Fraction, bb: Fraction, ab: Fraction) -> _Result:
        across, up = aa - a * a / n, bb - b * b / n
        if not across:
            return None
        return (ab - a * b / n) ** 2 / (across * up) if up else Fraction(1)

    return _of_sums(n, 1, (x, y, xx, yy, xy), result)


def slope(n: int, x: Value, y: Value, xx: Value, xy: Value) -> float | None:
    """`regr_slope`: the slope of the line of the least squares; null where x does not vary."""

    def result(a: Fraction, b: Fraction, aa: Fraction, ab: Fraction) -> _Result:
        across = aa - a * a / n
        return (ab - a * b / n) / across if across else None

    return _of_sums(n, 1, (x, y, xx, xy), result)


def intercept(n: int, x: Value, y: Value, xx: Value, xy: Value) -> float | None:
    """`regr_intercept`: where the line of the least squares is at 0."""

    def result(a: Fraction, b: Fraction, aa: Fraction, ab: Fraction) -> _Result:
        across = aa - a * a / n
        return b / n - (ab - a * b / n) / across * a / n if across else None

    return _of_sums(n, 1, (x, y, xx, xy), result)


def skewness(n: int, x: Value, xx: Value, xxx: Value) -> float | None:
    """The third moment by the second one; null where the values do not vary."""

    def result(a: Fraction, aa: Fraction, aaa: Fraction) -> _Result:
        mean = a / n
        second = aa - a * mean
        third = aaa - 3 * mean * aa + 2 * n * mean**3
        return _signed_root(third, second**3, n) if second else None

    return _of_sums(n, 1, (x, xx, xxx), result)


def kurtosis(n: int, x: Value, xx: Value, xxx: Value, xxxx: Value) -> float | None:
    """The fourth moment by the second one, less 3; null where the values do not vary."""

    def result(a: Fraction, aa: Fraction, aaa: Fraction, aaaa: Fraction) -> _Result:
        mean = a / n
        second = aa - a * mean
        fourth = aaaa - 4 * mean * aaa + 6 * mean**2 * aa - 3 * n * mean**4
        return n * fourth / second**2 - 3 if second else None

    return _of_sums(n, 1, (x, xx, xxx, xxxx), result)


_Result = Fraction | float | None


def _of_sums(n: int, least: int, sums: tuple[Value, ...], result: object) -> float | None:
    """A function of sums over `n` values: null of fewer than `least`, NaN if one is not finite."""
    if n < least:
        return None
    exact = [fraction_of_sum(total) for total in sums]
    if None in exact:
        return math.nan
    value: _Result = result(*exact)  # type: ignore[operator]
    if isinstance(value, Fraction):
        return nearest_double(value.numerator, value.denominator)
    return value


def _signed_root(number: Fraction, square: Fraction, factor: int = 1) -> float:
    """The square root of factor · number² / square, with the sign of the number."""
    ratio = number * number * factor / square
    if not ratio:
        return 0.0
    bits = ratio.denominator.bit_length() - ratio.numerator.bit_length() + 2 * _DIGITS
    shift = max(bits + bits % 2, 0)
    root = math.isqrt((ratio.numerator << shift) // ratio.denominator)
    nearest = nearest_double(root, 1 << (shift // 2))
    return -nearest if number < 0 else nearest
