"""Streams that a session knows by name: rows that Python pushes, streaming data frames.

A pushed stream keeps its rows in files beside all runs, so that a run that starts later begins with
them, and a batch query can be asked of them.  While a run is on, rows also go straight to its
checkpoint, from which they survive a crash.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow as pa

from incmrql.engine.inputs import InputFile
from incmrql.errors import DataError
from incmrql.io.spools import spool_rows
from incmrql.plan.program import Stream
from incmrql.reference.sources import missing_rows_error
from incmrql.runtime.feeds.frames import FrameFeed
from incmrql.runtime.feeds.push import PushFeed
from incmrql.runtime.feeds.set_aside import Fault, Weighted, same_rows, set_aside
from incmrql.runtime.feeds.spooled import Arrivals, original
from incmrql.storage import fsync
from incmrql.types import typed
from incmrql.types.infer.scripts import type_from_text
from incmrql.types.model import Record, Type
from incmrql.values import Value, decode, encode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


Options = tuple[tuple[str, Any], ...]
SIGN: Final = "_weight"
"""The column that says how many of a row come, or go, where none is named."""
_FLAGS: Final = ("insert_only", "trusted_deletes")


class PushedStream:
    """A stream whose rows are inserted and deleted from Python.

    With `keep`, all rows are kept as long as the session: every run gets all of them, whenever it
    starts.  Without it only those that no run has got yet are.
    """

    def __init__(self, name: str, row: Type, options: Options = (), *, keep: bool = True) -> None:
        self.name, self.row, self.options, self.keep = name, row, options, keep
        source = typed.Source("registered", True, None, row, name=name, options=options)
        self._folder = Path(tempfile.mkdtemp(prefix="incmrql-rows-"))
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._kept = PushFeed(Stream(0, name, source, row, True, True), self._folder, is_kept=True)
        self._lock = threading.RLock()
        self._feeds: dict[Path, PushFeed] = {}
        """Of the runs that are on, by their checkpoints."""
        self._given: dict[Path, set[str]] = {}
        """The files that each checkpoint has the rows of."""
        self._aside: dict[Path, Weighted] = {}
        """Rows that each run has set aside."""
        self._failures: dict[Path, BaseException] = {}
        """What has ended the loops of runs that are on."""

    def insert(self, rows: Any) -> int:
        """Insert rows (a list, a pandas frame or an Arrow table), and say how many they are."""
        return self._push(rows, PushFeed.insert)

    def delete(self, rows: Any) -> int:
        """Delete rows, and say how many.

        Rows that are not there when a batch ingests this are set aside: see `set_aside`.
        """
        return self._push(rows, PushFeed.delete)

    def rows(self) -> list[Value]:
        """All rows that are there now."""
        if not self.keep:
            hint = "Start a run; or keep the rows: session.stream(name, type, keep=True)."
            raise DataError("R212", f'the rows of "{self.name}" are not kept', hint=hint)
        with self._lock:
            total: Counter[bytes] = Counter()
            for path in self._files():
                for value, weight in spool_rows(path, self.row):
                    total[encode(value)] += weight
        absent = [decode(row) for row, weight in total.items() if weight < 0]
        if absent and not dict(self.options).get("trusted_deletes"):
            raise missing_rows_error(absent, self.name)
        return [decode(row) for row, weight in total.items() for _ in range(weight)]

    def attach(self, checkpoint: Path, feed: PushFeed, *, is_new: bool) -> None:
        """Give a run that starts the rows that its checkpoint has not got yet."""
        with self._lock:
            files = self._files()
            given = set() if is_new else self._given.get(checkpoint, set())
            for path in files:
                if original(path.name) not in given:
                    link_or_copy(path, feed.folder / path.name)
            fsync(feed.folder)
            self._feeds[checkpoint] = feed
            self._note(checkpoint, files)

    def detach(self, checkpoint: Path) -> None:
        """A run has ended; what is pushed from now on waits for it."""
        with self._lock:
            self._failures.pop(checkpoint, None)
            if self._feeds.pop(checkpoint, None) is not None:
                self._note(checkpoint, self._files())

    @property
    def set_aside(self) -> list[tuple[Value, int]]:
        """Rows for which batches were refused, with weights: negative ones were deleted.

        The runs go on without them.
        """
        with self._lock:
            return [row for rows in self._aside.values() for row in rows]

    def refused(self, checkpoint: Path, rows: Weighted) -> None:
        """A run has set rows aside: they are no rows of the stream.

        Several runs that get the same rows set the same ones aside, and that counts once.
        """
        with self._lock:
            before = [same_rows(each).budget for each in self._aside.values()]
            self._aside[checkpoint] = [*self._aside.get(checkpoint, ()), *rows]
            fault = same_rows(self._aside[checkpoint])
            for name in fault.budget:
                fault.budget[name] -= max((each[name] for each in before), default=0)
            rest = Fault(+fault.budget, fault.name)
            set_aside(self._kept, self.row, self._kept.poll(0.0).files, rest)

    def failed(self, checkpoint: Path, problem: BaseException | None) -> None:
        """Say what has ended the loop of a run, or None when it goes on."""
        with self._lock:
            self._failures.pop(checkpoint, None)
            if problem is not None and checkpoint in self._feeds:
                self._failures[checkpoint] = problem

    def close(self) -> None:
        """Forget all rows."""
        self._kept.close()
        self._remove()

    def _push(self, rows: Any, how: Callable[[PushFeed, Any], int]) -> int:
        is_table = isinstance(rows, pa.Table | pd.DataFrame)
        if not is_table and isinstance(rows, Iterator):
            rows = list(rows)
        with self._lock:
            for checkpoint, problem in self._failures.items():
                raise run_failed(checkpoint, "nothing of the call was taken") from problem
            feeds = list(self._feeds.values())
            if self.keep or not feeds:
                feeds.append(self._kept)
            return [how(feed, rows) for feed in feeds][-1]

    def _files(self) -> list[Path]:
        """The files of all rows so far."""
        return [Path(file.path) for file in self._kept.poll(0.0).files]

    def _note(self, checkpoint: Path, files: Sequence[Path]) -> None:
        self._given[checkpoint] = {original(path.name) for path in files}
        if not self.keep:
            for path in files:
                path.unlink()


class FrameStream:
    """A stream whose rows a streaming data frame brings."""

    def __init__(self, name: str, row: Type, options: Options, frame: DataFrame) -> None:
        self.name, self.row, self.options, self.frame = name, row, options, frame

    def start(self, feed: FrameFeed, checkpoint: Path) -> Flow:
        """Let batches of the frame flow into a run; `checkpoint` is where Spark keeps its place."""
        return Flow(self, feed, checkpoint)

    def rows(self) -> list[Value]:
        """A streaming data frame has no rows that could be asked for now."""
        hint = "Start a run: session.query(...).start()."
        raise DataError("R212", f'"{self.name}" is a streaming data frame', hint=hint)

    def close(self) -> None:
        """Nothing is kept."""


class Flow:
    """The feed of a streaming data frame, filled by a streaming query of its own."""

    def __init__(self, stream: FrameStream, feed: FrameFeed, checkpoint: Path) -> None:
        self.place = feed.place
        self._feed, self._name = feed, stream.name
        self._problem: Exception | None = None
        self._query: StreamingQuery = (
            stream.frame.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(checkpoint.absolute()))
            .start()
        )

    def wait(self) -> None:
        """Wait until all that is there now has arrived."""
        try:
            self._query.processAllAvailable()
        except Exception as cause:
            raise self._failure(cause) from None

    def poll(self, now: float) -> Arrivals:
        """The batches that wait; what has ended the query is raised."""
        problem = self._query.exception()
        if problem is not None:
            raise self._failure(problem) from None
        return self._feed.poll(now)

    @property
    def spools(self) -> FrameFeed:
        """The folder of its batches."""
        return self._feed

    def check_ingested(self) -> None:
        """Nobody but us writes here: there is nothing to verify."""

    def acknowledge(self, files: Sequence[tuple[InputFile, str]]) -> None:
        """Remove files that are committed."""
        self._feed.acknowledge(files)

    def close(self) -> None:
        """End the query."""
        self._query.stop()
        self._feed.close()

    def _take(self, frame: DataFrame, number: int) -> None:
        from incmrql.spark.values import tables

        try:
            self._feed.take(tables(frame), self._name, number)
        except Exception as problem:
            self._problem = problem
            raise

    def _failure(self, cause: Exception) -> DataError:
        if isinstance(self._problem, DataError):
            return self._problem
        first = str(self._problem or cause).strip().splitlines()[0]
        return DataError("R311", f'the streaming data frame "{self._name}" failed: {first[:500]}')


class FrameTables:
    """The rows of a data frame as Arrow tables, each time they are gone through."""

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame

    def __iter__(self) -> Iterator[Any]:
        from incmrql.spark.values import tables

        return tables(self.frame)


def run_failed(checkpoint: Path, what: str) -> DataError:
    """A call that needs a run whose loop has ended with a problem."""
    hint = "Mend its cause, then call run.step() to go on, or run.stop()."
    message = f"the run with checkpoint {checkpoint} has failed; {what}"
    return DataError("R374", message, hint=hint)


def link_or_copy(path: Path, target: Path) -> None:
    """Let a file that never changes be at another place too."""
    try:
        os.link(path, target)
    except FileExistsError:
        return
    except OSError:  # another device, or one without links
        shutil.copyfile(path, target)


# --- as a session declares them -----------------------------------------------------------


def pushed(name: str, row: str, options: Mapping[str, Any], *, keep: bool) -> PushedStream:
    """A stream of rows of a type that are pushed."""
    if "sign" in options:
        hint = "insert and delete say it of each row."
        raise DataError("R212", "the rows of a pushed stream have no sign", hint=hint)
    type_ = type_from_text(row)
    return PushedStream(name, type_, _checked(name, type_, options), keep=keep)


def framed(name: str, frame: DataFrame, options: Mapping[str, Any]) -> FrameStream:
    """A stream of the rows of a streaming data frame; without a sign it only grows."""
    from incmrql.spark.sources.registered import frame_row_type

    if not getattr(frame, "isStreaming", False):
        hint = 'Give the type of the rows, as in "< A: int >", or use register for data at rest.'
        raise DataError("R212", f'"{name}" is no streaming DataFrame', hint=hint)
    sign = options.get("sign", SIGN if SIGN in frame.columns else None)
    if sign is None:
        row = frame_row_type(frame.schema, name)
        return FrameStream(name, row, _checked(name, row, {"insert_only": True, **options}), frame)
    if sign not in frame.columns:
        hint = f"Columns are: {', '.join(frame.columns)}."
        raise DataError("R112", f'there is no sign column "{sign}"', place=name, hint=hint)
    row = frame_row_type(frame.drop(sign).schema, name)
    return FrameStream(name, row, _checked(name, row, {**options, "sign": sign}), frame)


def _checked(name: str, row: Type, options: Mapping[str, Any]) -> Options:
    """The options of a stream, as the language has them."""
    found: dict[str, Any] = {}
    for option, value in options.items():
        if option == "key":
            found[option] = _key(name, row, value)
        elif isinstance(value, bool if option in _FLAGS else str if option == "sign" else ()):
            found[option] = value
        else:
            hint = f"Options are: key, {', '.join(_FLAGS)}, and sign of a DataFrame."
            raise DataError("R212", f"a stream has no option {option}={value!r}", hint=hint)
    if found.get("insert_only") and "sign" in found:
        raise DataError("R212", f'"{name}" is insert_only and has a sign', hint="Leave one out.")
    return tuple(found.items())


def _key(name: str, row: Type, key: Any) -> tuple[str, ...]:
    columns = (key,) if isinstance(key, str) else tuple(key)
    names = row.names if isinstance(row, Record) else ()
    for column in columns:
        if column not in names:
            hint = f"Columns are: {', '.join(names)}." if names else "Keys need a record type."
            raise DataError("R212", f'the key "{column}" is no column of "{name}"', hint=hint)
    return columns
