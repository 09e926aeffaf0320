"""Aggregate functions: what each takes of a row, and what it makes of the values of a group.

Nulls are skipped, so what `FILTER` leaves out is null.  Sums of nothing are null in Spark and 0
here, so a count of the values decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from incmrql.algebra import rows as build
from incmrql.algebra.failures.conditions import disjunction
from incmrql.catalyst.classes import check_node
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.operators.table import AGGREGATES
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.relation import null
from incmrql.catalyst.scope import Scope
from incmrql.errors import NOWHERE, Span
from incmrql.types import typed
from incmrql.types.builtins import aggregate_type
from incmrql.types.model import (
    BOOL,
    DOUBLE,
    LONG,
    Collection,
    Decimal,
    Type,
    is_integer,
    list_of,
)

Bags: TypeAlias = Sequence[Callable[[], typed.Expr]]
"""For each argument, a function that returns the bag of its values: no binder may occur twice."""


@dataclass(frozen=True, slots=True)
class Measure:
    """An aggregate of a group: its arguments for a row, and the result of the bags of these."""

    arguments: tuple[typed.Expr, ...]
    result: Callable[[Bags], typed.Expr]


def measure(node: PlanNode, scope: Scope) -> Measure:
    """The measure of an `AggregateExpression`."""
    check_node(node, AGGREGATES)
    function: PlanNode = node["aggregateFunction"]
    check_node(function, AGGREGATES)
    plain = _MEASURES[function.name](function, scope)
    arguments, result = plain.arguments, plain.result
    if node["filter"] is not None:
        condition = scope.expression(node["filter"])
        arguments = tuple(
            typed.If(condition, value, null(value.type), type=value.type) for value in arguments
        )
    if node["isDistinct"]:
        return Measure(arguments, lambda bags: result([_distinct(bag) for bag in bags]))
    return Measure(arguments, result)


def _distinct(bag: Callable[[], typed.Expr]) -> Callable[[], typed.Expr]:
    def distinct() -> typed.Expr:
        values = bag()
        return typed.Builtin("distinct", (values,), type=values.type)

    return distinct


# --- The functions ---


def _count(function: PlanNode, scope: Scope) -> Measure:
    """The rows in which no argument is null."""
    values = [
        scope.expression(child) for child in function["children"] if not _is_present_literal(child)
    ]
    argument = values[0] if len(values) == 1 else build.tuple_of(*values)
    if len(values) > 1:
        one_is_null = disjunction([typed.IsNull(value, type=BOOL) for value in values])
        argument = typed.If(one_is_null, null(argument.type), argument, type=argument.type)
    return Measure((argument,), lambda bags: _aggregate("count", bags[0](), LONG))


def _is_present_literal(node: PlanNode) -> bool:
    return node.name == "Literal" and node["value"] is not None


def _sum(function: PlanNode, scope: Scope) -> Measure:
    """The sum, or null if there is no value."""
    argument = scope.expression(function["child"])
    span = _span(function, scope)
    if _mode(function) != "ansi" and is_integer(argument.type):
        return _sum_in_mode(argument, _mode(function))
    element, total = _types("sum", argument, function)
    _require_room(function, total)

    def result(bags: Bags) -> typed.Expr:
        return _if_any(bags[0], _aggregate("sum", bags[0](), total, span))

    return Measure((_widened(argument, element),), result)


def _sum_in_mode(argument: typed.Expr, mode: typed.Mode) -> Measure:
    """The sum of integers that wraps, or is null, where it does not fit: exact up to the end."""
    element, total = Decimal(19, 0), Decimal(29, 0)

    def result(bags: Bags) -> typed.Expr:
        exact = _aggregate("sum", bags[0](), total)
        return _if_any(bags[0], typed.Cast(exact, mode, type=LONG))

    return Measure((_widened(_widened(argument, LONG), element),), result)


def _average(function: PlanNode, scope: Scope) -> Measure:
    argument = scope.expression(function["child"])
    span = _span(function, scope)
    element, mean = _types("avg", argument, function)
    _require_room(function, mean)

    def result(bags: Bags) -> typed.Expr:
        return _aggregate("avg", bags[0](), mean, span)

    return Measure((_widened(argument, element),), result)


def _extreme(name: str) -> Callable[[PlanNode, Scope], Measure]:
    def extreme(function: PlanNode, scope: Scope) -> Measure:
        argument = scope.expression(function["child"])
        return Measure((argument,), lambda bags: _aggregate(name, bags[0](), argument.type))

    return extreme


def _spread(name: str, *, population: bool) -> Callable[[PlanNode, Scope], Measure]:
    """Variance and standard deviation; those of a population are made of those of a sample."""

    def spread(function: PlanNode, scope: Scope) -> Measure:
        if not function.fields.get("nullOnDivideByZero", True):
            message = f"{function.name} with spark.sql.legacy.statisticalAggregate"
            raise Refused("C104", f"{message} is not converted", node=function)
        argument = _widened(scope.expression(function["child"]), DOUBLE)
        if not population:
            return Measure((argument,), lambda bags: _aggregate(name, bags[0](), DOUBLE))

        def result(bags: Bags) -> typed.Expr:
            variance = _population_variance(bags[0])
            if name == "variance":
                return variance
            return typed.Builtin("sqrt", (variance,), type=DOUBLE)

        return Measure((argument,), result)

    return spread


def _population_variance(bag: Callable[[], typed.Expr]) -> typed.Expr:
    """(n - 1) / n times the variance of a sample; of one value 0, or NaN if it is not finite."""
    count = _aggregate("count", bag(), LONG)
    as_double = typed.Widen(_aggregate("count", bag(), LONG), type=DOUBLE)
    one = typed.Const(1.0, type=DOUBLE)
    rest = _arithmetic("-", typed.Widen(_aggregate("count", bag(), LONG), type=DOUBLE), one)
    sample = _aggregate("variance", bag(), DOUBLE)
    scaled = _arithmetic("/", _arithmetic("*", sample, rest), as_double)
    of_one = _arithmetic("-", _aggregate("sum", bag(), DOUBLE), _aggregate("sum", bag(), DOUBLE))
    is_one = typed.Compare("=", count, typed.Const(1, type=LONG), type=BOOL)
    return typed.If(is_one, of_one, scaled, type=DOUBLE)


def _extreme_by(name: str) -> Callable[[PlanNode, Scope], Measure]:
    """The value of the row with the largest or smallest key; of several rows, the same of these."""

    def extreme_by(function: PlanNode, scope: Scope) -> Measure:
        key = scope.expression(function["orderingExpr"])
        pair = build.tuple_of(key, scope.expression(function["valueExpr"]))
        missing = typed.IsNull(key, type=BOOL)
        argument = typed.If(missing, null(pair.type), pair, type=pair.type)
        scope.conversion.note(f"Ties of {name}_by are decided by the canonical order of values.")
        return Measure(
            (argument,), lambda bags: build.item(_aggregate(name, bags[0](), pair.type), 1)
        )

    return extreme_by


def _collection(function: PlanNode, scope: Scope) -> Measure:
    """An array of the values, in canonical order, as Spark leaves the order open."""
    argument = scope.expression(function["child"])
    is_set = function.name == "CollectSet"
    skips_nulls = function.fields.get("ignoreNulls", True)
    scope.conversion.note("The elements of collect_list and collect_set are in canonical order.")

    def result(bags: Bags) -> typed.Expr:
        values = _distinct(bags[0])() if is_set else bags[0]()
        if skips_nulls:
            one = scope.names.variable("one", argument.type)
            there = typed.Not(typed.IsNull(build.var(one), type=BOOL), type=BOOL)
            values = build.for_each(one, values, build.var(one), typed.Condition(there))
        return typed.Builtin("sort", (values,), type=list_of(argument.type))

    return Measure((argument,), result)


def _pivot(function: PlanNode, scope: Scope) -> Measure:
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
        values = tuple(_aggregate("min", bag(), value.type) for bag in bags)
        return typed.MakeCollection(values, type=Collection("list", value.type))

    return Measure(tuple(arguments), result)


_MEASURES: Final = {
    "Count": _count,
    "Sum": _sum,
    "Average": _average,
    "Min": _extreme("min"),
    "Max": _extreme("max"),
    "VarianceSamp": _spread("variance", population=False),
    "StddevSamp": _spread("stddev", population=False),
    "VariancePop": _spread("variance", population=True),
    "StddevPop": _spread("stddev", population=True),
    "MaxBy": _extreme_by("max"),
    "MinBy": _extreme_by("min"),
    "CollectList": _collection,
    "CollectSet": _collection,
    "PivotFirst": _pivot,
}


# --- Parts ---


def _aggregate(name: str, bag: typed.Expr, type_: Type, span: Span = NOWHERE) -> typed.Expr:
    return typed.Aggregate(name, bag, type=type_, span=span)


def _span(function: PlanNode, scope: Scope) -> Span:
    """Where a failure of an aggregate is reported."""
    return scope.conversion.refusals.span(function)


def _if_any(bag: Callable[[], typed.Expr], value: typed.Expr) -> typed.Expr:
    """A value, or null if no element of a bag has one."""
    count = _aggregate("count", bag(), LONG)
    some = typed.Compare(">", count, typed.Const(0, type=LONG), type=BOOL)
    return typed.If(some, value, null(value.type), type=value.type)


def _arithmetic(op: typed.ArithmeticOp, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    return typed.Arithmetic(op, left, right, type=DOUBLE)


def _types(name: str, argument: typed.Expr, function: PlanNode) -> tuple[Type, Type]:
    """The type of the elements that an aggregate works on, and that of its result."""
    types = aggregate_type(name, argument.type)
    if types is None:
        message = f"{function.name} of {argument.type} is not converted yet"
        raise Refused("C104", message, node=function)
    return types


def _widened(value: typed.Expr, type_: Type) -> typed.Expr:
    return value if value.type == type_ else typed.Widen(value, type=type_)


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
