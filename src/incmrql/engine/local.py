"""A program whose batches run in this process, without Spark: for tests, notebooks, quick looks."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from incmrql.engine.batch import CompiledProgram, run_batch, summarize_bag, write_answers
from incmrql.engine.inputs import InputFile
from incmrql.engine.jobs import LARGE, LOOP_ROWS, JobResult, trusted_deletes_error
from incmrql.engine.messages import BagSummary, BatchRequest, Part, combine_results
from incmrql.engine.replacement import cut_answers, write_differences
from incmrql.engine.store.compaction import CompactionTask, run_compaction
from incmrql.engine.store.content import SortedRows
from incmrql.engine.store.segments import OpenSegments, Segment
from incmrql.engine.store.tables import Reader, StateTable
from incmrql.errors import DataError
from incmrql.plan.changes import NegativeWeight
from incmrql.plan.program import Stream

_ONE_AT_A_TIME: Final = threading.Lock()
"""Batches of several runs in one process take turns: they share the open segments."""


class LocalJob:
    """Runs each batch as one task of this process, whatever its size."""

    def __init__(self, compiled: CompiledProgram, buckets: int) -> None:
        self.compiled, self.buckets = compiled, buckets

    def run(
        self, request: BatchRequest, *, large: int = LARGE, loop_rows: int = LOOP_ROWS
    ) -> JobResult:
        """Run a batch; a large one has no stages, and a large loop stays in the batch."""
        del large, loop_rows
        try:
            with _ONE_AT_A_TIME:
                reading, done = run_batch(self.compiled, request)
        except NegativeWeight as problem:
            raise trusted_deletes_error(self.compiled, str(problem)) from None
        return JobResult(reading, combine_results(request, [done]), 0, 0, 1)

    def spool(self, stream: Stream, files: Sequence[InputFile], folder: Path) -> list[InputFile]:
        """Refuse files that only Spark can read."""
        del folder
        reader = stream.source.reader
        kind = "" if reader is None else f" of format {reader.format}"
        raise needs_spark(f'reading "{Path(files[0].path).name}"{kind}')

    def write_answers(self, request: BatchRequest) -> list[Part]:
        """Write all rows of answers to the targets of a request."""
        with _ONE_AT_A_TIME:
            return write_answers(self.compiled, request, range(request.buckets))

    def write_differences(
        self, request: BatchRequest, old: BatchRequest, old_program: CompiledProgram,
        places: Sequence[int],
    ) -> list[Part]:  # fmt: skip
        """Write to some targets the rows in which their answers differ from old ones."""
        new = replace(request, targets=tuple(request.targets[place] for place in places))
        contents: dict[tuple[int, int], list[SortedRows]] = {}
        with _ONE_AT_A_TIME:
            for compiled, each, sign in ((self.compiled, new, 1), (old_program, old, -1)):
                for bucket in range(each.buckets):
                    for place, at, rows in cut_answers(compiled, each, places, sign, bucket):
                        contents.setdefault((place, at), []).append(rows)
            return write_differences(self.compiled, request, contents)

    def summarize(self, request: BatchRequest, numbers: Sequence[int]) -> list[BagSummary]:
        """The sizes and least rows of some answers, which are bags, in the tables of a request."""
        runs = Path(request.runs)
        with _ONE_AT_A_TIME:
            return [
                summarize_bag(self.compiled, number, request.tables, runs, range(request.buckets))
                for number in numbers
            ]

    def compact(self, compaction: CompactionTask, runs: str) -> Segment | None:
        """Merge segments; may be called from another thread."""
        schema = dict(self.compiled.physical.schemas)[compaction.table]
        table = StateTable(compaction.table, schema, self.buckets)
        return run_compaction(compaction, table, Reader(Path(runs), OpenSegments()))


def needs_spark(what: str) -> DataError:
    """The error for something that only Spark can do, on the local engine."""
    hint = 'Use the engine "spark", which is the default; a checkpoint resumes with either.'
    return DataError("R329", f'{what} needs Spark, and this is the engine "local"', hint=hint)
