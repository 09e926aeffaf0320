"""The rows of a source as a data frame, the same as the reference reader gives.

Files are read inside Spark's Python workers by that very reader, a file or more a task; Parquet
by Spark itself where its columns are as they should be.  `context` says what becomes of bad rows
and errors, and that `Context.settle` must be called when the query's job is done.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any, Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from incmrql.algebra.term import Picks
from incmrql.errors import DataError
from incmrql.io import element_of
from incmrql.lower.relations.picking import PARSED
from incmrql.reference.sources import not_there
from incmrql.spark.sources.context import Context, Reading, text_size
from incmrql.spark.sources.files import Files, key_of
from incmrql.spark.sources.picked import picked_frame
from incmrql.spark.sources.registered import registered
from incmrql.spark.values import ONE, is_wide, values
from incmrql.types import typed
from incmrql.types.model import Basic, Decimal, Record, Type

# --- Insertions without deletions ---
#
#   flat rows      I - D  =  (I without rows equal to some of D)
#                            + counts of the rest, which are about as few as D has rows
#   others         I - D  =  counts of all rows
#
# Flat rows are read as fast as those of any other source; the places of deletions without a row are
# looked for when there are some.  Rows are equal when their columns are, as bags in them are sorted
# and there is one zero.


_MOST_NAMED: Final = 3
_SENT: Final = 4 << 20
"""Bytes of files with deletions up to which these are sent to all tasks."""


def remaining(files: Files, path: str, options: dict[str, Any]) -> DataFrame:
    """The inserted rows without the deleted ones, a row counting as often as it is there.

    Unless deletions are trusted, the counts are kept by Spark and looked at now.
    """
    element = element_of(files.source)
    is_flat = "sign" not in options and all(isinstance(t, Basic | Decimal) for t in _cells(element))
    readings, counts, others = (_by_touch if is_flat else _by_weight)(files, path, options)
    if not options.get("trusted_deletes"):
        counts = counts.persist()
        files.context.kept.append(counts)
        missing = counts.where("weight < 0").select("row")
        some = not missing.isEmpty()
        files.context.check(readings)
        if some:
            raise _not_there(_weighted(files, path, options)[1], missing, element, path)
    times = sql.explode(sql.expr("sequence(1L, weight)")).alias("time")
    kept = counts.where("weight > 0").select("row", times).select("row")
    rows = reduce(DataFrame.union, [kept, *others])
    wide = is_wide(element) and not files.packed
    return rows.select("row.*" if wide else sql.col("row").alias(ONE))


def _cells(element: Type) -> list[Type]:
    return [type_ for _, type_ in element.fields] if isinstance(element, Record) else [element]


_Counted: TypeAlias = tuple[list[Reading], DataFrame, list[DataFrame]]
"""What is read, the counts of rows, and rows that need none."""


def _by_touch(files: Files, path: str, options: dict[str, Any]) -> _Counted:
    """Counts of what deletions touch, and the rows that they do not.

    Files that are not in Parquet are parsed once, and all their rows counted.
    """
    plain = {name: given for name, given in options.items() if name != "deletes"}
    packed, element = replace(files, packed=True), element_of(files.source)
    read = [
        packed.plainly(path, options, element),
        packed.plainly(options["deletes"], plain, element),
    ]
    inserted, deleted = [
        frame.select(sql.col(ONE).alias("row"), sql.lit(weight).cast("long").alias("weight"))
        for (_, frame), weight in zip(read, (1, -1), strict=True)
    ]
    readings = [reading for reading, _ in read]
    if files.source.format != "binary":
        return readings, _counts(inserted.union(deleted)), []
    gone = deleted.select("row").distinct()
    if sum(map(text_size, readings[1].plan.parts)) <= _SENT:
        gone = sql.broadcast(gone)
    touched, others = [_met(inserted, gone, how) for how in ("left_semi", "left_anti")]
    return readings, _counts(touched.union(deleted)), [others.select("row")]


def _met(rows: DataFrame, others: DataFrame, how: str) -> DataFrame:
    same = sql.col("one.row").eqNullSafe(sql.col("other.row"))
    return rows.alias("one").join(others.alias("other"), same, how)


def _by_weight(files: Files, path: str, options: dict[str, Any]) -> _Counted:
    """Counts of all rows."""
    readings, rows = _weighted(files, path, options)
    return readings, _counts(rows), []


def _weighted(files: Files, path: str, options: dict[str, Any]) -> tuple[list[Reading], DataFrame]:
    """All rows with their weights and places, as the reference reader reads them."""
    readings = [files.reading(path, options, weighted=True)]
    if "deletes" in options:
        plain = {name: given for name, given in options.items() if name not in ("deletes", "sign")}
        readings.append(files.reading(options["deletes"], plain, weighted=True))
    signed = [_signed(number, reading) for number, reading in enumerate(readings)]
    return readings, reduce(DataFrame.union, signed)


def _signed(number: int, reading: Reading) -> DataFrame:
    """The rows of a path; those of the second one are deletions."""
    weight = sql.col("weight") * (1 - 2 * number)
    return reading.frame().withColumns({"weight": weight, "path": sql.lit(number)})


def _counts(rows: DataFrame) -> DataFrame:
    return rows.groupBy("row").agg(sql.sum("weight").alias("weight"))


def _not_there(rows: DataFrame, missing: DataFrame, element: Type, path: str) -> DataError:
    """The error that names the first of the deletions without a row, and how many there are."""
    gone = _met(rows.where("weight < 0"), missing, "left_semi")
    first = gone.orderBy("path", "part", "place").limit(_MOST_NAMED)
    named = values(first.select(sql.col("row").alias(ONE)), element)
    return not_there([*named, *[None] * (gone.count() - len(named))], path)


# --- Reading ---


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
        used = wanted or element_of(source)
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
            context.frames[key] = picked_frame(reading, element_of(source), picks)
        else:
            context.frames[key] = reading.picked(picks)
    return context.frames[key]


def start(
    spark: SparkSession, source: typed.Source, path: str | None, context: Context
) -> Reading | DataFrame:
    """The files of a source without deletions, on their way; or the rows taken from elsewhere."""
    files = Files(spark, source, context, element_of(source), packed=True)
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
        files = Files(spark, source, context, element_of(source), packed=packed)
        return remaining(files, path, options)
    element = used if source.format == "json" else element_of(source)
    files = Files(spark, source, context, element, packed=packed)
    if source.format in PARSED:
        return files.started(path, options).rows(element, packed=packed).frame()
    return files.plainly(path, options, used)[1]


def _path(path: str | None) -> str:
    if path is None:
        hint = "args[i] is null where there is no such argument."
        raise DataError("R207", "the path of a source is null", hint=hint)
    return path
