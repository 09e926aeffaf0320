"""State files: written once, mapped into memory, and verified wherever they are read.

A corrupt byte must not change an answer.  The columns of an open segment are therefore not
read directly: all access goes through `SegmentRows`, which verifies the checksums of the blocks
that hold the rows being read.  A binary search runs unverified; its result is proven afterwards:

    p is the position of x   <=>   row p - 1 sorts before x, and row p does not

which holds because rows are sorted when they are written.  Only the blocks of these two rows are
verified.  If a corrupt byte leads a step of the search astray, the proof fails.

Changes that are still in memory can be read like a segment, and have nothing to verify.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.engine.columns.accumulators import Parts
from incmrql.engine.columns.keys import Keys, Mask, Places, same_keys
from incmrql.engine.store.blocks import (
    Blocks,
    ChecksummedFile,
    Region,
    Trailer,
    block_checksums,
    body_of,
    damaged,
    regions_of,
)
from incmrql.engine.store.content import BEFORE, HASH, ORDER, SortedRows, from_table, to_table
from incmrql.engine.store.sorting import TableSchema
from incmrql.errors import CheckpointError, InternalError
from incmrql.io.arrow.columns import WEIGHT, flat, names
from incmrql.storage import fsync
from incmrql.storage.files import read_error
from incmrql.values.exact.sums import Integers
from incmrql.values.hashing.columns import Hashes

MANY: Final = 4096
"""More rows than this are verified by granules rather than one by one."""
_GRANULE_SHIFT: Final = 8
"""Rows of a granule, as a power of two: a few pages of most columns."""

_Number = TypeVar("_Number", np.uint64, np.int64)
Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Guard:
    """The blocks of an open run, and where its columns lie in them."""

    blocks: Blocks
    regions: dict[str, tuple[Region, ...]]
    """By the names of columns in the file."""
    rows: int

    def verify(self, names: Iterable[str], positions: Places) -> None:
        """Verify the rows of columns at some places."""
        if not self.blocks.left or not len(positions):
            return
        if len(positions) > MANY:
            touched = np.zeros((self.rows >> _GRANULE_SHIFT) + 1, np.bool_)
            touched[positions >> _GRANULE_SHIFT] = True
            starts = np.flatnonzero(touched) << _GRANULE_SHIFT
            stops = np.minimum(starts + (1 << _GRANULE_SHIFT), self.rows)
        else:
            starts, stops = positions, positions + 1
        self._verify(names, starts, stops)

    def verify_range(self, names: Iterable[str], start: int, stop: int) -> None:
        """Verify the rows of columns from one place to another."""
        if self.blocks.left:
            self._verify(names, np.array([start]), np.array([stop]))

    def _verify(self, names: Iterable[str], starts: Places, stops: Places) -> None:
        for name in names:
            for region in self.regions[name]:
                region.verify(self.blocks, starts, stops)


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """The rows of a run from one place to another."""

    _content: SortedRows
    _guard: Guard | None
    _first: int
    _last: int

    @staticmethod
    def of(content: SortedRows, guard: Guard | None = None) -> SegmentRows:
        """All rows of a content; without a guard they are in memory."""
        return SegmentRows(content, guard, 0, len(content))

    def __len__(self) -> int:
        return self._last - self._first

    @property
    def schema(self) -> TableSchema:
        """The form of the table."""
        return self._content.schema

    @property
    def has_order(self) -> bool:
        """Whether rows have an order word."""
        return self._content.order is not None

    def slice(self, start: int, stop: int) -> SegmentRows:
        """The rows from one place to another; nothing is read."""
        return replace(self, _first=self._first + start, _last=self._first + stop)

    # --- contents ----------------------------------------------------------------------------

    def content(self) -> SortedRows:
        """All these rows."""
        if self._guard is not None:
            self._guard.verify_range(self._guard.regions, self._first, self._last)
        if len(self) == len(self._content):
            return self._content
        return self._content.slice(self._first, self._last)

    def take(self, positions: Places) -> SortedRows:
        """The rows at some places."""
        at = self._at(positions)
        if self._guard is not None:
            self._guard.verify((name for name in self._guard.regions if name != BEFORE), at)
        return self._content.take(at)

    # --- columns -----------------------------------------------------------------------------

    def hashes_at(self, positions: Places) -> Hashes:
        """The hashes of the rows at some places."""
        return self._numbers(HASH, self._content.hashes, positions)

    def order_at(self, positions: Places) -> Hashes:
        """The order words of the rows at some places."""
        assert self._content.order is not None
        return self._numbers(ORDER, self._content.order, positions)

    def weights_at(self, positions: Places) -> Integers:
        """The weights of the rows at some places."""
        return self._numbers(WEIGHT, self._content.weights, positions)

    def before_at(self, positions: Places) -> Integers:
        """The sums of the weights up to the rows at some places, these included."""
        assert self._content.before is not None
        return self._numbers(BEFORE, self._content.before, positions)

    def parts_at(self, positions: Places) -> Parts:
        """The accumulators of the rows at some places."""
        parts = self._content.parts.items()
        return {name: self._numbers(name, column, positions) for name, column in parts}

    def keys_at(self, positions: Places) -> Keys:
        """The keys of the rows at some places."""
        keys, at = self._content.keys, self._at(positions)
        self._verify(names("k", len(keys.columns)), at)
        return keys.take(at)

    def rest_at(self, positions: Places) -> Keys:
        """The further columns of the rows at some places."""
        rest, at = self._content.rest, self._at(positions)
        self._verify(names("r", len(rest.columns)), at)
        return rest.take(at)

    def same_keys(self, positions: Places, keys: Keys, other: Places) -> Mask:
        """Which rows at some places have the keys at places of others, pair by pair."""
        mine, at = self._content.keys, self._at(positions)
        self._verify(names("k", len(mine.columns)), at)
        return same_keys(mine, at, keys, other)

    def same_rest(self, positions: Places, rest: Keys, other: Places) -> Mask:
        """Which rows at some places have the further columns of others, pair by pair."""
        mine, at = self._content.rest, self._at(positions)
        self._verify(names("r", len(mine.columns)), at)
        return same_keys(mine, at, rest, other)

    def _numbers(
        self, name: str, column: npt.NDArray[_Number], positions: Places
    ) -> npt.NDArray[_Number]:
        at = self._at(positions)
        self._verify((name,), at)
        return column[at]

    def _at(self, positions: Places) -> Places:
        return positions + self._first if self._first else positions

    def _verify(self, columns: Iterable[str], at: Places) -> None:
        if self._guard is not None:
            self._guard.verify(columns, at)

    # --- searches ----------------------------------------------------------------------------

    def keys_between(self, sought: Hashes) -> tuple[Places, Places]:
        """From where to where each hash is found.  A key mostly has one row or many."""
        starts = self.search(sought)
        stops = starts.copy()
        inside = np.flatnonzero(starts < len(self))
        there = inside[self.hashes_at(starts[inside]) == sought[inside]]
        stops[there] += 1
        more = there[stops[there] < len(self)]
        more = more[self.hashes_at(stops[more]) == sought[more]]
        stops[more] = self.search(sought[more], "right")
        return starts, stops

    def search(self, sought: Hashes, side: Side = "left") -> Places:
        """The first row whose hash is not less, or is greater, than each of the hashes."""
        return self._search(HASH, self._content.hashes, (0, len(self)), sought, side)

    def search_order(self, start: int, stop: int, word: np.uint64) -> int:
        """The first row of a stretch whose order word is not less; all of it has one key."""
        assert self._content.order is not None
        sought = np.array([word])
        return int(self._search(ORDER, self._content.order, (start, stop), sought, "left")[0])

    def cuts(self, least: Hashes) -> Places:
        """Where the rows are cut before each of some hashes, with their start and their end."""
        return np.concatenate([[0], self.search(least), [len(self)]]).astype(np.int64)

    def _search(
        self, name: str, column: Hashes, within: tuple[int, int], sought: Hashes, side: Side
    ) -> Places:
        start, stop = within
        words = column[self._first + start : self._first + stop]
        places = np.searchsorted(words, sought, side)
        guard = self._guard
        if guard is None or not guard.blocks.left:
            return places + start
        if not self._is_proven(name, words, (start, places), sought, side):
            # Some block that the search has read is corrupt: this finds it.
            guard.verify_range((name,), self._first + start, self._first + stop)
            places = np.searchsorted(words, sought, side)
            if not self._is_proven(name, words, (start, places), sought, side):
                raise InternalError(f"a run in {guard.blocks.path} is not sorted by {name}")
        return places + start

    def _is_proven(
        self, name: str, words: Hashes, result: tuple[int, Places], sought: Hashes, side: Side
    ) -> bool:
        """Whether the rows on both sides of places show that a search has found them."""
        start, places = result
        later, earlier = np.flatnonzero(places < len(words)), np.flatnonzero(places > 0)
        here, before = places[later], places[earlier] - 1
        self._verify((name,), self._at(np.concatenate([here, before]) + start))
        if side == "left":
            right = (words[before] < sought[earlier]).all() and (words[here] >= sought[later]).all()
        else:
            right = (words[before] <= sought[earlier]).all() and (words[here] > sought[later]).all()
        return bool(right)


# --- Files ---
#
# Immutable sorted rows, several segments to a file, read through memory maps.
#
# A file is a sequence of sections, each starting at a multiple of 64 bytes: an Arrow IPC file and
# the checksums of its blocks (`engine.store.blocks`). It is on disk when `write_runs` returns,
# under a name that is never used again. A `Segment` says where its section lies, how many rows it
# has, the checksum of its checksums, and which of its buckets are live: those that were merged into
# a newer segment no longer are.


_ALIGNED: Final = 64


@dataclass(frozen=True, slots=True)
class Segment:
    """Sorted rows in a file of a state table, and which of their buckets are live."""

    file: str
    offset: int
    size: int
    """Bytes of its section."""
    checksum: int
    """Of the trailer of its section, which has the checksums of everything else."""
    buckets: tuple[int, ...]
    counts: tuple[int, ...]
    """Rows of each of these buckets."""

    @property
    def rows(self) -> int:
        """Rows that count."""
        return sum(self.counts)

    def only(self, buckets: Container[int]) -> Segment:
        """The run with fewer buckets that count."""
        pairs = [(b, n) for b, n in zip(self.buckets, self.counts, strict=True) if b in buckets]
        return replace(self, buckets=tuple(b for b, _ in pairs), counts=tuple(n for _, n in pairs))

    def joined(self, other: Segment) -> Segment:
        """The run with the buckets of both, which share none."""
        counts = dict(zip(self.buckets, self.counts, strict=True))
        counts.update(zip(other.buckets, other.counts, strict=True))
        buckets = tuple(sorted(counts))
        return replace(self, buckets=buckets, counts=tuple(counts[b] for b in buckets))

    def as_json(self) -> dict[str, Any]:
        """The fields for a manifest."""
        return asdict(self)

    @staticmethod
    def of_json(found: dict[str, Any]) -> Segment:
        """The run that a manifest describes."""
        buckets, counts = tuple(found["buckets"]), tuple(found["counts"])
        return Segment(**{**found, "buckets": buckets, "counts": counts})


def write_runs(
    folder: Path, file: str, contents: Sequence[tuple[SortedRows, Mapping[int, int]]]
) -> list[Segment]:
    """Write contents, with the rows of their buckets, to one new file that is then on disk."""
    runs: list[Segment] = []
    path = folder / file
    with path.open("xb") as stream:
        for content, counts in contents:
            offset = stream.tell()
            data = _packed(content)
            checksums = np.array(block_checksums(data), np.uint32)
            trailer = Trailer(checksums, len(data), body_of(_table_in(data), data)).packed()
            stream.write(data)
            stream.write(trailer)
            size = len(data) + len(trailer)
            stream.write(b"\0" * (-size % _ALIGNED))
            where = tuple(counts), tuple(counts.values())
            runs.append(Segment(file, offset, size, zlib.crc32(trailer), *where))
        stream.flush()
        os.fsync(stream.fileno())
    fsync(folder)
    return runs


def write_run(folder: Path, file: str, table: Any, counts: Mapping[int, int]) -> Segment:
    """Write a content that is an Arrow table of one piece, without holding it in memory."""
    path = folder / file
    with path.open("xb") as stream:
        try:
            written = ChecksummedFile(stream)
            with pa.PythonFile(written, "w") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            stream.flush()
            data = _mapped(path)
            body = body_of(_table_in(data), data)
            checksums = np.array(written.checksums(), np.uint32)
            trailer = Trailer(checksums, data.size, body).packed()
            stream.write(trailer)
            stream.flush()
            os.fsync(stream.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise
    fsync(folder)
    where = tuple(counts), tuple(counts.values())
    return Segment(file, 0, data.size + len(trailer), zlib.crc32(trailer), *where)


def _packed(content: SortedRows) -> Any:
    table = to_table(content)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


def _table_in(data: Any) -> Any:
    """The Arrow table that a buffer holds; no column is read."""
    with pa.ipc.open_file(pa.BufferReader(data)) as reader:
        return reader.read_all()


class Opened:
    """Open maps of run files, and which of their blocks were verified."""

    def __init__(self) -> None:
        self._files: dict[Path, Any] = {}
        self._rows: dict[tuple[Path, int], tuple[SegmentRows, Blocks]] = {}

    def rows(self, folder: Path, run: Segment, schema: TableSchema) -> SegmentRows:
        """The rows of a run, as they lie on disk; they are verified when they are read."""
        place = folder / run.file, run.offset
        if place not in self._rows:
            self._rows[place] = self._open(place[0], run, schema)
        return self._rows[place][0]

    def blocks(self) -> tuple[int, int]:
        """How many blocks of the open runs were verified, and how many there are."""
        all_ = [blocks for _, blocks in self._rows.values()]
        return sum(b.verified for b in all_), sum(b.verified + b.left for b in all_)

    def keep(self, folder: Path, runs: Iterable[Segment]) -> None:
        """Close all files of a folder but those of these runs."""
        wanted = {folder / run.file for run in runs}
        for path in [path for path in self._files if path.parent == folder and path not in wanted]:
            del self._files[path]
            for place in [place for place in self._rows if place[0] == path]:
                del self._rows[place]

    def _open(self, path: Path, run: Segment, schema: TableSchema) -> tuple[SegmentRows, Blocks]:
        if path not in self._files:
            self._files[path] = _mapped(path)
        try:
            return _opened(path, self._files[path], run, schema)
        except CheckpointError:
            del self._files[path]  # a restored file is mapped anew
            raise


def _opened(path: Path, file: Any, run: Segment, schema: TableSchema) -> tuple[SegmentRows, Blocks]:
    if file.size < run.offset + run.size:
        raise damaged(path, "it has fewer bytes")
    section = file.slice(run.offset, run.size)
    trailer = Trailer.of_section(section, run.checksum)
    if trailer is None:
        raise damaged(path, "the checksums in it are others")
    data = section.slice(0, trailer.size)
    blocks = Blocks(path, data, trailer)
    start, stop = trailer.body
    blocks.verify_bytes(0, start)
    blocks.verify_bytes(stop, trailer.size)
    table = _table_in(data)
    if any(column.num_chunks != 1 for column in table.columns):
        blocks.verify_bytes(0, trailer.size)  # the chunks are copied into one
        table = table.combine_chunks()
    regions = {name: regions_of(flat(table.column(name)), data) for name in table.column_names}
    guard = Guard(blocks, regions, table.num_rows)
    return SegmentRows.of(from_table(table, schema), guard), blocks


def _mapped(path: Path) -> Any:
    try:
        with pa.memory_map(str(path)) as mapped:
            return mapped.read_buffer()
    except OSError as cause:
        raise read_error(path, cause) from cause


def check(folder: Path, run: Segment) -> None:
    """Read all of a run and compare its checksums."""
    path = folder / run.file
    try:
        with path.open("rb") as stream:
            stream.seek(run.offset)
            section = stream.read(run.size)
    except OSError as cause:
        raise read_error(path, cause) from cause
    if len(section) != run.size:
        raise damaged(path, "it has fewer bytes")
    trailer = Trailer.of_section(section, run.checksum)
    if trailer is None:
        raise damaged(path, "the checksums in it are others")
    data = memoryview(section)[: trailer.size]
    Blocks(path, data, trailer).verify_bytes(0, trailer.size)


def bounds(count: int) -> Any:
    """The least hash of each of `count` buckets but the first."""
    return np.array([-(-(b << 32) // count) << 32 for b in range(1, count)], np.uint64)
