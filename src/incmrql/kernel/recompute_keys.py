"""Keys as numbers: equal keys have the same one.  No order is needed, so nothing is sorted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from incmrql.kernel.encoding import binary, float_words, piece_of
from incmrql.kernel.keys import Places
from incmrql.kernel.recompute_columns import all_same, apart, plain
from incmrql.types.model import BOOL, DATE, STRING, TIMESTAMP, Type, is_float, is_integer

Columns: TypeAlias = tuple[Any, ...]
Source: TypeAlias = tuple[Columns, int]
"""The columns of keys, and how many there are."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """The number of the key of each row, and by which steps keys come to their numbers."""

    types: tuple[Type, ...]
    of_row: Places
    count: int
    """Numbers are below; there may be some that no row has."""
    values: tuple[Any, ...]
    """The different values of each column."""
    pairs: tuple[Any, ...]
    """The different pairs of what the columns before come to and the value of a further one."""
    source: tuple[Columns, Places]
    """The columns from which the numbers come, and the number of each of their rows."""

    def __len__(self) -> int:
        return self.count

    def keys(self, wanted: Places) -> Columns:
        """The keys of some numbers that rows have."""
        columns, of_row = self.source
        places = np.zeros(self.count, np.int64)
        places[of_row[::-1]] = np.arange(len(of_row) - 1, -1, -1)
        index = pa.array(places[wanted])
        return tuple(column.take(index) for column in columns)


def numbered(columns: Sequence[Any], types: Sequence[Type], count: int) -> Numbered:
    """Numbers for keys, in the order in which they come first."""
    if not columns:
        nothing = np.zeros(count, np.int64)
        return Numbered((), nothing, min(count, 1), (), (), ((), nothing))
    columns = tuple(map(plain, columns))
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


def look_up(known: Numbered, columns: Columns, count: int) -> Places:
    """The numbers of other keys, -1 where there is none."""
    if not columns:
        return np.full(count, 0 if known.count else -1)
    found: Places | None = None
    for place, (column, type_) in enumerate(zip(columns, known.types, strict=True)):
        here = _index(_words(plain(column), type_), known.values[place])
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


def _numbers(column: Any) -> Places:
    found: Places = column.indices.to_numpy().astype(np.int64)
    return found


def _index(column: Any, values: Any) -> Places:
    found = pc.index_in(column, value_set=values).fill_null(-1)
    places: Places = found.to_numpy(zero_copy_only=False).astype(np.int64)
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
        bases, places = apart(columns)
        if places is None:
            found = numbered(bases, self.types, count)
        else:
            self.inner = self.inner or Numbering(self.types)
            whole = self.inner.of(bases, len(bases[0]))
            found = replace(whole, of_row=whole.of_row[places.to_numpy(zero_copy_only=False)])
        self.last = columns, count, found
        return found


@dataclass(frozen=True, slots=True)
class Known:
    """Keys of several sources: their numbers, row by row, and the keys that there are."""

    numbers: tuple[Places, ...]
    """For each source."""
    count: int
    used: Places
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

    def _numbers(self, sources: list[Source]) -> tuple[Numbered, list[Places]]:
        if len(sources) == 1:
            found = self.numbering.of(*sources[0])
            return found, [found.of_row]
        split = [apart(columns) for columns, _ in sources]
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
        found = numbered(whole, self.types, sum(count for _, count in sources))
        self.whole = sources, found
        return found


def _is_again(one: Source, other: Source) -> bool:
    return one[1] == other[1] and all_same(one[0], other[0])


def _are_same(some: Sequence[Source], others: Sequence[Source]) -> bool:
    return len(some) == len(others) and all(map(_is_again, some, others))
