"""Files to tables of rows with weights, in chunks of bounded size.

Rows are those of `formats.read`, the reader that all engines share.  Plain delimited text and
Parquet take a faster way to the same rows: a block of lines in which every field has a form that
both ways are known to read alike is parsed by Arrow; from the first block on where one has not,
the file goes on by the shared reader.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from incmrql.diagnostics import DataError
from incmrql.formats import BadRow, Read, Row, read
from incmrql.formats.files import open_text
from incmrql.formats.line import LineOptions, read_lines
from incmrql.incremental import Program, Stream
from incmrql.kernel.columns import is_spread, rows_table, spread, types_of
from incmrql.kernel.plain import BLOCK, blocks, plain_lines, plain_parquet
from incmrql.types.model import PREDEFINED
from incmrql.values import Value

CHUNK: Final = 1 << 17
"""Rows of a chunk where rows come one by one."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that a batch takes in, as it was when the batch was planned."""

    path: str
    size: int
    modified: int
    """Nanoseconds since 1970."""
    deletes: bool = False

    def as_json(self) -> dict[str, Any]:
        """The fields for a manifest."""
        return asdict(self)

    @staticmethod
    def of_json(found: dict[str, Any]) -> InputFile:
        """The file that a manifest names."""
        return InputFile(**found)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a file (`c0 ...` and weights), and lines that are none."""

    table: Any
    bad: tuple[BadRow, ...] = ()


def read_file(program: Program, file: InputFile) -> Iterator[Chunk]:
    """The rows of a file, in order; a file of deletes has them with weight -1."""
    sign = -1 if file.deletes else 1
    policy = dict(program.stream.source.options).get("on_error", "quarantine")
    for chunk in _chunks(program, file):
        if chunk.bad and policy == "fail":
            bad = chunk.bad[0]
            hint = "Mend the line, or set on_error to quarantine or drop."
            raise DataError("R110", bad.reason, place=bad.place, hint=hint)
        yield chunk if sign == 1 else Chunk(_negated(chunk.table), chunk.bad)


def checksum(file: InputFile) -> str:
    """The checksum of a file's bytes; a file that is not as planned is refused."""
    try:
        with open(file.path, "rb") as stream:
            digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16))
    except OSError as cause:
        raise changed(file, (cause.strerror or str(cause)).lower()) from cause
    check_unchanged(file)
    return digest.hexdigest()


def check_unchanged(file: InputFile) -> None:
    """Refuse a file that is not as it was when the batch was planned."""
    try:
        found = os.stat(file.path)
    except OSError as cause:
        raise changed(file, (cause.strerror or str(cause)).lower()) from cause
    if (found.st_size, found.st_mtime_ns) != (file.size, file.modified):
        raise changed(file, "its size or time is another")


def changed(file: InputFile, why: str) -> DataError:
    """A file that is not what it was."""
    hint = "Files of a stream must not change; write a new file instead."
    message = f'"{Path(file.path).name}" is no longer what was taken in: {why}'
    return DataError("R301", message, place=file.path, hint=hint)


def _chunks(program: Program, file: InputFile) -> Iterator[Chunk]:
    stream = program.stream
    source, path = stream.source, Path(file.path)
    options = dict(source.options)
    if file.deletes:
        options.pop("sign", None)
    if source.format in ("binary", "parquet"):
        tables = plain_parquet(path, stream.element, options)
        if tables is not None:
            yield from map(Chunk, tables)
            return
    if source.format in ("line", "csv"):
        yield from _lines(stream, path, options)
        return
    yield from _by_rows(stream, read(
        source.format, path, source.row, delimiter=source.delimiter, keys=source.keys,
        steps=source.steps, options=options, data=program.script.data or PREDEFINED,
    ))  # fmt: skip


def _lines(stream: Stream, path: Path, options: dict[str, Any]) -> Iterator[Chunk]:
    """Blocks of plain lines; the rest, from the first line of a block that is not, by rows."""
    source = stream.source
    how = LineOptions.of(source.delimiter, options)
    done = 0
    if how == LineOptions(how.delimiter) and path.suffix not in (".gz", ".bz2", ".xz", ".zst"):
        for block in blocks(path, BLOCK):
            table = plain_lines(block, source.row, how.delimiter)
            if table is None:
                break
            yield Chunk(table)
            done += block.count(b"\n")
        else:
            return
    rest = islice(open_text(path), done, None)
    yield from _by_rows(stream, read_lines(rest, str(path), source.row, how))


def _by_rows(stream: Stream, rows: Iterator[Read]) -> Iterator[Chunk]:
    types = types_of(stream.element)
    while taken := list(islice(rows, CHUNK)):
        good = [(_columns(row, stream), row.weight) for row in taken if isinstance(row, Row)]
        bad = tuple(row for row in taken if isinstance(row, BadRow))
        yield Chunk(rows_table("c", types, good), bad)


def _columns(row: Row, stream: Stream) -> list[Value]:
    if row.value is None and is_spread(stream.element):
        hint = "Leave the row out, or read it with batch queries only."
        raise DataError("R303", "a row of a stream is null", place=stream.path, hint=hint)
    return spread(row.value, stream.element)


def _negated(table: Any) -> Any:
    weights = pa.compute.negate(table.column(table.num_columns - 1))
    return table.set_column(table.num_columns - 1, table.schema.field(-1), weights)
