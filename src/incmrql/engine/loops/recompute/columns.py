"""Columns of which each row is a row of a smaller column; segments and keys over them.

A join makes rows of rows: its columns are kept as the columns they come from, and the places of
their rows in these (Arrow's dictionary form), until somebody looks at them.  Keys become numbers,
equal keys the same one: no order is needed, so nothing is sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from incmrql.engine.columns.keys import Indices, binary, float_words, piece_of
from incmrql.engine.columns.layouts import Leaf, Struct
from incmrql.engine.columns.pipelines import Pipeline, Projection, SqlText
from incmrql.engine.columns.rows import Rows, no_rows
from incmrql.io.arrow.columns import WEIGHT
from incmrql.lower.tree import Dialect, print_tree
from incmrql.reference import Environment
from incmrql.types.model import BOOL, DATE, STRING, TIMESTAMP, Tuple, Type, is_float, is_integer

_SMALL: Final = 4
"""A column is taken at once where it has less than 1/_SMALL of the rows of the one it is of."""


def is_gathered(column: Any) -> bool:
    """Whether a column is in the form of places in another one."""
    return bool(pa.types.is_dictionary(column.type))


def gather(column: Any, places: Any) -> Any:
    """The rows of a column at places, an Arrow array of which none is null."""
    if is_gathered(column):
        return gather(column.dictionary, column.indices.take(places))
    if _SMALL * len(places) < len(column):
        return column.take(places)
    return pa.DictionaryArray.from_arrays(places, column, safe=False)


def plain_column(column: Any) -> Any:
    """A column with its values in it."""
    return column.dictionary.take(column.indices) if is_gathered(column) else column


def plain_rows(rows: Rows) -> Rows:
    """Rows with their values in them."""
    return Rows(tuple(map(plain_column, rows.columns)), rows.weights)


def bases_of(columns: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
    """Columns that columns are gathered from, and the places; None where they are not."""
    if columns and all(map(is_gathered, columns)):
        places = columns[0].indices
        if all(column.indices.equals(places) for column in columns[1:]):
            return tuple(column.dictionary for column in columns), places
    return tuple(map(plain_column, columns)), None


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


def apply_pipeline(
    pipeline: Pipeline, rows: Rows, env: Environment, known: Mapping[int, Any] | None = None
) -> Rows:
    """The rows that rows give; columns that are only given on stay as they are.

    `known` has the values of columns that are looked at again and again, by their identity.
    """
    if not len(rows):
        return no_rows(pipeline.types)
    match pipeline.how:
        case Projection(columns, present):
            return _present(rows, present).pick(columns)
        case SqlText(text, functions):
            reading = _reading(text)
            read = Rows(tuple(_read(reading, rows, known or {})), rows.weights)
            if reading.given is None:
                return pipeline.apply(read, env)
            made = [type_ for type_, place in zip(pipeline.types, reading.given, strict=True)
                    if place is None]  # fmt: skip
            found: Iterable[Any] = ()
            if made:
                layout = Struct(tuple(map(Leaf, made)), Tuple(tuple(made)))
                found = Pipeline(SqlText(reading.text, functions), layout).apply(read, env).columns
            fresh = iter(found)
            given = [next(fresh) if p is None else rows.columns[p] for p in reading.given]
            return Rows(tuple(given), rows.weights)
        case _:
            return pipeline.apply(plain_rows(rows), env)


def _present(rows: Rows, places: Iterable[int]) -> Rows:
    """The rows in which some columns are not null."""
    there = np.ones(len(rows), np.bool_)
    for place in places:
        column = rows.columns[place]
        base = column.dictionary if is_gathered(column) else column
        if base.null_count:
            there &= plain_column(column).is_valid().to_numpy(zero_copy_only=False)
    return rows if there.all() else take_rows(rows, np.flatnonzero(there))


def take_rows(rows: Rows, places: Indices) -> Rows:
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
            yield known[id(column)] if id(column) in known else plain_column(column)


def values_of(pipeline: Pipeline, rows: Rows, columns: Iterable[Any]) -> dict[int, Any]:
    """The values of those of some columns that a segment looks at, by their identity."""
    if not isinstance(pipeline.how, SqlText):
        return {}
    used = _reading(pipeline.how.text).used
    read = {id(column) for place, column in enumerate(rows.columns) if f"c{place}" in used}
    return {id(c): plain_column(c) for c in columns if is_gathered(c) and id(c) in read}


# --- keys as numbers --------------------------------------------------------------------------


Columns: TypeAlias = tuple[Any, ...]
Source: TypeAlias = tuple[Columns, int]
"""The columns of keys, and how many there are."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """The number of the key of each row, and by which steps keys come to their numbers."""

    types: tuple[Type, ...]
    of_row: Indices
    count: int
    """Numbers are below; there may be some that no row has."""
    values: tuple[Any, ...]
    """The different values of each column."""
    pairs: tuple[Any, ...]
    """The different pairs of what the columns before come to and the value of a further one."""
    source: tuple[Columns, Indices]
    """The columns from which the numbers come, and the number of each of their rows."""

    def __len__(self) -> int:
        return self.count

    def keys(self, wanted: Indices) -> Columns:
        """The keys of some numbers that rows have."""
        columns, of_row = self.source
        places = np.zeros(self.count, np.int64)
        places[of_row[::-1]] = np.arange(len(of_row) - 1, -1, -1)
        index = pa.array(places[wanted])
        return tuple(column.take(index) for column in columns)


def number_keys(columns: Sequence[Any], types: Sequence[Type], count: int) -> Numbered:
    """Numbers for keys, in the order in which they come first."""
    if not columns:
        nothing = np.zeros(count, np.int64)
        return Numbered((), nothing, min(count, 1), (), (), ((), nothing))
    columns = tuple(map(plain_column, columns))
    parts = [
        _words(column, type_).dictionary_encode(null_encoding="encode")
        for column, type_ in zip(columns, types, strict=True)
    ]
    found, pairs = parts[0], []
    for part in parts[1:]:
        both = _numbers(found) * len(part.dictionary) + _numbers(part)
        found = pa.array(both).dictionary_encode()
        pairs.append(found.dictionary)
    values = tuple(part.dictionary for part in parts)
    of_row = _numbers(found)
    count = len(found.dictionary)
    return Numbered(tuple(types), of_row, count, values, tuple(pairs), (columns, of_row))


def look_up(known: Numbered, columns: Columns, count: int) -> Indices:
    """The numbers of other keys, -1 where there is none."""
    if not columns:
        return np.full(count, 0 if known.count else -1)
    found: Indices | None = None
    for place, (column, type_) in enumerate(zip(columns, known.types, strict=True)):
        here = _index(_words(plain_column(column), type_), known.values[place])
        if found is None:
            found = here
            continue
        both = np.where((found < 0) | (here < 0), -1, found * len(known.values[place]) + here)
        found = _index(pa.array(both), known.pairs[place - 1])
    assert found is not None
    return found


def _words(column: Any, type_: Type) -> Any:
    """A column in which equal values are those that are the same key."""
    if is_integer(type_) or type_ in (BOOL, DATE, STRING, TIMESTAMP):
        return column
    if is_float(type_):
        mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        return pa.array(float_words(column), mask=mask)
    return binary(piece_of(column, type_))


def _numbers(column: Any) -> Indices:
    found: Indices = column.indices.to_numpy().astype(np.int64)
    return found


def _index(column: Any, values: Any) -> Indices:
    found = pc.index_in(column, value_set=values).fill_null(-1)
    places: Indices = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return places


@dataclass(slots=True)
class Numbering:
    """Numbers of keys that are worked out anew only where keys are not those of the last time."""

    types: tuple[Type, ...]
    last: tuple[Columns, int, Numbered] | None = None
    inner: Numbering | None = None
    """That of the columns which keys are gathered from."""

    def of(self, columns: Columns, count: int) -> Numbered:
        """The numbers of keys: the very same object for the same keys."""
        last = self.last
        if last is not None and last[1] == count and all_same(columns, last[0]):
            return last[2]
        bases, places = bases_of(columns)
        if places is None:
            found = number_keys(bases, self.types, count)
        else:
            self.inner = self.inner or Numbering(self.types)
            whole = self.inner.of(bases, len(bases[0]))
            found = replace(whole, of_row=whole.of_row[places.to_numpy(zero_copy_only=False)])
        self.last = columns, count, found
        return found


@dataclass(frozen=True, slots=True)
class Known:
    """Keys of several sources: their numbers, row by row, and the keys that there are."""

    numbers: tuple[Indices, ...]
    """For each source."""
    count: int
    used: Indices
    """The numbers that rows have."""
    columns: Columns
    """The keys of these numbers."""


@dataclass(slots=True)
class Together:
    """Numbers of the keys of several sources, the same for the same key."""

    types: tuple[Type, ...]
    numbering: Numbering = field(init=False)
    last: tuple[list[Source], Known] | None = None
    whole: tuple[list[Source], Numbered] | None = None
    """The last sources that were numbered one after the other."""

    def __post_init__(self) -> None:
        self.numbering = Numbering(self.types)

    def of(self, sources: Sequence[Source]) -> Known:
        """The numbers of keys: the very same object for the same keys."""
        given = list(sources)
        if not given:
            return Known((), 0, np.zeros(0, np.int64), ())
        if self.last is not None and _are_same(given, self.last[0]):
            return self.last[1]
        different: list[Source] = []
        places: list[int] = []
        for source in given:
            equal = [n for n, other in enumerate(different) if _is_again(source, other)]
            places.append(equal[0] if equal else len(different))
            different += [] if equal else [source]
        found, numbers = self._numbers(different)
        there = np.zeros(len(found), np.bool_)
        for each in numbers:
            there[each] = True
        used = np.flatnonzero(there)
        known = Known(tuple(numbers[n] for n in places), len(found), used, found.keys(used))
        self.last = given, known
        return known

    def _numbers(self, sources: list[Source]) -> tuple[Numbered, list[Indices]]:
        if len(sources) == 1:
            found = self.numbering.of(*sources[0])
            return found, [found.of_row]
        split = [bases_of(columns) for columns, _ in sources]
        bases = [
            (columns, count if places is None else len(columns[0]))
            for (columns, places), (_, count) in zip(split, sources, strict=True)
        ]
        found = self._one_after_the_other(bases)
        parts = np.split(found.of_row, np.cumsum([count for _, count in bases])[:-1])
        return found, [
            part if places is None else part[places.to_numpy(zero_copy_only=False)]
            for part, (_, places) in zip(parts, split, strict=True)
        ]

    def _one_after_the_other(self, sources: list[Source]) -> Numbered:
        if self.whole is not None and _are_same(sources, self.whole[0]):
            return self.whole[1]
        columns = zip(*[columns for columns, _ in sources], strict=True)
        whole = [pa.concat_arrays(list(column)) for column in columns]
        found = number_keys(whole, self.types, sum(count for _, count in sources))
        self.whole = sources, found
        return found


def _is_again(one: Source, other: Source) -> bool:
    return one[1] == other[1] and all_same(one[0], other[0])


def _are_same(some: Sequence[Source], others: Sequence[Source]) -> bool:
    return len(some) == len(others) and all(map(_is_again, some, others))
