"""Plans the scan of a source: Spark reads Parquet where possible, tasks read everything else."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from incmrql.io import FileSplit, ReadSpec, element_of, list_files
from incmrql.io.files import unreadable
from incmrql.reference.sources import quarantine_name
from incmrql.spark.packing import NOTHING, pack
from incmrql.spark.sources.context import FileScan, SourceContext
from incmrql.spark.sources.native import native_file, native_frames
from incmrql.spark.sources.scan import ScanPlan
from incmrql.spark.sources.splits import split_large_files
from incmrql.spark.values import spark_schema, spark_type, value_type
from incmrql.types import typed
from incmrql.types.model import INT, LONG, PREDEFINED, Record, Type


def key_of(source: typed.Source, path: str | None, *, packed: bool) -> object:
    """The cache key of a source at a path."""
    return replace(source, path=None, streaming=False), path, packed


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """A source whose files are read, at any path."""

    spark: SparkSession
    source: typed.Source
    context: SourceContext
    element: Type
    packed: bool

    def shared_scan(self, path: str, options: dict[str, Any]) -> FileScan:
        """The scan of a path, created once."""
        scans, key = self.context.shared_scans, key_of(self.source, path, packed=False)
        if key not in scans:
            scans[key] = self.scan(path, options)
        return scans[key]

    def scan(self, path: str, options: dict[str, Any], *, weighted: bool = False) -> FileScan:
        """A new scan of a path; a path without files is an error at once."""
        source, element, paths = self.source, self.element, self.context.paths
        data = dict(self.context.data or PREDEFINED)
        spec = ReadSpec(replace(source, path=None), element, options, data, value_type)
        parser = NOTHING
        if source.format == "python":
            parser_class = self.context.parsers[source.parser]
            parser = pack(parser_class, [parser_class])
        plan = ScanPlan(
            spec=spec,
            parts=parts_of(list_files(spec, path, paths)),
            packed=self.packed,
            weighted=weighted,
            parser=parser,
            paths=paths,
        )
        columns = spark_schema(element, packed=self.packed)
        schema = weighted_schema(element) if weighted else columns
        name = quarantine_name(source, path, options)
        plan = split_large_files(self.spark, plan)
        return self.context.add_scan(self.spark, plan, name, schema, path)

    def scan_frame(
        self, path: str, options: dict[str, Any], used: Type
    ) -> tuple[FileScan, DataFrame]:
        """A scan of a path and its rows; Spark itself reads the Parquet files that it can."""
        scan = self.scan(path, options)
        if self.source.format != "binary":
            return scan, scan.frame()
        element = element_of(self.source)
        natives = [file for part in scan.plan.parts if (file := native_file(part, element))]
        if not natives or not isinstance(element, Record):
            return scan, scan.frame()
        scan.native_rows = {file.part.number: file.rows for file in natives}
        is_all = len(natives) == len(scan.plan.parts)
        uncast = used if is_all else None
        frames = native_frames(self.spark, natives, element, packed=self.packed, used=uncast)
        return scan, reduce(DataFrame.union, frames if is_all else [*frames, scan.frame()])


def parts_of(files: Iterable[Path]) -> tuple[FileSplit, ...]:
    """Whole files, in order."""
    return tuple(
        [
            FileSplit(i, os.path.abspath(file), str(file), _size(file))
            for i, file in enumerate(files)
        ]
    )


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError as cause:
        raise unreadable(file, cause) from cause


def weighted_schema(element: Type) -> spark_types.StructType:
    """The columns of rows with weights, the number of their part and their position in it."""
    fields = [
        ("row", spark_type(element)),
        ("weight", spark_type(LONG)),
        ("part", spark_type(INT)),
        ("place", spark_type(LONG)),
    ]
    return spark_types.StructType([spark_types.StructField(name, kind) for name, kind in fields])
