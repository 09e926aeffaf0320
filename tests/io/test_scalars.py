"""Text to values of basic types: one line per rule."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.io.scalars import Unparsable, parse_scalar
from incmrql.types import model as t
from incmrql.types.model import Type
from incmrql.values import Value, identical
from incmrql.values.numbers import to_float32

GOOD: list[tuple[str, Type, Value]] = [
    ("12", t.INT, 12),
    (" \t-7 ", t.INT, -7),
    ("+5", t.INT, 5),
    ("007", t.INT, 7),
    ("-128", t.BYTE, -128),
    ("32767", t.SHORT, 32767),
    ("9223372036854775807", t.LONG, 2**63 - 1),
    ("-9223372036854775808", t.LONG, -(2**63)),
    ("0" * 5000 + "1", t.LONG, 1),
    ("1.5", t.DOUBLE, 1.5),
    (" 1e3 ", t.DOUBLE, 1000.0),
    (".5", t.DOUBLE, 0.5),
    ("5.", t.DOUBLE, 5.0),
    ("12", t.DOUBLE, 12.0),
    ("1e999", t.DOUBLE, math.inf),
    ("NaN", t.DOUBLE, math.nan),
    ("Infinity", t.DOUBLE, math.inf),
    ("-Infinity", t.DOUBLE, -math.inf),
    ("inf", t.DOUBLE, math.inf),
    ("0.1", t.FLOAT, to_float32(0.1)),
    ("1e39", t.FLOAT, math.inf),
    ("true", t.BOOL, True),
    (" FALSE ", t.BOOL, False),
    ("1", t.BOOL, True),
    ("0", t.BOOL, False),
    ("", t.STRING, ""),
    (" a ", t.STRING, " a "),
    ("1.005", t.Decimal(5, 2), Decimal("1.01")),
    ("-1.005", t.Decimal(5, 2), Decimal("-1.01")),
    ("999.994", t.Decimal(5, 2), Decimal("999.99")),
    ("1e-999999", t.Decimal(5, 2), Decimal("0.00")),
    ("2026-01-31", t.DATE, date(2026, 1, 31)),
    ("2026-01-31T10:00:00Z", t.TIMESTAMP, datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ("2026-01-31 10:00:00", t.TIMESTAMP, datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ("2026-01-31T10:00", t.TIMESTAMP, datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ("2026-01-31", t.TIMESTAMP, datetime(2026, 1, 31, tzinfo=UTC)),
    ("2026-01-31T10:00:00.5+02:00", t.TIMESTAMP, datetime(2026, 1, 31, 8, 0, 0, 500000, UTC)),
    ("2026-01-31T10:00:00-0530", t.TIMESTAMP, datetime(2026, 1, 31, 15, 30, tzinfo=UTC)),
    ("2026-01-31T10:00:00+01", t.TIMESTAMP, datetime(2026, 1, 31, 9, tzinfo=UTC)),
    ("2026-01-31T10:00:00.1234569", t.TIMESTAMP, datetime(2026, 1, 31, 10, 0, 0, 123456, UTC)),
]

BAD: list[tuple[str, Type, str]] = [
    ("abc", t.INT, '"abc" is not an int'),
    ("", t.INT, '"" is not an int'),
    ("1.0", t.INT, '"1.0" is not an int'),
    ("1_000", t.INT, '"1_000" is not an int'),
    ("٣", t.INT, '"٣" is not an int'),
    ("128", t.BYTE, '"128" does not fit byte (-128 to 127)'),
    ("9" * 5000, t.LONG, "does not fit long"),
    ("9223372036854775808", t.LONG, "does not fit long"),
    ("1,5", t.DOUBLE, '"1,5" is not a double'),
    ("0x10", t.DOUBLE, "is not a double"),
    ("1_0.0", t.DOUBLE, "is not a double"),
    ("yes", t.BOOL, '"yes" is not a bool (true or false, 1 or 0)'),
    ("t", t.BOOL, "is not a bool"),
    ("1000", t.Decimal(5, 2), '"1000" does not fit decimal(5,2)'),
    ("NaN", t.Decimal(5, 2), '"NaN" is not a decimal'),
    ("1e99999999999999999999", t.Decimal(5, 2), "does not fit decimal(5,2)"),
    ("2026-02-30", t.DATE, '"2026-02-30" is not a date (YYYY-MM-DD)'),
    ("31/01/2026", t.DATE, "is not a date"),
    ("2026-1-1", t.DATE, "is not a date"),
    ("2026-01-31T25:00:00", t.TIMESTAMP, "is not a timestamp"),
    ("2026-01-31T10:00:00+99:00", t.TIMESTAMP, "is not a timestamp"),
    ("0001-01-01T00:00:00+10:00", t.TIMESTAMP, "is not a timestamp"),
    ("x" * 500, t.INT, f'"{"x" * 60}..." is not an int'),
]


@pytest.mark.parametrize(("text", "type_", "value"), GOOD, ids=lambda x: str(x)[:20])
def test_text_that_is_a_value(text: str, type_: Type, value: Value) -> None:
    parsed = parse_scalar(text, type_)
    assert identical(parsed, value)
    assert type(parsed) is type(value)


@pytest.mark.parametrize(("text", "type_", "reason"), BAD, ids=lambda x: str(x)[:20])
def test_text_that_is_none(text: str, type_: Type, reason: str) -> None:
    with pytest.raises(Unparsable) as caught:
        parse_scalar(text, type_)
    assert reason in caught.value.reason


def test_minus_zero_is_zero() -> None:
    assert str(parse_scalar("-0.0", t.DOUBLE)) == "0.0"
    assert str(parse_scalar("-0.0", t.FLOAT)) == "0.0"
    assert str(parse_scalar("-0.00", t.Decimal(5, 2))) == "0.00"


TYPES = [t.INT, t.LONG, t.DOUBLE, t.FLOAT, t.BOOL, t.DATE, t.TIMESTAMP, t.Decimal(9, 3)]


@given(st.text(), st.sampled_from(TYPES))
def test_any_text_is_a_value_or_has_a_reason(text: str, type_: Type) -> None:
    try:
        parse_scalar(text, type_)
    except Unparsable as problem:
        assert problem.reason  # noqa: PT017
