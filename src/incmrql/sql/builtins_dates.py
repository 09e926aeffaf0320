"""Built-ins for dates and times as SQL.  The zone of the session is UTC, as timestamps are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from incmrql.sql.builtins_call import Call, Lowering
from incmrql.sql.conversions import cast as convert
from incmrql.sql.conversions_texts import moment_of
from incmrql.sql.literals import integer
from incmrql.sql.operators import arithmetic, attempt
from incmrql.sql.tree import Dialect, binary, call, case, cast, number, text, type_text
from incmrql.types.model import DATE, LONG, TIMESTAMP

_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
_DAY: Final = 86_400_000_000
_DAYS: Final = ("year", "quarter", "month", "week", "day")
_TIMES: Final = ("hour", "minute", "second")


def _date(this: Call) -> exp.Expression | None:
    if len(this.arguments) == 1:
        return convert(this.arguments[0], this.types[0], DATE, this.dialect)
    year, month, day = this.arguments
    bounds = ((year, 9999), (month, 12), (day, 31))
    known = [exp.Between(this=part.copy(), low=number(1), high=number(n)) for part, n in bounds]
    test = binary(exp.And, binary(exp.And, known[0], known[1]), known[2])
    if not this.spark:
        return case([(test, attempt(call("make_date", year, month, day)))], None)
    written = _padded(year, 4)
    for part in (month, day):
        written = binary(exp.DPipe, binary(exp.DPipe, written, text("-")), _padded(part, 2))
    return case([(test, cast(written, "DATE", attempt=True))], None)


def _padded(part: exp.Expression, width: int) -> exp.Expression:
    return call("lpad", cast(part, "STRING"), number(width), text("0"))


def _timestamp(this: Call) -> exp.Expression | None:
    return convert(this.arguments[0], this.types[0], TIMESTAMP, this.dialect)


def _part(name: str) -> Lowering:
    """`year`, `hour`, ... of a moment."""

    def lower(this: Call) -> exp.Expression:
        found = call(name, this.arguments[0])
        return found if this.spark else cast(found, "INTEGER")

    return lower


def _add(this: Call) -> exp.Expression | None:
    """So many days later; null outside the years 1 to 9999."""
    start, days = this.arguments
    if this.types[0] == TIMESTAMP:
        name = "unix_micros" if this.spark else "epoch_us"
        length = arithmetic("*", LONG, days, integer(_DAY, LONG, this.dialect), this.dialect)
        moment = length and arithmetic("+", LONG, call(name, start), length, this.dialect)
        return moment and moment_of(moment, this.dialect)
    later = arithmetic(
        "+", LONG, cast(_day_number(start, this.dialect), "BIGINT"), days, this.dialect
    )
    if later is None:
        return None
    known = exp.Between(this=later.copy(), low=number(_FIRST_DAY), high=number(_LAST_DAY))
    made: exp.Expression
    if this.spark:
        made = call("date_from_unix_date", cast(later, "INT", attempt=True))
    else:
        made = binary(exp.Add, _epoch(), cast(later, "INTEGER", attempt=True))
    return case([(known, made)], None)


def _epoch() -> exp.Expression:
    return cast(text("1970-01-01"), "DATE")


def _day_number(day: exp.Expression, dialect: Dialect) -> exp.Expression:
    """The days since 1970."""
    if dialect is Dialect.SPARK:
        return call("unix_date", day)
    return binary(exp.Sub, day, _epoch())


def _difference(this: Call) -> exp.Expression:
    end, start = (
        cast(moment, "DATE") if type_ == TIMESTAMP else moment
        for moment, type_ in zip(this.arguments, this.types, strict=True)
    )
    if this.spark:
        return call("datediff", end, start)
    return cast(binary(exp.Sub, end, start), "INTEGER")


def _truncate(this: Call) -> exp.Expression:
    unit, moment = this.arguments
    is_time = this.types[1] == TIMESTAMP
    if isinstance(unit, exp.Literal):
        wanted = str(unit.this).lower()
        if wanted in (*_DAYS, *_TIMES):
            return _first(wanted, moment, is_time, this.dialect)
    asked = call("lower", unit)
    branches = [
        (
            binary(exp.EQ, asked.copy(), text(name)),
            _first(name, moment.copy(), is_time, this.dialect),
        )
        for name in (*_DAYS, *_TIMES)
    ]
    return case(branches, None)


def _first(unit: str, moment: exp.Expression, is_time: bool, dialect: Dialect) -> exp.Expression:
    """The first moment of the unit in which a moment lies; a date has no smaller ones than days."""
    if not is_time and unit in ("day", *_TIMES):
        return moment
    if dialect is Dialect.SPARK:
        if is_time:
            return call("date_trunc", text(unit), moment)
        return call("trunc", moment, text(unit))
    return cast(
        call("date_trunc", text(unit), moment), type_text(TIMESTAMP if is_time else DATE, dialect)
    )


DATES: Final[Mapping[str, Lowering]] = {
    "date": _date,
    "timestamp": _timestamp,
    **{name: _part(name) for name in ("year", "month", "day", "hour", "minute", "second")},
    "date_add": _add,
    "date_diff": _difference,
    "date_trunc": _truncate,
}
