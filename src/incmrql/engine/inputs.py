"""Reads input files of a program as tables of rows with weights, in chunks of bounded size.

Files are read by `io.read_chunks`, like those of batch queries; parsers written in Python deliver
rows one by one.  Rows that were pushed, or that Spark has read, are in spool files.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from incmrql.errors import DataError
from incmrql.io import Chunk, FileSplit, ReadSpec, read_chunks, row_chunks
from incmrql.io.arrow.columns import is_spread, schema, types_of
from incmrql.io.files import unreadable
from incmrql.io.notices import SourceFacts
from incmrql.io.rows import BadRow, quarantine_line
from incmrql.io.spools import read_spool
from incmrql.io.vectorised.spark_parquet import parquet_tuples
from incmrql.plan.program import Stream
from incmrql.reference.sources import parser_rows
from incmrql.types.model import PREDEFINED, Constructor

CHUNK: Final = 1 << 17
"""The number of rows in a chunk if rows come one by one."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The user's file whose rows Spark has read into a spool, as it was then."""

    path: str
    size: int
    modified: int
    checksum: str


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that a batch ingests, as it was when the batch was planned."""

    path: str
    size: int
    modified: int
    """Nanoseconds since 1970."""
    place: int
    """The index of the source among the nodes of the program."""
    deletes: bool = False
    kind: Literal["file", "spool", "received"] = "file"
    """A file of the user's, rows that were pushed, or text that a socket received."""
    retracts: str = ""
    """The path of the file that this copy retracts; "" for other input."""
    forgotten: bool = False
    """Whether the file is no longer watched; it is not read again."""
    origin: Origin | None = None
    """For a spool of a file that Spark has read: that file."""

    @property
    def watched_path(self) -> str:
        """The path of the user's file: itself, or the one that it was read from or retracts."""
        return self.origin.path if self.origin is not None else self.retracts or self.path

    def as_json(self) -> dict[str, Any]:
        """The fields for a manifest."""
        fields = asdict(self)
        if self.origin is None:
            del fields["origin"]
        return fields

    @staticmethod
    def of_json(fields: Mapping[str, Any]) -> InputFile:
        """The file that a manifest names."""
        origin = Origin(**fields["origin"]) if fields.get("origin") else None
        return InputFile(**{**fields, "origin": origin})


@dataclass(frozen=True, slots=True)
class InputChunk:
    """Rows of a file (`c0 ...` and weights), and lines that could not be read as rows."""

    table: Any
    bad: tuple[BadRow, ...] = ()
    noticed: SourceFacts = field(default_factory=SourceFacts)
    size: int = 0
    """The bytes of the file that it was read from, where that is known."""


def read_file(
    stream: Stream,
    data: Mapping[str, tuple[Constructor, ...]],
    file: InputFile,
    parser: Any = None,
) -> Iterator[InputChunk]:
    """The rows of a file, in order; weights are negated for deletes and for retractions.

    `data` are the data types that rows may have; `parser` is the parser of a source in Python.
    """
    check_unchanged(file)
    negative = file.deletes != bool(file.retracts)
    for chunk in _chunks(stream, data, file, parser):
        table = _table(chunk, stream, -1 if negative else 1)
        if file.retracts:
            yield InputChunk(table, size=chunk.size)
        else:
            yield InputChunk(table, chunk.bad, chunk.facts, chunk.size)
    check_unchanged(file)


def checksum(file: InputFile) -> str:
    """The checksum of a file's bytes; refused if the file is not as it was planned."""
    try:
        with open(file.path, "rb") as stream:
            digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16))
    except FileNotFoundError as cause:
        raise change_error(file, (cause.strerror or str(cause)).lower()) from cause
    except OSError as cause:
        raise unreadable(Path(file.path), cause) from cause
    check_unchanged(file)
    return digest.hexdigest()


def check_unchanged(file: InputFile) -> None:
    """Refuse a file that has changed since the batch was planned."""
    try:
        stat = os.stat(file.path)
    except OSError as cause:
        raise change_error(file, (cause.strerror or str(cause)).lower()) from cause
    if (stat.st_size, stat.st_mtime_ns) != (file.size, file.modified):
        raise change_error(file, "its size or time differs")


def change_error(file: InputFile, why: str) -> DataError:
    """The error for a file that changed while it was ingested."""
    hint = "Files of a stream must not change; write a new file instead."
    message = f'"{Path(file.path).name}" changed while it was being ingested: {why}'
    return DataError("R301", message, place=file.path, hint=hint)


# --- the ways of reading -----------------------------------------------------------------


def _chunks(
    stream: Stream, data: Mapping[str, tuple[Constructor, ...]], file: InputFile, parser: Any
) -> Iterator[Chunk]:
    source = stream.source
    if file.kind == "spool":
        batches = read_spool(Path(file.path), stream.element)
        return (Chunk(batch.column(0), batch.column(1)) for batch in batches)
    if source.reader is not None:
        arrays = parquet_tuples(Path(file.path), source.reader, stream.element)
        return (Chunk(array, pa.repeat(pa.scalar(1, pa.int64()), len(array))) for array in arrays)
    options = dict(source.options)
    if file.deletes:
        options.pop("sign", None)
    if file.retracts:
        options["on_error"] = "drop"  # its bad rows were reported when it was ingested
    spec = ReadSpec(source, stream.element, options, data or PREDEFINED, chunk_rows=CHUNK)
    if source.format == "python":
        policy = dict(source.options).get("on_error", "quarantine")
        rows = parser_rows(parser, source, file.path, policy)
        return row_chunks(spec, rows, stream.path or stream.name)
    return read_chunks(spec, FileSplit(0, file.path, file.path, file.size))


def _table(chunk: Chunk, stream: Stream, sign: int) -> Any:
    """The rows of a chunk: a column for each field, or one column for the whole row."""
    values, element = chunk.values, stream.element
    weights = chunk.weights if sign > 0 else pc.negate(chunk.weights)
    if stream.packed or not is_spread(element):
        return pa.table([values, weights], schema=schema("c", (element,)))
    if values.null_count:
        hint = "Leave the row out, or read it with batch queries only."
        place = stream.path or stream.name
        raise DataError("R303", "a row of a stream is null", place=place, hint=hint)
    return pa.table([*values.flatten(), weights], schema=schema("c", types_of(element)))


# --- Bad rows ---
#
# A task writes the bad rows that it meets to a file of its own. These files are part of what the
# batch commits: the driver publishes the files that results name, and reads no input again.


QuarantineFile: TypeAlias = tuple[str, int]
"""The name of a file and its size."""


class BadRowWriter:
    """Writes the bad rows of a task to a file, which is created for the first of them.

    `names` has the paths as the user wrote them, by absolute path. Without a folder bad rows are
    dropped.
    """

    def __init__(self, folder: str, names: Mapping[str, str]) -> None:
        self._folder, self._names = folder, names
        self._file: IO[str] | None = None

    def add(self, rows: Iterable[BadRow]) -> None:
        """Write rows, if they are to be kept."""
        if not self._folder:
            return
        for row in rows:
            if self._file is None:
                path = Path(self._folder) / f"rows-{uuid.uuid4().hex[:8]}.jsonl"
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("x", encoding="utf-8")
            self._file.write(quarantine_line(row, self._names.get(row.path, row.path)))

    def close(self) -> list[QuarantineFile]:
        """Flush the file to disk; returns its name and size, if there is one."""
        if self._file is None:
            return []
        file, self._file = self._file, None
        with file:
            file.flush()
            os.fsync(file.fileno())
        path = Path(file.name)
        return [(path.name, path.stat().st_size)]
