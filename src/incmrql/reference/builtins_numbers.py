"""Numeric built-ins: as IEEE 754 and C define them, infinities and NaN instead of errors.

exp, log, pow and the trigonometric functions are those of `values.elementary`, whose bits do not
depend on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import partial
from typing import Any, Final

from incmrql.reference.operators import compare
from incmrql.values import Value
from incmrql.values.elementary import NAMES, of_numbers
from incmrql.values.exact import nearest_double

_MOST_DECIMALS = 1_100
"""No double has more digits after its point, and none has as many before it."""
_ENOUGH: Final = Context(prec=400)


def _root(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    """A function to integers as one to doubles; what is not finite stays as it is."""
    return lambda x: float(function(x)) if math.isfinite(x) else x


def _round(x: Value, digits: int | None = None) -> Value:
    if digits is not None:
        return _round_decimal(x, digits) if isinstance(x, Decimal) else _round_double(x, digits)
    if isinstance(x, float) and not math.isfinite(x):
        return None
    return math.floor(Fraction(x) + Fraction(1, 2))


def _round_double(x: float, digits: int) -> float:
    """The number that `x` exactly is, with so many decimals, halves away from zero."""
    if not math.isfinite(x) or digits > _MOST_DECIMALS:
        return x
    if digits < -_MOST_DECIMALS:
        return 0.0
    unit = Fraction(10) ** -digits
    whole = math.floor(abs(Fraction(x)) / unit + Fraction(1, 2))
    rounded = whole * unit * (-1 if x < 0 else 1)
    return nearest_double(rounded.numerator, rounded.denominator)


def _round_decimal(x: Decimal, digits: int) -> Decimal:
    if digits < -_MOST_DECIMALS:
        return Decimal(0)
    unit = Decimal((0, (1,), -min(digits, 38)))
    return x.quantize(unit, rounding=ROUND_HALF_UP, context=_ENOUGH)


def _absolute(x: Value) -> Value:
    return x.copy_abs() if isinstance(x, Decimal) else abs(x)


def _lesser(a: Value, b: Value) -> Value:
    return a if compare("<=", a, b) else b


def _greater(a: Value, b: Value) -> Value:
    return a if compare(">=", a, b) else b


NUMBERS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": _absolute,
    **{name: partial(of_numbers, name) for name in NAMES},
    "sqrt": _root,
    "ceil": _whole(math.ceil),
    "floor": _whole(math.floor),
    "rint": _whole(round),
    "round": _round,
    "min": _lesser,
    "max": _greater,
}
