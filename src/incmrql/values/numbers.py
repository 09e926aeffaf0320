"""Total arithmetic: an operation without a result gives null (None), never an error.

Integers have the width of their type, doubles have one zero and one NaN, and decimals
follow Spark's rules for the precision and scale of results.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Final, TypeAlias

BYTE: Final = range(-(2**7), 2**7)
SHORT: Final = range(-(2**15), 2**15)
INT: Final = range(-(2**31), 2**31)
LONG: Final = range(-(2**63), 2**63)

INTEGER_RANGES: Final[Mapping[str, range]] = {
    "byte": BYTE,
    "short": SHORT,
    "int": INT,
    "long": LONG,
}

PrecisionScale: TypeAlias = tuple[int, int]
"""The precision and the scale of a decimal type."""

MOST_DIGITS: Final = 38
_LARGEST_FLOAT_POWER: Final = 128
_LEAST_SCALE: Final = 6
_EXACT: Final = Context(prec=4 * MOST_DIGITS)


def fits(kind: range, number: int) -> bool:
    """Whether an integer type can hold a number."""
    return kind.start <= number < kind.stop


def fit_or_null(kind: range, number: int) -> int | None:
    """The number, or null where the type cannot hold it."""
    return number if fits(kind, number) else None


def divide_integers(a: int, b: int) -> int | None:
    """`a / b` truncated toward zero; null for b = 0.  The caller checks the width."""
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def remainder(a: int, b: int) -> int | None:
    """`a % b` with the sign of `a`, so that a = b * (a / b) + a % b; null for b = 0."""
    if b == 0:
        return None
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def normal(x: float) -> float:
    """The same number, with one zero and one NaN."""
    return math.nan if math.isnan(x) else x + 0.0


def to_float32(x: float) -> float:
    """The nearest number of 32 bits, ties to even; infinite where that is out of range."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)
    return normal(rounded)


def nearest_float(x: Fraction) -> float:
    """The number of 32 bits nearest to a fraction, ties to even; infinite where out of range."""
    if not x:
        return 0.0
    size = abs(x)
    power = max(size.numerator.bit_length() - size.denominator.bit_length() - 24, -149)
    if size >= Fraction(2) ** (power + 24):
        power += 1
    significand = round(size / Fraction(2) ** power)  # ties to even
    nearest = math.ldexp(significand, power) if power < _LARGEST_FLOAT_POWER else math.inf
    limited = math.inf if nearest >= 2.0**128 else nearest
    return -limited if x < 0 else limited


def decimal_result(operator: str, left: PrecisionScale, right: PrecisionScale) -> PrecisionScale:
    """The precision and scale of `left operator right`, for + - * / %."""
    (p1, s1), (p2, s2) = left, right
    match operator:
        case "+" | "-":
            scale = max(s1, s2)
            return _limit_digits(max(p1 - s1, p2 - s2) + scale + 1, scale)
        case "*":
            return _limit_digits(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(_LEAST_SCALE, s1 + p2 + 1)
            return _limit_digits(p1 - s1 + s2 + scale, scale)
        case "%":
            scale = max(s1, s2)
            return _limit_digits(min(p1 - s1, p2 - s2) + scale, scale)
        case _:
            raise ValueError(f"no decimal operator {operator!r}")


def quantize(number: Decimal, precision: int, scale: int) -> Decimal | None:
    """The number at a scale, halves away from zero; null where it has too many digits."""
    if not number.is_finite():
        return None
    context = Context(prec=precision, rounding=ROUND_HALF_UP)
    try:
        rounded = number.quantize(Decimal((0, (1,), -scale)), context=context)
    except InvalidOperation:
        return None
    return rounded if rounded else rounded.copy_abs()


def decimal_arithmetic(
    operator: str, a: Decimal, b: Decimal, result: PrecisionScale
) -> Decimal | None:
    """The exact `a operator b`, rounded once to the type of the result; null on overflow."""
    if b == 0 and operator in ("/", "%"):
        return None
    return nearest_decimal(_OPERATIONS[operator](Fraction(a), Fraction(b)), result)


def nearest_decimal(number: Fraction, type_: PrecisionScale) -> Decimal | None:
    """The decimal nearest to a number, halves away from zero; null where it has too many digits."""
    unscaled = number * 10 ** type_[1]
    return decimal_of(divide_half_up(unscaled.numerator, unscaled.denominator), type_)


def decimal_of(unscaled: int, type_: PrecisionScale) -> Decimal | None:
    """The decimal `unscaled * 10**-scale`; null where it has too many digits."""
    precision, scale = type_
    if abs(unscaled) >= 10**precision:
        return None
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def divide_half_up(numerator: int, denominator: int) -> int:
    """The integer nearest to a fraction, halves away from zero."""
    whole, rest = divmod(abs(numerator), denominator)
    whole += 2 * rest >= denominator
    return -whole if numerator < 0 else whole


def _limit_digits(precision: int, scale: int) -> PrecisionScale:
    """Precision and scale cut to 38 digits in all, as Spark does.

    Digits before the point are kept at the expense of those after it, of which six remain.
    """
    if precision <= MOST_DIGITS:
        return precision, scale
    whole = precision - scale
    return MOST_DIGITS, max(MOST_DIGITS - whole, min(scale, _LEAST_SCALE))


_OPERATIONS: Final[Mapping[str, Callable[[Fraction, Fraction], Fraction]]] = {
    "+": Fraction.__add__,
    "-": Fraction.__sub__,
    "*": Fraction.__mul__,
    "/": Fraction.__truediv__,
    "%": lambda a, b: a - b * math.trunc(a / b),
}
