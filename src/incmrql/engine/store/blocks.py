"""Checksums of the blocks of state files, verified when a block is first read.

    section of a segment  =  data, a checksum for each block of the data, tail

The tail has the length of the data and the position of the columns in it.  The manifest has the
checksum of everything after the data, so a chain of checksums leads from the manifest to every
byte.  A process verifies a block once for each open file.  Blocks that nobody reads are not
verified, so opening a segment reads only its first and last block.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.errors import CheckpointError
from incmrql.storage import files

Offsets: TypeAlias = npt.NDArray[np.int64]

SHIFT: Final = 16
BLOCK: Final = 1 << SHIFT
"""Bytes of a block."""

_CHECKSUM: Final = np.dtype("<u4")
MAGIC: Final = b"RUN1"
"""The last bytes of a section, which are on disk and stay as they are."""
_TAIL: Final = struct.Struct(f"<QQQ{len(MAGIC)}s")


def block_checksums(data: Any) -> list[int]:
    """The checksum of each block of the data."""
    view = memoryview(data)
    return [zlib.crc32(view[at : at + BLOCK]) for at in range(0, len(view), BLOCK)]


class ChecksummedFile:
    """A file open for writing, which computes the checksums of its blocks from the data in memory.

    So an error while writing to disk is found when the block is read.
    """

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._done: list[int] = []
        self._open, self._filled = 0, 0

    def write(self, data: Any) -> int:
        """Append bytes."""
        view = memoryview(data).cast("B")
        at = 0
        while at < len(view):
            some = view[at : at + BLOCK - self._filled]
            self._open = zlib.crc32(some, self._open)
            self._filled += len(some)
            at += len(some)
            if self._filled == BLOCK:
                self._done.append(self._open)
                self._open, self._filled = 0, 0
        return self._stream.write(view)

    def checksums(self) -> list[int]:
        """The checksums of the blocks so far."""
        return [*self._done, self._open] if self._filled else self._done

    def tell(self) -> int:
        """The number of bytes written."""
        return self._stream.tell()

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def close(self) -> None:
        """Do nothing: the owner of the stream closes it."""


@dataclass(frozen=True, slots=True)
class Trailer:
    """What follows the data of a segment: checksums, the data's length, where the columns are."""

    checksums: npt.NDArray[np.uint32]
    size: int
    """Bytes of data."""
    body: tuple[int, int]
    """The start and end of the columns in the data; before and after are Arrow's descriptions."""

    def to_bytes(self) -> bytes:
        """The trailer as bytes, to be written after the data."""
        return self.checksums.astype(_CHECKSUM).tobytes() + _TAIL.pack(self.size, *self.body, MAGIC)

    @staticmethod
    def of_section(section: Any, checksum: int) -> Trailer | None:
        """The trailer at the end of a section; None if its checksum differs."""
        view = memoryview(section)
        if len(view) < _TAIL.size:
            return None
        size, start, stop, _ = _TAIL.unpack(view[-_TAIL.size :])
        length = -(-size // BLOCK) * _CHECKSUM.itemsize + _TAIL.size
        if size + length != len(view) or zlib.crc32(view[size:]) != checksum:
            return None
        checksums = np.frombuffer(view[size : -_TAIL.size], _CHECKSUM)
        return Trailer(checksums, size, (start, stop))


class Blocks:
    """The blocks of an open segment, and which of them are verified."""

    def __init__(self, path: Path, data: Any, trailer: Trailer) -> None:
        self.path = path
        self._data = memoryview(data)
        self._checksums = trailer.checksums
        self._verified = np.zeros(len(trailer.checksums), np.bool_)
        self.left = len(trailer.checksums)
        """The number of blocks that are not verified yet."""

    @property
    def verified_count(self) -> int:
        """The number of verified blocks."""
        return len(self._checksums) - self.left

    def verify(self, starts: Offsets, stops: Offsets) -> None:
        """Verify the blocks of the byte ranges [start, stop)."""
        if not self.left:
            return
        some = starts < stops
        firsts, lasts = starts[some] >> SHIFT, (stops[some] - 1) >> SHIFT
        wide = np.flatnonzero(lasts > firsts + 1)
        ends = np.concatenate([firsts, lasts])
        unverified = np.unique(ends[~self._verified[ends]]).tolist()
        for first, last in zip(firsts[wide].tolist(), lasts[wide].tolist(), strict=True):
            unverified += (first + np.flatnonzero(~self._verified[first:last])).tolist()
        for block in unverified:
            self._verify(block)
        if unverified:  # counted anew, so that two threads never count a block twice
            self.left = int(np.count_nonzero(~self._verified))

    def verify_bytes(self, start: int, stop: int) -> None:
        """Verify the blocks of one byte range."""
        self.verify(np.array([start]), np.array([stop]))

    def _verify(self, block: int) -> None:
        data = self._data[block << SHIFT : (block + 1) << SHIFT]
        if zlib.crc32(data) != self._checksums[block]:
            raise damage_of(self.path, f"block {block} of a run has another checksum")
        self._verified[block] = True


def damage_of(path: Path, what: str) -> CheckpointError:
    """The error for a state file with bytes that differ from those written."""
    return files.damage_error(f"state file {path} is damaged: {what} than when it was written")


# --- Regions of a column ---
#
# Where the values of a column are in a file, so that single rows can be verified.
#
# A column of an open segment consists of regions: values of a fixed number of bits, or offsets into
# further regions. Offsets are verified before they are followed: a corrupt one could lead anywhere.


@dataclass(frozen=True, slots=True)
class FixedWidth:
    """Values of `bits` bits each, starting at a byte of the segment."""

    at: int
    bits: int

    def verify(self, blocks: Blocks, starts: Offsets, stops: Offsets) -> None:
        """Verify the values from starts to stops."""
        blocks.verify(self.at + (starts * self.bits >> 3), self.at + (stops * self.bits + 7 >> 3))


@dataclass(frozen=True, slots=True)
class VariableWidth:
    """Offsets into the regions of the values, starting at a byte of the segment."""

    at: int
    offsets: npt.NDArray[Any]
    inner: tuple[Region, ...]

    def verify(self, blocks: Blocks, starts: Offsets, stops: Offsets) -> None:
        """Verify the values from starts to stops, and what they refer to."""
        some = starts < stops
        starts, stops = starts[some], stops[some]
        width = self.offsets.itemsize
        blocks.verify(self.at + starts * width, self.at + (stops + 1) * width)
        first, last = (self.offsets[at].astype(np.int64) for at in (starts, stops))
        for region in self.inner:
            region.verify(blocks, first, last)


@dataclass(frozen=True, slots=True)
class WholeSegment:
    """A column with a layout that is not known here: any read verifies the whole segment."""

    size: int

    def verify(self, blocks: Blocks, starts: Offsets, stops: Offsets) -> None:
        """Verify the whole segment, if there is any value."""
        if (starts < stops).any():
            blocks.verify_bytes(0, self.size)


Region: TypeAlias = FixedWidth | VariableWidth | WholeSegment


def regions_of(array: Any, data: Any) -> tuple[Region, ...]:
    """The regions of an array inside a buffer."""
    return tuple(_regions(array, data))


def _regions(array: Any, data: Any) -> Iterator[Region]:
    kinds, type_ = pa.types, array.type
    if array.offset:
        yield WholeSegment(data.size)
        return
    if kinds.is_null(type_):
        return
    buffers = array.buffers()
    yield from _fixed_width(buffers[0], 1, data)
    if kinds.is_struct(type_):
        for i in range(type_.num_fields):
            yield from _regions(array.field(i), data)
    elif kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_map(type_):
        large = kinds.is_large_list(type_)
        yield from _variable_width(buffers[1], _regions(array.values, data), data, large=large)
    elif kinds.is_string(type_) or kinds.is_binary(type_):
        yield from _variable_width(buffers[1], _fixed_width(buffers[2], 8, data), data, large=False)
    elif kinds.is_large_string(type_) or kinds.is_large_binary(type_):
        yield from _variable_width(buffers[1], _fixed_width(buffers[2], 8, data), data, large=True)
    elif kinds.is_primitive(type_) or kinds.is_decimal(type_) or kinds.is_fixed_size_binary(type_):
        yield from _fixed_width(buffers[1], type_.bit_width, data)
    else:
        yield WholeSegment(data.size)


def _variable_width(
    buffer: Any, inner: Iterable[Region], data: Any, *, large: bool
) -> Iterator[Region]:
    if _is_empty(buffer):
        return
    at = _position(buffer, data)
    if at is None:
        yield WholeSegment(data.size)
        return
    dtype = np.dtype(np.int64 if large else np.int32)
    offsets = np.frombuffer(buffer, dtype, buffer.size // dtype.itemsize)
    yield VariableWidth(at, offsets, tuple(inner))


def _fixed_width(buffer: Any, bits: int, data: Any) -> Iterator[Region]:
    if not _is_empty(buffer):
        at = _position(buffer, data)
        yield WholeSegment(data.size) if at is None else FixedWidth(at, bits)


def _is_empty(buffer: Any) -> bool:
    return buffer is None or buffer.size == 0


def _position(buffer: Any, data: Any) -> int | None:
    """The start of a buffer in the data; None if the buffer is a copy."""
    at = int(buffer.address - data.address)
    return at if 0 <= at <= data.size - buffer.size else None


def body_of(table: Any, data: Any) -> tuple[int, int]:
    """The start and end, in the data, of the columns of a table."""
    buffers = [
        buffer
        for column in table.columns
        for chunk in column.chunks
        for buffer in chunk.buffers()
        if not _is_empty(buffer)
    ]
    starts = [_position(buffer, data) for buffer in buffers]
    ranges = [(at, at + b.size) for at, b in zip(starts, buffers, strict=True) if at is not None]
    if not ranges:
        return data.size, data.size
    return min(start for start, _ in ranges), max(stop for _, stop in ranges)
