"""Files that wait to be ingested: which of them the next batch takes, and how far a source lags.

A file is ingested as a whole.  So a batch may have more rows or bytes than its limits, if it has a
single file, and fewer, if the next file would be too much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from incmrql.engine.inputs import InputFile
from incmrql.errors import DataError
from incmrql.io.files import open_bytes
from incmrql.plan.program import Stream

_PIECE: Final = 1 << 20
_OF_LINES: Final = frozenset({"line", "csv", "json", "text"})


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The most files, bytes and rows of streams that a batch ingests; None: any number."""

    files: int | None = None
    bytes: int | None = None
    rows: int | None = None

    def is_within(self, files: int, size: int, rows: int) -> bool:
        """Whether a batch may have as much."""
        pairs = ((self.files, files), (self.bytes, size), (self.rows, rows))
        return all(most is None or amount <= most for most, amount in pairs)


@dataclass(frozen=True, slots=True)
class SourceLag:
    """How far a source lags behind after a batch."""

    source: str
    seconds: float
    """Since the last write to the oldest file that the batch ingested or left waiting."""
    files: int
    """Files that wait for later batches."""
    bytes: int
    """The size of these files."""


def next_and_later_files(
    files: tuple[InputFile, ...], limits: BatchLimits, streams: Sequence[Stream]
) -> tuple[tuple[InputFile, ...], tuple[InputFile, ...]]:
    """The files of the next batch, and those that it leaves for later ones."""
    streaming = {stream.place for stream in streams if stream.streaming}
    rows_of = row_counter(streams, limits.rows or 0)
    chosen = next_files(files, limits, lambda file: file.place in streaming, rows_of)
    taken = set(chosen)
    return chosen, tuple(file for file in files if file not in taken)


def next_files(
    files: tuple[InputFile, ...],
    limits: BatchLimits,
    is_streaming: Callable[[InputFile], bool],
    rows_of: Callable[[InputFile], int] = lambda _file: 0,
) -> tuple[InputFile, ...]:
    """The files of the next batch: all of invariant sources, the oldest of others within limits.

    What a file was and what it is now count as one file and are never in two batches: whoever
    ingests the new content first would retract it later instead of the old one.
    """
    if limits == BatchLimits():
        return files
    once = [file for file in files if not is_streaming(file)]
    others: dict[tuple[int, str], list[InputFile]] = {}
    for file in sorted(
        filter(is_streaming, files), key=lambda file: (file.modified, file.deletes, file.path)
    ):
        others.setdefault((file.place, file.watched_path), []).append(file)
    chosen = [file for same in _within(others.values(), limits, rows_of) for file in same]
    return (*once, *sorted(chosen, key=lambda file: not file.retracts))


def _within(
    groups: Iterable[list[InputFile]], limits: BatchLimits, rows_of: Callable[[InputFile], int]
) -> Iterator[list[InputFile]]:
    """The first groups that are within the limits together, and at least one."""
    size = rows = 0
    for files, group in enumerate(groups, 1):
        size += sum(file.size for file in group)
        rows += 0 if limits.rows is None else sum(map(rows_of, group))
        if files > 1 and not limits.is_within(files, size, rows):
            return
        yield group


def row_counter(streams: Iterable[Stream], unknown: int) -> Callable[[InputFile], int]:
    """How many rows a file has, or lines, without reading them; `unknown` where that is unknown."""
    by_place = {stream.place: stream for stream in streams}

    def rows_of(file: InputFile) -> int:
        try:
            return _rows(file, by_place[file.place])
        except (OSError, DataError, pa.ArrowException):
            return unknown  # reading it says what is wrong

    def _rows(file: InputFile, stream: Stream) -> int:
        reader = stream.source.reader
        kind = stream.source.format if reader is None else reader.format
        path = Path(file.path)
        if file.kind == "spool":
            with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as spool:
                batches = range(spool.num_record_batches)
                return sum(spool.get_batch(number).num_rows for number in batches)
        if kind in ("binary", "parquet"):
            return int(pq.read_metadata(path).num_rows)
        return _lines(path) if file.kind == "received" or kind in _OF_LINES else unknown

    return rows_of


def _lines(path: Path) -> int:
    """The number of lines of a file; the last one may have no end."""
    count, last = 0, b"\n"
    with open_bytes(path) as stream:
        while piece := stream.read(_PIECE):
            count += piece.count(b"\n")
            last = piece[-1:]
    return count + (last != b"\n")


def lags_of(
    streams: Iterable[Stream],
    ingested: Iterable[InputFile],
    waiting: Iterable[InputFile],
    now: float,
) -> tuple[SourceLag, ...]:
    """How far each source lags of which a batch ingested files or left some waiting, in order."""
    lags = []
    new, left = _by_place(ingested), _by_place(waiting)
    for stream in streams:
        later = left.get(stream.place, ())
        known = (*new.get(stream.place, ()), *later)
        if known:
            oldest = min((file.origin or file).modified for file in known)
            seconds = max(0.0, now - oldest / 1e9)
            size = sum(file.size for file in later)
            lags.append(SourceLag(stream.path or stream.name, seconds, len(later), size))
    return tuple(lags)


def _by_place(files: Iterable[InputFile]) -> dict[int, list[InputFile]]:
    by_place: dict[int, list[InputFile]] = {}
    for file in files:
        by_place.setdefault(file.place, []).append(file)
    return by_place
