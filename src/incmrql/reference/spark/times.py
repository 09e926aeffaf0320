"""Functions of dates and timestamps as Spark defines them, in UTC.

Null outside of the years 1 to 9999.
"""

from __future__ import annotations

import math
import re
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Final

from incmrql.reference.spark.casts import micros_of, moment_of

_MONTHS: Final = 12
_LAST_YEAR: Final = 9999
_SECOND: Final = 1_000_000
_DAY_SECONDS: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


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


def next_day(day: date, weekday_number: int) -> date | None:
    """The first day after a date that is a certain day of the week, 0 for a Monday."""
    return _later(day, (weekday_number - day.weekday() - 1) % 7 + 1)


def _later(day: date, days: int) -> date | None:
    try:
        return day + timedelta(days=days)
    except OverflowError:
        return None


def unix_date(day: date) -> int:
    """Days since 1970."""
    return day.toordinal() - _EPOCH.toordinal()


def from_unix_date(days: int) -> date | None:
    """The date so many days after 1970."""
    return _later(_EPOCH.date(), days)


def unix_seconds(moment: datetime) -> int:
    """Whole seconds since 1970, rounded down."""
    return micros_of(moment) // _SECOND


def unix_millis(moment: datetime) -> int:
    """Whole milliseconds since 1970, rounded down."""
    return micros_of(moment) // 1_000


def add_micros(moment: datetime, micros: int) -> datetime | None:
    """The moment so many microseconds later."""
    return moment_of(micros_of(moment) + micros)


def add_months_to_moment(moment: datetime, months: int) -> datetime | None:
    """The same time of day so many months later, on the last day of a shorter month."""
    utc = moment.astimezone(UTC)
    day = add_months(utc.date(), months)
    return None if day is None else datetime.combine(day, utc.timetz())


def months_between(later: datetime, earlier: datetime, rounded: bool) -> float:
    """The months between two moments; a month has 31 days, and last days of months are equal."""
    ends = (later.astimezone(UTC), earlier.astimezone(UTC))
    one, other = ((moment.date(), _second_of_day(moment)) for moment in ends)
    return months_between_days(one, other, rounded)


def months_between_days(later: tuple[date, int], earlier: tuple[date, int], rounded: bool) -> float:
    """The same of days and the seconds since each has begun."""
    (a, seconds_of_a), (b, seconds_of_b) = later, earlier
    months = float((a.year - b.year) * _MONTHS + a.month - b.month)
    if a.day == b.day or (a == last_day(a) and b == last_day(b)):
        return months
    seconds = (a.day - b.day) * _DAY_SECONDS + seconds_of_a - seconds_of_b
    exact = months + seconds / float(31 * _DAY_SECONDS)
    return math.floor(exact * 1e8 + 0.5) / 1e8 if rounded else exact


def _second_of_day(moment: datetime) -> int:
    return moment.hour * 3_600 + moment.minute * 60 + moment.second


def whole_units(start: datetime, end: datetime, micros: int) -> int:
    """How many units of so many microseconds fit between two moments."""
    size = micros_of(end) - micros_of(start)
    return size // micros if size >= 0 else -(-size // micros)


def whole_months(start: datetime, end: datetime) -> int:
    """How many months fit between two moments; a part of a day is no day."""
    a, b = start.astimezone(UTC), end.astimezone(UTC)
    last = b.date()
    if last > a.date() and b.time() < a.time():
        last -= timedelta(days=1)
    elif last < a.date() and b.time() > a.time():
        last += timedelta(days=1)
    months = (last.year - a.year) * _MONTHS + last.month - a.month
    if months > 0 and last.day < a.day:
        return months - 1
    return months + 1 if months < 0 and last.day > a.day else months


PATTERN: Final = re.compile(
    r"yyyy|yy|MMMM|MMM|MM|M|dd|d|HH|H|mm|m|ss|s|EEEE|EEE|EE|E|S{1,6}"
    r"|'(?:[^']|'')*'|[^A-Za-z'\[\]{}#]+"
)
"""The parts of patterns of times that are formatted here."""
_MONTH_NAMES: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DAY_NAMES: Final = (
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday",
)  # fmt: skip


def format_moment(moment: datetime, pattern: str) -> str | None:
    """A moment by a pattern; null if the pattern has parts that are not known."""
    parts = PATTERN.findall(pattern)
    doubled = any(one[0] == other[0] for one, other in pairwise(parts))
    if doubled or "".join(parts) != pattern:
        return None
    return "".join(_format_part(moment.astimezone(UTC), part) for part in parts)


def _format_part(moment: datetime, part: str) -> str:
    numbers = {
        "y": moment.year, "M": moment.month, "d": moment.day, "H": moment.hour,
        "m": moment.minute, "s": moment.second,
    }  # fmt: skip
    match part:
        case "yy":
            return f"{moment.year % 100:02}"
        case "MMMM" | "MMM":
            name = _MONTH_NAMES[moment.month - 1]
            return name if part == "MMMM" else name[:3]
        case _ if part.startswith("E"):
            name = _DAY_NAMES[moment.weekday()]
            return name if part == "EEEE" else name[:3]
        case _ if part.startswith("S"):
            return f"{moment.microsecond:06}"[: len(part)]
        case _ if part.startswith("'"):
            return part[1:-1].replace("''", "'") or "'"
        case _ if part[0] in numbers:
            return f"{numbers[part[0]]:0{len(part)}}"
        case _:
            return part


_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_NAMES: Final = (
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
)  # fmt: skip


def day_name(day: date) -> str:
    """The short name of the day of the week."""
    return _DAYS[day.weekday()]


def month_name(day: date) -> str:
    """The short name of the month."""
    return _NAMES[day.month - 1]


def make_timestamp(
    year: int, month: int, day: int, hour: int, minute: int, second: Decimal
) -> datetime | None:
    """The moment with these parts; a second of exactly 60 is the next minute."""
    micros = int(second * _SECOND)
    if not 0 <= micros <= 60 * _SECOND or (second < 0):
        return None
    try:
        start = datetime(year, month, day, hour, minute, tzinfo=UTC)
        return start + timedelta(microseconds=micros)
    except (ValueError, OverflowError):
        return None
