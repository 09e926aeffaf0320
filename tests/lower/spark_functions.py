"""More functions of Spark: of strings, times, numbers and arrays, with edges of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal as Exact
from itertools import product

from incmrql.types import typed
from incmrql.types.model import (
    BOOL,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    Decimal,
    Type,
    list_of,
)
from incmrql.values import Value
from tests.lower.edges import TEXTS, edges
from tests.lower.spark_agreement import Build, SparkCase, case
from tests.reference.running import const

_NULLABLE = ("array_contains", "arrays_overlap", "array_min", "array_max")
"""Functions of which null is a result."""
_COUNTS = (None, -3, -1, 0, 1, 2, 3, 5, 81)
_PARTS = (None, "", "a", "aa", "ab", "b", ",", ".", "\u00e9", "\U0001f600", "aXbXc", "X")
_SHORT = [*TEXTS, "a,b,,c,,", "aXbXc", "XX", "abab", "aaaa"]
_MOMENTS = [
    None, datetime(2026, 1, 31, 10, 20, 30, 123_456, UTC), datetime(2024, 2, 29, tzinfo=UTC),
    datetime(2023, 2, 28, 23, 59, 59, 999_999, UTC), datetime(2023, 12, 31, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime(2026, 3, 1, 10, 20, 30, 123_455, UTC), datetime(2000, 2, 29, 1, 2, 3, tzinfo=UTC),
    datetime(2026, 7, 5, 0, 0, 0, 1, UTC),
]  # fmt: skip
_ZONES = ("Europe/Paris", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "+05:30")
_IN_ZONE = {"local_time_in": "from_utc_timestamp", "moment_in": "to_utc_timestamp"}
_CLOCKS = [
    None,
    *(
        datetime(*day, hour, minute, tzinfo=UTC)
        for day in ((2024, 3, 31), (2024, 10, 27), (2024, 3, 10), (2024, 11, 3), (2024, 10, 6),
                    (2018, 11, 4), (2018, 2, 18), (1900, 1, 1), (1850, 6, 1), (2090, 7, 1))
        for hour, minute in ((0, 0), (0, 30), (1, 30), (2, 15), (3, 0), (6, 30), (15, 45), (23, 30))
    ),
]  # fmt: skip
"""Around what the clocks of these zones skip or show twice."""
_MONTHS = (None, -25, -12, -1, 0, 1, 11, 12, 13, 120_000)
_ARRAYS: list[Value] = [
    None, [], [1], [None], [1, 2, 3], [3, 1, 2, 1], [1, None, 1], [None, None], [2, None, 3, 5],
]  # fmt: skip
_TEXT_ARRAYS: list[Value] = [None, [], ["a"], ["a", None, "b"], [None], ["", ""], ["\u00e9", "x"]]


def _call(name: str, result: Type, *arguments: typed.Expr) -> typed.Expr:
    return typed.Builtin(name, arguments, "ansi", type=result)


def _then(name: str, result: Type, *constants: typed.Expr) -> Build:
    """A call with constants after the arguments."""
    return lambda x: _call(name, result, *x, *constants)


def _first_of(unit: str) -> Build:
    return lambda x: _call("date_trunc", TIMESTAMP, const(unit, STRING), *x)


def _same(
    name: str,
    types: Sequence[Type],
    result: Type,
    text: str,
    arguments: Sequence[Sequence[Value]] | None = None,
) -> SparkCase:
    same = case(
        name, types, lambda x: _call(f"spark.{name}", result, *x), text, arguments=arguments
    )
    return replace(same, fails=name not in _NULLABLE)


def string_cases() -> Iterator[SparkCase]:
    for name in ("lpad", "rpad"):
        lengths = (None, -1, 0, 1, 2, 3, 5, 82)
        pads = (None, "", " ", "xy", "\u00e9", "\U0001f600z")
        yield _same(
            name, (STRING, INT, STRING), STRING, f"{name}({{0}}, {{1}}, {{2}})",
            (TEXTS, lengths, pads),
        )  # fmt: skip
    yield _same("repeat", (STRING, INT), STRING, "repeat({0}, {1})", (TEXTS, _COUNTS))
    yield _same(
        "replace", (STRING,) * 3, STRING, "replace({0}, {1}, {2})", (_SHORT, _PARTS, _PARTS)
    )
    yield _same("reverse", (STRING,), STRING, "reverse({0})")
    yield _same(
        "locate", (STRING, STRING, INT), INT, "locate({0}, {1}, coalesce({2}, 1))",
        (_PARTS, _SHORT, (-1, 0, 1, 2, 3, 80, 2**31 - 1)),
    )  # fmt: skip
    yield _same(
        "substring_index", (STRING, STRING, INT), STRING, "substring_index({0}, {1}, {2})",
        (_SHORT, _PARTS, (None, -4, -2, -1, 0, 1, 2, 3)),
    )  # fmt: skip
    yield _same("ascii", (STRING,), INT, "ascii({0})")
    yield _same("chr", (LONG,), STRING, "chr({0})")
    yield _same(
        "translate", (STRING,) * 3, STRING, "translate({0}, {1}, {2})",
        (_SHORT, ("", "a", "ab", "aba", "\u00e9", "\U0001f600b", None), ("", "x", "xyz", None)),
    )  # fmt: skip
    yield _same("md5", (STRING,), STRING, "md5({0})")
    yield _same("sha1", (STRING,), STRING, "sha1({0})")
    yield _same("sha2", (STRING, INT), STRING, "sha2({0}, {1})", (TEXTS, (0, 224, 256, 384, 512)))
    yield _same("crc32", (STRING,), LONG, "crc32({0})")
    yield _same("hex", (LONG,), STRING, "hex({0})")
    yield _same("hex", (STRING,), STRING, "hex({0})")
    yield _same("bin", (LONG,), STRING, "bin({0})")
    yield _same(
        "array_join", (list_of(STRING), STRING), STRING, "array_join({0}, {1})",
        (_TEXT_ARRAYS, (None, "", ",")),
    )  # fmt: skip
    yield _same(
        "array_join", (list_of(STRING), STRING, STRING), STRING, "array_join({0}, {1}, {2})",
        (_TEXT_ARRAYS, (None, "", ","), ("", "-")),
    )  # fmt: skip
    yield _same(
        "split_at", (STRING, STRING), list_of(STRING),
        "split({0}, concat('\\\\Q', {1}, '\\\\E'), -1)",
        (_SHORT, ("a", "aa", ",", "X", "\u00e9", None)),
    )  # fmt: skip


def number_cases() -> Iterator[SparkCase]:
    for name in ("signum", "degrees", "radians"):
        yield _same(name, (DOUBLE,), DOUBLE, f"{name}({{0}})")
    yield _same("bit_count", (LONG,), INT, "bit_count({0})")
    yield case(
        "factorial", (INT,), lambda x: typed.Builtin("spark.factorial", (x[0],), type=LONG),
        "factorial({0})", "legacy",
    )  # fmt: skip


def time_cases() -> Iterator[SparkCase]:
    for number, word in enumerate(("MO", "Tue", "wednesday", "th", "FRI", "sa", "SUNDAY")):
        yield case(
            f"next {word}", (DATE,),
            _then("spark.next_day", DATE, const(number, INT)),
            f"next_day({{0}}, '{word}')",
            arguments=([d for d in edges(DATE) if d is None or d < date(9999, 12, 1)],),
        )  # fmt: skip
    yield _same("unix_date", (DATE,), INT, "unix_date({0})")
    days = (None, -719_162, -1, 0, 1, 20_000, 2_932_896)
    yield _same("from_unix_date", (INT,), DATE, "date_from_unix_date({0})", (days,))
    for name in ("seconds", "millis", "micros"):
        yield _same(f"unix_{name}", (TIMESTAMP,), LONG, f"unix_{name}({{0}})", (_MOMENTS,))
    yield case(
        "add micros", (TIMESTAMP,),
        lambda x: _call("spark.add_micros", TIMESTAMP, x[0], const(-93_784_000_005, LONG)),
        "{0} - interval '1 02:03:04.000005' day to second", arguments=(_MOMENTS[:7],),
    )  # fmt: skip
    yield case(
        "add months", (TIMESTAMP,),
        lambda x: _call("spark.add_months_to_timestamp", TIMESTAMP, x[0], const(13, INT)),
        "{0} + interval '1-1' year to month", arguments=(_MOMENTS[:7],),
    )  # fmt: skip
    for rounded in (True, False):
        yield case(
            f"months between {rounded}", (TIMESTAMP, TIMESTAMP),
            _then("spark.months_between", DOUBLE, const(rounded, BOOL)),
            f"months_between({{0}}, {{1}}, {str(rounded).lower()})",
            arguments=(_MOMENTS, _MOMENTS),
        )  # fmt: skip
    for unit, micros in (("SECOND", 10**6), ("DAY", 86_400 * 10**6), ("WEEK", 604_800 * 10**6)):
        yield case(
            unit, (TIMESTAMP, TIMESTAMP),
            _then("spark.whole_units", LONG, const(micros, LONG)),
            f"timestampdiff({unit}, {{0}}, {{1}})", arguments=(_MOMENTS, _MOMENTS),
        )  # fmt: skip
    yield _same(
        "whole_months", (TIMESTAMP, TIMESTAMP), LONG, "timestampdiff(MONTH, {0}, {1})",
        (_MOMENTS, _MOMENTS),
    )  # fmt: skip
    for zone, (name, function) in product(_ZONES, _IN_ZONE.items()):
        yield case(
            f"{name} {zone}", (TIMESTAMP,), _then(f"spark.{name}", TIMESTAMP, const(zone, STRING)),
            f"{function}({{0}}, '{zone}')", arguments=(_CLOCKS,),
        )  # fmt: skip
    for pattern in (
        "yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss.SSSSSS", "yy/M/d H:m:s", "MMM MMMM E EEEE", "yyyyMMdd",
        "'at' HH 'o''clock'", "SSS", "yyyy",
    ):  # fmt: skip
        yield case(
            f"format {pattern}", (TIMESTAMP,),
            _then("spark.date_format", STRING, const(pattern, STRING)),
            "date_format({0}, '" + pattern.replace("'", "\\'") + "')", arguments=(_MOMENTS,),
        )  # fmt: skip
    for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second"):
        yield case(
            f"first of {unit}", (TIMESTAMP,),
            _first_of(unit),
            f"date_trunc('{unit}', {{0}})", arguments=(_MOMENTS,),
        )  # fmt: skip


def array_cases() -> Iterator[SparkCase]:
    ints = list_of(INT)
    values = (None, 0, 1, 2, 3, 5)
    for name, result in (("contains", BOOL), ("position", LONG), ("remove", ints)):
        yield _same(
            f"array_{name}", (ints, INT), result, f"array_{name}({{0}}, {{1}})", (_ARRAYS, values)
        )
    for name in ("array_union", "array_intersect", "array_except"):
        yield _same(name, (ints, ints), ints, f"{name}({{0}}, {{1}})", (_ARRAYS, _ARRAYS))
    yield _same(
        "arrays_overlap", (ints, ints), BOOL, "arrays_overlap({0}, {1})", (_ARRAYS, _ARRAYS)
    )
    yield _same("array_distinct", (ints,), ints, "array_distinct({0})", (_ARRAYS,))
    for name, result in (("array_min", INT), ("array_max", INT)):
        yield _same(name, (ints,), result, f"{name}({{0}})", (_ARRAYS,))
    yield _same("array_reverse", (ints,), ints, "reverse({0})", (_ARRAYS,))
    yield _same("size", (ints,), INT, "size({0})", (_ARRAYS,))
    yield _same(
        "slice", (ints, INT, INT), ints, "slice({0}, {1}, {2})",
        (_ARRAYS, (None, -5, -2, -1, 0, 1, 2, 4, 9), (None, -1, 0, 1, 2, 9)),
    )  # fmt: skip
    for ascending in (True, False):
        yield case(
            f"sort {ascending}", (ints,),
            _then("spark.sort_array", ints, const(ascending, BOOL)),
            f"sort_array({{0}}, {str(ascending).lower()})", arguments=(_ARRAYS,),
        )  # fmt: skip
    yield _same(
        "array_repeat", (INT, INT), ints, "array_repeat({0}, {1})", ((None, 1), (None, -1, 0, 1, 3))
    )
    bounds = (None, -3, 0, 1, 2, 7)
    yield _same(
        "sequence", (LONG, LONG, LONG), list_of(LONG), "sequence({0}, {1}, {2})",
        (bounds, bounds, (None, -2, -1, 0, 1, 3)),
    )  # fmt: skip


def more_cases() -> Iterator[SparkCase]:
    """Functions of strings, times, numbers and arrays that have no native form."""
    positions, lengths = (None, -3, 0, 1, 2, 4, 80), (None, -1, 0, 1, 3)
    yield _same(
        "overlay", (STRING, STRING, INT, INT), STRING,
        "overlay({0} placing {1} from {2} for {3})", (_PARTS, ("", "xy", None), positions, lengths),
    )  # fmt: skip
    yield _same("levenshtein", (STRING, STRING), INT, "levenshtein({0}, {1})", (_PARTS, _PARTS))
    yield _same(
        "levenshtein", (STRING, STRING, INT), INT, "levenshtein({0}, {1}, {2})",
        (_PARTS, _PARTS, (0, 1, 3)),
    )  # fmt: skip
    yield _same(
        "find_in_set", (STRING, STRING), INT, "find_in_set({0}, {1})",
        (_PARTS, (None, "", ",", "a,aa", "b,a,,X", "\u00e9,ab", "a")),
    )  # fmt: skip
    yield _same("octet_length", (STRING,), INT, "octet_length({0})")
    yield _same("space", (INT,), STRING, "space({0})", (_COUNTS,))
    yield _same("day_name", (DATE,), STRING, "dayname({0})")
    yield _same("month_name", (DATE,), STRING, "monthname({0})")
    yield _same(
        "make_timestamp", (INT, INT, INT, INT, INT, Decimal(16, 6)), TIMESTAMP,
        "make_timestamp({0}, {1}, {2}, {3}, {4}, {5})",
        (
            (2024, 1, 9999, 0), (2, 12, 13), (29, 31, 0), (0, 23, 24), (0, 59),
            (None, *map(Exact, ("0", "59.999999", "60", "60.000001", "-1"))),
        ),
    )  # fmt: skip
    for type_ in (INT, LONG):
        yield _same(
            "bit_at", (type_, INT), INT, "cast(bit_get({0}, {1}) as int)",
            ([*edges(type_)], (None, -1, 0, 1, 31, 32, 63, 64)),
        )  # fmt: skip
    numbers = (None, -1.0, 0.0, 0.5, 3.0, 10.0, 11.0, math.inf, -math.inf, math.nan)
    yield replace(
        _same(
            "width_bucket", (DOUBLE, DOUBLE, DOUBLE, LONG), LONG,
            "width_bucket({0}, {1}, {2}, {3})",
            (numbers, (0.0, 10.0, math.nan), (10.0, 0.0, -2.5), (-1, 0, 1, 7)),
        ),
        fails=False,
    )  # fmt: skip
    for name in ("ceil", "floor"):
        for digits in (-1, 0, 1, 3):
            yield case(
                f"{name} to {digits}", (Decimal(10, 2),),
                _at_digits(name, digits), f"{name}({{0}}, {digits})",
            )  # fmt: skip
    places = (None, -9, -4, -2, -1, 1, 2, 4, 7)
    yield _same(
        "array_insert", (list_of(INT), INT, INT), list_of(INT), "array_insert({0}, {1}, {2})",
        (_ARRAYS, places, (None, 8)),
    )  # fmt: skip


def _at_digits(name: str, digits: int) -> Build:
    """`ceil` or `floor` of a decimal to so many digits, in the type that Spark gives it."""
    scale = min(max(digits, 0), 2)
    integral = max(10 - 2 + 1, -digits + 1)
    type_ = Decimal(integral + scale, scale)
    return lambda x: _call(f"spark.{name}_at", type_, *x, const(digits, INT))
