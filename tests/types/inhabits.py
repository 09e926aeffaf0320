"""Whether a Python value is one of the values that a type has.

Written from the table of `values/data.py` alone, so that it can judge the inference, the
evaluator and every engine.  Null is a value of every type.
"""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from collections.abc import Mapping
from typing import assert_never

from incmrql.types.model import (
    PREDEFINED,
    Any,
    Basic,
    Collection,
    Constructor,
    Data,
    Decimal,
    Function,
    Nothing,
    Record,
    Tuple,
    Type,
)
from incmrql.values import Bag, Value
from incmrql.values import Data as DataValue
from incmrql.values import Record as RecordValue

Declared = Mapping[str, tuple[Constructor, ...]]

_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}


def inhabits(value: Value, type_: Type, declared: Declared = PREDEFINED) -> bool:
    """Whether `value` is a value of the type, all the way down."""
    if value is None:
        return not isinstance(type_, Function)
    match type_:
        case Basic(name):
            return _is_basic(value, name)
        case Decimal(precision, scale):
            return isinstance(value, decimal.Decimal) and _is_decimal(value, precision, scale)
        case Any():
            return _is_value(value)
        case Nothing() | Function():
            return False
        case Tuple(items):
            return isinstance(value, tuple) and _each(value, items, declared)
        case Record(fields):
            named = isinstance(value, RecordValue) and value.names_ == type_.names
            return named and _each(value.values_, tuple(inner for _, inner in fields), declared)
        case Collection(kind, element):
            right = isinstance(value, list) and isinstance(value, Bag) == (kind == "bag")
            return right and all(inhabits(one, element, declared) for one in value)
        case Data(name):
            return isinstance(value, DataValue) and _is_made(value, name, declared)
        case _:
            assert_never(type_)


def _each(values: tuple[Value, ...], types: tuple[Type, ...], declared: Declared) -> bool:
    return len(values) == len(types) and all(
        inhabits(value, type_, declared) for value, type_ in zip(values, types, strict=True)
    )


def _is_basic(value: Value, name: str) -> bool:
    match name:
        case "bool":
            return isinstance(value, bool)
        case "byte" | "short" | "int" | "long":
            half = 1 << (_BITS[name] - 1)
            return type(value) is int and -half <= value < half
        case "float":
            return isinstance(value, float) and _has_one_zero(value) and _has_32_bits(value)
        case "double":
            return isinstance(value, float) and _has_one_zero(value)
        case "string":
            return isinstance(value, str)
        case "date":
            return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
        case "timestamp":
            return isinstance(value, datetime.datetime) and value.utcoffset() is not None
        case _:
            raise AssertionError(name)


def _has_one_zero(value: float) -> bool:
    return value != 0 or math.copysign(1, value) == 1


def _has_32_bits(value: float) -> bool:
    if not math.isfinite(value):
        return True
    try:
        return bool(struct.unpack("<f", struct.pack("<f", value))[0] == value)
    except OverflowError:
        return False


def _is_decimal(value: decimal.Decimal, precision: int, scale: int) -> bool:
    if not value.is_finite():
        return False
    _, digits, exponent = value.as_tuple()
    return exponent == -scale and len(digits) <= max(precision, scale)


def _is_made(value: DataValue, name: str, declared: Declared) -> bool:
    return any(
        constructor.name == value.constructor
        and constructor.position == value.position
        and inhabits(value.content, constructor.content, declared)
        for constructor in declared[name]
    )


def _is_value(value: Value) -> bool:
    """Whether this is a value of some type."""
    match value:
        case bool() | int() | str() | decimal.Decimal() | datetime.date() | None:
            return True
        case float():
            return _has_one_zero(value)
        case tuple() | list():
            return all(map(_is_value, value))
        case RecordValue():
            return all(map(_is_value, value.values_))
        case DataValue():
            return _is_value(value.content)
        case _:
            return False
