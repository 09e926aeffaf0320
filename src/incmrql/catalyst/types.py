"""Spark's data types as types of values here."""

from __future__ import annotations

from collections import Counter
from typing import Final

from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.types.model import (
    BINARY,
    BOOL,
    BYTE,
    DATE,
    DAY_TIME_INTERVALS,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NOTHING,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    YEAR_MONTH_INTERVALS,
    Decimal,
    Record,
    Type,
    contains_map,
    list_of,
    map_of,
)

_PLAIN: Final[dict[str, Type]] = {
    "BooleanType": BOOL,
    "ByteType": BYTE,
    "ShortType": SHORT,
    "IntegerType": INT,
    "LongType": LONG,
    "FloatType": FLOAT,
    "DoubleType": DOUBLE,
    "DateType": DATE,
    "TimestampType": TIMESTAMP,
    "TimestampNTZType": TIMESTAMP_NTZ,
    "BinaryType": BINARY,
    "NullType": NOTHING,
    "CharType": STRING,
    "VarcharType": STRING,
}
_REASONS: Final = {
    "CalendarIntervalType": "a calendar interval has no order, and cannot be compared",
    "VariantType": "a variant cannot be compared or grouped by",
}
_BINARY_COLLATION: Final = ("string", "string collate UTF8_BINARY")


def model_type(data_type: PlanNode) -> Type:
    """The type of the values of a type of Spark; raises `Refused` if there is none."""
    match data_type.name:
        case name if name in _PLAIN:
            return _PLAIN[name]
        case "StringType":
            return _string(data_type)
        case "DecimalType":
            return _decimal(data_type["precision"], data_type["scale"], data_type)
        case "ArrayType":
            return list_of(model_type(data_type["elementType"]))
        case "StructType":
            return _record(data_type)
        case "MapType":
            return map_of(model_type(data_type["keyType"]), model_type(data_type["valueType"]))
        case "YearMonthIntervalType":
            return YEAR_MONTH_INTERVALS[_fields_of(data_type)]
        case "DayTimeIntervalType":
            return DAY_TIME_INTERVALS[_fields_of(data_type)]
        case name:
            reason = _REASONS.get(name, f"{name} of Spark is not known here")
            raise Refused("C105", reason, node=data_type)


def _fields_of(data_type: PlanNode) -> tuple[int, int]:
    """The numbers of the first and last unit of an interval."""
    return int(data_type["startField"]), int(data_type["endField"])


def require_no_map(type_: Type, what: str, node: PlanNode) -> None:
    """Raise `Refused` if values of a type are compared as wholes and have a map in them."""
    if contains_map(type_):
        hint = "Compare map_entries(m), in which the order of the entries counts."
        raise Refused("C105", f"{what} has a map, and maps are not compared", hint, node)


def _string(data_type: PlanNode) -> Type:
    name = str(data_type.fields.get("typeName") or "string")
    if name not in _BINARY_COLLATION:
        hint = "Compare upper(…) or lower(…) of columns without a collation."
        raise Refused("C105", f"the type {name} compares strings by rules of its own", hint)
    return STRING


def _decimal(precision: int, scale: int, data_type: PlanNode) -> Type:
    if not 0 <= scale <= precision:
        message = f"decimal({precision},{scale}) has a scale that is not from 0 to its precision"
        raise Refused("C105", message, node=data_type)
    return Decimal(precision, scale)


def _record(data_type: PlanNode) -> Type:
    fields = tuple((str(f["name"]), model_type(f["dataType"])) for f in data_type["fields"])
    # DuckDB does not tell names apart by their case.
    repeated = [name for name, n in Counter(name.lower() for name, _ in fields).items() if n > 1]
    if repeated:
        message = f'a struct has several fields "{repeated[0]}"'
        raise Refused("C105", message, "Give the fields different names.", data_type)
    return Record(fields)
