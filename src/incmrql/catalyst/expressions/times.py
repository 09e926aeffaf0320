"""Parts of dates and timestamps, and arithmetic with them and with constant intervals."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from incmrql.catalyst.expressions.rules import (
    Convert,
    Rule,
    Rules,
    as_timestamp,
    as_type,
    call,
    const,
    constant_of,
    first_moment,
    fold_constant,
    in_zone,
    let,
    local_time,
    moment_of,
    null,
    rule,
    type_of,
    widened,
    zone_of,
)
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import ColumnScope
from incmrql.reference.spark.times import format_moment
from incmrql.reference.spark.zones import zone_of as known_zone
from incmrql.types import typed
from incmrql.types.model import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    NOTHING,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Type,
    is_integer,
    is_year_month,
)

_DAY: Final = 86_400_000_000
"""Microseconds."""


def _part(function: str) -> Rule:
    """A number of a date."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        return call(function, [scope.expression(node["child"])], INT)

    return rule(convert, "child")


def _clock(function: str) -> Rule:
    """A number of a timestamp's time of day."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        return call(function, [local_time_at(node, "child", scope)], INT)

    return rule(convert, "child", "timeZoneId")


def _add_days(sign: int) -> Convert:
    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        start, days = scope.expressions((node["startDate"], node["days"]))
        count = typed.Widen(days, type=LONG)
        signed = count if sign > 0 else typed.Negate(count, "ansi", type=LONG)
        return call("date_add", [start, signed], DATE, "ansi")

    return convert


def _days_between(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    return call("date_diff", scope.expressions((node["endDate"], node["startDate"])), INT)


def _add_months(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    start, months = scope.expressions((node["startDate"], node["numMonths"]))
    return call("spark.add_months", [start, months], DATE, "ansi")


def _add_interval(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    start, interval = scope.expressions((node["date"], node["interval"]))
    return call("spark.add_months", [start, widened(interval, INT)], DATE, "ansi")


def _last_day(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    return call("spark.last_day", [scope.expression(node["startDate"])], DATE)


def _truncate(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The first moment of the unit in which a date or timestamp lies."""
    zone = zone_of(node)
    is_date = "date" in node.fields
    operand = scope.expression(node["date" if is_date else "timestamp"])
    type_ = DATE if is_date else TIMESTAMP
    word = constant_of(scope.expression(node["format"]))
    if word is None:
        raise Refused("C104", f"{node.name} to a unit from data is not converted yet", node=node)
    units = _DATE_UNITS if is_date else {**_DATE_UNITS, **_TIME_UNITS}
    unit = units.get(str(word.value).lower())
    if word.value is None or (unit is None and str(word.value).lower() not in _SMALL_UNITS):
        return null(type_)
    if unit is None:
        raise Refused("C104", f"{node.name} to {word.value} is not converted yet", node=node)
    word_of_unit = const(unit, STRING)
    if not zone or is_date:
        return call("date_trunc", [word_of_unit, operand], type_, "ansi")
    if unit == "second":
        return call("date_trunc", [word_of_unit, operand], type_, "ansi")
    if unit in ("hour", "minute"):
        return in_zone("spark.trunc_in", [operand, word_of_unit], zone)
    first = call("date_trunc", [word_of_unit, local_time(operand, zone)], type_, "ansi")
    return in_zone("spark.start_of_day", [typed.Cast(first, "ansi", type=DATE)], zone)


_DATE_UNITS: Final = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month",
    "mon": "month", "mm": "month", "week": "week",
}  # fmt: skip
_TIME_UNITS: Final = {
    "day": "day", "dd": "day", "hour": "hour", "minute": "minute", "second": "second",
}  # fmt: skip
_SMALL_UNITS: Final = ("millisecond", "microsecond")


def _later(start: typed.Expr, interval: PlanNode, scope: ColumnScope, zone: str) -> typed.Expr:
    """A timestamp and an interval; one of months and days is a constant, or a minus before it."""
    sign, literal = 1, interval
    while literal.name == "UnaryMinus":
        sign, literal = -sign, literal["child"]
    value = literal.fields.get("value")
    if isinstance(value, PlanNode):
        later = _months_later(start, const(sign * value["months"], INT), zone)
        days = const(sign * value["days"], LONG)
        return _days_later(later, days, const(sign * value["microseconds"], LONG), zone)
    span = scope.expression(interval)
    if is_year_month(span.type):
        return _months_later(start, widened(span, INT), zone)
    return _micros_later(start, widened(span, LONG), zone, scope)


def _months_later(start: typed.Expr, months: typed.Expr, zone: str) -> typed.Expr:
    if zone:
        return in_zone("spark.add_months_in", [start, months], zone)
    return call("spark.add_months_to_timestamp", [start, months], TIMESTAMP, "ansi")


def _days_later(start: typed.Expr, days: typed.Expr, micros: typed.Expr, zone: str) -> typed.Expr:
    """A timestamp after days, which may be longer or shorter in a zone, and microseconds."""
    later = in_zone("spark.add_days_in", [start, days], zone) if zone else start
    if not zone:
        whole = fold_constant(typed.Arithmetic("*", days, const(_DAY, LONG), "ansi", type=LONG))
        micros = fold_constant(typed.Arithmetic("+", whole, micros, "ansi", type=LONG))
    return call("spark.add_micros", [later, micros], TIMESTAMP, "ansi")


_QUOTIENT: Final[tuple[typed.ArithmeticOp, typed.ArithmeticOp]] = ("/", "%")


def _micros_later(
    start: typed.Expr, micros: typed.Expr, zone: str, scope: ColumnScope
) -> typed.Expr:
    """A timestamp after microseconds, of which each full day is a day of the zone."""
    if not zone:
        return call("spark.add_micros", [start, micros], TIMESTAMP, "ansi")
    day = const(_DAY, LONG)

    def split(whole: typed.Expr) -> typed.Expr:
        days, rest = (
            fold_constant(typed.Arithmetic(op, whole, day, "ansi", type=LONG)) for op in _QUOTIENT
        )
        return _days_later(start, days, rest, zone)

    return let(scope, micros, split)


def _add_to_timestamp(field: str) -> Convert:
    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        start = _timestamp(node, scope.expression(node[field]))
        zone = "" if type_of(node) == TIMESTAMP_NTZ else zone_of(node)
        return as_type(_later(start, node["interval"], scope, zone), type_of(node))

    return convert


def _timestamp(node: PlanNode, operand: typed.Expr) -> typed.Expr:
    """An operand that has to be a timestamp, as one in UTC."""
    operand = as_timestamp(operand)
    if operand.type not in (TIMESTAMP, NOTHING):
        raise Refused("C104", f"{node.name} of {operand.type} is not converted yet", node=node)
    return operand


def local_time_at(node: PlanNode, name: str, scope: ColumnScope) -> typed.Expr:
    """The operand in a field, which has to be a timestamp, as a local time."""
    return _local(node, scope.expression(node[name]))


def _local(node: PlanNode, operand: typed.Expr) -> typed.Expr:
    """A timestamp as what a clock shows in the zone of an expression."""
    if operand.type == TIMESTAMP_NTZ:
        return _timestamp(node, operand)
    return local_time(_timestamp(node, operand), zone_of(node))


def _precise(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """A timestamp as microseconds, or the other way round: the arithmetic of time windows."""
    operand = scope.expression(node["child"])
    if type_of(node) == LONG:
        return call("spark.unix_micros", [_timestamp(node, operand)], LONG)
    moment = call("spark.from_unix_micros", [operand], TIMESTAMP, "ansi")
    return as_type(moment, type_of(node))


_UNITS: Final = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000, "DAY": _DAY, "WEEK": 7 * _DAY,
}  # fmt: skip
_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _units_between(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    unit = str(node["unit"]).upper()
    operands = scope.expressions((node["startTimestamp"], node["endTimestamp"]))
    ends = [_local(node, operand) for operand in operands]
    if unit in _UNITS:
        return call("spark.whole_units", [*ends, const(_UNITS[unit], LONG)], LONG)
    if unit not in _MONTHS:
        raise Refused("C104", f"{node.name} in {unit} is not converted yet", node=node)
    months = call("spark.whole_months", ends, LONG)
    return typed.Arithmetic("/", months, const(_MONTHS[unit], LONG), "try", type=LONG)


def _unix_seconds(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """Seconds since 1970, without a fraction also before; strings in a pattern are not parsed."""
    operand = scope.expression(node["timeExp"])
    if operand.type == DATE:
        operand = first_moment(operand, zone_of(node))
        return call("spark.unix_seconds", [operand], LONG)
    micros = call("spark.unix_micros", [_timestamp(node, operand)], LONG)
    return typed.Arithmetic("/", micros, const(1_000_000, LONG), "try", type=LONG)


def _since_epoch(function: str, result: Type) -> Rule:
    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        return call(function, [scope.expression(node["child"])], result, "ansi")

    return rule(convert, "child")


def _moment_of(micros: int) -> Rule:
    """The timestamp so many units of microseconds after 1970."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        operand = scope.expression(node["child"])
        if not is_integer(operand.type):
            raise Refused("C104", f"{node.name} of {operand.type} is not converted", node=node)
        count = typed.Widen(operand, type=LONG) if operand.type != LONG else operand
        total = typed.Arithmetic("*", count, const(micros, LONG), "ansi", type=LONG)
        return call("spark.from_unix_micros", [total], TIMESTAMP, "ansi")

    return rule(convert, "child")


def _months_between(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    operands = scope.expressions((node["date1"], node["date2"]))
    later, earlier = (_timestamp(node, operand) for operand in operands)
    rounded, zone = scope.expression(node["roundOff"]), zone_of(node)
    if zone:
        arguments = [later, earlier, rounded, const(zone, STRING)]
        return call("spark.months_between_in", arguments, DOUBLE)
    return call("spark.months_between", [later, earlier, rounded], DOUBLE)


_WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WEEKDAY_NAMES: Final = (
    "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY",
)  # fmt: skip


def _next_day(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    word = constant_of(scope.expression(node["dayOfWeek"]))
    name = "" if word is None else str(word.value).strip().upper()
    day = next((n for n, full in enumerate(_WEEKDAY_NAMES) if name in (full, full[:3])), None)
    day = _WEEKDAYS.index(name) if name in _WEEKDAYS else day
    if day is None:
        raise Refused("C104", "next_day after a day of the week that is not constant", node=node)
    start = scope.expression(node["startDate"])
    return call("spark.next_day", [start, const(day, INT)], DATE, "ansi")


def _make_date(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    if not node["failOnError"]:
        raise Refused("C104", "make_date without ANSI is not converted yet", node=node)
    parts = scope.expressions((node["year"], node["month"], node["day"]))
    return call("date", parts, DATE, "ansi")


def _format(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """A timestamp by a constant pattern of plain parts."""
    return _by_pattern(local_time_at(node, "left", scope), node["right"], node, scope)


def _by_pattern(
    local: typed.Expr, format_: PlanNode, node: PlanNode, scope: ColumnScope
) -> typed.Expr:
    if scope.settings.get("spark.sql.legacy.timeParserPolicy", "EXCEPTION") == "LEGACY":
        raise Refused("C104", "date_format by Java's old rules is not converted yet", node=node)
    pattern = scope.expression(format_)
    known = constant_of(pattern)
    if known is None or format_moment(_SOME_TIME, str(known.value)) is None:
        shown = "a pattern from data" if known is None else f"the pattern '{known.value}'"
        raise Refused("C104", f"date_format by {shown} is not converted yet", node=node)
    return call("spark.date_format", [local, pattern], STRING)


def _from_seconds(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """`from_unixtime`: seconds since 1970 as a text, by a constant pattern."""
    seconds = scope.expression(node["sec"])
    micros = typed.Arithmetic("*", seconds, const(1_000_000, LONG), "ansi", type=LONG)
    moment = call("spark.from_unix_micros", [micros], TIMESTAMP, "ansi")
    return _by_pattern(_local(node, moment), node["format"], node, scope)


def _make_timestamp(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    zone = "" if type_of(node) == TIMESTAMP_NTZ else zone_of(node)
    names = ("year", "month", "day", "hour", "min", "sec")
    parts = scope.expressions([node[name] for name in names])
    mode: typed.Mode = "ansi" if node["failOnError"] else "try"
    local = call("spark.make_timestamp", parts, TIMESTAMP, mode)
    return as_type(moment_of(local, zone), type_of(node))


_MONTHS_OF: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_MICROS_OF: Final = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000, "DAY": 86_400_000_000, "DAYOFYEAR": 86_400_000_000,
    "WEEK": 604_800_000_000,
}  # fmt: skip


def _later_by(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """`timestampadd`: so many units later."""
    count = scope.expression(node["quantity"])
    start = _timestamp(node, scope.expression(node["timestamp"]))
    zone = "" if type_of(node) == TIMESTAMP_NTZ else zone_of(node)
    unit = str(node["unit"]).upper()
    if unit not in {**_MONTHS_OF, **_MICROS_OF}:
        raise Refused("C104", f"timestampadd of {unit} is not converted yet", node=node)
    size = const(_MONTHS_OF.get(unit) or _MICROS_OF[unit], LONG)
    total = typed.Arithmetic("*", count, size, "ansi", type=LONG)
    if unit in _MICROS_OF and _MICROS_OF[unit] < _DAY:
        later = call("spark.add_micros", [start, total], TIMESTAMP, "ansi")  # by no clock
    elif unit in _MICROS_OF:
        later = _micros_later(start, total, zone, scope)
    else:
        later = _months_later(start, typed.Cast(total, "ansi", type=INT), zone)
    return as_type(later, type_of(node))


def _in_named_zone(function: str) -> Rule:
    """A timestamp as a clock of a constant zone shows it, or the other way round."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        operand = _timestamp(node, scope.expression(node["left"]))
        zone = constant_of(scope.expression(node["right"]))
        if zone is None or zone.value is None or known_zone(zone.value) is None:
            shown = "from data" if zone is None else f"'{zone.value}'"
            raise Refused("C104", f"{node.name} of the zone {shown} is not converted", node=node)
        return as_type(in_zone(function, [operand], zone.value), type_of(node))

    return rule(convert, "left", "right")


_SOME_TIME: Final = datetime(2026, 1, 31, tzinfo=UTC)

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
    "TruncDate": rule(_truncate, "date", "format"),
    "TruncTimestamp": rule(_truncate, "format", "timestamp", "timeZoneId"),
    "TimestampAddInterval": rule(_add_to_timestamp("start"), "start", "interval", "timeZoneId"),
    "TimestampAddYMInterval": rule(
        _add_to_timestamp("timestamp"), "timestamp", "interval", "timeZoneId"
    ),
    "PreciseTimestampConversion": rule(_precise, "child", ignores=("fromType", "toType")),
    "TimestampDiff": rule(_units_between, "unit", "startTimestamp", "endTimestamp", "timeZoneId"),
    "UnixTimestamp": rule(
        _unix_seconds, "timeExp", "timeZoneId", ignores=("format", "failOnError")
    ),
    "ToUnixTimestamp": rule(
        _unix_seconds, "timeExp", "timeZoneId", ignores=("format", "failOnError")
    ),
    "UnixDate": _since_epoch("spark.unix_date", INT),
    "DateFromUnixDate": _since_epoch("spark.from_unix_date", DATE),
    "UnixSeconds": _since_epoch("spark.unix_seconds", LONG),
    "UnixMillis": _since_epoch("spark.unix_millis", LONG),
    "UnixMicros": _since_epoch("spark.unix_micros", LONG),
    "SecondsToTimestamp": _moment_of(1_000_000),
    "MillisToTimestamp": _moment_of(1_000),
    "MicrosToTimestamp": _moment_of(1),
    "MonthsBetween": rule(_months_between, "date1", "date2", "roundOff", "timeZoneId"),
    "NextDay": rule(_next_day, "startDate", "dayOfWeek", ignores=("failOnError",)),
    "MakeDate": rule(_make_date, "year", "month", "day", "failOnError"),
    "DateFormatClass": rule(_format, "left", "right", "timeZoneId"),
    "DayName": _since_epoch("spark.day_name", STRING),
    "MonthName": _since_epoch("spark.month_name", STRING),
    "FromUnixTime": rule(_from_seconds, "sec", "format", "timeZoneId"),
    "MakeTimestamp": rule(
        _make_timestamp,
        "year",
        "month",
        "day",
        "hour",
        "min",
        "sec",
        "failOnError",
        "timeZoneId",
        ignores=("dataType",),
    ),
    "TimestampAdd": rule(_later_by, "unit", "quantity", "timestamp", "timeZoneId"),
    "FromUTCTimestamp": _in_named_zone("spark.local_time_in"),
    "ToUTCTimestamp": _in_named_zone("spark.moment_in"),
    "LastDay": rule(_last_day, "startDate"),
}
"""Classes of functions of dates and times."""
