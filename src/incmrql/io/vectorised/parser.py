"""What the parsers of all text formats have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any as Arrow
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from incmrql.io.files import BOM, Line
from incmrql.io.rows import Read
from incmrql.io.vectorised.blocks import LineBlock, bytes_of, is_text

Mask: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ParsedLines:
    """The rows of some lines, one each."""

    values: Arrow
    beyond: int = 0
    """How many have columns beyond the declared ones."""
    weights: Arrow | None = None
    """Their weights; None if all are 1."""


class Parser(ABC):
    """Lines of a format to rows, as far as nothing is odd about them."""

    skips_empty = True
    """Whether lines without a character are no rows."""

    @abstractmethod
    def matches(self, lines: Arrow) -> Mask:
        """Which lines are read by `parse`."""

    @abstractmethod
    def parse(self, lines: bytes) -> ParsedLines:
        """The rows of lines that match.

        May be `ArrowInvalid`; the row-by-row reader then gets these lines too.
        """

    @abstractmethod
    def stands_alone(self, line: bytes, following: bytes) -> bool:
        """Whether a line that does not match surely neither takes from the next nor gives to it."""

    @abstractmethod
    def read_rows(self, lines: Iterable[Line]) -> Iterator[Read]:
        """What the row-by-row reader makes of lines."""

    def read_independent(self, lines: Iterable[Line]) -> Iterator[Read]:
        """The same of lines that stand alone, between which others may be missing."""
        return self.read_rows(lines)

    def is_clearly_independent(self, block: LineBlock) -> bool:  # noqa: ARG002
        """Whether it is seen at a glance that no line of a block has to do with another."""
        return False

    def is_independent(self, block: LineBlock) -> bool:
        """Whether surely no line of a block has to do with another."""
        return self.is_clearly_independent(block) or self.split_block(block).first_dependent is None

    def split_block(self, block: LineBlock) -> SplitBlock:
        """The lines of a block, divided into those that match and those that are odd."""
        lines = block.lines()
        if block.long_line is not None:
            none = np.zeros(1, bool)
            return SplitBlock(block, lines, none, ~none, None)
        matching, empty = self.matches(lines), self._empty(lines)
        if not is_text(block.data):
            matching &= np.array([is_text(line) for line in lines.to_pylist()], bool)
        # Arrow drops this mark wherever what it is given starts; only the start of a file counts.
        matching &= ~np.array(pc.starts_with(lines, pattern=BOM))
        if not block.has_last_newline:  # the row-by-row reader knows what a line without an end is
            matching[-1:] = empty[-1:] = False
        odd = ~(matching | empty)
        return SplitBlock(block, lines, matching & ~empty, odd, self._first_continued(lines, odd))

    def _empty(self, lines: Arrow) -> Mask:
        """Which lines have no character and are no rows."""
        if not self.skips_empty:
            return np.zeros(len(lines), bool)
        return np.array(pc.is_in(lines, pa.array([b"\n", b"\r\n"])))

    def _first_continued(self, lines: Arrow, odd: Mask) -> int | None:
        """The place of the first odd line that does not stand alone.

        A line that is not UTF-8 does: the readers refuse it wherever a row may start.
        """
        for index in np.flatnonzero(odd).tolist():
            following = lines[index + 1].as_py() if index + 1 < len(lines) else b""
            line = lines[index].as_py()
            if is_text(line) and not self.stands_alone(line, following):
                return index
        return None


@dataclass(frozen=True, slots=True)
class SplitBlock:
    """The lines of a block: those that match, and those that are odd; others are no rows.

    From the line at `first_dependent` on, lines may have to do with each other.
    """

    block: LineBlock
    lines: Arrow
    matching: Mask
    odd: Mask
    first_dependent: int | None

    def parse(self, parser: Parser) -> tuple[ParsedLines | None, Numbers, Iterator[Line]]:
        """What a parser makes of the lines before `first_dependent`.

        That is the rows of lines that match, the numbers of their lines, and the lines that are
        left to the row-by-row reader.
        """
        lines = (
            self.lines
            if self.first_dependent is None
            else self.lines.slice(0, self.first_dependent)
        )
        matching, odd = self.matching[: len(lines)], self.odd[: len(lines)]
        parsed = None
        if matching.any():
            matching_lines = lines if matching.all() else lines.filter(pa.array(matching))
            try:
                parsed = parser.parse(bytes_of(matching_lines))
            except pa.ArrowInvalid:
                matching, odd = np.zeros(len(lines), bool), matching | odd
        numbers = np.flatnonzero(matching) + self.block.first
        return parsed, numbers, self.block.text_lines(lines, np.flatnonzero(odd).tolist())

    def rest(self, following: Iterable[LineBlock]) -> Iterator[Line]:
        """The lines from `first_dependent` on, and those of blocks that follow."""
        assert self.first_dependent is not None
        yield from self.block.text_lines(self.lines, range(self.first_dependent, len(self.lines)))
        for block in following:
            lines = block.lines()
            yield from block.text_lines(lines, range(len(lines)))
