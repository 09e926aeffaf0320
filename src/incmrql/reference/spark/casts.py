"""Spark's casts between scalars, in its evaluation modes: null where there is no result.

`ansi` and `try` compute the same; `legacy` lets integers wrap, cuts decimals off strings that are
to be integers, and writes small decimals with an exponent.  Times are in UTC.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Final

from incmrql.reference.operators import fit_to_type
from incmrql.reference.spark.arithmetic import wrap
from incmrql.reference.spark.parsing import parse
from incmrql.reference.spark.printing import text_of
from incmrql.types.model import (
    BOOL,
    BYTE,
    DATE,
    FLOAT,
    INT,
    LONG,
    NOTHING,
    SHORT,
    STRING,
    TIMESTAMP,
    Basic,
    Type,
    is_float,
    is_integer,
)
from incmrql.types.model import Decimal as DecimalType
from incmrql.types.typed import Mode
from incmrql.values import Value
from incmrql.values.numbers import INTEGER_RANGES, fit_or_null, nearest_float, quantize

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = 1_000_000
_COMPACT_DIGITS: Final = 18
"""Spark holds decimals of up to this precision as longs, and others as Java's decimals."""
_PRODUCT: Final = Context(prec=34, rounding=ROUND_HALF_EVEN)
"""How Spark multiplies a decimal of seconds to microseconds."""


def cast_in_mode(value: Value, source: Type, target: Type, mode: Mode) -> Value:
    """A scalar in another type, in an evaluation mode."""
    if value is None or target == NOTHING:
        return None
    if source == target:
        return value
    if target == STRING:
        return text_of(value, source, plain=mode != "legacy")
    if isinstance(value, str):
        parsed = parse(value, target, legacy=mode == "legacy")
        return None if parsed is None else fit_to_type(parsed, target)
    if isinstance(value, datetime):
        return _from_moment(value, target)
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC) if target == TIMESTAMP else None
    if target == TIMESTAMP:
        return _to_moment(value, mode)
    return _number(value, source, target, mode)


def micros_of(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment_of(micros: int) -> datetime | None:
    """The moment so many microseconds after 1970, in the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def _number(value: Value, source: Type, target: Type, mode: Mode) -> Value:
    """A number or truth value as one of another type."""
    if target == BOOL:
        return value != 0
    if is_integer(target):
        return _to_integer(value, source, target, mode)
    if target == FLOAT and not isinstance(value, float):
        return nearest_float(Fraction(value))
    if is_float(target):
        return fit_to_type(float(value), target)
    assert isinstance(target, DecimalType)
    if isinstance(value, float):
        value = Decimal(repr(value))
    return quantize(Decimal(value), target.precision, target.scale)


def _to_integer(value: Value, source: Type, target: Type, mode: Mode) -> int | None:
    if isinstance(value, float):
        return _truncate(value, target, mode)
    if isinstance(value, Decimal):
        return _of_decimal(value, source, target, mode)
    return _fit(int(value), target, mode)


def _truncate(value: float, target: Type, mode: Mode) -> int | None:
    """A double without its decimals; in legacy mode the nearest int or long, then wrapped."""
    if mode == "legacy":
        values = INTEGER_RANGES["long" if target == LONG else "int"]
        if math.isnan(value):
            return 0
        limited = max(values.start, min(values.stop - 1, _whole(value)))
        return wrap(limited, target)
    if not math.isfinite(value):
        return None
    if target == LONG and value == 2.0**63:
        return INTEGER_RANGES["long"].stop - 1  # Spark compares with the largest long as a double
    return _fit(math.trunc(value), target, mode)


def _whole(value: float) -> int:
    if math.isinf(value):
        return 2**64 if value > 0 else -(2**64)
    return math.trunc(value)


def _of_decimal(value: Decimal, source: Type, target: Type, mode: Mode) -> int | None:
    """A decimal without its decimals.

    Outside of legacy mode Spark takes a double in between for a precision above 18, unless the
    target is long.
    """
    assert isinstance(source, DecimalType)
    if mode != "legacy" and source.precision > _COMPACT_DIGITS and target in (BYTE, SHORT, INT):
        return _fit(math.trunc(float(value)), target, mode)
    return _fit(math.trunc(value), target, mode)


def _fit(number: int, type_: Type, mode: Mode) -> int | None:
    """An integer in the width of a type: in legacy mode wrapped, else null if it is too large."""
    assert isinstance(type_, Basic)
    if mode == "legacy":
        return wrap(number, type_)
    return fit_or_null(INTEGER_RANGES[type_.name], number)


def _from_moment(moment: datetime, target: Type) -> Value:
    if target == DATE:
        return moment.astimezone(UTC).date()
    micros = micros_of(moment)
    if is_integer(target):
        return _fit(micros // _SECOND, target, "try")
    if target == BOOL:
        return micros != 0
    if isinstance(target, DecimalType):
        return quantize(Decimal(micros).scaleb(-6), target.precision, target.scale)
    return fit_to_type(float(micros) / _SECOND, target)


def _to_moment(value: Value, mode: Mode) -> datetime | None:
    """The moment so many seconds after 1970."""
    if isinstance(value, bool):
        return moment_of(int(value))
    if isinstance(value, int):
        return moment_of(value * _SECOND)
    if isinstance(value, Decimal):
        return moment_of(wrap(math.trunc(_PRODUCT.multiply(value, Decimal(_SECOND))), LONG))
    micros = value * _SECOND
    if not math.isfinite(micros):
        return None
    return moment_of(math.trunc(micros)) if mode != "legacy" or abs(micros) < 2.0**63 else None
