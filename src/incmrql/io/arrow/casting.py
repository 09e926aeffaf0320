"""Arrow columns of others in the form of a type, a whole column at once.

    cast_column(column, type)  is  the column of the values that `value_reader` makes, or None

None where some value needs a look of its own: it is out of range or no valid text, or the elements
of a bag are not in canonical order.  Whether a column may be read as a type at all is for the
caller to say: numbers are also cast to narrower types here, if every one of them fits.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any as Arrow
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from incmrql.io.arrow.columns import is_spread, parts_of
from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import normalize_floats
from incmrql.types.model import (
    BINARY,
    BOOL,
    DATE,
    FLOATS,
    INTEGERS,
    SPARK_TYPES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Basic,
    Collection,
    Decimal,
    Type,
)
from incmrql.values.encoding import EPOCH, EPOCH_DAY, MICROSECOND

_DAYS: Final = (1 - EPOCH_DAY, datetime.max.toordinal() - EPOCH_DAY)
_MICROSECONDS: Final = tuple(
    (moment.replace(tzinfo=UTC) - EPOCH) // MICROSECOND for moment in (datetime.min, datetime.max)
)
_PER_UNIT: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds of the units that are not finer."""
_DAY_MILLISECONDS: Final = 86_400_000


def cast_column(column: Arrow, type_: Type) -> Arrow | None:
    """The column in the Arrow form of a type; None where its values must be made one by one."""
    try:
        return _cast(column, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def list_offsets(column: Arrow) -> Arrow:
    """The offsets of lists whose elements are those of `flatten`."""
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    ends = np.cumsum(np.asarray(lengths), dtype=np.int32)
    return pa.array(np.concatenate([[0], ends]).astype(np.int32))


def _cast(column: Arrow, type_: Type) -> Arrow | None:
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    if kinds.is_null(column.type):
        return pa.nulls(len(column), arrow_type(type_))
    match type_:
        case Collection():
            return _cast_lists(column, type_)
        case Basic() | Decimal():
            return _cast_scalars(column, type_)
        case _ if is_spread(type_) and kinds.is_struct(column.type):
            return _cast_structs(column, type_)
        case _:
            return None


def _cast_structs(column: Arrow, type_: Type) -> Arrow | None:
    types = [part for _, part in parts_of(type_)]
    parts = zip(fields_of(column, type_), types, strict=True)
    inner = [_cast(part, part_type) for part, part_type in parts]
    if any(part is None for part in inner):
        return None
    missing = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(inner, fields=list(arrow_type(type_)), mask=missing)


def fields_of(column: Arrow, type_: Type) -> list[Arrow]:
    """The columns of a struct that hold the parts of a type; null where the struct is."""
    flat = column.flatten()
    return [flat[column.type.get_field_index(name)] for name, _ in parts_of(type_)]


def _cast_lists(column: Arrow, type_: Collection) -> Arrow | None:
    if kinds.is_map(column.type) or not kinds.is_nested(column.type):
        return None
    if kinds.is_struct(column.type) or kinds.is_union(column.type):
        return None
    if not kinds.is_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    elements, offsets = _cast(column.flatten(), type_.element), list_offsets(column)
    if elements is None:
        return None
    if type_.kind == "bag":
        elements = in_canonical_order(elements, offsets, type_.element)
    if elements is None:
        return None
    return pa.ListArray.from_arrays(offsets, elements, mask=column.is_null())


def in_canonical_order(elements: Arrow, offsets: Arrow, type_: Type) -> Arrow | None:
    """The elements of bags in canonical order; None for types that Arrow sorts in another way."""
    lengths = np.diff(np.asarray(offsets))
    if not (lengths > 1).any():
        return elements
    if not isinstance(type_, Basic | Decimal) or type_ in FLOATS:
        return None
    columns = {
        "bag": np.repeat(np.arange(len(lengths)), lengths),
        "is_valid": elements.is_valid().cast(pa.int8()),
        "item": elements,
    }
    order = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns])
    return elements.take(order)


def _cast_scalars(column: Arrow, type_: Type) -> Arrow | None:
    if not _is_castable(column.type, type_):
        return None
    if type_ in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return _times(column, type_)
    if type_ == STRING or isinstance(type_, Decimal):
        column.validate(full=True)
    if isinstance(type_, Decimal) and kinds.is_integer(column.type):
        column = column.cast(pa.decimal128(20, 0))
    array = column.cast(arrow_type(type_))
    if isinstance(type_, Decimal):
        array.validate(full=True)
    return normalize_floats(array) if type_ in FLOATS else array


def _is_castable(arrow: Arrow, type_: Type) -> bool:
    """Whether a cast gives the values of a type, or fails if it is one of a narrower type."""
    if type_ in INTEGERS:
        return bool(kinds.is_integer(arrow))
    if type_ in FLOATS:
        return bool(kinds.is_integer(arrow)) or arrow in (pa.float32(), pa.float64())
    if type_ == STRING:
        return arrow in (pa.string(), pa.large_string(), pa.string_view())
    if type_ == TIMESTAMP:
        return bool(kinds.is_timestamp(arrow))
    if type_ == DATE:
        return bool(kinds.is_date(arrow))
    if type_ == BINARY:
        return arrow in (pa.binary(), pa.large_binary())
    if isinstance(type_, Decimal):
        return bool(kinds.is_integer(arrow)) or bool(kinds.is_decimal(arrow))
    return (type_ == BOOL or type_ in SPARK_TYPES) and bool(arrow == arrow_type(type_))


def _times(column: Arrow, type_: Type) -> Arrow | None:
    """Dates and times, rounded down to days and microseconds; None if one is out of range."""
    numbers = _days(column) if type_ == DATE else _microseconds(column)
    limits = _DAYS if type_ == DATE else _MICROSECONDS
    extremes = pc.min_max(numbers)
    if numbers.null_count < len(numbers) and not (
        limits[0] <= extremes["min"].as_py() and extremes["max"].as_py() <= limits[1]
    ):
        return None
    return numbers.cast(arrow_type(type_))


def _days(column: Arrow) -> Arrow:
    if kinds.is_date32(column.type):
        return column.cast(pa.int32())
    return _divided(column.cast(pa.int64()), _DAY_MILLISECONDS).cast(pa.int32())


def _microseconds(column: Arrow) -> Arrow:
    numbers, unit = column.cast(pa.int64()), column.type.unit
    if unit == "ns":
        return _divided(numbers, 1_000)
    return numbers if unit == "us" else pc.multiply_checked(numbers, _PER_UNIT[unit])


def _divided(numbers: Arrow, divisor: int) -> Arrow:
    """Whole numbers divided and rounded down."""
    quotients = numbers.fill_null(0).to_numpy(zero_copy_only=False) // divisor
    return pa.array(quotients, mask=numbers.is_null().to_numpy(zero_copy_only=False))
