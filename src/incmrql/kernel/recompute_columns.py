"""Columns of which each row is a row of a smaller column, and segments over them.

A join makes rows of rows: its columns are kept as the columns they come from, and the places of
their rows in these (Arrow's dictionary form), until somebody looks at them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

from incmrql.kernel.columns import WEIGHT
from incmrql.kernel.keys import Places
from incmrql.kernel.layouts import Leaf, Struct
from incmrql.kernel.rows import Rows, no_rows
from incmrql.kernel.segment import Picked, Segment, Text
from incmrql.reference import Environment
from incmrql.sql.tree import Dialect, print_tree
from incmrql.types.model import Tuple

_SMALL: Final = 4
"""A column is taken at once where it has less than 1/_SMALL of the rows of the one it is of."""


def is_gathered(column: Any) -> bool:
    """Whether a column is in the form of places in another one."""
    return bool(pa.types.is_dictionary(column.type))


def gathered(column: Any, places: Any) -> Any:
    """The rows of a column at places, an Arrow array of which none is null."""
    if is_gathered(column):
        return gathered(column.dictionary, column.indices.take(places))
    if _SMALL * len(places) < len(column):
        return column.take(places)
    return pa.DictionaryArray.from_arrays(places, column, safe=False)


def plain(column: Any) -> Any:
    """A column with its values in it."""
    return column.dictionary.take(column.indices) if is_gathered(column) else column


def plain_rows(rows: Rows) -> Rows:
    """Rows with their values in them."""
    return Rows(tuple(map(plain, rows.columns)), rows.weights)


def apart(columns: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
    """Columns that columns are gathered from, and the places; None where they are not."""
    if columns and all(map(is_gathered, columns)):
        places = columns[0].indices
        if all(column.indices.equals(places) for column in columns[1:]):
            return tuple(column.dictionary for column in columns), places
    return tuple(map(plain, columns)), None


def is_same(one: Any, other: Any) -> bool:
    """Whether two columns are seen to hold the same values in the same order."""
    if one is other:
        return True
    if len(one) != len(other) or one.type != other.type:
        return False
    if is_gathered(one):
        return is_same(one.indices, other.indices) and is_same(one.dictionary, other.dictionary)
    return _where(one) == _where(other) or bool(one.equals(other))


def _where(column: Any) -> tuple[Any, ...]:
    """Where a column lies in memory."""
    buffers = (None if each is None else (each.address, each.size) for each in column.buffers())
    return column.offset, *buffers


def all_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether all columns are those of others."""
    return len(some) == len(others) and all(map(is_same, some, others))


# --- segments --------------------------------------------------------------------------------


def applied(
    segment: Segment, rows: Rows, env: Environment, known: Mapping[int, Any] | None = None
) -> Rows:
    """The rows that rows give; columns that are only given on stay as they are.

    `known` has the values of columns that are looked at again and again, by their identity.
    """
    if not len(rows):
        return no_rows(segment.types)
    match segment.how:
        case Picked(columns, present):
            return _present(rows, present).pick(columns)
        case Text(text, functions):
            reading = _reading(text)
            read = Rows(tuple(_read(reading, rows, known or {})), rows.weights)
            if reading.given is None:
                return segment.apply(read, env)
            made = [type_ for type_, place in zip(segment.types, reading.given, strict=True)
                    if place is None]  # fmt: skip
            found: Iterable[Any] = ()
            if made:
                layout = Struct(tuple(map(Leaf, made)), Tuple(tuple(made)))
                found = Segment(Text(reading.text, functions), layout).apply(read, env).columns
            fresh = iter(found)
            given = [next(fresh) if p is None else rows.columns[p] for p in reading.given]
            return Rows(tuple(given), rows.weights)
        case _:
            return segment.apply(plain_rows(rows), env)


def _present(rows: Rows, places: Iterable[int]) -> Rows:
    """The rows in which some columns are not null."""
    there = np.ones(len(rows), np.bool_)
    for place in places:
        column = rows.columns[place]
        base = column.dictionary if is_gathered(column) else column
        if base.null_count:
            there &= plain(column).is_valid().to_numpy(zero_copy_only=False)
    return rows if there.all() else taken(rows, np.flatnonzero(there))


def taken(rows: Rows, places: Places) -> Rows:
    """The rows at places, in the form that they have."""
    index = pa.array(places)
    return Rows(tuple(column.take(index) for column in rows.columns), rows.weights[places])


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a text reads and gives on, and the text of what it makes of rows one for one."""

    used: frozenset[str]
    given: tuple[int | None, ...] | None
    """Which column each column of the result is; None if rows are left out or made."""
    text: str


@cache
def _reading(text: str) -> _Reading:
    select = sqlglot.parse_one(text, read="duckdb")
    assert isinstance(select, exp.Select)
    *cells, _ = select.expressions
    is_kept = print_tree(select, Dialect.DUCKDB).lower() == text.lower()
    if not is_kept or any(select.args.get(name) for name in ("where", "joins")):
        return _Reading(_columns(select), None, text)
    given = tuple(_place(cell.this) for cell in cells)
    made = [cell for cell, place in zip(cells, given, strict=True) if place is None]
    nothing = exp.alias_(exp.true(), WEIGHT, quoted=True)  # where the weights stand
    reduced = exp.select(*made, nothing).from_("given")
    return _Reading(_columns(reduced), given, print_tree(reduced, Dialect.DUCKDB))


def _columns(tree: exp.Expression) -> frozenset[str]:
    """The columns that a text looks at, into some of them by the names of their parts."""
    return frozenset(column.parts[0].name for column in tree.find_all(exp.Column))


def _place(cell: exp.Expression) -> int | None:
    name = cell.name if isinstance(cell, exp.Column) and not cell.table else ""
    return int(name[1:]) if name[:1] == "c" and name[1:].isdigit() else None


def _read(reading: _Reading, rows: Rows, known: Mapping[int, Any]) -> Iterable[Any]:
    """The columns with their values in them, those that are not read without any."""
    for place, column in enumerate(rows.columns):
        if f"c{place}" not in reading.used:
            yield pa.nulls(len(rows))
        else:
            yield known[id(column)] if id(column) in known else plain(column)


def values_of(segment: Segment, rows: Rows, columns: Iterable[Any]) -> dict[int, Any]:
    """The values of those of some columns that a segment looks at, by their identity."""
    if not isinstance(segment.how, Text):
        return {}
    used = _reading(segment.how.text).used
    read = {id(column) for place, column in enumerate(rows.columns) if f"c{place}" in used}
    return {id(c): plain(c) for c in columns if is_gathered(c) and id(c) in read}
