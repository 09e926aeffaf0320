"""Dates and timestamps read from strings as Spark's casts read them, in UTC.

Values are of the years 1 to 9999.  `is_beyond` tells strings from which Spark reads a time that
has no value here: another year, today at some time, or a time in a named zone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from functools import cache
from typing import Final
from zoneinfo import available_timezones

from incmrql.types.model import DATE, TIMESTAMP_NTZ, Type
from incmrql.values import LocalTime

_BLANKS: Final = "".join(map(chr, (*range(0x21), 0x7F)))
_DATE: Final = re.compile(
    r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL
)
_CLOCK: Final = (
    r"(?P<hour>[0-9]{1,2})(?P<rest>:(?P<minute>[0-9]{1,2})"
    r"(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?(?P<zone>[^0-9.].*)?)?)?"
)
_DAY: Final = r"(?P<year>[+-]?[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
_TIMESTAMP: Final = re.compile(rf"{_DAY}(?:[ T]{_CLOCK})?)?)?", re.DOTALL)
_TIME: Final = re.compile(rf"T?{_CLOCK}", re.DOTALL)
_OFFSET: Final = re.compile(
    r"Z|(?:UTC|GMT|UT)?(?:(?P<sign>[+-])"
    r"(?:(?P<h>[0-9]{1,2})"
    r"|(?P<hh>[0-9]{2})(?P<mm>[0-9]{2})(?P<ss>[0-9]{2})?"
    r"|(?P<hour>[0-9]{1,2}):(?:(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?|(?P<m>[0-9]))))?"
)
_LONGEST_OFFSET: Final = timedelta(hours=18)
SHORT_ZONES: Final = frozenset(
    (
        "ACT", "AET", "AGT", "ART", "AST", "BET", "BST", "CAT", "CNT", "CST", "CTT", "EAT", "ECT",
        "EST", "HST", "IET", "IST", "JST", "MIT", "MST", "NET", "NST", "PLT", "PNT", "PRT", "PST",
        "SST", "VST",
    )
)  # fmt: skip
"""The three letters by which Java knows some zones."""
_CYCLE: Final = 400
"""The years after which the calendar repeats."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a string says of a time; the day is None for a time of today."""

    day: tuple[int, int, int] | None
    clock: tuple[int, int, int, int]
    zone: str


def parse_date(text: str) -> date | None:
    """The date that a string begins with."""
    day = _day_of(text)
    return None if day is None else _date(*day)


def parse_timestamp(text: str, *, has_zone: bool = True) -> datetime | None:
    """The moment that a string denotes, in UTC where it names no offset.

    Without `has_zone`, only a string that names no offset or zone denotes one.
    """
    parts = _parts_of(text)
    if parts is not None and parts.zone.strip(_BLANKS) and not has_zone:
        return None
    offset = None if parts is None else offset_of(parts.zone)
    if parts is None or parts.day is None or offset is None:
        return None
    try:
        return datetime(*parts.day, *parts.clock, tzinfo=timezone(offset)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def parse_local_time(text: str) -> LocalTime | None:
    """The local time that a string denotes; an offset or zone in it does not count."""
    parts = _parts_of(text)
    if parts is None or parts.day is None or not _is_zone(parts.zone):
        return None
    try:
        return LocalTime(*parts.day, *parts.clock)
    except ValueError:
        return None


def is_beyond(text: str, target: Type) -> bool:
    """Whether Spark reads a date or timestamp from a string that has no value here."""
    if target == DATE:
        day = _day_of(text)
        return day is not None and _date(*day) is None
    parts = _parts_of(text)
    if parts is None or not _is_clock(parts.clock):
        return False
    if parts.day is not None and not _exists(*parts.day):
        return False
    if target == TIMESTAMP_NTZ:
        is_known = parts.day is None or parse_local_time(text) is not None
    else:
        is_known = parse_timestamp(text) is not None
    return _is_zone(parts.zone) and not is_known


def _day_of(text: str) -> tuple[int, int, int] | None:
    """Year, month and day, if there is such a day."""
    match = _DATE.fullmatch(text.strip(_BLANKS))
    if match is None:
        return None
    year, month, day = (int(part or 1) for part in match.groups())
    return (year, month, day) if _exists(year, month, day) else None


def _parts_of(text: str) -> _Parts | None:
    trimmed = text.strip(_BLANKS)
    match = _TIMESTAMP.fullmatch(trimmed)
    if match is not None:
        year, month, day = (int(match.group(name) or 1) for name in ("year", "month", "day"))
        return _Parts((year, month, day), _clock(match), match.group("zone") or "")
    match = _TIME.fullmatch(trimmed)
    has_mark = text.startswith("T")
    if match is None or trimmed.startswith("T") != has_mark:
        return None
    return (
        _Parts(None, _clock(match), match.group("zone") or "")
        if (has_mark or match.group("rest"))
        else None
    )


def _clock(match: re.Match[str]) -> tuple[int, int, int, int]:
    hour, minute, second = (int(match.group(name) or 0) for name in ("hour", "minute", "second"))
    fraction = (match.group("fraction") or "")[:6].ljust(6, "0")
    return hour, minute, second, int(fraction)


def offset_of(zone: str) -> timedelta | None:
    """The offset that a zone has by its name alone."""
    match = _OFFSET.fullmatch(zone.strip(_BLANKS))
    if match is None:
        return None
    parts = [
        next((int(match.group(name)) for name in names if match.group(name)), 0)
        for names in (("h", "hh", "hour"), ("mm", "minute", "m"), ("ss", "second"))
    ]
    if parts[1] > 59 or parts[2] > 59:
        return None
    offset = timedelta(hours=parts[0], minutes=parts[1], seconds=parts[2])
    if offset > _LONGEST_OFFSET:
        return None
    return -offset if match.group("sign") == "-" else offset


def _is_zone(zone: str) -> bool:
    name = zone.strip(_BLANKS)
    return offset_of(zone) is not None or name in SHORT_ZONES or name in _zone_names()


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones())


def _is_clock(clock: tuple[int, int, int, int]) -> bool:
    return clock[0] < 24 and clock[1] < 60 and clock[2] < 60


def _exists(year: int, month: int, day: int) -> bool:
    """Whether there is such a day in the calendar, in whatever year."""
    return _date(year % _CYCLE + _CYCLE, month, day) is not None


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
