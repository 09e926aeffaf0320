"""Where the values of a column lie in the bytes of a run, so that they can be verified by rows.

A column of an open run consists of regions: values of a fixed number of bits, or offsets that say
where in further regions a value lies.  Offsets are verified before they are followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.kernel.blocks import Blocks, Offsets


@dataclass(frozen=True, slots=True)
class Fixed:
    """Values of so many bits each, from a byte of the run on."""

    at: int
    bits: int

    def verify(self, blocks: Blocks, starts: Offsets, stops: Offsets) -> None:
        """Verify the values from starts to stops."""
        blocks.verify(self.at + (starts * self.bits >> 3), self.at + (stops * self.bits + 7 >> 3))


@dataclass(frozen=True, slots=True)
class Variable:
    """Offsets, from a byte of the run on, into regions of the values."""

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
class Anything:
    """A column of a kind that is not known here: all of the run counts as its values."""

    size: int

    def verify(self, blocks: Blocks, starts: Offsets, stops: Offsets) -> None:
        """Verify the whole run."""
        if (starts < stops).any():
            blocks.verify_bytes(0, self.size)


Region: TypeAlias = Fixed | Variable | Anything


def regions_of(array: Any, data: Any) -> tuple[Region, ...]:
    """The regions of an array that lies in a buffer."""
    return tuple(_regions(array, data))


def _regions(array: Any, data: Any) -> Iterator[Region]:
    kinds, type_ = pa.types, array.type
    if array.offset:
        yield Anything(data.size)
        return
    if kinds.is_null(type_):
        return
    buffers = array.buffers()
    yield from _fixed(buffers[0], 1, data)
    if kinds.is_struct(type_):
        for i in range(type_.num_fields):
            yield from _regions(array.field(i), data)
    elif kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_map(type_):
        large = kinds.is_large_list(type_)
        yield from _variable(buffers[1], _regions(array.values, data), data, large=large)
    elif kinds.is_string(type_) or kinds.is_binary(type_):
        yield from _variable(buffers[1], _fixed(buffers[2], 8, data), data, large=False)
    elif kinds.is_large_string(type_) or kinds.is_large_binary(type_):
        yield from _variable(buffers[1], _fixed(buffers[2], 8, data), data, large=True)
    elif kinds.is_primitive(type_) or kinds.is_decimal(type_) or kinds.is_fixed_size_binary(type_):
        yield from _fixed(buffers[1], type_.bit_width, data)
    else:
        yield Anything(data.size)


def _variable(buffer: Any, inner: Iterable[Region], data: Any, *, large: bool) -> Iterator[Region]:
    if _is_empty(buffer):
        return
    at = _position(buffer, data)
    if at is None:
        yield Anything(data.size)
        return
    dtype = np.dtype(np.int64 if large else np.int32)
    offsets = np.frombuffer(buffer, dtype, buffer.size // dtype.itemsize)
    yield Variable(at, offsets, tuple(inner))


def _fixed(buffer: Any, bits: int, data: Any) -> Iterator[Region]:
    if not _is_empty(buffer):
        at = _position(buffer, data)
        yield Anything(data.size) if at is None else Fixed(at, bits)


def _is_empty(buffer: Any) -> bool:
    return buffer is None or buffer.size == 0


def _position(buffer: Any, data: Any) -> int | None:
    """Where in the data a buffer starts; None if it is a copy."""
    at = int(buffer.address - data.address)
    return at if 0 <= at <= data.size - buffer.size else None


def body_of(table: Any, data: Any) -> tuple[int, int]:
    """From where to where a buffer holds the columns of a table."""
    buffers = [
        buffer
        for column in table.columns
        for chunk in column.chunks
        for buffer in chunk.buffers()
        if not _is_empty(buffer)
    ]
    starts = [_position(buffer, data) for buffer in buffers]
    known = [(at, at + b.size) for at, b in zip(starts, buffers, strict=True) if at is not None]
    if not known:
        return data.size, data.size
    return min(start for start, _ in known), max(stop for _, stop in known)
