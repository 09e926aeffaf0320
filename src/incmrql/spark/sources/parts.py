"""The tasks that read files of a source into record batches.

Bad rows and errors do not pass through Spark as rows or exceptions.  Each task reports the outcome
of each of its parts in an accumulator; an error ends the part, and the driver raises it when the
query's job is done.  A part that Spark did not read to its end, because it reached a `limit`,
reports nothing, and `context` reads it again.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any as Arrow
from typing import Final

import pyarrow as pa
from pyspark.accumulators import Accumulator

from incmrql.algebra.term import Picks
from incmrql.errors import DataError
from incmrql.io import Chunk, FileSplit, read_chunks, read_rows, row_chunks, with_display_path
from incmrql.io.rows import BadRow, Policy, Read, Row, refusal
from incmrql.reference.sources import parser_rows
from incmrql.spark.sources.picks import can_pick_raw, picker, picks_batch, raw_picker, raw_rows
from incmrql.spark.sources.scan import PartStats, ScanPlan, StatsByPart, numbers
from incmrql.spark.values import BATCH, array_batch, value_schema

BAD_SCHEMA: Final = "part int, row binary"
"""The columns of `task_bad_rows`: a bad row is pickled, as its text may hold half a character."""
_BAD_BATCH: Final = BATCH >> 4


def task_rows(
    plan: ScanPlan,
    tasks: tuple[tuple[int, ...], ...],
    scan: int,
    stats: Accumulator[StatsByPart],
    batches: Iterable[Arrow],
) -> Iterator[Arrow]:
    """The rows of the tasks whose numbers are in `batches`, for `mapInArrow`."""
    for number in numbers(batches):
        for index in tasks[number]:
            part_stats = PartStats()
            yield from part_rows(plan, plan.parts[index], part_stats)
            stats.add({(scan, index): part_stats})


def task_bad_rows(
    plan: ScanPlan, indices: tuple[int, ...], batches: Iterable[Arrow]
) -> Iterator[Arrow]:
    """The bad rows of some parts, for `mapInArrow` over numbers of `indices`."""
    for number in numbers(batches):
        part = plan.parts[indices[number]]
        bad = _bad_rows(plan, part)
        while chunk := list(islice(bad, _BAD_BATCH)):
            pickled = [pickle.dumps(row) for row in chunk]
            column = pa.repeat(pa.scalar(part.number, pa.int32()), len(chunk))
            yield pa.record_batch({"part": column, "row": pa.array(pickled, pa.binary())})


# --- one part ----------------------------------------------------------------------------


def part_rows(plan: ScanPlan, part: FileSplit, stats: PartStats) -> Iterator[Arrow]:
    """The rows of a part in batches; everything else goes to `stats`."""
    try:
        with _with_shown_place(part):
            plan.paths.check(part.path)
            if plan.picks is not None:
                yield from _picks(plan, part, plan.picks, stats)
                return
            for chunk in _chunks(plan, part):
                first = stats.rows
                stats.add_chunk(chunk)
                if len(chunk.values):
                    yield _batch(plan, part, chunk, first)
    except DataError as error:
        stats.failure = error.code, error.message, error.place, error.hint


def _chunks(plan: ScanPlan, part: FileSplit) -> Iterator[Chunk]:
    if plan.spec.source.format == "python":
        return row_chunks(plan.spec, _rows(plan, part), part.display_path)
    return read_chunks(plan.spec, part)


def _batch(plan: ScanPlan, part: FileSplit, chunk: Chunk, first: int) -> Arrow:
    if not plan.weighted:
        schema = value_schema(plan.spec.element, packed=plan.packed)
        return array_batch(chunk.values, plan.spec.element, schema)
    size = len(chunk.values)
    return pa.record_batch(
        {
            "row": chunk.values,
            "weight": chunk.weights,
            "part": pa.repeat(pa.scalar(part.number, pa.int32()), size),
            "place": pa.array(range(first, first + size), pa.int64()),
        }
    )


def _picks(plan: ScanPlan, part: FileSplit, picks: Picks, stats: PartStats) -> Iterator[Arrow]:
    pick = raw_picker(picks) if can_pick_raw(plan) else picker(picks)
    good = _good_rows(_rows(plan, part), plan.spec.policy, stats)
    picked = (pick(row.value) for row in good)
    while rows := list(islice(picked, BATCH)):
        yield picks_batch(picks, rows)
        stats.rows += len(rows)


def _good_rows(rows: Iterable[Read], policy: Policy, stats: PartStats) -> Iterator[Row]:
    for row in rows:
        if isinstance(row, Row):
            yield row
        elif policy == "fail":
            raise refusal(row)
        else:
            stats.add(row)


def _bad_rows(plan: ScanPlan, part: FileSplit) -> Iterator[BadRow]:
    """The bad rows of a part, one by one, since there may be many."""
    plan.paths.check(part.path)
    if plan.picks is not None:
        return (row for row in _rows(plan, part) if isinstance(row, BadRow))
    return (row for chunk in _chunks(plan, part) for row in chunk.bad)


@contextmanager
def _with_shown_place(part: FileSplit) -> Iterator[None]:
    """Name the file in errors as the source does, not by its absolute path."""
    try:
        yield
    except DataError as error:
        place = error.place
        if place.startswith(part.path):
            place = part.display_path + place[len(part.path) :]
        raise DataError(error.code, error.message, place=place, hint=error.hint) from None


def _rows(plan: ScanPlan, part: FileSplit) -> Iterator[Read]:
    """The rows of a file one by one, with the file names that messages use."""
    spec = plan.spec
    if spec.source.format == "python":
        rows = parser_rows(plan.parser.load(), spec.source, part.path, spec.policy)
        return with_display_path(rows, part)
    if plan.picks is not None and can_pick_raw(plan):
        return with_display_path(raw_rows(plan, part), part)
    return read_rows(spec, part)
