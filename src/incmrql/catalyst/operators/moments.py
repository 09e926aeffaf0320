"""Variances, covariances, regressions and higher moments: functions of exact sums of a group."""

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
    count_of,
    span_of,
    unless_null,
    widened,
)
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import ColumnScope
from incmrql.types import typed
from incmrql.types.model import BOOL, DOUBLE, EXACT_SUM, INT, LONG, STRING, Collection, list_of

MeasureOf: TypeAlias = Callable[[PlanNode, ColumnScope], Measure]


def _require_nulls(function: PlanNode) -> None:
    """Refuse the legacy setting by which a division by zero is NaN."""
    if not function.fields.get("nullOnDivideByZero", True):
        message = f"{function.name} with spark.sql.legacy.statisticalAggregate"
        raise Refused("C104", f"{message} is not converted", node=function)


# --- Variance and standard deviation ---


def _spread(name: str, *, population: bool) -> MeasureOf:
    """Variance and standard deviation; those of a population are made of those of a sample."""

    def spread(function: PlanNode, scope: ColumnScope) -> Measure:
        _require_nulls(function)
        argument = widened(scope.expression(function["child"]), DOUBLE)
        if not population:
            return Measure((argument,), lambda bags: aggregate_of(name, bags[0](), DOUBLE))

        def result(bags: Bags) -> typed.Expr:
            variance = _population_variance(bags[0])
            if name == "variance":
                return variance
            return typed.Builtin("sqrt", (variance,), type=DOUBLE)

        return Measure((argument,), result)

    return spread


def _population_variance(bag: Bag) -> typed.Expr:
    """(n - 1) / n times the variance of a sample; of one value 0, or NaN if it is not finite."""
    as_double = typed.Widen(count_of(bag), type=DOUBLE)
    one = typed.Const(1.0, type=DOUBLE)
    rest = _arithmetic("-", typed.Widen(count_of(bag), type=DOUBLE), one)
    sample = aggregate_of("variance", bag(), DOUBLE)
    scaled = _arithmetic("/", _arithmetic("*", sample, rest), as_double)
    total = [aggregate_of("sum", bag(), DOUBLE) for _ in range(2)]
    of_one = _arithmetic("-", total[0], total[1])
    is_one = typed.Compare("=", count_of(bag), typed.Const(1, type=LONG), type=BOOL)
    return typed.If(is_one, of_one, scaled, type=DOUBLE)


def _arithmetic(op: typed.ArithmeticOp, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    return typed.Arithmetic(op, left, right, type=DOUBLE)


# --- Functions of exact sums ---


def _of_powers(function_name: str, count: int) -> MeasureOf:
    """A function of the number of values and of the sums of their first powers."""

    def moment(function: PlanNode, scope: ColumnScope) -> Measure:
        _require_nulls(function)
        argument = widened(scope.expression(function["child"]), DOUBLE)

        def result(bags: Bags) -> typed.Expr:
            sums = [_sum_of_powers(bags[0], power, scope) for power in range(1, count + 1)]
            return _of_sums(function_name, bags[0], sums)

        return Measure((argument,), result)

    return moment


def _of_pairs(function_name: str, first: str, second: str, *sums: str) -> MeasureOf:
    """A function of the number of pairs of values and of sums; pairs with a null are skipped."""

    def moment(function: PlanNode, scope: ColumnScope) -> Measure:
        _require_nulls(function)
        values = [widened(scope.expression(function[name]), DOUBLE) for name in (first, second)]
        argument = unless_null(values, build.tuple_of(*values))

        def result(bags: Bags) -> typed.Expr:
            parts = [_sum_of_products(bags[0], summand, scope) for summand in sums]
            return _of_sums(function_name, bags[0], parts)

        return Measure((argument,), result)

    return moment


def _correlation(function: PlanNode, scope: ColumnScope) -> Measure:
    """`corr`: null of fewer than two pairs; in ANSI mode it fails where x or y does not vary."""
    plain = _of_pairs("spark.corr", "x", "y", *_TO_BOTH)(function, scope)
    is_ansi = scope.settings.get("spark.sql.ansi.enabled", "true").lower() == "true"

    def result(bags: Bags) -> typed.Expr:
        if not is_ansi:
            return plain.result(bags)
        several = typed.Compare(">", count_of(bags[0]), typed.Const(1, type=LONG), type=BOOL)
        message = typed.Const("the values of a correlation do not vary", type=STRING)
        span = span_of(function, scope)
        failure = typed.Builtin("spark.fail", (message,), "ansi", type=DOUBLE, span=span)
        missing = typed.IsNull(plain.result(bags), type=BOOL)
        failing = typed.Logic("and", several, missing, type=BOOL)
        return typed.If(failing, failure, plain.result(bags), type=DOUBLE)

    return Measure(plain.arguments, result)


def _of_sums(function_name: str, bag: Bag, sums: Sequence[typed.Expr]) -> typed.Expr:
    return typed.Builtin(function_name, (count_of(bag), *sums), "try", type=DOUBLE)


def _sum_of_powers(bag: Bag, power: int, scope: ColumnScope) -> typed.Expr:
    if power == 1:
        return aggregate_of("sum#part", bag(), EXACT_SUM)
    exponent = typed.Const(power, type=INT)
    return _sum_of_parts(
        bag, scope, lambda value: ("spark.power_parts", (build.var(value), exponent))
    )


def _sum_of_products(bag: Bag, factors: str, scope: ColumnScope) -> typed.Expr:
    """The exact sum over pairs (x, y) of one of them, or of a product of two."""
    places = ["xy".index(factor) for factor in factors]
    if len(places) == 1:
        (place,) = places
        return aggregate_of("sum#part", _map_values(bag, place, scope), EXACT_SUM)
    return _sum_of_parts(
        bag,
        scope,
        lambda pair: (
            "spark.product_parts",
            tuple(build.item(build.var(pair), place) for place in places),
        ),
    )


def _map_values(bag: Bag, place: int, scope: ColumnScope) -> typed.Expr:
    values = bag()
    assert isinstance(values.type, Collection)
    pair = scope.names.variable("pair", values.type.element)
    return build.for_each(pair, values, build.item(build.var(pair), place))


def _sum_of_parts(
    bag: Bag,
    scope: ColumnScope,
    call: Callable[[typed.Variable], tuple[str, tuple[typed.Expr, ...]]],
) -> typed.Expr:
    """The exact sum of the parts that a function makes of each value."""
    values = bag()
    assert isinstance(values.type, Collection)
    value = scope.names.variable("value", values.type.element)
    part = scope.names.variable("part", DOUBLE)
    name, arguments = call(value)
    parts = typed.Builtin(name, arguments, "try", type=list_of(DOUBLE))
    more = typed.Generator(typed.Bind(part), parts)
    return aggregate_of("sum#part", build.for_each(value, values, build.var(part), more), EXACT_SUM)


_TO_LINE: Final = ("x", "y", "xx", "xy")
_TO_BOTH: Final = ("x", "y", "xx", "yy", "xy")

MOMENTS: Final[dict[str, MeasureOf]] = {
    "VarianceSamp": _spread("variance", population=False),
    "StddevSamp": _spread("stddev", population=False),
    "VariancePop": _spread("variance", population=True),
    "StddevPop": _spread("stddev", population=True),
    "CovPopulation": _of_pairs("spark.covar_pop", "left", "right", "x", "y", "xy"),
    "CovSample": _of_pairs("spark.covar_samp", "left", "right", "x", "y", "xy"),
    "Corr": _correlation,
    "RegrR2": _of_pairs("spark.regr_r2", "x", "y", *_TO_BOTH),
    "RegrSXY": _of_pairs("spark.regr_sxy", "x", "y", "x", "y", "xy"),
    "RegrSlope": _of_pairs("spark.regr_slope", "right", "left", *_TO_LINE),
    "RegrIntercept": _of_pairs("spark.regr_intercept", "right", "left", *_TO_LINE),
    "RegrReplacement": _of_powers("spark.regr_sxx", 2),
    "Skewness": _of_powers("spark.skewness", 3),
    "Kurtosis": _of_powers("spark.kurtosis", 4),
}
"""The measures of moments by the classes of their functions."""
