"""Values as text: `show` writes MRQL's own notation.

    identical(read(show(v)), v)

with `read` from `reader.py`.  Equal values are shown alike: bags in canonical order, one zero,
one NaN, times in UTC.  Only the zeros at the end of a decimal are kept as they are.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from typing import Final

from incmrql.diagnostics import InternalError
from incmrql.values.canonical import canonical, ordered
from incmrql.values.data import Bag, Data, Record, Value

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A name that needs no quotes."""

SHORT_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f\x7f-\x9f\ud800-\udfff]')
_LEAST_PLAIN: Final = 1e-3
_LEAST_LARGE: Final = 1e16


def show(value: Value, limit: int | None = None) -> str:
    """The value as text; with a limit, at most so many elements of the outermost collection."""
    if limit is None or not isinstance(value, list) or len(value) <= limit:
        return _show(value)
    elements = ordered(value) if isinstance(value, Bag) else value
    shown = ", ".join([*map(_show, islice(elements, limit)), "..."])
    return f"{{ {shown} }}" if isinstance(value, Bag) else f"[ {shown} ]"


def show_float(x: float) -> str:
    """The shortest digits that read back as `x`, always with a point or an exponent."""
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "Infinity" if x > 0 else "-Infinity"
    if x == 0:
        return "0.0"
    if _LEAST_PLAIN <= abs(x) < _LEAST_LARGE:
        return float.__repr__(x)
    number = Decimal(float.__repr__(x))
    first, *rest = number.as_tuple().digits
    sign = "-" if x < 0 else ""
    return f"{sign}{first}.{''.join(map(str, rest)) or 0}E{number.adjusted()}"


def show_string(text: str) -> str:
    """A string in double quotes."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _show(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return int.__repr__(value)
        case float():
            return show_float(value)
        case str():
            return show_string(value)
        case tuple():
            return "(" + ",".join([_show(part) for part in value]) + ")"
        case Bag():
            return _spaced("{", [_show(part) for part in ordered(value)], "}")
        case list():
            return _spaced("[", [_show(part) for part in value], "]")
        case Record():
            shown = [_show(part) for part in value.values_]
            return _spaced("<", [*map(_show_field, value.names_, shown)], ">")
        case Data():
            content = _show(value.content)
            return value.constructor + (content if _is_tuple(value) else f"({content})")
        case _:
            return _show_call(value)


def _show_call(value: Value) -> str:
    """A value without a literal: a function of the language applied to a string."""
    match value:
        case Decimal():
            return f'decimal("{canonical(value):f}")'
        case datetime():
            text = canonical(value).replace(tzinfo=None).isoformat()
            return f'timestamp("{text.rstrip("0") if "." in text else text}Z")'
        case date():
            return f'date("{value.isoformat()}")'
        case _:
            kind = type(value).__name__
            raise InternalError(f"a Python {kind} is not a value of the language")


def _spaced(opening: str, parts: list[str], closing: str) -> str:
    return f"{opening} {', '.join(parts)} {closing}" if parts else f"{opening} {closing}"


def _show_field(name: str, shown: str) -> str:
    """A field; its name is quoted if, coming from data, it is not a name of the language."""
    return f"{name if NAME.fullmatch(name) else show_string(name)}: {shown}"


def _is_tuple(value: Data) -> bool:
    """Whether the content is shown as several arguments, or none."""
    return isinstance(value.content, tuple)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return SHORT_ESCAPES.get(character) or f"\\u{ord(character):04x}"
