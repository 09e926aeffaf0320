"""The rows of a source as a data frame, the same as the reference reader gives.

Files are read inside Spark's Python workers by that very reader, a file or more a task; Parquet
by Spark itself where its columns are as they should be.  `sources_context` says what becomes of
bad rows and errors, and that `Context.settle` must be called when the query's job is done.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from incmrql.algebra.term import Picks
from incmrql.diagnostics import DataError
from incmrql.spark.sources_context import Context, Reading, text_size
from incmrql.spark.sources_deleted import remaining
from incmrql.spark.sources_files import Files, key_of, row_type
from incmrql.spark.sources_picked import picked_frame
from incmrql.spark.sources_registered import registered
from incmrql.sql.picking import PARSED
from incmrql.types import typed
from incmrql.types.model import Record, Type

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
    key = key_of(source, path, packed=packed)
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
    key = key_of(source, path, packed=False), repr(picks)
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
    files = Files(spark, source, context, row_type(source), packed=True)
    instead = context.instead(source, path, True)
    return files.started(_path(path), dict(source.options)) if instead is None else instead


def _bytes_of(reading: Reading) -> int:
    """How many bytes rows may take: files are compressed, or hold equal values once."""
    element = reading.plan.spec.element
    width = _COLUMN * (len(element.fields) if isinstance(element, Record) else 1)
    return max(sum(map(text_size, reading.plan.parts)), width * sum(reading.natives.values()))


def size_of(
    source: typed.Source, path: str | None, context: Context, *, packed: bool
) -> int | None:
    """How many bytes a source has about that was read; None where there are no files."""
    started = context.started.get(key_of(source, path, packed=False))
    known = context.sizes.get(key_of(source, path, packed=packed))
    return (known if started is None else _bytes_of(started)) or None


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
        files = Files(spark, source, context, row_type(source), packed=packed)
        return remaining(files, path, options)
    element = used if source.format == "json" else row_type(source)
    files = Files(spark, source, context, element, packed=packed)
    if source.format in PARSED:
        return files.started(path, options).rows(element, packed=packed).frame()
    return files.plainly(path, options, used)[1]


def _path(path: str | None) -> str:
    if path is None:
        hint = "args[i] is null where there is no such argument."
        raise DataError("R207", "the path of a source is null", hint=hint)
    return path


__all__ = ["Context", "read", "row_type"]
