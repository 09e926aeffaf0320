"""Intervals times and divided by numbers, and as text; null as a result is a failure."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal, DivisionByZero, InvalidOperation
from fractions import Fraction
from typing import Final

from incmrql.values.numbers import LONG, fit_or_null

_PRODUCT: Final = Context(prec=39, rounding=ROUND_HALF_UP)
"""How Spark multiplies and divides its decimals."""
_UNITS: Final = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000)
"""Microseconds of a day, an hour, a minute, a second."""
_NAMES: Final = ("day", "hour", "minute", "second")
_YEAR: Final = 12


def times(number: int, factor: float | Decimal) -> int | None:
    """A number of months or microseconds times a number."""
    if isinstance(factor, Decimal):
        return _round_half_up(Fraction(_PRODUCT.multiply(Decimal(number), factor)))
    return _of_double(float(number) * factor)


def divide(number: int, divisor: float | Decimal) -> int | None:
    """A number of months or microseconds divided by a number."""
    if divisor == 0:
        return None
    if isinstance(divisor, int):
        return _round_half_up(Fraction(number, divisor))
    if isinstance(divisor, Decimal):
        try:
            return _round_half_up(Fraction(_PRODUCT.divide(Decimal(number), divisor)))
        except (DivisionByZero, InvalidOperation):
            return None
    return _of_double(float(number) / divisor)


def _of_double(number: float) -> int | None:
    return _round_half_up(Fraction(number)) if math.isfinite(number) else None


def _round_half_up(number: Fraction) -> int | None:
    """The nearest long; halves are rounded away from zero."""
    size = math.floor(abs(number) + Fraction(1, 2))
    return fit_or_null(LONG, -size if number < 0 else size)


def span_text(number: int, type_: str) -> str:
    """An interval of a type as SQL writes it."""
    first, last = _ends(type_)
    sign = "-" if number < 0 else ""
    if "year" in type_ or "month" in type_:
        return f"INTERVAL '{sign}{_months_text(abs(number), first, last)}' {_fields(first, last)}"
    text = _micros_text(abs(number), _NAMES.index(first), _NAMES.index(last))
    return f"INTERVAL '{sign}{text}' {_fields(first, last)}"


def _ends(type_: str) -> tuple[str, str]:
    """The first and the last unit in the name of a type."""
    units = type_.removeprefix("interval ").split(" to ")
    return units[0], units[-1]


def _fields(first: str, last: str) -> str:
    return first.upper() if first == last else f"{first} TO {last}".upper()


def _months_text(months: int, first: str, last: str) -> str:
    if first == last:
        return str(months // _YEAR if first == "year" else months)
    return f"{months // _YEAR}-{months % _YEAR}"


def _micros_text(micros: int, first: int, last: int) -> str:
    """Units from the first to the last; seconds have their fraction."""
    parts = []
    rest = micros
    for place in range(first, last + 1):
        if place == len(_UNITS) - 1:
            second, fraction = divmod(rest, _UNITS[place])
            parts.append(f"{second:02}.{fraction:06}".rstrip("0").rstrip("."))
        else:
            count, rest = divmod(rest, _UNITS[place])
            parts.append(str(count) if place == 0 else f"{count:02}")
    if first == 0 and len(parts) > 1:
        return f"{parts[0]} {':'.join(parts[1:])}"
    return ":".join(parts)
