"""Functions of values of types that only Spark has: bytes, times without a zone, intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal as DecimalValue

from incmrql.types import typed
from incmrql.types.model import (
    BINARY,
    BOOL,
    BYTE,
    DATE,
    DAY_TIME_INTERVALS,
    DOUBLE,
    INT,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    YEAR_MONTH_INTERVALS,
    Decimal,
    Type,
)
from incmrql.values import Value
from tests.lower.edges import TEXTS, TIME_TEXTS, edges
from tests.lower.spark_agreement import Build, SparkCase, case
from tests.reference.running import const, of

_NUMBERS = (None, -(2**31), -(2**31) + 1, -9, -3, -1, 0, 1, 2, 3, 9, 2**31 - 1)
_HEX = (None, "", "0", "00", "fF", "F0f", "1g", "g", " 1", "\u0661\u0661", "0x1", "abcdef012")
_BASE64 = (
    None, "", "YQ==", "YQ=", "YQ", "Y", "YWI=", "YWI", "YWJj", "YW Jj\r\n", "YWJj=", "=YWJj",
    "YQ==YQ==",
    "YQ==!\n", "Y!Q==", "YQ=!=", "====", "=", "!", "\u00e9YQ==", "a-_b", "YWJ=c", "////", "++++",
)  # fmt: skip
_CHARSETS = ("UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16", "utf-16be", "UTF-16LE", "UTF-32")
_ENCODED = [
    None, b"", b"a", b"ab", b"\xff", b"\xe9", b"\xc3\xa9", b"\xff\xfea\x00", b"\xfe\xff\x00a",
    b"\x00a", b"\x00a\x00", b"\xd8\x00", b"\xd8\x3d\xde\x00", b"\x00\x00\x00a", b"\xc0\x80",
    b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\xef\xbb\xbfa",
]  # fmt: skip


def _call(name: str, result: Type, *arguments: typed.Expr) -> typed.Expr:
    return typed.Builtin(f"spark.{name}", arguments, "ansi", type=result)


def _same(
    name: str,
    types: Sequence[Type],
    result: Type,
    text: str,
    arguments: Sequence[Sequence[Value]] | None = None,
    *constants: typed.Expr,
) -> SparkCase:
    """A function that is null of no arguments but null."""
    return case(
        name, types, lambda x: _call(name, result, *x, *constants), text, arguments=arguments
    )


def binary_cases() -> Iterator[SparkCase]:
    both = (BINARY, BINARY)
    for op in ("=", "<", ">="):
        yield case(op, both, _comparison(op), f"{{0}} {op} {{1}}")
    for name in ("coalesce", "greatest", "least"):
        yield _same(name, both, BINARY, f"{name}({{0}}, {{1}})")
    yield _same("concat", both, BINARY, "concat({0}, {1})")
    yield _same("octet_length", (BINARY,), INT, "length({0})")
    # Where the end of the part wraps around, Spark asks for an array of two gigabytes and hangs.
    positions = [number for number in _NUMBERS if number != -(2**31) + 1]
    lengths = [number for number in _NUMBERS if number is None or number > -(2**31) + 1]
    yield _same(
        "substring", (BINARY, INT, INT), BINARY, "substring({0}, {1}, {2})",
        (edges(BINARY), positions, lengths),
    )  # fmt: skip
    for name in ("startsWith", "endsWith", "contains"):
        yield _same(name, both, BOOL, f"{name}({{0}}, {{1}})")
    for name, result in (("hex", STRING), ("md5", STRING), ("sha1", STRING), ("crc32", LONG)):
        yield _same(name, (BINARY,), result, f"{name}({{0}})")
    yield _same(
        "sha2", (BINARY, INT), STRING, "sha2({0}, {1})", (edges(BINARY), (0, 224, 256, 384, 512))
    )
    yield replace(_same("unhex", (STRING,), BINARY, "unhex({0})", (_HEX,)), fails=False)
    yield _same("base64", (BINARY,), STRING, "base64({0})", None, const(True, BOOL))
    for name in ("lpad", "rpad"):
        pads = (None, b"", b"\0", b"xy")
        yield _same(
            name, (BINARY, INT, BINARY), BINARY, f"{name}({{0}}, {{1}}, {{2}})",
            (edges(BINARY), (None, -1, 0, 1, 2, 3, 5, 82), pads),
        )  # fmt: skip
    yield _same("unbase64", (STRING,), BINARY, "unbase64({0})", (_BASE64,))
    for charset in _CHARSETS:
        set_ = const(charset, STRING)
        yield _same("encode", (STRING,), BINARY, f"encode({{0}}, '{charset}')", (TEXTS,), set_)
        yield _same("decode", (BINARY,), STRING, f"decode({{0}}, '{charset}')", (_ENCODED,), set_)
    yield _same("utf8", (STRING,), BINARY, "cast({0} as binary)")
    texts = [value for value in _ENCODED if value is None or _is_text(value)]
    yield _same("text", (BINARY,), STRING, "cast({0} as string)", (texts,))
    for type_, width in ((BYTE, 1), (SHORT, 2), (INT, 4), (LONG, 8)):
        yield replace(
            case(
                f"bytes of {type_}", (type_,), _big_endian(width), "cast({0} as binary)", "legacy"
            ),
            fails=False,
        )
    yield case("is null", (BINARY,), lambda x: typed.IsNull(x[0], type=BOOL), "{0} is null")


def _comparison(op: str) -> Build:
    return lambda x: typed.Compare(op, x[0], x[1], type=BOOL)  # type: ignore[arg-type]


def _big_endian(width: int) -> Build:
    def build(x: Sequence[typed.Expr]) -> typed.Expr:
        number = x[0] if width == 8 else typed.Widen(x[0], type=LONG)
        return _call("big_endian", BINARY, number, const(width, INT))

    return build


def _is_text(content: bytes) -> bool:
    try:
        return content.decode() is not None
    except UnicodeDecodeError:
        return False


def local_time_cases() -> Iterator[SparkCase]:
    both = (TIMESTAMP_NTZ, TIMESTAMP_NTZ)
    for op in ("=", "<", ">="):
        yield case(op, both, _comparison(op), f"{{0}} {op} {{1}}")
    for name in ("coalesce", "greatest", "least"):
        yield _same(name, both, TIMESTAMP_NTZ, f"{name}({{0}}, {{1}})")
    for type_ in (STRING, DATE):
        yield case(
            f"as {type_}", (TIMESTAMP_NTZ,), _cast_of_moment(type_), f"cast({{0}} as {type_})"
        )
    yield case(
        "as timestamp", (TIMESTAMP_NTZ,), lambda x: typed.Widen(x[0], type=TIMESTAMP),
        "cast({0} as timestamp)",
    )  # fmt: skip
    yield case(
        "of timestamp", (TIMESTAMP,), lambda x: typed.Widen(x[0], type=TIMESTAMP_NTZ),
        "cast({0} as timestamp_ntz)",
    )  # fmt: skip
    yield case(
        "of date", (DATE,),
        lambda x: typed.Widen(typed.Cast(x[0], "ansi", type=TIMESTAMP), type=TIMESTAMP_NTZ),
        "cast({0} as timestamp_ntz)",
    )  # fmt: skip
    texts = [*TIME_TEXTS, "2026-01-31 10:20:30 Europe/Berlin", "2026-01-31 10:20:30 Nowhere/Land"]
    yield _same(
        "local_time", (STRING,), TIMESTAMP_NTZ, "cast({0} as timestamp_ntz)",
        ([text for text in texts if not _is_beyond(text)],),
    )  # fmt: skip
    yield case("is null", (TIMESTAMP_NTZ,), lambda x: typed.IsNull(x[0], type=BOOL), "{0} is null")


def _cast_of_moment(type_: Type) -> Build:
    return lambda x: typed.Cast(typed.Widen(x[0], type=TIMESTAMP), "ansi", type=type_)


_MICROS = (
    None, 0, 1, -1, 7, -7, 999_999, 86_399_999_999, -86_400_000_000, 93_784_000_005, 2**62,
    -(2**62), 2**63 - 1, -(2**63) + 1, 3_600_000_000 * 25, -60_000_001,
)  # fmt: skip
_FACTORS = (None, 0.0, 0.5, -0.5, 1.5, 0.1, 1e-7, 3.0, -1e300, 1e300, math.inf, math.nan, 2.0**-63)
_DECIMALS = [
    None if text is None else DecimalValue(text)
    for text in (None, "0.00", "0.50", "-0.50", "1.50", "0.01", "-99999999.99", "3.00", "7.77")
]
_SPAN = "({0} * interval '0.000001' second)"


def _micros_of(span: str) -> str:
    return f"cast(cast(cast({span} as interval second) as decimal(25, 6)) * 1000000 as bigint)"


def span_cases() -> Iterator[SparkCase]:
    """Intervals of microseconds, which Spark makes of longs, and of months."""
    for op, name in (("*", "times"), ("/", "divided")):
        for type_, factors in ((DOUBLE, _FACTORS), (Decimal(10, 2), _DECIMALS)):
            yield _same(
                name, (LONG, type_), LONG, _micros_of(f"{_SPAN} {op} {{1}}"), (_MICROS, factors)
            )
    yield _same(
        "divided", (LONG, LONG), LONG, _micros_of(f"{_SPAN} / {{1}}"),
        (_MICROS, (None, 0, 1, -1, 2, -2, 3, 7, 2**63 - 1)),
    )  # fmt: skip
    for type_ in DAY_TIME_INTERVALS.values():
        # A cast cuts off what the type does not show, and nothing is there in columns of it.
        unit = {"y": 86_400, "r": 3_600, "e": 60, "d": 1}[str(type_)[-1]] * 1_000_000
        whole = unit if unit > 1_000_000 else 1
        spans = [
            n if n is None else abs(n) // whole * whole * (1 if n > 0 else -1) for n in _MICROS
        ]
        yield _same(
            "span_text", (LONG,), STRING, f"cast(cast({_SPAN} as {type_}) as string)", (spans,),
            const(str(type_), STRING),
        )  # fmt: skip
    months = (None, 0, 1, -1, 11, 12, -12, -13, 14, 2**31 - 1, -(2**31))
    for type_ in YEAR_MONTH_INTERVALS.values():
        spans = [
            n if n is None or str(type_).endswith("month") else abs(n) // 12 * 12 for n in months
        ]
        yield _same(
            "span_text", (LONG,), STRING,
            f"cast(cast(make_ym_interval(0, cast({{0}} as int)) as {type_}) as string)", (spans,),
            const(str(type_), STRING),
        )  # fmt: skip


def _is_beyond(text: Value) -> bool:
    test = typed.Builtin("spark.is_beyond_timestamp_ntz", (const(text, STRING),), type=BOOL)
    return bool(of(test))
