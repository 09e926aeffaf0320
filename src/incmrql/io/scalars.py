"""Text to a value of a basic type: what a column, an attribute or `string as T` can hold.

`parse_scalar(text, type)` gives the value or raises `Unparsable` with a reason that quotes the
text.  Blanks around a number, a truth value or a time do not count; a string is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Final, TypeAlias

from incmrql.errors import InternalError
from incmrql.types.model import (
    BASIC_NAMES,
    BOOL,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    Basic,
    Type,
)
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Value
from incmrql.values.numbers import INTEGER_RANGES, fits, normal, quantize, to_float32

Parser: TypeAlias = Callable[[str], Value]

BLANKS: Final = " \t\r\n\f\v"
_LONGEST_QUOTED = 60
_MOST_INTEGER_DIGITS = 19
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"nan|[+-]?inf(inity)?", re.ASCII | re.IGNORECASE)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIMESTAMP = re.compile(
    r"""(?P<day> \d{4}-\d\d-\d\d )
        (?: [Tt ] (?P<hour> \d\d ) : (?P<minute> \d\d )
            (?: : (?P<second> \d\d ) (?: [.,] (?P<fraction> \d+ ) )? )?
            (?P<zone> [Zz] | [+-] \d\d (?: :? \d\d )? )?
        )?""",
    re.ASCII | re.VERBOSE,
)
_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}


class Unparsable(Exception):
    """A text is not a value of the wanted type; `reason` says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def parse_scalar(text: str, type_: Type) -> Value:
    """The value of a basic type that `text` stands for."""
    return scalar_parser(type_)(text)


@cache
def scalar_parser(type_: Type) -> Parser:
    """The function from text to values of one basic type."""
    match type_:
        case Basic(name) if name in INTEGER_RANGES:
            return lambda text: _integer(text, name)
        case DecimalType(precision, scale):
            return lambda text: _decimal(text, precision, scale)
        case Basic() if type_ in _PARSERS:
            return _PARSERS[type_]
        case _:
            raise InternalError(f"type {type_} cannot be read from a text; {BASIC_NAMES} can")


def quote(text: str) -> str:
    """The text in quotes, shortened, for a reason."""
    excerpt = text if len(text) <= _LONGEST_QUOTED else f"{text[:_LONGEST_QUOTED]}..."
    return '"' + excerpt.replace("\r", "\\r").replace("\n", "\\n") + '"'


def unparsable(text: str, expected: str) -> Unparsable:
    """`"abc" is not an int`."""
    article = "an" if expected[0] in "aeiou" else "a"
    return Unparsable(f"{quote(text)} is not {article} {expected}")


def _integer(text: str, name: str) -> int:
    inner = text.strip(BLANKS)
    if not _INTEGER.fullmatch(inner):
        raise unparsable(text, name)
    kind = INTEGER_RANGES[name]
    # Python refuses to convert thousands of digits; all but nineteen must be zeros in front.
    digits = inner.lstrip("+-0")
    sign = -1 if inner.startswith("-") else 1
    few = len(digits) <= _MOST_INTEGER_DIGITS
    if not few or not fits(kind, number := sign * int(digits or 0)):
        raise Unparsable(f"{quote(text)} does not fit {name} ({kind.start} to {kind.stop - 1})")
    return number


def _double(text: str) -> float:
    return _float(text, "double")


def _float32(text: str) -> float:
    return to_float32(_float(text, "float"))


def _float(text: str, name: str) -> float:
    inner = text.strip(BLANKS)
    if _NUMBER.fullmatch(inner) or _NOT_FINITE.fullmatch(inner):
        return normal(float(inner))
    raise unparsable(text, name)


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    inner = text.strip(BLANKS)
    if not _NUMBER.fullmatch(inner):
        raise unparsable(text, "decimal")
    try:
        number = quantize(Decimal(inner), precision, scale)
    except InvalidOperation:  # an exponent of more than eighteen digits
        number = None
    if number is None:
        raise Unparsable(f"{quote(text)} does not fit decimal({precision},{scale})")
    return number


def _bool(text: str) -> bool:
    value = _TRUTH.get(text.strip(BLANKS).lower())
    if value is None:
        raise unparsable(text, "bool (true or false, 1 or 0)")
    return value


def _date(text: str) -> date:
    match = _DATE.fullmatch(text.strip(BLANKS))
    try:
        if match:
            return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        pass
    raise unparsable(text, "date (YYYY-MM-DD)")


def _timestamp(text: str) -> datetime:
    """The moment in UTC; digits after the sixth of a fraction are cut off."""
    match = _TIMESTAMP.fullmatch(text.strip(BLANKS))
    try:
        if match:
            moment = datetime.fromisoformat(match["day"]).replace(
                hour=int(match["hour"] or 0),
                minute=int(match["minute"] or 0),
                second=int(match["second"] or 0),
                microsecond=int((match["fraction"] or "")[:6].ljust(6, "0")),
                tzinfo=UTC,
            )
            return moment - _offset(match["zone"] or "Z")
    except (ValueError, OverflowError):
        pass
    raise unparsable(text, "timestamp (YYYY-MM-DDThh:mm:ss, with Z or +hh:mm or nothing for UTC)")


def _offset(zone: str) -> timedelta:
    if zone in "Zz":
        return timedelta()
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    return timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)


_PARSERS: Final[dict[Type, Parser]] = {
    BOOL: _bool,
    FLOAT: _float32,
    DOUBLE: _double,
    STRING: str,
    DATE: _date,
    TIMESTAMP: _timestamp,
}


# --- The sign of a row ---


_SIGNS: Final = {"+": 1, "-": -1, "1": 1, "+1": 1, "-1": -1, "insert": 1, "delete": -1}


def weight(sign: object, name: str) -> int:
    """+1 or -1, from what the sign column of a row holds."""
    value = _SIGNS.get(str(sign).strip(BLANKS).lower())
    if value is None:
        content = quote(sign) if isinstance(sign, str) else "null" if sign is None else str(sign)
        raise Unparsable(
            f'sign column "{name}" holds {content}, expected + or -, 1 or -1, insert or delete'
        )
    return value
