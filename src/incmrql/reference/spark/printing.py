"""Scalars as strings, as Spark's casts write them.

Doubles and floats have the digits of Java's `toString` since version 19: the shortest that read
back as the number, but at least two of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final

import numpy as np

from incmrql.types.model import FLOAT, Type
from incmrql.values import Value
from incmrql.values.numbers import to_float32

_LEAST_PLAIN: Final = -3
_MOST_PLAIN: Final = 7
"""The powers of ten from which on, and up to which, there is no exponent."""


def text_of(value: Value, source: Type, *, plain: bool) -> str:
    """A scalar as a string; `plain` writes decimals without an exponent."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return _float_text(value) if source == FLOAT else _double_text(value)
        case Decimal():
            return f"{value:f}" if plain else str(value)
        case datetime():
            return _moment_text(value)
        case date():
            return value.isoformat()
        case _:
            return str(value)


def _moment_text(moment: datetime) -> str:
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    fraction = f"{utc.microsecond:06}".rstrip("0")
    seconds = utc.replace(microsecond=0).isoformat(" ")
    return f"{seconds}.{fraction}" if fraction else seconds


def _double_text(x: float) -> str:
    return _java_text(x, float.__repr__(x), float)


def _float_text(x: float) -> str:
    return _java_text(x, str(np.float32(x)), lambda text: to_float32(float(text)))


def _java_text(x: float, shortest: str, read: Callable[[str], float]) -> str:
    """A number in Java's notation, from its shortest digits."""
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "Infinity" if x > 0 else "-Infinity"
    if x == 0:
        return "0.0"
    number = Decimal(shortest).normalize()
    if len(number.as_tuple().digits) == 1:
        two_digits = f"{x:.1e}"  # of all numbers with two digits the nearest
        if read(two_digits) == x:
            number = Decimal(two_digits)
    power, sign = number.adjusted(), "-" if x < 0 else ""
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0") or "0"
    if _LEAST_PLAIN <= power < _MOST_PLAIN:
        whole = digits[: power + 1].ljust(power + 1, "0") if power >= 0 else "0"
        rest = digits[power + 1 :] if power >= 0 else "0" * (-power - 1) + digits
        return f"{sign}{whole}.{rest or 0}"
    return f"{sign}{digits[0]}.{digits[1:] or 0}E{power}"
