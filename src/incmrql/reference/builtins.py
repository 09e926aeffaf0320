"""The meaning of the built-in functions, and calls of them.

A null argument gives null, except where a function is about collections (then null is the
empty one).  A result that the type of the call cannot hold is null too.

Numbers are as IEEE 754 and C define them, with infinities and NaN instead of errors; exp, log, pow
and the trigonometric functions are those of `values.elementary`, whose bits do not depend on the
machine.  Positions in strings count code points.  Regular expressions are those of RE2, run by
Arrow, as on every engine.  Timestamps are in UTC.  Bags go in canonical order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from incmrql.reference.aggregates import aggregate
from incmrql.reference.casts import cast
from incmrql.reference.environment import World, place
from incmrql.reference.navigate import tag_of, text_of
from incmrql.reference.operators import (
    collection,
    compare,
    distinct,
    elements,
    fit_to_type,
    integers_between,
    ordered_elements,
)
from incmrql.types import typed
from incmrql.types.builtins import key_of
from incmrql.types.model import ANY, DATE, STRING, TIMESTAMP, Collection, Type
from incmrql.values import Bag, Value, show, sort_values
from incmrql.values.elementary.functions import NAMES, elementary_scalar
from incmrql.values.exact import nearest_double

_MOST_DECIMALS: Final = 1_100
"""No double has more decimals, or as many digits before its point."""
_DECIMAL_CONTEXT: Final = Context(prec=400)
_BLANKS: Final = "".join(map(chr, range(0x21)))
_GROUP_OR_ESCAPE: Final = re.compile(r"\$([0-9])|\\(.)", re.DOTALL)
_TRAILING_BACKSLASH: Final = re.compile(r"(?:[^\\]|\\.)*\\", re.DOTALL)
_REGEX_ERRORS: Final = (pa.ArrowInvalid, UnicodeEncodeError)


def call_builtin(call: typed.Builtin, arguments: list[Value], world: World) -> Value:
    """The result of a built-in function for these arguments."""
    key = key_of(call.function, tuple([argument.type for argument in call.arguments]))
    if key == "range(long, long)":
        return _range(arguments[0], arguments[1], place(call.span))
    function, is_null_aware = _random(world) if key == "random(long)" else function_of(key)
    if is_null_aware:
        return _to_collection_kind(function(*arguments), call.type)
    if None in arguments:
        return None
    result = function(*arguments)
    result = None if result is None else fit_to_type(result, call.type)
    if result is None and call.mode in ("total", "ansi"):
        values = ", ".join([show(argument, 10) for argument in arguments])
        world.fail(call.span, f"{call.function}({values}) has no result")
    return result


def _random(world: World) -> tuple[Callable[..., Any], bool]:
    """`random`, which is no function of its arguments alone; as `function_of` gives others."""
    return (lambda limit: world.random.randrange(limit) if limit > 0 else None), False


def function_of(key: str) -> tuple[Callable[..., Any], bool]:
    """The meaning of a built-in, and whether it is called with null arguments too."""
    strict, null_aware = STRICT, NULL_AWARE
    if key.startswith("spark."):  # loaded by the first query that calls one: workers do without
        from incmrql.reference.spark.builtins import SPARK_NULL_AWARE, SPARK_STRICT

        strict, null_aware = SPARK_STRICT, SPARK_NULL_AWARE
    return (null_aware[key], True) if key in null_aware else (strict[key], False)


def _to_collection_kind(result: Value, type_: Type) -> Value:
    """A collection as a bag or list, as the type says; other values unchanged."""
    is_collection = isinstance(type_, Collection) and isinstance(result, list)
    return collection(type_, result) if is_collection else result


# --- numbers ------------------------------------------------------------------------------


def _absolute(x: Value) -> Value:
    return x.copy_abs() if isinstance(x, Decimal) else abs(x)


def _root(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    """A function to integers as a function to doubles; infinities and NaN are unchanged."""
    return lambda x: float(function(x)) if math.isfinite(x) else x


def _nearest_integer(x: Value) -> int | None:
    """The nearest integer, halves upwards."""
    if isinstance(x, float) and not math.isfinite(x):
        return None
    return math.floor(Fraction(x) + Fraction(1, 2))


def _round_double(x: float, digits: int) -> float:
    """The exact value of `x` rounded to `digits` decimals, halves away from zero."""
    if not math.isfinite(x) or digits > _MOST_DECIMALS:
        return x
    if digits < -_MOST_DECIMALS:
        return 0.0
    unit = Fraction(10) ** -digits
    whole = math.floor(abs(Fraction(x)) / unit + Fraction(1, 2))
    rounded = whole * unit * (-1 if x < 0 else 1)
    return nearest_double(rounded.numerator, rounded.denominator)


def _round_decimal(x: Decimal, digits: int) -> Decimal:
    if digits < -_MOST_DECIMALS:
        return Decimal(0)
    unit = Decimal((0, (1,), -min(digits, 38)))
    return x.quantize(unit, rounding=ROUND_HALF_UP, context=_DECIMAL_CONTEXT)


def _lesser(a: Value, b: Value) -> Value:
    return a if compare("<=", a, b) else b


def _greater(a: Value, b: Value) -> Value:
    return a if compare(">=", a, b) else b


# --- strings: null means that there is no result --------------------------------------------


def _substring(text: str, begin: int, end: int | None = None) -> str | None:
    """From `begin` to before `end`; null where a position is outside the string."""
    last = len(text) if end is None else end
    return text[begin:last] if 0 <= begin <= last <= len(text) else None


def _matches(text: str, pattern: str) -> bool | None:
    r"""Whether the whole text matches; null for an expression that RE2 refuses."""
    # Try the pattern alone first: `a)(b` is invalid, but `(?:a)(b)` is not.
    if _search(text, pattern) is None:
        return None
    # If the pattern leaves a quotation `\Q...` open, it swallows the `)\z`: end it with `\E`.
    whole = _search(text, rf"\A(?:{pattern})\z")
    return _search(text, rf"\A(?:{pattern}\E)\z") if whole is None else whole


def _search(text: str, pattern: str) -> bool | None:
    try:
        result: bool = pc.match_substring_regex(pa.scalar(text), pattern=pattern).as_py()
    except _REGEX_ERRORS:
        return None
    return result


def _substitute(text: str, pattern: str, replacement: str, most: int | None) -> str | None:
    r"""RE2's own replacement, in which `\1` is a group."""
    try:
        result: str = pc.replace_substring_regex(
            pa.scalar(text), pattern=pattern, replacement=replacement, max_replacements=most
        ).as_py()
    except _REGEX_ERRORS:
        return None
    return result


def _replace_regex(text: str, pattern: str, replacement: str, *, most: int | None) -> str | None:
    r"""Replace at most `most` matches, with a replacement in Java's notation.

    `$1` is a group (`\1` to RE2), and a character after a backslash is that character, so that
    `\$` is a dollar sign and `\\` a backslash.  Null if a backslash comes last.
    """
    if _TRAILING_BACKSLASH.fullmatch(replacement):
        return None
    return _substitute(text, pattern, _GROUP_OR_ESCAPE.sub(_in_re2, replacement), most)


def _in_re2(match: re.Match[str]) -> str:
    group, escaped = match.groups()
    if group is not None:
        return f"\\{group}"
    return r"\\" if escaped == "\\" else escaped


def _split(text: str, pattern: str) -> list[str] | None:
    """The pieces between matches, as in Java: empty ones at the end are dropped."""
    # Arrow's own function does not terminate if a match is empty.  Instead, put marks around
    # each match by a replacement, and split the text at the marks.
    opening, closing = _unused_characters(text)
    marked = _substitute(text, pattern, rf"{opening}\0{closing}", None)
    if marked is None:
        return None
    head, *rest = marked.split(opening)
    if not text or not rest:
        return [text]
    matches, after = zip(*(part.split(closing) for part in rest), strict=True)
    pieces = [head, *after]
    if not head and not matches[0]:
        pieces = pieces[1:]
    while pieces and not pieces[-1]:
        pieces.pop()
    return pieces


def _unused_characters(text: str) -> tuple[str, str]:
    """Two characters that a text does not contain."""
    free = (chr(code) for code in range(0xE000, 0x110000) if chr(code) not in text)
    return next(free), next(free)


# --- dates and times: null means that there is no such time ---------------------------------


def _make_date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except (ValueError, OverflowError):
        return None


def _add_days(start: date, days: int) -> date | None:
    try:
        return start + timedelta(days=days)
    except OverflowError:
        return None


def _days_between(end: date, start: date) -> int:
    """The days from the day of `start` to the day of `end`."""
    return end.toordinal() - start.toordinal()


def _truncate(unit: str, moment: date) -> date | None:
    """The first moment of the year, quarter, ..., second in which a moment lies."""
    unit = unit.lower()
    if isinstance(moment, datetime) and unit in ("hour", "minute", "second"):
        minute = 0 if unit == "hour" else moment.minute
        second = moment.second if unit == "second" else 0
        return moment.replace(minute=minute, second=second, microsecond=0)
    day = _first_day(unit, moment)
    is_time = day is not None and isinstance(moment, datetime)
    return datetime.combine(day, time(), UTC) if day is not None and is_time else day


def _first_day(unit: str, moment: date) -> date | None:
    match unit:
        case "year":
            return date(moment.year, 1, 1)
        case "quarter":
            return date(moment.year, (moment.month - 1) // 3 * 3 + 1, 1)
        case "month":
            return date(moment.year, moment.month, 1)
        case "week":
            return date.fromordinal(moment.toordinal() - moment.weekday())
        case "day" | "hour" | "minute" | "second":
            return date.fromordinal(moment.toordinal())
        case _:
            return None


# --- collections: null counts as the empty collection ---------------------------------------


def _member(value: Value, values: Value) -> bool:
    """Whether an element equals the value; null equals nothing."""
    return any(compare("=", value, element) for element in elements(values))


def _flatten(collections: Value) -> list[Value]:
    return [element for values in ordered_elements(collections) for element in elements(values)]


def _zip(left: Value, right: Value) -> list[Value]:
    return list(zip(ordered_elements(left), ordered_elements(right), strict=False))


def _range(first: int | None, last: int | None, place_: str = "") -> list[int] | None:
    """The integers from `first` to `last`; null if one of the bounds is."""
    return None if first is None or last is None else integers_between(first, last, place_)


# --- the tables ---------------------------------------------------------------------------

_TO_DATE: Final = partial(cast, target=DATE)
_TO_TIMESTAMP: Final = partial(cast, target=TIMESTAMP)

STRICT: Final[Mapping[str, Callable[..., Any]]] = {
    **{f"abs({type_})": _absolute for type_ in ("int", "long", "decimal", "double")},
    **{f"{name}(double)": partial(elementary_scalar, name) for name in NAMES if name != "pow"},
    "pow(double, double)": partial(elementary_scalar, "pow"),
    "sqrt(double)": _root,
    "ceil(double)": _whole(math.ceil),
    "floor(double)": _whole(math.floor),
    "rint(double)": _whole(round),
    **{f"round({type_})": _nearest_integer for type_ in ("long", "decimal", "double")},
    "round(decimal, long)": _round_decimal,
    "round(double, long)": _round_double,
    "min(T, T)": _lesser,
    "max(T, T)": _greater,
    "contains(string, string)": str.__contains__,
    "startsWith(string, string)": str.startswith,
    "endsWith(string, string)": str.endswith,
    "matches(string, string)": _matches,
    "length(string)": len,
    "substring(string, long)": _substring,
    "substring(string, long, long)": _substring,
    "replace(string, string, string)": str.replace,
    "replaceAll(string, string, string)": partial(_replace_regex, most=None),
    "replaceFirst(string, string, string)": partial(_replace_regex, most=1),
    "toLowerCase(string)": str.lower,
    "toUpperCase(string)": str.upper,
    "trim(string)": lambda text: text.strip(_BLANKS),
    "split(string, string)": _split,
    **{f"concat({', '.join(['string'] * n)})": lambda *t: "".join(t) for n in range(2, 9)},
    "date(string)": _TO_DATE,
    "date(timestamp)": _TO_DATE,
    "date(int, int, int)": _make_date,
    "timestamp(string)": _TO_TIMESTAMP,
    "timestamp(date)": _TO_TIMESTAMP,
    "year(date)": lambda moment: moment.year,
    "year(timestamp)": lambda moment: moment.year,
    "month(date)": lambda moment: moment.month,
    "month(timestamp)": lambda moment: moment.month,
    "day(date)": lambda moment: moment.day,
    "day(timestamp)": lambda moment: moment.day,
    "hour(timestamp)": lambda moment: moment.hour,
    "minute(timestamp)": lambda moment: moment.minute,
    "second(timestamp)": lambda moment: moment.second,
    "date_add(date, long)": _add_days,
    "date_add(timestamp, long)": _add_days,
    "date_diff(date, date)": _days_between,
    "date_diff(timestamp, timestamp)": _days_between,
    "date_trunc(string, date)": _truncate,
    "date_trunc(string, timestamp)": _truncate,
    "text(XML)": text_of,
}
"""Functions that are not called with null arguments; null as a result is a failure."""

NULL_AWARE: Final[Mapping[str, Callable[..., Any]]] = {
    "member(T, {T})": _member,
    "elem({T})": lambda values: aggregate("first", values, ANY),
    "distinct({T})": lambda values: Bag(distinct(elements(values))),
    "sort({T})": lambda values: sort_values(elements(values)),
    "reverse({T})": lambda values: ordered_elements(values)[::-1],
    "flatten({{T}})": _flatten,
    "zip({T}, {U})": _zip,
    "index({T})": lambda values: [
        (x, position) for position, x in enumerate(ordered_elements(values))
    ],
    "range(long, long)": _range,
    "inv(T)": lambda value: value,
    "string(T)": partial(cast, target=STRING),
    "tag(XML)": tag_of,
}
"""Functions that accept null arguments and may return null."""
