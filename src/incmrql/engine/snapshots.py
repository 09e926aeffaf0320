"""Whole answers as tables, and sizes of changes: what the driver reads, and tasks do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from incmrql.engine.batch import OPEN_SEGMENTS, CompiledProgram, output_rows
from incmrql.engine.columns.rows import Rows
from incmrql.engine.compile.physical import PhysicalOutput
from incmrql.engine.context import BatchContext
from incmrql.engine.operators.answers import bucket_rows, whole_answer
from incmrql.engine.outputs import rows_of_value
from incmrql.engine.store.tables import Reader, StateTable
from incmrql.io.arrow.columns import parts_of
from incmrql.values import Value


def answer_tables(
    compiled: CompiledProgram, number: int, tables: Mapping[str, StateTable], runs: Path
) -> Iterator[pa.Table]:
    """A whole answer in the columns of a file, bucket by bucket; at least one table."""
    context = BatchContext(tables, Reader(runs, OPEN_SEGMENTS), compiled.env(), is_first=False)
    answer = compiled.physical.answers[number]
    if answer.is_single:
        yield _value_table(answer, whole_answer(answer, context))
        return
    is_empty = True
    for bucket in range(max((table.buckets for table in tables.values()), default=1)):
        rows = bucket_rows(answer, bucket, context)
        if len(rows):
            is_empty = False
            yield _snapshot_table(answer, output_rows(answer, rows, context.env))
    if is_empty:
        yield _value_table(answer, [])


def _snapshot_table(answer: PhysicalOutput, rows: Rows) -> Any:
    """Rows of an answer in the columns of a file, each as often as its weight says."""
    names = [name for name, _ in parts_of(answer.output.row)]
    return pa.table(rows.take(np.repeat(np.arange(len(rows)), rows.weights)).columns, names=names)


def _value_table(answer: PhysicalOutput, value: Value) -> Any:
    """A whole answer in the columns of a file: its rows in order, or the single value."""
    return _snapshot_table(answer, rows_of_value(answer, value))


def count_rows(path: Path) -> tuple[int, int]:
    """The number of rows in a file written in mode `rows`, and the sum of their weights."""
    file = pq.ParquetFile(path)
    weights = file.read([file.schema_arrow.names[-1]]).column(0).to_numpy()
    return len(weights), int(weights.sum())


__all__ = ["answer_tables", "count_rows"]
