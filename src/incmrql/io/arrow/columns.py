"""Elements of a type spread over the columns of an Arrow table, and tables of others read as such.

Columns of others that surely hold the same values are cast; any others are made value by value,
as a Parquet file of the same columns would be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from incmrql.errors import DataError, nearest
from incmrql.io.arrow.types import NoSuchType, arrow_type, struct_type, widens_to
from incmrql.io.arrow.values import normalize_floats, plain_type, to_arrow, value_reader
from incmrql.io.scalars import Unparsable
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
    SPARK_TYPES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Basic,
    Collection,
    Decimal,
    Record,
    Tuple,
    Type,
)
from incmrql.values import Value
from incmrql.values.encoding import EPOCH, EPOCH_DAY, MICROSECOND

# --- Elements and their columns ---
#
# A record or a tuple has a column for each field, anything else one column. Columns are numbered
# (`c0, c1, ...`), so that no field of a user's gets in the way of our own columns.


WEIGHT: Final = "_weight"


def parts_of(element: Type) -> tuple[tuple[str, Type], ...]:
    """The fields that the elements of a type are spread over, by name."""
    match element:
        case Record(fields) if fields:
            return fields
        case Tuple(items) if items:
            return tuple((f"_{i}", item) for i, item in enumerate(items, 1))
        case _:
            return (("value", element),)


def types_of(element: Type) -> tuple[Type, ...]:
    """The types of the columns."""
    return tuple(type_ for _, type_ in parts_of(element))


def is_spread(element: Type) -> bool:
    """Whether an element is spread over its fields, rather than in one column as it is."""
    return isinstance(element, Record | Tuple) and parts_of(element)[0][1] is not element


def names(letter: str, count: int) -> list[str]:
    """`c0, c1, ...`."""
    return [f"{letter}{i}" for i in range(count)]


def schema(letter: str, types: Iterable[Type]) -> Any:
    """The Arrow schema of columns and the weights beside them."""
    fields = [pa.field(f"{letter}{i}", arrow_type(type_)) for i, type_ in enumerate(types)]
    return pa.schema([*fields, pa.field(WEIGHT, pa.int64())])


def spread(value: Value, element: Type) -> list[Value]:
    """The values of an element's columns."""
    if not is_spread(element):
        return [value]
    return list(value.values_) if isinstance(element, Record) else list(value)


def column_values(column: Any, type_: Type) -> list[Value]:
    """The values of a column."""
    read = value_reader(column.type, type_)
    return [read(plain) for plain in column.cast(plain_type(column.type)).to_pylist()]


def flat(column: Any) -> Any:
    """A column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


# --- Tables of others ---


_ONE: Final = "value"
_INTEGERS: Final = (BYTE, SHORT, INT, LONG)
_DAYS: Final = (1 - EPOCH_DAY, datetime.max.toordinal() - EPOCH_DAY)
_MICROSECONDS: Final = tuple(
    (moment.replace(tzinfo=UTC) - EPOCH) // MICROSECOND for moment in (datetime.min, datetime.max)
)


def element_array(batch: Any, element: Type) -> Any:
    """The rows of a record batch as an array of the Arrow form of a type."""
    return column_array(_element_column(batch, element), element)


def column_array(column: Any, element: Type) -> Any:
    """A column as an array of the Arrow form of a type."""
    _check_type(column.type, element)
    array = _cast(column, element)
    return _cast_by_value(column, element) if array is None else array


def _check_type(arrow: Any, element: Type) -> None:
    """Raise unless a column of an Arrow type may be read as one of a type."""
    kinds = pa.types
    match element:
        case Basic() if element in SPARK_TYPES and _is_castable(arrow, element):
            pass
        case Record() | Tuple() if _has_spark_type(element) and kinds.is_struct(arrow):
            for name, type_ in parts_of(element):
                _check_type(arrow.field(name).type, type_)
        case Collection(_, inner) if _has_spark_type(element) and kinds.is_list(arrow):
            _check_type(arrow.value_type, inner)
        case _:
            type_ = _column_type(arrow)
            if not widens_to(type_, element):
                message = f"the table has rows of type {type_}, expected {element}"
                raise DataError("R306", message, hint="Cast the columns, or declare their types.")


def _has_spark_type(type_: Type) -> bool:
    """Whether values have parts of types that only plans of Spark have, which no table names."""
    match type_:
        case Collection(_, element):
            return _has_spark_type(element)
        case Record() | Tuple():
            return is_spread(type_) and any(_has_spark_type(t) for _, t in parts_of(type_))
        case _:
            return type_ in SPARK_TYPES


def _element_column(batch: Any, element: Type) -> Any:
    """The one column that the rows are in, or the wanted columns as one."""
    names = batch.schema.names
    used_names = [name for name, _ in parts_of(element)]
    if names == [_ONE] and not (isinstance(element, Record) and _ONE in used_names):
        return batch.column(0)
    if not is_spread(element):
        used_names = [_ONE]
    for name in used_names:
        if names.count(name) != 1:
            many = "no column" if name not in names else "several columns"
            hint = f"{nearest(name, names)} Columns are: {', '.join(names)}.".strip()
            raise DataError("R306", f'the table has {many} "{name}"', hint=hint)
    columns = [batch.column(names.index(name)) for name in used_names]
    return columns[0] if not is_spread(element) else _struct(columns, used_names)


def _struct(columns: list[Any], names: list[str]) -> Any:
    fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _column_type(arrow: Any) -> Type:
    try:
        row = struct_type([pa.field(_ONE, arrow)])
    except NoSuchType as problem:
        name = problem.path.removeprefix(f"{_ONE}.")
        message = f'column "{name}" has type {problem.arrow}, which no MRQL type holds'
        raise DataError("R306", message, hint="Cast the column, or leave it out.") from None
    assert isinstance(row, Record)
    return row.fields[0][1]


def _cast(column: Any, type_: Type) -> Any | None:
    """The column in its new form, or None where its values must be looked at one by one."""
    if is_spread(type_):
        inner = [_cast(part, t) for part, (_, t) in zip(_fields(column, type_), parts_of(type_),
                                                        strict=True)]  # fmt: skip
        if any(part is None for part in inner):
            return None
        missing = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(inner, fields=list(arrow_type(type_)), mask=missing)
    if not _is_castable(column.type, type_):
        return None
    try:
        return _scalars(column, type_)
    except pa.ArrowInvalid:
        return None


def _fields(column: Any, type_: Type) -> list[Any]:
    flat = column.flatten()
    indices = [column.type.get_field_index(name) for name, _ in parts_of(type_)]
    return [flat[index] for index in indices]


def _is_castable(arrow: Any, type_: Type) -> bool:
    if type_ in _INTEGERS:
        return bool(pa.types.is_integer(arrow))
    if type_ in (FLOAT, DOUBLE):
        return arrow in (pa.float32(), pa.float64())
    if type_ == STRING:
        return arrow in (pa.string(), pa.large_string())
    if type_ == TIMESTAMP:
        return bool(pa.types.is_timestamp(arrow)) and arrow.unit == "us"
    if type_ == BINARY:
        return arrow in (pa.binary(), pa.large_binary())
    if type_ in SPARK_TYPES:
        return bool(arrow == arrow_type(type_))
    plain = type_ in (BOOL, DATE) or isinstance(type_, Decimal)
    return plain and bool(arrow == arrow_type(type_))


def _scalars(column: Any, type_: Type) -> Any | None:
    if type_ == STRING:
        column.validate(full=True)
    if type_ in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        limits = _DAYS if type_ == DATE else _MICROSECONDS
        numbers = column.cast(pa.int32() if type_ == DATE else pa.int64())
        extremes = pc.min_max(numbers)
        if numbers.null_count < len(numbers) and not (
            limits[0] <= extremes["min"].as_py() and extremes["max"].as_py() <= limits[1]
        ):
            return None
        return numbers.cast(arrow_type(type_))
    array = column.cast(arrow_type(type_))
    return normalize_floats(array) if type_ in (FLOAT, DOUBLE) else array


def _cast_by_value(column: Any, element: Type) -> Any:
    make, values = value_reader(column.type, element), []
    for number, plain in enumerate(column.cast(plain_type(column.type)).to_pylist(), 1):
        try:
            values.append(to_arrow(make(plain), element))
        except Unparsable as problem:
            hint = "Fix the row, or leave it out."
            raise DataError("R306", f"row {number}: {problem.reason}", hint=hint) from None
    return pa.array(values, arrow_type(element))
