"""Elements of a type spread over the columns of an Arrow table.

A record or a tuple has a column for each field, anything else one column.  Columns are numbered
(`c0, c1, ...`), so that no field of a user's gets in the way of our own columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import plain_type, value_reader
from incmrql.types.model import Record, Tuple, Type
from incmrql.values import Value

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
