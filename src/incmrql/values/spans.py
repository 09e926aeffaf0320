"""Intervals as text: `-1-2` is a year and two months back, `1 02:03:04.5` a bit more than a day.

Both read back as the same interval: one has hyphens between its numbers, the other colons.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from incmrql.values.data import Months
from incmrql.values.encoding import MICROSECOND

MONTHS_OF_YEAR: Final = 12
_SECOND: Final = 1_000_000
_MONTHS: Final = re.compile(r"(-?)(\d+)-(\d+)", re.ASCII)
_DURATION: Final = re.compile(r"(-?)(\d+) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)


def span_text(span: Months | timedelta) -> str:
    """An interval as years and months, or as days and a time of day."""
    if isinstance(span, Months):
        years, months = divmod(abs(span), MONTHS_OF_YEAR)
        return f"{'-' if span < 0 else ''}{years}-{months}"
    micros = span // MICROSECOND
    seconds, fraction = divmod(abs(micros), _SECOND)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    rest = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{'-' if micros < 0 else ''}{day} {hour:02}:{minute:02}:{second:02}{rest}"


def read_span(text: str) -> Months | timedelta:
    """The interval that `span_text` wrote; raises a ValueError for other texts."""
    if parts := _MONTHS.fullmatch(text):
        sign, years, months = parts.groups()
        count = int(years) * MONTHS_OF_YEAR + int(months)
        return Months(-count if sign else count)
    if parts := _DURATION.fullmatch(text):
        sign, day, hour, minute, second, fraction = parts.groups("")
        seconds = ((int(day) * 24 + int(hour)) * 60 + int(minute)) * 60 + int(second)
        micros = seconds * _SECOND + int(fraction.ljust(6, "0"))
        return (-micros if sign else micros) * MICROSECOND
    raise ValueError(f"{text!r} is no interval")


__all__ = ["MONTHS_OF_YEAR", "read_span", "span_text"]
