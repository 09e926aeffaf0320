"""Rows with weights, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.engine.columns.layouts import Layout, column_type, columns_of, leaves, rows_of
from incmrql.io.arrow.columns import WEIGHT, flat
from incmrql.types.model import Type
from incmrql.values import Value
from incmrql.values.exact.sums import Integers


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of equal length, and the weight of each row."""

    columns: tuple[Any, ...]
    weights: Integers

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, rows: npt.NDArray[Any]) -> Rows:
        """The rows at these indices, or where a mask is true."""
        indices = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        arrow_indices = pa.array(indices)
        return Rows(
            tuple(column.take(arrow_indices) for column in self.columns), self.weights[indices]
        )

    def pick(self, columns: Sequence[int]) -> Rows:
        """Some of the columns."""
        return Rows(tuple(self.columns[index] for index in columns), self.weights)

    def times(self, factor: int | Integers) -> Rows:
        """The same rows with their weights multiplied."""
        return Rows(self.columns, self.weights * factor)

    def with_columns(self, *columns: Any) -> Rows:
        """The same rows with more columns."""
        return Rows((*self.columns, *columns), self.weights)


def no_rows(types: Sequence[Type]) -> Rows:
    """Rows without any row, for columns of these types."""
    return Rows(tuple(pa.array([], column_type(t)) for t in types), np.zeros(0, np.int64))


def concat_rows(parts: Sequence[Rows], types: Sequence[Type]) -> Rows:
    """The rows of all parts, one after the other."""
    non_empty = [part for part in parts if len(part)]
    if not non_empty:
        return no_rows(types)
    if len(non_empty) == 1:
        return non_empty[0]
    columns = zip(*[part.columns for part in non_empty], strict=True)
    weights = np.concatenate([part.weights for part in non_empty])
    return Rows(tuple(pa.concat_arrays(list(column)) for column in columns), weights)


def to_table(rows: Rows) -> Any:
    """Rows as an Arrow table `c0, c1, …` with their weights."""
    columns = [*rows.columns, pa.array(rows.weights)]
    names = [f"c{index}" for index in range(len(rows.columns))]
    return pa.table(columns, names=[*names, WEIGHT])


def from_table(table: Any) -> Rows:
    """The rows of a table whose last column has the weights."""
    columns = [flat(column) for column in table.columns]
    return Rows(tuple(columns[:-1]), columns[-1].to_numpy(zero_copy_only=False))


def of_values(rows: Sequence[tuple[Value, int]], layout: Layout) -> Rows:
    """Values with weights as rows."""
    columns = columns_of([value for value, _ in rows], layout)
    return Rows(tuple(columns), np.array([weight for _, weight in rows], np.int64))


def to_values(rows: Rows, layout: Layout) -> list[tuple[Value, int]]:
    """The values of rows, with weights."""
    assert len(rows.columns) == len(leaves(layout))
    values = rows_of(rows.columns, layout, len(rows))
    return list(zip(values, rows.weights.tolist(), strict=True))
