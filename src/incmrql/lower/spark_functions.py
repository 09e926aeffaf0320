"""DuckDB's SQL for functions of Spark, by the keys of `types.builtins`.

A null argument gives null, unless a function chooses among its arguments.  Where there is no entry,
or none for these arguments, the reference runs for every distinct row of arguments.  Spark itself
never gets such calls: it runs its own plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlglot import exp

from incmrql.lower.builtins import BuiltinCall, Lowering
from incmrql.lower.literals import double, integer
from incmrql.lower.tree import (
    Dialect,
    binary,
    call,
    case,
    cast,
    number,
    text,
    type_text,
    typed_null,
)
from incmrql.reference.spark.strings import like_pattern
from incmrql.types.builtins import key_of
from incmrql.types.model import LONG, Decimal, Type, is_scalar

_FIRST_DAY: Final = "0001-01-01"
_LAST_DAY: Final = "9999-12-31"
_MOST_MONTHS: Final = 120_000
"""More months than there are in the years 1 to 9999."""


def builtin(
    function: str,
    arguments: Sequence[exp.Expression],
    parameter_types: Sequence[Type],
    result_type: Type,
    dialect: Dialect,
) -> exp.Expression | None:
    """The call of a function of Spark."""
    types = tuple(parameter_types)
    lowering = NATIVE.get(key_of(function, types))
    if lowering is None or dialect is Dialect.SPARK:
        return None
    return lowering(BuiltinCall(tuple(arguments), types, result_type, dialect))


def _choice(name: str) -> Lowering:
    """A function of DuckDB that skips nulls."""

    def lower(this: BuiltinCall) -> exp.Expression | None:
        return call(name, *this.arguments) if is_scalar(this.types[0]) else None

    return lower


def _coalesce(this: BuiltinCall) -> exp.Expression:
    return call("coalesce", *this.arguments)


def _fail(this: BuiltinCall) -> exp.Expression:
    return typed_null(this.result, this.dialect)


# --- Numbers ---


def _round(this: BuiltinCall) -> exp.Expression | None:
    """A decimal, with a constant number of digits; the result has the type that Spark gave it."""
    digits = _constant(this.arguments[1])
    source, target = this.types[0], this.result
    if digits is None or not isinstance(source, Decimal) or not isinstance(target, Decimal):
        return None
    type_ = type_text(target, this.dialect)
    if digits >= source.scale:
        return cast(this.arguments[0], type_, attempt=True)
    if digits < 0:
        return None
    return cast(call("round", this.arguments[0], number(digits)), type_, attempt=True)


def _constant(tree: exp.Expression) -> int | None:
    """The integer that a literal is."""
    is_number = isinstance(tree, exp.Literal) and not tree.is_string
    return int(str(tree.this)) if is_number else None


def _whole(name: str) -> Lowering:
    """`ceil` or `floor` of a double as a long, which is limited to the range of longs."""

    def lower(this: BuiltinCall) -> exp.Expression:
        x, dialect = this.arguments[0], this.dialect
        longs = (-(2.0**63), 2.0**63)
        return case(
            [
                (call("isnan", x.copy()), integer(0, LONG, dialect)),
                (
                    binary(exp.GTE, x.copy(), double(longs[1], dialect)),
                    integer(2**63 - 1, LONG, dialect),
                ),
                (
                    binary(exp.LTE, x.copy(), double(longs[0], dialect)),
                    cast(text(str(-(2**63))), "BIGINT"),
                ),
            ],
            cast(call(name, x), "BIGINT", attempt=True),
        )

    return lower


def _bits(kind: type[exp.Binary]) -> Lowering:
    return lambda this: binary(kind, *this.arguments)


def _shift_right(most: int) -> Lowering:
    """By a constant number of bits."""

    def lower(this: BuiltinCall) -> exp.Expression | None:
        count = _constant(this.arguments[1])
        if count is None or not 0 <= count <= most:
            return None
        return binary(exp.BitwiseRightShift, this.arguments[0], number(count))

    return lower


# --- Strings ---


def _like(this: BuiltinCall) -> exp.Expression | None:
    """A constant pattern; without escapes it is one that DuckDB takes apart."""
    subject, pattern, escape = this.arguments
    if not (isinstance(pattern, exp.Literal) and isinstance(escape, exp.Literal)):
        return None
    if like_pattern(str(pattern.this), str(escape.this)) is None:
        return None
    if str(escape.this) not in str(pattern.this):
        return binary(exp.Like, subject, pattern)
    return call("like_escape", subject, pattern, escape)


def _substring(this: BuiltinCall) -> exp.Expression | None:
    """From a constant position, counted from the start."""
    subject, position, length = this.arguments
    start, count = _constant(position), _constant(length)
    if start is None or count is None or start < 0 or count < 0:
        return None
    return call("substring", subject, number(max(start, 1)), number(count))


def _trim(name: str) -> Lowering:
    return lambda this: call(name, *this.arguments)


# --- Bytes ---


def _hex(this: BuiltinCall) -> exp.Expression:
    return call("hex", this.arguments[0])


# --- Dates ---


def _add_months(this: BuiltinCall) -> exp.Expression:
    day, months = this.arguments
    in_range = exp.Between(this=months.copy(), low=number(-_MOST_MONTHS), high=number(_MOST_MONTHS))
    later = cast(binary(exp.Add, day, call("to_months", months)), "DATE")
    first, last = (cast(text(day_), "DATE") for day_ in (_FIRST_DAY, _LAST_DAY))
    is_valid = exp.Between(this=later.copy(), low=first, high=last)
    return case([(in_range, case([(is_valid, later)], None))], None)


def _part(name: str, offset: int = 0) -> Lowering:
    """A number of a date, shifted to where Spark starts to count."""

    def lower(this: BuiltinCall) -> exp.Expression:
        part = cast(call(name, this.arguments[0]), "INTEGER")
        return binary(exp.Add, part, number(offset)) if offset else part

    return lower


# --- Collections ---


def _size(this: BuiltinCall) -> exp.Expression:
    return cast(call("len", this.arguments[0]), "INTEGER")


NATIVE: Final[Mapping[str, Lowering]] = {
    "spark.coalesce(T, T)": _coalesce,
    "spark.greatest(T, T)": _choice("greatest"),
    "spark.least(T, T)": _choice("least"),
    "spark.fail(string)": _fail,
    "spark.round(decimal, int)": _round,
    "spark.ceil(double)": _whole("ceil"),
    "spark.floor(double)": _whole("floor"),
    "spark.bitand(long, long)": _bits(exp.BitwiseAnd),
    "spark.bitor(long, long)": _bits(exp.BitwiseOr),
    "spark.shiftright(int, int)": _shift_right(31),
    "spark.shiftright(long, int)": _shift_right(63),
    "spark.like(string, string, string)": _like,
    "spark.substring(string, int, int)": _substring,
    "spark.trim(string, string)": _trim("trim"),
    "spark.ltrim(string, string)": _trim("ltrim"),
    "spark.rtrim(string, string)": _trim("rtrim"),
    "spark.utf8(string)": lambda this: call("encode", this.arguments[0]),
    "spark.concat(binary, binary)": lambda this: binary(exp.DPipe, *this.arguments),
    "spark.octet_length(binary)": lambda this: cast(
        call("octet_length", this.arguments[0]), "INTEGER"
    ),
    "spark.hex(binary)": _hex,
    "spark.md5(binary)": lambda this: call("md5", this.arguments[0]),
    "spark.add_months(date, int)": _add_months,
    "spark.quarter(date)": _part("quarter"),
    "spark.dayofweek(date)": _part("dayofweek", 1),
    "spark.weekday(date)": _part("isodow", -1),
    "spark.dayofyear(date)": _part("dayofyear"),
    "spark.weekofyear(date)": _part("week"),
    "spark.last_day(date)": lambda this: call("last_day", this.arguments[0]),
    "spark.size({T})": _size,
}
"""The SQL of functions of Spark."""
