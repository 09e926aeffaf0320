"""A query that follows its streams, batch by batch: what `Result.start` gives."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from incmrql.diagnostics import DataError, IncmrqlError, IncmrqlWarning
from incmrql.kernel.batches import stream_at
from incmrql.runtime.arithmetic import Failure, Failures
from incmrql.runtime.changed import check_kept
from incmrql.runtime.checkpoint import Checkpoint
from incmrql.runtime.driver import Driver
from incmrql.runtime.events import Batch, Event, Status
from incmrql.runtime.feeds.frames import FrameFeed
from incmrql.runtime.feeds.push import PushFeed
from incmrql.runtime.handles import Flow, FrameStream, PushedStream, linked, run_failed
from incmrql.runtime.loop import run_driver
from incmrql.runtime.opening import Framed
from incmrql.runtime.ownership import sign
from incmrql.runtime.quarantine import reports, sentences
from incmrql.runtime.report import BatchReport
from incmrql.runtime.set_aside import CODES, rows_at_fault, set_aside, told
from incmrql.runtime.source_notices import SourceNotices
from incmrql.runtime.starting import Started, check_options, stream_options
from incmrql.values import Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from incmrql.runtime.verify import Verified

MOST_EVENTS: Final = 1000
"""Events that a run remembers."""
_POLL: Final = 0.1


class Run:
    """A query that follows its streams.  May be used as a context manager."""

    def __init__(self, started: Started) -> None:
        options = started.options
        check_options(options)
        self._started, self._streams = started, started.followed()
        self._on_batch, self._every = options.get("on_batch"), options.get("verify")
        self._loops = options.get("trigger") is not None or bool(options.get("available_now"))
        chosen = options.get("checkpoint")
        folder = tempfile.mkdtemp(prefix="incmrql-") if chosen is None else chosen
        self._checkpoint = Path(folder).absolute()
        self._own = None if chosen is not None else self._checkpoint
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._last: weakref.ref[Batch] | None = None
        self._flows: list[Flow] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._problem: BaseException | None = None
        self._failed: Failures | None = None
        self._stopped = False
        self._stepping = threading.Lock()
        try:
            self._driver = self._opened()
            self._notices = SourceNotices(self._driver.program)
        except BaseException:
            _remove(self._own)
            raise
        self._let_go = weakref.finalize(self, _let_go, self._driver, self._own)
        try:
            self._connect()
        except BaseException:
            self.stop()
            raise
        if self._loops:
            self._thread = threading.Thread(
                target=self._loop, name=f"incmrql {self._checkpoint.name}", daemon=True
            )
            self._thread.start()

    def _opened(self) -> Driver:
        started, options = self._started, self._started.options
        self._is_new = not Checkpoint(self._checkpoint).exists
        framed = {
            name: Framed()
            for name, each in started.streams.items()
            if isinstance(each, FrameStream)
        }
        output = options.get("output")
        keep_changes = not self._loops or self._on_batch is not None
        chosen = stream_options(options, keep_changes=keep_changes)
        driver = Driver(
            started.program,
            self._checkpoint,
            None if output is None else Path(output),
            started.spark,
            replace(
                chosen,
                quarantine=started.quarantine,
                paths=started.paths.also(output, started.quarantine),
            ),
            registered={**started.registered, **framed},
            script=started.described,
        )
        if options.get("checkpoint") is not None:
            sign(driver)
        for notice in driver.binding.notices:
            warnings.warn(notice, IncmrqlWarning, stacklevel=5)
        driver.on_notice = lambda notice: warnings.warn(notice, IncmrqlWarning, stacklevel=2)
        return driver

    def _connect(self) -> None:
        """Let the rows of streams that the session knows flow into the run."""
        feeds = self._driver.feeds
        for number, feed in enumerate(feeds):
            stream = self._streams.get(feed.place)
            if isinstance(feed, PushFeed) and isinstance(stream, PushedStream):
                stream.attach(self._checkpoint, feed, is_new=self._is_new)
            elif isinstance(feed, FrameFeed) and isinstance(stream, FrameStream):
                place = self._driver.checkpoint.input / f"frame-{feed.place}"
                self._flows.append(stream.start(feed, place))
                feeds[number] = self._flows[-1]

    # --- batches ---------------------------------------------------------------------------

    def step(self) -> Batch | None:
        """One batch now, of all that is there; None if there is nothing new.

        A batch that is refused (`DataError`) leaves everything as it was.  The rows of a pushed
        stream for which it was refused are set aside, and only these: the next step takes the
        others.
        """
        self._check_on()
        if self._thread is not None and self._thread.is_alive():
            raise DataError("R212", "the run makes its batches by itself", hint="Wait for them.")
        with self._stepping:
            for flow in self._flows:
                flow.wait()
            self._wait_for_rest()
            self._keep_last()
            report = self._guarded(self._driver.step)
            if self._problem is not None:
                self._fail(None)
            return None if report is None else self._told(report)

    def _wait_for_rest(self) -> None:
        """Wait for files that were written a moment ago."""
        settle = self._driver.options.settle
        patience = time.monotonic() + 10 * settle
        while self._driver.look().restless and time.monotonic() < patience:
            time.sleep(min(_POLL, settle / 4))

    def _keep_last(self) -> None:
        """Read the changes of the last batch, if anybody can still ask for them."""
        last = None if self._last is None else self._last()
        if last is not None:
            with suppress(IncmrqlError, OSError):
                last.changes()

    def _guarded(self, step: Callable[[], BatchReport | None]) -> BatchReport | None:
        try:
            return step()
        except BaseException as problem:
            self._events.append(Event(time.time(), problem=problem))
            if isinstance(problem, DataError):
                self._set_aside(problem)
            raise

    def _told(self, report: BatchReport) -> Batch:
        """Say that a batch is done to all who want to know."""
        driver = self._driver
        self._events.append(Event(time.time(), report))
        self._report_bad(report)
        self._report_errors(report)
        for notice in self._notices.of(report):
            warnings.warn(notice.render(), IncmrqlWarning, stacklevel=3)
        batch = Batch(report, lambda: driver.changes() if driver.options.keep_changes else [])
        self._last = weakref.ref(batch)
        if self._on_batch is not None:
            self._on_batch(batch)
        if self._every is not None and (report.number + 1) % self._every == 0:
            self.verify()
        return batch

    def _report_bad(self, report: BatchReport) -> None:
        """Say which lines of a batch were no rows; a warning unless somebody asks for reports."""
        if not report.bad.bad:
            return
        program, on_report = self._started.program, self._started.on_report
        if on_report is not None:
            for part, policy in reports(program, report):
                on_report(part, policy)
            return
        is_kept = self._started.quarantine is not None
        said = sentences(program, report, is_kept=is_kept)
        if not is_kept:
            said.append("Session(quarantine=...) names a folder in which such lines are kept.")
        warnings.warn("\n".join(said), IncmrqlWarning, stacklevel=4)

    def _report_errors(self, report: BatchReport) -> None:
        """Warn of arithmetic that fails, when there are other rows of it than before."""
        errors = report.errors
        if errors is not None and errors.count and errors != self._failed:
            warnings.warn(f"batch {report.number}: {errors}", IncmrqlWarning, stacklevel=4)
        self._failed = errors

    def _set_aside(self, problem: DataError) -> bool:
        """Whether the rows for which a batch was refused are set aside, and no others."""
        driver = self._driver
        if problem.code not in CODES or driver.refused is None:
            return False
        driver.checkpoint.check_newest()
        done = False
        for feed in driver.feeds:
            spools = feed.spools if isinstance(feed, Flow) else feed
            files = [each for each in driver.refused_files if each.place == feed.place]
            if not isinstance(spools, PushFeed | FrameFeed) or not files:
                continue
            runs, tables = driver.checkpoint.runs.absolute(), driver.tables_before()
            fault = rows_at_fault(driver.kit, feed.place, files, tables, runs)
            stream = stream_at(driver.program, feed.place)
            rows = set_aside(spools, stream.element, files, fault, driver.refused)
            known = self._streams.get(feed.place)
            if rows and isinstance(known, PushedStream) and not driver.options.window:
                known.refused(self._checkpoint, rows)
            if rows:
                done = True
                problem.add_note(told(rows, stream.name, spools.aside))
        return done

    def _loop(self) -> None:
        """Batch after batch, in the background."""

        def done(_driver: Driver, report: BatchReport) -> None:
            self._told(report)
            self._keep_last()

        def refused(problem: DataError) -> bool:
            if not self._set_aside(problem):
                return False
            self._events.append(Event(time.time(), problem=problem))
            notes = getattr(problem, "__notes__", ())
            warnings.warn("\n".join((str(problem), *notes)), IncmrqlWarning, stacklevel=2)
            return True

        def run() -> None:
            run_driver(self._driver, on_batch=done, on_refused=refused, stop=self._stop)

        try:
            if self._driver.options.available_now:
                for flow in self._flows:
                    flow.wait()
            self._guarded(run)
        except BaseException as problem:  # told by `status` and `await_termination`
            self._fail(problem)

    def _fail(self, problem: BaseException | None) -> None:
        """Note what has ended the loop, so that nobody relies on it; None: the run goes on."""
        self._problem = problem
        for stream in self._streams.values():
            if isinstance(stream, PushedStream):
                stream.failed(self._checkpoint, problem)

    # --- answers ---------------------------------------------------------------------------

    def answer(self) -> Value:
        """The whole answer after the last batch, as Python values."""
        self._check_good()
        return self._driver.answer()

    def errors(self) -> list[Failure]:
        """The rows for which arithmetic fails after the last batch, in canonical order."""
        self._check_good()
        return self._driver.failures()

    def answer_df(self) -> DataFrame:
        """The rows of the answer after the last batch as a DataFrame, read by Spark's tasks.

        It can be used until the run is stopped, whatever batches follow.
        """
        from incmrql.spark.replay import answer_rows
        from incmrql.spark.values import dataframe

        self._check_good()
        driver, spark = self._driver, self._started.spark()
        answer = driver.kit.physical.answers[0]
        if answer.is_single:
            value = driver.answer()
            rows = [value] if answer.output.part is None else value or []
            return dataframe(spark, rows, answer.output.element)
        state = driver.state
        runs = driver.checkpoint.work / f"answer-{state.number:06d}"
        runs.mkdir(exist_ok=True)
        for name in {run.file for table in state.tables.values() for run in table.runs}:
            linked(driver.checkpoint.runs / name, runs / name)
        check_kept(driver.kit.physical.answers[0])
        sent = driver.job.sent.content
        return answer_rows(spark, driver.kit, sent, 0, state.tables, runs)

    def verify(self) -> Verified:
        """Compare the answer with that of the query over everything that was taken in.

        Raises `DifferenceFound` with the rows that differ; or `DataError` where some of the
        input is no longer there.
        """
        from incmrql.runtime.verify import verify

        self._check_on()
        return verify(self._driver, self._started.spark())

    def lineage(self, rows: Sequence[Value] | None = None) -> list[Value]:
        """Rows of the answer, or all, each with the rows of sources that it comes from."""
        return self._traced(rows, "lineage")

    def debug(self, rows: Sequence[Value] | None = None) -> list[Value]:
        """Rows of the answer, or all, each with the tree of values that led to it."""
        return self._traced(rows, "debug")

    def _traced(
        self, rows: Sequence[Value] | None, kind: Literal["lineage", "debug"]
    ) -> list[Value]:
        from incmrql.runtime.verify import trace

        self._check_on()
        return trace(self._driver, self._started.spark(), rows, kind)

    # --- its life --------------------------------------------------------------------------

    @property
    def checkpoint(self) -> Path:
        """The folder of its checkpoint."""
        return self._checkpoint

    @property
    def status(self) -> Status:
        """How it is doing."""
        state = self._driver.state
        return Status(self._state(), state.number, state.rows, state.size, self._problem)

    def _state(self) -> Literal["ready", "running", "finished", "failed", "stopped"]:
        if self._stopped:
            return "stopped"
        if self._thread is not None and self._thread.is_alive():
            return "running"
        if self._problem is not None:
            return "failed"
        return "ready" if self._thread is None else "finished"

    def events(self) -> list[Event]:
        """The last batches and problems, oldest first."""
        return list(self._events)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the loop has ended, and say if it has; raises the problem that ended it."""
        if self._thread is None:
            if not self._stopped:
                hint = "Give a trigger to start: start(trigger='1s'); or call step()."
                raise DataError("R212", "the run has no loop to wait for", hint=hint)
            return True
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._problem is not None:
            raise self._problem
        return True

    def stop(self) -> None:
        """End the run after the batch that is on; a checkpoint that nobody named is removed."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self._stopped:
            return
        self._stopped = True
        self._keep_last()
        for stream in self._streams.values():
            if isinstance(stream, PushedStream):
                stream.detach(self._checkpoint)
        self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        status = self.status
        return f"Run({status.state}, batch={status.batch}, checkpoint={str(self._checkpoint)!r})"

    def _check_good(self) -> None:
        """Refuse to answer where the loop has ended with a problem: the answer is an old one."""
        self._check_on()
        if self._problem is not None:
            what = f"its answer is that of batch {self._driver.state.number}"
            raise run_failed(self._checkpoint, what) from self._problem

    def _check_on(self) -> None:
        if self._stopped:
            hint = "Start the query again; with a checkpoint it goes on where it was."
            raise DataError("R308", "the run is stopped", hint=hint)


def _let_go(driver: Driver, folder: Path | None) -> None:
    """End what a run has open, and remove a checkpoint of its own."""
    driver.close()
    for frame in driver.checkpoint.work.glob("answer-*"):
        shutil.rmtree(frame, ignore_errors=True)
    _remove(folder)


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


__all__ = ["Batch", "Event", "Run", "Status"]
