"""Functions of dates as Spark defines them; null outside of the years 1 to 9999."""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from typing import Final

_MONTHS: Final = 12
_LAST_YEAR: Final = 9999


def add_months(day: date, months: int) -> date | None:
    """The same day so many months later, or the last one of a shorter month."""
    year, month = divmod(day.year * _MONTHS + day.month - 1 + months, _MONTHS)
    if not 1 <= year <= _LAST_YEAR:
        return None
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def quarter(day: date) -> int:
    """The quarter of the year, from 1."""
    return (day.month + 2) // 3


def day_of_week(day: date) -> int:
    """1 for a Sunday, 7 for a Saturday."""
    return day.isoweekday() % 7 + 1


def weekday(day: date) -> int:
    """0 for a Monday, 6 for a Sunday."""
    return day.weekday()


def day_of_year(day: date) -> int:
    """The day of the year, from 1."""
    return day.timetuple().tm_yday


def week_of_year(day: date) -> int:
    """The number of the week by ISO 8601, of which the first one has a Thursday of the year."""
    return day.isocalendar().week


def last_day(day: date) -> date:
    """The last day of the month."""
    return day.replace(day=monthrange(day.year, day.month)[1])
