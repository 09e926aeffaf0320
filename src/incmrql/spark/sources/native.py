"""Decides which Parquet files Spark reads itself, and reads them.

The driver reads the footers, without a job.  A file is left to the reference reader if its columns
neither have the declared type nor widen to it, if a time may lie outside the years 1 to 9999
(according to the statistics), or if anything else might read differently.  A native file cannot
have bad rows, with one exception that is not detected: bytes in a string column that are not UTF-8,
which violate the format.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any as Arrow
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from incmrql.errors import DataError
from incmrql.io import FileSplit
from incmrql.io.arrow.types import model_type
from incmrql.io.parquet import file_type, is_one_column
from incmrql.spark.sources.columns import fits, pack_frame, select_as
from incmrql.spark.values import spark_type
from incmrql.types.model import DATE, FLOATS, TIMESTAMP, Record, Type

_SPECIAL: Final = frozenset("[]{}*?\\=,")
"""Characters in a path that Spark does not take literally."""
_OPTIONS: Final = {"datetimeRebaseMode": "CORRECTED", "mergeSchema": "false"}
_PLAIN: Final = (
    kinds.is_boolean,
    kinds.is_signed_integer,
    kinds.is_float32,
    kinds.is_float64,
    kinds.is_string,
    kinds.is_large_string,
    kinds.is_date32,
    kinds.is_decimal128,
)


@dataclass(frozen=True, slots=True)
class NativeFile:
    """A file that Spark reads: its number of rows, and the Arrow types of the columns to read."""

    part: FileSplit
    rows: int
    columns: tuple[tuple[str, Arrow], ...]


def native_file(part: FileSplit, element: Type) -> NativeFile | None:
    """How Spark reads a file; None if it must not."""
    path = Path(part.path)
    # Spark ignores files whose names start with a dot or an underscore.
    if not isinstance(element, Record) or _SPECIAL & set(part.path) or path.name[0] in "._":
        return None
    try:
        file = pq.ParquetFile(path)
        schema = file.schema_arrow
        row_type = file_type(path, schema)
    except (OSError, pa.ArrowException, DataError):
        return None
    if not isinstance(row_type, Record) or is_one_column(schema, row_type):
        return None
    types = dict(row_type.fields)
    for name, type_ in element.fields:
        if name not in types or not fits(types[name], type_):
            return None
        if not _is_plain(schema.field(name).type) or not _has_valid_times(file, name, type_):
            return None
    columns = tuple((name, schema.field(name).type) for name in element.names)
    return NativeFile(part, file.metadata.num_rows, columns)


def native_frames(
    spark: SparkSession,
    files: Sequence[NativeFile],
    element: Record,
    *,
    packed: bool,
    used: Type | None = None,
) -> list[DataFrame]:
    """The rows of files, one frame per schema.

    `used` is the row type without unused fields; the fields left out need no cast.
    """
    groups: dict[tuple[tuple[str, Arrow], ...], list[str]] = {}
    for file in files:
        groups.setdefault(file.columns, []).append(f"file://{file.part.path}")
    frames = []
    for columns, paths in groups.items():
        fields = [spark_types.StructField(name, _column_type(arrow)) for name, arrow in columns]
        reader = spark.read.schema(spark_types.StructType(fields)).options(**_OPTIONS)
        frame = reader.parquet(*paths)
        own_types = {field.name: field.dataType for field in fields}
        if packed or len(groups) > 1 or not _needs_no_cast(own_types, used):
            frame = pack_frame(select_as(frame, element.fields), element, packed=packed)
        frames.append(frame)
    return frames


def _needs_no_cast(columns: Mapping[str, spark_types.DataType], used: Type | None) -> bool:
    """True if no used column needs a cast; floats do, because zero has two signs."""
    if not isinstance(used, Record):
        return False
    return all(
        type_ not in FLOATS and columns[name] == spark_type(type_) for name, type_ in used.fields
    )


def _is_plain(arrow: Arrow, *, nested: bool = False) -> bool:
    """True if Spark reads a column as we do; nested times are out, as nobody checks their range."""
    if kinds.is_list(arrow):
        return _is_plain(arrow.value_type, nested=True)
    if kinds.is_struct(arrow):
        return all(_is_plain(field.type, nested=True) for field in arrow)
    if kinds.is_timestamp(arrow):
        return arrow.unit in ("us", "ms") and not nested
    return any(test(arrow) for test in _PLAIN) and not (nested and kinds.is_date32(arrow))


def _has_valid_times(file: Arrow, name: str, type_: Type) -> bool:
    """True if the statistics show that all times of a column are in the years 1 to 9999."""
    if type_ not in (DATE, TIMESTAMP):
        return True
    groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
    chunks = [g.column(i) for g in groups for i in range(g.num_columns)]
    return all(_has_limits(c.statistics) for c in chunks if c.path_in_schema == name)


def _has_limits(statistics: Arrow) -> bool:
    """True if the least and the greatest time are known and within the range of Python."""
    if statistics is None:
        return False
    if statistics.num_values == 0:
        return True
    try:
        limits = statistics.min, statistics.max
    except (ValueError, OverflowError, pa.ArrowException):
        return False
    return statistics.has_min_max and all(isinstance(limit, datetime.date) for limit in limits)


def _column_type(arrow: Arrow) -> spark_types.DataType:
    if kinds.is_timestamp(arrow) and arrow.tz is None:
        return spark_types.TimestampNTZType()
    return spark_type(model_type(arrow, ""))
