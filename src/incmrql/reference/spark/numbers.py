"""Functions of numbers as Spark defines them; null where the result does not fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Final

from incmrql.reference.operators import arithmetic
from incmrql.reference.spark.arithmetic import is_divisible, wrap
from incmrql.types.model import FLOAT, LONG, Type
from incmrql.values import Value
from incmrql.values.exact import nearest_double
from incmrql.values.numbers import INTEGER_RANGES, nearest_float, to_float32

_EXACT: Final = Context(prec=1_500)
_MOST_DECIMALS: Final = 400
"""No double has more digits before its point, or more after it in its shortest form."""


def rounding(type_: Type | None, *, half_even: bool = False) -> Callable[[Value, int], Value]:
    """The rounding to so many decimals of the shortest digits of numbers of a type."""
    mode = ROUND_HALF_EVEN if half_even else ROUND_HALF_UP

    def rounded(value: Value, digits: int) -> Value:
        if isinstance(value, float) and not math.isfinite(value):
            return value
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        exponent = exact.as_tuple().exponent
        assert isinstance(exponent, int)
        if digits >= -exponent:
            return value
        unit = Decimal((0, (1,), -max(digits, -_MOST_DECIMALS)))
        nearest = exact.quantize(unit, rounding=mode, context=_EXACT)
        if type_ == FLOAT:
            return nearest_float(Fraction(nearest))
        return type_of_value(value)(nearest)

    return rounded


def type_of_value(value: Value) -> Callable[[Decimal], Value]:
    """The conversion of a decimal to the Python type of a number."""
    return float if isinstance(value, float) else int if isinstance(value, int) else Decimal


def ceil_to_long(x: float) -> int:
    """The least long that is not less; the largest or smallest one for numbers beyond them."""
    return _limit(x, math.ceil)


def floor_to_long(x: float) -> int:
    """The greatest long that is not greater; the largest or smallest one beyond them."""
    return _limit(x, math.floor)


def _limit(x: float, function: Callable[[float], int]) -> int:
    longs = INTEGER_RANGES["long"]
    if math.isnan(x):
        return 0
    if math.isinf(x):
        return longs.stop - 1 if x > 0 else longs.start
    return max(longs.start, min(longs.stop - 1, function(x)))


def ceil_decimal(x: Decimal) -> Decimal:
    """The least whole decimal that is not less."""
    return Decimal(math.ceil(x))


def floor_decimal(x: Decimal) -> Decimal:
    """The greatest whole decimal that is not greater."""
    return Decimal(math.floor(x))


def positive_remainder(type_: Type) -> Callable[[Value, Value], Value]:
    """`pmod` of two numbers of a type: the remainder, to which the divisor is added if negative."""

    def pmod(a: Value, n: Value) -> Value:
        rest = arithmetic("%", type_, a, n)
        if rest is None or not rest < 0:
            return rest
        return arithmetic("%", type_, _sum(rest, n, type_), n)

    return pmod


def _sum(a: Value, b: Value, type_: Type) -> Value:
    if isinstance(a, int):
        return wrap(a + b, type_)
    return to_float32(a + b) if type_ == FLOAT else a + b


def decimal_remainder(a: Decimal, n: Decimal) -> Decimal | None:
    """`pmod` of two decimals."""
    if not is_divisible(Fraction(a), Fraction(n)):
        return None
    rest = _exact_remainder(Fraction(a), Fraction(n))
    if rest < 0:
        rest = _exact_remainder(rest + Fraction(n), Fraction(n))
    return _EXACT.divide(Decimal(rest.numerator), Decimal(rest.denominator))


def _exact_remainder(a: Fraction, b: Fraction) -> Fraction:
    return a - b * math.trunc(a / b)


def whole_quotient(a: Decimal, b: Decimal) -> int | None:
    """`div` of two decimals: the whole part of their quotient, which wraps in all modes."""
    if not is_divisible(Fraction(a), Fraction(b)):
        return None
    return wrap(math.trunc(Fraction(a) / Fraction(b)), LONG)


# --- Bits: as in Java, a shift counts modulo the number of bits ---


def shift_left(type_: Type) -> Callable[[int, int], int]:
    """`<<` of integers of a type."""
    return lambda value, count: wrap(value << (count % _bits(type_)), type_)


def shift_right(type_: Type) -> Callable[[int, int], int]:
    """`>>` of integers of a type, which keeps the sign."""
    return lambda value, count: value >> (count % _bits(type_))


def shift_right_unsigned(type_: Type) -> Callable[[int, int], int]:
    """`>>>` of integers of a type, which fills with zeros."""
    bits = _bits(type_)
    return lambda value, count: wrap((value % (1 << bits)) >> (count % bits), type_)


def _bits(type_: Type) -> int:
    return 64 if type_ == LONG else 32


def bit_count(number: int) -> int:
    """How many of the 64 bits of an integer are set."""
    return (number % 2**64).bit_count()


# --- Others ---


def sign(x: float) -> float:
    """1, 0 or -1."""
    return x if math.isnan(x) or x == 0 else math.copysign(1.0, x)


def degrees(x: float) -> float:
    """An angle in degrees; one multiplication, as in Java."""
    return x * 57.29577951308232


def radians(x: float) -> float:
    """An angle in radians; one multiplication, as in Java."""
    return x * 0.017453292519943295


def factorial(number: int) -> int | None:
    """The product of the numbers up to one of at most 20; null of others."""
    return math.factorial(number) if 0 <= number <= 20 else None


def product(numbers: list[float]) -> float | None:
    """The exact product of the numbers, rounded once; null of none."""
    if not numbers:
        return None
    if not all(map(math.isfinite, numbers)):
        return math.prod(numbers)
    exact = math.prod(map(Fraction, numbers), start=Fraction(1))
    return nearest_double(exact.numerator, exact.denominator)


def bit_at(bits: int) -> Callable[[int, int], int | None]:
    """The bit at a place, from 0 for the lowest; null beyond the bits of the type."""
    return lambda number, place: number >> place & 1 if 0 <= place < bits else None


def width_bucket(value: float, first: float, last: float, count: int) -> int | None:
    """The number of the bucket of equal width that a value is in; 0 and n + 1 are outside."""
    if not 0 < count < 2**63 - 1 or math.isnan(value) or first == last:
        return None
    if not (math.isfinite(first) and math.isfinite(last)):
        return None
    low, high = min(first, last), max(first, last)
    ascending = first < last
    if (value < low) if ascending else (value > high):
        return 0
    if (value >= high) if ascending else (value <= low):
        return count + 1
    part = value - low if ascending else high - value
    return int(float(count) * part / (high - low)) + 1


def rounded_up(x: Decimal, digits: int) -> Decimal:
    """The least decimal with so many digits after the point that is not less."""
    return _to_digits(x, digits, math.ceil)


def rounded_down(x: Decimal, digits: int) -> Decimal:
    """The greatest decimal with so many digits after the point that is not greater."""
    return _to_digits(x, digits, math.floor)


def _to_digits(x: Decimal, digits: int, whole: Callable[[Fraction], int]) -> Decimal:
    unit = Fraction(10) ** -digits
    number = whole(Fraction(x) / unit) * unit
    return Decimal(number.numerator) / Decimal(number.denominator)
