"""Values at the edges of every scalar type, and arguments that some functions are tried with."""

from __future__ import annotations

import math
import random
import struct
from datetime import UTC, date, datetime
from decimal import Decimal as DecimalValue
from itertools import islice, product

from incmrql.types.model import (
    BINARY,
    BOOL,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NOTHING,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    Type,
)
from incmrql.values import LocalTime, Value
from incmrql.values.numbers import INTEGER_RANGES, normal, quantize, to_float32

MOST_ROWS = 1_500
"""The number of combinations of arguments in one query."""

DECIMALS = (
    Decimal(38, 18), Decimal(38, 0), Decimal(38, 38), Decimal(10, 2), Decimal(18, 4),
    Decimal(20, 0), Decimal(5, 5), Decimal(1, 0),
)  # fmt: skip


def _neighbours_of(*numbers: int) -> list[int]:
    return [n + d for n in numbers for d in (-1, 0, 1)]


_INTEGERS = _neighbours_of(0, 7, -7, 10, 100, 127, -128, 2**15, -(2**15), 46_341, 2**31, -(2**31),
                    3_037_000_500, 2**53, -(2**53), 2**53 + 2**29, 2**63 - 513, 2**63 - 1,
                    -(2**63), 719_162, 2_932_896)  # fmt: skip


def _integers(name: str) -> list[Value]:
    kind = INTEGER_RANGES[name]
    return [None, *[n for n in dict.fromkeys(_INTEGERS) if n in kind]]


def _bits(pattern: int) -> float:
    double: float = struct.unpack(">d", pattern.to_bytes(8, "big"))[0]
    return double


_DOUBLES = [
    0.0, 0.5, 1.5, 2.5, 3.5, 0.1, 0.285, 1.005, 2.675, 1 / 3, 1.0, 2.0, 3.0, 7.0, 10.0, 127.9,
    0.49999999999999994, 0.5000000000000001, 32_767.5, 2**31 - 0.5, 2.0**31, 2.0**31 + 0.5,
    2.0**52 - 0.5,
    2.0**52 + 1, 2.0**53, 2.0**63, 2.0**63 - 1024, 2.0**64, 1e15, 1e16, 9.999999999999999e15,
    1e17, 1e22, 1e23, 2e23, 8.41e21, 9.5e-3, 1e-3, 9.999e-4, 1e-4, 1e-5, 1e-7,
    1.1754943508222875e-38,
    3.4028234663852886e38, 3.4028235677973366e38, 3.402823567797336e38, 1e39, 1e-45, 7e-46, 7.1e-46,
    5e-324, 1e-323, 2.2250738585072014e-308, 2.225073858507201e-308, 1e-300, 1e300,
    1.7976931348623157e308, math.pi, math.e, 123_456_789.123_456_79, 4.35, 2.0**-44, 1e-10,
    12345678901234567890.0, 99999999.995, 0.0010000000000000002, 1e38, 9.999999999999999e37,
    _bits(0x3FE5555555555555), math.inf,
]  # fmt: skip


def _doubles() -> list[Value]:
    signed = [sign * x for x in _DOUBLES for sign in (1, -1)]
    return [None, *dict.fromkeys(map(normal, signed)), math.nan]


def _decimals(type_: Decimal) -> list[Value]:
    precision, scale = type_.precision, type_.scale
    most = 10**precision - 1
    half = 5 * 10 ** (scale - 1) if scale else 5
    whole = [0, 1, 9, 15, 25, half, half - 1, half + 1, 10**scale, 10**scale + half, 3 * 10**scale,
             10**scale * 2**63 - half, 10**scale * 2**63 - half - 1, 10**scale * 2**63 + half,
             most, most // 2, most // 3, 7 * most // 11, 12_345,
             10 ** (precision // 2)]  # fmt: skip
    signed = dict.fromkeys(sign * n for n in whole for sign in (1, -1) if n <= most)
    quantized = [quantize(DecimalValue(n).scaleb(-scale), precision, scale) for n in signed]
    return [None, *[n for n in quantized if n is not None]]


NUMERIC_TEXTS: list[Value] = [
    "0", "1", "-1", "+1", "00", "-0", "007", "127", "128", "-128", "-129", "32768", "2147483647",
    "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "0" * 60 + "5", "1" * 60, " 5", "5 ", "\t5\n",
    "\v5\f\r", "\x005", "5\x00", "\x1f5", "5\x7f", "\u00a05", "5\u2003", "5\x85", "5\u2028",
    "5\n\u2028", "1 2",
    "+", "-", "--1", "+-1", "1_000", "1,000", "\u0665", "\uff15", "0x10", "1e5", "1E5", "1e+5",
    "1e-5", "1.", ".5",
    ".", "+.5", "-.5e1", "5.e1", "1.5e1", "1e", "e5", "1e5.5", "1.5.5", "1d", "1f", "1L", "0x1p3",
    "nan", "NaN", "NAN", "-nan", "+nan", "inf", "-inf", "+inf", "Infinity", "-INFINITY", "infinit",
    "infinity ",
    "1e308", "1e309", "-1e400", "1e-323", "1e-324", "1e-400", "2.4703282292062327e-324",
    "2.4703282292062328e-324", "1.7976931348623158e308", "1.7976931348623159e308",
    "0.1", "0.10000000000000000555", "9007199254740993", "9007199254740992.99999999999999999999999",
    "9007199254740993.00000000000000000000000000000000001", "0.285",
    "0.284999999999999999999999999999999999999999999999999",
    "1.005", "1.004999", "-1.005", "99999999.994", "99999999.995", "-99999999.995", "0.005",
    "0.0049",
    "0.00000000000000000049", "0.0000000000000000005", "99999999999999999999.5", "9" * 38,
    "9" * 39, "9" * 20 + "." + "9" * 18,
    "9" * 20 + "." + "9" * 19, "1e19", "1e20", "1e37", "1e38", "12e-2", "125e-3", "0.125e1",
    "1234.5e-5", "0e0", "0e5", "0e400",
    "0.0e99999", "0e-99999", "1e99999", "1e-99999", "1e-2147483649", "1e2147483649",
    "0e99999999999", "1e-99999999999",
    "1e99999999999999999999", "0e99999999999999999999", "1e000000000000000000001", "-1e-0000001",
    "1.e3", "000.5",
    "16777217", "16777219", "1.00000005960464477539062", "1.000000059604644775390625000001",
    "3.4028235677973366e38",
    "1e-45", "-1e-46", "true", "1e1e1", "5\n5", "1\u0300",
]  # fmt: skip
WORDS: list[Value] = [
    "true", "TRUE", "True", " true\n", "\x00true", "t", "yes", "false", "FALSE", "f", "0", "1",
    "01", "1.0", "tru\u00e9", "TR\u016eE",
]  # fmt: skip
TIME_TEXTS: list[Value] = [
    "2026-01-31", " 2026-01-31\n", "2026-1-31", "2026-01-1", "2026-02-29", "2024-02-29",
    "1900-02-29", "2000-02-29",
    "0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "-0001-01-01", "+2026-01-01",
    "2026-13-01",
    "2026-00-10", "2026-01-32", "2026-01-00", "20260131", "2026/01/31", "2026-01", "2026",
    "2026-01-31x", "2026-01-31T",
    "2026-01-31 ", "\u0662026-01-31", "2026-01-31T10:20", "2026-01-31T10:20:30",
    "2026-01-31t10:20:30z",
    "2026-01-31 10:20:30.5", "2026-01-31 10:20:30,25", "2026-01-31T10:20:30.123456789Z",
    "2026-01-31T10:20:30.9999999",
    "2026-01-31T10:20:30.", "2026-01-31T10:20:30.1+05:30", "2026-01-31T10:20:30+0530",
    "2026-01-31T10:20:30-05",
    "2026-01-31T10:20+23:59", "2026-01-31T10:20-23:59", "2026-01-31T10:20+24:00",
    "2026-01-31T10:20+05:60",
    "2026-01-31T24:00:00", "2026-01-31T23:59:60", "2026-01-31T23:60", "2026-01-31T1:20",
    "2026-01-31  10:20",
    "0001-01-01T00:00:00+00:01", "0001-01-01T00:01:00+00:01", "9999-12-31T23:59:59.999999-00:01",
    "9999-12-31T23:59:59.999999Z",
    "0001-01-01T00:00:00-00:00", "1969-12-31T23:59:59.999999", "1582-10-10",
    "1582-10-10T12:00:00Z", "2026-01-31T10:20:30 Z",
    "2026-01-31T10:20:30UTC", "2026-01-31T10:20Z", "2026-01-31Z", "T10:20", "epoch", "now",
    "infinity", "today", "2026-02-30T10:20",
    "2026-01-31T10:20:30.0000001", "2026-01-31T10:20:30.000001", "2026-01-31T10:20:30+5",
    "2026-01-31T10:20:30+053", "",
]  # fmt: skip
TEXTS: list[Value] = [
    None, "", " ", "a", "b", "ab", "aa", "aaa", "abc", "ABC", "aBc", "\u00e9", "e\u0301", "\u0301",
    "\u00c9COLE", "\u0130stanbul", "I\u0307",
    "\u03a3", "\u0391\u03a3", "\u0391\u03a3 \u03a3\u0391", "\u0391\u03a3\u0301", "\u0391\u03a3.",
    "\u0391.\u03a3b", "\u1e9e", "\u00df", "\ufb03", "\u0149", "\u01c5", "\u0390", "\u1f88",
    "\U0001f600", "x\U0001f600y", "\U0001f468\u200d\U0001f469", "\U00010400\U00010428",
    "\U00010570", "\u2c2f", "\u212a\u00b5\u017f",
    "\n", "a\nb", "\ta\r\n", "\x00", "\x00a\x00", "\x1fa ", "\x7f", "\u00a0a\u00a0", "\u2003a",
    "a b c", "a.b.c", "a,b,,c,,", ",", ",,",
    "$1", "\\", "a\\b", "'", "\"quoted\"", "it's", "%", "_", "100%", "{}", "${spark.app.name}",
    "--", "/*", "\ufeff", "\uffff", "\ue000",
    "\U0010ffff", "z", "\u0600", "1", "-1", "true", "2026-01-31", "aaaa" * 20,
]  # fmt: skip
PATTERNS: list[Value] = [
    None, "", "a", "a*", "a+", ".", ".*", "(a)(b)", "(a|b)*", "^a", "a$", "^", "$", "\\b",
    "[abc]+", "[^a]", "\\d+", "\\s", "\\s+", "a|", "(", "a)(b",
    "[", "*", "a{2}", "a{2,}", "(?i)abc", "\\Qa.b", "\\p{L}", "(?=a)", "\\1", ",", "\\.", "(?s).",
    "\\n", "x*", "\U0001f600",
]  # fmt: skip
REPLACEMENTS: list[Value] = [
    "",
    "-",
    "$1",
    "$0$0",
    "\\$",
    "\\\\",
    "\\",
    "$2",
    "$9",
    "a$",
    "\\0",
    "\u00e9",
]
UNITS: list[Value] = [
    None, "year", "quarter", "month", "week", "day", "hour", "minute", "second", "YEAR",
    "Wee\u212a", "decade", "mm", "yy", "", "microsecond", "days",
]  # fmt: skip

_DATES: list[Value] = [
    None, date(1, 1, 1), date(1, 1, 7), date(4, 2, 29), date(1582, 10, 4), date(1582, 10, 15),
    date(1582, 10, 10), date(1899, 12, 31), date(1900, 3, 1), date(1969, 12, 31),
    date(1970, 1, 1), date(2000, 2, 29), date(2024, 2, 29), date(2024, 12, 30), date(2026, 1, 1),
    date(2026, 8, 13), date(9999, 12, 26), date(9999, 12, 31),
]  # fmt: skip
_TIMES: list[Value] = [
    None, datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(1582, 10, 10, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1883, 11, 18, 12, 3, 58, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(2000, 2, 29, 12, 30, 45, 123_456, tzinfo=UTC),
    datetime(2024, 2, 29, 23, 59, 59, 120_000, tzinfo=UTC),
    datetime(2026, 3, 29, 2, 30, tzinfo=UTC),
    datetime(2026, 8, 13, 14, 15, 16, 170_000, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]  # fmt: skip


_BYTES: list[Value] = [
    None, b"", b"\0", b"\0\0", b"\0a", b"a", b"a\0", b"ab", b"b", b"\x7f", b"\x80", b"\xff",
    b"\xff\xff",
    "\u00e9".encode(), "\U0001f600".encode(), b"\xc3", bytes(range(256)), b"abc" * 30,
]  # fmt: skip


def edges(type_: Type) -> list[Value]:
    """The values that functions of a type are tried with; null is among them."""
    match type_:
        case Decimal():
            return _decimals(type_)
        case _ if type_ == FLOAT:
            return [None, *dict.fromkeys(to_float32(x) for x in _doubles() if x is not None)]
        case _:
            return _EDGES[type_]


_EDGES: dict[Type, list[Value]] = {
    BOOL: [None, False, True],
    **{t: _integers(t.name) for t in (BYTE, SHORT, INT, LONG)},
    DOUBLE: _doubles(),
    STRING: TEXTS,
    DATE: _DATES,
    TIMESTAMP: _TIMES,
    NOTHING: [None],
    BINARY: _BYTES,
    TIMESTAMP_NTZ: [t and LocalTime.of(t) for t in _TIMES],
}


def combinations(columns: list[list[Value]], most: int = MOST_ROWS) -> list[tuple[Value, ...]]:
    """All combinations, or a fixed sample of them."""
    total = math.prod(map(len, columns))
    if total <= most:
        return list(product(*columns))
    chosen = random.Random(total)
    return list(islice((tuple(map(chosen.choice, columns)) for _ in iter(int, 1)), most))
