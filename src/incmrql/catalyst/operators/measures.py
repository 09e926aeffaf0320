"""Aggregate functions: what each takes of a row, and what it makes of the values of a group.

Nulls are skipped, so what `FILTER` leaves out is null.  Sums of nothing are null in Spark and 0
here, so a count of the values decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from incmrql.algebra import rows as build
from incmrql.catalyst.classes import check_node
from incmrql.catalyst.expressions.spans import average, interval_of, is_interval, number_of
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.operators.bags import (
    Bags,
    Measure,
    aggregate_of,
    distinct_bag,
    if_any,
    span_of,
    unless_null,
    widened,
)
from incmrql.catalyst.operators.choices import CHOICES, tied_values
from incmrql.catalyst.operators.moments import MOMENTS
from incmrql.catalyst.operators.table import AGGREGATES
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.relation import null
from incmrql.catalyst.scope import ColumnScope
from incmrql.catalyst.types import model_type, require_no_map
from incmrql.errors import Span
from incmrql.types import typed
from incmrql.types.builtins import aggregate_type
from incmrql.types.model import BOOL, LONG, Collection, Decimal, Type, is_integer


def measure(node: PlanNode, scope: ColumnScope, others: Sequence[PlanNode] = ()) -> Measure:
    """The measure of an `AggregateExpression`; `others` are all of them in the same query."""
    check_node(node, AGGREGATES)
    function: PlanNode = node["aggregateFunction"]
    check_node(function, AGGREGATES)
    plain = _measure_of(function, scope, [other["aggregateFunction"] for other in others])
    arguments, result = plain.arguments, plain.result
    if node["filter"] is not None:
        condition = scope.expression(node["filter"])
        arguments = tuple(
            typed.If(condition, value, null(value.type), type=value.type) for value in arguments
        )
    if node["isDistinct"]:
        for value in arguments:
            require_no_map(value.type, f"DISTINCT in {function.name}", node)
        return Measure(arguments, lambda bags: result(list(map(distinct_bag, bags))))
    return Measure(arguments, result)


def _measure_of(function: PlanNode, scope: ColumnScope, functions: Sequence[PlanNode]) -> Measure:
    if function.name in CHOICES:
        ties = scope.expressions(tied_values(functions, function))
        return CHOICES[function.name](function, scope, list(dict.fromkeys(ties)))
    return _MEASURES[function.name](function, scope)


# --- The functions ---


def _count(function: PlanNode, scope: ColumnScope) -> Measure:
    """The rows in which no argument is null."""
    values = [
        scope.expression(child) for child in function["children"] if not _is_present_literal(child)
    ]
    argument = values[0] if len(values) == 1 else build.tuple_of(*values)
    if len(values) > 1:
        argument = unless_null(values, argument)
    return Measure((argument,), lambda bags: aggregate_of("count", bags[0](), LONG))


def _is_present_literal(node: PlanNode) -> bool:
    return node.name == "Literal" and node["value"] is not None


def _sum(function: PlanNode, scope: ColumnScope) -> Measure:
    """The sum, or null if there is no value."""
    argument = scope.expression(function["child"])
    span = span_of(function, scope)
    if is_interval(argument.type):
        return _sum_of_intervals(argument, _type_of(function), span)
    if _mode(function) != "ansi" and is_integer(argument.type):
        return _sum_in_mode(argument, _mode(function))
    element, total = _types("sum", argument, function)
    _require_room(function, total)

    def result(bags: Bags) -> typed.Expr:
        return if_any(bags[0], aggregate_of("sum", bags[0](), total, span))

    return Measure((widened(argument, element),), result)


def _sum_in_mode(argument: typed.Expr, mode: typed.Mode) -> Measure:
    """The sum of integers that wraps, or is null, where it does not fit: exact up to the end."""
    element, total = Decimal(19, 0), Decimal(29, 0)

    def result(bags: Bags) -> typed.Expr:
        exact = aggregate_of("sum", bags[0](), total)
        return if_any(bags[0], typed.Cast(exact, mode, type=LONG))

    return Measure((widened(widened(argument, LONG), element),), result)


def _average(function: PlanNode, scope: ColumnScope) -> Measure:
    argument = scope.expression(function["child"])
    span = span_of(function, scope)
    if is_interval(argument.type):
        return _average_of_intervals(argument, _type_of(function), span)
    element, mean = _types("avg", argument, function)
    _require_room(function, mean)

    def result(bags: Bags) -> typed.Expr:
        return aggregate_of("avg", bags[0](), mean, span)

    return Measure((widened(argument, element),), result)


def _sum_of_intervals(argument: typed.Expr, type_: Type, span: Span) -> Measure:
    def result(bags: Bags) -> typed.Expr:
        total = interval_of(aggregate_of("sum", bags[0](), LONG, span), type_)
        return if_any(bags[0], total)

    return Measure((number_of(argument),), result)


def _average_of_intervals(argument: typed.Expr, type_: Type, span: Span) -> Measure:
    """The sum, which has to fit, divided by the number of values."""

    def result(bags: Bags) -> typed.Expr:
        total = number_of(interval_of(aggregate_of("sum", bags[0](), LONG, span), argument.type))
        count = aggregate_of("count", bags[0](), LONG)
        return if_any(bags[0], average(total, count, type_))

    return Measure((number_of(argument),), result)


def _type_of(function: PlanNode) -> Type:
    """The type of the result, as Spark says."""
    type_ = function["$type"]
    return model_type(type_)


def _extreme(name: str) -> Callable[[PlanNode, ColumnScope], Measure]:
    def extreme(function: PlanNode, scope: ColumnScope) -> Measure:
        argument = scope.expression(function["child"])
        return Measure((argument,), lambda bags: aggregate_of(name, bags[0](), argument.type))

    return extreme


def _pivot(function: PlanNode, scope: ColumnScope) -> Measure:
    """`PivotFirst`: an array with the value for each of some values of the pivot column."""
    pivot = scope.expression(function["pivotColumn"])
    value = scope.expression(function["valueColumn"])
    type_ = function["pivotColumn"].fields.get("$type")
    arguments: list[typed.Expr] = []
    for wanted in function["pivotColumnValues"]:
        nothing = null(value.type)
        if wanted is None:
            missing = typed.IsNull(pivot, type=BOOL)
            arguments.append(typed.If(missing, value, nothing, type=value.type))
            continue
        fields = {"value": wanted, "dataType": type_, "$type": type_}
        constant = scope.expression(PlanNode("Literal", fields))
        condition = typed.Compare("=", pivot, constant, type=BOOL)
        arguments.append(typed.If(condition, value, nothing, type=value.type))

    def result(bags: Bags) -> typed.Expr:
        values = tuple(aggregate_of("min", bag(), value.type) for bag in bags)
        return typed.MakeCollection(values, type=Collection("list", value.type))

    return Measure(tuple(arguments), result)


_MEASURES: Final = {
    "Count": _count,
    "Sum": _sum,
    "Average": _average,
    "Min": _extreme("min"),
    "Max": _extreme("max"),
    "PivotFirst": _pivot,
    **MOMENTS,
}


# --- Parts ---


def _types(name: str, argument: typed.Expr, function: PlanNode) -> tuple[Type, Type]:
    """The type of the elements that an aggregate works on, and that of its result."""
    types = aggregate_type(name, argument.type)
    if types is None:
        message = f"{function.name} of {argument.type} is not converted yet"
        raise Refused("C104", message, node=function)
    return types


_MODES: Final[dict[str, typed.Mode]] = {"ANSI": "ansi", "LEGACY": "legacy", "TRY": "try"}


def _mode(function: PlanNode) -> typed.Mode:
    """The evaluation mode of a sum or an average."""
    context = function.fields.get("evalContext")
    mode = context["evalMode"] if isinstance(context, PlanNode) else function.fields.get("evalMode")
    return _MODES[str(mode)]


def _require_room(function: PlanNode, result: Type) -> None:
    """Refuse a decimal result that may overflow in the modes in which that is no error."""
    full = isinstance(result, Decimal) and result.precision == _WIDEST
    if full and _mode(function) != "ansi":
        message = f"{function.name} of type {result} in the mode {_mode(function)} is not converted"
        hint = "Cast its argument to a decimal of fewer digits, or to double."
        raise Refused("C104", message, hint, function)


_WIDEST: Final = 38
"""Digits of the widest decimal."""
