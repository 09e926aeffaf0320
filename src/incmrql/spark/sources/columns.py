"""Converts existing columns of Spark or Arrow to columns of a declared type.

`fits` says which columns Spark can cast: scalars that are cast without loss, and nested columns of
the same type.  `rebuild_rows` converts everything else row by row in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any as Arrow

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from incmrql.errors import DataError
from incmrql.io.arrow.types import widens_to
from incmrql.spark.clusters import EncodedDataError
from incmrql.spark.values import (
    ONE,
    batch,
    element_reader,
    is_wide,
    spark_schema,
    spark_type,
    value_schema,
)
from incmrql.types.model import FLOATS, Basic, Collection, Decimal, Nothing, Record, Tuple, Type


def fits(own: Type, target: Type) -> bool:
    """True if Spark can cast a column of one type to another without loss."""
    match target:
        case Basic() | Decimal():
            return widens_to(own, target)
        case _:
            return own == target and _has_one_form(target)


def _has_one_form(type_: Type) -> bool:
    """True if equal values always have equal columns: no bag, float or bytes inside."""
    match type_:
        case Basic():
            return type_ not in FLOATS
        case Decimal() | Nothing():
            return True
        case Record(fields):
            return bool(fields) and all(_has_one_form(field) for _, field in fields)
        case Tuple(items):
            return bool(items) and all(map(_has_one_form, items))
        case Collection(kind, element):
            return kind == "list" and _has_one_form(element)
        case _:
            return False


def select_as(df: DataFrame, fields: Sequence[tuple[str, Type]]) -> DataFrame:
    """The columns of these names, cast to their types."""
    if all(isinstance(type_, Basic | Decimal) for _, type_ in fields):
        # One call to Java for all columns: each call takes longer than planning a column.
        casts = [f"{_cast(name, type_)} AS {quote_name(name)}" for name, type_ in fields]
        return df.selectExpr(*casts)
    columns = [
        sql.expr(_cast(name, type_)) if isinstance(type_, Basic | Decimal) else
        sql.col(quote_name(name)).cast(spark_type(type_))
        for name, type_ in fields
    ]  # fmt: skip
    return df.select([c.alias(name) for c, (name, _) in zip(columns, fields, strict=True)])


def _cast(name: str, type_: Type) -> str:
    """A column cast to a type; adding zero turns -0.0 into 0.0.  To Spark all NaNs are equal."""
    kind = spark_type(type_).simpleString()
    cast = f"CAST({quote_name(name)} AS {kind})"
    return f"{cast} + CAST(0 AS {kind})" if type_ in FLOATS else cast


def quote_name(name: str) -> str:
    """A column's name as Spark's SQL writes it."""
    return f"`{name.replace('`', '``')}`"


def pack_frame(df: DataFrame, element: Type, *, packed: bool) -> DataFrame:
    """A frame with the columns of an element; with `packed`, as one column."""
    if not packed or not is_wide(element):
        return df
    return df.select(sql.struct([sql.col(quote_name(name)) for name in df.columns]).alias(ONE))


def rebuild_rows(df: DataFrame, element: Type, *, in_one_column: bool, packed: bool) -> DataFrame:
    """The rows of a frame as values of a type; `one` says that they are in one column."""
    task = partial(_rebuild, element, in_one_column, packed)
    return df.mapInArrow(task, spark_schema(element, packed=packed))


def _rebuild(
    element: Type, in_one_column: bool, packed: bool, batches: Iterable[Arrow]
) -> Iterator[Arrow]:
    schema = value_schema(element, packed=packed)
    for part in batches:
        read = element_reader(part.schema, element, packed=in_one_column)
        try:
            rebuilt = batch(list(read(part)), element, schema)
        except DataError as problem:
            raise EncodedDataError(problem) from None
        yield rebuilt
