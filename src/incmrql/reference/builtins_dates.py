"""Built-ins for dates and times.  Timestamps are in UTC; null means that there is no such time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from incmrql.reference.casts import cast
from incmrql.types.model import DATE, TIMESTAMP
from incmrql.values import Value


def _date(first: Value, month: int | None = None, day: int | None = None) -> date | None:
    """A date from its text, from a timestamp, or from year, month and day."""
    if month is None or day is None:
        found: date | None = cast(first, DATE)
        return found
    try:
        return date(first, month, day)
    except (ValueError, OverflowError):
        return None


def _timestamp(value: Value) -> datetime | None:
    found: datetime | None = cast(value, TIMESTAMP)
    return found


def _add_days(start: date, days: int) -> date | None:
    try:
        return start + timedelta(days=days)
    except OverflowError:
        return None


def _days_between(end: date, start: date) -> int:
    """The days from the day of `start` to the day of `end`."""
    return end.toordinal() - start.toordinal()


def _truncate(unit: str, moment: date) -> date | None:
    """The first moment of the year, quarter, ..., second in which a moment lies."""
    unit = unit.lower()
    if isinstance(moment, datetime) and unit in ("hour", "minute", "second"):
        minute = 0 if unit == "hour" else moment.minute
        second = moment.second if unit == "second" else 0
        return moment.replace(minute=minute, second=second, microsecond=0)
    day = _first_day(unit, moment)
    is_time = day is not None and isinstance(moment, datetime)
    return datetime.combine(day, time(), UTC) if day is not None and is_time else day


def _first_day(unit: str, moment: date) -> date | None:
    match unit:
        case "year":
            return date(moment.year, 1, 1)
        case "quarter":
            return date(moment.year, (moment.month - 1) // 3 * 3 + 1, 1)
        case "month":
            return date(moment.year, moment.month, 1)
        case "week":
            return date.fromordinal(moment.toordinal() - moment.weekday())
        case "day" | "hour" | "minute" | "second":
            return date.fromordinal(moment.toordinal())
        case _:
            return None


DATES: Final[Mapping[str, Callable[..., Any]]] = {
    "date": _date,
    "timestamp": _timestamp,
    "year": lambda moment: moment.year,
    "month": lambda moment: moment.month,
    "day": lambda moment: moment.day,
    "hour": lambda moment: moment.hour,
    "minute": lambda moment: moment.minute,
    "second": lambda moment: moment.second,
    "date_add": _add_days,
    "date_diff": _days_between,
    "date_trunc": _truncate,
}
