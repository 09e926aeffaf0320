"""The files of a source on their way to frames: by the reference reader in tasks, or by Spark."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from incmrql.formats import ANYWHERE, Paths, element_type
from incmrql.formats import read as check_files
from incmrql.formats.files import unreadable
from incmrql.io import Part, ReadSpec
from incmrql.reference.sources import quarantine_name
from incmrql.spark.native_parquet import frame as parquet_frames
from incmrql.spark.native_parquet import native
from incmrql.spark.packing import NOTHING, packed
from incmrql.spark.sources_context import Context, Reading
from incmrql.spark.sources_pieces import cut
from incmrql.spark.sources_plan import Plan
from incmrql.spark.values import spark_schema, spark_type, value_type
from incmrql.types import typed
from incmrql.types.model import INT, LONG, PREDEFINED, Record, Type


def key_of(source: typed.Source, path: str | None, *, packed: bool) -> object:
    """What tells a source that is read from others."""
    return replace(source, path=None, streaming=False), path, packed


def row_type(source: typed.Source) -> Type:
    """The type of the elements of a source."""
    return element_type(source.row) if source.format == "line" else source.row


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
        else:
            paths = self.context.paths
            check_files(source.format, path, source.row, options=options, paths=paths)
        data = dict(self.context.data or PREDEFINED)
        plan = Plan(
            spec=ReadSpec(replace(source, path=None), element, options, data, value_type),
            parts=parts_of(path, self.context.paths),
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
        element = row_type(self.source)
        found = {part.number: native(part, element) for part in reading.plan.parts}
        natives = [file for file in found.values() if file is not None]
        if not natives or not isinstance(element, Record):
            return reading.frame()
        reading.natives = {file.part.number: file.rows for file in natives}
        is_all = len(natives) == len(found)
        asked = used if is_all else None
        frames = parquet_frames(self.spark, natives, element, packed=self.packed, used=asked)
        others = [] if is_all else [reading.frame()]
        return reduce(DataFrame.union, [*frames, *others])


def parts_of(path: str, paths: Paths = ANYWHERE) -> tuple[Part, ...]:
    """The files of a path, in order."""
    files = enumerate(paths.expand(path))
    return tuple([Part(i, os.path.abspath(f), str(f), _size(f)) for i, f in files])


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
