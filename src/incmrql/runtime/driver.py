"""A batch from beginning to end: look for what is new, run, commit, publish.

    intent    the files of the batch, on disk
    run       one Spark job writes state files and parts under names of its own
    check     the driver finds every file that the job says it wrote
    manifest  created exclusively: the batch has happened
    publish   the output appears by rename, and that is noted

Whatever is killed between two of these resumes at the next start: an intent without a manifest is
run again with the same files, a manifest without its output is published.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from incmrql.engine.batch import CompiledProgram, answer_value
from incmrql.engine.compile.program import compile_program
from incmrql.engine.inputs import InputFile
from incmrql.engine.messages import BatchRequest, Target, tables_of_json
from incmrql.engine.outputs import read_rows
from incmrql.engine.store.compaction import CompactionTask
from incmrql.engine.store.segments import Segment
from incmrql.engine.store.tables import StateTable
from incmrql.errors import CheckpointError, DataError
from incmrql.io.files import ANYWHERE
from incmrql.plan.program import Program
from incmrql.runtime import quarantine
from incmrql.runtime.arithmetic import Failure, Tallies, Tally, failures, refuse_failures
from incmrql.runtime.checkpoint import files as batch_files
from incmrql.runtime.checkpoint.compatibility import (
    check_answer_kept,
    check_state_options,
    needs_rebuild,
    state_options,
)
from incmrql.runtime.checkpoint.lock import Lock
from incmrql.runtime.checkpoint.manifests import (
    Checkpoint,
    Commit,
    Kind,
    Output,
    State,
    Taken,
    create_folders,
)
from incmrql.runtime.checkpoint.program import describe, feeds_of
from incmrql.runtime.checkpoint.rewrite import Retraction
from incmrql.runtime.compacting import Compactor
from incmrql.runtime.failures import spark_failures, unskippable, unstarted, unwritten
from incmrql.runtime.feeds.archive import Archive
from incmrql.runtime.feeds.removal import (
    exempt_from_checks,
    pending_removals,
    removals,
    with_checksums,
)
from incmrql.runtime.feeds.spooled import Arrivals, Feed
from incmrql.runtime.options import StreamOptions
from incmrql.runtime.reach import (
    NamedFiles,
    Reach,
    check_files,
    check_outputs,
    check_sources,
    refuse_overlaps,
)
from incmrql.runtime.report import BatchReport, report_of
from incmrql.runtime.sinks import folders as sinks
from incmrql.runtime.sinks.binding import Binding, bind, refuse_used
from incmrql.runtime.sinks.folders import Sink
from incmrql.spark.clusters import check_executors
from incmrql.spark.stream_job import LOOPS, REQUEST, JobResult, StreamJob
from incmrql.storage import sync_directory
from incmrql.storage.files import crash_here
from incmrql.values import Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_CLEAN_EVERY = 20
_CHANGES = "changes-"


class Driver:
    """A program on its checkpoint, batch by batch.  Use as a context manager.

    `output` is the folder of the items that do not name one; without it the output that the
    checkpoint has recorded continues.  `registered` are the data behind names.  One that is
    `read_only` looks at the committed state and changes nothing, beside a driver that writes.
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
        read_only: bool = False,
    ) -> None:
        self.options = options or StreamOptions()
        self.program = program = replace(program, iteration=self.options.iteration)
        self.refused: int | None = None
        """The batch that was begun last, if the data forbade it."""
        self.refused_files: tuple[InputFile, ...] = ()
        self.rebuilt_from: int | None = None
        """The number of files that the state was built from at this start; None if it was kept."""
        self.on_notice: Callable[[str], None] = lambda _notice: None
        """Called with what a user should know of the sources, each thing once."""
        self._notices: list[str] = []
        self._settled: tuple[InputFile, ...] = ()
        """The files that are forgotten or retracted by the next batch."""
        self._unfinished: Taken | None = None
        """The files of the last batch while it is committed and not published."""
        self.is_committing = False
        """Whether a manifest is being written, or its batch is not published yet."""
        physical = compile_program(program, keep_answer=self.options.keep_answer)
        self.compiled = CompiledProgram(program, physical, self.options.paths.also(checkpoint))
        self.tallies = Tallies(self.compiled, checkpoint.absolute() / "runs")
        self.feeds: list[Feed] = []
        self.binding = Binding(())
        self._spark = spark
        self._job: StreamJob | None = None
        self.checkpoint = Checkpoint(checkpoint, self.compiled.physical.schemas)
        self.compactor = Compactor(self._merge, self.options.inline, self.checkpoint.attempt)
        self.lock: Lock | None = None
        self._description = {
            **describe(program, script or {}, self.compiled.physical.tables),
            **state_options(self.options, program),
        }
        try:
            if read_only:
                self.state = self._read_only()
            else:
                if self.options.reads_sources:
                    check_sources(program, self.compiled.paths)
                create_folders(checkpoint, (), self.options.checkpoint_mode)
                self.lock = Lock(checkpoint / "lock")
                self._start(output, registered or {})
        except OSError as cause:
            self.close()
            raise unstarted(checkpoint, cause) from cause
        except BaseException:
            self.close()
            raise

    def _read_only(self) -> State:
        known = self.checkpoint.described()
        check_state_options(self.checkpoint, known, self._description)
        needs_rebuild(self.checkpoint, known, self._description, "refuse")
        state = self.checkpoint.recovered()
        if self.options.check_runs:
            self.checkpoint.check_runs(state)
        self.archive = Archive(self.checkpoint.input / "archive", read_only=True)
        return state

    def _start(self, output: Path | None, registered: Mapping[str, Any]) -> None:
        """Become the writer of the checkpoint, and finish what its last writer has left."""
        checkpoint, options, program = self.checkpoint, self.options, self.program
        known = checkpoint.prepare(options.checkpoint_mode)
        rebuild = False
        if known is not None and checkpoint.batch >= 0:
            check_state_options(checkpoint, known, self._description)
            rebuild = needs_rebuild(checkpoint, known, self._description, options.on_change)
        recorded = checkpoint.sinks
        has_batches = checkpoint.batch >= 0
        self.binding = bind(program, recorded, output, options, has_batches=has_batches)
        for sink in self.binding.sinks:
            if sink.mode == "snapshot":
                check_answer_kept(self.compiled.physical.answers[sink.answer])
        refuse_used(self.binding.fresh if has_batches else self.binding.sinks)
        check_outputs(checkpoint, self.binding.sinks, self.compiled.paths)
        refuse_overlaps(program, checkpoint.folder, self.binding.sinks, options.quarantine)
        keep = options.keep_input
        self.archive = Archive(
            checkpoint.input / "archive",
            "all" if keep is None else keep,
            folders=keep not in (None, "none"),
        )
        # What changes the state or the answers in the outputs is recorded with the batch that
        # does it; until then the checkpoint is that of the program and outputs before.
        is_changed = rebuild or bool(self.binding.fresh)
        described = known if rebuild and known is not None else self._description
        bound = recorded if is_changed else self.binding.as_json(program)
        self.state = checkpoint.take_over(described, bound, options.buckets)
        self._recover()
        if options.reads_sources:
            self.feeds = feeds_of(
                program, checkpoint, self.state, options.settle, self.archive, registered,
                window=options.window, allow_empty=options.allow_empty,
            )  # fmt: skip
        if is_changed:
            self._change_program(recorded, rebuild=rebuild)
        self._settled = removals(options, checkpoint, self.state, self.archive)
        exempt_from_checks(self.feeds, self._settled)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of sources and checkpoint."""
        for feed in self.feeds:
            feed.close()
        self.compactor.close()
        if self.lock is not None:
            self.lock.release()

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """The folders that get the answers."""
        return self.binding.sinks

    def _merge(self, chore: CompactionTask) -> Segment | None:
        return self.job.compact(chore, str(self.checkpoint.runs.absolute()))

    @property
    def job(self) -> StreamJob:
        """The job, made when the first batch needs it."""
        if self._job is None:
            spark = self._spark() if callable(self._spark) else self._spark
            check_executors(spark)
            self._job = StreamJob(
                spark, self.compiled, self.checkpoint.work, self.checkpoint.buckets
            )
        return self._job

    def _recover(self) -> None:
        """Publish what is committed and not published; remove what killed attempts left."""
        state = self.state
        if self.options.check_runs:
            self.checkpoint.check_runs(state)
        self._publish()
        folders = {sink.folder for sink in self.sinks} | {Path(o.folder) for o in state.outputs}
        for folder in folders:
            for left in sinks.leftovers(folder, self.checkpoint.id):
                shutil.rmtree(left, ignore_errors=True)
        kept = state.changes.get("attempt")
        for left in self.checkpoint.work.iterdir():
            if left.name.startswith((LOOPS, _CHANGES, REQUEST)) and (
                kept is None or kept not in left.name
            ):
                shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()
        self.checkpoint.clean(state, self.options.grace, self.compactor.is_open)

    def _publish(self) -> list[Path]:
        """Publish the outputs of the last batch, unless that was noted."""
        outputs, number = self.state.outputs, self.state.number
        if not outputs or self.checkpoint.is_published(number):
            return []
        self.checkpoint.check_newest()
        owner = self.checkpoint.id
        folders = []
        for output in outputs:
            if output.kind == "quarantine":
                quarantine.publish(output, owner, number)
            else:
                folders.append(sinks.publish(output, owner, number))
        self.checkpoint.note_published(number)
        return folders

    def answer(self, number: int = 0) -> Value:
        """The whole of an answer after the last batch, from the state; no job is run."""
        check_answer_kept(self.compiled.physical.answers[number])
        runs = self.checkpoint.runs.absolute()
        return answer_value(self.compiled, number, self.state.tables, runs)

    def changes(self, number: int = 0) -> list[tuple[Value, int]]:
        """What the last batch did to an answer, if changes are kept.

        Only the parts that the committed result names count: attempts of tasks that were given up
        may have left others beside them.
        """
        answer, kept = self.compiled.physical.answers[number], self.state.changes
        if not kept:
            return []
        folder = self._changes_folder(self.state.number, kept["attempt"], number)
        parts = [read_rows(folder / part, answer) for part in kept["parts"][number]]
        return [row for part in parts for row in part]

    def _changes_folder(self, number: int, attempt: str, answer: int) -> Path:
        return self.checkpoint.work / f"{_CHANGES}{number:06d}-{attempt}-{answer}"

    # --- batches ---------------------------------------------------------------------------

    def poll(self) -> Arrivals:
        """What is new in all sources, after a look at what was taken in before."""
        now = time.time()
        with unskippable(self.options.skip_batch):
            found = [feed.poll(now) for feed in self.feeds]
        for notice in (notice for news in found for notice in news.notices):
            self._notices.append(notice)
            self.on_notice(notice)
        files = tuple(file for news in found for file in news.files)
        return Arrivals(files, sum(news.unsettled for news in found))

    def is_idle(self) -> bool:
        """Whether no batch is due: nothing is begun, no input is ready or still settling."""
        if self.state.number < 0 or self._settled or self.intended() is not None:
            return False
        news = self.poll()
        return not news.unsettled and not any(map(self._is_streaming, news.files))

    def intended(self) -> tuple[InputFile, ...] | None:
        """The files of a batch that was begun and not committed."""
        return self.checkpoint.intent(self.state.number + 1)

    def step(self) -> BatchReport | None:
        """The next batch, if there is anything to take in; batch 0 may be empty."""
        self._finish_last()
        files = self.intended()
        if files is None and self._settled:
            files = self._settled
        elif files is None:
            most = self.options.max_files_per_batch
            files = batch_files.portion(self.poll().files, most, self._is_streaming)
            if self.state.number >= 0 and not any(map(self._is_streaming, files)):
                return None
        return self.run_batch(files)

    def _is_streaming(self, file: InputFile) -> bool:
        return any(each.streaming for each in self.program.streams if each.place == file.place)

    def run_batch(self, files: tuple[InputFile, ...]) -> BatchReport:
        """Take in some files; a batch that the data forbid is as if it had not begun."""
        self._finish_last()
        number, self.refused = self.state.number + 1, None
        try:
            check_files(files, self.compiled.paths)
            return self._batch(files)
        except DataError:
            if self.state.number < number:
                self.checkpoint.check_newest()
                self.checkpoint.withdraw(number)
                self.refused, self.refused_files = number, files
            raise
        except CheckpointError:
            self.checkpoint.check_newest()  # what a rival has done is no riddle then
            raise
        except OSError as cause:
            self.checkpoint.check_newest()
            told = unwritten if self.state.number < number else sinks.unpublished
            raise told(number, (cause.strerror or str(cause)).lower()) from cause

    def _batch(self, files: tuple[InputFile, ...]) -> BatchReport:
        """Intent, run, manifest, publish."""
        start = time.perf_counter()
        number, attempt = self.state.number + 1, self.checkpoint.attempt()
        self.checkpoint.intend(number, files)
        crash_here("intent", number)
        skipped = number == self.options.skip_batch
        bound = () if skipped else self.sinks
        kept = self.options.keep_changes and not skipped
        with (
            self._staged(number, attempt, bound, keep_changes=kept) as targets,
            self._quarantined(number, attempt) as bad,
        ):
            begun = time.perf_counter()
            read = tuple(file for file in files if not (skipped or file.forgotten))
            order = self._order(number, attempt, read, targets)
            result = self._run(replace(order, quarantine=bad, names=batch_files.names_of(files)))
            result = replace(result, reading=batch_files.as_named(result.reading, files))
            ran = time.perf_counter()
            crash_here("runs", number)
            taken = with_checksums(files, result.reading.checksums, self.state)
            self.archive.add(number, taken)
            crash_here("archive", number)
            for target in targets:
                sync_directory(Path(target.folder))
            batch_files.check_written(order, result.done)
            batch_files.check_quarantine(bad, result.reading)
            tallies = self._tallies(result, number)
            self._commit(self._change(attempt, targets, taken, result))
            self.tallies.remember(tallies, number)
        crash_here("committed", number)
        committed = time.perf_counter()
        places = self._finish()
        done = time.perf_counter()
        times = (ran - begun, begun - start + committed - ran, done - committed, done - start)
        scopes = self.compiled.physical.scopes
        report = report_of(self.state, files, result, times, places, scopes)
        errors = self.tallies.report(tallies) if self.program.watches else None
        report, self._notices = replace(report, notices=tuple(self._notices), errors=errors), []
        return report

    def _tallies(self, result: JobResult, number: int) -> list[Tally]:
        """What arithmetic fails after a batch that ran; refused where that is not wanted."""
        done = result.done
        done.changed = done.changed[: len(self.program.outputs)]
        tables = {**self.tables_before(), **done.tables}
        before = None if self.options.window else self.state.number
        tallies = self.tallies.after(done.watched, tables, before)
        if self.options.on_arithmetic == "fail":
            refuse_failures(self.tallies.report(tallies), number)
        return tallies

    def failures(self) -> list[Failure]:
        """The rows for which arithmetic fails after the last batch, from the state."""
        if self.state.number < 0:
            return []
        return failures(self.compiled, self.state.tables, self.checkpoint.runs.absolute())

    def _change(
        self, attempt: str, targets: Sequence[Target], taken: Taken, result: JobResult
    ) -> Commit:
        """What the manifest of a batch adds to the state."""
        reading, done = result.reading, result.done
        counts = {
            "inserted": reading.inserted,
            "deleted": reading.deleted,
            "bad": reading.bad.total(),
            "changed": done.changed,
        }
        outputs = sinks.outputs_of(attempt, self.sinks, targets, done.parts)
        if reading.quarantined:
            assert self.options.quarantine is not None
            names = tuple(sorted(name for name, _ in reading.quarantined))
            folder = str(self.options.quarantine.absolute())
            outputs += (Output(folder, attempt, names, "quarantine"),)
        changes: dict[str, Any] = {}
        if self.options.keep_changes and len(targets) > len(self.sinks):
            first = len(self.sinks)
            parts = [
                [part.file for part in done.parts if part.target == first + answer]
                for answer in range(len(self.program.outputs))
            ]
            changes = {"attempt": attempt, "parts": parts}
        tables = self.compactor.swapped(done.tables)
        return Commit(tables, outputs, taken, counts, changes, attempt=attempt)

    def _commit(self, change: Commit) -> None:
        before = self.state.changes
        self.is_committing = True
        try:
            self.state = self.checkpoint.commit(self.state, change)
        except BaseException:
            self.is_committing = False
            raise
        self._unfinished = change.files
        if before:
            for answer in range(len(self.program.outputs)):
                old = self._changes_folder(self.state.number - 1, before["attempt"], answer)
                shutil.rmtree(old, ignore_errors=True)

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
        try:
            self.checkpoint.sync()
            places = self._publish()
        finally:
            self.is_committing = False
        crash_here("publish", number)
        self._after(number, taken)
        self._settled = pending_removals(self._settled, self.state)
        exempt_from_checks(self.feeds, self._settled)
        crash_here("after", number)
        self._unfinished = None
        return places

    def _after(self, number: int, taken: Taken) -> None:
        if not self.options.window:
            self.compactor.start(self.state.tables)
        again = {each.place for each in self.program.streams if not each.streaming}
        for feed in self.feeds:
            if not (self.options.window and feed.place in again):
                feed.acknowledge([each for each in taken if each[0].place == feed.place])
        if number % _CLEAN_EVERY == 0:
            self.checkpoint.clean(self.state, self.options.grace, self.compactor.is_open)
            self.archive.clean(number)

    @contextmanager
    def _staged(
        self, number: int, attempt: str, bound: Sequence[Sink], *, keep_changes: bool = False
    ) -> Iterator[tuple[Target, ...]]:
        """Hidden folders for the answers of a batch; removed if it does not come to its commit."""
        folders: list[Path] = []
        try:
            targets = []
            for sink in bound:
                folders.append(sinks.prepare(sink.folder, self.checkpoint.id, number, attempt))
                where = str(folders[-1].absolute())
                targets.append(Target(sink.answer, where, sink.mode, sink.format))
            for answer in range(len(self.program.outputs)) if keep_changes else ():
                folders.append(self._changes_folder(number, attempt, answer))
                folders[-1].mkdir(parents=True)
                targets.append(Target(answer, str(folders[-1].absolute()), "rows"))
            yield tuple(targets)
        except Exception:
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
            raise

    @contextmanager
    def _quarantined(self, number: int, attempt: str) -> Iterator[str]:
        """A hidden folder for bad rows; tasks create it when they meet one."""
        if self.options.quarantine is None:
            yield ""
            return
        folder = sinks.staging(self.options.quarantine, self.checkpoint.id, number, attempt)
        try:
            yield str(folder.absolute())
        except Exception:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _order(
        self,
        number: int,
        attempt: str,
        files: tuple[InputFile, ...],
        targets: tuple[Target, ...],
    ) -> BatchRequest:
        first, tables = number == 0 or self.options.window, self.tables_before()
        buckets, runs = self.checkpoint.buckets, str(self.checkpoint.runs.absolute())
        named, limits = batch_files.absolute(files), self.compactor.limits
        return BatchRequest(number, attempt, named, tables, buckets, runs, targets, first, limits)

    def tables_before(self) -> Mapping[str, StateTable]:
        """The state that the next batch starts from."""
        if self.options.window:
            return tables_of_json({}, self.compiled.physical.schemas, self.checkpoint.buckets)
        return self.state.tables

    def _run(self, order: BatchRequest) -> JobResult:
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
        reach: Reach = self.compiled.paths
        if self.lock is None and reach == ANYWHERE:
            reach = NamedFiles(self.program, self.checkpoint.folder)
        return batch_files.absolute(self.archive.replay(read, reach))

    def rebuilt(self, files: Sequence[InputFile], folder: Path) -> Mapping[str, StateTable]:
        """The tables that files build as one batch, with runs in a folder; nothing is committed."""
        tables = tables_of_json({}, self.compiled.physical.schemas, self.checkpoint.buckets)
        number, attempt = self.state.number + 1, self.checkpoint.attempt()
        runs, buckets = str(folder.absolute()), self.checkpoint.buckets
        order = BatchRequest(number, attempt, tuple(files), tables, buckets, runs, is_first=True)
        large, loop_rows = self.options.large, self.options.loop_rows
        done = self.job.run(order, large=large, loop_rows=loop_rows).done
        batch_files.check_written(order, done)
        return done.tables

    def _change_program(self, recorded: Sequence[Mapping[str, Any]], *, rebuild: bool) -> None:
        """Commit a batch without input: new state, new outputs, or both.

        A folder that had the answer of the old program gets what leads to that of the new one; a
        folder that is new gets the whole answer.
        """
        checkpoint, attempt = self.checkpoint, self.checkpoint.attempt()
        number = self.state.number + 1
        changed = self.sinks if rebuild else self.binding.fresh
        before = (
            Retraction.of(checkpoint, changed, recorded, self.compiled.paths) if rebuild else None
        )
        tables = self.state.tables
        if rebuild:
            files = self.replayed()
            tables = self.rebuilt(files, checkpoint.runs)
            self.rebuilt_from = len(files)
        with self._staged(number, attempt, () if self.options.window else changed) as targets:
            order = replace(self._order(number, attempt, (), targets), tables=tables)
            parts = self.job.write_answers(order, 1) if targets else []
            if before is not None and targets:
                parts += before.write(self.job, order)
            for target in targets:
                sync_directory(Path(target.folder))
            batch_files.check_parts(order, parts)
            outputs = sinks.outputs_of(attempt, changed, targets, parts)
            checkpoint.program = dict(self._description)
            checkpoint.sinks = self.binding.as_json(self.program)
            counts = {"rebuilt": self.program.identity} if rebuild else {}
            kind: Kind = "rebuild" if rebuild else "output"
            self._commit(Commit(tables, outputs, (), counts, kind=kind, attempt=attempt))
        self._finish()
