"""Conversion of values to Spark and back, through Arrow.

    values(dataframe(spark, xs, t), t) is xs        as a bag

The columns have the types that `io.arrow.types` gives, except that the type of null becomes a
boolean column.  Bags are sorted, so that equal values have equal columns.  A record with fields
becomes one column per field.  Any other element becomes the single column `value`, and so does a
record if some element is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any as Arrow
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql import types as spark_types

from incmrql.errors import DataError, InternalError
from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import plain_type, to_arrow, value_reader
from incmrql.io.scalars import Unparsable
from incmrql.spark.forms import kept_columns, restore_column
from incmrql.types.model import (
    Any,
    Basic,
    Collection,
    Data,
    Decimal,
    Function,
    Nothing,
    Record,
    Tuple,
    Type,
    storage_type,
)
from incmrql.values import Value

ONE: Final = "value"
"""The name of the single column of elements that are not spread over columns."""

BATCH: Final = 1 << 14
"""Rows that are converted at a time."""

_BASIC: Final[dict[str, spark_types.DataType]] = {
    "bool": spark_types.BooleanType(),
    "byte": spark_types.ByteType(),
    "short": spark_types.ShortType(),
    "int": spark_types.IntegerType(),
    "long": spark_types.LongType(),
    "float": spark_types.FloatType(),
    "double": spark_types.DoubleType(),
    "string": spark_types.StringType(),
    "date": spark_types.DateType(),
    "timestamp": spark_types.TimestampType(),
    "timestamp_ntz": spark_types.TimestampNTZType(),
    "binary": spark_types.BinaryType(),
}


def spark_type(type_: Type) -> spark_types.DataType:
    """The Spark type that holds the values of a type."""
    match type_:
        case Basic():
            return _BASIC[storage_type(type_).name]
        case Decimal(precision, scale):
            return spark_types.DecimalType(precision, scale)
        case Nothing() | Record(()) | Tuple(()):
            return spark_types.BooleanType()
        case Record(fields):
            return _struct([(name, spark_type(field)) for name, field in fields])
        case Tuple(items):
            return _struct([(f"_{i}", spark_type(item)) for i, item in enumerate(items, 1)])
        case Collection(_, element):
            return spark_types.ArrayType(spark_type(element))
        case Data() | Any():
            return spark_types.BinaryType()
        case Function():
            raise InternalError(f"values of type {type_} cannot be stored")


def spark_schema(element: Type, *, packed: bool = False) -> spark_types.StructType:
    """The columns for elements of a type."""
    inner = spark_type(element)
    if is_wide(element) and not packed and isinstance(inner, spark_types.StructType):
        return inner
    return _struct([(ONE, inner)])


def is_wide(element: Type) -> bool:
    """True if elements are spread over columns, provided that none is null."""
    return isinstance(element, Record) and bool(element.fields)


def packed_rows(df: DataFrame) -> DataFrame:
    """A frame with its columns as one struct, by position, so that equal names do not matter.

    The columns have the form in which they are kept here (`forms`).
    """
    names = [f"_{place}" for place, _ in enumerate(df.columns, 1)]
    named = df.toDF(*names)
    return named.select(functions.struct(*kept_columns(named)).alias(ONE))


def with_schema(df: DataFrame, schema: spark_types.StructType) -> DataFrame:
    """Rows that are tuples as a frame with the columns of a schema, which are found by position."""
    row = df.schema[ONE].dataType
    assert isinstance(row, spark_types.StructType)
    columns = [
        restore_column(
            functions.col(ONE)[own.name], own.dataType, _with_nulls(column.dataType)
        ).alias(column.name)
        for own, column in zip(row.fields, schema.fields, strict=False)
    ]
    return df.select(*columns)


def _with_nulls(data_type: spark_types.DataType) -> spark_types.DataType:
    """A type whose parts may all be null: Spark casts no others to it."""
    match data_type:
        case spark_types.ArrayType():
            return spark_types.ArrayType(_with_nulls(data_type.elementType))
        case spark_types.MapType():
            return spark_types.MapType(
                _with_nulls(data_type.keyType), _with_nulls(data_type.valueType)
            )
        case spark_types.StructType():
            return _struct([(part.name, _with_nulls(part.dataType)) for part in data_type.fields])
        case _:
            return data_type


def is_packed(df: DataFrame, element: Type) -> bool:
    """True if a data frame holds its elements in the single column."""
    if not is_wide(element):
        return True
    return df.columns == [ONE] and plain_schema(df) == plain_schema(
        spark_schema(element, packed=True)
    )


def plain_schema(of: DataFrame | spark_types.StructType) -> str:
    """Columns and their types as text, without nullability."""
    return (of.schema if isinstance(of, DataFrame) else of).simpleString()


def value_type(type_: Type) -> Arrow:
    """The Arrow type of the column that Spark has for a type."""
    return without_null(arrow_type(type_))


def value_schema(element: Type, *, packed: bool = False) -> Arrow:
    """The Arrow schema of the columns for elements of a type."""
    inner = value_type(element)
    return pa.schema(list(inner) if is_wide(element) and not packed else [pa.field(ONE, inner)])


def without_null(arrow: Arrow) -> Arrow:
    """An Arrow type with booleans in place of the type of null."""
    if pa.types.is_null(arrow):
        return pa.bool_()
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(field.name, without_null(field.type)) for field in arrow])
    if pa.types.is_list(arrow):
        return pa.list_(without_null(arrow.value_type))
    return arrow


# --- values to columns -------------------------------------------------------------------


def dataframe(
    spark: SparkSession, values: Sequence[Value], element: Type, *, packed: bool | None = None
) -> DataFrame:
    """A data frame of Python values; by default packed only if it has to be."""
    if packed is None:
        packed = not is_wide(element) or any(value is None for value in values)
    if not values:
        return spark.createDataFrame([], spark_schema(element, packed=packed))
    record_batches = list(batches(values, element, packed=packed))
    table = pa.Table.from_batches(record_batches, value_schema(element, packed=packed))
    return spark.createDataFrame(table, spark_schema(element, packed=packed))


def batches(
    values: Iterable[Value], element: Type, *, packed: bool = False, size: int = BATCH
) -> Iterator[Arrow]:
    """Elements as record batches, created on demand."""
    schema = value_schema(element, packed=packed)
    remaining = iter(values)
    while chunk := list(islice(remaining, size)):
        yield batch(chunk, element, schema)


def batch(values: Sequence[Value], element: Type, schema: Arrow) -> Arrow:
    """Some elements as one record batch with a schema of `value_schema`."""
    array = pa.array([to_arrow(value, element) for value in values], value_type(element))
    return array_batch(array, element, schema)


def array_batch(array: Arrow, element: Type, schema: Arrow) -> Arrow:
    """An array of elements as one record batch with a schema of `value_schema`."""
    if schema.names == [ONE] and schema.field(0).type == array.type:
        return pa.record_batch([array], schema=schema)
    if array.null_count:
        raise InternalError(f"a row of type {element} is null and has no columns")
    return pa.record_batch(array.flatten(), schema=schema)


# --- columns to values -------------------------------------------------------------------


def values(df: DataFrame, element: Type) -> list[Value]:
    """All elements of a data frame, collected in the driver."""
    return list(from_arrow(_collect(df), element, packed=is_packed(df, element)))


def _collect(df: DataFrame) -> Arrow:
    """The rows in Arrow.  `df.toArrow()` fails on a null struct with non-nullable fields."""
    frame: Arrow = df
    return pa.Table.from_batches(frame._collect_as_arrow(empty_list_if_zero_records=False))


def rows(df: DataFrame, element: Type) -> Iterator[Value]:
    """The elements of a data frame, with at most one partition in the driver at a time."""
    packed = is_packed(df, element)
    for table in tables(df):
        yield from from_arrow(table, element, packed=packed)


def tables(df: DataFrame) -> Iterator[Arrow]:
    """The rows of a data frame as Arrow tables, with few in the driver at a time."""
    for row in df.mapInArrow(_packets, "packet binary").toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(bytes(row[0])) as stream:
            yield stream.read_all()


def _packets(parts: Iterable[Arrow]) -> Iterator[Arrow]:
    """Each batch as bytes, so that the driver does not build a Python object per row."""
    for part in parts:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.schema) as stream:
            stream.write_batch(part)
        yield pa.record_batch({"packet": pa.array([sink.getvalue().to_pybytes()], pa.binary())})


def from_arrow(table: Arrow, element: Type, *, packed: bool) -> Iterator[Value]:
    """The elements that Arrow columns of Spark hold."""
    read = element_reader(table.schema, element, packed=packed)
    for part in table.to_batches(BATCH):
        yield from read(part)


def element_reader(
    schema: Arrow, element: Type, *, packed: bool
) -> Callable[[Arrow], Iterator[Value]]:
    """The function that reads elements from batches of a schema."""
    arrow = schema.field(0).type if packed else pa.struct(list(schema))
    plain, read_value = plain_type(arrow), value_reader(arrow, element)

    def read_values(part: Arrow) -> Iterator[Value]:
        column = part.column(0) if packed else part.to_struct_array()
        try:
            return iter([read_value(value) for value in column.cast(plain).to_pylist()])
        except Unparsable as problem:  # only a data frame of the user's can hold such a value
            hint = "Correct the value in the data frame, or leave the row out."
            raise DataError(
                "R208", f"a value of a data frame: {problem.reason}", hint=hint
            ) from None

    return read_values


def _struct(fields: list[tuple[str, spark_types.DataType]]) -> spark_types.StructType:
    return spark_types.StructType([spark_types.StructField(name, inner) for name, inner in fields])
