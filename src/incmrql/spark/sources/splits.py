"""Divides large files into splits, which several tasks read.

A file may be split between two lines only if no record spans them.  That is not known before all
lines have been examined, so a large file is examined first, in a job of its own that parses
nothing: each task counts the lines of its split and says whether each line is a record of its own.
If this holds for every split, all records start where the row-by-row reader would start them, and
the file is split; otherwise one task reads the file.
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

from incmrql.io import FileSplit, vector_reader
from incmrql.io.files import COMPRESSED, skip_line
from incmrql.spark.sources.scan import ScanPlan, numbers

SMALLEST_FILE: Final = 1 << 24
"""A file of fewer bytes is not split."""
_SPLIT_BYTES: Final = 1 << 26
_UNEVEN: Final = 1.25
"""A file is split if it exceeds the share of a core by this factor."""
_MOST_DRIVER_BYTES: Final = 1 << 28


def split_large_files(spark: SparkSession, plan: ScanPlan) -> ScanPlan:
    """The plan with large files in splits, where they can be split."""
    cores = spark.sparkContext.defaultParallelism
    share = sum(part.size for part in plan.parts) / cores
    large = [p for p in plan.parts if p.size > _UNEVEN * share and is_splittable(plan, p)]
    splits = {part.number: splits_of(part, cores) for part in large}
    if not splits:
        return plan
    candidates = replace(plan, parts=tuple(split for group in splits.values() for split in group))
    counts = iter(_counts_in_driver(candidates) or _counts_in_tasks(spark, candidates))
    parts: list[FileSplit] = []
    for part in plan.parts:
        group = splits.get(part.number, [])
        lines = [next(counts) for _ in group]
        parts += [part] if None in lines or not group else with_first_lines(group, lines)
    return replace(plan, parts=tuple(replace(part, number=i) for i, part in enumerate(parts)))


def with_first_lines(splits: list[FileSplit], lines: list[int | None]) -> Iterator[FileSplit]:
    """Splits with the numbers of their first lines, given how many lines each has."""
    first = 1
    for split, count in zip(splits, lines, strict=True):
        yield replace(split, first=first)
        first += count or 0


def is_splittable(plan: ScanPlan, part: FileSplit) -> bool:
    """True if a file is large and its parser can start at any line."""
    if part.size < SMALLEST_FILE or part.path.endswith(COMPRESSED):
        return False
    return vector_reader(plan.spec, part) is not None


def splits_of(part: FileSplit, cores: int) -> list[FileSplit]:
    """A file divided after line ends, into about as many splits as there are cores."""
    count = cores * max(1, -(-part.size // (cores * _SPLIT_BYTES)))
    size = max(SMALLEST_FILE // 2, -(-part.size // count))
    splits: list[FileSplit] = []
    start = 0
    with Path(part.path).open("rb") as file:
        while start < part.size:
            file.seek(min(start + size, part.size))
            skip_line(file)
            end = min(file.tell(), part.size)
            splits.append(replace(part, start=start, end=end, size=end - start))
            start = end
    return splits


def _counts_in_driver(plan: ScanPlan) -> list[int | None] | None:
    """The lines of each split, if a quick look at a few bytes shows that they are independent."""
    if sum(part.size for part in plan.parts) > _MOST_DRIVER_BYTES:
        return None
    counts: list[int | None] = []
    for part in plan.parts:
        count = count_lines(plan, part, quick=True)
        if count is None:
            return None
        counts.append(count)
    return counts


def _counts_in_tasks(spark: SparkSession, plan: ScanPlan) -> list[int | None]:
    """The lines of each split; None where a record may span some of them."""
    count = len(plan.parts)
    task = partial(_task_counts, plan)
    table = spark.range(0, count, 1, count).mapInArrow(task, "split long, lines long").toArrow()
    lines = {row["split"]: row["lines"] for row in table.to_pylist()}
    return [lines[i] for i in range(count)]


def _task_counts(plan: ScanPlan, batches: Iterable[Arrow]) -> Iterator[Arrow]:
    for number in numbers(batches):
        lines = count_lines(plan, plan.parts[number], quick=False)
        yield pa.record_batch(
            {"split": pa.array([number], pa.int64()), "lines": pa.array([lines], pa.int64())}
        )


def count_lines(plan: ScanPlan, part: FileSplit, *, quick: bool) -> int | None:
    """How many lines a split has; None where a record may span some of them."""
    reader = vector_reader(plan.spec, part)
    if reader is None:
        return None
    parser = reader.parser
    lines = reader.first - 1 if part.start == 0 else 0
    for block in reader.blocks():
        if not (parser.is_clearly_independent(block) if quick else parser.is_independent(block)):
            return None
        lines += block.data.count(b"\n")
    return lines
