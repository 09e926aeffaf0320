"""Plain files to tables, all rows at once: only what Arrow surely reads as we do.

A field of text is plain if it is a number written in the common way, or text without quotes.
Anything else (quotes, blanks around numbers, another number of fields, text that is not UTF-8)
makes its block not plain, and the caller reads it by the reader that all engines share.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from incmrql.formats.arrow_types import arrow_type
from incmrql.formats.files import open_bytes
from incmrql.formats.line import LineOptions, may_be_wider
from incmrql.kernel.columns import is_spread, names, parts_of, schema, types_of
from incmrql.types.columns import column_types, element_type
from incmrql.types.model import ANY, BYTE, DOUBLE, FLOAT, INT, LONG, SHORT, STRING, Type, is_float

BLOCK: Final = 1 << 23
"""Bytes of text that are parsed together."""
_CHUNK: Final = 1 << 18
_BOM: Final = b"\xef\xbb\xbf"
_NOT_PLAIN: Final = (b'"', b"\r", b"\x00")
_INTEGER: Final = {BYTE: 2, SHORT: 4, INT: 9, LONG: 18}
"""Digits that surely fit."""
_DOUBLE: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$"


def blocks(path: Path, size: int, longest: int) -> Iterator[bytes | None]:
    """The bytes of a file in blocks of whole lines; None from where a line is too long on."""
    with open_bytes(path) as stream:
        while block := stream.read(size):
            if not block.endswith(b"\n"):
                block += stream.readline(longest + 1)
            if len(block) > longest and _has_longer(block, longest):
                yield None
                return
            yield block


def _has_longer(block: bytes, longest: int) -> bool:
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    ends = np.concatenate([[-1], ends, [len(block)]])
    return bool((np.diff(ends) - 1 > longest).any())


def plain_lines(block: bytes, row: Type, delimiter: str) -> tuple[Any, int] | None:
    """The rows of some lines as a table, or None if they are not all plain.

    With it goes the number of lines with columns beyond those of the row.
    """
    types = column_types(row)
    if types is None or len(delimiter.encode()) != 1 or delimiter in ("\n", '"'):
        return None
    if any(mark in block for mark in _NOT_PLAIN) or block.startswith(_BOM):
        return None
    more = _fields_beyond(block, types, row, delimiter)
    texts = _texts(block, len(types) + more, delimiter)
    if texts is None:
        return None
    columns = []
    for column, type_ in zip(texts, types, strict=False):
        if type_ != ANY:
            made = _parsed(column, type_)
            if made is None:
                return None
            columns.append(made)
    weights = pa.repeat(pa.scalar(1, pa.int64()), len(texts[0]))
    table = pa.table([*columns, weights], schema=schema("c", types_of(element_type(row))))
    beyond = len(texts[0]) if more > 1 else 0
    if more == 1:  # an ending delimiter has an empty field behind it
        beyond = pc.sum(pc.not_equal(texts[-1], "")).as_py() or 0
    if beyond and not may_be_wider(row, LineOptions(delimiter)):
        return None
    return table, beyond


def _fields_beyond(block: bytes, types: tuple[Type, ...], row: Type, delimiter: str) -> int:
    """How many fields the first line has beyond the columns; a wrong guess fails to parse."""
    first = block.lstrip(b"\n").split(b"\n", 1)[0]
    more = max(0, first.count(delimiter.encode()) + 1 - len(types))
    return more if may_be_wider(row, LineOptions(delimiter)) else min(more, 1)


def _texts(block: bytes, count: int, delimiter: str) -> list[Any] | None:
    """The fields of all lines, column by column, as text."""
    if not block.strip(b"\n"):
        return [pa.array([], pa.string()) for _ in range(count)]
    if count == 1 and b"\n\n" in block:
        return None  # an empty line and an empty field look the same
    labels = names("c", count)
    try:
        table = csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(column_names=labels, use_threads=False, block_size=len(block) + 1),
            csv.ParseOptions(delimiter=delimiter, quote_char=False),
            csv.ConvertOptions(
                column_types=dict.fromkeys(labels, pa.string()),
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    return [column.combine_chunks() for column in table.columns]


def _parsed(texts: Any, type_: Type) -> Any | None:
    if type_ == STRING:
        return texts
    if type_ not in _INTEGER and not (is_float(type_) and type_ == DOUBLE):
        return None
    empty = pc.equal(texts, "")
    if pc.any(empty).as_py():
        texts = pc.if_else(empty, pa.scalar(None, pa.string()), texts)
    form = rf"^-?[0-9]{{1,{_INTEGER[type_]}}}$" if type_ in _INTEGER else _DOUBLE
    if pc.all(pc.match_substring_regex(texts, pattern=form)).as_py() is False:
        return None
    numbers = texts.cast(arrow_type(type_))
    return pc.add(numbers, pa.scalar(0.0)) if type_ == DOUBLE else numbers


def plain_parquet(path: Path, element: Type, options: dict[str, Any]) -> Iterator[Any] | None:
    """The rows of a Parquet file whose columns are just those of the element."""
    if "sign" in options or not is_spread(element):
        return None
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException):
        return None
    fields = [pa.field(name, arrow_type(type_)) for name, type_ in parts_of(element)]
    found = [file.schema_arrow.field(i) for i in range(len(file.schema_arrow.names))]
    same = [(field.name, field.type) for field in found] == [(f.name, f.type) for f in fields]
    plain = all(type_ in _INTEGER or type_ in (DOUBLE, STRING) for type_ in types_of(element))
    return _parquet_tables(file, element) if same and plain else None


def _parquet_tables(file: Any, element: Type) -> Iterator[Any]:
    shape = schema("c", types_of(element))
    for batch in file.iter_batches(_CHUNK):
        columns = [
            pc.add(column, pa.scalar(0.0)) if type_ in (DOUBLE, FLOAT) else column
            for column, type_ in zip(batch.columns, types_of(element), strict=True)
        ]
        weights = pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)
        yield pa.table([*columns, weights], schema=shape)
