"""Parquet files as Spark reads them with a given schema, where that is sure to be the same.

Columns are found by name in any case; one that is missing is null.  `is_read_alike` says for one
file whether types, names and dates are such that Spark reads the same rows; the tests compare both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any as Arrow
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import normalize_floats
from incmrql.io.files import damaged_error, unreadable
from incmrql.types.model import (
    BOOL,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    Decimal,
    Tuple,
    Type,
)
from incmrql.types.typed import SparkReader

_ROWS: Final = 1 << 18
"""Rows that are read together."""
_PLAIN: Final = frozenset({BOOL, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING, DATE, TIMESTAMP})
_CODECS: Final = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
_HARMLESS: Final = frozenset({"mergeschema", "recursivefilelookup", "pathglobfilter", "basepath"})
"""Options that say which files there are, or what schema they have."""
_LEGACY: Final = b"org.apache.spark.legacyDateTime"
_LEGACY_INT96: Final = b"org.apache.spark.legacyINT96"
_VERSION: Final = b"org.apache.spark.version"
_REBASE: Final = "spark.sql.parquet.datetimeRebaseModeInRead"
_REBASE_INT96: Final = "spark.sql.parquet.int96RebaseModeInRead"
_STRICT: Final = (
    ("spark.sql.caseSensitive", "false"),
    ("spark.sql.files.ignoreCorruptFiles", "false"),
)


def may_read(reader: SparkReader, element: Type) -> bool:
    """Whether files of a reader may be read without Spark at all."""
    settings = dict(reader.settings)
    return (
        reader.format == "parquet"
        and not reader.computed
        and not reader.partitions
        and isinstance(element, Tuple)
        and all(_is_plain(type_) for type_ in element.items)
        and {key.lower() for key, _ in reader.options} <= _HARMLESS
        and all(settings.get(name, value).lower() == value for name, value in _STRICT)
        and all(_is_plain_field(field["type"]) for field in json.loads(reader.schema)["fields"])
    )


def is_read_alike(path: Path, reader: SparkReader, element: Type) -> bool:
    """Whether `parquet_tuples` gives the rows of a file that Spark reads."""
    if not may_read(reader, element):
        return False
    assert isinstance(element, Tuple)
    try:
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            schema, metadata = file.schema_arrow, file.metadata
            names = [name.lower() for name in schema.names]
            if len(set(names)) < len(names):
                return False
            times = []
            for name, type_ in zip(reader.columns, element.items, strict=True):
                if name.lower() in names:
                    column = schema.field(names.index(name.lower()))
                    is_int96 = column.name in _int96_columns(file)
                    times += [is_int96] if type_ in (DATE, TIMESTAMP) else []
                    if not _is_same(column.type, type_, is_int96=is_int96):
                        return False
            keys = metadata.metadata or {}
            return _has_known_codecs(metadata) and not any(
                _may_be_rebased(keys, reader, is_int96=is_int96) for is_int96 in times
            )
    except (OSError, pa.ArrowException):
        return False  # Spark says what is wrong with it


def parquet_tuples(path: Path, reader: SparkReader, element: Type) -> Iterator[Arrow]:
    """The rows of a file for which `is_read_alike`, as arrays of structs."""
    assert isinstance(element, Tuple)
    form = arrow_type(element)
    try:
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            names = {name.lower(): name for name in file.schema_arrow.names}
            wanted = [names[name.lower()] for name in reader.columns if name.lower() in names]
            for batch in file.iter_batches(_ROWS, columns=wanted):
                columns = [
                    _column(batch, names.get(name.lower()), form.field(place).type)
                    for place, name in enumerate(reader.columns)
                ]
                array = pa.StructArray.from_arrays(columns, fields=list(form))
                array.validate(full=True)
                yield array
    except pa.ArrowException as cause:
        raise damaged_error(path, str(cause)) from cause
    except OSError as cause:
        error = damaged_error(path, str(cause)) if cause.errno is None else unreadable(path, cause)
        raise error from cause


def _column(batch: Arrow, name: str | None, type_: Arrow) -> Arrow:
    if name is None:
        return pa.nulls(batch.num_rows, type_)
    column = batch.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type):
        column = pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz)), pa.int64())
    column = pc.cast(column, type_)
    return normalize_floats(column) if pa.types.is_floating(type_) else column


def _is_plain(type_: Type) -> bool:
    return type_ in _PLAIN or isinstance(type_, Decimal)


def _is_plain_field(type_: Arrow) -> bool:
    """Whether a type in Spark's JSON is one whose values both hold alike."""
    return isinstance(type_, str) and type_ != "timestamp_ntz"


def _is_same(arrow: Arrow, type_: Type, *, is_int96: bool) -> bool:
    """Whether a column of a file has just the type that is wanted."""
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    if type_ == TIMESTAMP and pa.types.is_timestamp(arrow):
        return arrow.unit in ("us", "ms") and (is_int96 or bool(arrow.tz))
    return not is_int96 and bool(arrow == arrow_type(type_))


def _int96_columns(file: Arrow) -> set[str]:
    """The columns with the times that Spark writes, which have no type in the schema."""
    columns = (file.schema.column(place) for place in range(len(file.schema)))
    return {column.path for column in columns if column.physical_type == "INT96"}


def _has_known_codecs(metadata: Arrow) -> bool:
    return all(
        metadata.row_group(group).column(column).compression in _CODECS
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    )


def _may_be_rebased(keys: Arrow, reader: SparkReader, *, is_int96: bool) -> bool:
    """Whether dates and times may be written in the calendar that Spark used before 3.0."""
    setting, key = (_REBASE_INT96, _LEGACY_INT96) if is_int96 else (_REBASE, _LEGACY)
    version = keys.get(_VERSION, b"3").split(b".")[0]
    mode = dict(reader.settings).get(setting, "CORRECTED").upper()
    return key in keys or mode != "CORRECTED" or not version.isdigit() or int(version) < 3
