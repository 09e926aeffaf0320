"""Rows with the column names of a query: PySpark's `Row`, which equals the plain tuple."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from incmrql.values import Bag, Value, encode

if TYPE_CHECKING:
    from incmrql.plan.program import Output


def row_maker(columns: Sequence[str]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The function that gives a tuple the names of its columns."""
    from pyspark.sql import Row  # rows of MRQL have no names, and do without Spark

    template = Row(*columns)

    def named(values: Sequence[Any]) -> tuple[Any, ...]:
        row: tuple[Any, ...] = template(*values)
        return row

    return named


def named_rows(value: Value, output: Output) -> Value:
    """An answer whose rows have the names of its columns, if the item names them.

    An order that is no part of the answer is that in which the rows are shown.
    """
    columns = output.item.columns
    if not columns or not isinstance(value, list):
        return value
    rows = [*map(row_maker(columns), value)]
    for position, descending in reversed(output.item.shown_by):
        rows.sort(key=lambda row: encode(row[position]), reverse=descending)
    return Bag(rows) if isinstance(value, Bag) else rows


def named_changes(changes: list[tuple[Value, int]], output: Output) -> list[tuple[Value, int]]:
    """Rows of a change, with weights; the rows have the names of the columns, if there are any."""
    columns = output.item.columns
    if not columns:
        return changes
    named = row_maker(columns)
    return [(named(row), weight) for row, weight in changes]


__all__ = ["named_changes", "named_rows", "row_maker"]
