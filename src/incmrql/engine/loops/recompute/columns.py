"""Gathered columns, pipelines over them, and keys as numbers.

A join selects rows of its inputs.  Its columns stay in the form (input column, indices), which is
Arrow's dictionary form, until something reads their values.  Keys become numbers, equal keys the
same number; no order is needed, so nothing is sorted.
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

from incmrql.engine.columns.keys import (
    Indices,
    binary,
    float_words,
    piece_of,
    whole_number_tag,
)
from incmrql.engine.columns.layouts import Leaf, Struct
from incmrql.engine.columns.pipelines import Pipeline, Projection, SqlText
from incmrql.engine.columns.rows import Rows, no_rows
from incmrql.io.arrow.columns import WEIGHT
from incmrql.lower.tree import Dialect, print_tree
from incmrql.reference import Environment
from incmrql.types.model import BOOL, STRING, Tuple, Type, is_float

_SMALL: Final = 4
"""A column is copied at once if it has less than 1/_SMALL of the rows of its input column."""


def is_gathered(column: Any) -> bool:
    """Whether a column is stored as indices into another column."""
    return bool(pa.types.is_dictionary(column.type))


def gather(column: Any, indices: Any) -> Any:
    """The rows of a column at indices, an Arrow array without nulls; gathered unless small."""
    if is_gathered(column):
        return gather(column.dictionary, column.indices.take(indices))
    if _SMALL * len(indices) < len(column):
        return column.take(indices)
    return pa.DictionaryArray.from_arrays(indices, column, safe=False)


def plain_column(column: Any) -> Any:
    """A column as plain values, not gathered."""
    return column.dictionary.take(column.indices) if is_gathered(column) else column


def plain_rows(rows: Rows) -> Rows:
    """Rows with plain columns."""
    return Rows(tuple(map(plain_column, rows.columns)), rows.weights)


def bases_of(columns: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
    """The columns from which columns are gathered by common indices, and these indices.

    Plain columns and None if there are no common indices.
    """
    if columns and all(map(is_gathered, columns)):
        indices = columns[0].indices
        if all(column.indices.equals(indices) for column in columns[1:]):
            return tuple(column.dictionary for column in columns), indices
    return tuple(map(plain_column, columns)), None


def is_same(one: Any, other: Any) -> bool:
    """Whether two columns are known to hold the same values in the same order."""
    if one is other:
        return True
    if len(one) != len(other) or one.type != other.type:
        return False
    if is_gathered(one):
        return is_same(one.indices, other.indices) and is_same(one.dictionary, other.dictionary)
    return _memory(one) == _memory(other) or bool(one.equals(other))


def _memory(column: Any) -> tuple[Any, ...]:
    """The memory of a column: its offset, and the addresses and sizes of its buffers."""
    buffers = (None if b is None else (b.address, b.size) for b in column.buffers())
    return column.offset, *buffers


def all_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether two lists of columns are pairwise the same."""
    return len(some) == len(others) and all(map(is_same, some, others))


# --- pipelines -------------------------------------------------------------------------------


def apply_pipeline(
    pipeline: Pipeline, rows: Rows, env: Environment, known: Mapping[int, Any] | None = None
) -> Rows:
    """The result of a pipeline over rows; columns that it only passes on stay gathered.

    `known` has the plain values of columns that are read in every step, by object identity.
    """
    if not len(rows):
        return no_rows(pipeline.types)
    match pipeline.how:
        case Projection(columns, present):
            return _without_nulls(rows, present).pick(columns)
        case SqlText(text, functions):
            use = _column_use(text)
            read = Rows(tuple(_read(use, rows, known or {})), rows.weights)
            if use.passed_on is None:
                return pipeline.apply(read, env)
            types = [type_ for type_, index in zip(pipeline.types, use.passed_on, strict=True)
                     if index is None]  # fmt: skip
            computed: Iterable[Any] = ()
            if types:
                layout = Struct(tuple(map(Leaf, types)), Tuple(tuple(types)))
                computed = Pipeline(SqlText(use.text, functions), layout).apply(read, env).columns
            remaining = iter(computed)
            cells = [next(remaining) if i is None else rows.columns[i] for i in use.passed_on]
            return Rows(tuple(cells), rows.weights)
        case _:
            return pipeline.apply(plain_rows(rows), env)


def _without_nulls(rows: Rows, indices: Iterable[int]) -> Rows:
    """The rows in which these columns are not null."""
    is_kept = np.ones(len(rows), np.bool_)
    for index in indices:
        column = rows.columns[index]
        base = column.dictionary if is_gathered(column) else column
        if base.null_count:
            is_kept &= plain_column(column).is_valid().to_numpy(zero_copy_only=False)
    return rows if is_kept.all() else take_rows(rows, np.flatnonzero(is_kept))


def take_rows(rows: Rows, indices: Indices) -> Rows:
    """The rows at indices; gathered columns stay gathered."""
    index = pa.array(indices)
    return Rows(tuple(column.take(index) for column in rows.columns), rows.weights[indices])


@dataclass(frozen=True, slots=True)
class _ColumnUse:
    """The columns that a SQL text reads or passes on, and the text for the computed columns."""

    used: frozenset[str]
    passed_on: tuple[int | None, ...] | None
    """For each result column the input column that it is; None if the text changes the rows."""
    text: str


@cache
def _column_use(text: str) -> _ColumnUse:
    select = sqlglot.parse_one(text, read="duckdb")
    assert isinstance(select, exp.Select)
    *cells, _ = select.expressions
    # A text that does not print as it was parsed is run as it is.
    is_kept = print_tree(select, Dialect.DUCKDB).lower() == text.lower()
    if not is_kept or any(select.args.get(name) for name in ("where", "joins")):
        return _ColumnUse(_columns(select), None, text)
    passed_on = tuple(_input_column(cell.this) for cell in cells)
    computed = [cell for cell, index in zip(cells, passed_on, strict=True) if index is None]
    weights = exp.alias_(exp.true(), WEIGHT, quoted=True)  # a placeholder: the rows keep theirs
    reduced = exp.select(*computed, weights).from_("given")
    return _ColumnUse(_columns(reduced), passed_on, print_tree(reduced, Dialect.DUCKDB))


def _columns(tree: exp.Expression) -> frozenset[str]:
    """The columns that a text reads; a field of a column counts as the column."""
    return frozenset(column.parts[0].name for column in tree.find_all(exp.Column))


def _input_column(cell: exp.Expression) -> int | None:
    """The input column that an expression is, if it is nothing else."""
    name = cell.name if isinstance(cell, exp.Column) and not cell.table else ""
    return int(name[1:]) if name[:1] == "c" and name[1:].isdigit() else None


def _read(use: _ColumnUse, rows: Rows, known: Mapping[int, Any]) -> Iterable[Any]:
    """The columns as plain values; those that are not read are null columns."""
    for index, column in enumerate(rows.columns):
        if f"c{index}" not in use.used:
            yield pa.nulls(len(rows))
        else:
            yield known[id(column)] if id(column) in known else plain_column(column)


def values_of(pipeline: Pipeline, rows: Rows, columns: Iterable[Any]) -> dict[int, Any]:
    """The plain values of those of some columns that a pipeline reads, by object identity."""
    if not isinstance(pipeline.how, SqlText):
        return {}
    used = _column_use(pipeline.how.text).used
    read = {id(column) for index, column in enumerate(rows.columns) if f"c{index}" in used}
    return {id(c): plain_column(c) for c in columns if is_gathered(c) and id(c) in read}


# --- keys as numbers --------------------------------------------------------------------------


Columns: TypeAlias = tuple[Any, ...]
Source: TypeAlias = tuple[Columns, int]
"""The columns of keys, and the number of rows."""


@dataclass(frozen=True, slots=True)
class KeyNumbers:
    """The number of each row's key, and the tables by which other keys get the same numbers."""

    types: tuple[Type, ...]
    of_row: Indices
    count: int
    """All numbers are below; some may not belong to any row."""
    values: tuple[Any, ...]
    """The distinct values of each column."""
    pairs: tuple[Any, ...]
    """For each further column, the distinct pairs of the number so far and the column's value."""
    source: tuple[Columns, Indices]
    """The columns from which the numbers come, and the number of each of their rows."""

    def __len__(self) -> int:
        return self.count

    def keys(self, wanted: Indices) -> Columns:
        """The keys with these numbers, each of which some row has."""
        columns, of_row = self.source
        first_row = np.zeros(self.count, np.int64)
        first_row[of_row[::-1]] = np.arange(len(of_row) - 1, -1, -1)
        index = pa.array(first_row[wanted])
        return tuple(column.take(index) for column in columns)


def number_keys(columns: Sequence[Any], types: Sequence[Type], count: int) -> KeyNumbers:
    """Numbers for keys, in the order of their first occurrence."""
    if not columns:
        nothing = np.zeros(count, np.int64)
        return KeyNumbers((), nothing, min(count, 1), (), (), ((), nothing))
    columns = tuple(map(plain_column, columns))
    parts = [
        _words(column, type_).dictionary_encode(null_encoding="encode")
        for column, type_ in zip(columns, types, strict=True)
    ]
    encoded, pairs = parts[0], []
    for part in parts[1:]:
        both = _numbers(encoded) * len(part.dictionary) + _numbers(part)
        encoded = pa.array(both).dictionary_encode()
        pairs.append(encoded.dictionary)
    values = tuple(part.dictionary for part in parts)
    of_row = _numbers(encoded)
    count = len(encoded.dictionary)
    return KeyNumbers(tuple(types), of_row, count, values, tuple(pairs), (columns, of_row))


def look_up(known: KeyNumbers, columns: Columns, count: int) -> Indices:
    """The numbers of other keys; -1 for keys without a number."""
    if not columns:
        return np.full(count, 0 if known.count else -1)
    numbers: Indices | None = None
    for n, (column, type_) in enumerate(zip(columns, known.types, strict=True)):
        own = _index(_words(plain_column(column), type_), known.values[n])
        if numbers is None:
            numbers = own
            continue
        both = np.where((numbers < 0) | (own < 0), -1, numbers * len(known.values[n]) + own)
        numbers = _index(pa.array(both), known.pairs[n - 1])
    assert numbers is not None
    return numbers


def _words(column: Any, type_: Type) -> Any:
    """A column whose values are equal for Arrow exactly if they are the same key."""
    if type_ in (BOOL, STRING) or whole_number_tag(type_) is not None:
        return column
    if is_float(type_):
        mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        return pa.array(float_words(column), mask=mask)
    return binary(piece_of(column, type_))


def _numbers(column: Any) -> Indices:
    numbers: Indices = column.indices.to_numpy().astype(np.int64)
    return numbers


def _index(column: Any, values: Any) -> Indices:
    """The index of each value of a column among `values`, -1 if it is not there."""
    column = pc.index_in(column, value_set=values).fill_null(-1)
    indices: Indices = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return indices


@dataclass(slots=True)
class Numbering:
    """Numbers keys; the same keys as in the last call are not numbered again."""

    types: tuple[Type, ...]
    last: tuple[Columns, int, KeyNumbers] | None = None
    inner: Numbering | None = None
    """The numbering of the columns from which the keys are gathered."""

    def of(self, columns: Columns, count: int) -> KeyNumbers:
        """The numbers of keys: the same object for the same keys."""
        last = self.last
        if last is not None and last[1] == count and all_same(columns, last[0]):
            return last[2]
        bases, indices = bases_of(columns)
        if indices is None:
            numbers = number_keys(bases, self.types, count)
        else:
            self.inner = self.inner or Numbering(self.types)
            whole = self.inner.of(bases, len(bases[0]))
            numbers = replace(whole, of_row=whole.of_row[indices.to_numpy(zero_copy_only=False)])
        self.last = columns, count, numbers
        return numbers


@dataclass(frozen=True, slots=True)
class SharedNumbers:
    """The keys of several sources: their numbers, row by row, and the distinct keys."""

    numbers: tuple[Indices, ...]
    """For each source."""
    count: int
    used: Indices
    """The numbers that rows have."""
    columns: Columns
    """The keys of these numbers."""


@dataclass(slots=True)
class SharedNumbering:
    """Numbers the keys of several sources, equal keys with the same number."""

    types: tuple[Type, ...]
    numbering: Numbering = field(init=False)
    last: tuple[list[Source], SharedNumbers] | None = None
    whole: tuple[list[Source], KeyNumbers] | None = None
    """The last sources that were numbered as one, and their numbers."""

    def __post_init__(self) -> None:
        self.numbering = Numbering(self.types)

    def of(self, sources: Sequence[Source]) -> SharedNumbers:
        """The numbers of keys: the same object for the same keys."""
        given = list(sources)
        if not given:
            return SharedNumbers((), 0, np.zeros(0, np.int64), ())
        if self.last is not None and _are_same(given, self.last[0]):
            return self.last[1]
        distinct: list[Source] = []
        indices: list[int] = []
        for source in given:
            equal = [n for n, other in enumerate(distinct) if _is_same_source(source, other)]
            indices.append(equal[0] if equal else len(distinct))
            distinct += [] if equal else [source]
        keys, numbers = self._numbers(distinct)
        is_used = np.zeros(len(keys), np.bool_)
        for of_row in numbers:
            is_used[of_row] = True
        used = np.flatnonzero(is_used)
        by_source = tuple(numbers[n] for n in indices)
        shared = SharedNumbers(by_source, len(keys), used, keys.keys(used))
        self.last = given, shared
        return shared

    def _numbers(self, sources: list[Source]) -> tuple[KeyNumbers, list[Indices]]:
        """The numbers of all keys, and those of the rows of each source."""
        if len(sources) == 1:
            keys = self.numbering.of(*sources[0])
            return keys, [keys.of_row]
        split = [bases_of(columns) for columns, _ in sources]
        bases = [
            (columns, count if indices is None else len(columns[0]))
            for (columns, indices), (_, count) in zip(split, sources, strict=True)
        ]
        keys = self._number_as_one(bases)
        parts = np.split(keys.of_row, np.cumsum([count for _, count in bases])[:-1])
        return keys, [
            part if indices is None else part[indices.to_numpy(zero_copy_only=False)]
            for part, (_, indices) in zip(parts, split, strict=True)
        ]

    def _number_as_one(self, sources: list[Source]) -> KeyNumbers:
        """The numbers of the keys of all sources, one after the other."""
        if self.whole is not None and _are_same(sources, self.whole[0]):
            return self.whole[1]
        columns = zip(*[columns for columns, _ in sources], strict=True)
        whole = [pa.concat_arrays(list(column)) for column in columns]
        keys = number_keys(whole, self.types, sum(count for _, count in sources))
        self.whole = sources, keys
        return keys


def _is_same_source(one: Source, other: Source) -> bool:
    return one[1] == other[1] and all_same(one[0], other[0])


def _are_same(some: Sequence[Source], others: Sequence[Source]) -> bool:
    return len(some) == len(others) and all(map(_is_same_source, some, others))
