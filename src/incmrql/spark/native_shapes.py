"""Which files have a shape, and where large ones can be cut.

A file may be cut between two lines only if no line has to do with its neighbours.  That is not
known before all have been looked at, so a large file is looked at first, in a job of its own
that parses nothing: each task says how many lines its piece has and whether all of them have
the shape or stand alone.  If every piece says so, every line starts where the reference reader
would have it start, and the file is cut; if one does not, the file is read by one task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any as Arrow
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from incmrql.formats.files import MAX_LINE, open_bytes, skip_line
from incmrql.formats.line import LineOptions
from incmrql.spark.native_json import JsonShape, json_is_plain
from incmrql.spark.native_lines import LineShape, TextShape, line_layout
from incmrql.spark.native_text import Block, Shape, blocks
from incmrql.spark.sources_plan import Part, Plan, numbers
from incmrql.types.model import Record

SMALLEST_CUT: Final = 1 << 24
"""A file of fewer bytes is not cut."""
_PIECE: Final = 1 << 26
_FAIR: Final = 1.25
"""A file is cut if it is so much larger than what each core gets to read."""
_MOST_GLANCED_AT: Final = 1 << 28
COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst")
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Start:
    """The shape of a part, and where its lines start, after a header."""

    shape: Shape
    offset: int
    first: int
    longest: int
    """Bytes of the longest line that is no problem."""


def start_of(plan: Plan, part: Part) -> Start | None:
    """How a part is read natively, or None."""
    source, longest = plan.source, plan.options.get("max_line", MAX_LINE)
    if plan.weighted or plan.picks is not None:
        return None
    match source.format:
        case "text":
            return Start(TextShape(part.shown), part.start, part.first, longest)
        case "json" if not source.keys and json_is_plain(source.row):
            assert isinstance(source.row, Record)
            assert isinstance(plan.element, Record)
            shape = JsonShape(
                part.shown,
                source.row,
                plan.data,
                packed=plan.packed,
                wanted=plan.element,
                longest=longest,
            )
            return Start(shape, part.start, part.first, longest)
        case "line":
            return _line_start(plan, part, longest)
        case _:
            return None


def _line_start(plan: Plan, part: Part, longest: int) -> Start | None:
    options = LineOptions.of(plan.source.delimiter, plan.options)
    head, offset, first = _head(Path(part.path), longest) if options.header else (None, 0, 1)
    layout = line_layout(plan.source.row, options, head)
    if layout is None:
        return None
    shape = LineShape(part.shown, plan.source.row, options, layout, packed=plan.packed)
    if part.start == 0:
        return Start(shape, offset, first, longest)
    return Start(shape, part.start, part.first, longest)


def _head(path: Path, longest: int) -> tuple[bytes | None, int, int]:
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
            line = raw.removeprefix(_BOM) if number == 1 else raw
            if line.rstrip(b"\r\n") or b"\r\r" in line:
                return line, offset, number + 1
    return None, 0, 1


def blocks_of(part: Part, start: Start) -> Iterator[Block]:
    """The lines of a part."""
    with open_bytes(Path(part.path)) as stream:
        _skip(stream, start.offset, part)
        end = None if part.end is None else part.end - start.offset
        yield from blocks(stream, start.first, end, start.longest)


def _skip(stream: Arrow, offset: int, part: Part) -> None:
    if part.path.endswith(COMPRESSED):
        stream.read(offset)
    else:
        stream.seek(offset)


# --- cutting -----------------------------------------------------------------------------


def cut(spark: SparkSession, plan: Plan) -> Plan:
    """The plan with large files in pieces, as far as they can be cut."""
    cores = spark.sparkContext.defaultParallelism
    share = sum(part.size for part in plan.parts) / cores
    large = [part for part in plan.parts if _is_large(plan, part) and part.size > _FAIR * share]
    pieces = {part.number: _pieces(part, cores) for part in large}
    if not pieces:
        return plan
    tried = replace(plan, parts=tuple(piece for group in pieces.values() for piece in group))
    told = _glance(tried) or _look_at_all(spark, tried)
    parts: list[Part] = []
    at = 0
    for part in plan.parts:
        group = pieces.get(part.number, [])
        counts = told[at : at + len(group)]
        at += len(group)
        parts += [part] if None in counts or not group else _numbered(group, counts)
    return replace(plan, parts=tuple(replace(p, number=i) for i, p in enumerate(parts)))


def _numbered(group: list[Part], counts: list[int | None]) -> Iterator[Part]:
    first = 1
    for piece, count in zip(group, counts, strict=True):
        yield replace(piece, first=first)
        first += count or 0


def _is_large(plan: Plan, part: Part) -> bool:
    source = plan.source
    is_plain = source.format != "json" or (not source.keys and json_is_plain(source.row))
    fast = source.format in ("line", "json", "text") and is_plain and not plan.weighted
    return fast and part.size >= SMALLEST_CUT and not part.path.endswith(COMPRESSED)


def _pieces(part: Part, cores: int) -> list[Part]:
    """A file cut after line ends, into about as many pieces as there are cores."""
    count = cores * max(1, -(-part.size // (cores * _PIECE)))
    size = max(SMALLEST_CUT // 2, -(-part.size // count))
    found: list[Part] = []
    start = 0
    with Path(part.path).open("rb") as file:
        while start < part.size:
            file.seek(min(start + size, part.size))
            skip_line(file)
            end = min(file.tell(), part.size)
            found.append(replace(part, start=start, end=end, size=end - start))
            start = end
    return found


def _glance(plan: Plan) -> list[int | None] | None:
    """The lines of each piece, if they are few bytes and all is clear at a glance."""
    if sum(part.size for part in plan.parts) > _MOST_GLANCED_AT:
        return None
    told: list[int | None] = []
    for part in plan.parts:
        count = _lines_apart(plan, part, glance=True)
        if count is None:
            return None
        told.append(count)
    return told


def _look_at_all(spark: SparkSession, plan: Plan) -> list[int | None]:
    """The lines of each piece; None where one of them may have to do with another."""
    count = len(plan.parts)
    looked = spark.range(0, count, 1, count).mapInArrow(
        partial(_look, plan), "piece long, lines long"
    )
    told = {row["piece"]: row["lines"] for row in looked.toArrow().to_pylist()}
    return [told[i] for i in range(count)]


def _look(plan: Plan, given: Iterable[Arrow]) -> Iterator[Arrow]:
    for number in numbers(given):
        lines = _lines_apart(plan, plan.parts[number], glance=False)
        yield pa.record_batch(
            {"piece": pa.array([number], pa.int64()), "lines": pa.array([lines], pa.int64())}
        )


def _lines_apart(plan: Plan, part: Part, *, glance: bool) -> int | None:
    """How many lines a piece has; None where one of them may have to do with another."""
    start = start_of(plan, part)
    if start is None:
        return None
    lines = start.first - 1 if part.start == 0 else 0
    for block in blocks_of(part, start):
        if not (start.shape.is_clear(block) if glance else start.shape.is_apart(block)):
            return None
        lines += block.data.count(b"\n")
    return lines
