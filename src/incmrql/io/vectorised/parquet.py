"""Parquet files to columns of a type, batch by batch; the rows of some batches one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any as Arrow
from typing import Final

import pyarrow as pa

from incmrql.io.arrow.columns import is_spread, parts_of
from incmrql.io.arrow.tables import array_or_none
from incmrql.io.parquet import ParquetRows
from incmrql.io.rows import Read
from incmrql.io.vectorised.scalars import sign_weights
from incmrql.types.model import Type

_ROWS: Final = 1 << 18
"""Rows that are read together."""


@dataclass(frozen=True, slots=True)
class ParquetBatch:
    """Some rows of a file with their weights; if one of them is bad, all of them one by one."""

    values: Arrow
    weights: Arrow = None
    rows: Iterator[Read] | None = None


def parquet_batches(rows: ParquetRows, element: Type) -> Iterator[ParquetBatch]:
    """The rows of a file as columns of a type, which has fields of the file's."""
    names = _names(rows, element)
    number = 0
    for column in rows.columns(_ROWS, names):
        batch = _batch(rows, column, element)
        if batch is None and names is not None:
            # A bad row is shown with all its fields: go on with these from here.
            yield from _with_all_fields(rows, element, number)
            return
        yield batch or ParquetBatch(None, rows=rows.read(column, number + 1))
        number += len(column)


def _with_all_fields(rows: ParquetRows, element: Type, start: int) -> Iterator[ParquetBatch]:
    number = 0
    for column in rows.columns(_ROWS):
        end = number + len(column)
        if end > start:
            number = max(number, start)
            rest = column.slice(len(column) - (end - number))
            batch = _batch(rows, rest, element)
            yield batch or ParquetBatch(None, rows=rows.read(rest, number + 1))
        number = end


def _names(rows: ParquetRows, element: Type) -> list[str] | None:
    """The columns to read; None for all: a point in a name would lead into a column."""
    if not rows.is_packed or not is_spread(element):
        return None
    all_names = rows.file.schema_arrow.names
    if any("." in name for name in all_names):
        return None
    wanted = {name for name, _ in parts_of(element)} | {rows.sign}
    names = [name for name in all_names if name in wanted]
    return names if len(names) < len(all_names) else None


def _batch(rows: ParquetRows, column: Arrow, element: Type) -> ParquetBatch | None:
    """A batch as columns; None if a row is bad."""
    weights = pa.repeat(pa.scalar(1, pa.int64()), len(column))
    if rows.sign:
        weights = sign_weights(column.field(rows.sign), rows.sign_type, rows.sign)
    values = None if weights is None else array_or_none(column, element)
    return None if values is None else ParquetBatch(values, weights)
