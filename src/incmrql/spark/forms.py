"""Columns of Spark in the form in which incmrql keeps them, and back.

| in Spark | here |
|---|---|
| a map | the array of its entries, structs of `key` and `value` |
| an interval of years and months | the number of months, an int |
| an interval of days and times | the number of microseconds, a bigint |
| any other type | the same |

A column may have such types inside of arrays, structs and maps.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types

_MICROSECOND: Final = "interval '0.000001' second"
_SECONDS: Final = "decimal(25,6)"
"""Holds the seconds of any interval, with all their digits."""
_SPANS: Final = (spark_types.YearMonthIntervalType, spark_types.DayTimeIntervalType)


def is_kept_alike(type_: spark_types.DataType) -> bool:
    """Whether values of a type have the same form here."""
    match type_:
        case spark_types.MapType():
            return False
        case spark_types.ArrayType():
            return is_kept_alike(type_.elementType)
        case spark_types.StructType():
            return all(is_kept_alike(field.dataType) for field in type_.fields)
        case _:
            return not isinstance(type_, _SPANS)


def kept_columns(frame: DataFrame) -> list[Column]:
    """The columns of a frame, whose names differ, in the form in which they are kept."""
    return [
        kept_column(frame[field.name], field.dataType).alias(field.name)
        for field in frame.schema.fields
    ]


def kept_column(column: Column, type_: spark_types.DataType) -> Column:
    """A column in the form in which it is kept."""
    if is_kept_alike(type_):
        return column
    match type_:
        case spark_types.MapType():
            entries = sql.map_entries(column)
            if is_kept_alike(type_.keyType) and is_kept_alike(type_.valueType):
                return entries
            return sql.transform(entries, lambda entry: _entry(entry, type_))
        case spark_types.ArrayType():
            return sql.transform(column, lambda item: kept_column(item, type_.elementType))
        case spark_types.StructType():
            fields = [
                kept_column(column.getField(field.name), field.dataType).alias(field.name)
                for field in type_.fields
            ]
            return sql.when(column.isNotNull(), sql.struct(*fields))
        case spark_types.YearMonthIntervalType():
            return column.cast("interval month").cast("int")
        case _:
            seconds = column.cast("interval second").cast(_SECONDS)
            return (seconds * sql.lit(1_000_000)).cast("bigint")


def _entry(entry: Column, type_: spark_types.MapType) -> Column:
    return sql.struct(
        kept_column(entry.getField("key"), type_.keyType).alias("key"),
        kept_column(entry.getField("value"), type_.valueType).alias("value"),
    )


def restore_column(
    column: Column, source: spark_types.DataType, target: spark_types.DataType
) -> Column:
    """A column that is kept here, or is Spark's own, as one of a type of Spark."""
    match source, target:
        case _ if is_kept_alike(target):
            return column.cast(target)
        case spark_types.ArrayType(), spark_types.MapType():
            return sql.map_from_entries(restore_column(column, source, _entries(target)))
        case spark_types.ArrayType(), spark_types.ArrayType():
            inner, wanted = source.elementType, target.elementType
            return sql.transform(column, lambda item: restore_column(item, inner, wanted))
        case spark_types.StructType(), spark_types.StructType():
            fields = [
                restore_column(column.getField(have.name), have.dataType, want.dataType).alias(
                    want.name
                )
                for have, want in zip(source.fields, target.fields, strict=True)
            ]
            return sql.when(column.isNotNull(), sql.struct(*fields))
        case spark_types.IntegerType(), spark_types.YearMonthIntervalType():
            return sql.make_ym_interval(sql.lit(0), column).cast(target)
        case spark_types.LongType(), spark_types.DayTimeIntervalType():
            return (column * sql.expr(_MICROSECOND)).cast(target)
        case _:
            return column.cast(target)


def _entries(type_: spark_types.MapType) -> spark_types.ArrayType:
    """The type of the entries of maps."""
    fields = [
        spark_types.StructField("key", type_.keyType),
        spark_types.StructField("value", type_.valueType),
    ]
    return spark_types.ArrayType(spark_types.StructType(fields))


__all__ = ["is_kept_alike", "kept_column", "kept_columns", "restore_column"]
