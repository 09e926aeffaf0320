"""`Run`, the result of `start`: a program that follows its streams, batch by batch.

A `Run` owns a program, which is one query or all streaming items of a script, with one answer
each.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from incmrql.api.drivers import RunInputs, answer_frame, open_driver
from incmrql.api.html import batch_html, facts_html
from incmrql.api.listeners import Listener, Warnings
from incmrql.api.named import named_changes, named_rows, number_of_answer
from incmrql.api.saved_answers import AnswerColumns, SavedAnswer
from incmrql.api.streams import (
    FrameStream,
    PushedStream,
    StreamingFrameFeed,
    run_failed,
)
from incmrql.api.tracebacks import short_tracebacks
from incmrql.engine.batch import stream_at
from incmrql.errors import DataError, IncmrqlError
from incmrql.runtime.arithmetic import Failure, Failures
from incmrql.runtime.checkpoint.manifests import Checkpoint
from incmrql.runtime.checkpoint.ownership import sign
from incmrql.runtime.checkpoint.program import StreamingFrame
from incmrql.runtime.driver import Driver
from incmrql.runtime.feeds.frames import FrameFeed
from incmrql.runtime.feeds.push import PushFeed
from incmrql.runtime.feeds.set_aside import CODES, rows_at_fault, set_aside, set_aside_note
from incmrql.runtime.history import History
from incmrql.runtime.loop import run_driver
from incmrql.runtime.progress import Progress
from incmrql.runtime.quarantine import SourceNotices, reports, sentences
from incmrql.runtime.report import Batch, BatchReport, Event, LoopWork, Status, Verified
from incmrql.values import Value

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    from incmrql.runtime.expected import Against


MOST_EVENTS: Final = 1000
"""The number of events that a run remembers."""
_MOST_SHOWN: Final = 100_000
"""Rows of state from which a notebook shows the answer without being asked for it."""
_POLL: Final = 0.1
_SET_ASIDE: Final = (
    "The rows at fault were set aside, and the batch was not ingested: the next batch, or step(), "
    "ingests all other rows."
)


@short_tracebacks
class Run:
    """A program that follows its streams.  May be used as a context manager.

    With a trigger, or with `available_now`, a loop in the background runs the batches.  It does
    not if `stepped` is true: then the caller runs them, by `step` or `follow`.
    """

    def __init__(
        self, inputs: RunInputs, listener: Listener | None = None, *, stepped: bool = False
    ) -> None:
        options = inputs.options
        self._inputs, self._streams = inputs, inputs.streams_by_place()
        self._listener: Listener = Warnings(options.on_batch) if listener is None else listener
        self._every = options.verify
        chosen = options.checkpoint
        self._checkpoint = Path(tempfile.mkdtemp(prefix="incmrql-")) if chosen is None else chosen
        self._own = None if chosen is not None else self._checkpoint
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._history = History(self._checkpoint)
        self._last: weakref.ref[Batch] | None = None
        self._flows: list[StreamingFrameFeed] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._problem: BaseException | None = None
        self._stopped = False
        self._stepping = threading.Lock()
        try:
            self._driver = self._open()
            self._notices = SourceNotices(self._driver.program)
        except BaseException:
            _remove(self._own)
            raise
        self._release = weakref.finalize(self, _release, self._driver, self._own)
        try:
            self._connect()
        except BaseException:
            self.stop()
            raise
        if not stepped and (options.trigger is not None or options.available_now):
            self._thread = threading.Thread(
                target=self._loop, name=f"incmrql {self._checkpoint.name}", daemon=True
            )
            self._thread.start()

    def _open(self) -> Driver:
        """Open the checkpoint, and pass on the notices about its outputs."""
        inputs, options = self._inputs, self._inputs.options
        self._is_new = True
        with suppress(OSError):  # the driver reports what is wrong with the directory
            self._is_new = not Checkpoint(self._checkpoint).exists
        framed = {
            name: StreamingFrame()
            for name, stream in inputs.streams.items()
            if isinstance(stream, FrameStream)
        }
        paths = options.paths.also(options.output, options.quarantine)
        registered = {**inputs.registered, **framed}
        inputs = replace(inputs, options=replace(options, paths=paths), registered=registered)
        driver = open_driver(inputs, self._checkpoint)
        if options.checkpoint is not None:
            sign(driver)
        driver.on_notice = self._listener.notice
        for notice in driver.binding.notices:
            self._listener.notice(notice)
        return driver

    def _connect(self) -> None:
        """Connect the streams of the session to the feeds of the run."""
        feeds = self._driver.feeds
        for number, feed in enumerate(feeds):
            stream = self._streams.get(feed.place)
            if isinstance(feed, PushFeed) and isinstance(stream, PushedStream):
                stream.attach(self._checkpoint, feed, is_new=self._is_new)
            elif isinstance(feed, FrameFeed) and isinstance(stream, FrameStream):
                progress = self._driver.checkpoint.input / f"frame-{feed.place}"
                self._flows.append(stream.start(feed, progress))
                feeds[number] = self._flows[-1]

    # --- batches ---------------------------------------------------------------------------

    def step(self) -> Batch | None:
        """Run one batch over everything that has arrived; None if there is nothing new.

        A batch that is refused (`DataError`) leaves everything as it was.  Only the rows of a
        pushed stream that caused the refusal are set aside: the next step ingests the others.
        """
        self._check_not_stopped()
        if self._thread is not None and self._thread.is_alive():
            hint = "Wait for its batches, or start without a trigger to call step()."
            raise DataError("R212", "the run has a loop that runs its batches", hint=hint)
        with self._stepping:
            for flow in self._flows:
                flow.wait()
            self._wait_until_settled()
            self._keep_last()
            report = self._record_problems(self._driver.step)
            if self._problem is not None:
                self._fail(None)
            return None if report is None else self._report(report)

    def _wait_until_settled(self) -> None:
        """Wait until files that were written a moment ago have settled."""
        settle = self._driver.options.settle
        patience = time.monotonic() + 10 * settle
        while self._driver.poll().unsettled and time.monotonic() < patience:
            time.sleep(min(_POLL, settle / 4))

    def _keep_last(self) -> None:
        """Read the changes of the last batch, if a caller has it; the next batch removes them."""
        last = None if self._last is None else self._last()
        if last is not None:
            with suppress(IncmrqlError, OSError):
                for item in range(self.answers):
                    last.changes(item)

    def _record_problems(self, step: Callable[[], BatchReport | None]) -> BatchReport | None:
        try:
            return step()
        except DataError as problem:
            refusal = self._set_aside(problem)
            self._note(refusal or problem)
            if refusal is not None:
                raise refusal from None
            raise
        except BaseException as problem:
            self._note(problem)
            raise

    def _note(self, problem: BaseException) -> None:
        self._events.append(Event(time.time(), problem=problem))
        if not isinstance(problem, KeyboardInterrupt):
            self._history.add_problem(problem)

    def _report(self, report: BatchReport) -> Batch:
        """Record a finished batch and pass it to the listener; verifies if that is due."""
        driver, listener = self._driver, self._listener
        self._events.append(Event(time.time(), report))
        self._history.add_batch(report)
        bad_rows = self._bad_rows(report) if report.bad.bad else ""
        if bad_rows:
            listener.notice(bad_rows)
        if report.errors is not None:
            listener.failures(report.number, report.errors)
        for notice in self._notices.of(report):
            listener.notice(notice.render())
        batch = Batch(
            report,
            lambda number: self._changes(number) if driver.options.keep_changes else [],
            self._number,
            partial(batch_html, self.columns()),
        )
        self._last = weakref.ref(batch)
        listener.batch(self, batch)
        if self._every is not None and (report.number + 1) % self._every == 0:
            verified = self.verify()
            self._history.add_verified(verified)
            listener.verified(verified)
        return batch

    def _bad_rows(self, report: BatchReport) -> str:
        """A text about the unreadable lines of a batch; empty if `on_report` gets them instead."""
        program, on_report = self._driver.program, self._inputs.on_report
        if on_report is not None:
            for part, policy in reports(program, report):
                on_report(part, policy)
            return ""
        is_kept = self._driver.options.quarantine is not None
        lines = sentences(program, report, is_kept=is_kept)
        if lines and not is_kept:
            lines.append("Session(quarantine=...) names a directory in which such lines are kept.")
        return "\n".join(lines)

    def _set_aside(self, problem: DataError) -> DataError | None:
        """Set aside the rows that caused a refusal; returns the error to raise instead, or None."""
        driver = self._driver
        if problem.code not in CODES or driver.refused_batch is None:
            return None
        driver.checkpoint.check_newest()
        notes = []
        for feed in driver.feeds:
            spools = feed.spools if isinstance(feed, StreamingFrameFeed) else feed
            files = [file for file in driver.refused_files if file.place == feed.place]
            if not isinstance(spools, PushFeed | FrameFeed) or not files:
                continue
            runs, tables = driver.checkpoint.runs.absolute(), driver.tables_before()
            fault = rows_at_fault(driver.compiled, feed.place, files, tables, runs)
            stream = stream_at(driver.program, feed.place)
            rows = set_aside(spools, stream.element, files, fault, driver.refused_batch)
            known = self._streams.get(feed.place)
            if rows and isinstance(known, PushedStream) and not driver.options.window:
                known.withdraw(self._checkpoint, rows)
            if rows:
                notes.append(set_aside_note(rows, stream.name, spools.aside))
        if not notes:
            return None
        hint = f"{_SET_ASIDE} {problem.hint}".strip()
        refusal = DataError(problem.code, problem.message, place=problem.place, hint=hint)
        for note in notes:
            refusal.add_note(note)
        return refusal

    def follow(self, stop: threading.Event | None = None) -> None:
        """Run batch after batch in this thread, until the options say that it is enough.

        `stop` ends it after the current batch.
        """

        def on_batch(_driver: Driver, report: BatchReport) -> None:
            self._report(report)
            self._keep_last()

        def on_refused(problem: DataError) -> bool:
            refusal = self._set_aside(problem)
            if refusal is None:
                return False
            self._note(refusal)
            self._listener.notice("\n".join((str(refusal), *refusal.__notes__)))
            return True

        def run() -> None:
            ending = stop or self._stop
            run_driver(self._driver, on_batch=on_batch, on_refused=on_refused, stop=ending)

        if self._driver.options.available_now:
            for flow in self._flows:
                flow.wait()
        self._record_problems(run)

    def _loop(self) -> None:
        """Run the batches in the background thread."""
        try:
            self.follow()
        except BaseException as problem:  # `status` and `await_termination` report it
            self._fail(problem)

    def _fail(self, problem: BaseException | None) -> None:
        """Record what has ended the loop, so that no call relies on it; None: the run continues."""
        self._problem = problem
        for stream in self._streams.values():
            if isinstance(stream, PushedStream):
                stream.note_failure(self._checkpoint, problem)

    # --- answers ---------------------------------------------------------------------------

    def answer(self, item: int | str = 0) -> Value:
        """The whole answer of an item after the last batch, as Python values.

        An item is given by its number or by its name.
        """
        self._check_not_failed()
        number = self._number(item)
        return named_rows(self._driver.answer(number), self._driver.program.outputs[number])

    def saved_answer(self, item: int | str = 0) -> SavedAnswer:
        """The same with its type and the names of its columns."""
        output = self._driver.program.outputs[self._number(item)]
        return SavedAnswer.of(self.answer(item), output, self._driver.state.number)

    def to_pandas(self, item: int | str = 0) -> pd.DataFrame:
        """The same as a pandas DataFrame."""
        return self.saved_answer(item).to_pandas()

    def columns(self, item: int | str = 0) -> AnswerColumns:
        """The columns in which the changes of an item's answer are shown."""
        return AnswerColumns.of_changes(self._driver.program.outputs[self._number(item)])

    def changes(self, item: int | str = 0, most: int | None = None) -> list[tuple[Value, int]]:
        """The first changes, or all, of an answer by the last batch; empty if none are kept."""
        self._check_not_failed()
        return self._changes(self._number(item), most)

    def _number(self, item: int | str) -> int:
        return number_of_answer(self._driver.program, item)

    def _changes(self, item: int, most: int | None = None) -> list[tuple[Value, int]]:
        changes = self._driver.changes(item, most)
        return named_changes(changes, self._driver.program.outputs[item])

    def change_size(self, item: int | str = 0) -> tuple[int, int]:
        """How many rows `changes` has, and by how many rows the answer has grown."""
        self._check_not_failed()
        return self._driver.outputs.change_size(self._driver.state, self._number(item))

    @property
    def printed(self) -> list[int]:
        """The items whose answers go to no directory, so that a front end may print them."""
        if any(not sink.named for sink in self._driver.sinks):
            return []
        outputs = self._driver.program.outputs
        return [n for n, item in enumerate(outputs) if item.kind not in ("store", "dump")]

    def errors(self) -> list[Failure]:
        """The rows for which arithmetic fails after the last batch, in canonical order."""
        self._check_not_failed()
        return self._driver.failures()

    def answer_df(self, item: int | str = 0) -> DataFrame:
        """The rows of an item's answer after the last batch as a DataFrame, read by Spark's tasks.

        It can be used until the run is stopped, whatever batches follow.
        """
        from incmrql.spark.values import with_schema

        self._check_not_failed()
        number, answers = self._number(item), self._inputs.answers
        frame = answer_frame(self._driver, self._inputs.session(), number)
        schema = None if answers is None else answers.schema(number)
        return frame if schema is None else with_schema(frame, schema)

    def verify(self, against: Against | None = None) -> Verified:
        """Compare the answer with that of the query over everything that was ingested.

        A query of Spark is answered again by the reference evaluator, or by Spark's own plan with
        `against="spark"`, which also happens if there are too many rows for the evaluator.  Then
        doubles may differ by a relative 1e-9, because Spark adds them up in any order.

        Raises `DifferenceFound` with the rows that differ; or `DataError` if some of the input
        no longer exists.
        """
        from incmrql.runtime.verify import verify

        self._check_not_stopped()
        if against not in (None, "reference", "spark"):
            raise DataError("R212", f'against is "reference" or "spark", not {against!r}')
        answers = self._inputs.answers
        return verify(
            self._driver,
            self._inputs.session(),
            judge=None if answers is None else answers.frame,
            against=against,
            on_notice=self._listener.notice,
        )

    @property
    def answers(self) -> int:
        """The number of its answers."""
        return len(self._driver.program.outputs)

    def compare(self, expected: Value, item: int = 0, *, may_round: bool = False) -> int:
        """Compare an answer with one that another engine has computed; returns how many rows.

        With `may_round`, doubles may differ by a relative 1e-9.  Raises `DifferenceFound`.
        """
        from incmrql.runtime.verify import verify_rows

        self._check_not_failed()
        return verify_rows(self._driver, item, expected, may_be_near=may_round)

    def verify_state(self) -> None:
        """Compare its state with one that is built from all input; raises `DifferenceFound`."""
        from incmrql.runtime.verify import verify_state

        self._check_not_stopped()
        verify_state(self._driver, self._inputs.session())

    def lineage(self, rows: Sequence[Value] | None = None) -> list[Value]:
        """Rows of the answer, or all, each with the rows of sources that it comes from."""
        return self._trace(rows, "lineage")

    def debug(self, rows: Sequence[Value] | None = None) -> list[Value]:
        """Rows of the answer, or all, each with the tree of values that led to it."""
        return self._trace(rows, "debug")

    def _trace(
        self, rows: Sequence[Value] | None, kind: Literal["lineage", "debug"]
    ) -> list[Value]:
        from incmrql.runtime.verify import trace

        self._check_not_stopped()
        return trace(self._driver, self._inputs.session(), rows, kind)

    # --- life cycle ------------------------------------------------------------------------

    def prepare(self) -> None:
        """Poll the sources and start Spark, so that errors appear before the first batch."""
        self._driver.poll()
        self._driver.job  # noqa: B018 - created on first access

    def is_idle(self) -> bool:
        """True if there is nothing to ingest: no new input, and none still settling."""
        return self._driver.is_idle()

    def progress(self) -> Progress | None:
        """How much of its input the running batch has read; None if no batch runs."""
        return self._driver.progress.now()

    @property
    def rebuilt_from(self) -> int | None:
        """The number of files that the state was built from at the start; None if it was kept."""
        return self._driver.rebuilt_from

    @property
    def is_committing(self) -> bool:
        """Whether a commit has begun and is not published."""
        return self._driver.is_committing

    @property
    def refused_batch(self) -> int | None:
        """The number of the last batch, if it was refused because of its data."""
        return self._driver.refused_batch

    @property
    def own_folder(self) -> Path | None:
        """The directory of a temporary checkpoint, which `stop` removes; None if one was named."""
        return self._own

    @property
    def checkpoint(self) -> Path:
        """The directory of its checkpoint."""
        return self._checkpoint

    @property
    def status(self) -> Status:
        """Its status: state, last batch, sizes, problem."""
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
        """Wait for the loop to end; returns whether it has, or raises the problem that ended it."""
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
        """End the run after the current batch, and remove a temporary checkpoint."""
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
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        status = self.status
        return f"Run({status.state}, batch={status.batch}, checkpoint={str(self._checkpoint)!r})"

    def _repr_html_(self) -> str:
        status = self.status
        if status.state in ("stopped", "failed") or status.batch < 0:
            return facts_html(repr(self), [("state", status.state)])
        if status.state_rows > _MOST_SHOWN:
            return facts_html(repr(self), [("rows of state", f"{status.state_rows:,}")])
        return self.saved_answer()._repr_html_()

    def _check_not_failed(self) -> None:
        """Refuse to answer after the loop has failed: the answer may be out of date."""
        self._check_not_stopped()
        if self._problem is not None:
            what = f"its answer is from batch {self._driver.state.number}"
            raise run_failed(self._checkpoint, what) from self._problem

    def _check_not_stopped(self) -> None:
        if self._stopped:
            hint = "Start the query again; with the same checkpoint it resumes."
            raise DataError("R308", "the run is stopped", hint=hint)


def _release(driver: Driver, folder: Path | None) -> None:
    """Close the driver of a run, and remove its temporary checkpoint."""
    driver.close()
    for frame in driver.checkpoint.work.glob("answer-*"):
        shutil.rmtree(frame, ignore_errors=True)
    _remove(folder)


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


__all__ = [
    "Batch",
    "BatchReport",
    "Event",
    "Failures",
    "Listener",
    "LoopWork",
    "Progress",
    "Run",
    "Status",
    "Verified",
    "Warnings",
]
