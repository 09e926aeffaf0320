"""Compaction: sorted contents are merged and written in pieces, never in memory as a whole.

    sum of parts  =  piece 1, piece 2, ...      cut at the same places of the order in all parts

A cut is before a hash, or before an order word within a hash that only one key has.  Tables whose
keys keep a few rows only (`Form.most`) are not cut within a key.  The columns grow in scratch files
without a name, and are written from there.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from incmrql.engine.store.content import BEFORE, SortedRows, concat, consolidated, to_table
from incmrql.engine.store.segments import Segment, SegmentRows, write_run
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import LEAST_BASE, RATIO, Reader, StateTable
from incmrql.io.arrow.columns import flat

MOST: Final = 1 << 20
"""Rows that are added up at a time."""
_LONGEST: Final = (1 << 31) - 1
"""Bytes of text that a column of Arrow's can have."""


# --- pieces --------------------------------------------------------------------------------


def pieces(parts: Sequence[SegmentRows], most: int = MOST) -> Iterator[SortedRows]:
    """What sorted rows add up to, piece by piece; a piece is verified when its turn comes."""
    longest = max(parts, key=len)
    step = max(most * len(longest) // max(sum(map(len, parts)), 1), 1)
    starts = [0] * len(parts)
    for place in [*range(step, len(longest), step), None]:
        stops = [len(part) for part in parts] if place is None else _cuts(parts, longest, place)
        between = [each for each in zip(parts, starts, stops, strict=True) if each[1] < each[2]]
        cut = [part.slice(a, b).content() for part, a, b in between]
        piece = consolidated(concat(cut)) if cut else None
        if piece is not None and len(piece):
            yield piece
        starts = stops


def _cuts(parts: Sequence[SegmentRows], longest: SegmentRows, place: int) -> list[int]:
    """Where all parts are cut, at about a place of the longest one."""
    hashes = longest.hashes_at(np.array([place]))
    spans = [(int(part.search(hashes)[0]), int(part.search(hashes, "right")[0])) for part in parts]
    is_cut_by_key = not longest.has_order or longest.schema.most is not None
    if is_cut_by_key or not _is_one_key(parts, spans):
        return [start for start, _ in spans]
    word = longest.order_at(np.array([place]))[0]
    return [
        part.search_order(start, stop, word)
        for part, (start, stop) in zip(parts, spans, strict=True)
    ]


def _is_one_key(parts: Sequence[SegmentRows], spans: Sequence[tuple[int, int]]) -> bool:
    """Whether rows of the same hash have the same key; within a part they are sorted by it."""
    there = [(part, a, b) for part, (a, b) in zip(parts, spans, strict=True) if a < b]
    first, at, _ = there[0]
    key = first.keys_at(np.array([at]))
    ends = [(part, np.array([place])) for part, a, b in there for place in (a, b - 1)]
    return all(part.same_keys(end, key, np.array([0]))[0] for part, end in ends)


# --- columns that grow on disk ------------------------------------------------------------


def _scratch(folder: Path, dtype: Any, count: int) -> Any:
    """An array of zeros in a file without a name; a full disk is told here, not by a signal."""
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, max(count, 1) * np.dtype(dtype).itemsize)
        return np.memmap(file, dtype, "w+", shape=max(count, 1))


class _Fixed:
    """Values of one width, and which of them are there."""

    def __init__(self, type_: Any, folder: Path, count: int) -> None:
        self.type, self.width, self.some_null = type_, type_.bit_width // 8, False
        self.bytes = _scratch(folder, np.uint8, count * self.width)
        self.there = _scratch(folder, np.bool_, count)

    def add(self, column: Any, start: int) -> None:
        """Put in the values from a place on."""
        stop, width = start + len(column), self.width
        _, data = column.buffers()
        given = np.frombuffer(data, np.uint8)[column.offset * width :][: len(column) * width]
        self.bytes[start * width : stop * width] = given
        self.there[start:stop] = column.is_valid().to_numpy(zero_copy_only=False)
        self.some_null |= column.null_count > 0

    def column(self, count: int) -> Any:
        """The first values."""
        buffers = [_mask(self.there, count, self.some_null), pa.py_buffer(self.bytes)]
        return pa.Array.from_buffers(self.type, count, buffers)


class _Text:
    """Strings or bytes: where each ends, and all of them one after the other."""

    def __init__(self, type_: Any, folder: Path, count: int) -> None:
        self.type, self.folder, self.some_null, self.size = type_, folder, False, 0
        self.ends = _scratch(folder, np.int32, count + 1)
        self.there = _scratch(folder, np.bool_, count)
        self.bytes = _scratch(folder, np.uint8, count)

    def add(self, column: Any, start: int) -> None:
        """Put in the values from a place on."""
        stop = start + len(column)
        _, ends, data = column.buffers()
        given = np.frombuffer(ends, np.int32)[column.offset :][: len(column) + 1]
        size = int(given[-1]) - int(given[0])
        if self.size + size > _LONGEST:
            raise pa.ArrowInvalid(f"more than {_LONGEST} bytes of text in a column of a run")
        self.ends[start + 1 : stop + 1] = given[1:] - given[0] + self.size
        if self.size + size > len(self.bytes):
            larger = _scratch(self.folder, np.uint8, 2 * (self.size + size))
            larger[: self.size] = self.bytes[: self.size]
            self.bytes = larger
        if size:
            text = np.frombuffer(data, np.uint8)[given[0] : given[-1]]
            self.bytes[self.size : self.size + size] = text
        self.size += size
        self.there[start:stop] = column.is_valid().to_numpy(zero_copy_only=False)
        self.some_null |= column.null_count > 0

    def column(self, count: int) -> Any:
        """The first values."""
        mask = _mask(self.there, count, self.some_null)
        buffers = [mask, pa.py_buffer(self.ends), pa.py_buffer(self.bytes)]
        return pa.Array.from_buffers(self.type, count, buffers)


def _mask(there: Any, count: int, some_null: bool) -> Any:
    """The bits of what is there; None where all is."""
    if not some_null:
        return None
    return pa.py_buffer(np.packbits(there[:count], bitorder="little"))


class _Other:
    """Values of any type, in memory."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self.count = 0

    def add(self, column: Any, start: int) -> None:
        """Put in the next values."""
        assert start == self.count, "they come in order"
        self.arrays.append(column)
        self.count += len(column)

    def column(self, count: int) -> Any:
        """The first values."""
        return pa.concat_arrays(self.arrays).slice(0, count)


@dataclass(slots=True)
class Gathered:
    """Pieces of a content one after the other, at most `most` rows in all."""

    schema: TableSchema
    folder: Path
    most: int
    count: int = 0
    weight: int = 0
    """The sum of all weights."""
    columns: dict[str, _Fixed | _Text | _Other] = field(default_factory=dict)

    def add(self, piece: SortedRows) -> None:
        """Put in the next rows."""
        table = to_table(piece)
        given = {name: flat(table.column(name)) for name in table.column_names}
        if self.schema.ordered:
            given[BEFORE] = pc.add(given[BEFORE], self.weight)
            self.weight = given[BEFORE][-1].as_py()
        for name, column in given.items():
            if name not in self.columns:  # an accumulator that was zero so far
                self.columns[name] = self._column(column.type)
            self.columns[name].add(column, self.count)
        self.count += len(piece)

    def _column(self, type_: Any) -> _Fixed | _Text | _Other:
        is_fixed = pa.types.is_primitive(type_) and not pa.types.is_boolean(type_)
        if is_fixed or pa.types.is_decimal128(type_):
            return _Fixed(type_, self.folder, self.most)
        if pa.types.is_string(type_) or pa.types.is_binary(type_):
            return _Text(type_, self.folder, self.most)
        return _Other()

    def table(self) -> Any:
        """All rows as an Arrow table of one piece."""
        return pa.table({name: each.column(self.count) for name, each in self.columns.items()})


# --- Merging beside the batches ---
#
# Runs only ever add up, so that some of them may be merged at any time. While a chore is at work
# its runs are locked: batches leave them alone, and a later manifest has the merged run in their
# place. A chore whose runs are no longer there is forgotten.


INLINE: Final = 1 << 17
"""Old rows that a batch merges itself at the most, for each table and bucket."""

MERGED: Final = "-merged-"
"""Is in the names of files that chores have written."""

Place = tuple[str, int]
"""Where a run lies: its file and offset."""


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Runs of a table, and their buckets, that are merged to one: the base of a bucket or not."""

    table: str
    buckets: tuple[int, ...]
    runs: tuple[Segment, ...]
    base: bool
    attempt: str = ""
    """Epoch and attempt; it is in the names of all files that are written for this merge."""

    @property
    def rows(self) -> int:
        """How many rows are merged."""
        return sum(run.rows for run in self.runs)

    @property
    def places(self) -> frozenset[Place]:
        """Where its runs lie."""
        return frozenset((run.file, run.offset) for run in self.runs)

    def as_json(self) -> dict[str, Any]:
        """The chore as text can hold it."""
        runs = [run.as_json() for run in self.runs]
        return {
            "table": self.table,
            "buckets": self.buckets,
            "runs": runs,
            "base": self.base,
            "attempt": self.attempt,
        }

    @staticmethod
    def of_json(found: Mapping[str, Any]) -> CompactionTask:
        """The chore that a text holds."""
        runs = tuple(map(Segment.of_json, found["runs"]))
        buckets = tuple(found["buckets"])
        return CompactionTask(found["table"], buckets, runs, found["base"], found["attempt"])


def chore_of(tables: Iterable[StateTable], inline: int = INLINE) -> CompactionTask | None:
    """The largest merge that is due and that batches leave alone, if there is one."""
    found = [chore for table in tables for chore in (_base(table, inline), _levels(table, inline))]
    return max((chore for chore in found if chore is not None), key=lambda c: c.rows, default=None)


def _base(table: StateTable, inline: int) -> CompactionTask | None:
    """Levels that have grown to a fraction of the base of their bucket."""
    small, large = rows_by_bucket(table)
    due = (small >= np.maximum(LEAST_BASE, large // RATIO)) & (small + large > inline)
    if not due.any():
        return None
    bucket = int(np.argmax(np.where(due, small / np.maximum(large, 1), 0)))
    runs = tuple(run.only((bucket,)) for run in table.runs if bucket in run.buckets)
    return CompactionTask(table.name, (bucket,), runs, base=True)


def _levels(table: StateTable, inline: int) -> CompactionTask | None:
    """Neighbours among the levels of which the older one is not much larger."""
    for older, newer in zip(table.levels, table.levels[1:], strict=False):
        if older.rows < RATIO * newer.rows and older.rows + newer.rows > inline:
            buckets = tuple(sorted({*older.buckets, *newer.buckets}))
            return CompactionTask(table.name, buckets, (older, newer), base=False)
    return None


def rows_by_bucket(table: StateTable) -> tuple[Any, Any]:
    """The rows that the levels and the bases have in each bucket."""
    small, large = np.zeros(table.buckets, np.int64), np.zeros(table.buckets, np.int64)
    for run in table.levels:
        small[list(run.buckets)] += run.counts
    for run in table.bases:
        large[list(run.buckets)] += run.counts
    return small, large


def merge_runs(chore: CompactionTask, table: StateTable, reader: Reader) -> Segment | None:
    """Write the run that the runs of a chore come to; None if they come to nothing."""
    whole = Gathered(table.schema, reader.folder, chore.rows)
    counts: dict[int, int] = {}
    for bucket in chore.buckets:
        runs = [run for run in chore.runs if bucket in run.buckets]
        mine = [reader.bucket_rows(table, run, bucket) for run in runs]
        before = whole.count
        for piece in pieces(mine) if mine else ():
            whole.add(piece)
        counts[bucket] = whole.count - before
    if not whole.count:
        return None
    newest = max(run.file for run in chore.runs).split("-")[0]
    file = f"{newest}-{chore.attempt}{MERGED}{uuid.uuid4().hex[:8]}.run"
    return write_run(reader.folder, file, whole.table(), counts)


def swapped(table: StateTable, chore: CompactionTask, merged: Segment | None) -> StateTable | None:
    """A table with a merged run in the place of those it was made of; None if one is gone."""
    there = {(run.file, run.offset): run for run in table.runs}
    for run in chore.runs:
        known = there.get((run.file, run.offset))
        if known is None or not set(run.buckets) <= set(known.buckets):
            return None
    gone = {(run.file, run.offset): frozenset(run.buckets) for run in chore.runs}

    def rest(runs: Iterable[Segment]) -> list[Segment]:
        cut = [run.only(frozenset(run.buckets) - gone.get((run.file, run.offset), frozenset()))
               for run in runs]  # fmt: skip
        return [run for run in cut if run.buckets]

    levels, bases = rest(table.levels), rest(table.bases)
    if merged is not None and chore.base:
        bases.append(merged)
    elif merged is not None:
        levels = sorted([*levels, merged], key=lambda run: run.file)
    return replace(table, levels=tuple(levels), bases=tuple(bases))
