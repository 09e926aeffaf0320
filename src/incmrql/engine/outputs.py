"""Answers to files: a part of a batch's output, complete on disk when it is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from incmrql.engine.columns.layouts import of_rows
from incmrql.engine.columns.rows import Rows, from_table, of_values, to_table, to_values
from incmrql.engine.compile.physical import Answer
from incmrql.engine.messages import Format, Target
from incmrql.io.arrow.columns import WEIGHT, column_values, parts_of
from incmrql.io.writers import dump
from incmrql.types.model import LONG, Record, Type, list_of
from incmrql.values import Record as RecordValue
from incmrql.values import Value

PLACE: Final = "_position"
"""The column of a list's change that says where a row was, or is."""
Written = tuple[str, int, int]
"""The name of a file, its rows and its bytes."""


def write_part(folder: Path, name: str, answer: Answer, rows: Rows, target: Target) -> Written:
    """Write rows of an answer to a new file, with their weights or as often as they are there.

    Rows that are meant for ourselves are written as the engine has them.
    """
    if target.mode == "rows":
        return _stored(folder / f"{name}.parquet", to_table(rows))
    element = answer.output.element
    if target.mode == "snapshot":
        rows = rows.take(np.repeat(np.arange(len(rows)), rows.weights))
    return _written(folder / f"{name}.{target.format}", rows, element, target)


def write_values(folder: Path, name: str, answer: Answer, value: Value, format_: Format) -> Written:
    """Write a whole answer that is in one place: its rows in order, or the one value it is."""
    element = answer.output.element
    values = [value] if answer.output.part is None else value or []
    rows = of_values([(each, 1) for each in values], of_rows(element, packed=False))
    target = Target(0, "", "snapshot", format_)
    return _written(folder / f"{name}.{format_}", rows, element, target)


def _written(path: Path, rows: Rows, element: Type, target: Target) -> Written:
    fields = list(parts_of(element))
    columns = list(rows.columns)
    if target.mode == "changes":
        placed = len(columns) > len(fields)
        fields += [*([(PLACE, LONG)] if placed else []), (WEIGHT, LONG)]
        columns.append(pa.array(rows.weights))
    if target.format == "parquet":
        return _stored(path, pa.table(columns, names=[name for name, _ in fields]))
    row = Record(tuple(fields))
    lists = [column_values(c, t) for c, (_, t) in zip(columns, fields, strict=True)]
    values = [RecordValue.of(row.names, list(each)) for each in zip(*lists, strict=True)]
    dump(path, values, list_of(row))
    return path.name, len(values), path.stat().st_size


def _stored(path: Path, table: Any) -> Written:
    pq.write_table(table, path)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return path.name, table.num_rows, path.stat().st_size


def read_rows(path: Path, answer: Answer) -> list[tuple[Value, int]]:
    """The rows of a file that was written for ourselves, with their weights."""
    return shown_values(from_table(pq.ParquetFile(path).read()), answer)


def shown_values(rows: Rows, answer: Answer) -> list[tuple[Value, int]]:
    """The values of a change of an answer, with their weights."""
    columns = rows.columns[:-1] if answer.is_placed else rows.columns
    return to_values(Rows(columns, rows.weights), answer.layout)
