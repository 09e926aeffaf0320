"""A batch from beginning to end: look for what is new, run, commit, publish.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from incmrql.diagnostics import DataError
from incmrql.incremental.streams import Program
from incmrql.kernel.batches import Kit, answer_value
from incmrql.kernel.compaction import Chore
from incmrql.kernel.compile import compiled
from incmrql.kernel.crashing import crash_here
from incmrql.kernel.inputs import InputFile
from incmrql.kernel.orders import Order, Target, tables_of_json
from incmrql.kernel.outputs import read_rows
from incmrql.kernel.runs import Run, sync_folder
from incmrql.kernel.table import Table
from incmrql.runtime import sinks
from incmrql.runtime.changed import check_kept, known_program, refuse_other_way, settle_change, ways
from incmrql.runtime.checkpoint import Checkpoint, Output, State, Taken
from incmrql.runtime.compacting import Compactor
from incmrql.runtime.failures import spark_failures, unwritten
from incmrql.runtime.feeds.archive import Archive
from incmrql.runtime.feeds.feed import Feed, News
from incmrql.runtime.lock import Lock
from incmrql.runtime.naming import absolute, as_named
from incmrql.runtime.opening import describe, feeds_of
from incmrql.runtime.options import StreamOptions
from incmrql.runtime.report import BatchReport, report_of
from incmrql.spark.executors import check_executors
from incmrql.spark.streaming import LOOPS, JobResult, StreamJob
from incmrql.values import Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLEAN_EVERY = 20


class Driver:
    """A program on its checkpoint, batch by batch.  Use as a context manager.

    `output` is the folder of the items that do not name one.  `registered` are the data behind
    names, and `pushed` feeds that others fill.
    """

    def __init__(  # noqa: PLR0913 - what it runs, where, and how
        self,
        program: Program,
        checkpoint: Path,
        output: Path | None,
        spark: SparkSession | Callable[[], SparkSession],
        options: StreamOptions | None = None,
        *,
        registered: Mapping[str, Any] | None = None,
        script: Mapping[str, Any] | None = None,
    ) -> None:
        self.options = options or StreamOptions()
        self.program = program = replace(program, iteration=self.options.iteration)
        self.refused: int | None = None
        """The batch that was begun last, if the data forbade it."""
        self.refused_files: tuple[InputFile, ...] = ()
        self._unfinished: Taken | None = None
        """The files of the last batch while it is committed and not published."""
        self.kit = Kit(program, compiled(program, keep_answer=self.options.keep_answer))
        self.sinks = sinks.sinks_of(program, output, self.options.mode, self.options.format)
        for each in self.sinks:
            if each.mode == "snapshot":
                check_kept(self.kit.physical.answers[each.answer])
        checkpoint.mkdir(parents=True, exist_ok=True)
        self.lock = Lock(checkpoint / "lock")
        self.feeds: list[Feed] = []
        self.compactor = Compactor(self._merge, self.options.inline)
        try:
            self.checkpoint = Checkpoint(checkpoint, self.kit.physical.forms)
            described = {**describe(program, script or {}), **ways(self.options)}
            there = self.checkpoint.prepare(described, self.options.buckets)
            known = known_program(self.checkpoint, there, described)
            refuse_other_way(self.checkpoint, known, described)
            rebuild = settle_change(self.checkpoint, known, described, self.options.on_change)
            keep = self.options.keep_input
            archive = self.checkpoint.input / "archive"
            self.archive = Archive(
                archive, "all" if keep is None else keep, folders=keep not in (None, "none")
            )
            self.state = self._recovered()
            self.feeds = feeds_of(
                program, self.checkpoint, self.state, self.options.settle, self.archive,
                registered or {}, window=self.options.window,
            )  # fmt: skip
            self._spark = spark
            self._job: StreamJob | None = None
            if rebuild:
                self._rebuild()
                self.checkpoint.describe(described)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of sources and checkpoint."""
        for feed in self.feeds:
            feed.close()
        self.compactor.close()
        self.lock.release()

    def _merge(self, chore: Chore) -> Run | None:
        return self.job.compact(chore, str(self.checkpoint.runs.absolute()))

    @property
    def job(self) -> StreamJob:
        """The job, made when the first batch needs it."""
        if self._job is None:
            spark = self._spark() if callable(self._spark) else self._spark
            check_executors(spark)
            self._job = StreamJob(spark, self.kit, self.checkpoint.work, self.checkpoint.buckets)
        return self._job

    def _recovered(self) -> State:
        """The committed state, its output published; what killed attempts left is removed."""
        state = self.checkpoint.recovered()
        if self.options.check_runs:
            self.checkpoint.check_runs(state)
        for output in state.outputs:
            sinks.publish(Path(output.folder), state.number, output.attempt, output.parts)
        for folder in {each.folder for each in self.sinks}:
            for left in sinks.leftovers(folder):
                shutil.rmtree(left, ignore_errors=True)
        for left in self.checkpoint.work.glob(f"{LOOPS}*"):
            shutil.rmtree(left, ignore_errors=True)
        self.checkpoint.clean(state, self.options.grace)
        return state

    def answer(self, number: int = 0) -> Value:
        """The whole of an answer after the last batch, from the state; no job is run."""
        check_kept(self.kit.physical.answers[number])
        runs = self.checkpoint.runs.absolute()
        return answer_value(self.kit, number, self.state.tables, runs)

    def changes(self, number: int = 0) -> list[tuple[Value, int]]:
        """What the last batch did to an answer, if changes are kept."""
        answer = self.kit.physical.answers[number]
        found = [read_rows(path, answer) for path in sorted(self._kept(number).glob("*.parquet"))]
        return [row for part in found for row in part]

    def _kept(self, number: int) -> Path:
        return self.checkpoint.work / f"changes-{self.state.number:06d}-{number}"

    # --- batches ---------------------------------------------------------------------------

    def look(self) -> News:
        """What is new in all sources, after a look at what was taken in before."""
        now = time.time()
        found = [feed.look(now) for feed in self.feeds]
        files = tuple(file for news in found for file in news.files)
        return News(files, sum(news.restless for news in found))

    def is_done(self) -> bool:
        """Whether there is nothing to take in, nor will be when what is there has come to rest."""
        news = self.look()
        return not news.restless and not any(map(self._is_streaming, news.files))

    def intended(self) -> tuple[InputFile, ...] | None:
        """The files of a batch that was begun and not committed."""
        return self.checkpoint.intent(self.state.number + 1)

    def step(self) -> BatchReport | None:
        """The next batch, if there is anything to take in; batch 0 may be empty."""
        self._finish_last()
        files = self.intended()
        if files is None:
            files = self._portion(self.look().files)
            if self.state.number >= 0 and not any(map(self._is_streaming, files)):
                return None
        return self.run_batch(files)

    def _portion(self, files: tuple[InputFile, ...]) -> tuple[InputFile, ...]:
        """As many files as a batch takes; those of sources that do not change all at once."""
        most = self.options.max_files_per_batch
        if most is None:
            return files
        once = [file for file in files if not self._is_streaming(file)]
        others = sorted(
            filter(self._is_streaming, files),
            key=lambda file: (file.modified, file.deletes, file.path),
        )
        return (*once, *others[:most])

    def _is_streaming(self, file: InputFile) -> bool:
        return any(each.streaming for each in self.program.streams if each.place == file.place)

    def run_batch(self, files: tuple[InputFile, ...]) -> BatchReport:
        """Take in some files; a batch that the data forbid is as if it had not begun."""
        self._finish_last()
        number, self.refused = self.state.number + 1, None
        try:
            return self._batch(files)
        except DataError:
            if self.state.number < number:
                self.checkpoint.withdraw(number)
                self.refused, self.refused_files = number, files
            raise
        except OSError as cause:
            told = unwritten if self.state.number < number else sinks.unpublished
            raise told(number, (cause.strerror or str(cause)).lower()) from cause

    def _batch(self, files: tuple[InputFile, ...]) -> BatchReport:
        """Intent, run, manifest, publish."""
        start = time.perf_counter()
        number, attempt = self.state.number + 1, uuid.uuid4().hex[:8]
        self.checkpoint.intend(number, files)
        crash_here("intent", number)
        skipped = number == self.options.skip_batch
        targets = () if skipped else self._targets(number, attempt)
        with _removed_on_failure(targets):
            begun = time.perf_counter()
            result = self._run(self._order(number, attempt, () if skipped else files, targets))
            result = replace(result, reading=as_named(result.reading, files))
            ran = time.perf_counter()
            crash_here("runs", number)
            taken = [(file, result.reading.checksums.get(file.path, "")) for file in files]
            self.archive.add(number, taken)
            crash_here("archive", number)
            for target in targets:
                sync_folder(Path(target.folder))
            self._commit(self._outputs(attempt, targets, result), taken, result)
        crash_here("committed", number)
        committed = time.perf_counter()
        places = self._finish()
        done = time.perf_counter()
        times = (ran - begun, begun - start + committed - ran, done - committed, done - start)
        return report_of(self.state, len(files), result, times, places)

    def _commit(self, outputs: tuple[Output, ...], taken: Taken, result: JobResult) -> None:
        reading, done = result.reading, result.done
        counts = {
            "inserted": reading.inserted,
            "deleted": reading.deleted,
            "bad": reading.bad.total(),
            "changed": done.changed,
        }
        tables = self.compactor.swapped(done.tables)
        self.state = self.checkpoint.commit(self.state, tables, outputs, taken, counts)
        self._unfinished = taken

    def _finish_last(self) -> None:
        """Do what a failure after its commit has left of the last batch."""
        try:
            self._finish()
        except OSError as cause:
            why = (cause.strerror or str(cause)).lower()
            raise sinks.unpublished(self.state.number, why) from cause

    def _finish(self) -> list[Path]:
        """Publish a batch that is committed, and let its sources know; not twice."""
        taken, number = self._unfinished, self.state.number
        if taken is None:
            return []
        places = [
            sinks.publish(Path(each.folder), number, each.attempt, each.parts)
            for each in self.state.outputs
        ]
        crash_here("publish", number)
        self._after(number, taken)
        crash_here("after", number)
        self._unfinished = None
        return places

    def _after(self, number: int, taken: Taken) -> None:
        if not self.options.window:
            self.compactor.start(self.state.tables)
        again = {each.place for each in self.program.streams if not each.streaming}
        for feed in self.feeds:
            if not (self.options.window and feed.place in again):
                feed.taken([each for each in taken if each[0].place == feed.place])
        if number > 0 and self.options.keep_changes:
            for answer in range(len(self.kit.physical.answers)):
                old = self.checkpoint.work / f"changes-{number - 1:06d}-{answer}"
                shutil.rmtree(old, ignore_errors=True)
        if number % _CLEAN_EVERY == 0:
            self.checkpoint.clean(self.state, self.options.grace)
            self.archive.clean(number)

    def _targets(self, number: int, attempt: str) -> tuple[Target, ...]:
        """Where the answers of a batch are written; all folders are there when this returns."""
        found: list[Target] = []
        with _removed_on_failure(found):
            for each in self.sinks:
                folder = sinks.prepare(each.folder, number, attempt)
                found.append(Target(each.answer, str(folder.absolute()), each.mode, each.format))
            if self.options.keep_changes:
                for answer in range(len(self.kit.physical.answers)):
                    folder = self.checkpoint.work / f"changes-{number:06d}-{answer}"
                    shutil.rmtree(folder, ignore_errors=True)
                    folder.mkdir(parents=True)
                    found.append(Target(answer, str(folder.absolute()), "rows"))
        return tuple(found)

    def _outputs(
        self, attempt: str, targets: Sequence[Target], result: JobResult
    ) -> tuple[Output, ...]:
        """The outputs that are published, with the parts that the job has written."""
        found = []
        for place, each in enumerate(self.sinks):
            if place < len(targets):
                parts = tuple(p.file for p in result.done.parts if p.target == place)
                found.append(Output(str(each.folder.absolute()), attempt, parts))
        return tuple(found)

    def _order(
        self,
        number: int,
        attempt: str,
        files: tuple[InputFile, ...],
        targets: tuple[Target, ...],
    ) -> Order:
        first, tables = number == 0 or self.options.window, self.tables_before()
        runs = str(self.checkpoint.runs.absolute())
        return Order(
            number, attempt, absolute(files), tables, self.checkpoint.buckets, runs, targets, first,
            self.compactor.limits,
        )  # fmt: skip

    def tables_before(self) -> Mapping[str, Table]:
        """The state that the next batch starts from."""
        if self.options.window:
            return tables_of_json({}, self.kit.physical.forms, self.checkpoint.buckets)
        return self.state.tables

    def _run(self, order: Order) -> JobResult:
        """The job of a batch."""
        job = self.job
        with spark_failures(order.number):
            return job.run(order, large=self.options.large, loop_rows=self.options.loop_rows)

    def replayed(self) -> tuple[InputFile, ...]:
        """The files that the answers are of, as they are kept, without those of skipped batches.

        Refused if one is no longer there.
        """
        batches = self.checkpoint.batches()
        if self.options.window and self.state.number >= 0:
            batches = [self.checkpoint.files(self.state.number)]
        read = [[each for each in files if each[1]] for files in batches]
        return absolute(self.archive.replay(read))

    def rebuilt(self, files: Sequence[InputFile], folder: Path) -> Mapping[str, Table]:
        """The tables that files build as one batch, with runs in a folder; nothing is committed."""
        tables = tables_of_json({}, self.kit.physical.forms, self.checkpoint.buckets)
        number, attempt = self.state.number + 1, uuid.uuid4().hex[:8]
        runs, buckets = str(folder.absolute()), self.checkpoint.buckets
        order = Order(number, attempt, tuple(files), tables, buckets, runs, is_first=True)
        large, loop_rows = self.options.large, self.options.loop_rows
        return self.job.run(order, large=large, loop_rows=loop_rows).done.tables

    def _rebuild(self) -> None:
        """Build the state again from all input so far, as one batch."""
        if self.state.number < 0:
            return
        tables = self.rebuilt(self.replayed(), self.checkpoint.runs)
        counts = {"rebuilt": self.program.identity}
        self.state = self.checkpoint.commit(self.state, tables, (), [], counts)


@contextmanager
def _removed_on_failure(targets: Sequence[Target]) -> Iterator[None]:
    """What a batch that does not come to its commit has written for its targets is removed."""
    try:
        yield
    except Exception:
        for target in targets:
            shutil.rmtree(target.folder, ignore_errors=True)
        raise
