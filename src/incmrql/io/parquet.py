"""Parquet files to rows and back: `source(binary, path)` and `store`.

    read_parquet(write_parquet(rows, t)) is rows        for every element type t

Files of ours name their type in the metadata (`incmrql.type`), so that bags, data types and
`any` come back as they were; the metadata counts only while it fits the columns.  Files of
others are read by their schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any as Arrow
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from incmrql.errors import DataError, nearest
from incmrql.io.arrow.types import (
    NoSuchType,
    arrow_type,
    read_type,
    struct_type,
    widens_to,
    write_type,
)
from incmrql.io.arrow.values import plain_type, to_arrow, value_reader
from incmrql.io.files import ANYWHERE, Paths, damaged_error, open_bytes, unreadable
from incmrql.io.rows import BadRow, Read, Row
from incmrql.io.scalars import Unparsable, weight
from incmrql.storage.files import replacing, write_error
from incmrql.types.model import STRING, Record, Tuple, Type
from incmrql.values import Value

_TYPE: Final = b"incmrql.type"
_ONE: Final = "value"
"""The column of rows that are not records or tuples, or that may be null."""
_BATCH = 1 << 14
_MAGIC: Final = b"PAR1"


def schema_type(path: str | Path, sign: str = "", paths: Paths = ANYWHERE) -> Type:
    """The type of the elements in the first file of a path, without its sign column."""
    files = paths.expand(path)
    if not files:
        hint = "Put a file there first, or name another folder."
        raise DataError(
            "R122", f'folder "{path}" has no Parquet file to take the type from', hint=hint
        )
    return _without(file_type(files[0], _open(files[0]).schema_arrow), sign, files[0])


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """The rows of one file, as elements of a type and with the signs of a column."""

    path: Path
    file: Arrow
    column: Arrow
    """The Arrow type of the rows as one column."""
    is_packed: bool
    """Whether the columns of the file are the fields of that column."""
    element: Type
    sign: str = ""
    sign_type: Type = STRING

    def columns(self, size: int, names: Sequence[str] | None = None) -> Iterator[Arrow]:
        """The rows in batches of at most `size`, as a column, with all fields or some of them."""
        wanted = list(names) if self.is_packed and names is not None else None
        try:
            for batch in self.file.iter_batches(size, columns=wanted):
                yield batch.to_struct_array() if self.is_packed else batch.column(0)
        except (OSError, pa.ArrowException) as cause:
            raise damaged_error(self.path, str(cause)) from cause

    def read(self, column: Arrow, first: int) -> Iterator[Read]:
        """The rows of a column, one by one; `first` is the number of the first, from 1."""
        make = value_reader(self.column, self.element)
        flag = None
        if self.sign:
            flag = value_reader(self.column.field(self.sign).type, self.sign_type)
        try:
            rows = column.cast(plain_type(self.column)).to_pylist()
        except pa.ArrowException as cause:
            raise damaged_error(self.path, str(cause)) from cause
        for number, plain in enumerate(rows, first):
            try:
                signed = 1 if flag is None else weight(flag(plain[self.sign]), self.sign)
                yield Row(make(plain), signed)
            except Unparsable as problem:
                yield BadRow(str(self.path), number, str(plain), problem.reason)


def parquet_rows(path: Path, row: Type | None = None, sign: str = "") -> ParquetRows:
    """The rows of a file as elements of a type; without one, of the file's own type."""
    file = _open(path)
    schema = file.schema_arrow
    whole = file_type(path, schema)
    file_row_type = _without(whole, sign, path)
    element = file_row_type if row is None else row
    if not widens_to(file_row_type, element):
        hint = "Files of one source have one type; keep others in a folder of their own."
        raise DataError(
            "R121", f'"{path.name}" has rows of type {file_row_type}, expected {element}',
            place=str(path), hint=hint,
        )  # fmt: skip
    is_packed = not is_one_column(schema, whole)
    column = pa.struct(list(schema)) if is_packed else schema.field(0).type
    return ParquetRows(path, file, column, is_packed, element, sign, _sign_type(whole, sign))


def read_parquet(path: Path, row: Type | None = None, sign: str = "") -> Iterator[Read]:
    """The rows of one file, as elements of a type; without one, of the file's own type."""
    rows, number = parquet_rows(path, row, sign), 1
    for column in rows.columns(_BATCH):
        yield from rows.read(column, number)
        number += len(column)


def write_parquet(path: Path, rows: Sequence[Value], element: Type) -> None:
    """Rows of an element type as one file, which appears when it is complete."""
    wide = _has_columns(element) and all(row is not None for row in rows)
    inner = arrow_type(element)
    fields = list(inner) if wide else [pa.field(_ONE, inner)]
    schema = pa.schema(fields, metadata={_TYPE: write_type(element).encode()})
    remaining = iter(rows)
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        while chunk := list(islice(remaining, _BATCH)):
            try:
                packed = [to_arrow(row, element) for row in chunk]
                objects = packed if wide else [{_ONE: item} for item in packed]
                writer.write_table(pa.Table.from_pylist(objects, schema))
            except (UnicodeEncodeError, Unparsable, pa.ArrowInvalid) as problem:
                raise write_error(path, f"a row is not of type {element}: {problem}") from None


def _open(path: Path) -> Arrow:
    try:
        return pq.ParquetFile(path)
    except OSError as cause:
        if cause.errno is None:
            raise _not_parquet(path, cause) from cause
        raise unreadable(path, cause) from cause
    except pa.ArrowException as cause:
        raise _not_parquet(path, cause) from cause


def _not_parquet(path: Path, cause: Exception) -> DataError:
    """A file of another kind, or a Parquet file that is damaged."""
    with open_bytes(path) as stream:
        start = stream.read(len(_MAGIC))
    if _MAGIC.startswith(start):
        return damaged_error(path, str(cause))
    hint = "Read it by its own format: line, json, xml or text."
    return DataError("R123", f'"{path.name}" is not a Parquet file', place=str(path), hint=hint)


def file_type(path: Path, schema: Arrow) -> Type:
    """The type of a file's rows."""
    stored_type = _type_in_metadata(schema)
    if stored_type is not None:
        return stored_type
    try:
        return struct_type(list(schema))
    except NoSuchType as problem:
        raise DataError(
            "R120", f'column "{problem.path}" has type {problem.arrow}, which no MRQL type holds',
            place=str(path), hint="Write the file without this column, or with another type.",
        ) from None  # fmt: skip


def _type_in_metadata(schema: Arrow) -> Type | None:
    """The type that the metadata names, if the columns are such as we would write for it."""
    text = (schema.metadata or {}).get(_TYPE)
    try:
        type_ = None if text is None else read_type(text.decode())
    except ValueError:
        return None
    if type_ is None:
        return None
    inner = arrow_type(type_)
    wide = list(inner) if _has_columns(type_) else []
    fits = any(schema.equals(pa.schema(f)) for f in (wide, [pa.field(_ONE, inner)]) if f)
    return type_ if fits else None


def is_one_column(schema: Arrow, whole: Type) -> bool:
    """Whether the rows are in the one column, rather than its columns being their fields."""
    return schema.names == [_ONE] and bool(schema.field(0).type == arrow_type(whole))


def _has_columns(element: Type) -> bool:
    return isinstance(element, Record | Tuple) and arrow_type(element) != pa.bool_()


def _without(whole: Type, sign: str, path: Path) -> Type:
    if not sign:
        return whole
    names = whole.names if isinstance(whole, Record) else ()
    if not isinstance(whole, Record) or sign not in names:
        hint = f"{nearest(sign, names)} Columns are: {', '.join(names)}.".strip()
        raise DataError("R112", f'there is no sign column "{sign}"', place=str(path), hint=hint)
    return Record(tuple((name, type_) for name, type_ in whole.fields if name != sign))


def _sign_type(whole: Type, sign: str) -> Type:
    return (whole.field(sign) if isinstance(whole, Record) else None) or STRING
