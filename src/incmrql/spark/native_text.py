"""Text files in blocks: lines of a strict shape natively, the others by the reference reader.

    fast_batches(shape, block after block) -> record batches, with bad rows told to a tally

A shape is a regular expression for lines and a way to turn many such lines into columns at once
by Arrow.  The expression is strict enough that Arrow surely makes of a line what the reference
reader makes of it: anything odd does not match.  Lines that do not match go to the reference
reader, together, if each of them stands alone; where a line may go on in the next one (a quote
that is not closed, a document over several lines) the reader gets it and all lines after it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any as Arrow
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from incmrql.formats.files import MAX_LINE, Line, skip_line, too_long
from incmrql.formats.files import _line as line_of
from incmrql.formats.rows import Read

BLOCK: Final = 1 << 22
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, each with its end, and the number of the first.

    The last line of a file may have no end; here it has got one, and `ended` is false.  A line that
    is too long is a block of its own: `refused` stands for it, and `data` is an empty line.
    """

    data: bytes
    first: int
    ended: bool = True
    refused: Line | None = None

    def array(self) -> Arrow:
        """The lines as an Arrow array of bytes."""
        ends = np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord("\n"))
        offsets = np.zeros(len(ends) + 1, np.int32)
        np.add(ends, 1, out=offsets[1:], casting="unsafe")
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.binary(), len(ends), buffers)

    def some(self, given: Iterable[tuple[int, bytes]]) -> Iterator[Line]:
        """Lines by their places, counted from 0, for the reference reader."""
        if self.refused is not None:
            yield self.refused
            return
        last = -1 if self.ended else self.data.count(b"\n") - 1
        for place, raw in given:
            yield line_of(self.first + place, raw.removesuffix(b"\n") if place == last else raw)

    def is_text(self) -> bool:
        """Whether all of it is UTF-8."""
        try:
            return self.data.isascii() or bool(self.data.decode())
        except UnicodeDecodeError:
            return False


class Shape(ABC):
    """What lines of a source look like when nothing is odd about them."""

    skips_empty = True
    """Whether lines without a character are no rows."""

    @abstractmethod
    def matches(self, lines: Arrow) -> Arrow:
        """Which lines have the shape, as NumPy booleans."""

    @abstractmethod
    def columns(self, data: bytes) -> Arrow:
        """The rows of lines that have the shape, as a record batch; may be ArrowInvalid."""

    @abstractmethod
    def stands_alone(self, line: bytes, following: bytes) -> bool:
        """Whether a line without the shape surely neither takes from the next nor gives to it."""

    def is_clear(self, block: Block) -> bool:  # noqa: ARG002
        """Whether it is seen at a glance that no line of a block has to do with another."""
        return False

    def is_apart(self, block: Block) -> bool:
        """Whether surely no line of a block has to do with another."""
        if self.is_clear(block):
            return True
        lines, odd = sorted_lines(block, self)
        return odd_ones_stand_alone(lines, odd, self) is None

    @abstractmethod
    def reads(self, lines: Iterable[Line]) -> Iterator[Read]:
        """What the reference reader makes of lines."""

    def reads_apart(self, lines: Iterable[Line]) -> Iterator[Read]:
        """The same of lines that stand alone, between which others may be missing."""
        return self.reads(lines)


def blocks(
    stream: BinaryIO, first: int, size: int | None = None, longest: int = MAX_LINE
) -> Iterator[Block]:
    """The lines of a stream, from line `first` on; `size` bytes of it, or all.

    A last line without an end gets one.  A line of more than `longest` bytes is refused, and no
    more of it is kept in memory.
    """
    while piece := stream.read(BLOCK if size is None else min(BLOCK, size)):
        skipped = 0
        if not piece.endswith(b"\n"):
            rest = stream.readline(longest + 1)
            piece += rest
            if len(rest) > longest and not rest.endswith(b"\n"):
                skipped = skip_line(stream)
        size = None if size is None else size - len(piece) - skipped
        for block in _divided(piece, first, longest):
            yield block
            first += block.data.count(b"\n")


def _divided(piece: bytes, first: int, longest: int) -> Iterator[Block]:
    """The lines of a piece, those that are too long in blocks of their own."""
    start, number = 0, first
    if len(piece) > longest:
        ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n"))
        if not piece.endswith(b"\n"):
            ends = np.append(ends, len(piece))
        starts = np.concatenate([[0], ends[:-1] + 1])
        for place in np.flatnonzero(ends - starts > longest).tolist():
            begin, end = int(starts[place]), int(ends[place])
            yield from _block(piece[start:begin], number)
            line = too_long(first + place, piece[begin : begin + longest], longest)
            yield Block(b"\n", first + place, refused=line)
            start, number = end + 1, first + place + 1
    yield from _block(piece[start:], number)


def _block(data: bytes, first: int) -> Iterator[Block]:
    if first == 1:
        data = data.removeprefix(_BOM)
    if data:
        ended = data.endswith(b"\n")
        yield Block(data if ended else data + b"\n", first, ended)


def sorted_lines(block: Block, shape: Shape) -> tuple[Arrow, list[int]]:
    """The lines of a block and the places of those without the shape.

    Empty lines that are no rows are not among them.
    """
    lines = block.array()
    if block.refused is not None:
        return lines, [0]
    found = shape.matches(lines)
    if not block.is_text():
        found = found & np.array([_is_text(line) for line in lines.to_pylist()], bool)
    if not block.ended:
        found = np.append(found[:-1], [False])
    empty = _empty(lines, shape)
    odd = ~found if empty is None else ~(found | empty)
    return lines, np.flatnonzero(odd).tolist()


def _empty(lines: Arrow, shape: Shape) -> Arrow | None:
    """Which lines have no character and are no rows; None if there are no such lines."""
    if not shape.skips_empty:
        return None
    empty = np.asarray(pa.compute.binary_length(lines)) == 1
    return empty if empty.any() else None


def odd_ones_stand_alone(lines: Arrow, odd: list[int], shape: Shape) -> int | None:
    """The first of the odd lines that does not stand alone, or None.

    A line that is not UTF-8 does: the readers refuse it wherever a row may start.
    """
    for place in odd:
        following = lines[place + 1].as_py() if place + 1 < len(lines) else b""
        line = lines[place].as_py()
        if _is_text(line) and not shape.stands_alone(line, following):
            return place
    return None


def fast_batches(
    shape: Shape, given: Iterator[Block]
) -> Iterator[tuple[Arrow | None, Iterable[Read]]]:
    """For each block a record batch, and what the reference reader makes of its other lines."""
    for block in given:
        lines, odd = sorted_lines(block, shape)
        bound = odd_ones_stand_alone(lines, odd, shape)
        end = len(lines) if bound is None else bound
        yield _natively(shape, block, lines.slice(0, end), [i for i in odd if i < end])
        if bound is not None:
            left = chain([_after(block, lines, bound)], given)
            yield None, shape.reads(line for rest in left for line in all_lines(rest))
            return


def _natively(
    shape: Shape, block: Block, lines: Arrow, odd: list[int]
) -> tuple[Arrow | None, Iterable[Read]]:
    keep = np.ones(len(lines), bool)
    keep[odd] = False
    if (empty := _empty(lines, shape)) is not None:
        keep &= ~empty
    try:
        columns = shape.columns(_bytes(lines if keep.all() else lines.filter(pa.array(keep))))
    except pa.ArrowInvalid:
        columns, odd = None, list(range(len(lines)))
    return columns, shape.reads_apart(block.some((i, lines[i].as_py()) for i in odd))


def _bytes(lines: Arrow) -> bytes:
    """The bytes of lines."""
    if not len(lines):
        return b""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)
    start, end = offsets[lines.offset], offsets[lines.offset + len(lines)]
    return bytes(memoryview(lines.buffers()[2])[start:end])


def _after(block: Block, lines: Arrow, place: int) -> Block:
    rest = _bytes(lines.slice(place))
    return Block(rest, block.first + place, block.ended, block.refused)


def all_lines(block: Block) -> Iterator[Line]:
    """The lines of a block for the reference reader."""
    return block.some(enumerate(block.array().to_pylist()))


def _is_text(line: bytes) -> bool:
    try:
        return line.isascii() or bool(line.decode())
    except UnicodeDecodeError:
        return False
