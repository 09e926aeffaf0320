"""Aggregates that choose or arrange values of a group: by an order, by how often they are there.

What Spark leaves open is decided by the canonical order of values, the same in every run and for
any cut into batches; the query's notes say where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from incmrql.algebra import rows as build
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.operators.bags import (
    Bag,
    Bags,
    Measure,
    aggregate_of,
    distinct_bag,
    if_any,
    present,
    unless_null,
    widened,
)
from incmrql.catalyst.operators.sorting import sort_keys
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import ColumnScope
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.types import typed
from incmrql.types.model import (
    BOOL,
    DOUBLE,
    INT,
    LONG,
    NOTHING,
    STRING,
    Collection,
    Decimal,
    Type,
    is_float,
    is_integer,
    list_of,
)
from incmrql.values import Value

MeasureOf: TypeAlias = Callable[[PlanNode, ColumnScope, Sequence[typed.Expr]], Measure]
"""The measure of a function; the last argument are the values that decide ties."""


# --- One value ---


def _end(name: str) -> MeasureOf:
    """`first`, `any_value` and `last`: the value of the least or the greatest row.

    Rows are compared by the arguments of all such functions of the query, so these are of one row.
    """

    def end(function: PlanNode, scope: ColumnScope, ties: Sequence[typed.Expr]) -> Measure:
        value = scope.expression(function["child"])
        scope.conversion.note(
            "first, last and any_value take the least or greatest row of the group, by the"
            " canonical order of what they ask for."
        )
        skipped = [value] if function["ignoreNulls"] else []
        return _of_end(name, ties or [value], skipped, value)

    return end


def _extreme_by(name: str) -> MeasureOf:
    """The value of the row with the largest or smallest key; of several rows, the same of these."""

    def extreme_by(function: PlanNode, scope: ColumnScope, ties: Sequence[typed.Expr]) -> Measure:
        key = scope.expression(function["orderingExpr"])
        value = scope.expression(function["valueExpr"])
        scope.conversion.note(f"Ties of {name}_by are decided by the canonical order of values.")
        return _of_end(name, [key, *(ties or [value])], [key], value)

    return extreme_by


def _of_end(
    name: str, order: Sequence[typed.Expr], skipped: Sequence[typed.Expr], value: typed.Expr
) -> Measure:
    """A value of the least or greatest row by some values; rows in which one is null may not be."""
    row = build.tuple_of(*order)
    place = len(order) - 1 - list(reversed(order)).index(value)

    def result(bags: Bags) -> typed.Expr:
        return build.item(aggregate_of(name, bags[0](), row.type), place)

    return Measure((unless_null(skipped, row),), result)


def _mode(function: PlanNode, scope: ColumnScope, _ties: Sequence[typed.Expr]) -> Measure:
    """The most frequent value; of several, the least one unless the largest is asked for."""
    argument = scope.expression(function["child"])
    if function["reverseOpt"] is None:
        scope.conversion.note("mode takes the least of the most frequent values.")
    last = function["reverseOpt"] is False
    name = "spark.most_frequent_last" if last else "spark.most_frequent"

    def result(bags: Bags) -> typed.Expr:
        return typed.Builtin(name, (_sorted_values(bags[0], scope),), type=argument.type)

    return Measure((argument,), result)


def _percentile(function: PlanNode, scope: ColumnScope, _ties: Sequence[typed.Expr]) -> Measure:
    """The value at one place or at several of the values in order, in doubles as Spark has it."""
    argument = scope.expression(function["child"])
    if not (is_integer(argument.type) or is_float(argument.type)) and not isinstance(
        argument.type, Decimal
    ):
        raise Refused("C104", f"a percentile of {argument.type} is not converted", node=function)
    places = _value_of(scope.expression(function["percentageExpression"]))
    name = "spark.percentile_disc" if function.name == "PercentileDisc" else "spark.percentile"
    name += "_desc" if function.fields.get("reverse") else ""
    times = function.fields.get("frequencyExpression")
    is_plain = not isinstance(times, PlanNode) or (times.name == "Literal" and times["value"] == 1)
    if isinstance(times, PlanNode) and not is_plain:
        argument = _with_frequency(argument, scope.expression(times))

    def result(bags: Bags) -> typed.Expr:
        def percentile(place: Value) -> typed.Expr:
            bag = bags[0]() if is_plain else _repeat_values(bags[0](), scope)
            extra = typed.Const(float(place), type=DOUBLE)
            return typed.Aggregate(name, bag, extra, type=DOUBLE)

        if not isinstance(places, list):
            return percentile(places)
        array = typed.MakeCollection(tuple(map(percentile, places)), type=list_of(DOUBLE))
        nothing = typed.IsNull(percentile(0.0), type=BOOL)
        return typed.If(nothing, typed.Const(None, type=array.type), array, type=array.type)

    return Measure((argument,), result)


def _with_frequency(value: typed.Expr, times: typed.Expr) -> typed.Expr:
    """Pairs of a value and how often it counts; null where one of them is."""
    pair = build.tuple_of(value, widened(times, LONG))
    return unless_null([value, times], pair)


def _repeat_values(pairs: typed.Expr, scope: ColumnScope) -> typed.Expr:
    """The values of pairs (value, times), each so many times; a negative number is a failure."""
    pair = scope.names.variable("pair", _element(pairs))
    value, times = (build.item(build.var(pair), n) for n in range(2))
    again = scope.names.variable("value", value.type)
    count = typed.Cast(times, "ansi", type=INT)
    negative = typed.Compare("<", times, typed.Const(0, type=LONG), type=BOOL)
    message = typed.Const("the frequency of a percentile is negative", type=STRING)
    array = list_of(value.type)
    fails = typed.Builtin("spark.fail", (message,), "ansi", type=array)
    repeated = typed.Builtin("spark.array_repeat", (value, count), "try", type=array)
    copies = typed.If(negative, fails, repeated, type=array)
    more = typed.Generator(typed.Bind(again), copies)
    return build.for_each(pair, pairs, build.var(again), more)


def _value_of(expr: typed.Expr) -> Value:
    """The value of an expression of constants."""
    return evaluate(expr, Environment(new_world(EMPTY_SCRIPT)))


# --- All values ---


def _collection(function: PlanNode, scope: ColumnScope, _ties: Sequence[typed.Expr]) -> Measure:
    """An array of the values, in canonical order, as Spark leaves the order open."""
    argument = scope.expression(function["child"])
    is_set = function.name == "CollectSet"
    skips_nulls = function.fields.get("ignoreNulls", True)
    scope.conversion.note("The elements of collect_list and collect_set are in canonical order.")

    def result(bags: Bags) -> typed.Expr:
        bag = distinct_bag(bags[0]) if is_set else bags[0]
        values = present(bag, scope) if skips_nulls else bag()
        return typed.Builtin("sort", (values,), type=list_of(argument.type))

    return Measure((argument,), result)


def _listagg(function: PlanNode, scope: ColumnScope, _ties: Sequence[typed.Expr]) -> Measure:
    """`listagg`: the texts with a separator between them, in an order or the canonical one."""
    text = scope.expression(function["child"])
    separator = scope.expression(function["delimiter"])
    if separator.type == NOTHING:
        separator = typed.Const("", type=STRING)
    if text.type != STRING or separator.type != STRING:
        raise Refused("C104", f"listagg of {text.type} is not converted yet", node=function)
    separator = typed.Builtin(
        "spark.coalesce", (separator, typed.Const("", type=STRING)), type=STRING
    )
    orders = sort_keys(function["orderExpressions"], scope)
    scope.conversion.note("Where the order of listagg leaves a choice, texts are in their order.")
    row = build.tuple_of(*(order.expr for order in orders), text)

    def result(bags: Bags) -> typed.Expr:
        texts = _in_order(bags[0](), [order.descending for order in orders], scope)
        joined = typed.Builtin("spark.array_join", (texts, separator), type=STRING)
        return if_any(bags[0], joined)

    return Measure((unless_null([text], row),), result)


def _first_by(function: PlanNode, scope: ColumnScope, _ties: Sequence[typed.Expr]) -> Measure:
    """`max_by` and `min_by` with a number: the values of so many rows, the best key first."""
    key = scope.expression(function["orderingExpr"])
    value = scope.expression(function["valueExpr"])
    most = _value_of(scope.expression(function["kExpr"]))
    descending = not function.fields.get("reverse")
    scope.conversion.note("Ties of max_by and min_by are decided by the canonical order of values.")

    def result(bags: Bags) -> typed.Expr:
        return if_any(bags[0], _in_order(bags[0](), [descending], scope, most))

    return Measure((unless_null([key], build.tuple_of(key, value)),), result)


def _in_order(
    rows: typed.Expr, descending: Sequence[bool], scope: ColumnScope, most: int | None = None
) -> typed.Expr:
    """The list of the last components of tuples, sorted by the components before them."""
    row = scope.names.variable("row", _element(rows))
    *keys, value = (build.item(build.var(row), n) for n in range(len(descending) + 1))
    there = typed.Not(typed.IsNull(build.var(row), type=BOOL), type=BOOL)
    qualifiers = (typed.Generator(typed.Bind(row), rows), typed.Condition(there))
    order = [typed.Order(key, down) for key, down in zip(keys, descending, strict=True)]
    order = order or [typed.Order(value, False)]
    limit = None if most is None else typed.Const(most, type=LONG)
    return typed.Select(False, value, qualifiers, None, None, None, tuple(order), limit,
                        type=list_of(value.type))  # fmt: skip


def _measure_of_list(name: str, type_: Type) -> MeasureOf:
    """A function of all values as a list, in a wider type; the result fits the type again."""

    def folded(function: PlanNode, scope: ColumnScope, _ties: Sequence[typed.Expr]) -> Measure:
        argument = scope.expression(function["child"])
        if type_ == LONG and not is_integer(argument.type):
            message = f"{function.name} of {argument.type} is not converted yet"
            raise Refused("C104", message, node=function)

        def result(bags: Bags) -> typed.Expr:
            whole = typed.Builtin(name, (_sorted_values(bags[0], scope),), type=type_)
            if type_ == LONG and argument.type != LONG:
                return typed.Cast(whole, "try", type=argument.type)
            return whole

        return Measure((widened(argument, type_),), result)

    return folded


def _sorted_values(bag: Bag, scope: ColumnScope) -> typed.Expr:
    """The list of the values that are not null, in canonical order."""
    values = present(bag, scope)
    return typed.Builtin("sort", (values,), type=list_of(_element(values)))


def _element(collection: typed.Expr) -> Type:
    assert isinstance(collection.type, Collection)
    return collection.type.element


CHOICES: Final[dict[str, MeasureOf]] = {
    "First": _end("min"),
    "Last": _end("max"),
    "MaxBy": _extreme_by("max"),
    "MinBy": _extreme_by("min"),
    "Mode": _mode,
    "Percentile": _percentile,
    "PercentileDisc": _percentile,
    "CollectList": _collection,
    "CollectSet": _collection,
    "ListAgg": _listagg,
    "MaxMinByK": _first_by,
    "BitAndAgg": _measure_of_list("spark.bit_and_of", LONG),
    "BitOrAgg": _measure_of_list("spark.bit_or_of", LONG),
    "BitXorAgg": _measure_of_list("spark.bit_xor_of", LONG),
    "Product": _measure_of_list("spark.product_of", DOUBLE),
}
"""The measures of these functions by the classes of the plan."""


def tied_values(functions: Sequence[PlanNode], function: PlanNode) -> list[PlanNode]:
    """What else functions of one query ask for that are answered by the same row."""
    if function.name in ("First", "Last"):
        return [other["child"] for other in functions if other.name in ("First", "Last")]
    if function.name in ("MaxBy", "MinBy"):
        key = function["orderingExpr"]
        return [
            other["valueExpr"]
            for other in functions
            if other.name == function.name and other["orderingExpr"] == key
        ]
    return []
