"""The rows of a source as a data frame, the same as the reference reader gives.

Files are read inside Spark's Python workers by that very reader, a file or more a task; Parquet
by Spark itself where its columns are as they should be.  `sources_context` says what becomes of
bad rows and errors, and that `Context.settle` must be called when the query's job is done.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types

from incmrql.algebra.term import Picks
from incmrql.diagnostics import DataError
from incmrql.formats import element_type, expand
from incmrql.formats import read as check_files
from incmrql.formats.files import unreadable
from incmrql.reference.sources import not_there, quarantine_name
from incmrql.spark.native_parquet import frame as parquet_frames
from incmrql.spark.native_parquet import native
from incmrql.spark.native_shapes import cut
from incmrql.spark.packing import NOTHING, packed
from incmrql.spark.sources_context import Context, Reading, text_size
from incmrql.spark.sources_picked import picked_frame
from incmrql.spark.sources_plan import Part, Plan
from incmrql.spark.sources_registered import registered
from incmrql.spark.values import ONE, is_wide, spark_schema, spark_type, values
from incmrql.sql.picking import PARSED
from incmrql.types import typed
from incmrql.types.model import INT, LONG, PREDEFINED, Record, Type

_MOST_NAMED = 3
_COLUMN = 8
"""How many bytes a column of a row takes, about."""


def read(
    spark: SparkSession,
    source: typed.Source,
    path: str | None,
    context: Context,
    *,
    packed: bool = False,
    wanted: Type | Picks | None = None,
) -> DataFrame:
    """The rows of a source: a column for each field of a record, else the one column `value`.

    `wanted` is their type without the fields that are not used: JSON is then read without them;
    or what is picked of them, with a column for each of these.

    With `packed` a record is in the one column too, which alone can hold a null row; JSON files,
    Parquet files of ours, parsers and registered rows may have some.
    """
    if isinstance(wanted, Picks):
        return _picked(spark, source, path, context, wanted)
    key = _key(source, path, packed=packed)
    if key not in context.frames and (found := context.instead(source, path, packed)) is not None:
        context.frames[key] = found
    if key not in context.frames:
        if source.host is not None:
            hint = "Run the query as a stream, or read a folder."
            raise DataError("R206", "a socket needs the Spark runtime", hint=hint)
        before = len(context.readings)
        used = wanted or row_type(source)
        context.frames[key] = _read(spark, source, path, context, used, packed=packed)
        context.sizes[key] = sum(map(_bytes_of, context.readings[before:]))
    return context.frames[key]


def _picked(
    spark: SparkSession, source: typed.Source, path: str | None, context: Context, picks: Picks
) -> DataFrame:
    """What a query picks of each row."""
    key = _key(source, path, packed=False), repr(picks)
    if key not in context.frames:
        reading = start(spark, source, path, context)
        if isinstance(reading, DataFrame):
            context.frames[key] = picked_frame(reading, row_type(source), picks)
        else:
            context.frames[key] = reading.picked(picks)
    return context.frames[key]


def start(
    spark: SparkSession, source: typed.Source, path: str | None, context: Context
) -> Reading | DataFrame:
    """The files of a source without deletions, on their way; or the rows taken from elsewhere."""
    files = _Files(spark, source, context, row_type(source), packed=True)
    instead = context.instead(source, path, True)
    return files.started(_path(path), dict(source.options)) if instead is None else instead


def _bytes_of(reading: Reading) -> int:
    """How many bytes rows may take: files are compressed, or hold equal values once."""
    element = reading.plan.element
    width = _COLUMN * (len(element.fields) if isinstance(element, Record) else 1)
    return max(sum(map(text_size, reading.plan.parts)), width * sum(reading.natives.values()))


def size_of(
    source: typed.Source, path: str | None, context: Context, *, packed: bool
) -> int | None:
    """How many bytes a source has about that was read; None where there are no files."""
    started = context.started.get(_key(source, path, packed=False))
    known = context.sizes.get(_key(source, path, packed=packed))
    return (known if started is None else _bytes_of(started)) or None


def _key(source: typed.Source, path: str | None, *, packed: bool) -> object:
    return replace(source, path=None, streaming=False), path, packed


def row_type(source: typed.Source) -> Type:
    """The type of the elements of a source."""
    return element_type(source.row) if source.format == "line" else source.row


def _read(
    spark: SparkSession,
    source: typed.Source,
    path: str | None,
    context: Context,
    used: Type,
    *,
    packed: bool,
) -> DataFrame:
    if source.format == "registered":
        return registered(spark, source, context.registered, packed=packed)
    path = _path(path)
    options = dict(source.options)
    if "deletes" in options or "sign" in options:
        files = _Files(spark, source, context, row_type(source), packed=packed)
        return _remaining(files, path, options)
    element = used if source.format == "json" else row_type(source)
    files = _Files(spark, source, context, element, packed=packed)
    if source.format in PARSED:
        return files.started(path, options).rows(element, packed=packed).frame()
    reading = files.reading(path, options)
    return _natively(files, reading, used) if source.format == "binary" else reading.frame()


def _path(path: str | None) -> str:
    if path is None:
        hint = "args[i] is null where there is no such argument."
        raise DataError("R207", "the path of a source is null", hint=hint)
    return path


def _natively(files: _Files, reading: Reading, used: Type) -> DataFrame:
    """The Parquet files that Spark can read by Spark, the others as they are on their way."""
    element = row_type(files.source)
    found = {part.number: native(part, element) for part in reading.plan.parts}
    natives = [file for file in found.values() if file is not None]
    if not natives or not isinstance(element, Record):
        return reading.frame()
    reading.natives = {file.part.number: file.rows for file in natives}
    is_all = len(natives) == len(found)
    asked = used if is_all else None
    frames = parquet_frames(files.spark, natives, element, packed=files.packed, used=asked)
    others = [] if is_all else [reading.frame()]
    return reduce(DataFrame.union, [*frames, *others])


@dataclass(frozen=True, slots=True)
class _Files:
    """How the files of a source are read, whatever their path."""

    spark: SparkSession
    source: typed.Source
    context: Context
    element: Type
    packed: bool

    def started(self, path: str, options: dict[str, Any]) -> Reading:
        """The files of a path, as they are on their way already if they are."""
        known, key = self.context.started, _key(self.source, path, packed=False)
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
            check_files(source.format, path, source.row, options=options)
        plan = Plan(
            source=replace(source, path=None),
            element=element,
            parts=_parts(path),
            policy=options.get("on_error", "quarantine"),
            data=dict(self.context.data or PREDEFINED),
            options=options,
            packed=self.packed,
            weighted=weighted,
            parser=parser,
        )
        columns = spark_schema(element, packed=self.packed)
        schema = _weighted_schema(element) if weighted else columns
        name = quarantine_name(source, path, options)
        return self.context.start(self.spark, cut(self.spark, plan), name, schema)


def _parts(path: str) -> tuple[Part, ...]:
    files = enumerate(expand(path))
    return tuple([Part(i, os.path.abspath(f), str(f), _size(f)) for i, f in files])


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError as cause:
        raise unreadable(file, cause) from cause


# --- rows that are deleted ---------------------------------------------------------------


def _weighted_schema(element: Type) -> spark_types.StructType:
    fields = [
        ("row", spark_type(element)),
        ("weight", spark_type(LONG)),
        ("part", spark_type(INT)),
        ("place", spark_type(LONG)),
    ]
    return spark_types.StructType([spark_types.StructField(name, kind) for name, kind in fields])


def _remaining(files: _Files, path: str, options: dict[str, Any]) -> DataFrame:
    """The inserted rows without the deleted ones, a row counting as often as it is there.

    Rows are equal when their columns are, as bags in them are sorted and there is one zero.
    Unless deletions are trusted, the sums are kept by Spark and looked at now.
    """
    readings = [files.reading(path, options, weighted=True)]
    if "deletes" in options:
        plain = {name: given for name, given in options.items() if name not in ("deletes", "sign")}
        readings.append(files.reading(options["deletes"], plain, weighted=True))
    rows = reduce(DataFrame.union, [_signed(i, reading) for i, reading in enumerate(readings)])
    element, counts = row_type(files.source), _counts(rows)
    if not options.get("trusted_deletes"):
        counts = counts.persist()
        files.context.kept.append(counts)
        missing = counts.where("weight < 0").select("row")
        some = not missing.isEmpty()
        files.context.check(readings)
        if some:
            raise _not_there(rows, missing, element, path)
    times = sql.explode(sql.expr("sequence(1L, weight)")).alias("time")
    kept = counts.where("weight > 0").select("row", times)
    wide = is_wide(element) and not files.packed
    return kept.select("row.*" if wide else sql.col("row").alias(ONE))


def _signed(number: int, reading: Reading) -> DataFrame:
    """The rows of a path; those of the second one are deletions."""
    weight = sql.col("weight") * (1 - 2 * number)
    return reading.frame().withColumns({"weight": weight, "path": sql.lit(number)})


def _counts(rows: DataFrame) -> DataFrame:
    return rows.groupBy("row").agg(sql.sum("weight").alias("weight"))


def _not_there(rows: DataFrame, missing: DataFrame, element: Type, path: str) -> DataError:
    """The error that names the first of the deletions without a row, and how many there are."""
    same = sql.col("one.row").eqNullSafe(sql.col("other.row"))
    gone = rows.where("weight < 0").alias("one").join(missing.alias("other"), same, "left_semi")
    first = gone.orderBy("path", "part", "place").limit(_MOST_NAMED)
    named = values(first.select(sql.col("row").alias(ONE)), element)
    return not_there([*named, *[None] * (gone.count() - len(named))], path)


__all__ = ["Context", "read", "row_type"]
