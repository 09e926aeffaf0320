"""The rows of a source that are left: those inserted without those deleted.

    flat rows      I - D  =  (I without rows equal to some of D)
                             + counts of the rest, which are about as few as D has rows
    others         I - D  =  counts of all rows

Flat rows are read as fast as those of any other source; the places of deletions without a row are
looked for when there are some.  Rows are equal when their columns are, as bags in them are sorted
and there is one zero.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any, Final, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from incmrql.diagnostics import DataError
from incmrql.reference.sources import not_there
from incmrql.spark.sources_context import Reading, text_size
from incmrql.spark.sources_files import Files, row_type
from incmrql.spark.values import ONE, is_wide, values
from incmrql.types.model import Basic, Decimal, Record, Type

_MOST_NAMED: Final = 3
_SENT: Final = 4 << 20
"""Bytes of files with deletions up to which these are sent to all tasks."""


def remaining(files: Files, path: str, options: dict[str, Any]) -> DataFrame:
    """The inserted rows without the deleted ones, a row counting as often as it is there.

    Unless deletions are trusted, the counts are kept by Spark and looked at now.
    """
    element = row_type(files.source)
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
    packed, element = replace(files, packed=True), row_type(files.source)
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
