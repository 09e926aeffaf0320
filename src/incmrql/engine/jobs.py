"""What runs the batches of a program: the interface that a driver works with.

Spark runs them in its tasks (`spark.stream_job`), and `local` in this process.  Both run the same
functions over the same requests, so that state and answers have the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from incmrql.engine.batch import CompiledProgram
from incmrql.engine.inputs import InputFile
from incmrql.engine.messages import BagSummary, BatchRequest, BatchResult, Part, Reading
from incmrql.engine.store.compaction import CompactionTask
from incmrql.engine.store.segments import Segment
from incmrql.errors import DataError, InternalError
from incmrql.plan.program import Stream

LARGE: Final = 16 << 20
"""Bytes of input; a batch with at least as many runs in stages instead of one task."""
LOOP_ROWS: Final = 1 << 24
"""Rows of inputs, and of each step, up to which one task runs a loop of a stream."""
LOOPS: Final = "loops-"
"""Prefix of the directories that hold the rows of loops offloaded to Spark."""
REQUEST: Final = "request-"
"""Prefix of the files that hold the request of a batch."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a batch, and how many jobs, stages and tasks Spark ran for it."""

    reading: Reading
    done: BatchResult
    jobs: int
    stages: int
    tasks: int


class Job(Protocol):
    """Runs a program batch by batch, and what a driver needs besides."""

    def run(
        self, request: BatchRequest, *, large: int = LARGE, loop_rows: int = LOOP_ROWS
    ) -> JobResult:
        """Run a batch; raises the problems that its tasks report."""
        ...

    def spool(self, stream: Stream, files: Sequence[InputFile], folder: Path) -> list[InputFile]:
        """The rows of files as the reader of a stream reads them, in spools of a directory."""
        ...

    def write_answers(self, request: BatchRequest) -> list[Part]:
        """Write all rows of answers to the targets of a request."""
        ...

    def write_differences(
        self, request: BatchRequest, old: BatchRequest, old_program: CompiledProgram,
        places: Sequence[int],
    ) -> list[Part]:  # fmt: skip
        """Write to some targets the rows in which their answers differ from old ones."""
        ...

    def summarize(self, request: BatchRequest, numbers: Sequence[int]) -> list[BagSummary]:
        """The sizes and least rows of some answers, which are bags, in the tables of a request."""
        ...

    def compact(self, compaction: CompactionTask, runs: str) -> Segment | None:
        """Merge segments; may be called from another thread."""
        ...


def trusted_deletes_error(compiled: CompiledProgram, problem: str) -> Exception:
    """The error for a weight below zero: with `trusted_deletes`, a deletion of a missing row."""
    names = [s.name for s in compiled.program.streams if s.streaming and not s.ledger]
    if not names:
        return InternalError(problem)
    message = f"a row is deleted that is not there: {problem}"
    hint = "Without trusted_deletes such a batch is refused, and the row is named."
    return DataError("R205", message, place=", ".join(names), hint=hint)
