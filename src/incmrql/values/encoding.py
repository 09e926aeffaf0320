"""Canonical bytes: what a value is, as bytes that sort like the value.

`encode(value)` starts with a one-byte tag of the kind of value, so that

    identity   a and b are the same value  <=>  encode(a) == encode(b)
    order      a comes before b            <=>  encode(a) <  encode(b)
    prefixes   no encoding is a proper prefix of another

hold for values of any kinds and depths.  Every tag is greater than `END`, so in a sequence
the next element's tag also says "not finished yet", and a sequence that is the beginning of
a longer one sorts first.  Our own classes encode themselves by a method `encode_`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final, TypeAlias

from incmrql.errors import InternalError
from incmrql.values.numbers import normal

END: Final = b"\x00"
NULL: Final = b"\x01"
BOOL: Final = b"\x02"
INTEGER: Final = b"\x03"
FLOAT: Final = b"\x04"
DECIMAL: Final = b"\x05"
STRING: Final = b"\x06"
DATE: Final = b"\x07"
TIMESTAMP: Final = b"\x08"
TUPLE: Final = b"\x09"
RECORD: Final = b"\x0a"
LIST: Final = b"\x0b"
BAG: Final = b"\x0c"
DATA: Final = b"\x0d"
BINARY: Final = b"\x0e"
LOCAL_TIME: Final = b"\x0f"
MONTHS: Final = b"\x10"
DURATION: Final = b"\x11"

EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
SIGN: Final = 1 << 63
ALL_BITS: Final = (1 << 64) - 1

DIGITS: Final = 38
"""The most digits of a decimal, on either side of its point."""
DECIMAL_BYTES: Final = 32
DECIMAL_SIGN: Final = 1 << (8 * DECIMAL_BYTES - 1)
EXACT: Final = Context(prec=4 * DIGITS)

_FIRST = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
_unsigned = struct.Struct(">Q")
_double = struct.Struct(">d")

Encoder: TypeAlias = Callable[[Any], bytes]


def encode(value: Any) -> bytes:
    """The canonical bytes of a value."""
    kind = type(value)
    encoder = _ENCODERS.get(kind) or _encoder_of_class(kind)
    return encoder(value)


def encode_text(text: str) -> bytes:
    """A string without its tag: UTF-8 with zero bytes escaped, and an end that sorts first.

    UTF-8 sorts by code point.  A lone surrogate has three bytes of its own, so that text
    which is not quite Unicode is still a value.
    """
    return escape(text.encode("utf-8", "surrogatepass"))


def escape(content: bytes) -> bytes:
    """Bytes with zero bytes escaped, and an end that sorts first."""
    return content.replace(b"\x00", b"\x00\xff") + b"\x00\x00"


def encode_integer(number: int) -> bytes:
    """Eight bytes, the sign bit flipped so that negative numbers sort first."""
    try:
        return _unsigned.pack(number + SIGN)
    except struct.error:
        raise InternalError(f"integer {number} does not fit 64 bits") from None


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970 in UTC; a time without a zone is taken as UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    count = (aware - EPOCH) // MICROSECOND
    if not _FIRST <= count <= _LAST:
        raise InternalError(f"timestamp {moment} is outside the years 1 to 9999 in UTC")
    return count


def _encoder_of_class(kind: type) -> Encoder:
    """The encoder of a class that is not in `_ENCODERS`: its own method, or that of its base."""
    own: Encoder | None = getattr(kind, "encode_", None)
    if own is not None:
        return own
    for parent in kind.__mro__:
        if parent in _ENCODERS:
            return _ENCODERS[parent]
    hint = "; a record is made with Record(...)" if issubclass(kind, dict) else ""
    raise InternalError(f"a Python {kind.__name__} is not a value of the language{hint}")


def _encode_null(_: None) -> bytes:
    return NULL


def _encode_bool(value: bool) -> bytes:
    return BOOL + (b"\x01" if value else b"\x00")


def _encode_integer(value: int) -> bytes:
    return INTEGER + encode_integer(value)


def _encode_float(value: float) -> bytes:
    """Negative numbers have all bits flipped, the others the sign; one zero and one NaN."""
    (bits,) = _unsigned.unpack(_double.pack(normal(value)))
    return FLOAT + _unsigned.pack(bits ^ (ALL_BITS if bits & SIGN else SIGN))


def _encode_decimal(value: Decimal) -> bytes:
    """The number as an integer multiple of 10**-38, so that 1.0 and 1.00 are the same value."""
    if not value.is_finite() or (value and value.adjusted() >= DIGITS):
        raise InternalError(f"decimal {value} has more than {DIGITS} digits before its point")
    unscaled = int(value.scaleb(DIGITS, EXACT))
    if Decimal(unscaled).scaleb(-DIGITS, EXACT) != value:
        raise InternalError(f"decimal {value} has more than {DIGITS} digits after its point")
    return DECIMAL + (unscaled + DECIMAL_SIGN).to_bytes(DECIMAL_BYTES, "big")


def _encode_string(value: str) -> bytes:
    return STRING + encode_text(value)


def _encode_date(value: date) -> bytes:
    return DATE + encode_integer(value.toordinal() - EPOCH_DAY)


def _encode_timestamp(value: datetime) -> bytes:
    return TIMESTAMP + encode_integer(microseconds(value))


def _encode_binary(value: bytes) -> bytes:
    return BINARY + escape(value)


def _encode_duration(value: timedelta) -> bytes:
    return DURATION + encode_integer(value // MICROSECOND)


def _encode_sequence(value: tuple[object, ...] | list[object]) -> bytes:
    parts = [TUPLE if isinstance(value, tuple) else LIST]
    # A plain loop, since `map` and comprehensions would add C frames for each level of nesting:
    # deeply nested values must not overflow the stack.
    for element in value:
        parts.append(encode(element))  # noqa: PERF401
    parts.append(END)
    return b"".join(parts)


_ENCODERS: Final[dict[type, Encoder]] = {
    type(None): _encode_null,
    bool: _encode_bool,
    int: _encode_integer,
    float: _encode_float,
    Decimal: _encode_decimal,
    str: _encode_string,
    date: _encode_date,
    datetime: _encode_timestamp,
    bytes: _encode_binary,
    timedelta: _encode_duration,
    tuple: _encode_sequence,
    list: _encode_sequence,
}
