"""Rows of the kernel's as rows of Spark's and back, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any as Arrow

import numpy as np
import pyarrow as pa

from incmrql.kernel.layouts import Layout, Struct, column_of, column_type, values_of
from incmrql.kernel.rows import Rows
from incmrql.spark.values import BATCH, value_type
from incmrql.sql import tree
from incmrql.sql.shapes import Cell, Parts, Shape
from incmrql.sql.tree import Dialect
from incmrql.types.model import Type


def of_spark(column: Arrow, type_: Type) -> Arrow:
    """A column of Spark's as one of the kernel's."""
    wanted = column_type(type_)
    if column.type == wanted:
        return column
    if value_type(type_) == wanted:
        return column.cast(wanted)
    return column_of(values_of(column, type_), type_)


def _to_spark(column: Arrow, type_: Type) -> Arrow:
    wanted = value_type(type_)
    if column.type == wanted:
        return column
    if column_type(type_) == wanted:
        return column.cast(wanted)
    return pa.array(column.to_pylist(), wanted)


def sent_rows(rows: Rows, types: tuple[Type, ...]) -> Iterator[Arrow]:
    """Rows as batches, each as often as its weight says."""
    if (rows.weights != 1).any():
        times = np.repeat(np.arange(len(rows)), rows.weights)
        rows = rows.take(times)
    columns = [_to_spark(c, t) for c, t in zip(rows.columns, types, strict=True)]
    columns = columns or [pa.repeat(True, len(rows))]
    table = pa.table(columns, names=names_of(types))
    yield from table.to_batches(BATCH)


def names_of(types: Sequence[Type]) -> list[str]:
    """The names of the columns that hold values of some types."""
    return [f"c{place}" for place in range(1, len(types) + 1)] or ["c0"]


def schema_of(types: Sequence[Type]) -> str:
    """These columns, as Spark is told of them."""
    texts = [tree.type_text(type_, Dialect.SPARK) for type_ in types] or ["BOOLEAN"]
    return ", ".join(f"{name} {text}" for name, text in zip(names_of(types), texts, strict=True))


def shape_of(layout: Layout, names: Iterator[str]) -> Shape:
    """What a row is in these columns."""
    if isinstance(layout, Struct):
        return Parts(tuple(shape_of(part, names) for part in layout.parts), layout.type)
    return Cell(tree.column(next(names)), layout.type)
