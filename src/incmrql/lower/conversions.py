"""Conversions between scalars as SQL: `widen` cannot fail, `cast` gives null where it fails.

A regular expression checks texts before the dialect converts them, because every system accepts
some other texts as numbers or times.  For the texts that pass, all systems give the same value.
None instead of a tree means that the dialect has no conversion that agrees with the reference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from incmrql.lower.literals import double, integer, string
from incmrql.lower.operators import one_zero
from incmrql.lower.tree import (
    Dialect,
    binary,
    boolean,
    call,
    case,
    number,
    text,
    type_text,
    typed_null,
)
from incmrql.lower.tree import cast as sql_cast
from incmrql.types.lattice import widens
from incmrql.types.model import (
    BOOL,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    NOTHING,
    STRING,
    TIMESTAMP,
    Basic,
    Decimal,
    Nothing,
    Type,
    is_float,
    is_integer,
    is_numeric,
    storage_type,
)

_INTEGER: Final = "[+-]?[0-9]+"
_NUMBER: Final = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
_FLOAT: Final = rf"{_NUMBER}|[nN][aA][nN]|[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?"
_SMALL: Final = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?0*[0-9]{1,3})?"
"""A number whose exponent has at most three digits: Spark can parse it as a decimal."""
_VANISHING: Final = r"[+-]?([0.]+[eE][+-]?|[0-9.]+[eE]-)0*[0-9]{1,18}"
"""A number that is 0 if its exponent is large; an exponent of more than 18 digits is invalid."""
_ZERO: Final = r"[+-]?[0.]+[eE][+-]?[0-9]+"
"""A number that is 0 for any exponent."""
PINNED: Final[Mapping[tuple[str, str], tuple[Dialect, ...]]] = {
    ("float", "decimal"): (Dialect.SPARK, Dialect.DUCKDB),
    ("double", "decimal"): (Dialect.SPARK, Dialect.DUCKDB),
    ("float", "string"): (Dialect.SPARK,),
    ("double", "string"): (Dialect.SPARK,),
    ("string", "decimal"): (Dialect.DUCKDB,),
}
"""The casts without a native form, with the dialects that lack it; all others are native in both.

The text of a double has its shortest digits, which Java writes only since version 19; DuckDB
converts some texts with an exponent to wrong decimals.
"""
_BLANKS: Final = " \t\r\n\f\v"
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
_FLOAT_BOUND: Final = 3.4028235677973366e38
"""Halfway between the largest float and 2**128: doubles of this size and more become infinite."""


def widen(
    operand: exp.Expression, source: Type, target: Type, dialect: Dialect
) -> exp.Expression | None:
    """A value in a type that its own type widens to."""
    if source == target:
        return operand
    match source, target:
        case Basic(), Basic() if storage_type(source) == storage_type(target):
            return operand
        case _, Decimal() if not widens(source, target):
            # The join of two decimal types is cut to 38 digits: not every value fits.
            return _attempt(operand, target, dialect)
        case Decimal(), _ if target == DOUBLE:
            return _decimal_to_double(operand, dialect)
        case _, _ if is_integer(source) and target == FLOAT:
            return _integer_to_float(operand, source)
        case _:
            return sql_cast(operand, type_text(target, dialect))


def cast(
    operand: exp.Expression, source: Type, target: Type, dialect: Dialect
) -> exp.Expression | None:
    """A value in another type, or null."""
    match source:
        case _ if source == target:
            return operand
        case Nothing():
            return typed_null(target, dialect)
        case _ if target == NOTHING:
            return typed_null(target, dialect)
        case _ if target == STRING:
            return to_text(operand, source, dialect)
        case _ if source == STRING:
            return _from_text(operand, target, dialect)
        case _ if target == BOOL:
            return binary(exp.NEQ, operand, _zero(source, dialect))
        case _ if source == BOOL:
            return _attempt(sql_cast(operand, "INT"), target, dialect)
        case _ if is_numeric(source) and is_numeric(target):
            return _number(operand, source, target, dialect)
        case _:
            return sql_cast(operand, type_text(target, dialect))  # date and timestamp


def to_text(operand: exp.Expression, source: Type, dialect: Dialect) -> exp.Expression | None:
    """A scalar as `string` writes it."""
    text_type = type_text(STRING, dialect)
    match source:
        case Nothing():
            return typed_null(STRING, dialect)
        case Decimal(precision, scale):
            plain = sql_cast(operand, text_type, attempt=True)  # without an exponent in Spark
            if dialect is Dialect.SPARK or scale < precision:
                return plain
            return call("replace", plain, text("."), text("0."))  # DuckDB writes .5 for 0.5
        case _ if is_float(source):
            exact = operand if source == DOUBLE else sql_cast(operand, "DOUBLE")
            return None if dialect is Dialect.SPARK else _float_to_text(exact)
        case _ if source == STRING:
            return operand
        case _ if source == TIMESTAMP:
            local = operand if dialect is Dialect.SPARK else sql_cast(operand, "TIMESTAMP")
            day_and_time = call("replace", sql_cast(local, text_type), text(" "), text("T"))
            return binary(exp.DPipe, day_and_time, text("Z"))
        case _:
            return sql_cast(operand, text_type)


def _attempt(operand: exp.Expression, target: Type, dialect: Dialect) -> exp.Expression:
    return sql_cast(operand, type_text(target, dialect), attempt=True)


def _zero(type_: Type, dialect: Dialect) -> exp.Expression:
    if isinstance(type_, Decimal):
        return sql_cast(number(0), type_text(type_, dialect))
    return double(0.0, dialect) if is_float(type_) else integer(0, type_, dialect)


def _number(
    operand: exp.Expression, source: Type, target: Type, dialect: Dialect
) -> exp.Expression | None:
    """A number in another numeric type: integers truncate, decimals round halves up."""
    if is_float(target):
        return _to_float(operand, source, target, dialect)
    if is_float(source):
        exact = operand if source == DOUBLE else sql_cast(operand, "DOUBLE")
        return _from_double(exact, target, dialect)
    if isinstance(source, Decimal) and is_integer(target) and dialect is Dialect.DUCKDB:
        return _attempt(call("trunc", operand), target, dialect)
    return _attempt(operand, target, dialect)


def _to_float(
    operand: exp.Expression, source: Type, target: Type, dialect: Dialect
) -> exp.Expression:
    """A number as a double, or as the float nearest to that double."""
    if is_integer(source):
        if target == FLOAT:
            return _integer_to_float(operand, source)
        return sql_cast(operand, "DOUBLE")
    exact = operand
    if isinstance(source, Decimal):
        exact = _decimal_to_double(operand, dialect)
    elif source == FLOAT:
        return sql_cast(operand, "DOUBLE")
    return _double_to_float(exact, dialect) if target == FLOAT else exact


def _integer_to_float(operand: exp.Expression, source: Type) -> exp.Expression:
    """An integer as a float; a long is rounded to a double first, as in the reference."""
    exact = sql_cast(operand, "DOUBLE") if source == LONG else operand
    return sql_cast(exact, "FLOAT")


def _decimal_to_double(operand: exp.Expression, dialect: Dialect) -> exp.Expression:
    """The nearest double; DuckDB rounds correctly only when it converts from text."""
    exact = operand if dialect is Dialect.SPARK else sql_cast(operand, "VARCHAR")
    return sql_cast(exact, "DOUBLE")


def _double_to_float(operand: exp.Expression, dialect: Dialect) -> exp.Expression:
    """The nearest float, infinite beyond the largest; never -0.0."""
    zero = sql_cast(number(0), "FLOAT")
    if dialect is Dialect.SPARK:
        return binary(exp.Add, sql_cast(operand, "FLOAT"), zero)
    bound = double(_FLOAT_BOUND, dialect)
    least = double(-_FLOAT_BOUND, dialect)
    infinite, minus = (sql_cast(text(name), "FLOAT") for name in ("Infinity", "-Infinity"))
    nan = call("isnan", operand.copy())
    finite = sql_cast(operand, "FLOAT", attempt=True)
    return case(
        [
            (nan, sql_cast(text("NaN"), "FLOAT")),
            (binary(exp.GTE, operand.copy(), bound), infinite),
            (binary(exp.LTE, operand.copy(), least), minus),
        ],
        binary(exp.Add, finite, zero),
    )


def _from_double(operand: exp.Expression, target: Type, dialect: Dialect) -> exp.Expression | None:
    """A double as an integer, truncated, or as a decimal by its shortest digits."""
    if isinstance(target, Decimal):
        return None
    if dialect is Dialect.DUCKDB:
        return _attempt(call("trunc", operand), target, dialect)
    whole = _attempt(operand, target, dialect)
    if target != LONG:
        return whole
    # Spark converts 2**63 to the largest long instead of null.
    fits = binary(exp.LT, operand.copy(), double(2.0**63, dialect))
    return case([(fits, whole)], None)


def _from_text(operand: exp.Expression, target: Type, dialect: Dialect) -> exp.Expression | None:
    match target:
        case Decimal():
            return _decimal_of(operand, target, dialect)
        case _ if target == BOOL:
            return _bool_of(operand, dialect)
        case _ if is_integer(target):
            number_ = _attempt(operand, target, dialect)
            return case([(_matches(operand.copy(), _INTEGER, dialect), number_)], None)
        case _ if is_float(target):
            number_ = sql_cast(operand, "DOUBLE", attempt=True)
            parsed = case([(_matches(operand.copy(), _FLOAT, dialect), number_)], None)
            if target == FLOAT:
                return _double_to_float(parsed, dialect)
            return one_zero(parsed, dialect)
        case _ if target == DATE:
            return _date_of(operand, dialect)
        case _ if target == TIMESTAMP:
            return _timestamp_of(operand, dialect)
        case _:
            return None


def _bool_of(operand: exp.Expression, dialect: Dialect) -> exp.Expression:
    inner = call("lower", _strip_blanks(operand, dialect))
    branches = [("true", True), ("1", True), ("false", False), ("0", False)]
    return case(
        [(binary(exp.EQ, inner.copy(), text(w)), boolean(value)) for w, value in branches], None
    )


def _decimal_of(
    operand: exp.Expression, target: Decimal, dialect: Dialect
) -> exp.Expression | None:
    """A decimal from its text; with an exponent of more than three digits it is 0 or too large."""
    if dialect is Dialect.DUCKDB:
        return None
    parsed = _attempt(operand, target, dialect)
    small = _matches(operand.copy(), _SMALL, dialect)
    number_ = _matches(operand.copy(), _NUMBER, dialect)
    vanishing = _matches(operand.copy(), _VANISHING, dialect)
    zero = sql_cast(number(0), type_text(target, dialect))
    # Before 4.3 Spark considers 0 with an exponent of some hundreds too large for a decimal.
    is_zero = _matches(operand.copy(), _ZERO, dialect)
    parsed = call("coalesce", parsed, case([(is_zero, zero.copy())], None))
    return case([(small, parsed), (binary(exp.And, number_, vanishing), zero)], None)


def _float_to_text(operand: exp.Expression) -> exp.Expression:
    """DuckDB's shortest digits, with the exponent written as `show_float` does."""
    dialect = Dialect.DUCKDB
    shortest = sql_cast(operand.copy(), "VARCHAR")
    size = call("abs", operand)
    with_point = call("regexp_replace", shortest.copy(), text("^(-?[0-9])e"), text(r"\1.0e"))
    power = call("regexp_replace", with_point, text("e[+]?(-?)0*"), text(r"E\1"))
    tenths = call("regexp_replace", shortest.copy(), text(r"0\.000(.)(.*)"), text(r"\1.\2E-4"))
    branches = [
        (call("isnan", operand.copy()), text("NaN")),
        (_equals(operand, math.inf), text("Infinity")),
        (_equals(operand, -math.inf), text("-Infinity")),
        (_equals(operand, 0.0), text("0.0")),
        (binary(exp.GTE, size, double(1e16, dialect)), power),
        (binary(exp.GTE, size.copy(), double(1e-3, dialect)), shortest),
        (
            binary(exp.GTE, size.copy(), double(1e-4, dialect)),
            call("replace", tenths, text(".E"), text(".0E")),
        ),
    ]
    return case(branches, power.copy())


def _equals(operand: exp.Expression, value: float) -> exp.Expression:
    return binary(exp.EQ, operand.copy(), double(value, Dialect.DUCKDB))


# --- texts as dates and times -------------------------------------------------------------


def _matches(operand: exp.Expression, pattern: str, dialect: Dialect) -> exp.Expression:
    """Whether a text matches a pattern, apart from blanks around it."""
    whole = f"{_BLANK}({pattern}){_BLANK}"
    if dialect is Dialect.SPARK:
        return call("regexp_like", operand, string(rf"\A{whole}\z", dialect))
    return call("regexp_full_match", operand, string(whole, dialect))


def _strip_blanks(operand: exp.Expression, dialect: Dialect) -> exp.Expression:
    """A text without the blanks around it."""
    name = "btrim" if dialect is Dialect.SPARK else "trim"
    return call(name, operand, string(_BLANKS, dialect))


def _date_of(operand: exp.Expression, dialect: Dialect) -> exp.Expression:
    """`YYYY-MM-DD` as a date, or null."""
    date = sql_cast(operand, "DATE", attempt=True)
    return case([(_matches(operand.copy(), _DAY, dialect), date)], None)


def _timestamp_of(operand: exp.Expression, dialect: Dialect) -> exp.Expression:
    """`YYYY-MM-DDThh:mm:ss.ffffff+hh:mm`, whose end may be missing, as a timestamp, or null."""
    # The dialects' own parsers disagree on zones and fractions.  So extract the parts by their
    # positions and add them up as microseconds.
    inner = _strip_blanks(operand, dialect)
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
    offset = _total(
        [(_digits(zone, 2, 2), 3_600_000_000), (_integer(minutes), 60_000_000)], dialect
    )
    west = call(_STARTS[dialect], zone.copy(), text("-"))
    moment = binary(
        exp.Add,
        _total(parts, dialect),
        case([(west, offset)], exp.Neg(this=exp.paren(offset.copy()))),
    )
    micros = case([(_matches(operand.copy(), f"{_DAY}({_TIME})?", dialect), moment)], None)
    return moment_of(micros, dialect)


def moment_of(microseconds: exp.Expression, dialect: Dialect) -> exp.Expression:
    """The timestamp of a number of microseconds since 1970; null outside the years 1 to 9999."""
    low, high = (integer(bound, LONG, dialect) for bound in (_FIRST, _LAST))
    in_range = exp.Between(this=exp.paren(microseconds.copy()), low=low, high=high)
    if dialect is Dialect.SPARK:
        return case([(in_range, call("timestamp_micros", microseconds))], None)
    moment = sql_cast(call("make_timestamp", microseconds), type_text(TIMESTAMP, dialect))
    return case([(in_range, moment)], None)


_STARTS: Final = {Dialect.SPARK: "startswith", Dialect.DUCKDB: "starts_with"}


def _days(inner: exp.Expression, dialect: Dialect) -> exp.Expression:
    """The days since 1970 of the date that a text begins with."""
    day = sql_cast(call("substr", inner.copy(), number(1), number(10)), "DATE", attempt=True)
    if dialect is Dialect.SPARK:
        return call("unix_date", day)
    return binary(exp.Sub, day, sql_cast(text("1970-01-01"), "DATE"))


def _digits(source: exp.Expression, first: int, count: int) -> exp.Expression:
    return _integer(call("substr", source.copy(), number(first), number(count)))


def _integer(digits: exp.Expression) -> exp.Expression:
    """The number that some digits denote; 0 if there are none."""
    return call("coalesce", sql_cast(digits, "BIGINT", attempt=True), number(0))


def _total(parts: list[tuple[exp.Expression, int]], dialect: Dialect) -> exp.Expression:
    """The sum of all parts, each times its weight."""
    products = [binary(exp.Mul, part, integer(weight, LONG, dialect)) for part, weight in parts]
    whole = products[0]
    for product in products[1:]:
        whole = binary(exp.Add, whole, product)
    return whole
