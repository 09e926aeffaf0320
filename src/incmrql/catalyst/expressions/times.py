"""Parts of dates and timestamps, and arithmetic with them and with constant intervals."""

from __future__ import annotations

from typing import Final

from incmrql.catalyst.expressions.rules import (
    Convert,
    Rule,
    Rules,
    call,
    const,
    require_utc,
    rule,
)
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import Scope
from incmrql.types import typed
from incmrql.types.model import DATE, INT, LONG

_DAY: Final = 86_400_000_000
"""Microseconds."""


def _part(function: str) -> Rule:
    """A number of a date."""

    def convert(node: PlanNode, scope: Scope) -> typed.Expr:
        return call(function, [scope.expression(node["child"])], INT)

    return rule(convert, "child")


def _clock(function: str) -> Rule:
    """A number of a timestamp's time of day."""

    def convert(node: PlanNode, scope: Scope) -> typed.Expr:
        require_utc(node)
        return call(function, [scope.expression(node["child"])], INT)

    return rule(convert, "child", "timeZoneId")


def _add_days(sign: int) -> Convert:
    def convert(node: PlanNode, scope: Scope) -> typed.Expr:
        start, days = scope.expressions((node["startDate"], node["days"]))
        count = typed.Widen(days, type=LONG)
        signed = count if sign > 0 else typed.Negate(count, "ansi", type=LONG)
        return call("date_add", [start, signed], DATE, "ansi")

    return convert


def _days_between(node: PlanNode, scope: Scope) -> typed.Expr:
    return call("date_diff", scope.expressions((node["endDate"], node["startDate"])), INT)


def _add_months(node: PlanNode, scope: Scope) -> typed.Expr:
    start, months = scope.expressions((node["startDate"], node["numMonths"]))
    return call("spark.add_months", [start, months], DATE, "ansi")


def _add_interval(node: PlanNode, scope: Scope) -> typed.Expr:
    months = const(_constant(node["interval"], "YearMonthIntervalType"), INT)
    return call("spark.add_months", [scope.expression(node["date"]), months], DATE, "ansi")


def _interval_days(node: PlanNode, _scope: Scope) -> typed.Expr:
    micros = _constant(node["child"], "DayTimeIntervalType")
    if micros is None:
        return const(None, INT)
    days = abs(micros) // _DAY
    return const(days if micros >= 0 else -days, INT)


def _constant(node: PlanNode, type_name: str) -> int | None:
    """The months or microseconds of an interval that is a constant."""
    match node.name:
        case "Literal" if node["dataType"].name == type_name:
            value: int | None = node["value"]
            return value
        case "UnaryMinus":
            operand = _constant(node["child"], type_name)
            return None if operand is None else -operand
        case _:
            message = "an interval that is not a constant is not converted yet"
            raise Refused("C104", message, node=node)


def _last_day(node: PlanNode, scope: Scope) -> typed.Expr:
    return call("spark.last_day", [scope.expression(node["startDate"])], DATE)


TIMES: Final[Rules] = {
    "Year": _part("year"),
    "Month": _part("month"),
    "DayOfMonth": _part("day"),
    "Quarter": _part("spark.quarter"),
    "DayOfWeek": _part("spark.dayofweek"),
    "WeekDay": _part("spark.weekday"),
    "DayOfYear": _part("spark.dayofyear"),
    "WeekOfYear": _part("spark.weekofyear"),
    "Hour": _clock("hour"),
    "Minute": _clock("minute"),
    "Second": _clock("second"),
    "DateAdd": rule(_add_days(1), "startDate", "days"),
    "DateSub": rule(_add_days(-1), "startDate", "days"),
    "DateDiff": rule(_days_between, "endDate", "startDate"),
    "AddMonths": rule(_add_months, "startDate", "numMonths"),
    "DateAddYMInterval": rule(_add_interval, "date", "interval"),
    "ExtractANSIIntervalDays": rule(_interval_days, "child"),
    "LastDay": rule(_last_day, "startDate"),
}
"""Classes of functions of dates and times."""
