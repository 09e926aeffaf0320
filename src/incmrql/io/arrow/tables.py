"""Tables of others as arrays of a type, as a Parquet file of the same columns would be read.

A column is cast as a whole where that surely gives the same values, and made value by value where
it does not; one such column leaves the others alone.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from incmrql.errors import DataError, nearest
from incmrql.io.arrow.casting import cast_column, fields_of
from incmrql.io.arrow.columns import is_spread, parts_of
from incmrql.io.arrow.types import NoSuchType, arrow_type, struct_type, widens_to
from incmrql.io.arrow.values import plain_type, to_arrow, value_reader
from incmrql.io.by_row import note_by_row
from incmrql.io.scalars import Unparsable
from incmrql.types.model import (
    BINARY,
    SPARK_TYPES,
    Basic,
    Collection,
    Record,
    Tuple,
    Type,
)

_ONE: Final = "value"


def element_array(batch: Any, element: Type) -> Any:
    """The rows of a record batch as an array of the Arrow form of a type."""
    return column_array(_element_column(batch, element), element)


def narrowed_elements(batch: Any, element: Type) -> Any | None:
    """The same where numbers may also be of wider types; None if one does not fit.

    None also if a struct has fields that its type lacks: then they may be what is wrong.
    """
    column = _element_column(batch, element)
    return cast_column(column, element) if _has_no_other_fields(column.type, element) else None


def _has_no_other_fields(arrow: Any, type_: Type) -> bool:
    kinds = pa.types
    match type_:
        case Record() | Tuple() if kinds.is_struct(arrow):
            parts = parts_of(type_)
            return arrow.num_fields == len(parts) and all(
                arrow.get_field_index(name) >= 0
                and _has_no_other_fields(arrow.field(name).type, part)
                for name, part in parts
            )
        case Collection(_, element) if kinds.is_nested(arrow) and not kinds.is_map(arrow):
            return kinds.is_struct(arrow) or _has_no_other_fields(arrow.value_type, element)
        case _:
            return True


def column_array(column: Any, element: Type) -> Any:
    """A column as an array of the Arrow form of a type."""
    _check_type(column.type, element)
    array = array_or_none(column, element)
    if array is not None:
        return array
    try:
        return _by_value(column, element)
    except _BadValue as problem:
        hint = "Fix the row, or leave it out."
        raise DataError("R306", f"row {problem.number}: {problem.reason}", hint=hint) from None


def array_or_none(column: Any, element: Type) -> Any | None:
    """The column in the Arrow form of a type; None if some value is not one of the type.

    Its type must be one that widens to the type.
    """
    array = cast_column(column, element)
    if array is not None:
        return array
    try:
        if not is_spread(element) or not pa.types.is_struct(column.type):
            return _by_value(column, element)
        parts = [
            _part(part, type_)
            for part, (_, type_) in zip(fields_of(column, element), parts_of(element), strict=True)
        ]
    except _BadValue:
        return None
    missing = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(arrow_type(element)), mask=missing)


def _part(column: Any, type_: Type) -> Any:
    array = cast_column(column, type_)
    return _by_value(column, type_) if array is None else array


class _BadValue(Exception):
    """A value is not one of the wanted type."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(number, reason)
        self.number, self.reason = number, reason


def _by_value(column: Any, element: Type) -> Any:
    """The column made value by value."""
    note_by_row(len(column))
    make, made = value_reader(column.type, element), []
    for number, plain in enumerate(column.cast(plain_type(column.type)).to_pylist(), 1):
        try:
            made.append(to_arrow(make(plain), element))
        except Unparsable as problem:
            raise _BadValue(number, problem.reason) from None
    return pa.array(made, arrow_type(element))


def _check_type(arrow: Any, element: Type) -> None:
    """Raise unless a column of an Arrow type may be read as one of a type."""
    kinds = pa.types
    match element:
        case Basic() if element in SPARK_TYPES and _is_of_spark_type(arrow, element):
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


def _is_of_spark_type(arrow: Any, type_: Type) -> bool:
    if type_ == BINARY:
        return arrow in (pa.binary(), pa.large_binary())
    return bool(arrow == arrow_type(type_))


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
