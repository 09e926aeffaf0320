"""Identity and order of values, and decoding of canonical bytes.

    decode(encode(v)) is v        identical(a, b)  <=>  compare(a, b) == 0

The encoding itself, with its laws, is in `encoding.py` and on the classes of `data.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final, TypeAlias

from incmrql.errors import InternalError
from incmrql.values import encoding
from incmrql.values.data import Bag, Data, LocalTime, Months, OrderedBag, Record, Value
from incmrql.values.encoding import encode
from incmrql.values.numbers import normal

_unsigned = struct.Struct(">Q")
_double = struct.Struct(">d")

Decoder: TypeAlias = Callable[[bytes, int], tuple[Value, int]]


def identical(a: Value, b: Value) -> bool:
    """Whether two values are the same key, row or group."""
    return encode(a) == encode(b)


def compare(a: Value, b: Value) -> int:
    """Negative, zero or positive as `a` comes before, is, or comes after `b`."""
    left, right = encode(a), encode(b)
    return (left > right) - (left < right)


def sort_values(values: Iterable[Value]) -> list[Value]:
    """The values in canonical order."""
    return sorted(values, key=encode)


def shown_order(bag: Bag) -> list[Value]:
    """The elements of a bag as they are shown: in its own order if it has one, else canonical."""
    return list(bag) if isinstance(bag, OrderedBag) else sort_values(bag)


def canonical(value: Value) -> Value:
    """The value in the form that every engine holds: one zero, one NaN, UTC, bags in order."""
    match value:
        case float():
            return normal(value)
        case Decimal():
            return value if value else value.copy_abs()
        case LocalTime():
            return value
        case datetime():
            return encoding.EPOCH + encoding.microseconds(value) * encoding.MICROSECOND
        case tuple():
            return tuple(map(canonical, value))
        case Bag():
            return Bag(sorted(map(canonical, value), key=encode))
        case list():
            return list(map(canonical, value))
        case Record():
            return Record.of(value.names_, map(canonical, value.values_))
        case Data():
            return Data(value.constructor, value.position, canonical(value.content))
        case _:
            return value


def decode(data: bytes) -> Value:
    """The value whose canonical bytes are `data`."""
    try:
        value, end = _decode(data, 0)
    except (LookupError, OverflowError, ValueError, struct.error) as cause:
        raise InternalError(f"these are not canonical bytes: {data[:40]!r}") from cause
    if end != len(data):
        raise InternalError(f"{len(data) - end} bytes follow the value in {data[:40]!r}")
    return value


def _decode(data: bytes, at: int) -> tuple[Value, int]:
    """The value that starts at `at`, and where it ends."""
    tag = data[at : at + 1]
    at += 1
    sequence = _SEQUENCES.get(tag)
    if sequence is None:
        return _DECODERS[tag](data, at)
    values = []
    while data[at]:
        value, at = _decode(data, at)
        values.append(value)
    return sequence(values), at + 1


def _decode_null(_: bytes, at: int) -> tuple[None, int]:
    return None, at


def _decode_bool(data: bytes, at: int) -> tuple[bool, int]:
    return data[at] == 1, at + 1


def _decode_integer(data: bytes, at: int) -> tuple[int, int]:
    number: int = _unsigned.unpack_from(data, at)[0]
    return number - encoding.SIGN, at + 8


def _decode_float(data: bytes, at: int) -> tuple[float, int]:
    (bits,) = _unsigned.unpack_from(data, at)
    restored = bits ^ encoding.SIGN if bits & encoding.SIGN else bits ^ encoding.ALL_BITS
    number: float = _double.unpack(_unsigned.pack(restored))[0]
    return number, at + 8


def _decode_decimal(data: bytes, at: int) -> tuple[Decimal, int]:
    """The number without trailing zeros after its point."""
    end = at + encoding.DECIMAL_BYTES
    unscaled = int.from_bytes(data[at:end], "big") - encoding.DECIMAL_SIGN
    whole, fraction = divmod(unscaled, 10**encoding.DIGITS)
    if fraction == 0:
        return Decimal(whole), end
    scaled = Decimal(unscaled).scaleb(-encoding.DIGITS, encoding.EXACT)
    return scaled.normalize(encoding.EXACT), end


def _decode_string(data: bytes, at: int) -> tuple[str, int]:
    text, end = _decode_binary(data, at)
    return text.decode("utf-8", "surrogatepass"), end


def _decode_binary(data: bytes, at: int) -> tuple[bytes, int]:
    end = data.index(b"\x00", at)
    while data[end + 1]:
        end = data.index(b"\x00", end + 2)
    return data[at:end].replace(b"\x00\xff", b"\x00"), end + 2


def _decode_date(data: bytes, at: int) -> tuple[date, int]:
    days, end = _decode_integer(data, at)
    return date.fromordinal(days + encoding.EPOCH_DAY), end


def _decode_timestamp(data: bytes, at: int) -> tuple[datetime, int]:
    count, end = _decode_integer(data, at)
    return encoding.EPOCH + count * encoding.MICROSECOND, end


def _decode_local_time(data: bytes, at: int) -> tuple[LocalTime, int]:
    count, end = _decode_integer(data, at)
    return LocalTime.after_1970(count), end


def _decode_months(data: bytes, at: int) -> tuple[Months, int]:
    count, end = _decode_integer(data, at)
    return Months(count), end


def _decode_duration(data: bytes, at: int) -> tuple[timedelta, int]:
    count, end = _decode_integer(data, at)
    return count * encoding.MICROSECOND, end


def _decode_record(data: bytes, at: int) -> tuple[Record, int]:
    names = []
    while data[at]:
        name, at = _decode_string(data, at + 1)
        names.append(name)
    at += 1
    values = []
    for _ in names:
        value, at = _decode(data, at)
        values.append(value)
    return Record.of(tuple(names), values), at


def _decode_data(data: bytes, at: int) -> tuple[Data, int]:
    position = int.from_bytes(data[at : at + 2], "big")
    constructor, at = _decode_string(data, at + 2)
    content, at = _decode(data, at)
    return Data(constructor, position, content), at


_SEQUENCES: Final[dict[bytes, Callable[[list[Value]], Value]]] = {
    encoding.TUPLE: tuple,
    encoding.LIST: list,
    encoding.BAG: Bag,
}
_DECODERS: Final[dict[bytes, Decoder]] = {
    encoding.NULL: _decode_null,
    encoding.BOOL: _decode_bool,
    encoding.INTEGER: _decode_integer,
    encoding.FLOAT: _decode_float,
    encoding.DECIMAL: _decode_decimal,
    encoding.STRING: _decode_string,
    encoding.DATE: _decode_date,
    encoding.TIMESTAMP: _decode_timestamp,
    encoding.RECORD: _decode_record,
    encoding.DATA: _decode_data,
    encoding.BINARY: _decode_binary,
    encoding.LOCAL_TIME: _decode_local_time,
    encoding.MONTHS: _decode_months,
    encoding.DURATION: _decode_duration,
}

__all__ = ["canonical", "compare", "decode", "encode", "identical", "shown_order", "sort_values"]
