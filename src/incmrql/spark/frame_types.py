"""Types of a Spark data frame's columns as types of the language.

A timestamp with or without a time zone is a `timestamp` (without one: in UTC), a map is a bag of
pairs.  Bytes, intervals, times of day, variants and user-defined types have no counterpart, and a
column of such a type is refused by name.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as spark_types

from incmrql.diagnostics import DataError
from incmrql.formats.arrow_types import NoSuchType, struct_type
from incmrql.spark.internals import arrow_type_of
from incmrql.types.model import Type

_HINTS: Final[tuple[tuple[type[spark_types.DataType], str], ...]] = (
    (spark_types.BinaryType, "For text, cast it first: df.withColumn({name!r}, "
     "df[{name!r}].cast('string')). Else leave it out: df.drop({name!r})."),
    (spark_types.VariantType, "Take what you need out of it: variant_get({name}, '$.field', "
     "'int'). Or leave it out: df.drop({name!r})."),
)  # fmt: skip
_OTHER_HINT: Final = "Cast it to another type, or leave it out: df.drop({name!r})."


def frame_row_type(schema: spark_types.StructType, name: str) -> Type:
    """The type of a row of the data frame called `name`; refuses columns that have none."""
    fields = []
    for field in schema.fields:
        _refuse_unknown(field.dataType, field.name, field.name, name)
        fields.append(pa.field(field.name, arrow_type_of(field.dataType)))
    try:
        return struct_type(fields)
    except NoSuchType as problem:
        column = f'column "{problem.path}" of ' if problem.path else ""
        message = f'{column}data frame "{name}" has {_described(problem.arrow)}'
        raise DataError("R208", message, hint="Rename or leave out columns.") from None


def _described(arrow: Any) -> str:
    return arrow if isinstance(arrow, str) else f"type {arrow}, which no MRQL type holds"


_KNOWN: Final = (
    spark_types.NullType, spark_types.BooleanType, spark_types.IntegralType,
    spark_types.FractionalType, spark_types.StringType, spark_types.DateType,
    spark_types.TimestampType, spark_types.TimestampNTZType,
)  # fmt: skip


def _refuse_unknown(type_: spark_types.DataType, path: str, column: str, name: str) -> None:
    """Refuse a type, or one inside it, that no type of the language holds."""
    inner: list[tuple[str, spark_types.DataType]] = []
    match type_:
        case spark_types.StructType() if type_.fields:
            inner = [(f"{path}.{field.name}", field.dataType) for field in type_.fields]
        case spark_types.ArrayType():
            inner = [(f"{path}[]", type_.elementType)]
        case spark_types.MapType():
            inner = [(f"{path}.key", type_.keyType), (f"{path}.value", type_.valueType)]
        case _ if not isinstance(type_, _KNOWN):
            hints = [hint for kind, hint in _HINTS if isinstance(type_, kind) and path == column]
            hint = (hints or [_OTHER_HINT])[0].format(name=column)
            what = f'column "{path}" of data frame "{name}" has type {type_.simpleString()}'
            raise DataError("R208", f"{what}, which no MRQL type holds", hint=hint)
        case _:
            pass
    for inside, part in inner:
        _refuse_unknown(part, inside, column, name)
