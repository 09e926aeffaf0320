"""Streams that are registered with a session: rows pushed from Python, streaming DataFrames.

A pushed stream keeps its rows in files of the session, so that a run that starts later gets them
too, and batch queries can read them.  While a run is running, rows also go directly to its
checkpoint, so that they survive a crash.
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

from incmrql.api.tracebacks import short_tracebacks
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
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


Options = tuple[tuple[str, Any], ...]
SIGN: Final = "_weight"
"""The column with the weights of rows, if no other is named."""
_FLAGS: Final = ("insert_only", "trusted_deletes")


class NamedStream:
    """A stream that a session knows by a name."""

    name: str
    row: Type
    _spark: Callable[[], SparkSession] | None = None

    def known_to(self, spark: Callable[[], SparkSession]) -> None:
        """Say on which Spark session the stream can be queried."""
        self._spark = spark

    @property
    def df(self) -> DataFrame:
        """The stream as a DataFrame, for queries of Spark; Spark alone cannot run them."""
        from incmrql.spark.plans.streams import stream_frame

        if self._spark is None:
            hint = "Make it with session.stream(name, ...)."
            raise DataError("R212", f'"{self.name}" is no stream of a session', hint=hint)
        return stream_frame(self._spark(), self.name, self.row)


@short_tracebacks
class PushedStream(NamedStream):
    """A stream whose rows are inserted and deleted from Python.

    With `keep`, all rows are kept as long as the session: every run gets all of them, whenever it
    starts.  Otherwise only rows are kept that no run has received yet.
    """

    def __init__(self, name: str, row: Type, options: Options = (), *, keep: bool = True) -> None:
        self.name, self.row, self.options, self.keep = name, row, options, keep
        source = typed.Source("registered", True, None, row, name=name, options=options)
        self._folder = Path(tempfile.mkdtemp(prefix="incmrql-rows-"))
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._kept = PushFeed(Stream(0, name, source, row, True, True), self._folder, is_kept=True)
        self._lock = threading.RLock()
        self._feeds: dict[Path, PushFeed] = {}
        """The feeds of running runs, by checkpoint."""
        self._delivered: dict[Path, set[str]] = {}
        """The files whose rows each checkpoint has received."""
        self._aside: dict[Path, Weighted] = {}
        """The rows that each run has set aside."""
        self._failures: dict[Path, BaseException] = {}
        """The problems that ended the loops of runs that are not stopped yet."""

    def insert(self, rows: Any) -> int:
        """Insert rows (a list, a pandas DataFrame or an Arrow table); returns their number."""
        return self._push(rows, PushFeed.insert)

    def delete(self, rows: Any) -> int:
        """Delete rows; returns their number.

        Rows that do not exist when a batch ingests the deletion are set aside: see `set_aside`.
        """
        return self._push(rows, PushFeed.delete)

    def rows(self) -> list[Value]:
        """The current rows of the stream."""
        if not self.keep:
            hint = "Start a run; or keep the rows: session.stream(name, type, keep=True)."
            raise DataError("R212", f'the rows of "{self.name}" are not kept', hint=hint)
        with self._lock:
            total: Counter[bytes] = Counter()
            for path in self._spools():
                for value, weight in spool_rows(path, self.row):
                    total[encode(value)] += weight
        absent = [decode(row) for row, weight in total.items() if weight < 0]
        if absent and not dict(self.options).get("trusted_deletes"):
            raise missing_rows_error(absent, self.name)
        return [decode(row) for row, weight in total.items() for _ in range(weight)]

    def attach(self, checkpoint: Path, feed: PushFeed, *, is_new: bool) -> None:
        """Deliver to a run that starts the rows that its checkpoint has not received yet."""
        with self._lock:
            spools = self._spools()
            delivered = set() if is_new else self._delivered.get(checkpoint, set())
            for path in spools:
                if original(path.name) not in delivered:
                    link_or_copy(path, feed.folder / path.name)
            fsync(feed.folder)
            self._feeds[checkpoint] = feed
            self._note_delivered(checkpoint, spools)

    def detach(self, checkpoint: Path) -> None:
        """Disconnect a run that ends; rows pushed from now on wait for its next start."""
        with self._lock:
            self._failures.pop(checkpoint, None)
            if self._feeds.pop(checkpoint, None) is not None:
                self._note_delivered(checkpoint, self._spools())

    @property
    def set_aside(self) -> list[tuple[Value, int]]:
        """Rows for which batches were refused, with their weights, negative for deletions.

        The runs continue without them.
        """
        with self._lock:
            return [row for rows in self._aside.values() for row in rows]

    def withdraw(self, checkpoint: Path, rows: Weighted) -> None:
        """Remove rows that a run has set aside from the rows of the stream.

        Several runs that receive the same rows set the same ones aside; that counts once.
        """
        with self._lock:
            before = [same_rows(other).budget for other in self._aside.values()]
            self._aside[checkpoint] = [*self._aside.get(checkpoint, ()), *rows]
            fault = same_rows(self._aside[checkpoint])
            for name in fault.budget:
                fault.budget[name] -= max((budget[name] for budget in before), default=0)
            rest = Fault(+fault.budget, fault.name)
            set_aside(self._kept, self.row, self._kept.poll(0.0).files, rest)

    def note_failure(self, checkpoint: Path, problem: BaseException | None) -> None:
        """Record the problem that has ended the loop of a run; None when the run continues."""
        with self._lock:
            self._failures.pop(checkpoint, None)
            if problem is not None and checkpoint in self._feeds:
                self._failures[checkpoint] = problem

    def close(self) -> None:
        """Remove all rows."""
        self._kept.close()
        self._remove()

    def _push(self, rows: Any, how: Callable[[PushFeed, Any], int]) -> int:
        is_table = isinstance(rows, pa.Table | pd.DataFrame)
        if not is_table and isinstance(rows, Iterator):
            rows = list(rows)
        with self._lock:
            for checkpoint, problem in self._failures.items():
                raise run_failed(checkpoint, "no row of this call was accepted") from problem
            feeds = list(self._feeds.values())
            if self.keep or not feeds:
                feeds.append(self._kept)
            return [how(feed, rows) for feed in feeds][-1]

    def _spools(self) -> list[Path]:
        """The spool files of all rows that are kept."""
        return [Path(file.path) for file in self._kept.poll(0.0).files]

    def _note_delivered(self, checkpoint: Path, spools: Sequence[Path]) -> None:
        """Record that a checkpoint has received the rows of spools; remove those not to be kept."""
        self._delivered[checkpoint] = {original(path.name) for path in spools}
        if not self.keep:
            for path in spools:
                path.unlink()


class FrameStream(NamedStream):
    """A stream whose rows come from a streaming DataFrame."""

    def __init__(self, name: str, row: Type, options: Options, frame: DataFrame) -> None:
        self.name, self.row, self.options, self.frame = name, row, options, frame

    def start(self, feed: FrameFeed, checkpoint: Path) -> StreamingFrameFeed:
        """Start a Spark query that feeds a run; `checkpoint` is the query's own checkpoint."""
        return StreamingFrameFeed(self, feed, checkpoint)

    def rows(self) -> list[Value]:
        """Refused: the current rows of a streaming DataFrame cannot be read."""
        hint = "Start a run: session.query(...).start()."
        raise DataError("R212", f'"{self.name}" is a streaming DataFrame', hint=hint)

    def close(self) -> None:
        """Do nothing: no rows are kept."""


class StreamingFrameFeed:
    """The feed of a streaming DataFrame, filled by a Spark streaming query."""

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
        """Wait until everything that is available now has arrived."""
        try:
            self._query.processAllAvailable()
        except Exception as cause:
            raise self._failure(cause) from None

    def poll(self, now: float) -> Arrivals:
        """The waiting batches; raises the problem that has ended the Spark query."""
        problem = self._query.exception()
        if problem is not None:
            raise self._failure(problem) from None
        return self._feed.poll(now)

    @property
    def spools(self) -> FrameFeed:
        """The feed that holds its waiting batches."""
        return self._feed

    def check_ingested(self) -> None:
        """Do nothing: only this feed writes its files."""

    def acknowledge(self, files: Sequence[tuple[InputFile, str]]) -> None:
        """Remove committed files."""
        self._feed.acknowledge(files)

    def close(self) -> None:
        """Stop the Spark query."""
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
        return DataError("R311", f'the streaming DataFrame "{self._name}" failed: {first[:500]}')


class FrameTables:
    """The rows of a DataFrame as Arrow tables, computed again for each iteration."""

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame

    def __iter__(self) -> Iterator[Any]:
        from incmrql.spark.values import tables

        return tables(self.frame)


def run_failed(checkpoint: Path, what: str) -> DataError:
    """The error for a call that needs a run whose loop has failed."""
    hint = "Fix the cause, then call run.step() to continue, or run.stop()."
    message = f"the run with checkpoint {checkpoint} has failed; {what}"
    return DataError("R374", message, hint=hint)


def link_or_copy(path: Path, target: Path) -> None:
    """Make a file that never changes available under a second path."""
    try:
        os.link(path, target)
    except FileExistsError:
        return
    except OSError:  # another device, or one without links
        shutil.copyfile(path, target)


# --- declarations -------------------------------------------------------------------------


def pushed_stream(name: str, row: str, options: Mapping[str, Any], *, keep: bool) -> PushedStream:
    """A stream of pushed rows of a type."""
    if "sign" in options:
        hint = "Call insert or delete instead."
        raise DataError("R212", "the rows of a pushed stream have no sign", hint=hint)
    type_ = type_from_text(row)
    return PushedStream(name, type_, _stream_options(name, type_, options), keep=keep)


def frame_stream(name: str, frame: DataFrame, options: Mapping[str, Any]) -> FrameStream:
    """A stream of the rows of a streaming DataFrame; without a sign it is insert-only."""
    from incmrql.spark.sources.registered import frame_row_type

    if not getattr(frame, "isStreaming", False):
        hint = 'Give the type of the rows, as in "< A: int >", or use register for static data.'
        raise DataError("R212", f'"{name}" is not a streaming DataFrame', hint=hint)
    sign = options.get("sign", SIGN if SIGN in frame.columns else None)
    if sign is None:
        row = frame_row_type(frame.schema, name)
        options = {"insert_only": True, **options}
        return FrameStream(name, row, _stream_options(name, row, options), frame)
    if sign not in frame.columns:
        hint = f"Columns are: {', '.join(frame.columns)}."
        raise DataError("R112", f'there is no sign column "{sign}"', place=name, hint=hint)
    row = frame_row_type(frame.drop(sign).schema, name)
    return FrameStream(name, row, _stream_options(name, row, {**options, "sign": sign}), frame)


def _stream_options(name: str, row: Type, options: Mapping[str, Any]) -> Options:
    """The options of a stream, in the form of the language; unknown ones are refused."""
    checked: dict[str, Any] = {}
    for option, value in options.items():
        if option == "key":
            checked[option] = _key(name, row, value)
        elif isinstance(value, bool if option in _FLAGS else str if option == "sign" else ()):
            checked[option] = value
        else:
            hint = f"Options are: key, {', '.join(_FLAGS)}, and sign of a DataFrame."
            raise DataError("R212", f"a stream has no option {option}={value!r}", hint=hint)
    if checked.get("insert_only") and "sign" in checked:
        raise DataError("R212", f'"{name}" is insert_only and has a sign', hint="Leave one out.")
    return tuple(checked.items())


def _key(name: str, row: Type, key: Any) -> tuple[str, ...]:
    """The columns of a declared key; refused if the rows do not have them."""
    columns = (key,) if isinstance(key, str) else tuple(key)
    names = row.names if isinstance(row, Record) else ()
    for column in columns:
        if column not in names:
            hint = f"Columns are: {', '.join(names)}." if names else "Keys need a record type."
            message = f'the key "{column}" is not a column of "{name}"'
            raise DataError("R212", message, hint=hint)
    return columns
