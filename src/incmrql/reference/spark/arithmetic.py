"""Arithmetic in Spark's evaluation modes: null where there is no result.

Integers keep the width of their type and wrap in `legacy` mode; floats are rounded to float at
every step.  A product of decimals is rounded twice, as in Spark: to 39 digits first, then to the
scale of the result.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Final

from incmrql.reference.operators import arithmetic, integer_arithmetic, negate
from incmrql.types.model import Basic, Type, is_integer
from incmrql.types.model import Decimal as DecimalType
from incmrql.types.typed import Mode
from incmrql.values import Value
from incmrql.values.numbers import (
    INTEGER_RANGES,
    decimal_arithmetic,
    divide_half_up,
    nearest_decimal,
)

_DIGITS: Final = 39
"""Digits of a product, before its last rounding, and of the whole part of a quotient."""


def arithmetic_in_mode(op: str, type_: Type, a: Value, b: Value, mode: Mode) -> Value:
    """`a op b` of two numbers in an evaluation mode."""
    if isinstance(type_, DecimalType):
        return _decimal(op, Decimal(a), Decimal(b), (type_.precision, type_.scale))
    if mode == "legacy" and is_integer(type_):
        result = integer_arithmetic(op, a, b)
        return None if result is None else wrap(result, type_)
    return arithmetic(op, type_, a, b)


def negate_in_mode(type_: Type, value: Value, mode: Mode) -> Value:
    """`-value` in an evaluation mode."""
    if mode == "legacy" and is_integer(type_):
        return wrap(-value, type_)
    return negate(type_, value)


def wrap(number: int, type_: Type) -> int:
    """The integer of a type that has the same lowest bits as a number."""
    assert isinstance(type_, Basic)
    values = INTEGER_RANGES[type_.name]
    return (number - values.start) % len_of(values) + values.start


def len_of(values: range) -> int:
    """The number of integers in a range, which may be more than `len` can return."""
    return values.stop - values.start


def _decimal(op: str, a: Decimal, b: Decimal, result: tuple[int, int]) -> Decimal | None:
    if op == "*":
        product = Fraction(a) * Fraction(b)
        return nearest_decimal(_to_digits(product), result)
    if op == "%" and not is_divisible(Fraction(a), Fraction(b)):
        return None
    return decimal_arithmetic(op, a, b, result)


def is_divisible(a: Fraction, b: Fraction) -> bool:
    """Whether Java can divide: the whole part of the quotient has no more digits than it keeps."""
    if not b:
        return False
    whole = str(abs(math.trunc(a / b)))
    return not whole[_DIGITS:].strip("0")


def _to_digits(number: Fraction) -> Fraction:
    """An exact product, rounded to as many digits as Spark keeps, halves away from zero."""
    scale, unscaled = 0, number
    while unscaled.denominator != 1:
        scale += 1
        unscaled = number * 10**scale
    dropped = max(len(str(abs(unscaled.numerator))) - _DIGITS, 0)
    kept = divide_half_up(unscaled.numerator, 10**dropped)
    return Fraction(kept * 10**dropped, 10**scale)
