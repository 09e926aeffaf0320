"""Native SQL for the built-in functions of scalars, by the keys of `types.builtins`.

A null argument gives null.  If a built-in is not in the table, or its entry returns None, then no
SQL of the dialect agrees with the reference to the last bit, and every engine calls
`engine.columns.pinned` instead.  This is the case for

* exp, log, pow and the trigonometric functions: every library rounds them differently (operations
  that IEEE 754 defines are native);
* rounding a double to decimals: no engine rounds the exact value of the double;
* the text of a double in Spark: Java writes the shortest digits only since version 19;
* regular expressions: their meaning is that of RE2 in Arrow;
* lower and upper case: the Unicode tables are those of Python.

Positions in strings count code points, as in both dialects.  Timestamps and the session's time zone
are in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp

from incmrql.lower import conversions
from incmrql.lower.literals import double, integer, string
from incmrql.lower.operators import arithmetic, attempt, compare, one_zero
from incmrql.lower.tree import (
    Dialect,
    binary,
    call,
    case,
    cast,
    column,
    is_null,
    lambda_,
    null,
    number,
    text,
    type_text,
)
from incmrql.types.builtins import key_of
from incmrql.types.model import DATE, LONG, TIMESTAMP, Decimal, Type, is_scalar

_WHOLE: Final = 2.0**52
"""All doubles of at least this size are whole numbers."""
_BLANKS: Final = "".join(map(chr, range(0x21)))
_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
_DAY: Final = 86_400_000_000
_DAYS: Final = ("year", "quarter", "month", "week", "day")
_TIMES: Final = ("hour", "minute", "second")


@dataclass(frozen=True, slots=True)
class BuiltinCall:
    """The arguments of a call, their types, the type of the result, and the dialect."""

    arguments: tuple[exp.Expression, ...]
    types: tuple[Type, ...]
    result: Type
    dialect: Dialect

    @property
    def spark(self) -> bool:
        """Whether the dialect is Spark's."""
        return self.dialect is Dialect.SPARK


Lowering: TypeAlias = Callable[[BuiltinCall], exp.Expression | None]
"""The SQL of a call, or None if the dialect has none that agrees with the reference."""


def builtin(
    function: str,
    arguments: Sequence[exp.Expression],
    parameter_types: Sequence[Type],
    result_type: Type,
    dialect: Dialect,
) -> exp.Expression | None:
    """The call of a built-in function of scalars."""
    types = tuple(parameter_types)
    lowering = NATIVE.get(key_of(function, types))
    return lowering and lowering(BuiltinCall(tuple(arguments), types, result_type, dialect))


def _function(spark: str, duckdb: str = "") -> Lowering:
    """A function that both dialects have, under the same name or different names."""
    return lambda this: call(spark if this.spark else duckdb or spark, *this.arguments)


def _cast_to(target: Type) -> Lowering:
    """A cast to a type."""
    return lambda this: conversions.cast(this.arguments[0], this.types[0], target, this.dialect)


# --- numbers ------------------------------------------------------------------------------


def _absolute_integer(this: BuiltinCall) -> exp.Expression:
    x = this.arguments[0]
    if not this.spark:
        return attempt(call("abs", x))
    zero = integer(0, this.result, this.dialect)
    negative = binary(exp.LT, x.copy(), zero)
    return case([(negative, call("try_subtract", zero.copy(), x.copy()))], x)


def _whole(name: str) -> Lowering:
    """`ceil` or `floor`, which are longs in Spark."""

    def lower(this: BuiltinCall) -> exp.Expression:
        x = this.arguments[0]
        if not this.spark:
            return one_zero(call(name, x), this.dialect)
        return case([(_small(x, this.dialect), cast(call(name, x.copy()), "DOUBLE"))], x)

    return lower


def _rint(this: BuiltinCall) -> exp.Expression:
    x = this.arguments[0]
    if this.spark:
        return one_zero(call("rint", x), this.dialect)
    rounded = one_zero(call("round_even", x.copy(), number(0)), this.dialect)
    return case([(_small(x, this.dialect), rounded)], x)


def _small(x: exp.Expression, dialect: Dialect) -> exp.Expression:
    """Whether a double can have digits after its point."""
    return binary(exp.LT, call("abs", x.copy()), double(_WHOLE, dialect))


def _round_double(this: BuiltinCall) -> exp.Expression:
    """floor(x + 1/2) as a long: the sum itself would be rounded."""
    x, dialect = this.arguments[0], this.dialect
    below = call("floor", x.copy())
    whole = below if this.spark else cast(below, "BIGINT")
    up = binary(exp.GTE, binary(exp.Sub, x.copy(), below.copy()), double(0.5, dialect))
    nearest = binary(
        exp.Add, whole, case([(up, integer(1, LONG, dialect))], integer(0, LONG, dialect))
    )
    fits = exp.Between(
        this=x.copy(), low=double(-(2.0**63), dialect), high=double(2.0**63 - 1024, dialect)
    )
    return case([(_small(x, dialect), nearest), (fits, cast(x, "BIGINT", attempt=True))], None)


def _round_decimal(this: BuiltinCall) -> exp.Expression:
    """floor(x + 1/2) as a long: from the whole part and the rest, which are exact."""
    x, one = this.arguments[0], integer(1, LONG, this.dialect)
    half, minus = (cast(text(t), "DECIMAL(2, 1)") for t in ("0.5", "-0.5"))
    if this.spark:
        whole = cast(x, "BIGINT", attempt=True)
        rest = call("try_mod", x.copy(), cast(number(1), "DECIMAL(1, 0)"))
    else:
        whole = cast(call("trunc", x), "BIGINT", attempt=True)
        rest = binary(exp.Sub, x.copy(), call("trunc", x.copy()))
    more, less = (_long_arithmetic(op, whole.copy(), one.copy(), this.dialect) for op in "+-")
    branches = [(binary(exp.GTE, rest, half), more), (binary(exp.LT, rest.copy(), minus), less)]
    return case(branches, whole)


def _long_arithmetic(
    op: str, left: exp.Expression, right: exp.Expression, dialect: Dialect
) -> exp.Expression:
    """The sum, difference or product of longs; null on overflow."""
    result = arithmetic(op, LONG, left, right, dialect)
    assert result is not None
    return result


def _round_to(this: BuiltinCall) -> exp.Expression | None:
    """A decimal rounded to a number of digits, halves away from zero.

    Both dialects require the number of digits to be a constant; otherwise there is no native form.
    """
    x, type_, digits = this.arguments[0], this.types[0], _constant(this.arguments[1])
    assert isinstance(type_, Decimal)
    if digits is None:
        return None
    if digits >= type_.scale:
        return x
    target = type_text(type_, this.dialect)
    if digits < type_.scale - type_.precision:
        return case([(is_null(x), null())], cast(number(0), target))
    return cast(call("round", x, number(digits)), target, attempt=True)


def _constant(tree: exp.Expression) -> int | None:
    """The integer that a tree denotes, or None if it is not a constant."""
    match tree:
        case exp.Cast() | exp.Paren():
            return _constant(tree.this)
        case exp.Neg():
            opposite = _constant(tree.this)
            return None if opposite is None else -opposite
        case exp.Literal() if not tree.is_string:
            return int(str(tree.this).rstrip("LSY"))
        case _:
            return None


def _choice(first: str, second: str) -> Lowering:
    """The left argument if `first` holds, the right one if `second` holds, otherwise null."""

    def lower(this: BuiltinCall) -> exp.Expression | None:
        type_, (left, right) = this.types[0], this.arguments
        if not is_scalar(type_):
            return None
        branches = [
            (compare(op, left.copy(), right.copy()), value)
            for op, value in ((first, left), (second, right))
        ]
        return case(branches, None)

    return lower


# --- strings ------------------------------------------------------------------------------


def _string(this: BuiltinCall) -> exp.Expression | None:
    source = this.types[0]
    if not is_scalar(source):
        return None
    return conversions.to_text(this.arguments[0], source, this.dialect)


def _length(this: BuiltinCall) -> exp.Expression:
    return _length_of(this.arguments[0], this.dialect)


def _length_of(x: exp.Expression, dialect: Dialect) -> exp.Expression:
    if dialect is Dialect.SPARK:
        return call("char_length", x)
    return cast(call("length", x), "INTEGER")


def _substring(this: BuiltinCall) -> exp.Expression:
    """From `begin` to before `end`, counted from 0; null where that is outside of the text."""
    whole, begin, *rest = this.arguments
    size = _length_of(whole.copy(), this.dialect)
    end = rest[0] if rest else cast(size.copy(), "BIGINT")
    test = binary(
        exp.And,
        binary(exp.LTE, integer(0, LONG, this.dialect), begin.copy()),
        binary(exp.LTE, begin.copy(), end.copy()),
    )
    bounds = [_long_arithmetic("+", begin, integer(1, LONG, this.dialect), this.dialect)]
    if rest:
        test = binary(exp.And, test, binary(exp.LTE, end.copy(), size))
        bounds.append(_long_arithmetic("-", end, begin.copy(), this.dialect))
    if this.spark:
        bounds = [cast(bound, "INT", attempt=True) for bound in bounds]
    return case([(test, call("substring", whole, *bounds))], None)


def _replace(this: BuiltinCall) -> exp.Expression:
    """All occurrences; the empty text occurs before every character and at the end."""
    whole, old, new = this.arguments
    plain = call("replace", whole, old, new)
    if isinstance(old, exp.Literal) and old.this:
        return plain
    empty = binary(exp.EQ, old.copy(), text(""))
    interleaved = _interleave(whole.copy(), new.copy(), this.dialect)
    between = case([(binary(exp.EQ, whole.copy(), text("")), new.copy())], interleaved)
    return case([(empty, between)], plain)


def _interleave(whole: exp.Expression, new: exp.Expression, dialect: Dialect) -> exp.Expression:
    """A text that is not empty, with `new` before each of its characters and at the end."""
    if dialect is Dialect.SPARK:
        inner = call("array_join", call("split", whole, text("")), new)
        return binary(exp.DPipe, binary(exp.DPipe, new.copy(), inner), new.copy())
    characters = call("regexp_extract_all", whole, text("(?s)."))
    append_new = lambda_(["c0"], binary(exp.DPipe, column("c0"), new))
    inner = call("array_to_string", call("list_transform", characters, append_new), text(""))
    return binary(exp.DPipe, new.copy(), inner)


def _trim(this: BuiltinCall) -> exp.Expression:
    name = "btrim" if this.spark else "trim"
    return call(name, this.arguments[0], string(_BLANKS, this.dialect))


def _concat(this: BuiltinCall) -> exp.Expression:
    whole = this.arguments[0]
    for part in this.arguments[1:]:
        whole = binary(exp.DPipe, whole, part)
    return whole


# --- dates and times ------------------------------------------------------------------------


def _make_date(this: BuiltinCall) -> exp.Expression:
    year, month, day = this.arguments
    bounds = ((year, 9999), (month, 12), (day, 31))
    in_range = [exp.Between(this=part.copy(), low=number(1), high=number(n)) for part, n in bounds]
    test = binary(exp.And, binary(exp.And, in_range[0], in_range[1]), in_range[2])
    if not this.spark:
        return case([(test, attempt(call("make_date", year, month, day)))], None)
    iso_date = _pad_zeros(year, 4)
    for part in (month, day):
        iso_date = binary(exp.DPipe, binary(exp.DPipe, iso_date, text("-")), _pad_zeros(part, 2))
    return case([(test, cast(iso_date, "DATE", attempt=True))], None)


def _pad_zeros(part: exp.Expression, width: int) -> exp.Expression:
    return call("lpad", cast(part, "STRING"), number(width), text("0"))


def _part(name: str) -> Lowering:
    """`year`, `hour`, ... of a moment."""

    def lower(this: BuiltinCall) -> exp.Expression:
        part = call(name, this.arguments[0])
        return part if this.spark else cast(part, "INTEGER")

    return lower


def _add_to_timestamp(this: BuiltinCall) -> exp.Expression:
    """So many days later; null outside the years 1 to 9999."""
    start, days = this.arguments
    length = _long_arithmetic("*", days, integer(_DAY, LONG, this.dialect), this.dialect)
    start = call("unix_micros" if this.spark else "epoch_us", start)
    return conversions.moment_of(_long_arithmetic("+", start, length, this.dialect), this.dialect)


def _add_to_date(this: BuiltinCall) -> exp.Expression:
    """So many days later; null outside the years 1 to 9999."""
    start, days = this.arguments
    since = call("unix_date", start) if this.spark else binary(exp.Sub, start, _epoch())
    later = _long_arithmetic("+", cast(since, "BIGINT"), days, this.dialect)
    in_range = exp.Between(this=later.copy(), low=number(_FIRST_DAY), high=number(_LAST_DAY))
    later_date: exp.Expression
    if this.spark:
        later_date = call("date_from_unix_date", cast(later, "INT", attempt=True))
    else:
        later_date = binary(exp.Add, _epoch(), cast(later, "INTEGER", attempt=True))
    return case([(in_range, later_date)], None)


def _epoch() -> exp.Expression:
    return cast(text("1970-01-01"), "DATE")


def _days_between(this: BuiltinCall) -> exp.Expression:
    end, start = (
        cast(moment, "DATE") if type_ == TIMESTAMP else moment
        for moment, type_ in zip(this.arguments, this.types, strict=True)
    )
    if this.spark:
        return call("datediff", end, start)
    return cast(binary(exp.Sub, end, start), "INTEGER")


def _truncate(this: BuiltinCall) -> exp.Expression:
    unit, moment = this.arguments
    is_time = this.types[1] == TIMESTAMP
    if isinstance(unit, exp.Literal):
        unit_name = str(unit.this).lower()
        if unit_name in (*_DAYS, *_TIMES):
            return _first(unit_name, moment, is_time, this.dialect)
    lower_unit = call("lower", unit)
    branches = [
        (
            binary(exp.EQ, lower_unit.copy(), text(name)),
            _first(name, moment.copy(), is_time, this.dialect),
        )
        for name in (*_DAYS, *_TIMES)
    ]
    return case(branches, None)


def _first(unit: str, moment: exp.Expression, is_time: bool, dialect: Dialect) -> exp.Expression:
    """The first moment of the unit in which a moment lies; a date has no smaller ones than days."""
    if not is_time and unit in ("day", *_TIMES):
        return moment
    if dialect is Dialect.SPARK:
        if is_time:
            return call("date_trunc", text(unit), moment)
        return call("trunc", moment, text(unit))
    return cast(
        call("date_trunc", text(unit), moment), type_text(TIMESTAMP if is_time else DATE, dialect)
    )


# --- the table ----------------------------------------------------------------------------

NATIVE: Final[Mapping[str, Lowering]] = {
    "abs(int)": _absolute_integer,
    "abs(long)": _absolute_integer,
    "abs(decimal)": _function("abs"),
    "abs(double)": _function("abs"),
    "sqrt(double)": _function("sqrt"),
    "ceil(double)": _whole("ceil"),
    "floor(double)": _whole("floor"),
    "rint(double)": _rint,
    "round(long)": lambda this: this.arguments[0],
    "round(decimal)": _round_decimal,
    "round(double)": _round_double,
    "round(decimal, long)": _round_to,
    "min(T, T)": _choice("<=", ">"),
    "max(T, T)": _choice(">=", "<"),
    "inv(T)": lambda this: this.arguments[0],
    "string(T)": _string,
    "contains(string, string)": _function("contains"),
    "startsWith(string, string)": _function("startswith", "starts_with"),
    "endsWith(string, string)": _function("endswith", "ends_with"),
    "length(string)": _length,
    "substring(string, long)": _substring,
    "substring(string, long, long)": _substring,
    "replace(string, string, string)": _replace,
    "trim(string)": _trim,
    **{f"concat({', '.join(['string'] * n)})": _concat for n in range(2, 9)},
    "date(string)": _cast_to(DATE),
    "date(timestamp)": _cast_to(DATE),
    "date(int, int, int)": _make_date,
    "timestamp(string)": _cast_to(TIMESTAMP),
    "timestamp(date)": _cast_to(TIMESTAMP),
    **{f"{name}(date)": _part(name) for name in ("year", "month", "day")},
    **{f"{name}(timestamp)": _part(name) for name in ("year", "month", "day", *_TIMES)},
    "date_add(date, long)": _add_to_date,
    "date_add(timestamp, long)": _add_to_timestamp,
    "date_diff(date, date)": _days_between,
    "date_diff(timestamp, timestamp)": _days_between,
    "date_trunc(string, date)": _truncate,
    "date_trunc(string, timestamp)": _truncate,
}
"""The SQL of built-ins; those on collections are in `lower.expressions.collections`."""
