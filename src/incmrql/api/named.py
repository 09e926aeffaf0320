"""Rows with the column names of a query: PySpark's `Row`, which equals the plain tuple."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from incmrql.errors import DataError
from incmrql.types.model import (
    Collection,
    Record,
    Tuple,
    Type,
    contains_map,
    entry_types,
    is_map,
)
from incmrql.values import Bag, Map, OrderedBag, Value, encode
from incmrql.values import Record as RecordValue

if TYPE_CHECKING:
    from incmrql.plan.program import Output, Program


def row_maker(columns: Sequence[str], element: Type) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The function that gives a tuple of a type the names of its columns."""
    from pyspark.sql import Row  # rows of MRQL have no names, and do without Spark

    template = Row(*columns)
    has_maps = contains_map(element)

    def named(values: Sequence[Any]) -> tuple[Any, ...]:
        row: tuple[Any, ...] = template(*(with_dicts(values, element) if has_maps else values))
        return row

    return named


def with_dicts(value: Value, type_: Type) -> Any:
    """A value with dictionaries for the maps in it; a map by arrays stays a list of entries."""
    match type_:
        case _ if value is None:
            return None
        case Collection(_, element) if is_map(type_):
            _, inner = entry_types(type_)
            pairs = [(entry["key"], with_dicts(entry["value"], inner)) for entry in value]
            is_hashable = all(isinstance(key, Hashable) for key, _ in pairs)
            return Map(pairs) if is_hashable else [with_dicts(one, element) for one in value]
        case Collection(kind, element):
            items = [with_dicts(item, element) for item in value]
            return Bag(items) if kind == "bag" else items
        case Record(fields):
            return RecordValue.of(type_.names, [with_dicts(value[n], t) for n, t in fields])
        case Tuple(items):
            return tuple([with_dicts(item, t) for item, t in zip(value, items, strict=True)])
        case _:
            return value


def named_rows(value: Value, output: Output) -> Value:
    """An answer whose rows have the names of its columns, if the item names them.

    An order that is no part of the answer is that in which the rows are shown.
    """
    columns = output.item.columns
    if not columns or not isinstance(value, list):
        return value
    rows = [*map(row_maker(columns, output.element), value)]
    if not isinstance(value, Bag):
        return rows
    for position, descending in reversed(output.item.shown_by):
        rows.sort(key=lambda row: encode(row[position]), reverse=descending)
    return OrderedBag(rows) if output.item.shown_by else Bag(rows)


def number_of_answer(program: Program, item: int | str) -> int:
    """The number of an answer that is given by its number or by its name; refused if not there."""
    outputs = program.outputs
    if isinstance(item, str):
        names = [output.target for output in outputs]
        if item in names:
            return names.index(item)
        known = ", ".join(filter(None, names))
        hint = (
            f"The answers are: {known}." if known else "The answers of this program have numbers."
        )
        raise DataError("R212", f'there is no answer "{item}"', hint=hint)
    if not 0 <= item < len(outputs):
        hint = f"The answers of the program are numbered 0 to {len(outputs) - 1}."
        raise DataError("R212", f"there is no answer {item}", hint=hint)
    return item


def named_changes(changes: list[tuple[Value, int]], output: Output) -> list[tuple[Value, int]]:
    """Rows of a change, with weights; the rows have the names of the columns, if there are any."""
    columns = output.item.columns
    if not columns:
        return changes
    named = row_maker(columns, output.element)
    return [(named(row), weight) for row, weight in changes]


__all__ = ["named_changes", "named_rows", "number_of_answer", "row_maker"]
