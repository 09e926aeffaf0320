"""Numbers and booleans read from strings as Spark's casts read them: null where they cannot."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

from incmrql.reference.spark.moments import parse_date, parse_timestamp
from incmrql.types.model import BOOL, DATE, FLOAT, Type, is_float, is_integer
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Value
from incmrql.values.numbers import LONG, MOST_DIGITS, fit_or_null, nearest_float, quantize

BLANKS: Final = "".join(map(chr, (*range(0x21), 0x7F)))
"""What Spark trims before it reads an integer, boolean or time: blanks and control characters."""
_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))
"""What Java trims before it reads a decimal or a floating-point number."""
_TRUE: Final = frozenset(("t", "true", "y", "yes", "1"))
_FALSE: Final = frozenset(("f", "false", "n", "no", "0"))
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_LEGACY_INTEGER: Final = re.compile(r"([+-]?[0-9]*)(?:\.[0-9]*)?")
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?(\d+))?")
_DOUBLE: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([+-]?[0-9]+))?[fFdD]?")
_HEX_DOUBLE: Final = re.compile(
    r"([+-]?)0[xX]([0-9a-fA-F]*)(?:\.([0-9a-fA-F]*))?[pP]([+-]?[0-9]+)[fFdD]?"
)
_INFINITY: Final = re.compile(r"([+-]?)(?:inf|infinity)")
_INT_RANGE: Final = range(-(2**31), 2**31)
_LARGEST_POWER: Final = 10_000
"""An exponent that is larger gives 0 or infinity after as many digits as a string may have."""


def parse(text: str, target: Type, *, legacy: bool = False) -> Value:
    """The value of a type that a string denotes; in legacy mode an integer may have decimals."""
    match target:
        case _ if target == BOOL:
            return _bool(text.strip(BLANKS).lower())
        case _ if is_integer(target):
            return _integer(text.strip(BLANKS), legacy=legacy)
        case DecimalType(precision, scale):
            return _decimal(text.strip(_JAVA_BLANKS), precision, scale)
        case _ if is_float(target):
            return _float(text.strip(_JAVA_BLANKS), target)
        case _ if target == DATE:
            return parse_date(text)
        case _:
            return parse_timestamp(text)


def _bool(word: str) -> bool | None:
    return True if word in _TRUE else False if word in _FALSE else None


def _integer(text: str, *, legacy: bool) -> int | None:
    if not legacy:
        return fit_or_null(LONG, int(text)) if _INTEGER.fullmatch(text) else None
    match = _LEGACY_INTEGER.fullmatch(text)
    if match is None or text in ("", "+", "-"):
        return None
    whole = match.group(1)
    return fit_or_null(LONG, int(whole)) if whole.strip("+-") else 0


def _decimal(text: str, precision: int, scale: int) -> Decimal | None:
    match = _DECIMAL.fullmatch(text)
    if match is None or max(text) > "\uffff":
        return None
    power = match.group(1) or "0"
    if len(power.lstrip("0")) > 10 or int(power) not in _INT_RANGE:
        return None
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    too_large = len(digits) + exponent > MOST_DIGITS
    return None if too_large else quantize(number, precision, scale)


def _float(text: str, target: Type) -> float | None:
    infinity = _INFINITY.fullmatch(text.lower())
    if infinity is not None:
        return float(f"{infinity.group(1)}inf")
    if text.lower() == "nan" or text in ("+NaN", "-NaN"):
        return math.nan
    number = _finite(text)
    match number:
        case Fraction():
            return nearest_float(number) if target == FLOAT else _nearest_double(number)
        case _:
            return number


def _nearest_double(number: Fraction) -> float:
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return -math.inf if number < 0 else math.inf


def _finite(text: str) -> Fraction | float | None:
    """A number as a fraction; 0 or infinity if its exponent alone decides that."""
    match = _DOUBLE.fullmatch(text)
    if match is not None:
        mantissa, power = Fraction(match.group(1)), int(match.group(2) or 0)
        return _scale(mantissa, 10, power, len(text))
    match = _HEX_DOUBLE.fullmatch(text)
    if match is None or not (match.group(2) or match.group(3)):
        return None
    sign, whole, rest, binary_power = match.groups()
    digits = int(whole + (rest or ""), 16)
    power = int(binary_power) - 4 * len(rest or "")
    return _scale(Fraction(-digits if sign == "-" else digits), 2, power, 4 * len(text))


def _scale(mantissa: Fraction, base: int, power: int, digits: int) -> Fraction | float:
    """`mantissa * base**power`, without computing powers that decide the result by themselves."""
    if not mantissa:
        return 0.0
    if abs(power) <= _LARGEST_POWER + digits:
        return mantissa * Fraction(base) ** power
    return 0.0 if power < 0 else -math.inf if mantissa < 0 else math.inf
