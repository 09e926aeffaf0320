"""Constants as SQL literals that read back as the same value, to the bit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Final

from sqlglot import exp

from incmrql.lower.tree import Dialect, boolean, call, cast, parts_of, text, type_text, typed_null
from incmrql.types.model import (
    BINARY,
    BOOL,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Any,
    Collection,
    Data,
    Decimal,
    Record,
    Tuple,
    Type,
    is_day_time,
    is_year_month,
)
from incmrql.values import Value, canonical, encode
from incmrql.values.encoding import MICROSECOND
from incmrql.values.numbers import normal

_SUFFIX: Final[Mapping[Type, str]] = {BYTE: "Y", SHORT: "S", INT: "", LONG: "L"}
"""How Spark marks the width of an integer."""
_ODD: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\$\{")
"""Control characters, which Spark needs escaped, and the start of a Spark variable."""


def constant(value: Value, type_: Type, dialect: Dialect) -> exp.Expression:
    """A value of a type as a literal."""
    if value is None:
        return typed_null(type_, dialect)
    match type_:
        case Decimal():
            return cast(text(f"{value:f}"), type_text(type_, dialect))
        case Record(()) | Tuple(()):
            return boolean(True)
        case Record(fields):
            return _struct(
                type_, [constant(value[name], t, dialect) for name, t in fields], dialect
            )
        case Tuple(items):
            parts = zip(value, items, strict=True)
            return _struct(type_, [constant(part, t, dialect) for part, t in parts], dialect)
        case Collection(kind, element):
            items_ = canonical(value) if kind == "bag" else value
            return _array(type_, [constant(item, element, dialect) for item in items_], dialect)
        case Data() | Any():
            return binary(encode(value), dialect)
        case _:
            return _basic(value, type_, dialect)


def string(value: str, dialect: Dialect) -> exp.Expression:
    """A string with any characters."""
    if dialect is Dialect.SPARK:
        if _ODD.search(value):
            return cast(binary(value.encode(), dialect), "STRING")
        return text(value)
    if "\0" in value:
        pieces = [text(piece) for piece in value.split("\0")]
        arguments = [part for piece in pieces for part in (call("chr", _integer(0)), piece)][1:]
        return call("concat", *arguments)
    return text(value)


def double(value: float, dialect: Dialect) -> exp.Expression:
    """A double with the digits that read back as itself."""
    number = normal(value)
    if not math.isfinite(number):
        name = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
        return cast(text(name), "DOUBLE")
    digits = repr(number)
    if dialect is Dialect.SPARK:
        return _number_literal(f"{digits}D")
    return _number_literal(digits if "e" in digits else f"{digits}e0")


def binary(value: bytes, dialect: Dialect) -> exp.Expression:
    """Bytes."""
    if dialect is Dialect.SPARK:
        return exp.HexString(this=value.hex())
    return call("from_hex", text(value.hex()))


def integer(value: int, type_: Type, dialect: Dialect) -> exp.Expression:
    """An integer of the width of its type."""
    if dialect is Dialect.SPARK:
        return _number_literal(f"{value}{_SUFFIX[type_]}")
    return _integer(value) if type_ == INT else cast(_integer(value), type_text(type_, dialect))


def _basic(value: Value, type_: Type, dialect: Dialect) -> exp.Expression:
    match type_:
        case _ if type_ == BOOL:
            return boolean(value)
        case _ if type_ in _SUFFIX:
            return integer(value, type_, dialect)
        case _ if type_ == DOUBLE:
            return double(value, dialect)
        case _ if type_ == FLOAT:
            return cast(double(value, dialect), "FLOAT")
        case _ if type_ == STRING:
            return string(value, dialect)
        case _ if type_ == DATE:
            return cast(text(value.isoformat()), "DATE")
        case _ if type_ == TIMESTAMP:
            return cast(text(_moment(value)), type_text(type_, dialect))
        case _ if type_ == TIMESTAMP_NTZ:
            return cast(text(value.isoformat(" ")), type_text(type_, dialect))
        case _ if type_ == BINARY:
            return binary(value, dialect)
        case _ if is_year_month(type_):
            return integer(int(value), INT, dialect)
        case _ if is_day_time(type_):
            return integer(value // MICROSECOND, LONG, dialect)
        case _:
            return typed_null(type_, dialect)  # the type of null alone


def _integer(value: int) -> exp.Expression:
    return _number_literal(str(value))


def _number_literal(digits: str) -> exp.Expression:
    """A number with exactly these digits; sqlglot would parse a negative one and rewrite it."""
    return exp.Literal(this=digits, is_string=False)


def _moment(value: date) -> str:
    """A timestamp with its zone, so that it does not depend on the session's time zone."""
    moment = canonical(value)
    assert isinstance(moment, datetime)
    return f"{moment.replace(tzinfo=None).isoformat(' ')}+00:00"


def _struct(type_: Type, values: Sequence[exp.Expression], dialect: Dialect) -> exp.Expression:
    names = [name for name, _ in parts_of(type_)]
    if dialect is Dialect.SPARK:
        pairs = zip(names, values, strict=True)
        return call("named_struct", *(part for n, v in pairs for part in (string(n, dialect), v)))
    fields = [
        exp.PropertyEQ(this=text(name), expression=value)
        for name, value in zip(names, values, strict=True)
    ]
    return exp.Struct(expressions=fields)


def _array(type_: Type, values: Sequence[exp.Expression], dialect: Dialect) -> exp.Expression:
    array = call("array" if dialect is Dialect.SPARK else "list_value", *values)
    return array if values else cast(array, type_text(type_, dialect))
