"""The driver runs a batch from the poll of its sources to the commit.

    intent    write down the files of the batch
    run       one Spark job writes state files and output parts, under names no other attempt has
    check     find every file that the job reports
    manifest  create it exclusively: from here on the batch has happened
    publish   make the output visible by rename, and note that

A run that is killed between two of these steps resumes at its next start: an intent without a
manifest is run again with the same files, and a manifest without its output is published.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from incmrql.engine.batch import CompiledProgram, answer_value
from incmrql.engine.compile.program import compile_program
from incmrql.engine.inputs import InputFile
from incmrql.engine.jobs import Job, JobResult
from incmrql.engine.messages import BagSummary, BatchRequest, Target, tables_of_json
from incmrql.engine.store.compaction import CompactionTask
from incmrql.engine.store.segments import Segment
from incmrql.engine.store.tables import StateTable
from incmrql.errors import CheckpointError, DataError, IncmrqlError
from incmrql.io.files import ANYWHERE
from incmrql.plan.program import Program, Stream
from incmrql.runtime.arithmetic import Failure, Watched, failures, refuse_failures
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
    Ingested,
    Kind,
    State,
    create_folders,
)
from incmrql.runtime.checkpoint.program import describe, feeds_of
from incmrql.runtime.checkpoint.rewrite import Retraction
from incmrql.runtime.compacting import Compactor
from incmrql.runtime.failures import spark_failures, start_error, unskippable, write_failure
from incmrql.runtime.feeds.archive import Archive
from incmrql.runtime.feeds.kept_values import with_kept_values
from incmrql.runtime.feeds.readers import ReaderFeed
from incmrql.runtime.feeds.removal import (
    exempt_from_checks,
    pending_removals,
    removals,
    with_checksums,
    without_retracted,
)
from incmrql.runtime.feeds.spooled import Arrivals, Feed
from incmrql.runtime.jobs import Runner, job_of
from incmrql.runtime.options import StreamOptions
from incmrql.runtime.progress import BatchProgress
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
from incmrql.runtime.sinks.batches import BatchOutputs
from incmrql.runtime.sinks.binding import SinkBinding, bind, refuse_used
from incmrql.runtime.sinks.current import CurrentAnswers
from incmrql.runtime.sinks.folders import Sink
from incmrql.runtime.waiting import lags_of, next_and_later_files
from incmrql.storage import fsync
from incmrql.storage.files import crash_here
from incmrql.values import Value

_CLEAN_EVERY = 20


class Driver:
    """A program on its checkpoint, batch by batch.  Use as a context manager.

    `output` is the directory of the items that name none; without it the recorded output
    continues.  Without `spark` the batches run in this process.  `registered` is the data behind
    registered names.  A `read_only` driver reads the committed state and changes nothing, beside
    another driver that writes.
    """

    def __init__(  # noqa: PLR0913 - what it runs, where, and how
        self,
        program: Program,
        checkpoint: Path,
        output: Path | None,
        spark: Runner,
        options: StreamOptions | None = None,
        *,
        registered: Mapping[str, Any] | None = None,
        script: Mapping[str, Any] | None = None,
        read_only: bool = False,
    ) -> None:
        self.options = options or StreamOptions()
        self.program = program = replace(program, iteration=self.options.iteration)
        self.refused_batch: int | None = None
        """The number of the last batch, if it was refused because of its data."""
        self.refused_files: tuple[InputFile, ...] = ()
        self.rebuilt_from: int | None = None
        """The number of files that this start rebuilt the state from; None if it did not."""
        self.on_notice: Callable[[str], None] = lambda _notice: None
        """Called with each notice about the sources."""
        self._notices: list[str] = []
        self._waiting: tuple[InputFile, ...] = ()
        """The files that the next batch leaves for later ones."""
        self._removals: tuple[InputFile, ...] = ()
        """The files that the next batch forgets or retracts."""
        self._unfinished: Ingested | None = None
        """The files of the last batch while it is committed, but not yet published."""
        self.is_committing = False
        """Whether a commit has begun and its output is not published yet."""
        physical = compile_program(program, keep_answer=self.options.keep_answer)
        self.compiled = CompiledProgram(program, physical, self.options.paths.also(checkpoint))
        self.watched = Watched(self.compiled, checkpoint.absolute() / "runs", self._summarize)
        self.state = State(-1, {})
        self.feeds: list[Feed] = []
        self.binding = SinkBinding(())
        self._spark = spark
        self._job: Job | None = None
        self.checkpoint = Checkpoint(checkpoint, self.compiled.physical.schemas)
        self.outputs = BatchOutputs(self.checkpoint, len(program.outputs), self.options.quarantine)
        self.current = CurrentAnswers(self.checkpoint, self.compiled)
        self.progress = BatchProgress(self.checkpoint.work, is_shown=self.options.show_progress)
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
            raise start_error(checkpoint, cause) from cause
        except BaseException:
            self.close()
            raise

    def _read_only(self) -> State:
        known = self.checkpoint.description()
        check_state_options(self.checkpoint, known, self._description)
        needs_rebuild(self.checkpoint, known, self._description, "refuse")
        state = self.checkpoint.committed_state(self.options.as_of)
        if self.options.check_runs:
            self.checkpoint.check_runs(state)
        self.archive = Archive(self.checkpoint.input / "archive", read_only=True)
        return state

    def _start(self, output: Path | None, registered: Mapping[str, Any]) -> None:
        """Become the writer of the checkpoint, and finish what its last writer left unfinished."""
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
        if not options.window and options.keep_answer:
            self.current.bind(self.binding.sinks)
        refuse_overlaps(program, checkpoint.folder, self.binding.sinks, options.quarantine)
        keep = options.keep_input
        self.archive = Archive(
            checkpoint.input / "archive",
            "all" if keep is None else keep,
            folders=keep not in (None, "none"),
        )
        # A new program or output is recorded in the manifest of the batch that rebuilds the state
        # or writes the answer so far. A crash before that leaves the old program and outputs.
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
        physical, streams = self.compiled.physical, program.streams
        growing = {s.place for s in streams if physical.source(s.place).insert_only}
        invariant = {s.place for s in streams if not s.streaming}
        self._removals = removals(
            options, checkpoint, self.state, self.archive, growing=growing, invariant=invariant
        )
        exempt_from_checks(self.feeds, self._removals)
        if any(file.retracts and file.place in growing for file in self._removals):
            self._change_program((), rebuild=True, removed=self._removals)
        self.current.write(self.state, now=True)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the sources and release the checkpoint."""
        if self.lock is not None:
            with suppress(IncmrqlError, OSError):  # the next start writes it
                self.current.write(self.state, now=True)
        for feed in self.feeds:
            feed.close()
        self.compactor.close()
        if self.lock is not None:
            self.lock.release()

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """The directories that the answers go to."""
        return self.binding.sinks

    def _merge(self, task: CompactionTask) -> Segment | None:
        return self.job.compact(task, str(self.checkpoint.runs.absolute()))

    @property
    def job(self) -> Job:
        """What runs the batches, created when the first one needs it."""
        if self._job is None:
            work, buckets = self.checkpoint.work, self.checkpoint.buckets
            self._job = job_of(self._spark, self.compiled, work, buckets)
        return self._job

    def _recover(self) -> None:
        """Publish the last batch unless that was recorded; remove files of killed attempts."""
        if self.options.check_runs:
            self.checkpoint.check_runs(self.state)
        self.outputs.publish(self.state)
        self.outputs.remove_leftovers(self.state, self.sinks)
        self._clean()

    def _clean(self) -> None:
        """Remove files of the checkpoint that nobody needs any more."""
        keep = self.options.keep_batches
        self.checkpoint.clean(self.state, self.options.grace, self.compactor.is_open, keep)

    def answer(self, number: int = 0) -> Value:
        """An answer after the last batch, computed from the state without a job."""
        check_answer_kept(self.compiled.physical.answers[number])
        runs = self.checkpoint.runs.absolute()
        return answer_value(self.compiled, number, self.state.tables, runs)

    def changes(self, number: int = 0, most: int | None = None) -> list[tuple[Value, int]]:
        """The first changes, or all, of an answer by the last batch; empty if none are kept."""
        answer = self.compiled.physical.answers[number]
        return self.outputs.changes(self.state, number, answer, most)

    # --- batches ---------------------------------------------------------------------------

    def poll(self) -> Arrivals:
        """Check what was ingested before, and report the new files of all sources."""
        now = time.time()
        with unskippable(self.options.skip_batch):
            arrivals = [feed.poll(now) for feed in self.feeds]
        for notice in (notice for arrival in arrivals for notice in arrival.notices):
            self._notices.append(notice)
            self.on_notice(notice)
        files = tuple(file for arrival in arrivals for file in arrival.files)
        return Arrivals(files, sum(arrival.unsettled for arrival in arrivals))

    def is_idle(self) -> bool:
        """True if no batch was started, and no input is ready or still settling."""
        if self.state.number < 0 or self._removals or self.intended_files() is not None:
            return False
        arrivals = self.poll()
        return not arrivals.unsettled and not any(map(self._is_streaming, arrivals.files))

    def intended_files(self) -> tuple[InputFile, ...] | None:
        """The files of a batch that was started but not committed."""
        return self.checkpoint.intent(self.state.number + 1)

    def step(self) -> BatchReport | None:
        """Run the next batch if there is input; batch 0 may be empty."""
        self._finish_last()
        files = self.intended_files()
        if files is None and self._removals:
            files = self._removals
        elif files is None:
            ready, limits = self.poll().files, self.options.limits
            files, self._waiting = next_and_later_files(ready, limits, self.program.streams)
            if self.state.number >= 0 and not any(map(self._is_streaming, files)):
                self.current.write(self.state, now=True)
                return None
            files = self._spool_files(files)
        return self.run_batch(files)

    def _spool_files(self, files: tuple[InputFile, ...]) -> tuple[InputFile, ...]:
        """The files of a batch, with the rows of those that Spark has to read in spools."""
        for feed in self.feeds:
            own = [file for file in files if file.place == feed.place]
            if isinstance(feed, ReaderFeed) and own:
                check_files(own, self.compiled.paths)
                spools = feed.spool_files(own, self._spool, self.state.number + 1)
                spools = with_kept_values(
                    self.compiled, feed.place, spools, self.state.tables, self.checkpoint.runs
                )
                files = (*(file for file in files if file.place != feed.place), *spools)
        return files

    def _spool(
        self, stream: Stream, files: Sequence[InputFile], folder: Path
    ) -> Sequence[InputFile]:
        return self.job.spool(stream, files, folder)

    def _is_streaming(self, file: InputFile) -> bool:
        places = (stream.place for stream in self.program.streams if stream.streaming)
        return file.place in places

    def run_batch(self, files: tuple[InputFile, ...]) -> BatchReport:
        """Ingest some files; a batch that is refused because of its data leaves no trace."""
        self._finish_last()
        number, self.refused_batch = self.state.number + 1, None
        try:
            check_files(files, self.compiled.paths)
            return self._run_batch(files)
        except DataError:
            if self.state.number < number:
                self.checkpoint.check_newest()
                self.checkpoint.withdraw(number)
                self.refused_batch, self.refused_files = number, files
            raise
        except CheckpointError:
            # If another driver has taken over, that is the cause: say so instead.
            self.checkpoint.check_newest()
            raise
        except OSError as cause:
            self.checkpoint.check_newest()
            error = write_failure if self.state.number < number else sinks.unpublished_error
            raise error(number, (cause.strerror or str(cause)).lower()) from cause

    def _run_batch(self, files: tuple[InputFile, ...]) -> BatchReport:
        """Intent, run, check, manifest, publish."""
        start = time.perf_counter()
        number, attempt = self.state.number + 1, self.checkpoint.attempt()
        self.checkpoint.intend(number, files)
        crash_here("intent", number)
        is_skipped = number == self.options.skip_batch
        bound = () if is_skipped else self.sinks
        keep_changes = self.options.keep_changes and not is_skipped
        with (
            self.outputs.stage(number, attempt, bound, keep_changes=keep_changes) as targets,
            self.outputs.stage_quarantine(number, attempt) as bad,
        ):
            begun = time.perf_counter()
            read = tuple(file for file in files if not (is_skipped or file.forgotten))
            request = self._request(number, attempt, read, targets)
            request = replace(request, quarantine=bad, names=batch_files.names_of(files))
            with self.progress.follow(request) as followed:
                result = self._run(followed)
            result = replace(result, reading=batch_files.as_named(result.reading, files))
            ran = time.perf_counter()
            crash_here("runs", number)
            ingested = with_checksums(files, result.reading.checksums, self.state)
            self.archive.add(number, ingested)
            crash_here("archive", number)
            for target in targets:
                fsync(Path(target.folder))
            batch_files.check_written(request, result.done)
            batch_files.check_quarantine(bad, result.reading)
            summaries = self._summaries(result, number)
            self._commit(self._change(attempt, targets, ingested, result))
            self.watched.remember(summaries, number)
        crash_here("committed", number)
        committed = time.perf_counter()
        published = self._finish()
        end = time.perf_counter()
        times = (ran - begun, begun - start + committed - ran, end - committed, end - start)
        scopes = self.compiled.physical.scopes
        report = report_of(self.state, files, result, times, published, scopes)
        lags = lags_of(self.program.streams, files, self._waiting, time.time())
        errors = self.watched.report(summaries) if self.program.watches else None
        notices = tuple(self._notices)
        report = replace(report, notices=notices, errors=errors, lags=lags)
        self._notices, self._waiting = [], ()
        return report

    def _summaries(self, result: JobResult, number: int) -> list[BagSummary]:
        """The rows whose arithmetic fails after a batch; raises if options forbid them."""
        done = result.done
        done.changed = done.changed[: len(self.program.outputs)]
        tables = {**self.tables_before(), **done.tables}
        before = None if self.options.window or number == 0 else self.state.number
        summaries = self.watched.after(done.watched, tables, before)
        if self.options.on_arithmetic == "fail":
            refuse_failures(self.watched.report(summaries), number)
        return summaries

    def _summarize(
        self, tables: Mapping[str, StateTable], numbers: Sequence[int]
    ) -> list[BagSummary]:
        """The sizes and least rows of some answers in some tables."""
        number, attempt = self.state.number + 1, self.checkpoint.attempt()
        request = replace(self._request(number, attempt, (), ()), tables=tables)
        with spark_failures(number):
            return self.job.summarize(request, numbers)

    def failures(self) -> list[Failure]:
        """The rows for which arithmetic fails after the last batch, from the state."""
        if self.state.number < 0:
            return []
        return failures(self.compiled, self.state.tables, self.checkpoint.runs.absolute())

    def _change(
        self, attempt: str, targets: Sequence[Target], ingested: Ingested, result: JobResult
    ) -> Commit:
        """What the manifest of a batch adds to the state."""
        reading, done = result.reading, result.done
        counts = {
            "inserted": reading.inserted,
            "deleted": reading.deleted,
            "bad": reading.bad.total(),
            "changed": done.changed,
        }
        outputs, changes = self.outputs.files_and_changes(attempt, self.sinks, targets, result)
        tables = self.compactor.with_merged_segment(done.tables)
        return Commit(tables, outputs, ingested, counts, changes, attempt=attempt)

    def _commit(self, change: Commit) -> None:
        before = self.state
        self.is_committing = True
        try:
            self.state = self.checkpoint.commit(before, change)
        except BaseException:
            self.is_committing = False
            raise
        self._unfinished = change.files
        self.outputs.remove_changes(before)

    def _finish_last(self) -> None:
        """Publish the last batch if that failed after its commit."""
        try:
            self._finish()
        except OSError as cause:
            why = (cause.strerror or str(cause)).lower()
            raise sinks.unpublished_error(self.state.number, why) from cause

    def _finish(self) -> list[Path]:
        """Publish a committed batch and acknowledge its files, unless that is done."""
        ingested, number = self._unfinished, self.state.number
        if ingested is None:
            return []
        try:
            self.checkpoint.sync()
            published = self.outputs.publish(self.state)
            self.current.write(self.state)
        finally:
            self.is_committing = False
        crash_here("publish", number)
        self._acknowledge(number, ingested)
        self._removals = pending_removals(self._removals, self.state)
        exempt_from_checks(self.feeds, self._removals)
        crash_here("after", number)
        self._unfinished = None
        return published

    def _acknowledge(self, number: int, ingested: Ingested) -> None:
        """Notify the feeds of committed files; start a compaction and a cleanup if they are due."""
        if not self.options.window:
            self.compactor.start(self.state.tables)
        invariant = {stream.place for stream in self.program.streams if not stream.streaming}
        for feed in self.feeds:
            # With a window each batch reads invariant sources again: they are never done.
            if not (self.options.window and feed.place in invariant):
                feed.acknowledge([pair for pair in ingested if pair[0].place == feed.place])
        if number % _CLEAN_EVERY == 0:
            self._clean()
            self.archive.clean(number)

    def _request(
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

    def _run(self, request: BatchRequest) -> JobResult:
        """Run the job of a batch."""
        job = self.job
        with spark_failures(request.number):
            return job.run(request, large=self.options.large, loop_rows=self.options.loop_rows)

    def ingested_files(self, removed: Ingested = ()) -> tuple[InputFile, ...]:
        """The files that the answers are made from, each as it is kept; no skipped batches.

        `removed` are to be retracted next.  Raises if a file is neither kept nor as it was.
        """
        batches = list(self.checkpoint.batches())
        if self.options.window and self.state.number >= 0:
            batches = [self.checkpoint.files(self.state.number)]
        retracted = [pair for pair in removed if pair[0].retracts]
        counted = without_retracted([*batches, retracted])
        read = [[pair for pair in files if pair[1]] for files in counted]
        reach: Reach = self.compiled.paths
        if self.lock is None and reach == ANYWHERE:
            reach = NamedFiles(self.program, self.checkpoint.folder)
        return batch_files.absolute(self.archive.replay(read, reach))

    def build_state(self, files: Sequence[InputFile], folder: Path) -> Mapping[str, StateTable]:
        """Build the tables from files as one batch, with segments in `folder`, without a commit."""
        tables = tables_of_json({}, self.compiled.physical.schemas, self.checkpoint.buckets)
        number, attempt = self.state.number + 1, self.checkpoint.attempt()
        runs, buckets = str(folder.absolute()), self.checkpoint.buckets
        request = BatchRequest(number, attempt, tuple(files), tables, buckets, runs, is_first=True)
        large, loop_rows = self.options.large, self.options.loop_rows
        result = self.job.run(request, large=large, loop_rows=loop_rows).done
        batch_files.check_written(request, result)
        return result.tables

    def _change_program(
        self,
        recorded: Sequence[Mapping[str, Any]],
        *,
        rebuild: bool,
        removed: tuple[InputFile, ...] = (),
    ) -> None:
        """Commit a batch without input: new state, new outputs, or both.

        A sink that had the answer of the old program gets the difference to the new answer; a sink
        that is new gets the whole answer.  With `removed` the program stays the same, and these
        files leave its input.
        """
        checkpoint, attempt = self.checkpoint, self.checkpoint.attempt()
        number = self.state.number + 1
        changed = self.sinks if rebuild else self.binding.fresh
        retraction = None
        tables = self.state.tables
        ingested = with_checksums(removed, {}, self.state)
        if removed:
            answers = {n: sink.answer for n, sink in enumerate(changed) if sink.mode == "changes"}
            retraction = Retraction.of_state(self.compiled, tables, answers)
        elif rebuild:
            retraction = Retraction.of_program(checkpoint, changed, recorded, self.compiled.paths)
        if rebuild:
            files = self.ingested_files(ingested)
            tables = self.build_state(files, checkpoint.runs)
            self.rebuilt_from = len(files)
        bound = () if self.options.window else changed
        with self.outputs.stage(number, attempt, bound) as targets:
            request = replace(self._request(number, attempt, (), targets), tables=tables)
            parts = []
            if targets:
                with spark_failures(number):
                    parts = (
                        self.job.write_answers(request)
                        if retraction is None
                        else retraction.write(self.job, request)
                    )
            for target in targets:
                fsync(Path(target.folder))
            batch_files.check_parts(request, parts)
            outputs = sinks.outputs_of(attempt, changed, targets, parts)
            checkpoint.program = dict(self._description)
            checkpoint.sinks = self.binding.as_json(self.program)
            counts = {"rebuilt": self.program.identity} if rebuild else {}
            kind: Kind = "rebuild" if rebuild else "output"
            self._commit(Commit(tables, outputs, ingested, counts, kind=kind, attempt=attempt))
        self._finish()
