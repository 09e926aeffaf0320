"""A batch from beginning to end: look for new files, run, commit, publish.

    intent    the files of the batch, on disk
    run       one Spark job writes runs and parts under names of its own
    manifest  created exclusively: the batch has happened
    publish   the output appears by rename

Whatever is killed between two of these goes on at the next start: an intent without a manifest is
run again with the same files, a manifest without its output is published.
"""

from __future__ import annotations

import shutil
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from incmrql.diagnostics import DataError
from incmrql.incremental import Program
from incmrql.kernel.batch import whole_answer
from incmrql.kernel.ledger import Missing
from incmrql.kernel.order import Order
from incmrql.kernel.output import Format, Mode, read_part
from incmrql.kernel.reading import InputFile
from incmrql.runtime import sinks
from incmrql.runtime.checkpoint import Checkpoint, Output, State
from incmrql.runtime.durable import crash_here
from incmrql.runtime.folder import Consumed, News, check_consumed, listing, news
from incmrql.runtime.lock import Lock
from incmrql.runtime.report import BatchReport, report_of
from incmrql.spark.stream import LARGE, JobResult, StreamJob
from incmrql.values import Bag, Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLEAN_EVERY = 20


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream runs; times are in seconds."""

    mode: Mode = "changes"
    format: Format = "parquet"
    trigger: float = 1.0
    """Time from the start of a look at the folder to the next."""
    settle: float = 1.0
    """How long a file must not have changed."""
    available_now: bool = False
    """Take in what is there, then end."""
    max_batches: int | None = None
    max_files_per_batch: int | None = None
    buckets: int = 8
    """Of a new checkpoint; an old one keeps its number."""
    large: int = LARGE
    """Bytes from which on a change is read in many tasks."""
    grace: float = 60.0
    """How long files that nobody names are left alone."""
    check_runs: bool = True
    """Whether checksums of the state are compared at the start."""


class Driver:
    """A program on its checkpoint, batch by batch.  Use as a context manager."""

    def __init__(
        self,
        program: Program,
        checkpoint: Path,
        output: Path | None,
        spark: SparkSession,
        options: StreamOptions | None = None,
    ) -> None:
        self.program, self.options = program, options or StreamOptions()
        self.output = output
        checkpoint.mkdir(parents=True, exist_ok=True)
        self.lock = Lock(checkpoint / "lock")
        try:
            self.checkpoint = Checkpoint(checkpoint, program, self.options.buckets)
            self.state = self._recovered()
            self.job = StreamJob(spark, program, self.state.tables, self.checkpoint.work)
        except BaseException:
            self.lock.release()
            raise

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def _recovered(self) -> State:
        """The committed state, its output published; what killed attempts left is removed."""
        state = self.checkpoint.recovered()
        if self.options.check_runs:
            self.checkpoint.check_runs(state)
        if self.output is not None:
            if state.number >= 0 and state.output.attempt:
                sinks.publish(self.output, state.number, state.output.attempt, state.output.parts)
            for folder in sinks.leftovers(self.output):
                shutil.rmtree(folder, ignore_errors=True)
        self.checkpoint.clean(state, self.options.grace)
        return state

    def answer(self) -> Bag:
        """The whole answer after the last batch, from the state; no job is run."""
        return whole_answer(self.program, self.state.node, self.checkpoint.runs.absolute())

    def changes(self, report: BatchReport) -> list[tuple[Value, int]]:
        """What a batch did to the answer, read from its output (Parquet only)."""
        element = self.program.answer.element
        parts = [] if report.output is None else sorted(report.output.glob("*.parquet"))
        return [row for part in parts for row in read_part(part, element)]

    # --- batches ---------------------------------------------------------------------------

    def look(self) -> News:
        """What is new, after a look at what was taken in before."""
        there = listing(self.program.stream)
        touched = check_consumed(there, self.state.consumed)
        self.state.consumed.update(touched)
        return news(there, self.state.consumed, time.time(), self.options.settle)

    def intended(self) -> tuple[InputFile, ...] | None:
        """The files of a batch that was begun and not committed."""
        return self.checkpoint.intent(self.state.number + 1)

    def step(self) -> BatchReport | None:
        """The next batch, if there is anything to take in; batch 0 may be empty."""
        files = self.intended()
        if files is None:
            files = self.look().files[: self.options.max_files_per_batch]
            if not files and self.state.number >= 0:
                return None
        return self.run_batch(files)

    def run_batch(self, files: tuple[InputFile, ...]) -> BatchReport:
        """Take in some files: intent, run, manifest, publish."""
        start = time.perf_counter()
        number, attempt = self.state.number + 1, uuid.uuid4().hex[:8]
        self.checkpoint.intend(number, files)
        crash_here("intent", number)
        staging = None if self.output is None else sinks.prepare(self.output, number, attempt)
        begun = time.perf_counter()
        result = self._run(self._order(number, attempt, files, staging), staging)
        ran = time.perf_counter()
        crash_here("runs", number)
        output = Output(attempt, tuple(part.file for part in result.applied.parts))
        taken = result.taken
        consumed: Consumed = {file.path: (file, taken.checksums[file.path]) for file in files}
        counts = {"inserted": taken.inserted, "deleted": taken.deleted, "bad": taken.bad.total()}
        written = output if staging is not None else Output()
        self.state = self.checkpoint.commit(self.state, result.applied, written, consumed, counts)
        crash_here("manifest", number)
        committed = time.perf_counter()
        place = None
        if self.output is not None:
            place = sinks.publish(self.output, number, attempt, output.parts)
        crash_here("publish", number)
        done = time.perf_counter()
        if number % _CLEAN_EVERY == 0:
            self.checkpoint.clean(self.state, self.options.grace)
        times = (ran - begun, begun - start + committed - ran, done - committed, done - start)
        return report_of(self.state, len(files), result, times, place)

    def _order(
        self, number: int, attempt: str, files: tuple[InputFile, ...], staging: Path | None
    ) -> Order:
        return Order(
            number,
            attempt,
            files,
            self.state.node,
            self.state.ledger,
            str(self.checkpoint.runs.absolute()),
            "" if staging is None else str(staging.absolute()),
            self.options.mode,
            self.options.format,
        )

    def _run(self, order: Order, staging: Path | None) -> JobResult:
        """The job; a batch that the data forbid is taken back as if it had not begun."""
        try:
            result = self.job.run(order, large=self.options.large)
            if result.applied.refused is not None:
                raise _not_there(result.applied.refused, self.program)
        except DataError:
            self.checkpoint.withdraw(order.number)
            if staging is not None:
                shutil.rmtree(staging, ignore_errors=True)
            raise
        return result


def _not_there(missing: Missing, program: Program) -> DataError:
    more = missing.count - len(missing.shown)
    shown = ", ".join(missing.shown) + (f" and {more} more" if more > 0 else "")
    hint = "Mend or remove the file that deletes them; the batch was not taken in."
    place = program.stream.deletes or program.stream.path
    return DataError(
        "R205", f"rows are deleted that are not there: {shown}", place=place, hint=hint
    )
