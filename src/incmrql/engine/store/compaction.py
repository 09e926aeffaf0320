"""Compaction: segments are merged and written piece by piece, never in memory as a whole.

    sum of parts  =  piece 1, piece 2, ...      all parts are cut at the same points of the order

A cut is before a hash, or before an order word within a hash that only one key has.  Tables whose
keys keep only their first rows (`TableSchema.most`) are not cut within a key.  Columns grow in
unnamed scratch files and are written from there.
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

from incmrql.engine.store.content import BEFORE, SortedRows, concat, consolidate, to_table
from incmrql.engine.store.segments import Segment, SegmentRows, write_segment
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import LEAST_BASE, RATIO, Reader, StateTable
from incmrql.io.arrow.columns import flat

MOST: Final = 1 << 20
"""Rows that are merged at a time."""
_LONGEST: Final = (1 << 31) - 1
"""Maximum bytes of text in an Arrow column with 32-bit offsets."""


# --- pieces --------------------------------------------------------------------------------


def pieces(parts: Sequence[SegmentRows], most: int = MOST) -> Iterator[SortedRows]:
    """The sum of sorted parts, piece by piece; a piece is read and verified when it is needed."""
    # Parts are cut at keys of the longest one, in steps that make a piece of about `most` rows.
    longest = max(parts, key=len)
    step = max(most * len(longest) // max(sum(map(len, parts)), 1), 1)
    starts = [0] * len(parts)
    for position in [*range(step, len(longest), step), None]:
        stops = (
            [len(part) for part in parts] if position is None else _cuts(parts, longest, position)
        )
        between = [
            range_ for range_ in zip(parts, starts, stops, strict=True) if range_[1] < range_[2]
        ]
        cut = [part.slice(a, b).content() for part, a, b in between]
        piece = consolidate(concat(cut)) if cut else None
        if piece is not None and len(piece):
            yield piece
        starts = stops


def _cuts(parts: Sequence[SegmentRows], longest: SegmentRows, position: int) -> list[int]:
    """The positions at which all parts are cut, at or before a position of the longest one."""
    hashes = longest.hashes_at(np.array([position]))
    spans = [(int(part.search(hashes)[0]), int(part.search(hashes, "right")[0])) for part in parts]
    is_cut_by_key = not longest.has_order or longest.schema.most is not None
    if is_cut_by_key or not _is_one_key(parts, spans):
        return [start for start, _ in spans]
    word = longest.order_at(np.array([position]))[0]
    return [
        part.search_order(start, stop, word)
        for part, (start, stop) in zip(parts, spans, strict=True)
    ]


def _is_one_key(parts: Sequence[SegmentRows], spans: Sequence[tuple[int, int]]) -> bool:
    """Whether all rows of a hash have the same key."""
    # Rows of a hash are sorted by key within a part, so comparing the first and last is enough.
    ranges = [(part, a, b) for part, (a, b) in zip(parts, spans, strict=True) if a < b]
    first, at, _ = ranges[0]
    key = first.keys_at(np.array([at]))
    ends = [(part, np.array([position])) for part, a, b in ranges for position in (a, b - 1)]
    return all(part.same_keys(end, key, np.array([0]))[0] for part, end in ends)


# --- columns that grow on disk ------------------------------------------------------------


def _scratch(folder: Path, dtype: Any, count: int) -> Any:
    """An array of zeros in an unnamed file."""
    # Allocating the blocks up front makes a full disk an error here; writing to a sparse mapping
    # would kill the process with a signal instead.
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, max(count, 1) * np.dtype(dtype).itemsize)
        return np.memmap(file, dtype, "w+", shape=max(count, 1))


class _FixedWidthColumn:
    """A growing column of fixed-width values, with a mask of those that are not null."""

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


class _TextColumn:
    """A growing column of strings or bytes: the end of each, and all bytes one after the other."""

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


def _mask(valid: Any, count: int, some_null: bool) -> Any:
    """The validity bitmap of a column; None without nulls."""
    if not some_null:
        return None
    return pa.py_buffer(np.packbits(valid[:count], bitorder="little"))


class _MemoryColumn:
    """A growing column of any type, in memory."""

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
class ScratchTable:
    """A table that grows piece by piece to at most `most` rows."""

    schema: TableSchema
    folder: Path
    most: int
    count: int = 0
    weight: int = 0
    """The sum of all weights."""
    columns: dict[str, _FixedWidthColumn | _TextColumn | _MemoryColumn] = field(
        default_factory=dict
    )

    def add(self, piece: SortedRows) -> None:
        """Append rows."""
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

    def _column(self, type_: Any) -> _FixedWidthColumn | _TextColumn | _MemoryColumn:
        is_fixed = pa.types.is_primitive(type_) and not pa.types.is_boolean(type_)
        if is_fixed or pa.types.is_decimal128(type_):
            return _FixedWidthColumn(type_, self.folder, self.most)
        if pa.types.is_string(type_) or pa.types.is_binary(type_):
            return _TextColumn(type_, self.folder, self.most)
        return _MemoryColumn()

    def table(self) -> Any:
        """All rows as an Arrow table of one chunk."""
        return pa.table(
            {name: builder.column(self.count) for name, builder in self.columns.items()}
        )


# --- Merging beside the batches ---
#
# A table is the sum of its segments, so any of them may be merged at any time. While a task runs,
# its segments are locked: batches do not merge them, and a later manifest has the merged segment
# instead. A task whose segments are gone by then is dropped.


INLINE: Final = 1 << 17
"""Maximum old rows that a batch merges itself, for each table and bucket."""

MERGED: Final = "-merged-"
"""Part of the name of every file that a compaction writes."""

SegmentId = tuple[str, int]
"""The file and offset of a segment, which identify it."""


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Segments of a table to merge, in some buckets, into the base of a bucket or into a level."""

    table: str
    buckets: tuple[int, ...]
    segments: tuple[Segment, ...]
    base: bool
    attempt: str = ""
    """Epoch and attempt, part of the names of all files that this task writes."""

    @property
    def rows(self) -> int:
        """The number of rows to merge."""
        return sum(segment.rows for segment in self.segments)

    @property
    def segment_ids(self) -> frozenset[SegmentId]:
        """The files and offsets of its segments."""
        return frozenset((segment.file, segment.offset) for segment in self.segments)

    def as_json(self) -> dict[str, Any]:
        """The task as JSON data."""
        segments = [segment.as_json() for segment in self.segments]
        return {
            "table": self.table,
            "buckets": self.buckets,
            "runs": segments,
            "base": self.base,
            "attempt": self.attempt,
        }

    @staticmethod
    def of_json(data: Mapping[str, Any]) -> CompactionTask:
        """The inverse of `as_json`."""
        segments = tuple(map(Segment.of_json, data["runs"]))
        buckets = tuple(data["buckets"])
        return CompactionTask(data["table"], buckets, segments, data["base"], data["attempt"])


def next_compaction(tables: Iterable[StateTable], inline: int = INLINE) -> CompactionTask | None:
    """The largest merge that is due and too large for a batch; None if there is none."""
    tasks = [
        task for table in tables for task in (_base_task(table, inline), _level_task(table, inline))
    ]
    return max((task for task in tasks if task is not None), key=lambda c: c.rows, default=None)


def _base_task(table: StateTable, inline: int) -> CompactionTask | None:
    """A merge of a bucket's levels, which have grown to a fraction of its base, into the base."""
    small, large = rows_by_bucket(table)
    due = (small >= np.maximum(LEAST_BASE, large // RATIO)) & (small + large > inline)
    if not due.any():
        return None
    bucket = int(np.argmax(np.where(due, small / np.maximum(large, 1), 0)))
    segments = tuple(
        segment.only((bucket,)) for segment in table.segments if bucket in segment.buckets
    )
    return CompactionTask(table.name, (bucket,), segments, base=True)


def _level_task(table: StateTable, inline: int) -> CompactionTask | None:
    """A merge of two neighbouring levels, of which the older is not much larger."""
    for older, newer in zip(table.levels, table.levels[1:], strict=False):
        if older.rows < RATIO * newer.rows and older.rows + newer.rows > inline:
            buckets = tuple(sorted({*older.buckets, *newer.buckets}))
            return CompactionTask(table.name, buckets, (older, newer), base=False)
    return None


def rows_by_bucket(table: StateTable) -> tuple[Any, Any]:
    """The number of rows in each bucket, of levels and of bases."""
    small, large = np.zeros(table.buckets, np.int64), np.zeros(table.buckets, np.int64)
    for segment in table.levels:
        small[list(segment.buckets)] += segment.counts
    for segment in table.bases:
        large[list(segment.buckets)] += segment.counts
    return small, large


def run_compaction(task: CompactionTask, table: StateTable, reader: Reader) -> Segment | None:
    """Write the merged segment of a task; None if its rows sum to nothing."""
    table_ = ScratchTable(table.schema, reader.folder, task.rows)
    counts: dict[int, int] = {}
    for bucket in task.buckets:
        segments = [segment for segment in task.segments if bucket in segment.buckets]
        parts = [reader.bucket_rows(table, segment, bucket) for segment in segments]
        before = table_.count
        for piece in pieces(parts) if parts else ():
            table_.add(piece)
        counts[bucket] = table_.count - before
    if not table_.count:
        return None
    newest = max(segment.file for segment in task.segments).split("-")[0]
    file = f"{newest}-{task.attempt}{MERGED}{uuid.uuid4().hex[:8]}.run"
    return write_segment(reader.folder, file, table_.table(), counts)


def with_merged_segment(
    table: StateTable, task: CompactionTask, merged: Segment | None
) -> StateTable | None:
    """The table with the merged segment instead of the task's segments; None if one is gone."""
    segments = {(segment.file, segment.offset): segment for segment in table.segments}
    for segment in task.segments:
        current = segments.get((segment.file, segment.offset))
        if current is None or not set(segment.buckets) <= set(current.buckets):
            return None
    merged_buckets = {
        (segment.file, segment.offset): frozenset(segment.buckets) for segment in task.segments
    }

    def rest(segments: Iterable[Segment]) -> list[Segment]:
        cut = [
            segment.only(
                frozenset(segment.buckets)
                - merged_buckets.get((segment.file, segment.offset), frozenset())
            )
            for segment in segments
        ]
        return [segment for segment in cut if segment.buckets]

    levels, bases = rest(table.levels), rest(table.bases)
    if merged is not None and task.base:
        bases.append(merged)
    elif merged is not None:
        levels = sorted([*levels, merged], key=lambda segment: segment.file)
    return replace(table, levels=tuple(levels), bases=tuple(bases))
