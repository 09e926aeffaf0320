"""Writes answers to files: parts of a batch's output, flushed to disk before they are reported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from incmrql.engine.columns.layouts import of_rows
from incmrql.engine.columns.rows import Rows, from_table, of_values, to_table, to_values
from incmrql.engine.compile.physical import PhysicalOutput
from incmrql.engine.messages import Format, Target
from incmrql.io.arrow.columns import WEIGHT, column_values, parts_of
from incmrql.types.model import LONG, Record, Type, list_of
from incmrql.values import Record as RecordValue
from incmrql.values import Value

PLACE: Final = "_position"
"""The column with the position of a row in a list: the old one if it goes, else the new one."""
PartFile = tuple[str, int, int]
"""The name of a file, its rows and its bytes."""


def write_part(
    folder: Path, name: str, answer: PhysicalOutput, rows: Rows, target: Target
) -> PartFile:
    """Write rows of an answer to a new file: changes with weights, snapshots with copies.

    In mode `rows`, which only the engine reads again, its own columns are written.
    """
    if target.mode == "rows":
        return _write_parquet(folder / f"{name}.parquet", to_table(rows))
    if target.mode == "snapshot":
        rows = rows.take(np.repeat(np.arange(len(rows)), rows.weights))
    return _write_rows(folder / f"{name}.{target.format}", rows, answer.output.row, target)


def write_values(
    folder: Path, name: str, answer: PhysicalOutput, value: Value, format_: Format
) -> PartFile:
    """Write a whole answer to one file: its rows in order, or the single value."""
    target = Target(0, "", "snapshot", format_)
    path = folder / f"{name}.{format_}"
    return _write_rows(path, rows_of_value(answer, value), answer.output.row, target)


def rows_of_value(answer: PhysicalOutput, value: Value) -> Rows:
    """A whole answer as rows: its elements in order, or the single value."""
    values = [value] if answer.output.part is None else value or []
    return of_values([(row, 1) for row in values], of_rows(answer.output.element, packed=False))


def _write_rows(path: Path, rows: Rows, row_type: Type, target: Target) -> PartFile:
    fields = list(parts_of(row_type))
    columns = list(rows.columns)
    if target.mode == "changes":
        has_position = len(columns) > len(fields)
        fields += [*([(PLACE, LONG)] if has_position else []), (WEIGHT, LONG)]
        columns.append(pa.array(rows.weights))
    if target.format == "parquet":
        return _write_parquet(path, pa.table(columns, names=[name for name, _ in fields]))
    from incmrql.io.writers import dump  # workers that write Parquet do without

    record = Record(tuple(fields))
    lists = [column_values(c, t) for c, (_, t) in zip(columns, fields, strict=True)]
    values = [RecordValue.of(record.names, list(items)) for items in zip(*lists, strict=True)]
    dump(path, values, list_of(record))
    return path.name, len(values), path.stat().st_size


def _write_parquet(path: Path, table: Any) -> PartFile:
    pq.write_table(table, path)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return path.name, table.num_rows, path.stat().st_size


def read_rows(
    path: Path, answer: PhysicalOutput, most: int | None = None
) -> list[tuple[Value, int]]:
    """The first rows, or all, with their weights, of a file written in mode `rows`."""
    table = pq.ParquetFile(path).read()
    return shown_values(from_table(table if most is None else table.slice(0, most)), answer)


def shown_values(rows: Rows, answer: PhysicalOutput) -> list[tuple[Value, int]]:
    """The values of a change of an answer, with their weights."""
    columns = rows.columns[:-1] if answer.is_placed else rows.columns
    return to_values(Rows(columns, rows.weights), answer.layout)
