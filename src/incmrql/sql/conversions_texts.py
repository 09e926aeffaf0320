"""Texts read as dates and times in SQL, and the tests that a text has a form.

Blanks around do not count.  A regular expression here means the same to Java and to RE2.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from incmrql.sql.literals import integer, string
from incmrql.sql.tree import Dialect, binary, call, case, cast, number, text, type_text
from incmrql.types.model import LONG, TIMESTAMP

BLANKS: Final = " \t\r\n\f\v"
_BLANK: Final = r"[ \t\r\n\f\x0B]*"
_YEAR: Final = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_DAY: Final = f"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}"
_HOUR: Final = "([01][0-9]|2[0-3])"
_SIXTY: Final = "[0-5][0-9]"
_ZONE: Final = rf"([Zz]|[+-]{_HOUR}(:?{_SIXTY})?)"
_TIME: Final = rf"[Tt ]{_HOUR}:{_SIXTY}(:{_SIXTY}([.,][0-9]+)?)?{_ZONE}?"
_FIRST: Final = -62_135_596_800_000_000
_LAST: Final = 253_402_300_799_999_999
"""Microseconds of the years 1 to 9999."""


def matches(operand: exp.Expression, pattern: str, dialect: Dialect) -> exp.Expression:
    """Whether a text has a form, apart from blanks around it."""
    whole = f"{_BLANK}({pattern}){_BLANK}"
    if dialect is Dialect.SPARK:
        return call("regexp_like", operand, string(rf"\A{whole}\z", dialect))
    return call("regexp_full_match", operand, string(whole, dialect))


def stripped(operand: exp.Expression, dialect: Dialect) -> exp.Expression:
    """A text without the blanks around it."""
    name = "btrim" if dialect is Dialect.SPARK else "trim"
    return call(name, operand, string(BLANKS, dialect))


def date_of(operand: exp.Expression, dialect: Dialect) -> exp.Expression:
    """`YYYY-MM-DD` as a date, or null."""
    read = cast(operand, "DATE", attempt=True)
    return case([(matches(operand.copy(), _DAY, dialect), read)], None)


def timestamp_of(operand: exp.Expression, dialect: Dialect) -> exp.Expression:
    """`YYYY-MM-DDThh:mm:ss.ffffff+hh:mm`, of which the end may be missing, or null.

    The parts are taken by their places, and added up as microseconds.
    """
    inner = stripped(operand, dialect)
    tail = call("substr", inner, number(17))
    seconds = case(
        [(call(_STARTS[dialect], tail.copy(), text(":")), _digits(inner, 18, 2))], number(0)
    )
    fraction = call("regexp_extract", tail.copy(), text("[.,]([0-9]{1,6})"), number(1))
    zone = call("regexp_extract", tail.copy(), text("[+-].*"), number(0))
    minutes = call("regexp_extract", zone.copy(), text("^...:?([0-9]{2})"), number(1))
    parts = [
        (_days(inner, dialect), 86_400_000_000),
        (_digits(inner, 12, 2), 3_600_000_000),
        (_digits(inner, 15, 2), 60_000_000),
        (seconds, 1_000_000),
        (_integer(call("rpad", fraction, number(6), text("0"))), 1),
    ]
    away = _total([(_digits(zone, 2, 2), 3_600_000_000), (_integer(minutes), 60_000_000)], dialect)
    west = call(_STARTS[dialect], zone.copy(), text("-"))
    moment = binary(
        exp.Add, _total(parts, dialect), case([(west, away)], exp.Neg(this=exp.paren(away.copy())))
    )
    checked = case([(matches(operand.copy(), f"{_DAY}({_TIME})?", dialect), moment)], None)
    return moment_of(checked, dialect)


def moment_of(microseconds: exp.Expression, dialect: Dialect) -> exp.Expression:
    """The timestamp at so many microseconds since 1970; null outside the years 1 to 9999."""
    bounds = (integer(bound, LONG, dialect) for bound in (_FIRST, _LAST))
    low, high = bounds
    known = exp.Between(this=exp.paren(microseconds.copy()), low=low, high=high)
    if dialect is Dialect.SPARK:
        return case([(known, call("timestamp_micros", microseconds))], None)
    made = cast(call("make_timestamp", microseconds), type_text(TIMESTAMP, dialect))
    return case([(known, made)], None)


_STARTS: Final = {Dialect.SPARK: "startswith", Dialect.DUCKDB: "starts_with"}


def _days(inner: exp.Expression, dialect: Dialect) -> exp.Expression:
    """The days since 1970 of the date that a text begins with."""
    day = cast(call("substr", inner.copy(), number(1), number(10)), "DATE", attempt=True)
    if dialect is Dialect.SPARK:
        return call("unix_date", day)
    return binary(exp.Sub, day, cast(text("1970-01-01"), "DATE"))


def _digits(source: exp.Expression, first: int, count: int) -> exp.Expression:
    return _integer(call("substr", source.copy(), number(first), number(count)))


def _integer(digits: exp.Expression) -> exp.Expression:
    """The number that some digits write, 0 if there are none."""
    return call("coalesce", cast(digits, "BIGINT", attempt=True), number(0))


def _total(parts: list[tuple[exp.Expression, int]], dialect: Dialect) -> exp.Expression:
    """The sum of each part as often as said."""
    products = [binary(exp.Mul, part, integer(weight, LONG, dialect)) for part, weight in parts]
    whole = products[0]
    for product in products[1:]:
        whole = binary(exp.Add, whole, product)
    return whole
