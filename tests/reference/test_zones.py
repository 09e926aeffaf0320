"""Times in a zone: gaps and overlaps of the clock as Java resolves them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.reference.spark import zones

PARIS, YORK, LORD_HOWE = "Europe/Paris", "America/New_York", "Australia/Lord_Howe"
NAMES = (PARIS, YORK, LORD_HOWE, "Asia/Kolkata", "America/Sao_Paulo", "Africa/Cairo", "+05:30")
MOMENTS = st.datetimes(
    datetime(1850, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)
)  # fmt: skip


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("local", "zone", "moment"),
    [
        # The clock goes from 2:00 to 3:00: what it skips is as much later.
        (utc(2024, 3, 31, 1, 59, 59), PARIS, utc(2024, 3, 31, 0, 59, 59)),
        (utc(2024, 3, 31, 2, 30), PARIS, utc(2024, 3, 31, 1, 30)),
        (utc(2024, 3, 31, 3, 0), PARIS, utc(2024, 3, 31, 1, 0)),
        # It goes from 3:00 back to 2:00: what it shows twice is the first.
        (utc(2024, 10, 27, 2, 30), PARIS, utc(2024, 10, 27, 0, 30)),
        (utc(2024, 10, 27, 3, 0), PARIS, utc(2024, 10, 27, 2, 0)),
        (utc(2024, 3, 10, 2, 30), YORK, utc(2024, 3, 10, 7, 30)),
        (utc(2024, 11, 3, 1, 30), YORK, utc(2024, 11, 3, 5, 30)),
        (utc(2024, 10, 6, 2, 15), LORD_HOWE, utc(2024, 10, 5, 15, 45)),  # by half an hour
        (utc(2024, 1, 1, 5, 30), "+05:30", utc(2024, 1, 1)),
        (utc(1, 1, 1), "+05:30", None),
    ],
)
def test_a_local_time_is_a_moment(local: datetime, zone: str, moment: datetime | None) -> None:
    assert zones.moment_of_local(local, zone) == moment


def test_a_day_starts_where_the_clock_shows_it_first() -> None:
    assert zones.start_of_day(date(2024, 3, 31), PARIS) == utc(2024, 3, 30, 23)
    # Midnight is skipped in Brazil, and half an hour before it in Toronto, in 1919.
    assert zones.start_of_day(date(2018, 11, 4), "America/Sao_Paulo") == utc(2018, 11, 4, 3)
    assert zones.start_of_day(date(1919, 3, 31), "America/Toronto") == utc(1919, 3, 31, 4, 30)


def test_days_and_months_keep_the_time_of_day_and_where_they_can_the_offset() -> None:
    assert zones.add_days_in(utc(2024, 3, 30, 1, 30), 1, PARIS) == utc(2024, 3, 31, 1, 30)
    assert zones.add_days_in(utc(2024, 3, 30, 9), 1, PARIS) == utc(2024, 3, 31, 8)
    # At 2:30 of October 27 there are two: in summer time from before, in winter time from after.
    assert zones.add_days_in(utc(2024, 10, 26, 0, 30), 1, PARIS) == utc(2024, 10, 27, 0, 30)
    assert zones.add_days_in(utc(2024, 10, 28, 1, 30), -1, PARIS) == utc(2024, 10, 27, 1, 30)
    assert zones.add_months_in(utc(2024, 1, 31, 12), 1, YORK) == utc(2024, 2, 29, 12)
    assert zones.add_months_in(utc(2024, 2, 10, 7, 30), 1, YORK) == utc(2024, 3, 10, 7, 30)
    assert zones.add_days_in(utc(9999, 12, 31), 1, PARIS) is None
    assert zones.add_days_in(utc(2024, 1, 1), 10**12, PARIS) is None


def test_hours_start_in_the_offset_that_they_are_in() -> None:
    for hour in (0, 1):  # both are 2 o'clock
        moment = utc(2024, 10, 27, hour, 59, 58)
        assert zones.truncated_in(moment, "hour", PARIS) == utc(2024, 10, 27, hour)
        assert zones.truncated_in(moment, "minute", PARIS) == utc(2024, 10, 27, hour, 59)
    assert zones.truncated_in(utc(2024, 1, 1, 0, 59), "hour", "Asia/Kolkata") == utc(
        2024, 1, 1, 0, 30
    )


def test_a_string_may_name_an_offset_of_its_own() -> None:
    assert zones.timestamp_in("2024-03-31 02:30:00", PARIS) == utc(2024, 3, 31, 1, 30)
    assert zones.timestamp_in("2024-03-31 02:30:00+00:00", PARIS) == utc(2024, 3, 31, 2, 30)
    assert zones.timestamp_in("2024-01-01", YORK) == utc(2024, 1, 1, 5)
    assert zones.timestamp_in("no time", YORK) is None


def test_names_that_java_reads_in_its_own_way_are_not_known() -> None:
    assert zones.zone_of("PST") is None
    assert zones.zone_of("Mars/Olympus") is None
    assert zones.zone_of("../../etc/passwd") is None
    assert zones.zone_of("") is None
    assert zones.zone_of("GMT+3") is not None


@given(moment=MOMENTS, zone=st.sampled_from(NAMES))
def test_a_clock_and_the_moment_it_shows_agree(moment: datetime, zone: str) -> None:
    """Exactly where a local time is one moment; else the moment shows the same time."""
    local = zones.local_time(moment, zone)
    assert local is not None
    again = zones.moment_of_local(local, zone)
    assert again is not None
    assert zones.local_time(again, zone) == local
    assert again <= moment
    day = zones.start_of_day(local.date(), zone)
    assert day is not None
    shown = zones.local_time(day, zone)
    assert shown is not None
    assert day <= moment
    assert shown.date() == local.date()


def test_the_rules_are_those_of_the_installed_package() -> None:
    zone = zones.zone_of(PARIS)
    assert isinstance(zone, ZoneInfo)
    assert zone.utcoffset(datetime(2024, 7, 1)) is not None
