"""Rows that Python pushes: durable when the call returns, ingested by the next batch.

Each call appends a record to a log, its rows with their length and checksum, and waits until it is
on disk, so that many small calls make one file.  Then it appends a mark, which confirms everything
before it.  A poll converts the log to a spool file of the same name, and then removes it.

Damage before the last mark is an error: rows of calls that returned are missing.  A record after it
that is not complete belongs to a call that a crash cut short: all of it is dropped, with a notice.
A mark is not waited for.  If a crash of the machine loses it, its record is complete anyway.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import pandas as pd
import pyarrow as pa

from incmrql.errors import DataError
from incmrql.io.arrow.columns import is_spread, parts_of
from incmrql.io.arrow.tables import element_array, narrowed_elements
from incmrql.io.by_row import note_by_row
from incmrql.io.spools import BATCH, spool_batch, spool_schema, spooling
from incmrql.plan.program import Stream
from incmrql.reference import arrow_table, from_python
from incmrql.runtime.feeds.spooled import Arrivals, SpoolFolder
from incmrql.storage import fsync
from incmrql.storage.files import write_error
from incmrql.types.model import Record, Tuple, Type
from incmrql.values import Value

_HEAD: Final = struct.Struct("<QI")
"""The length of a record's content, and its checksum."""
_LOG: Final = ".pushed"
_WITHOUT_MARKS: Final = ".log"
"""The ending of logs of older versions: in these, no record is known to be confirmed."""
_SHOWN: Final = 200


class PushFeed(SpoolFolder):
    """Rows that are inserted and deleted from Python, by any number of threads.

    `is_kept` says that rows stay here as long as the session, so that none need to be set aside.
    `check` raises if another driver has taken over: that driver does not know of these rows, so
    the call must not succeed.
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
        self._notices: list[str] = []
        for log in self._logs():
            spool = log.with_suffix(".arrow")
            if spool.exists() or spool.name in names:
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

    def poll(self, now: float) -> Arrivals:  # noqa: ARG002 - durable rows do not change
        """All rows that were pushed and not ingested, as spool files."""
        with self._lock:
            self._end_log()
            logs = self._logs()
        for log in logs:
            self._convert(log)
        self.finish_superseding(self._stream.element)
        notices, self._notices = tuple(self._notices), []
        return replace(self.waiting(".arrow"), notices=notices)

    def close(self) -> None:
        """Refuse rows from now on; those that were pushed stay."""
        with self._lock:
            self._closed = True
            if self._log is not None:
                with suppress(OSError):  # only the mark may still have to be written
                    os.fsync(self._log.fileno())
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
        path = Path(self._log.name) if self._log is not None else self.new_path(_LOG)
        try:
            if self._log is None:
                self._log = path.open("xb", buffering=0)
                fsync(self.folder)
            end = self._log.tell()
            try:
                _write_all(self._log, record)
                os.fsync(self._log.fileno())
                _write_all(self._log, _mark(path))
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

    def _logs(self) -> list[Path]:
        """The logs that are not converted yet, oldest first."""
        return sorted((*self.folder.glob(f"*{_LOG}"), *self.folder.glob(f"*{_WITHOUT_MARKS}")))

    def _convert(self, log: Path) -> None:
        """Convert a log to a spool file."""
        reader = _LogReader(log)
        with spooling(log.with_suffix(".arrow"), self._stream.element) as spool:
            for batch in _combine(reader.batches(), spool_schema(self._stream.element)):
                spool.batch(batch)
        if reader.dropped_bytes:
            self._notices.append(
                f'"{self._stream.name}": a call that pushed rows was cut off by a crash; '
                f"its {reader.dropped_bytes:,} bytes in {log.name} were dropped"
            )
        if not spool.count:
            log.with_suffix(".arrow").unlink()
        log.unlink()


def _batches(rows: Iterable[Any], weight: int, stream: Stream) -> list[Any]:
    """The rows of a call as record batches; tables whose columns fit are not converted."""
    if isinstance(rows, pd.DataFrame):
        rows = arrow_table(rows, stream.name, "R306")
    if isinstance(rows, pa.Table):
        with suppress(DataError):
            return _table_batches(rows, weight, stream)
        note_by_row(len(rows))
        rows = rows.to_pylist()  # row by row, so that the error names the row
    pairs = [(value, weight) for value in convert_rows(rows, stream)]
    batches = []
    for start in range(0, len(pairs), BATCH):
        chunk = pairs[start : start + BATCH]
        try:
            batches.append(spool_batch(stream.element, chunk))
        except UnicodeEncodeError:
            raise _bad_text(chunk, start, stream) from None
    return batches


def _table_batches(table: Any, weight: int, stream: Stream) -> list[Any]:
    if len(table.column_names) > len(parts_of(stream.element)):
        raise DataError("R306", "the table has more columns than the row type", place=stream.name)
    schema, batches = spool_schema(stream.element), []
    for batch in table.to_batches(max_chunksize=BATCH):
        weights = pa.repeat(pa.scalar(weight, pa.int64()), batch.num_rows)
        values = _elements(batch, stream.element)
        if values.null_count and _needs_rows(stream):
            raise DataError("R303", "a row is null", place=stream.name)
        batches.append(pa.record_batch([values, weights], schema=schema))
    return [batch for batch in batches if batch.num_rows]


def _elements(batch: Any, element: Type) -> Any:
    """The rows of a batch, whose numbers may have wider types if each of them fits."""
    try:
        return element_array(batch, element)
    except DataError:
        values = narrowed_elements(batch, element)
        if values is None:
            raise
        return values


def convert_rows(rows: Iterable[Any], stream: Stream) -> list[Value]:
    """Python objects as rows of a stream; an error names the row and the field at fault."""
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        shown = _short(repr(rows))
        message = f"rows must be a list or another collection, not {shown}"
        raise DataError("R306", message, place=stream.name, hint="Write [row] for one row.")
    values = []
    needed = _needs_rows(stream)
    for number, row in enumerate(rows):
        if row is None and needed:
            hint = "Leave the row out; no row of this call was accepted."
            raise DataError("R303", f"row {number} is null", place=stream.name, hint=hint)
        try:
            values.append(from_python(row, stream.source.row, exact=True))
        except ValueError as problem:
            raise _bad_row(number, *_locate(row, stream.source.row, str(problem)), stream) from None
    return values


def _needs_rows(stream: Stream) -> bool:
    """Whether rows must not be null, because they are stored as columns of their fields."""
    return is_spread(stream.element) and not stream.packed


def _record(batches: list[Any]) -> bytes:
    """The record of a call for a log."""
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


def _mark(log: Path) -> bytes:
    """The mark of a log: bytes that occur nowhere else, since its name was drawn at random."""
    return hashlib.sha256(log.name.encode()).digest()[:16]


class _LogReader:
    """Reads the records of a log."""

    def __init__(self, log: Path) -> None:
        self._log, self._mark = log, _mark(log)
        self.dropped_bytes = 0
        """The length of the record at the end that is not complete."""

    def batches(self) -> Iterator[Any]:
        """The batches of all complete records."""
        size = self._log.stat().st_size
        with self._log.open("rb") as stream:
            confirmed = self._confirmed_length(stream, size)
            start = 0
            while start < size:
                content = self._record(stream, size)
                if content is None and start < confirmed:
                    raise self._damage()
                if content is None:
                    self.dropped_bytes = size - start
                    return
                with pa.ipc.open_stream(content) as reader:
                    yield from reader
                start = stream.tell()
                if stream.read(len(self._mark)) == self._mark:
                    start = stream.tell()
                stream.seek(start)

    def _confirmed_length(self, stream: BinaryIO, size: int) -> int:
        """The length of what calls that returned have written."""
        if not size:
            return 0
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            last = content.rfind(self._mark)
        return 0 if last < 0 else last + len(self._mark)

    def _record(self, stream: BinaryIO, size: int) -> bytes | None:
        """The content of the record that starts here; None if it is not complete."""
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        length, crc = _HEAD.unpack(head)
        end = stream.tell() + length
        if not length or end > size:
            return None
        content = stream.read(length)
        if zlib.crc32(content) == crc:
            return content
        if end < size:  # only the last record can be cut short by a crash
            raise self._damage()
        return None

    def _damage(self) -> DataError:
        hint = "Restore the file, or remove it and push the rows of the last calls again."
        message = f'"{self._log.name}", which holds pushed rows, is damaged: its checksum differs'
        return DataError("R103", message, place=str(self._log), hint=hint)


def _combine(batches: Iterator[Any], schema: Any) -> Iterator[Any]:
    """The same rows in fewer, larger batches."""
    waiting: list[Any] = []
    count = 0
    for batch in batches:
        if count + batch.num_rows > BATCH and waiting:
            yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()
            waiting, count = [], 0
        waiting.append(batch)
        count += batch.num_rows
    yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()


# --- bad rows ----------------------------------------------------------------------------


def _locate(row: Any, type_: Type, problem: str) -> tuple[str, str]:
    """The field that caused a problem, "" if no single one did, and what is wrong with it."""
    for name, part, inner in _parts(row, type_):
        try:
            from_python(part, inner, exact=True)
        except ValueError as cause:
            deeper, why = _locate(part, inner, str(cause))
            return f"{name}.{deeper}" if deeper else name, why
    return "", problem


def _parts(row: Any, type_: Type) -> Iterator[tuple[str, Any, Type]]:
    match type_:
        case Record(fields):
            for index, (name, inner) in enumerate(fields):
                if isinstance(row, Mapping) and name in row:
                    yield name, row[name], inner
                elif isinstance(row, tuple) and len(row) == len(fields):
                    yield name, row[index], inner
                elif hasattr(row, name) and not isinstance(row, Mapping):
                    yield name, getattr(row, name), inner
        case Tuple(items) if isinstance(row, tuple | list) and len(row) == len(items):
            for number, inner in enumerate(items, 1):
                yield f"_{number}", row[number - 1], inner


def _bad_text(rows: list[tuple[Value, int]], start: int, stream: Stream) -> DataError:
    """The error for rows with a string that UTF-8 cannot hold."""
    for number, row in enumerate(rows, start):
        try:
            spool_batch(stream.element, [row])
        except UnicodeEncodeError:
            return _bad_row(number, "", "a string holds half of a surrogate pair", stream)
    return _bad_row(start, "", "a string is not valid text", stream)


def _bad_row(number: int, field: str, why: str, stream: Stream) -> DataError:
    where = f'row {number}, field "{field}"' if field else f"row {number}"
    hint = f"Rows of the stream have type {stream.source.row}; no row of this call was accepted."
    return DataError("R306", f"{where}: {_short(why)}", place=stream.name, hint=hint)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
