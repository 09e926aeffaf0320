"""Reads data that Python registered as a source: data frames, pandas frames, Arrow tables, rows.

`from_python` converts rows of Python objects, as in the reference evaluator.  Columns stay columns
if they can: those of Arrow if they cast to the declared type without loss, those of Spark if their
type widens to it.  Missing values of a pandas frame become null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from incmrql.errors import DataError, nearest
from incmrql.io.arrow.types import NoSuchType, arrow_type, struct_type, widens_to
from incmrql.io.arrow.values import normalize_floats
from incmrql.reference.python import arrow_table, from_python
from incmrql.spark.internals import arrow_type_of, in_session
from incmrql.spark.sources.columns import fits, pack_frame, rebuild_rows, select_as
from incmrql.spark.values import ONE, dataframe, is_wide, spark_schema
from incmrql.types import typed
from incmrql.types.model import (
    BOOL,
    DATE,
    DOUBLE,
    FLOAT,
    FLOATS,
    INTEGERS,
    STRING,
    TIMESTAMP,
    Decimal,
    Record,
    Type,
)

# --- Types of data frames ---
#
# A timestamp with or without a time zone is a `timestamp` (without one: in UTC), a map is a bag of
# pairs. Bytes, intervals, times of day, variants and user-defined types have no counterpart, and a
# column of such a type is refused by name.


_HINTS: Final[tuple[tuple[type[spark_types.DataType], str], ...]] = (
    (spark_types.BinaryType, "For text, cast it first: df.withColumn({name!r}, "
     "df[{name!r}].cast('string')). Else leave it out: df.drop({name!r})."),
    (spark_types.VariantType, "Take what you need out of it: variant_get({name}, '$.field', "
     "'int'). Or leave it out: df.drop({name!r})."),
)  # fmt: skip
_OTHER_HINT: Final = "Cast it to another type, or leave it out: df.drop({name!r})."


def frame_row_type(schema: spark_types.StructType, name: str) -> Type:
    """The type of a row of the data frame `name`; refuses columns without a counterpart."""
    fields = []
    for field in schema.fields:
        _refuse_unsupported(field.dataType, field.name, field.name, name)
        fields.append(pa.field(field.name, arrow_type_of(field.dataType)))
    try:
        return struct_type(fields)
    except NoSuchType as problem:
        column = f'column "{problem.path}" of ' if problem.path else ""
        message = f'{column}data frame "{name}" has {_describe_type(problem.arrow)}'
        raise DataError("R208", message, hint="Rename or leave out columns.") from None


def _describe_type(arrow: Any) -> str:
    return arrow if isinstance(arrow, str) else f"type {arrow}, which no MRQL type holds"


_SUPPORTED: Final = (
    spark_types.NullType, spark_types.BooleanType, spark_types.IntegralType,
    spark_types.FractionalType, spark_types.StringType, spark_types.DateType,
    spark_types.TimestampType, spark_types.TimestampNTZType,
)  # fmt: skip


def _refuse_unsupported(type_: spark_types.DataType, path: str, column: str, name: str) -> None:
    """Refuse a type, or one inside it, that no type of the language holds."""
    inner: list[tuple[str, spark_types.DataType]] = []
    match type_:
        case spark_types.StructType() if type_.fields:
            inner = [(f"{path}.{field.name}", field.dataType) for field in type_.fields]
        case spark_types.ArrayType():
            inner = [(f"{path}[]", type_.elementType)]
        case spark_types.MapType():
            inner = [(f"{path}.key", type_.keyType), (f"{path}.value", type_.valueType)]
        case _ if not isinstance(type_, _SUPPORTED):
            hints = [hint for kind, hint in _HINTS if isinstance(type_, kind) and path == column]
            hint = (hints or [_OTHER_HINT])[0].format(name=column)
            problem = f'column "{path}" of data frame "{name}" has type {type_.simpleString()}'
            raise DataError("R208", f"{problem}, which no MRQL type holds", hint=hint)
        case _:
            pass
    for inside, part in inner:
        _refuse_unsupported(part, inside, column, name)


# --- Registered data ---


def registered_frame(
    spark: SparkSession, source: typed.Source, registered: Mapping[str, Any], *, packed: bool
) -> DataFrame:
    """The rows that are registered under the name of a source."""
    if source.name not in registered:
        hint = nearest(source.name, registered)
        raise DataError("R208", f'nothing is registered as "{source.name}"', hint=hint)
    rows = registered[source.name]
    if isinstance(rows, DataFrame):
        return _from_spark(in_session(spark, rows), source, packed=packed)
    if isinstance(rows, pd.DataFrame):
        rows = arrow_table(rows, source.name)
    if isinstance(rows, pa.Table) and (table := _cast(rows, source.row)) is not None:
        frame = spark.createDataFrame(table, spark_schema(source.row))
        return pack_frame(frame, source.row, packed=packed)
    return _frame_of_rows(spark, rows, source, packed=packed)


def _frame_of_rows(
    spark: SparkSession, rows: Any, source: typed.Source, *, packed: bool
) -> DataFrame:
    objects: Iterable[Any] = rows.to_pylist() if hasattr(rows, "to_pylist") else rows
    try:
        values = [from_python(row, source.row) for row in objects]
    except ValueError as problem:
        raise DataError("R208", str(problem), place=source.name) from None
    return dataframe(spark, values, source.row, packed=packed or not is_wide(source.row))


def _from_spark(df: DataFrame, source: typed.Source, *, packed: bool) -> DataFrame:
    row_type, target = frame_row_type(df.schema, source.name), source.row
    in_one_column = (
        not isinstance(target, Record) and isinstance(row_type, Record) and row_type.names == (ONE,)
    )
    if in_one_column and isinstance(row_type, Record):
        row_type = row_type.fields[0][1]
    if not widens_to(row_type, target):
        message = f"the data frame has rows of type {row_type}, expected {target}"
        raise DataError("R208", message, place=source.name)
    if isinstance(target, Record) and isinstance(row_type, Record):
        types = dict(row_type.fields)
        if all(fits(types[name], type_) for name, type_ in target.fields):
            frame = select_as(df, target.fields)
            return pack_frame(frame, target, packed=packed)
    if in_one_column and fits(row_type, target):
        return select_as(df, [(ONE, target)])
    return rebuild_rows(
        df, target, in_one_column=in_one_column, packed=packed or not is_wide(target)
    )


def _cast(table: Any, row: Type) -> Any:
    """An Arrow table cast to the columns of a record; None if rows must be converted one by one."""
    if not is_wide(row) or not isinstance(row, Record) or not table.num_rows:
        return None
    if not all(table.column_names.count(name) == 1 for name in row.names):
        return None
    columns = [_cast_column(table.column(name), type_) for name, type_ in row.fields]
    if any(column is None for column in columns):
        return None
    return pa.table(dict(zip(row.names, columns, strict=True)))


def _cast_column(column: Any, type_: Type) -> Any:
    target = arrow_type(type_)
    if not _is_compatible(column.type, type_):
        return None
    try:
        cast = column.cast(target)
    except pa.ArrowInvalid:
        return None
    return normalize_floats(cast) if type_ in FLOATS else cast


def _is_compatible(arrow: Any, type_: Type) -> bool:
    """True if values of an Arrow type are accepted for a declared type, provided that they fit."""
    if type_ in INTEGERS:
        return bool(pa.types.is_integer(arrow))
    if type_ == DOUBLE:
        return arrow in (pa.float32(), pa.float64())
    if type_ == STRING:
        return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))
    same = type_ in (BOOL, FLOAT, DATE, TIMESTAMP) or isinstance(type_, Decimal)
    return same and bool(arrow == arrow_type(type_))
