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
from incmrql.engine.columns.keys import Indices, Keys, Mask, same_keys
from incmrql.engine.store.blocks import (
    Blocks,
    ChecksummedFile,
    Region,
    Trailer,
    block_checksums,
    body_of,
    damage_of,
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
"""More rows than this are verified by granules instead of one by one."""
_GRANULE_SHIFT: Final = 8
"""Rows of a granule, as a power of two: a few pages of most columns."""

_Number = TypeVar("_Number", np.uint64, np.int64)
Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Guard:
    """The blocks of an open segment, and where its columns are in them."""

    blocks: Blocks
    regions: dict[str, tuple[Region, ...]]
    """By the names of columns in the file."""
    rows: int

    def verify(self, names: Iterable[str], positions: Indices) -> None:
        """Verify the values of columns at these row positions."""
        if not self.blocks.left or not len(positions):
            return
        if len(positions) > MANY:
            granules = np.zeros((self.rows >> _GRANULE_SHIFT) + 1, np.bool_)
            granules[positions >> _GRANULE_SHIFT] = True
            starts = np.flatnonzero(granules) << _GRANULE_SHIFT
            stops = np.minimum(starts + (1 << _GRANULE_SHIFT), self.rows)
        else:
            starts, stops = positions, positions + 1
        self._verify(names, starts, stops)

    def verify_range(self, names: Iterable[str], start: int, stop: int) -> None:
        """Verify the values of columns in a range of rows."""
        if self.blocks.left:
            self._verify(names, np.array([start]), np.array([stop]))

    def _verify(self, names: Iterable[str], starts: Indices, stops: Indices) -> None:
        for name in names:
            for region in self.regions[name]:
                region.verify(self.blocks, starts, stops)


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """A range of the rows of a segment, verified as they are read."""

    _content: SortedRows
    _guard: Guard | None
    _first: int
    _last: int

    @staticmethod
    def of(content: SortedRows, guard: Guard | None = None) -> SegmentRows:
        """All of some sorted rows; without a guard they are in memory."""
        return SegmentRows(content, guard, 0, len(content))

    def __len__(self) -> int:
        return self._last - self._first

    @property
    def schema(self) -> TableSchema:
        """The schema of the table."""
        return self._content.schema

    @property
    def has_order(self) -> bool:
        """Whether rows have an order word."""
        return self._content.order is not None

    def slice(self, start: int, stop: int) -> SegmentRows:
        """The rows from `start` to `stop`; nothing is read."""
        return replace(self, _first=self._first + start, _last=self._first + stop)

    # --- contents ----------------------------------------------------------------------------

    def content(self) -> SortedRows:
        """All these rows, verified."""
        if self._guard is not None:
            self._guard.verify_range(self._guard.regions, self._first, self._last)
        if len(self) == len(self._content):
            return self._content
        return self._content.slice(self._first, self._last)

    def take(self, positions: Indices) -> SortedRows:
        """The rows at these positions."""
        at = self._at(positions)
        if self._guard is not None:
            self._guard.verify((name for name in self._guard.regions if name != BEFORE), at)
        return self._content.take(at)

    # --- columns -----------------------------------------------------------------------------

    def hashes_at(self, positions: Indices) -> Hashes:
        """The hashes of the rows at these positions."""
        return self._numbers(HASH, self._content.hashes, positions)

    def order_at(self, positions: Indices) -> Hashes:
        """The order words of the rows at these positions."""
        assert self._content.order is not None
        return self._numbers(ORDER, self._content.order, positions)

    def weights_at(self, positions: Indices) -> Integers:
        """The weights of the rows at these positions."""
        return self._numbers(WEIGHT, self._content.weights, positions)

    def before_at(self, positions: Indices) -> Integers:
        """The running sums of the weights at these positions, each row included."""
        assert self._content.before is not None
        return self._numbers(BEFORE, self._content.before, positions)

    def parts_at(self, positions: Indices) -> Parts:
        """The accumulators of the rows at these positions."""
        parts = self._content.parts.items()
        return {name: self._numbers(name, column, positions) for name, column in parts}

    def keys_at(self, positions: Indices) -> Keys:
        """The keys of the rows at these positions."""
        keys, at = self._content.keys, self._at(positions)
        self._verify(names("k", len(keys.columns)), at)
        return keys.take(at)

    def rest_at(self, positions: Indices) -> Keys:
        """The columns beside the key of the rows at these positions."""
        rest, at = self._content.rest, self._at(positions)
        self._verify(names("r", len(rest.columns)), at)
        return rest.take(at)

    def same_keys(self, positions: Indices, keys: Keys, other: Indices) -> Mask:
        """Which rows at these positions have the given keys, pair by pair."""
        mine, at = self._content.keys, self._at(positions)
        self._verify(names("k", len(mine.columns)), at)
        return same_keys(mine, at, keys, other)

    def same_rest(self, positions: Indices, rest: Keys, other: Indices) -> Mask:
        """Which rows at these positions have the given other columns, pair by pair."""
        mine, at = self._content.rest, self._at(positions)
        self._verify(names("r", len(mine.columns)), at)
        return same_keys(mine, at, rest, other)

    def _numbers(
        self, name: str, column: npt.NDArray[_Number], positions: Indices
    ) -> npt.NDArray[_Number]:
        at = self._at(positions)
        self._verify((name,), at)
        return column[at]

    def _at(self, positions: Indices) -> Indices:
        return positions + self._first if self._first else positions

    def _verify(self, columns: Iterable[str], at: Indices) -> None:
        if self._guard is not None:
            self._guard.verify(columns, at)

    # --- searches ----------------------------------------------------------------------------

    def keys_between(self, sought: Hashes) -> tuple[Indices, Indices]:
        """The range of rows of each hash."""
        # Most keys have one row, or many. So the second row is compared before a second search.
        starts = self.search(sought)
        stops = starts.copy()
        inside = np.flatnonzero(starts < len(self))
        hits = inside[self.hashes_at(starts[inside]) == sought[inside]]
        stops[hits] += 1
        more = hits[stops[hits] < len(self)]
        more = more[self.hashes_at(stops[more]) == sought[more]]
        stops[more] = self.search(sought[more], "right")
        return starts, stops

    def search(self, sought: Hashes, side: Side = "left") -> Indices:
        """The first row whose hash is not less ("left") or greater ("right"), for each hash."""
        return self._search(HASH, self._content.hashes, (0, len(self)), sought, side)

    def search_order(self, start: int, stop: int, word: np.uint64) -> int:
        """The first row of a range whose order word is not less; all rows of it share one key."""
        assert self._content.order is not None
        sought = np.array([word])
        return int(self._search(ORDER, self._content.order, (start, stop), sought, "left")[0])

    def cuts(self, least: Hashes) -> Indices:
        """The positions of the first row at or after each hash, between 0 and the end."""
        return np.concatenate([[0], self.search(least), [len(self)]]).astype(np.int64)

    def _search(
        self, name: str, column: Hashes, within: tuple[int, int], sought: Hashes, side: Side
    ) -> Indices:
        start, stop = within
        words = column[self._first + start : self._first + stop]
        places = np.searchsorted(words, sought, side)
        guard = self._guard
        if guard is None or not guard.blocks.left:
            return places + start
        if not self._is_proven(name, words, (start, places), sought, side):
            # The search has read a corrupt block: verifying the whole column finds it.
            guard.verify_range((name,), self._first + start, self._first + stop)
            places = np.searchsorted(words, sought, side)
            if not self._is_proven(name, words, (start, places), sought, side):
                raise InternalError(f"a segment in {guard.blocks.path} is not sorted by {name}")
        return places + start

    def _is_proven(
        self, name: str, words: Hashes, result: tuple[int, Indices], sought: Hashes, side: Side
    ) -> bool:
        """Whether the rows on both sides of each result prove that the search is correct."""
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
# the checksums of its blocks (`engine.store.blocks`). It is durable when `write_segments` returns,
# under a name that is never used again. A `Segment` has the position of its section, its number of
# rows, the checksum of its checksums, and the list of its live buckets: a bucket that was merged
# into a newer segment is no longer live.


_ALIGNED: Final = 64


@dataclass(frozen=True, slots=True)
class Segment:
    """Sorted rows in a file of a state table, and which of their buckets are live."""

    file: str
    offset: int
    size: int
    """Bytes of its section."""
    checksum: int
    """The checksum of its section's trailer, which has the checksums of everything else."""
    buckets: tuple[int, ...]
    counts: tuple[int, ...]
    """The number of rows of each of these buckets."""

    @property
    def rows(self) -> int:
        """The number of live rows."""
        return sum(self.counts)

    def only(self, buckets: Container[int]) -> Segment:
        """The segment with only these buckets live."""
        pairs = [(b, n) for b, n in zip(self.buckets, self.counts, strict=True) if b in buckets]
        return replace(self, buckets=tuple(b for b, _ in pairs), counts=tuple(n for _, n in pairs))

    def union(self, other: Segment) -> Segment:
        """The segment with the live buckets of both, which share none."""
        counts = dict(zip(self.buckets, self.counts, strict=True))
        counts.update(zip(other.buckets, other.counts, strict=True))
        buckets = tuple(sorted(counts))
        return replace(self, buckets=buckets, counts=tuple(counts[b] for b in buckets))

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON data, for a manifest."""
        return asdict(self)

    @staticmethod
    def of_json(data: dict[str, Any]) -> Segment:
        """The segment that a manifest describes."""
        buckets, counts = tuple(data["buckets"]), tuple(data["counts"])
        return Segment(**{**data, "buckets": buckets, "counts": counts})


def write_segments(
    folder: Path, file: str, contents: Sequence[tuple[SortedRows, Mapping[int, int]]]
) -> list[Segment]:
    """Write sorted rows, with their number by bucket, to one new file, which is then durable."""
    segments: list[Segment] = []
    path = folder / file
    with path.open("xb") as stream:
        for content, counts in contents:
            offset = stream.tell()
            data = _serialize(content)
            checksums = np.array(block_checksums(data), np.uint32)
            trailer = Trailer(checksums, len(data), body_of(_read_table(data), data)).to_bytes()
            stream.write(data)
            stream.write(trailer)
            size = len(data) + len(trailer)
            stream.write(b"\0" * (-size % _ALIGNED))
            where = tuple(counts), tuple(counts.values())
            segments.append(Segment(file, offset, size, zlib.crc32(trailer), *where))
        stream.flush()
        os.fsync(stream.fileno())
    fsync(folder)
    return segments


def write_segment(folder: Path, file: str, table: Any, counts: Mapping[int, int]) -> Segment:
    """Write an Arrow table of one chunk to a new file, without a copy in memory."""
    path = folder / file
    with path.open("xb") as stream:
        try:
            checked = ChecksummedFile(stream)
            with pa.PythonFile(checked, "w") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            stream.flush()
            data = _map_file(path)
            body = body_of(_read_table(data), data)
            checksums = np.array(checked.checksums(), np.uint32)
            trailer = Trailer(checksums, data.size, body).to_bytes()
            stream.write(trailer)
            stream.flush()
            os.fsync(stream.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise
    fsync(folder)
    where = tuple(counts), tuple(counts.values())
    return Segment(file, 0, data.size + len(trailer), zlib.crc32(trailer), *where)


def _serialize(content: SortedRows) -> Any:
    table = to_table(content)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


def _read_table(data: Any) -> Any:
    """The Arrow table in a buffer; no column is read."""
    with pa.ipc.open_file(pa.BufferReader(data)) as reader:
        return reader.read_all()


class OpenSegments:
    """State files that are mapped into memory, and the blocks of them that are verified."""

    def __init__(self) -> None:
        self._files: dict[Path, Any] = {}
        self._rows: dict[tuple[Path, int], tuple[SegmentRows, Blocks]] = {}

    def rows(self, folder: Path, segment: Segment, schema: TableSchema) -> SegmentRows:
        """The rows of a segment, which are verified when they are read."""
        location = folder / segment.file, segment.offset
        if location not in self._rows:
            self._rows[location] = self._open(location[0], segment, schema)
        return self._rows[location][0]

    def blocks(self) -> tuple[int, int]:
        """The number of verified blocks of the open segments, and of all their blocks."""
        all_ = [blocks for _, blocks in self._rows.values()]
        return sum(b.verified_count for b in all_), sum(b.verified_count + b.left for b in all_)

    def keep(self, folder: Path, segments: Iterable[Segment]) -> None:
        """Close all files of a directory except those of these segments."""
        used = {folder / segment.file for segment in segments}
        for path in [path for path in self._files if path.parent == folder and path not in used]:
            del self._files[path]
            for location in [location for location in self._rows if location[0] == path]:
                del self._rows[location]

    def _open(
        self, path: Path, segment: Segment, schema: TableSchema
    ) -> tuple[SegmentRows, Blocks]:
        if path not in self._files:
            self._files[path] = _map_file(path)
        try:
            return _open_segment(path, self._files[path], segment, schema)
        except CheckpointError:
            del self._files[path]  # so that a file that was restored is mapped again
            raise


def _open_segment(
    path: Path, file: Any, segment: Segment, schema: TableSchema
) -> tuple[SegmentRows, Blocks]:
    if file.size < segment.offset + segment.size:
        raise damage_of(path, "it has fewer bytes")
    section = file.slice(segment.offset, segment.size)
    trailer = Trailer.of_section(section, segment.checksum)
    if trailer is None:
        raise damage_of(path, "the checksums in it are others")
    data = section.slice(0, trailer.size)
    blocks = Blocks(path, data, trailer)
    start, stop = trailer.body
    blocks.verify_bytes(0, start)
    blocks.verify_bytes(stop, trailer.size)
    table = _read_table(data)
    if any(column.num_chunks != 1 for column in table.columns):
        blocks.verify_bytes(0, trailer.size)  # combining the chunks reads all of them
        table = table.combine_chunks()
    regions = {name: regions_of(flat(table.column(name)), data) for name in table.column_names}
    guard = Guard(blocks, regions, table.num_rows)
    return SegmentRows.of(from_table(table, schema), guard), blocks


def _map_file(path: Path) -> Any:
    try:
        with pa.memory_map(str(path)) as mapped:
            return mapped.read_buffer()
    except OSError as cause:
        raise read_error(path, cause) from cause


def verify_segment(folder: Path, segment: Segment) -> None:
    """Read a whole segment and verify its checksums."""
    path = folder / segment.file
    try:
        with path.open("rb") as stream:
            stream.seek(segment.offset)
            section = stream.read(segment.size)
    except OSError as cause:
        raise read_error(path, cause) from cause
    if len(section) != segment.size:
        raise damage_of(path, "it has fewer bytes")
    trailer = Trailer.of_section(section, segment.checksum)
    if trailer is None:
        raise damage_of(path, "the checksums in it are others")
    data = memoryview(section)[: trailer.size]
    Blocks(path, data, trailer).verify_bytes(0, trailer.size)


def bounds(count: int) -> Any:
    """The least hash of each bucket except the first."""
    return np.array([-(-(b << 32) // count) << 32 for b in range(1, count)], np.uint64)
