"""Files in blocks of whole lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any as Arrow
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

from incmrql.io.files import BOM, MAX_LINE, Line, line_of, skip_line, too_long

BLOCK: Final = 1 << 22
"""Bytes that are read at once, and the rest of their last line."""


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Whole lines, each with its end, and the number of the first.

    If the last line of a file has no end, one is added and `has_last_newline` is false.  A line
    that is too long is a block of its own: `long_line` stands for it, and `data` is an empty line.
    """

    data: bytes
    first: int
    has_last_newline: bool = True
    long_line: Line | None = None

    def lines(self) -> Arrow:
        """The lines as an Arrow array of bytes."""
        ends = np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord("\n"))
        offsets = np.zeros(len(ends) + 1, np.int32)
        np.add(ends, 1, out=offsets[1:], casting="unsafe")
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.binary(), len(ends), buffers)

    def text_lines(self, lines: Arrow, indices: Iterable[int]) -> Iterator[Line]:
        """Some lines by their places, counted from 0, for the row-by-row reader."""
        if self.long_line is not None:
            yield self.long_line
            return
        last = -1 if self.has_last_newline else self.data.count(b"\n") - 1
        for index in indices:
            raw = lines[index].as_py()
            yield line_of(self.first + index, raw.removesuffix(b"\n") if index == last else raw)


def blocks(
    stream: BinaryIO, first: int, size: int | None = None, longest: int = MAX_LINE
) -> Iterator[LineBlock]:
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
        for block in _split_at_long_lines(piece, first, longest):
            yield block
            first += block.data.count(b"\n")


def _split_at_long_lines(piece: bytes, first: int, longest: int) -> Iterator[LineBlock]:
    """The lines of a piece, those that are too long in blocks of their own."""
    start, number = 0, first
    if len(piece) > longest:
        ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n"))
        if not piece.endswith(b"\n"):
            ends = np.append(ends, len(piece))
        starts = np.concatenate([[0], ends[:-1] + 1])
        for index in np.flatnonzero(ends - starts > longest).tolist():
            begin, end = int(starts[index]), int(ends[index])
            yield from _block(piece[start:begin], number)
            line = too_long(first + index, piece[begin : begin + longest], longest)
            yield LineBlock(b"\n", first + index, long_line=line)
            start, number = end + 1, first + index + 1
    yield from _block(piece[start:], number)


def _block(data: bytes, first: int) -> Iterator[LineBlock]:
    if first == 1:
        data = data.removeprefix(BOM)
    if data:
        ended = data.endswith(b"\n")
        yield LineBlock(data if ended else data + b"\n", first, ended)


def bytes_of(lines: Arrow) -> bytes:
    """The bytes of lines that follow each other in their buffer."""
    if not len(lines):
        return b""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)
    start, end = offsets[lines.offset], offsets[lines.offset + len(lines)]
    return bytes(memoryview(lines.buffers()[2])[start:end])


def is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False
