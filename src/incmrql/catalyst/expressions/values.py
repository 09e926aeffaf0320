"""Columns, constants, names for them, and what passes its operand on."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as DecimalValue
from typing import Final

from incmrql.catalyst.expressions.rules import Convert, Rules, const, rule, type_of
from incmrql.catalyst.nodes import PlanNode, PlanValue
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import ColumnScope
from incmrql.catalyst.types import model_type
from incmrql.types import typed
from incmrql.types.model import (
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Collection,
    Decimal,
    Record,
    Type,
    is_day_time,
    is_float,
    is_year_month,
)
from incmrql.values import LocalTime, Months, Value
from incmrql.values import Record as RecordValue
from incmrql.values.numbers import normal, quantize

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def literal_value(value: PlanValue, data_type: PlanNode, node: PlanNode) -> Value:
    """A value in the form that it has inside of Spark, as a value of its type here."""
    return _value(value, model_type(data_type), node)


def _value(value: PlanValue, type_: Type, node: PlanNode) -> Value:
    match type_:
        case _ if value is None:
            return None
        case _ if is_year_month(type_):
            assert isinstance(value, int)
            return Months(value)
        case _ if is_day_time(type_):
            assert isinstance(value, int)
            return timedelta(microseconds=value)
        case Collection(_, element):
            assert isinstance(value, tuple)
            return [_value(item, element, node) for item in value]
        case Record(fields):
            assert isinstance(value, tuple)
            items = zip(value, fields, strict=True)
            return RecordValue.of(type_.names, [_value(item, t, node) for item, (_, t) in items])
        case Decimal(precision, scale):
            assert isinstance(value, DecimalValue)
            return quantize(value, precision, scale)
        case _ if is_float(type_):
            assert isinstance(value, float | int)
            return math.nan if math.isnan(value) else normal(float(value))
        case _ if type_ in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
            assert isinstance(value, int)
            return _moment(value, type_, node)
        case _:
            return value


def _moment(count: int, type_: Type, node: PlanNode) -> date:
    """The date so many days, or the timestamp so many microseconds, after 1970."""
    try:
        if type_ == DATE:
            return _EPOCH.date() + timedelta(days=count)
        if type_ == TIMESTAMP_NTZ:
            return LocalTime.after_1970(count)
        return _EPOCH + timedelta(microseconds=count)
    except OverflowError:
        message = "a date or timestamp outside of the years 1 to 9999"
        raise Refused("C105", message, node=node) from None


def _literal(node: PlanNode, _scope: ColumnScope) -> typed.Expr:
    data_type = node["dataType"]
    return const(literal_value(node["value"], data_type, node), model_type(data_type))


def _column(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    model_type(node["dataType"])
    return scope.column(node["exprId"])


def _operand(name: str) -> Convert:
    """What stands in a field: the class means nothing more."""
    return lambda node, scope: scope.expression(node[name])


def _with(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """An expression with definitions that it refers to, each by a number."""
    for definition in node["defs"]:
        value = scope.expression(definition["child"])
        scope = scope.with_columns({_common(definition["id"]): value})
    return scope.expression(node["child"])


def _reference(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    type_of(node)
    return scope.column(_common(node["id"]))


def _common(common_id: PlanNode) -> int:
    """The number of a common expression; columns have positive ones."""
    return -1 - int(common_id["id"])


_TYPE_NAMES: Final = {
    "BooleanType": "boolean", "ByteType": "tinyint", "ShortType": "smallint", "IntegerType": "int",
    "LongType": "bigint", "FloatType": "float", "DoubleType": "double", "StringType": "string",
    "BinaryType": "binary", "DateType": "date", "TimestampType": "timestamp",
    "TimestampNTZType": "timestamp_ntz", "NullType": "void",
}  # fmt: skip


def _type_name(node: PlanNode, _scope: ColumnScope) -> typed.Expr:
    """`typeof`: the name of the type of an expression, in Spark's words."""
    return const(_name_of(node["child"]["$type"], node), STRING)


def _name_of(type_: PlanNode, node: PlanNode) -> str:
    match type_.name:
        case "DecimalType":
            return f"decimal({type_['precision']},{type_['scale']})"
        case "ArrayType":
            return f"array<{_name_of(type_['elementType'], node)}>"
        case "MapType":
            return f"map<{_name_of(type_['keyType'], node)},{_name_of(type_['valueType'], node)}>"
        case "StructType":
            fields = [f"{f['name']}:{_name_of(f['dataType'], node)}" for f in type_["fields"]]
            return f"struct<{','.join(fields)}>"
        case name if name in _TYPE_NAMES and not type_.fields:
            return _TYPE_NAMES[name]
        case name:
            raise Refused("C104", f"typeof {name} is not converted yet", node=node)


VALUES: Final[Rules] = {
    "TypeOf": rule(_type_name, "child"),
    "Literal": rule(_literal, "value", "dataType"),
    "AttributeReference": rule(
        _column,
        "exprId",
        "dataType",
        ignores=("name", "nullable", "metadata", "qualifier"),
    ),
    "NamedLambdaVariable": rule(
        _column, "exprId", "dataType", ignores=("name", "nullable", "value")
    ),
    "OuterReference": rule(_operand("e"), "e"),
    "Alias": rule(
        _operand("child"),
        "child",
        ignores=(
            "name",
            "exprId",
            "qualifier",
            "explicitMetadata",
            "nonInheritableMetadataKeys",
        ),
    ),
    "KnownNullable": rule(_operand("child"), "child"),
    "KnownNotNull": rule(_operand("child"), "child"),
    "KnownNotContainsNull": rule(_operand("child"), "child"),
    "KnownFloatingPointNormalized": rule(_operand("child"), "child"),
    "NormalizeNaNAndZero": rule(_operand("child"), "child"),
    "NamedArgumentExpression": rule(_operand("value"), "value", ignores=("key",)),
    "SQLScalarFunction": rule(_operand("child"), "child", ignores=("function", "inputs")),
    "With": rule(_with, "child", "defs"),
    "CommonExpressionRef": rule(_reference, "id", ignores=("dataType", "nullable")),
}
"""Classes that stand for values as they are."""
