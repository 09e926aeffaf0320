"""Which files are read by a parser, and where their lines start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from incmrql.io.files import BOM, COMPRESSED, open_bytes
from incmrql.io.line import LineOptions
from incmrql.io.spec import FileSplit, ReadSpec
from incmrql.io.vectorised.blocks import LineBlock, blocks
from incmrql.io.vectorised.json import JsonParser, json_is_plain
from incmrql.io.vectorised.line import LineParser, TextParser, line_columns
from incmrql.io.vectorised.parser import Parser


@dataclass(frozen=True, slots=True)
class VectorReader:
    """The lines of a part, without a header, and who parses them."""

    split: FileSplit
    parser: Parser
    longest: int
    """Bytes of the longest line that is no problem."""
    offset: int
    """The byte at which the lines start, and the number of the first."""
    first: int

    def blocks(self) -> Iterator[LineBlock]:
        """The lines."""
        split = self.split
        with open_bytes(Path(split.path)) as stream:
            if split.path.endswith(COMPRESSED):
                stream.read(self.offset)
            else:
                stream.seek(self.offset)
            size = None if split.end is None else split.end - self.offset
            yield from blocks(stream, self.first, size, self.longest)


def vector_reader(spec: ReadSpec, split: FileSplit) -> VectorReader | None:
    """Who reads a part block by block; None where it is read row by row."""
    source = spec.source
    parser: Parser
    offset, first = split.start, split.first
    match source.format:
        case "text":
            parser = TextParser(split.display_path)
        case "json" if not source.keys:
            if not json_is_plain(source.row, spec.options.get("sign", "")):
                return None
            parser = JsonParser(split.display_path, spec)
        case "line":
            options = LineOptions.of(source.delimiter, spec.options)
            head, after, second = None, 0, 1
            if options.header:
                head, after, second = _header(Path(split.path), spec.longest)
            columns = line_columns(source.row, options, head)
            if columns is None:
                return None
            parser = LineParser(split.display_path, source.row, options, columns)
            if split.start == 0:
                offset, first = after, second
        case _:
            return None
    return VectorReader(split, parser, spec.longest, offset, first)


def _header(path: Path, longest: int) -> tuple[bytes | None, int, int]:
    """The first line that is not empty, and where and on which line what follows it starts.

    None if there is no such line, or if it is too long.
    """
    offset = number = 0
    with open_bytes(path) as stream:
        while raw := stream.readline(longest + 1):
            if len(raw) > longest and not raw.endswith(b"\n"):
                return None, 0, 1
            offset += len(raw)
            number += 1
            line = raw.removeprefix(BOM) if number == 1 else raw
            if line.rstrip(b"\r\n") or b"\r\r" in line:
                return line, offset, number + 1
    return None, 0, 1
