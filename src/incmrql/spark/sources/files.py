"""The files of a source: which of them Spark may read itself, and how the others are read in tasks.

Their footers are looked at here, without a job.  A file is left to the reference reader if its
columns are not those of the wanted type or of one that widens to it, if a time may lie outside
the years 1 to 9999 (its statistics tell), or if anything else might be told differently.  What a
native file cannot have is a bad row, with one exception that is not noticed: bytes in a string
column that are not UTF-8, against the rules of the format.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Final
from typing import Any as Arrow

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from incmrql.errors import DataError
from incmrql.io import Part, ReadSpec, element_of, list_files
from incmrql.io.arrow.types import model_type
from incmrql.io.files import unreadable
from incmrql.io.parquet import file_type, is_one_column
from incmrql.reference.sources import quarantine_name
from incmrql.spark.packing import NOTHING, packed
from incmrql.spark.sources.columns import fits, pack_frame, select_as
from incmrql.spark.sources.context import Context, Reading
from incmrql.spark.sources.pieces import cut
from incmrql.spark.sources.plan import Plan
from incmrql.spark.values import spark_schema, spark_type, value_type
from incmrql.types import typed
from incmrql.types.model import DATE, FLOATS, INT, LONG, PREDEFINED, TIMESTAMP, Record, Type

_ODD: Final = frozenset("[]{}*?\\=,")
"""Characters in a path that Spark takes for something else."""
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
class Native:
    """A file to be read by Spark: its rows, and the Arrow types of the wanted columns."""

    part: Part
    rows: int
    columns: tuple[tuple[str, Arrow], ...]


def native(part: Part, element: Type) -> Native | None:
    """How Spark reads a file, or None."""
    path = Path(part.path)
    if not isinstance(element, Record) or _ODD & set(part.path) or path.name[0] in "._":
        return None
    try:
        file = pq.ParquetFile(path)
        schema = file.schema_arrow
        own = file_type(path, schema)
    except (OSError, pa.ArrowException, DataError):
        return None
    if not isinstance(own, Record) or is_one_column(schema, own):
        return None
    types = dict(own.fields)
    for name, type_ in element.fields:
        if name not in types or not fits(types[name], type_):
            return None
        if not _is_plain(schema.field(name).type) or not _is_in_time(file, name, type_):
            return None
    columns = tuple((name, schema.field(name).type) for name in element.names)
    return Native(part, file.metadata.num_rows, columns)


def frame(
    spark: SparkSession,
    files: Sequence[Native],
    element: Record,
    *,
    packed: bool,
    used: Type | None = None,
) -> list[DataFrame]:
    """The rows of files, a frame for all of one schema.

    With `used`, the type without fields that are not used, these may be as they are in a file.
    """
    groups: dict[tuple[tuple[str, Arrow], ...], list[str]] = {}
    for file in files:
        groups.setdefault(file.columns, []).append(f"file://{file.part.path}")
    frames = []
    for columns, paths in groups.items():
        fields = [spark_types.StructField(name, _column_type(arrow)) for name, arrow in columns]
        read = spark.read.schema(spark_types.StructType(fields)).options(**_OPTIONS)
        made = read.parquet(*paths)
        kinds_of = {field.name: field.dataType for field in fields}
        if packed or len(groups) > 1 or not _is_as_it_should_be(kinds_of, used):
            made = pack_frame(select_as(made, element.fields), element, packed=packed)
        frames.append(made)
    return frames


def _is_as_it_should_be(columns: Mapping[str, spark_types.DataType], used: Type | None) -> bool:
    """Whether the columns that are used need no cast; floats do, as zero has two forms."""
    if not isinstance(used, Record):
        return False
    return all(
        type_ not in FLOATS and columns[name] == spark_type(type_) for name, type_ in used.fields
    )


def _is_plain(arrow: Arrow, *, nested: bool = False) -> bool:
    if kinds.is_list(arrow):
        return _is_plain(arrow.value_type, nested=True)
    if kinds.is_struct(arrow):
        return all(_is_plain(field.type, nested=True) for field in arrow)
    if kinds.is_timestamp(arrow):
        return arrow.unit in ("us", "ms") and not nested
    return any(test(arrow) for test in _PLAIN) and not (nested and kinds.is_date32(arrow))


def _is_in_time(file: Arrow, name: str, type_: Type) -> bool:
    """Whether the statistics of a column of times say that all are in the years 1 to 9999."""
    if type_ not in (DATE, TIMESTAMP):
        return True
    groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
    chunks = [g.column(i) for g in groups for i in range(g.num_columns)]
    return all(_is_known(c.statistics) for c in chunks if c.path_in_schema == name)


def _is_known(statistics: Arrow) -> bool:
    if statistics is None:
        return False
    if statistics.num_values == 0:
        return True
    try:
        ends = statistics.min, statistics.max
    except (ValueError, OverflowError, pa.ArrowException):
        return False
    return statistics.has_min_max and all(isinstance(end, datetime.date) for end in ends)


def _column_type(arrow: Arrow) -> spark_types.DataType:
    if kinds.is_timestamp(arrow) and arrow.tz is None:
        return spark_types.TimestampNTZType()
    return spark_type(model_type(arrow, ""))


# --- All files of a source ---


def key_of(source: typed.Source, path: str | None, *, packed: bool) -> object:
    """What tells a source that is read from others."""
    return replace(source, path=None, streaming=False), path, packed


@dataclass(frozen=True, slots=True)
class Files:
    """How the files of a source are read, whatever their path."""

    spark: SparkSession
    source: typed.Source
    context: Context
    element: Type
    packed: bool

    def started(self, path: str, options: dict[str, Any]) -> Reading:
        """The files of a path, as they are on their way already if they are."""
        known, key = self.context.started, key_of(self.source, path, packed=False)
        if key not in known:
            known[key] = self.reading(path, options)
        return known[key]

    def reading(self, path: str, options: dict[str, Any], *, weighted: bool = False) -> Reading:
        """The files of a path, on their way; what is wrong with the path is noticed at once."""
        source, element = self.source, self.element
        parser = NOTHING
        if source.format == "python":
            made = self.context.parsers[source.parser]
            parser = packed(made, [made])
        data = dict(self.context.data or PREDEFINED)
        spec = ReadSpec(replace(source, path=None), element, options, data, value_type)
        plan = Plan(
            spec=spec,
            parts=parts_of(list_files(spec, path, self.context.paths)),
            packed=self.packed,
            weighted=weighted,
            parser=parser,
            paths=self.context.paths,
        )
        columns = spark_schema(element, packed=self.packed)
        schema = weighted_schema(element) if weighted else columns
        name = quarantine_name(source, path, options)
        return self.context.start(self.spark, cut(self.spark, plan), name, schema, path)

    def plainly(self, path: str, options: dict[str, Any], used: Type) -> tuple[Reading, DataFrame]:
        """The rows of a path, read by Spark itself where they are in Parquet files of its own."""
        reading = self.reading(path, options)
        native_rows = self.source.format == "binary"
        return reading, self._natively(reading, used) if native_rows else reading.frame()

    def _natively(self, reading: Reading, used: Type) -> DataFrame:
        """The Parquet files that Spark can read by Spark, the others as they are on their way."""
        element = element_of(self.source)
        found = {part.number: native(part, element) for part in reading.plan.parts}
        natives = [file for file in found.values() if file is not None]
        if not natives or not isinstance(element, Record):
            return reading.frame()
        reading.natives = {file.part.number: file.rows for file in natives}
        is_all = len(natives) == len(found)
        asked = used if is_all else None
        frames = frame(self.spark, natives, element, packed=self.packed, used=asked)
        others = [] if is_all else [reading.frame()]
        return reduce(DataFrame.union, [*frames, *others])


def parts_of(files: Iterable[Path]) -> tuple[Part, ...]:
    """Whole files, in order."""
    return tuple(
        [Part(i, os.path.abspath(file), str(file), _size(file)) for i, file in enumerate(files)]
    )


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError as cause:
        raise unreadable(file, cause) from cause


def weighted_schema(element: Type) -> spark_types.StructType:
    """The columns of rows with weights and the places where they stand."""
    fields = [
        ("row", spark_type(element)),
        ("weight", spark_type(LONG)),
        ("part", spark_type(INT)),
        ("place", spark_type(LONG)),
    ]
    return spark_types.StructType([spark_types.StructField(name, kind) for name, kind in fields])
