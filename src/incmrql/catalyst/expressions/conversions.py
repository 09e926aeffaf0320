"""Casts, in the evaluation mode that they have."""

from __future__ import annotations

import re
from typing import Final

from incmrql.algebra import rows as build
from incmrql.catalyst.expressions.rules import (
    Rules,
    call,
    constant_of,
    failure,
    is_null,
    let,
    mode_of,
    null,
    require_utc,
    rule,
    when,
)
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import Scope
from incmrql.catalyst.types import model_type
from incmrql.types import typed
from incmrql.types.model import (
    BOOL,
    DATE,
    NOTHING,
    STRING,
    TIMESTAMP,
    Collection,
    Record,
    Type,
    is_numeric,
    is_scalar,
)

_TIMES: Final = (DATE, TIMESTAMP)
_SPECIAL: Final = re.compile(r"\s*(epoch|now|today|tomorrow|yesterday)\b.*", re.I | re.S)
"""Words that Spark takes for times when they stand in a constant."""


def _cast(node: PlanNode, scope: Scope) -> typed.Expr:
    operand = scope.expression(node["child"])
    target = model_type(node["dataType"])
    source = operand.type
    if TIMESTAMP in (source, target) and source != target:
        require_utc(node)
    return _converted(operand, target, mode_of(node), node, scope)


def _converted(
    operand: typed.Expr, target: Type, mode: typed.Mode, node: PlanNode, scope: Scope
) -> typed.Expr:
    source = operand.type
    if source == target:
        return operand
    if source == NOTHING:
        return null(target)
    match source, target:
        case Collection(_, element), Collection(_, inner):
            variable = scope.names.variable("element", element)
            body = _converted(build.var(variable), inner, mode, node, scope)
            return typed.MapOver(variable, operand, body, False, type=target)
        case Record(), Record(fields) if len(source.fields) == len(fields):
            return let(scope, operand, lambda v: _record(v, target, mode, node, scope))
        case _ if is_scalar(source) and is_scalar(target):
            return _scalar(operand, target, mode, node, scope)
        case _:
            message = f"the cast from {source} to {target} is not converted yet"
            raise Refused("C104", message, node=node)


def _record(
    value: typed.Expr, target: Record, mode: typed.Mode, node: PlanNode, scope: Scope
) -> typed.Expr:
    """A record with its fields converted one by one, in their order."""
    assert isinstance(value.type, Record)
    items = tuple(
        _converted(build.field(value, name), type_, mode, node, scope)
        for name, (_, type_) in zip(value.type.names, target.fields, strict=True)
    )
    return when(is_null(value), null(target), typed.MakeRecord(items, type=target))


def _scalar(
    operand: typed.Expr, target: Type, mode: typed.Mode, node: PlanNode, scope: Scope
) -> typed.Expr:
    source = operand.type
    if source == STRING and target in _TIMES:
        return _time(operand, target, mode, node, scope)
    if target == TIMESTAMP and mode != "ansi" and (is_numeric(source) or source == BOOL):
        message = f"a cast from {source} to timestamp that gives null is not converted yet"
        raise Refused("C104", message, node=node)
    return typed.Cast(operand, mode, type=target)


def _time(
    operand: typed.Expr, target: Type, mode: typed.Mode, node: PlanNode, scope: Scope
) -> typed.Expr:
    """A string as a date or timestamp; it fails for times that only Spark has values for."""
    text = constant_of(operand)
    if text is not None and text.value is not None and _SPECIAL.fullmatch(text.value):
        message = f"'{text.value}' is the time at which the query runs"
        raise Refused("C103", message, "Write the date itself.", node)

    def parsed(value: typed.Expr) -> typed.Expr:
        beyond = call(f"spark.is_beyond_{target}", [value], BOOL)
        reason = f"a {target} of the years 1 to 9999 in UTC is needed"
        return when(beyond, failure(reason, target), typed.Cast(value, mode, type=target))

    return typed.Cast(operand, mode, type=target) if mode == "ansi" else let(scope, operand, parsed)


CONVERSIONS: Final[Rules] = {
    "Cast": rule(_cast, "child", "dataType", "evalMode", ignores=("timeZoneId",)),
}
"""Casts."""
