"""Where large files can be cut, so that several tasks read them.

A file may be cut between two lines only if no line has to do with its neighbours.  That is not
known before all have been looked at, so a large file is looked at first, in a job of its own
that parses nothing: each task says how many lines its piece has and whether all of them match
their parser or stand alone.  If every piece says so, every line starts where the row-by-row
reader would have it start, and the file is cut; if one does not, the file is read by one task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any as Arrow
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from incmrql.io import Part, vector_reader
from incmrql.io.files import COMPRESSED, skip_line
from incmrql.spark.sources.plan import Plan, numbers

SMALLEST_CUT: Final = 1 << 24
"""A file of fewer bytes is not cut."""
_PIECE: Final = 1 << 26
_FAIR: Final = 1.25
"""A file is cut if it is so much larger than what each core gets to read."""
_MOST_GLANCED_AT: Final = 1 << 28


def cut(spark: SparkSession, plan: Plan) -> Plan:
    """The plan with large files in pieces, as far as they can be cut."""
    cores = spark.sparkContext.defaultParallelism
    share = sum(part.size for part in plan.parts) / cores
    large = [part for part in plan.parts if part.size > _FAIR * share and _is_large(plan, part)]
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
    if part.size < SMALLEST_CUT or part.path.endswith(COMPRESSED):
        return False
    return vector_reader(plan.spec, part) is not None


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
    reader = vector_reader(plan.spec, part)
    if reader is None:
        return None
    parser = reader.parser
    lines = reader.first - 1 if part.start == 0 else 0
    for block in reader.blocks():
        if not (parser.is_clear(block) if glance else parser.is_apart(block)):
            return None
        lines += block.data.count(b"\n")
    return lines
