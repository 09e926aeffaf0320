"""Texts of basic types that Arrow reads exactly as the row-by-row reader does, and their columns.

The expressions are for RE2 over bytes and leave out what is rare and hard: numbers near the
limits of their type, blanks, signs in front, the 29th of February.
"""

from __future__ import annotations

from typing import Any as Arrow
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import normalize_floats, plain_type, value_reader
from incmrql.io.scalars import Unparsable, weight
from incmrql.types.model import DATE, FLOAT, FLOATS, TIMESTAMP, Basic, Decimal, Type

_DAY: Final = (
    r"[1-9]\d{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_TIME: Final = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"
_INTEGERS: Final = {
    "byte": r"-?(?:0|[1-9]\d?|1[01]\d)",
    "short": r"-?(?:0|[1-9]\d{0,3}|[12]\d{4})",
    "int": r"-?(?:0|[1-9]\d{0,8}|1\d{9}|20\d{8})",
    "long": r"-?(?:0|[1-9]\d{0,17}|[1-8]\d{18})",
}
_NUMBER: Final = r"-?(?:0|[1-9]\d{0,16})(?:\.\d+)?"
"""Finite whatever the type: the whole part is short.  Of a fraction Arrow reads every digit."""
_TEXTS: Final = {
    **_INTEGERS,
    "float": _NUMBER,
    "double": _NUMBER + r"(?:[eE][+-]?\d{1,2})?",
    "bool": "true|false",
    "date": _DAY,
    "timestamp": rf"{_DAY}[T ]{_TIME}(?:\.\d{{1,6}})?Z?",
}


SIGN: Final = r"(?:[+-]1?|1|insert|delete)"
"""The texts of a sign column in the usual form."""


def pattern(type_: Type) -> str | None:
    """The texts of a type, but for strings; None where no text is simple enough."""
    match type_:
        case Basic(name):
            return f"(?:{_TEXTS[name]})" if name in _TEXTS else None
        case Decimal(precision, scale):
            whole = precision - scale
            front = "0" if whole == 0 else rf"(?:0|[1-9]\d{{0,{whole - 1}}})"
            return rf"-?{front}" + (rf"(?:\.\d{{1,{scale}}})?" if scale else "")
        case _:
            return None


def raw_type(type_: Type) -> Arrow:
    """What Arrow parses a text as; `to_type` makes the type of it."""
    if type_ in (DATE, TIMESTAMP):
        return pa.string()
    return pa.float64() if type_ == FLOAT else arrow_type(type_)


def to_type(column: Arrow, type_: Type) -> Arrow:
    """The column of a type from what was parsed."""
    if type_ == TIMESTAMP:
        column = pc.utf8_rtrim(column, characters="Z").cast(pa.timestamp("us"))
    column = column.cast(arrow_type(type_), safe=type_ != FLOAT)
    return normalize_floats(column) if type_ in FLOATS else column


def sign_weights(signs: Arrow, type_: Type, name: str) -> Arrow | None:
    """The weights that a sign column says; None if one of its values is no sign."""
    read = value_reader(signs.type, type_)
    try:
        coded = signs.cast(plain_type(signs.type)).dictionary_encode(null_encoding="encode")
        known = [weight(read(plain), name) for plain in coded.dictionary.to_pylist()]
    except (Unparsable, pa.ArrowException):
        return None
    return pa.array(known, pa.int64()).take(coded.indices)
