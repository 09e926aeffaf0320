"""The rows of a source as a data frame, the same as the reference reader gives.

The readers of `io` read files in Spark's Python workers, one or more files per task; Spark itself
reads Parquet where the columns allow it.  `context` handles bad rows and errors: call
`SourceContext.finish` when the query's job is done.
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
from incmrql.reference.sources import missing_rows_error, socket_error
from incmrql.spark.sources.context import FileScan, SourceContext, text_size
from incmrql.spark.sources.files import SourceFiles, key_of
from incmrql.spark.sources.picks import picks_frame
from incmrql.spark.sources.registered import registered_frame
from incmrql.spark.values import ONE, is_wide, values
from incmrql.types import typed
from incmrql.types.model import Basic, Decimal, Record, Type

# --- Insertions without deletions ---
#
#   flat rows      I - D  =  (I without rows equal to some of D)
#                            + counts of the rest, which are about as few as D has rows
#   others         I - D  =  counts of all rows
#
# Flat rows are read as fast as those of any other source.  Deletions without a row are located only
# if there are some.  Rows are equal if their columns are equal: bags are sorted and zeros have one
# sign.


_MOST_EXAMPLES: Final = 3
_MOST_BROADCAST: Final = 4 << 20
"""Bytes of files with deletions up to which the deletions are broadcast."""


def remaining_rows(files: SourceFiles, path: str, options: dict[str, Any]) -> DataFrame:
    """The inserted rows without the deleted ones, each as often as it remains.

    Unless deletions are trusted, the counts are persisted by Spark and checked now.
    """
    element = element_of(files.source)
    columns = [type_ for _, type_ in element.fields] if isinstance(element, Record) else [element]
    is_flat = "sign" not in options and all(isinstance(t, Basic | Decimal) for t in columns)
    scans, counts, uncounted = (_count_deleted_rows if is_flat else _count_all_rows)(
        files, path, options
    )
    if not options.get("trusted_deletes"):
        counts = counts.persist()
        files.context.persisted.append(counts)
        missing = counts.where("weight < 0").select("row")
        is_missing = not missing.isEmpty()
        files.context.check(scans)  # a file that cannot be read is the better error
        if is_missing:
            raise _missing_rows_error(
                _weighted_rows(files, path, options)[1], missing, element, path
            )
    times = sql.explode(sql.expr("sequence(1L, weight)")).alias("time")
    inserted = counts.where("weight > 0").select("row", times).select("row")
    rows = reduce(DataFrame.union, [inserted, *uncounted])
    wide = is_wide(element) and not files.packed
    return rows.select("row.*" if wide else sql.col("row").alias(ONE))


_Counts: TypeAlias = tuple[list[FileScan], DataFrame, list[DataFrame]]
"""The scans, the counts of rows, and rows that need no count."""


def _count_deleted_rows(files: SourceFiles, path: str, options: dict[str, Any]) -> _Counts:
    """Counts of the rows that are deleted, and the rows that are not.

    Files other than Parquet are parsed once, and all their rows counted.
    """
    plain = {name: option for name, option in options.items() if name != "deletes"}
    packed, element = replace(files, packed=True), element_of(files.source)
    inputs = [
        packed.scan_frame(path, options, element),
        packed.scan_frame(options["deletes"], plain, element),
    ]
    inserted, deleted = [
        frame.select(sql.col(ONE).alias("row"), sql.lit(weight).cast("long").alias("weight"))
        for (_, frame), weight in zip(inputs, (1, -1), strict=True)
    ]
    scans = [scan for scan, _ in inputs]
    if files.source.format != "binary":
        return scans, _counts(inserted.union(deleted)), []
    keys = deleted.select("row").distinct()
    if sum(map(text_size, scans[1].plan.parts)) <= _MOST_BROADCAST:
        keys = sql.broadcast(keys)
    affected, unaffected = [_join_rows(inserted, keys, how) for how in ("left_semi", "left_anti")]
    return scans, _counts(affected.union(deleted)), [unaffected.select("row")]


def _join_rows(rows: DataFrame, keys: DataFrame, how: str) -> DataFrame:
    same = sql.col("one.row").eqNullSafe(sql.col("other.row"))
    return rows.alias("one").join(keys.alias("other"), same, how)


def _count_all_rows(files: SourceFiles, path: str, options: dict[str, Any]) -> _Counts:
    """Counts of all rows."""
    scans, rows = _weighted_rows(files, path, options)
    return scans, _counts(rows), []


def _weighted_rows(
    files: SourceFiles, path: str, options: dict[str, Any]
) -> tuple[list[FileScan], DataFrame]:
    """All rows with their weights and places, as the reference reader reads them."""
    scans = [files.scan(path, options, weighted=True)]
    if "deletes" in options:
        plain = {name: opt for name, opt in options.items() if name not in ("deletes", "sign")}
        scans.append(files.scan(options["deletes"], plain, weighted=True))
    frames = [
        # The rows of the second path are deletions.
        scan.frame().withColumns(
            {"weight": sql.col("weight") * (1 - 2 * number), "path": sql.lit(number)}
        )
        for number, scan in enumerate(scans)
    ]
    return scans, reduce(DataFrame.union, frames)


def _counts(rows: DataFrame) -> DataFrame:
    return rows.groupBy("row").agg(sql.sum("weight").alias("weight"))


def _missing_rows_error(rows: DataFrame, missing: DataFrame, element: Type, path: str) -> DataError:
    """The error that names the first deletions without a row, and their number."""
    deleted = _join_rows(rows.where("weight < 0"), missing, "left_semi")
    first = deleted.orderBy("path", "part", "place").limit(_MOST_EXAMPLES)
    examples = values(first.select(sql.col("row").alias(ONE)), element)
    return missing_rows_error([*examples, *[None] * (deleted.count() - len(examples))], path)


# --- Reading ---


_COLUMN_BYTES: Final = 8
"""An estimate of the bytes that a column of a row takes."""


def read(
    spark: SparkSession,
    source: typed.Source,
    path: str | None,
    context: SourceContext,
    *,
    packed: bool = False,
    wanted: Type | Picks | None = None,
) -> DataFrame:
    """The rows of a source: a column for each field of a record, else the single column `value`.

    `wanted` is the type of the rows without unused fields, which JSON readers then skip; or the
    picks of the query, each of which becomes a column.

    With `packed`, records are in the single column as well, the only one that can hold a null row.
    JSON files, our own Parquet files, parsers and registered rows may have null rows.
    """
    if isinstance(wanted, Picks):
        return _read_picks(spark, source, path, context, wanted)
    key = key_of(source, path, packed=packed)
    if key not in context.frames and (frame := context.override(source, path, packed)) is not None:
        context.frames[key] = frame
    if key not in context.frames:
        if source.host is not None:
            raise socket_error()
        scans_before = len(context.scans)
        used = wanted or element_of(source)
        context.frames[key] = _read(spark, source, path, context, used, packed=packed)
        context.sizes[key] = sum(map(_estimated_bytes, context.scans[scans_before:]))
    return context.frames[key]


def _read_picks(
    spark: SparkSession, source: typed.Source, path: str | None, context: SourceContext,
    picks: Picks,
) -> DataFrame:  # fmt: skip
    """What a query picks of each row."""
    key = key_of(source, path, packed=False), repr(picks)
    if key not in context.frames:
        scan = start_scan(spark, source, path, context)
        if isinstance(scan, DataFrame):
            context.frames[key] = picks_frame(scan, element_of(source), picks)
        else:
            context.frames[key] = scan.picks_frame(picks)
    return context.frames[key]


def start_scan(
    spark: SparkSession, source: typed.Source, path: str | None, context: SourceContext
) -> FileScan | DataFrame:
    """The scan of a source without deletions; or its rows, if the context overrides them."""
    frame = context.override(source, path, True)
    if frame is not None:
        return frame
    files = SourceFiles(spark, source, context, element_of(source), packed=True)
    return files.shared_scan(_path(path), dict(source.options))


def _estimated_bytes(scan: FileScan) -> int:
    """An estimate of the bytes of all rows; files may be compressed or store equal values once."""
    element = scan.plan.spec.element
    width = _COLUMN_BYTES * (len(element.fields) if isinstance(element, Record) else 1)
    return max(sum(map(text_size, scan.plan.parts)), width * sum(scan.native_rows.values()))


def estimated_size(
    source: typed.Source, path: str | None, context: SourceContext, *, packed: bool
) -> int | None:
    """An estimate of the bytes of a source that was read; None if it has no files."""
    scan = context.shared_scans.get(key_of(source, path, packed=False))
    size = context.sizes.get(key_of(source, path, packed=packed))
    return (size if scan is None else _estimated_bytes(scan)) or None


def _read(
    spark: SparkSession,
    source: typed.Source,
    path: str | None,
    context: SourceContext,
    used: Type,
    *,
    packed: bool,
) -> DataFrame:
    if source.format == "registered":
        return registered_frame(spark, source, context.registered, packed=packed)
    path = _path(path)
    options = dict(source.options)
    has_deletions = "deletes" in options or "sign" in options
    needs_all_fields = has_deletions or source.format != "json"
    element = element_of(source) if needs_all_fields else used
    files = SourceFiles(spark, source, context, element, packed=packed)
    if has_deletions:
        return remaining_rows(files, path, options)
    if source.format in PARSED:
        scan = files.shared_scan(path, options)
        return scan.with_columns_of(element, packed=packed).frame()
    return files.scan_frame(path, options, used)[1]


def _path(path: str | None) -> str:
    if path is None:
        hint = "args[i] is null where there is no such argument."
        raise DataError("R207", "the path of a source is null", hint=hint)
    return path
