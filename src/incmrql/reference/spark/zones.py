"""Times in a zone as Java computes them: gaps and overlaps of the clock included.

A *local* time is what a clock in the zone shows, here as a timestamp of UTC with the same numbers.
A local time that the clock skips is as much later as the clock jumps; one that the clock shows
twice is the earlier moment, unless a time is moved to it that has the offset of the later one.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from importlib import resources
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from incmrql.reference.spark.moments import SHORT_ZONES, offset_of, parse_timestamp
from incmrql.reference.spark.times import add_months, months_between_days

_REGION: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]*")
_SECOND: Final = timedelta(seconds=1)
_DAY: Final = timedelta(days=1)


@lru_cache(256)
def zone_of(name: str) -> tzinfo | None:
    """The zone of a name or of an offset, such as `+02:00`; None if it is not known.

    The rules are those of the installed package `tzdata`, whatever the machine has.
    """
    offset = offset_of(name) if name else None
    if offset is not None:
        return timezone(offset)
    if not _REGION.fullmatch(name):
        return None
    if name in SHORT_ZONES:  # by these, Java and the database do not always mean the same
        return None
    try:
        package = resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
        with package.open("rb") as file:
            return ZoneInfo.from_file(file, key=name)
    except (ModuleNotFoundError, OSError, ValueError):
        pass
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        return None


def _zone(name: str) -> tzinfo:
    zone = zone_of(name)
    assert zone is not None, name
    return zone


def local_time(moment: datetime, zone: str) -> datetime | None:
    """What a clock in a zone shows at a moment."""
    try:
        return moment.astimezone(_zone(zone)).replace(tzinfo=UTC, fold=0)
    except OverflowError:
        return None


def moment_of_local(local: datetime, zone: str) -> datetime | None:
    """The moment at which a clock in a zone shows a time."""
    return _moment(local, _zone(zone))


def _moment(local: datetime, zone: tzinfo, preferred: timedelta | None = None) -> datetime | None:
    """The moment of a local time; of two, the one with the preferred offset."""
    first = local.replace(tzinfo=zone, fold=0)
    second = local.replace(tzinfo=zone, fold=1)
    offsets = first.utcoffset(), second.utcoffset()
    is_overlap = offsets[0] is not None and offsets[1] is not None and offsets[0] > offsets[1]
    chosen = second if is_overlap and offsets[1] == preferred else first
    try:
        return chosen.astimezone(UTC)
    except OverflowError:
        return None


def start_of_day(day: date, zone: str) -> datetime | None:
    """The first moment of a day in a zone, which is not midnight where the clock skips that."""
    rules = _zone(zone)
    moment = _moment(datetime.combine(day, time(), UTC), rules)
    if moment is None or moment.astimezone(rules).time() == time():
        return moment
    # Midnight is skipped: the day starts where the offset changes.
    after = moment.astimezone(rules).utcoffset()
    early, late = moment - _DAY, moment
    while late - early > _SECOND:
        middle = early + (late - early) // (2 * _SECOND) * _SECOND
        if middle.astimezone(rules).utcoffset() == after:
            late = middle
        else:
            early = middle
    return late


def _moved(moment: datetime, zone: str, change: timedelta | int) -> datetime | None:
    """A moment a number of days or months later by the local calendar, at the same time of day."""
    rules = _zone(zone)
    try:
        here = moment.astimezone(rules)
        local = here.replace(tzinfo=UTC, fold=0)
        if isinstance(change, timedelta):
            moved: datetime | None = local + change
        else:
            day = add_months(local.date(), change)
            moved = None if day is None else datetime.combine(day, local.timetz())
    except OverflowError:
        return None
    return None if moved is None else _moment(moved, rules, here.utcoffset())


def add_months_in(moment: datetime, months: int, zone: str) -> datetime | None:
    """The same local time so many months later, on the last day of a shorter month."""
    return _moved(moment, zone, months)


def add_days_in(moment: datetime, days: int, zone: str) -> datetime | None:
    """The same local time so many days later."""
    try:
        return _moved(moment, zone, timedelta(days=days))
    except OverflowError:
        return None


def truncated_in(moment: datetime, unit: str, zone: str) -> datetime | None:
    """The first moment of the hour or minute that a clock in a zone shows."""
    rules = _zone(zone)
    try:
        here = moment.astimezone(rules)
    except OverflowError:
        return None
    start = here.replace(second=0, microsecond=0, tzinfo=UTC, fold=0)
    return _moment(start.replace(minute=0) if unit == "hour" else start, rules, here.utcoffset())


def months_between_in(later: datetime, earlier: datetime, rounded: bool, zone: str) -> float | None:
    """The months between two moments; a day that the clock shortens has fewer seconds."""
    ends: list[tuple[date, int]] = []
    for moment in (later, earlier):
        local = local_time(moment, zone)
        start = None if local is None else start_of_day(local.date(), zone)
        if local is None or start is None:
            return None
        ends.append((local.date(), (moment - start) // _SECOND))
    return months_between_days(ends[0], ends[1], rounded)


def timestamp_in(text: str, zone: str) -> datetime | None:
    """The moment that a string denotes, in a zone where it names none."""
    parsed = parse_timestamp(text, has_zone=False)
    return parse_timestamp(text) if parsed is None else moment_of_local(parsed, zone)
