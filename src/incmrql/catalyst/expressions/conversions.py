"""Casts, in the evaluation mode that they have."""

from __future__ import annotations

import re
from typing import Final

from incmrql.algebra import rows as build
from incmrql.catalyst.expressions.rules import (
    Rules,
    as_timestamp,
    call,
    const,
    constant_of,
    either,
    every_of,
    failure,
    first_moment,
    is_null,
    let,
    local_time,
    mode_of,
    moment_of,
    null,
    rule,
    when,
    zone_of,
)
from incmrql.catalyst.expressions.spans import cast_interval, is_interval
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import ColumnScope
from incmrql.catalyst.types import model_type
from incmrql.types import typed
from incmrql.types.model import (
    BINARY,
    BOOL,
    BYTE,
    DATE,
    INT,
    LONG,
    NOTHING,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Collection,
    Record,
    Type,
    is_integer,
    is_numeric,
    is_scalar,
    list_of,
)

_TIMES: Final = (DATE, TIMESTAMP)
_SPECIAL: Final = re.compile(r"\s*(epoch|now|today|tomorrow|yesterday)\b.*", re.I | re.S)
"""Words that Spark takes for times when they stand in a constant."""


def _cast(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    operand = scope.expression(node["child"])
    return _convert(operand, model_type(node["dataType"]), mode_of(node), node, scope)


def _convert(
    operand: typed.Expr, target: Type, mode: typed.Mode, node: PlanNode, scope: ColumnScope
) -> typed.Expr:
    source = operand.type
    if source == target:
        return operand
    if source == NOTHING:
        return null(target)
    match source, target:
        case Collection("map", element), Collection("map", inner):
            entries = typed.Widen(operand, type=list_of(element))
            converted = _convert(entries, list_of(inner), mode, node, scope)
            return typed.Widen(converted, type=target)
        case Collection("list", element), Collection("list", inner):
            variable = scope.names.variable("element", element)
            body = _convert(build.var(variable), inner, mode, node, scope)
            return typed.MapOver(variable, operand, body, False, type=target)
        case Record(), Record(fields) if len(source.fields) == len(fields):
            return let(scope, operand, lambda v: _record(v, target, mode, node, scope))
        case _ if is_scalar(source) and is_scalar(target):
            return _scalar(operand, target, mode, node, scope)
        case _:
            raise _no_cast(source, target, node)


def _record(
    value: typed.Expr, target: Record, mode: typed.Mode, node: PlanNode, scope: ColumnScope
) -> typed.Expr:
    """A record with its fields converted one by one, in their order."""
    assert isinstance(value.type, Record)
    items = tuple(
        _convert(build.field(value, name), type_, mode, node, scope)
        for name, (_, type_) in zip(value.type.names, target.fields, strict=True)
    )
    return when(is_null(value), null(target), typed.MakeRecord(items, type=target))


def _scalar(
    operand: typed.Expr, target: Type, mode: typed.Mode, node: PlanNode, scope: ColumnScope
) -> typed.Expr:
    source = operand.type
    if is_interval(source) or is_interval(target):
        return cast_interval(operand, target, node)
    if TIMESTAMP_NTZ in (source, target):
        return _local_time(operand, target, mode, node, scope)
    if BINARY in (source, target):
        return _bytes(operand, target, node)
    if source == STRING and target in _TIMES:
        return _time(operand, target, mode, node, scope)
    if source == TIMESTAMP and target in (STRING, DATE):
        return typed.Cast(local_time(operand, zone_of(node)), mode, type=target)
    if source == DATE and target == TIMESTAMP:
        return first_moment(operand, zone_of(node), mode)
    if target == TIMESTAMP and mode != "ansi" and (is_numeric(source) or source == BOOL):
        message = f"a cast from {source} to timestamp that gives null is not converted yet"
        raise Refused("C104", message, node=node)
    return typed.Cast(operand, mode, type=target)


def _time(
    operand: typed.Expr, target: Type, mode: typed.Mode, node: PlanNode, scope: ColumnScope
) -> typed.Expr:
    """A string as a date or timestamp; it fails for times that only Spark has values for."""
    text = constant_of(operand)
    if text is not None and text.value is not None and _SPECIAL.fullmatch(text.value):
        message = f"'{text.value}' is the time at which the query runs"
        raise Refused("C103", message, "Write the date itself.", node)

    zone = zone_of(node) if target == TIMESTAMP else ""
    result_mode: typed.Mode = "ansi" if mode == "ansi" else "try"

    def read(value: typed.Expr) -> typed.Expr:
        if target == TIMESTAMP_NTZ:
            return call("spark.local_time", [value], target, result_mode)
        if zone:
            arguments = [value, const(zone, STRING)]
            return call("spark.timestamp_in", arguments, target, result_mode)
        return typed.Cast(value, mode, type=target)

    def parsed(value: typed.Expr) -> typed.Expr:
        beyond = call(f"spark.is_beyond_{target}", [value], BOOL)
        if zone:  # of the first or last day of all, in UTC alone
            is_read = typed.Not(is_null(typed.Cast(value, mode, type=target)), type=BOOL)
            beyond = either([beyond, every_of([is_read, is_null(read(value))])])
        reason = f"a {target} of the years 1 to 9999 in UTC is needed"
        return when(beyond, failure(reason, target), read(value))

    return read(operand) if mode == "ansi" else let(scope, operand, parsed)


def _local_time(
    operand: typed.Expr, target: Type, mode: typed.Mode, node: PlanNode, scope: ColumnScope
) -> typed.Expr:
    """A cast to or from a timestamp without a zone, which is computed as one in UTC."""
    match operand.type, target:
        case _, _ if operand.type == TIMESTAMP_NTZ and target in (STRING, DATE):
            return typed.Cast(as_timestamp(operand), mode, type=target)
        case _, _ if target == TIMESTAMP_NTZ and operand.type == TIMESTAMP:
            return typed.Widen(local_time(operand, zone_of(node)), type=target)
        case _, _ if target == TIMESTAMP:
            return moment_of(typed.Widen(operand, type=target), zone_of(node))
        case _, _ if operand.type == DATE:
            return typed.Widen(typed.Cast(operand, mode, type=TIMESTAMP), type=target)
        case _, _ if operand.type == STRING:
            return _time(operand, target, mode, node, scope)
        case _:
            raise _no_cast(operand.type, target, node)


def _bytes(operand: typed.Expr, target: Type, node: PlanNode) -> typed.Expr:
    """A cast to or from binary; a text of bytes that are not UTF-8 is a failure."""
    if operand.type == STRING:
        return call("spark.utf8", [operand], target)
    if target == STRING:
        return call("spark.text", [operand], target, "ansi")
    if is_integer(operand.type):
        number = typed.Widen(operand, type=LONG) if operand.type != LONG else operand
        return call("spark.big_endian", [number, const(_WIDTHS[operand.type], INT)], target)
    raise _no_cast(operand.type, target, node)


_WIDTHS: Final[dict[Type, int]] = {BYTE: 1, SHORT: 2, INT: 4, LONG: 8}


def _no_cast(source: Type, target: Type, node: PlanNode) -> Refused:
    return Refused("C104", f"the cast from {source} to {target} is not converted yet", node=node)


CONVERSIONS: Final[Rules] = {
    "Cast": rule(_cast, "child", "dataType", "evalMode", ignores=("timeZoneId",)),
}
"""Casts."""
