"""Intervals of years and months, and of days and times.

Columns hold numbers of months or of microseconds, so arithmetic is that of ints and longs, which
fails where the result does not fit, in all modes of Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal as DecimalValue
from typing import Final

from incmrql.catalyst.expressions.rules import (
    Convert,
    Rules,
    call,
    const,
    fold_constant,
    rule,
    type_of,
    widened,
)
from incmrql.catalyst.expressions.times import local_time_at
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import ColumnScope
from incmrql.types import typed
from incmrql.types.model import (
    BYTE,
    DAY_TIME_INTERVALS,
    DOUBLE,
    INT,
    LONG,
    STRING,
    YEAR_MONTH_INTERVALS,
    Decimal,
    Type,
    is_day_time,
    is_float,
    is_integer,
    is_year_month,
)
from incmrql.values.numbers import decimal_result

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
"""Microseconds."""
YEAR: Final = 12
"""Months."""
_MONTH_UNITS: Final = (YEAR, 1)
_MICRO_UNITS: Final = (DAY, HOUR, MINUTE, SECOND)
_ENDS: Final[Mapping[Type, tuple[int, int]]] = {
    type_: ends
    for types in (YEAR_MONTH_INTERVALS, DAY_TIME_INTERVALS)
    for ends, type_ in types.items()
}


def is_interval(type_: Type) -> bool:
    """Whether values are intervals."""
    return is_year_month(type_) or is_day_time(type_)


def number_of(span: typed.Expr) -> typed.Expr:
    """The months or microseconds of an interval, as a long."""
    if is_year_month(span.type):
        return widened(widened(span, INT), LONG)
    return widened(span, LONG)


def interval_of(number: typed.Expr, type_: Type) -> typed.Expr:
    """The interval of so many months or microseconds; it fails where these are too many."""
    if is_year_month(type_):
        number = fold_constant(typed.Cast(number, "ansi", type=INT))
    return widened(number, type_)


def _calculation(op: typed.ArithmeticOp, left: typed.Expr, right: typed.Expr | int) -> typed.Expr:
    other = const(right, LONG) if isinstance(right, int) else right
    return fold_constant(typed.Arithmetic(op, left, other, "ansi", type=LONG))


# --- Arithmetic ---


def sum_of_intervals(
    op: typed.ArithmeticOp, left: typed.Expr, right: typed.Expr, node: PlanNode
) -> typed.Expr:
    """The sum or difference of two intervals."""
    if op not in ("+", "-"):
        raise Refused("C104", f"{node.name} of intervals is not converted yet", node=node)
    return interval_of(_calculation(op, number_of(left), number_of(right)), type_of(node))


def opposite_of(span: typed.Expr) -> typed.Expr:
    """The opposite interval."""
    return interval_of(fold_constant(typed.Negate(number_of(span), "ansi", type=LONG)), span.type)


def absolute(span: typed.Expr) -> typed.Expr:
    """The interval without its sign."""
    return interval_of(call("abs", [number_of(span)], LONG, "ansi"), span.type)


def _scaling(op: typed.ArithmeticOp) -> Convert:
    """An interval times a number, or divided by one: halves are rounded away from zero."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        span, factor = scope.expressions((node["interval"], node["num"]))
        number, type_ = number_of(span), type_of(node)
        if is_integer(factor.type):
            factor = widened(factor, LONG) if factor.type != LONG else factor
            if op == "*":
                return interval_of(_calculation("*", number, factor), type_)
        elif is_float(factor.type):
            factor = widened(factor, DOUBLE) if factor.type != DOUBLE else factor
        function = "spark.times" if op == "*" else "spark.divided"
        return interval_of(call(function, [number, factor], LONG, "ansi"), type_)

    return convert


def average(total: typed.Expr, count: typed.Expr, type_: Type) -> typed.Expr:
    """The mean of so many intervals."""
    return interval_of(call("spark.divided", [total, count], LONG, "ansi"), type_)


# --- Parts ---


def _part(unit: int, whole: int | None, type_: Type) -> Convert:
    """How many units there are in what is left of the next larger unit."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        number = number_of(scope.expression(node["child"]))
        rest = number if whole is None else _calculation("%", number, whole)
        count = rest if unit == 1 else _calculation("/", rest, unit)
        return typed.Cast(count, "ansi", type=type_)

    return convert


def _seconds(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    number = number_of(scope.expression(node["child"]))
    return _as_seconds(_calculation("%", number, MINUTE), Decimal(8, 6))


def _as_seconds(micros: typed.Expr, type_: Decimal) -> typed.Expr:
    """Microseconds as a decimal of seconds."""
    whole, millionth = Decimal(20, 0), Decimal(6, 6)
    exact = Decimal(*decimal_result("*", (20, 0), (6, 6)))
    digits = widened(micros, whole)
    one = const(DecimalValue("0.000001"), millionth)
    return typed.Cast(typed.Arithmetic("*", digits, one, "ansi", type=exact), "ansi", type=type_)


# --- Casts and makers ---


def cast_interval(operand: typed.Expr, target: Type, node: PlanNode) -> typed.Expr:
    """A cast to or from an interval."""
    source = operand.type
    if is_interval(source) and target == STRING:
        return call("spark.span_text", [number_of(operand), const(str(source), STRING)], STRING)
    if (
        is_interval(source)
        and is_interval(target)
        and is_year_month(source) == is_year_month(target)
    ):
        return _truncate(operand, target)
    if is_interval(source) and _is_single(source):
        if is_integer(target):
            return typed.Cast(_units(operand), "ansi", type=target)
        if isinstance(target, Decimal):
            if _unit(source) == SECOND:
                return _as_seconds(number_of(operand), target)
            return typed.Cast(_units(operand), "ansi", type=target)
    if is_integer(source) and is_interval(target) and _is_single(target):
        number = widened(operand, LONG) if source != LONG else operand
        return interval_of(_calculation("*", number, _unit(target)), target)
    message = f"the cast from {source} to {target} is not converted yet"
    hint = "Write a constant as INTERVAL '...'." if source == STRING else ""
    raise Refused("C104", message, hint, node)


def _truncate(operand: typed.Expr, target: Type) -> typed.Expr:
    """An interval without what is smaller than the last unit of its type."""
    number, unit = number_of(operand), _unit(target)
    if unit in (1, SECOND):
        return widened(widened(operand, _storage(target)), target)
    return interval_of(_calculation("-", number, _calculation("%", number, unit)), target)


def _storage(type_: Type) -> Type:
    return INT if is_year_month(type_) else LONG


def _units(operand: typed.Expr) -> typed.Expr:
    unit = _unit(operand.type)
    return number_of(operand) if unit == 1 else _calculation("/", number_of(operand), unit)


def _unit(type_: Type) -> int:
    """The months or microseconds of the last unit of a type."""
    return (_MONTH_UNITS if is_year_month(type_) else _MICRO_UNITS)[_ENDS[type_][1]]


def _is_single(type_: Type) -> bool:
    first, last = _ENDS[type_]
    return first == last


def _make_year_month(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    years, months = (
        widened(part, LONG) for part in scope.expressions((node["years"], node["months"]))
    )
    return interval_of(_calculation("+", _calculation("*", years, YEAR), months), type_of(node))


def _make_day_time(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    names = ("days", "hours", "mins", "secs")
    *parts, seconds = scope.expressions([node[name] for name in names])
    assert isinstance(seconds.type, Decimal)
    digits = (seconds.type.precision, seconds.type.scale)
    exact = Decimal(*decimal_result("*", digits, (7, 0)))
    million = const(DecimalValue(SECOND), Decimal(7, 0))
    micros = typed.Arithmetic("*", seconds, million, "ansi", type=exact)
    total: typed.Expr = typed.Cast(micros, "ansi", type=LONG)
    for part, unit in zip(parts, _MICRO_UNITS, strict=False):
        count = widened(part, LONG)
        total = _calculation("+", total, _calculation("*", count, unit))
    return interval_of(total, type_of(node))


# --- Differences of times ---


def _between_times(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    ends = [local_time_at(node, name, scope) for name in ("left", "right")]
    left, right = (call("spark.unix_micros", [end], LONG) for end in ends)
    return interval_of(_calculation("-", left, right), type_of(node))


def _between_dates(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    days = call("date_diff", scope.expressions((node["left"], node["right"])), INT)
    return interval_of(_calculation("*", widened(days, LONG), DAY), type_of(node))


SPANS: Final[Rules] = {
    "MultiplyYMInterval": rule(_scaling("*"), "interval", "num"),
    "MultiplyDTInterval": rule(_scaling("*"), "interval", "num"),
    "DivideYMInterval": rule(_scaling("/"), "interval", "num"),
    "DivideDTInterval": rule(_scaling("/"), "interval", "num"),
    "MakeYMInterval": rule(_make_year_month, "years", "months"),
    "MakeDTInterval": rule(_make_day_time, "days", "hours", "mins", "secs"),
    "ExtractANSIIntervalYears": rule(_part(YEAR, None, INT), "child"),
    "ExtractANSIIntervalMonths": rule(_part(1, YEAR, BYTE), "child"),
    "ExtractANSIIntervalDays": rule(_part(DAY, None, INT), "child"),
    "ExtractANSIIntervalHours": rule(_part(HOUR, DAY, BYTE), "child"),
    "ExtractANSIIntervalMinutes": rule(_part(MINUTE, HOUR, BYTE), "child"),
    "ExtractANSIIntervalSeconds": rule(_seconds, "child"),
    "SubtractTimestamps": rule(_between_times, "left", "right", "timeZoneId", legacyInterval=False),
    "SubtractDates": rule(_between_dates, "left", "right", legacyInterval=False),
}
"""Classes of intervals."""
