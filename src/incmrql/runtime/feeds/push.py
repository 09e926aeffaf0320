"""Rows that Python pushes: durable when the call returns, taken in by the next batch.

Each call appends its rows to a log, with their length and checksum, and waits until they are on
disk; many small calls so make one file.  A look turns the log into a spool file of the same name,
and then removes it.  A call that a crash cut short has left a piece at the end of a log whose
checksum is wrong: nothing of that call is taken.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import pandas as pd
import pyarrow as pa

from incmrql.errors import DataError
from incmrql.io.arrow.columns import element_array, is_spread, parts_of
from incmrql.io.files import broken
from incmrql.io.spools import BATCH, spool_batch, spool_schema, spooling
from incmrql.plan.program import Stream
from incmrql.reference import arrow_table, from_python
from incmrql.runtime.feeds.spooled import Arrivals, SpoolFolder
from incmrql.storage import fsync
from incmrql.storage.files import write_error
from incmrql.types.model import Record, Tuple, Type
from incmrql.values import Value

_HEAD: Final = struct.Struct("<QI")
"""The length of what follows, and its checksum."""
_SHOWN: Final = 200


class PushFeed(SpoolFolder):
    """Rows that are inserted and deleted from Python, by any number of threads.

    `is_kept` says that rows stay here as long as the session, so that none need to be set aside.
    `check` raises where another driver has taken over: rows that it does not know of must not be
    acknowledged.
    """

    def __init__(
        self,
        stream: Stream,
        folder: Path,
        ingested: Iterable[str] = (),
        *,
        is_kept: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        names = {Path(path).name for path in ingested}
        super().__init__(stream.place, folder, names)
        self._stream = stream
        if is_kept:
            self.aside = None
        self.finish_superseding(stream.element)
        self._lock = threading.Lock()
        self._check = check
        self._log: BinaryIO | None = None
        self._closed = False
        for log in self.folder.glob("*.log"):
            made = log.with_suffix(".arrow")
            if made.exists() or made.name in names:
                log.unlink()

    def insert(self, rows: Iterable[Any]) -> int:
        """Insert rows; they survive a crash when this returns their number."""
        return self._push(rows, 1)

    def delete(self, rows: Iterable[Any]) -> int:
        """Delete rows; those that are not there when a batch ingests this are set aside."""
        if dict(self._stream.source.options).get("insert_only"):
            hint = "Leave out insert_only to delete rows."
            message = "rows are deleted from a stream that is insert_only"
            raise DataError("R309", message, place=self._stream.name, hint=hint)
        return self._push(rows, -1)

    def poll(self, now: float) -> Arrivals:  # noqa: ARG002 - what is durable is at rest
        """All rows that were pushed and not taken in, as spool files."""
        with self._lock:
            self._end_log()
            ended = sorted(self.folder.glob("*.log"))
        for log in ended:
            self._turn(log)
        self.finish_superseding(self._stream.element)
        return self.waiting(".arrow")

    def close(self) -> None:
        """Refuse rows from now on; those that were pushed stay."""
        with self._lock:
            self._closed = True
            self._end_log()

    def _push(self, rows: Iterable[Any], weight: int) -> int:
        batches = _batches(rows, weight, self._stream)
        if not batches:
            return 0
        record = _record(batches)
        with self._lock:
            if self._closed:
                hint = "Start the query again to push rows."
                message = f'rows are pushed to "{self._stream.name}", which is stopped'
                raise DataError("R308", message, hint=hint)
            self._append(record)
        self._check()  # after the rows are on disk: a driver that starts later finds them
        return sum(batch.num_rows for batch in batches)

    def _append(self, record: bytes) -> None:
        path = Path(self._log.name) if self._log is not None else self.new_path(".log")
        try:
            if self._log is None:
                self._log = path.open("xb", buffering=0)
                fsync(self.folder)
            end = self._log.tell()
            try:
                _write_all(self._log, record)
                os.fsync(self._log.fileno())
            except OSError:
                with suppress(OSError):
                    self._log.truncate(end)
                raise
        except OSError as cause:
            self._end_log()
            raise write_error(path, cause.strerror or str(cause)) from cause

    def _end_log(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _turn(self, log: Path) -> None:
        """Make a log a spool file."""
        with spooling(log.with_suffix(".arrow"), self._stream.element) as spool:
            for batch in _gathered(_logged(log), spool_schema(self._stream.element)):
                spool.batch(batch)
        if not spool.count:
            log.with_suffix(".arrow").unlink()
        log.unlink()


def _batches(rows: Iterable[Any], weight: int, stream: Stream) -> list[Any]:
    """The rows of a call as record batches; tables whose columns fit are taken as they are."""
    if isinstance(rows, pd.DataFrame):
        rows = arrow_table(rows, stream.name, "R306")
    if isinstance(rows, pa.Table):
        with suppress(DataError):
            return _table_batches(rows, weight, stream)
        rows = rows.to_pylist()  # so that the row that is at fault is named
    pairs = [(value, weight) for value in converted(rows, stream)]
    found = []
    for start in range(0, len(pairs), BATCH):
        some = pairs[start : start + BATCH]
        try:
            found.append(spool_batch(stream.element, some))
        except UnicodeEncodeError:
            raise _half_a_character(some, start, stream) from None
    return found


def _table_batches(table: Any, weight: int, stream: Stream) -> list[Any]:
    if len(table.column_names) > len(parts_of(stream.element)):
        raise DataError("R306", "the table has more columns than the row type", place=stream.name)
    schema, found = spool_schema(stream.element), []
    for batch in table.to_batches(max_chunksize=BATCH):
        weights = pa.repeat(pa.scalar(weight, pa.int64()), batch.num_rows)
        values = element_array(batch, stream.element)
        if values.null_count and _needs_rows(stream):
            raise DataError("R303", "a row is null", place=stream.name)
        found.append(pa.record_batch([values, weights], schema=schema))
    return [batch for batch in found if batch.num_rows]


def converted(rows: Iterable[Any], stream: Stream) -> list[Value]:
    """Python objects as rows of a stream; one that is none is refused by its place and field."""
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        shown = _short(repr(rows))
        message = f"rows come in a list or another collection, and this is {shown}"
        raise DataError("R306", message, place=stream.name, hint="Write [row] for one row.")
    values = []
    needed = _needs_rows(stream)
    for number, row in enumerate(rows):
        if row is None and needed:
            hint = "Leave the row out; nothing of the call was taken."
            raise DataError("R303", f"row {number} is null", place=stream.name, hint=hint)
        try:
            values.append(from_python(row, stream.source.row, exact=True))
        except ValueError as problem:
            raise _bad(number, *_blamed(row, stream.source.row, str(problem)), stream) from None
    return values


def _needs_rows(stream: Stream) -> bool:
    """Whether no row may be null, as rows are in columns of their fields."""
    return is_spread(stream.element) and not stream.packed


def _record(batches: list[Any]) -> bytes:
    """The rows of a call as they are in a log."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return _HEAD.pack(len(content), zlib.crc32(content)) + content


def _write_all(log: BinaryIO, record: bytes) -> None:
    left = memoryview(record)
    while left:
        left = left[log.write(left) :]


def _logged(log: Path) -> Iterator[Any]:
    """The batches of all calls that are whole in a log."""
    size = log.stat().st_size
    with log.open("rb") as stream:
        while len(head := stream.read(_HEAD.size)) == _HEAD.size:
            length, crc = _HEAD.unpack(head)
            end = stream.tell() + length
            if not length or end > size:
                return
            content = stream.read(length)
            if zlib.crc32(content) != crc:
                if end < size:
                    raise broken(log, "its checksum differs")
                return
            with pa.ipc.open_stream(content) as reader:
                yield from reader


def _gathered(batches: Iterator[Any], schema: Any) -> Iterator[Any]:
    """Small batches put together."""
    waiting: list[Any] = []
    count = 0
    for batch in batches:
        if count + batch.num_rows > BATCH and waiting:
            yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()
            waiting, count = [], 0
        waiting.append(batch)
        count += batch.num_rows
    yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()


# --- rows that are none ------------------------------------------------------------------


def _blamed(row: Any, type_: Type, problem: str) -> tuple[str, str]:
    """The field that is at fault, if one is, and what is wrong with it."""
    for name, part, inner in _parts(row, type_):
        try:
            from_python(part, inner, exact=True)
        except ValueError as found:
            deeper, why = _blamed(part, inner, str(found))
            return f"{name}.{deeper}" if deeper else name, why
    return "", problem


def _parts(row: Any, type_: Type) -> Iterator[tuple[str, Any, Type]]:
    match type_:
        case Record(fields):
            for place, (name, inner) in enumerate(fields):
                if isinstance(row, Mapping) and name in row:
                    yield name, row[name], inner
                elif isinstance(row, tuple) and len(row) == len(fields):
                    yield name, row[place], inner
                elif hasattr(row, name) and not isinstance(row, Mapping):
                    yield name, getattr(row, name), inner
        case Tuple(items) if isinstance(row, tuple | list) and len(row) == len(items):
            for place, inner in enumerate(items, 1):
                yield f"_{place}", row[place - 1], inner


def _half_a_character(rows: list[tuple[Value, int]], start: int, stream: Stream) -> DataError:
    for number, row in enumerate(rows, start):
        try:
            spool_batch(stream.element, [row])
        except UnicodeEncodeError:
            return _bad(number, "", "a string holds half of a surrogate pair", stream)
    return _bad(start, "", "a string is not text", stream)


def _bad(number: int, field: str, why: str, stream: Stream) -> DataError:
    where = f'row {number}, field "{field}"' if field else f"row {number}"
    hint = f"Rows of the stream are of type {stream.source.row}; nothing of the call was taken."
    return DataError("R306", f"{where}: {_short(why)}", place=stream.name, hint=hint)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
