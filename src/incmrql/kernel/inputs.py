"""Files of the sources of a program to tables of rows with weights, in chunks of bounded size.

Rows are those of `formats.read`, the reader that all engines share.  Plain delimited text and
Parquet take a faster way to the same rows: a block of lines in which every field has a form that
both ways are known to read alike is parsed by Arrow; from the first block on where one has not,
the file goes on by the shared reader.  Rows that were pushed lie in spool files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from incmrql.diagnostics import DataError
from incmrql.formats import BadRow, Read, Row, read
from incmrql.formats.files import MAX_LINE, broken, open_text, unreadable
from incmrql.formats.line import LineOptions, read_lines
from incmrql.formats.notices import Noticed, watched_fields
from incmrql.formats.rows import MOST_REMEMBERED
from incmrql.incremental.streams import Stream
from incmrql.kernel.columns import WEIGHT, is_spread, rows_table, schema, spread, types_of
from incmrql.kernel.plain import BLOCK, blocks, plain_lines, plain_parquet
from incmrql.kernel.spools import read_spool, write_spool, write_spool_table
from incmrql.reference.sources import _parsed as parsed
from incmrql.types.model import PREDEFINED, Constructor, Type
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
    place: int
    """The place of the source among the nodes of the program."""
    deletes: bool = False
    kind: Literal["file", "spool", "received"] = "file"
    """A file of the user's, rows that were pushed, or text that came by a socket."""
    retracts: str = ""
    """The path of the file that this one is a copy of and takes back."""
    forgotten: bool = False
    """Whether the file is no longer watched; it is not read again."""

    def as_json(self) -> dict[str, Any]:
        """The fields for a manifest."""
        return asdict(self)

    @staticmethod
    def of_json(found: Mapping[str, Any]) -> InputFile:
        """The file that a manifest names."""
        return InputFile(**found)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a file (`c0 ...` and weights), and lines that are none."""

    table: Any
    bad: tuple[BadRow, ...] = ()
    noticed: Noticed = field(default_factory=Noticed)


def read_file(
    stream: Stream,
    data: Mapping[str, tuple[Constructor, ...]],
    file: InputFile,
    parser: Any = None,
) -> Iterator[Chunk]:
    """The rows of a file, in order; one of deletes, or that is taken back, has them negated.

    `data` are the data types that rows may hold; `parser` is the parser of a source in Python.
    """
    check_unchanged(file)
    negative = file.deletes != bool(file.retracts)
    policy = dict(stream.source.options).get("on_error", "quarantine")
    for chunk in _chunks(stream, data, file, parser):
        bad = () if file.retracts else chunk.bad
        if bad and policy == "fail":
            hint = "Mend the line, or set on_error to quarantine or drop."
            raise DataError("R110", bad[0].reason, place=bad[0].place, hint=hint)
        table = _negated(chunk.table) if negative else chunk.table
        yield Chunk(table, bad, Noticed() if file.retracts else chunk.noticed)
    check_unchanged(file)


def checksum(file: InputFile) -> str:
    """The checksum of a file's bytes; a file that is not as planned is refused."""
    try:
        with open(file.path, "rb") as stream:
            digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16))
    except FileNotFoundError as cause:
        raise changed(file, (cause.strerror or str(cause)).lower()) from cause
    except OSError as cause:
        raise unreadable(Path(file.path), cause) from cause
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


# --- the ways of reading -----------------------------------------------------------------


def _chunks(
    stream: Stream, data: Mapping[str, tuple[Constructor, ...]], file: InputFile, parser: Any
) -> Iterator[Chunk]:
    source, path = stream.source, Path(file.path)
    options = dict(source.options)
    if file.kind == "spool":
        return (Chunk(_spool_table(batch, stream)) for batch in read_spool(path, stream.element))
    if file.deletes:
        options.pop("sign", None)
    if source.format == "python":
        policy = options.get("on_error", "quarantine")
        return _by_rows(stream, parsed(parser, source, file.path, policy))
    if source.format in ("line", "csv"):
        return _lines(stream, path, options)
    rows = read(
        source.format, path, source.row, delimiter=source.delimiter, keys=source.keys,
        steps=source.steps, options=options, data=data or PREDEFINED,
    )  # fmt: skip
    if source.format in ("binary", "parquet"):
        return _parquet(stream, path, options, rows)
    return _json(stream, path, rows) if source.format == "json" else _by_rows(stream, rows)


def _json(stream: Stream, path: Path, rows: Iterator[Read]) -> Iterator[Chunk]:
    """Chunks of rows; the last says which names the documents have, if a field is in no row."""
    whole = Noticed()
    watched = watched_fields(stream.source, stream.element)
    for chunk in _by_rows(stream, rows):
        whole.add(chunk.noticed)
        yield chunk
    known = Noticed(rows=whole.rows, present=set(whole.present))
    known.look_up_names(path, stream.source.keys, watched)
    if known.names:
        last = Noticed(present=known.present, names=known.names)
        yield Chunk(_table([], stream), noticed=last)


def _lines(stream: Stream, path: Path, options: dict[str, Any]) -> Iterator[Chunk]:
    """Blocks of plain lines; the rest, from the first line of a block that is not, by rows."""
    source = stream.source
    how = LineOptions.of(source.delimiter, options)
    longest = options.get("max_line", MAX_LINE)
    done = 0
    if how == LineOptions(how.delimiter):
        for block in blocks(path, BLOCK, longest):
            plain = None if block is None else plain_lines(block, source.row, how.delimiter)
            if block is None or plain is None:
                break
            table, beyond = plain
            yield Chunk(table, noticed=Noticed(rows=table.num_rows, beyond=beyond))
            done += block.count(b"\n")
        else:
            return
    rest = islice(open_text(path, longest), done, None)
    yield from _by_rows(stream, read_lines(rest, str(path), source.row, how))


def _parquet(
    stream: Stream, path: Path, options: dict[str, Any], rows: Iterator[Read]
) -> Iterator[Chunk]:
    """Tables of plain columns; from the first with a text that is none on, by rows."""
    done = 0
    try:
        for table in plain_parquet(path, stream.element, options) or ():
            if not _is_text(table):
                break
            yield Chunk(table, noticed=Noticed(rows=table.num_rows))
            done += table.num_rows
        else:
            if done:
                return
    except (OSError, pa.ArrowException) as cause:
        raise broken(path, str(cause)) from cause
    yield from _by_rows(stream, islice(rows, done, None))


def _is_text(table: Any) -> bool:
    """Whether all texts of a table are UTF-8, which Parquet does not promise."""
    texts = [column for column in table.columns if column.type == pa.string()]
    try:
        for column in texts:
            column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _by_rows(stream: Stream, rows: Iterator[Read]) -> Iterator[Chunk]:
    watched = watched_fields(stream.source, stream.element)
    while taken := list(islice(rows, CHUNK)):
        good = [row for row in taken if isinstance(row, Row)]
        bad = [row for row in taken if isinstance(row, BadRow)]
        try:
            table = _table(good, stream)
        except UnicodeEncodeError:
            spoiled = [row for row in good if not _is_storable(row, stream)]
            bad += [_half_a_character(row, stream) for row in spoiled]
            table = _table([row for row in good if row not in spoiled], stream)
        noticed = Noticed(bad=len(bad), first=bad[:MOST_REMEMBERED])
        noticed.add_rows(good, watched)
        yield Chunk(table, tuple(bad), noticed)


def _table(rows: list[Row], stream: Stream) -> Any:
    values = [(_columns(row, stream), row.weight) for row in rows]
    return rows_table("c", _types(stream), values)


def _is_storable(row: Row, stream: Stream) -> bool:
    """Whether all strings of a row are text; those of parsers in Python need not be."""
    try:
        _table([row], stream)
    except UnicodeEncodeError:
        return False
    return True


def _half_a_character(row: Row, stream: Stream) -> BadRow:
    reason = "a string holds half of a surrogate pair"
    return BadRow(stream.path or stream.name, 0, repr(row.value), reason)


def _types(stream: Stream) -> tuple[Type, ...]:
    return (stream.element,) if stream.packed else types_of(stream.element)


def _columns(row: Row, stream: Stream) -> list[Value]:
    if stream.packed:
        return [row.value]
    if row.value is None and is_spread(stream.element):
        raise _no_row(stream)
    return spread(row.value, stream.element)


def _spool_table(batch: Any, stream: Stream) -> Any:
    values, weights = batch.column(0), batch.column(1)
    columns = [values]
    if not stream.packed and is_spread(stream.element):
        if values.null_count:
            raise _no_row(stream)
        columns = values.flatten()
    return pa.table([*columns, weights], schema=schema("c", _types(stream)))


def _no_row(stream: Stream) -> DataError:
    hint = "Leave the row out, or read it with batch queries only."
    place = stream.path or stream.name
    return DataError("R303", "a row of a stream is null", place=place, hint=hint)


def _negated(table: Any) -> Any:
    place = table.num_columns - 1
    return table.set_column(place, WEIGHT, pc.negate(table.column(place)))


__all__ = [
    "CHUNK",
    "Chunk",
    "InputFile",
    "changed",
    "check_unchanged",
    "checksum",
    "read_file",
    "write_spool",
    "write_spool_table",
]
