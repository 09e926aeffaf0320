"""Values to files: `dump` writes text, `store` writes Parquet.

    .csv            a line per row, with a header where rows are records
    .json, .jsonl   a JSON document per line
    other endings   a value per line, in MRQL's own notation

A collection is written row by row, a bag in the order in which it is shown; any other value is one
row.  A second ending .gz, .bz2, .xz or .zst compresses.  Files are replaced whole or not at all.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, Final

import pyarrow as pa

from incmrql.io.json.values import dump_json
from incmrql.io.parquet import write_parquet
from incmrql.storage.files import replacing, write_error
from incmrql.types.model import Collection, Record, Tuple, Type
from incmrql.values import Bag, LocalTime, Months, Value, canonical, show, shown_order
from incmrql.values.notation import show_float
from incmrql.values.spans import span_text

_COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst")


def dump(path: str | Path, value: Value, type_: Type) -> None:
    """Write a value of a type as text."""
    target = Path(path)
    endings = [end for end in target.suffixes if end not in _COMPRESSED]
    lines = text_lines(value, type_, endings[-1] if endings else "")
    with replacing(target) as temporary, _text_file(temporary, target.suffix) as file:
        try:
            for line in lines:
                file.write(line + "\n")
        except UnicodeEncodeError:
            raise write_error(target, "a string holds half of a surrogate pair") from None


def text_lines(value: Value, type_: Type, ending: str) -> Iterator[str]:
    """The lines of a value as text, in the format of a file with this ending."""
    rows, element = _rows(value, type_)
    match ending:
        case ".csv":
            yield from _csv_lines(rows, element)
        case ".json" | ".jsonl":
            yield from map(dump_json, rows)
        case _:
            yield from map(show, rows)


def store(path: str | Path, value: Value, type_: Type) -> None:
    """Write a value of a type as Parquet."""
    rows, element = _rows(value, type_)
    write_parquet(Path(path), rows, element)


def _rows(value: Value, type_: Type) -> tuple[list[Value], Type]:
    if not isinstance(type_, Collection) or value is None:
        return [value], type_
    return shown_order(value) if isinstance(value, Bag) else list(value), type_.element


def _csv_lines(rows: list[Value], element: Type) -> Iterator[str]:
    """A null is an empty field; alone on its line it is quoted, or the line would be skipped."""
    if isinstance(element, Record):
        yield ",".join(_csv_text(name) for name in element.names)
    for row in rows:
        line = ",".join(_csv_field(item) for item in _columns(row, element))
        yield line or '""'


def _columns(row: Value, element: Type) -> tuple[Value, ...]:
    match element:
        case Record(fields):
            return (None,) * len(fields) if row is None else row.values_
        case Tuple(items):
            return (None,) * len(items) if row is None else row
        case _:
            return (row,)


def _csv_field(value: Value) -> str:
    """A basic value as a source reads it, anything else in MRQL's notation."""
    is_quoted = isinstance(value, str) or not _is_basic(value)
    return _csv_text(plain_text(value)) if is_quoted else plain_text(value)


def _is_basic(value: Value) -> bool:
    basic = bool | int | float | Decimal | date | timedelta | bytes
    return value is None or isinstance(value, basic)


def plain_text(value: Value) -> str:
    """A basic value without quotes or the name of its type; anything else in MRQL's notation."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case Months():
            return span_text(value)
        case int():
            return str(value)
        case float():
            return show_float(value)
        case str():
            return value
        case Decimal():
            return f"{value:f}"
        case LocalTime():
            return value.isoformat()
        case timedelta():
            return span_text(value)
        case bytes():
            return value.hex()
        case datetime():
            return f"{canonical(value).replace(tzinfo=None).isoformat()}Z"
        case date():
            return value.isoformat()
        case _:
            return show(value)


def _csv_text(text: str) -> str:
    if text and not any(mark in text for mark in ',"\r\n\ufeff'):
        return text
    return '"' + text.replace('"', '""') + '"'


@contextmanager
def _text_file(path: Path, ending: str) -> Iterator[IO[str]]:
    with binary_file(path, ending) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield text
        text.flush()
        text.detach()


@contextmanager
def binary_file(path: Path, ending: str) -> Iterator[IO[bytes]]:
    """A file that compresses by the ending of the name it will have; the same for equal input."""
    match ending:
        case ".gz":
            with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
                yield packed  # type: ignore[misc]
        case ".bz2":
            with bz2.open(path, "wb") as packed:
                yield packed
        case ".xz":
            with lzma.open(path, "wb") as packed:
                yield packed
        case ".zst":
            with pa.output_stream(str(path), compression="zstd") as packed:
                yield packed
        case _:
            with path.open("wb") as file:
                yield file
