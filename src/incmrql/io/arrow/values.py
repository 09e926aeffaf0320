"""Values to what Arrow stores, and back.

`to_arrow(value, type)` is the Python object from which Arrow builds `arrow_type(type)`.  On the
way back a column is first cast to `plain_type`, where texts are bytes and times are numbers, and
`value_reader` makes the values.  So a value that is out of range spoils one row, not the column.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal as DecimalValue
from typing import Any as Arrow
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from incmrql.errors import InternalError
from incmrql.io.scalars import Unparsable
from incmrql.types.model import (
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Any,
    Collection,
    Data,
    Decimal,
    Nothing,
    Record,
    Tuple,
    Type,
    is_day_time,
    is_year_month,
)
from incmrql.values import Bag, LocalTime, Map, Months, Value, canonical, decode, encode
from incmrql.values import Record as RecordValue
from incmrql.values.encoding import EPOCH, EPOCH_DAY, MICROSECOND
from incmrql.values.numbers import normal, quantize, to_float32

Reader: TypeAlias = Callable[[Arrow], Value]

_NANOSECONDS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY_MILLISECONDS = 86_400_000


def to_arrow(value: Value, type_: Type) -> Arrow:
    """The Python object from which Arrow stores a value of a type."""
    if value is None:
        return None
    match type_:
        case Data() | Any():
            return encode(value)
        case Record(()) | Tuple(()):
            return True
        case Record(fields):
            return {name: to_arrow(value[name], field) for name, field in fields}
        case Tuple(items):
            return {f"_{i}": to_arrow(v, t) for i, (v, t) in _items_with_types(value, items)}
        case Collection(kind, element):
            parts = canonical(value) if kind == "bag" else value
            if isinstance(value, Map):
                parts = [{"key": key, "value": item} for key, item in value.items()]
            return [to_arrow(part, element) for part in parts]
        case Decimal(precision, scale):
            fixed = quantize(DecimalValue(value), precision, scale)
            if fixed is None:
                raise Unparsable(f"{value} does not fit {type_}")
            return fixed
        case _ if type_ == TIMESTAMP:
            return canonical(value)
        case _ if type_ in (FLOAT, DOUBLE):
            return normal(value)
        case _ if is_day_time(type_):
            return value // MICROSECOND
        case _:
            return value


def normalize_floats(column: Arrow) -> Arrow:
    """A column of floats with one zero and one NaN."""
    nan = pa.scalar(float("nan"), column.type)
    positive = pc.add(column, pa.scalar(0.0, column.type))
    return pc.if_else(pc.is_nan(column), nan, positive)


def plain_type(arrow: Arrow) -> Arrow:
    """The type to which a column is cast before its values are made."""
    if _is_text(arrow):
        return pa.binary()
    if kinds.is_timestamp(arrow) or kinds.is_date64(arrow):
        return pa.int64()
    if kinds.is_date32(arrow):
        return pa.int32()
    if kinds.is_float16(arrow):
        return pa.float32()
    if kinds.is_null(arrow):
        return pa.bool_()  # pyarrow 26 fails to cast a list of nulls to its own type
    if kinds.is_dictionary(arrow):
        return plain_type(arrow.value_type)
    if kinds.is_struct(arrow):
        inner = [arrow.field(i) for i in range(arrow.num_fields)]
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in inner])
    if kinds.is_map(arrow):
        return pa.map_(plain_type(arrow.key_type), plain_type(arrow.item_type))
    if kinds.is_nested(arrow):
        return pa.list_(plain_type(arrow.value_type))
    return arrow


def value_reader(arrow: Arrow, type_: Type) -> Reader:
    """How values of a type are made from a plain column that came from an Arrow type."""
    if kinds.is_dictionary(arrow):
        return value_reader(arrow.value_type, type_)
    make = _value_reader(arrow, type_)
    return lambda plain: None if plain is None else make(plain)


def _value_reader(arrow: Arrow, type_: Type) -> Reader:
    """The same for what is not null."""
    if kinds.is_null(arrow):
        return _identity
    match type_:
        case Data() | Any():
            return _from_bytes
        case Record(()):
            return lambda _: RecordValue()
        case Tuple(()):
            return lambda _: ()
        case Record(fields):
            names = type_.names
            readers = [(n, value_reader(arrow.field(n).type, field)) for n, field in fields]
            return lambda plain: RecordValue.of(names, [read(plain[n]) for n, read in readers])
        case Tuple(items):
            items_ = [(f"_{i}", item) for i, item in enumerate(items, 1)]
            parts = [(n, value_reader(arrow.field(n).type, item)) for n, item in items_]
            return lambda plain: tuple([read(plain[n]) for n, read in parts])
        case Collection(kind, element):
            is_map = kinds.is_map(arrow)
            item = (
                _pair_reader(arrow, element) if is_map else value_reader(arrow.value_type, element)
            )
            container = Bag if kind == "bag" else list
            return lambda plain: container([item(part) for part in plain])
        case Decimal():
            return DecimalValue
        case Nothing():
            return _identity
        case _ if is_year_month(type_):
            return Months
        case _ if is_day_time(type_):
            return _duration
        case _:
            return _SCALARS[type_](arrow) if type_ in _SCALARS else _identity


def _pair_reader(arrow: Arrow, element: Type) -> Reader:
    if not isinstance(element, Tuple):
        raise InternalError(f"a map is a bag of pairs, not of {element}")
    key = value_reader(arrow.key_type, element.items[0])
    item = value_reader(arrow.item_type, element.items[1])
    return lambda plain: (key(plain[0]), item(plain[1]))


def _items_with_types(value: Value, items: tuple[Type, ...]) -> enumerate[tuple[Value, Type]]:
    return enumerate(zip(value, items, strict=True), 1)


def _identity(plain: Arrow) -> Value:
    return plain


def _from_bytes(plain: bytes) -> Value:
    try:
        return decode(plain)
    except InternalError as problem:
        raise Unparsable(str(problem)) from None


def _text(plain: bytes) -> str:
    try:
        return plain.decode()
    except UnicodeDecodeError as problem:
        raise Unparsable(f"not UTF-8 at byte {problem.start + 1} of a string") from None


def _date_reader(arrow: Arrow) -> Reader:
    unit = _DAY_MILLISECONDS if kinds.is_date64(arrow) else 1

    def read(plain: int) -> date:
        try:
            return date.fromordinal(plain // unit + EPOCH_DAY)
        except (ValueError, OverflowError):
            raise Unparsable(f"day {plain} from 1970 on is outside the years 1 to 9999") from None

    return read


def _timestamp_reader(arrow: Arrow) -> Reader:
    """Nanoseconds are rounded down to microseconds."""
    unit = _NANOSECONDS[arrow.unit]

    def read(plain: int) -> Value:
        try:
            return EPOCH + plain * unit // 1000 * MICROSECOND
        except OverflowError:
            what = f"{plain} {arrow.unit} from 1970 on"
            raise Unparsable(f"timestamp {what} is outside the years 1 to 9999") from None

    return read


def _local_reader(arrow: Arrow) -> Reader:
    read = _timestamp_reader(arrow)
    return lambda plain: LocalTime.of(read(plain))


def _duration(plain: int) -> timedelta:
    return timedelta(microseconds=plain)


def _is_text(arrow: Arrow) -> bool:
    return any(
        test(arrow) for test in (kinds.is_string, kinds.is_large_string, kinds.is_string_view)
    )


_SCALARS: Final[dict[Type, Callable[[Arrow], Reader]]] = {
    STRING: lambda _: _text,
    DATE: _date_reader,
    TIMESTAMP: _timestamp_reader,
    TIMESTAMP_NTZ: _local_reader,
    FLOAT: lambda _: to_float32,
    DOUBLE: lambda _: lambda plain: normal(float(plain)),
}
