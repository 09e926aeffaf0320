"""Built-in functions over edge values, against NumPy, Python's own library, or plain tables."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.reference.builtins import NULL_AWARE, STRICT
from incmrql.reference.spark.builtins import SPARK_NULL_AWARE, SPARK_STRICT
from incmrql.types import typed
from incmrql.types.builtins import FUNCTIONS, KEYS, resolve
from incmrql.types.model import (
    BOOL,
    DATE,
    DOUBLE,
    INT,
    LONG,
    NOTHING,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
)
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Bag, Value
from incmrql.values.numbers import INT as INTS
from tests.reference.running import answer_text, const, of, same, value

EDGES = [0.0, 0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.7, 100.0, 709.0, 710.0, -746.0, 1e-300, 1e300,
         5e-324, math.inf, -math.inf, math.nan]  # fmt: skip
MOMENT = datetime(2026, 8, 13, 14, 15, 16, 170_000, tzinfo=UTC)


def call(name: str, type_: Type, *arguments: Value, **settings: bool) -> Value:
    overload = resolve(name, tuple(map(_type_of, arguments)))
    types = (type_,) * len(arguments) if overload is None else overload[0]
    nodes = tuple(map(const, arguments, types))
    return of(typed.Builtin(name, nodes, type=type_), **settings)


def _type_of(value: Value) -> Type:
    """The type of an argument, as far as a signature asks for it."""
    match value:
        case None:
            return NOTHING
        case int():
            return INT if value in INTS else LONG
        case float():
            return DOUBLE
        case str():
            return STRING
        case Decimal():
            return DecimalType()
        case datetime():
            return TIMESTAMP
        case date():
            return DATE
        case _:
            raise ValueError(f"no type for {value!r}")


def test_every_signature_has_a_function() -> None:
    meant = {*STRICT, *NULL_AWARE, *SPARK_STRICT, *SPARK_NULL_AWARE}
    assert set(KEYS) - meant == {"random(long)"}


# --- numbers -----------------------------------------------------------------------------

LIKE_NUMPY = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sqrt": np.sqrt, "log": np.log, "exp": np.exp, "ceil": np.ceil,
    "floor": np.floor, "rint": np.rint,
}  # fmt: skip


@pytest.mark.parametrize("name", LIKE_NUMPY)
def test_functions_of_doubles(name: str) -> None:
    for x in EDGES:
        with np.errstate(all="ignore"):
            expected = float(LIKE_NUMPY[name](np.float64(x)))
        result = call(name, DOUBLE, x)
        assert type(result) is float
        assert result == pytest.approx(expected, rel=1e-14, nan_ok=True), x
        assert math.copysign(1, result) == 1 or result != 0


def test_pow_follows_c() -> None:
    for x in EDGES:
        for y in [*EDGES, 3.0, -3.0, 0.3, -2.0, 1e17]:
            with np.errstate(all="ignore"):
                expected = float(np.power(np.float64(x), np.float64(y)))
            if (x, y) == (-math.inf, 0.5):
                expected = math.inf  # where NumPy takes the square root
            power = call("pow", DOUBLE, x, y)
            assert power == pytest.approx(expected, rel=1e-13, nan_ok=True), (x, y)


@pytest.mark.parametrize(
    ("x", "expected"),
    [(2.5, 3), (-2.5, -2), (0.49999999999999994, 0), (4503599627370497.0, 4503599627370497),
     (-0.5, 0), (math.nan, None), (math.inf, None), (9.3e18, None), (-9.3e18, None),
     (-(2.0**63), -(2**63)), (2.0**63, None), (Decimal("2.5"), 3), (Decimal("-2.5"), -2), (7, 7)],
)  # fmt: skip
def test_round_to_a_long(x: Value, expected: int | None) -> None:
    assert call("round", LONG, x) == expected


@pytest.mark.parametrize(
    ("x", "digits", "expected"),
    [(2.675, 2, 2.67), (0.285, 2, 0.28), (0.5, 0, 1.0), (-0.5, 0, -1.0), (1.005, 2, 1.0),
     (1250.0, -2, 1300.0), (-1250.0, -2, -1300.0), (0.125, 2, 0.13), (1.5, 2_000_000_000, 1.5),
     (1.5, -2_000_000_000, 0.0), (1.7e308, -308, math.inf), (math.nan, 1, math.nan),
     (math.inf, 1, math.inf), (5e-324, 1_074, 5e-324), (-0.04, 1, 0.0)],
)  # fmt: skip
def test_round_a_double_by_its_exact_value(x: float, digits: int, expected: float) -> None:
    assert same(call("round", DOUBLE, x, digits), expected)


@pytest.mark.parametrize(
    ("x", "digits", "expected"),
    [("2.675", 2, "2.680"), ("-2.675", 2, "-2.680"), ("15.000", -1, "20.000"), ("1.5", 30, "1.500"),
     ("99999.999", 0, None), ("99999.9", -9, "0.000")],
)  # fmt: skip
def test_round_a_decimal(x: str, digits: int, expected: str | None) -> None:
    rounded = call("round", DecimalType(8, 3), Decimal(x), digits)
    assert rounded == (None if expected is None else Decimal(expected))


@pytest.mark.parametrize(
    ("type_", "x", "expected"),
    [(INT, -5, 5), (INT, -(2**31), None), (LONG, -(2**63), None), (DOUBLE, -0.0, 0.0),
     (DOUBLE, -math.inf, math.inf), (DOUBLE, math.nan, math.nan),
     (DecimalType(38, 0), Decimal("-" + "9" * 38), Decimal("9" * 38))],
)  # fmt: skip
def test_abs(type_: Type, x: Value, expected: Value) -> None:
    assert same(call("abs", type_, x), expected)


def test_min_and_max_of_two() -> None:
    assert answer_text("min(1, 2.5)") == "1.0"
    assert answer_text("max(NaN, Infinity)") == "NaN"
    assert answer_text("min(NaN, -Infinity)") == "-Infinity"
    assert answer_text('max("a", "ab")') == '"ab"'
    assert answer_text("max(1, null)") == "null"
    assert answer_text("min((1,2), (1,1))") == "(1,1)"


def test_random_is_in_range_and_comes_from_the_world() -> None:
    text = "select random(5) from i in 1..200"
    numbers = value(text, random=random.Random(1))
    assert set(numbers) == set(range(5))
    assert numbers == value(text, random=random.Random(1))
    assert value("random(-1)") is None
    assert value("random(1)") == 0


# --- strings -----------------------------------------------------------------------------

STRING_TABLE: list[tuple[str, str]] = [
    ('length("")', "0"),
    ('length("é𝄞")', "2"),
    ('contains("abc", "")', "true"),
    ('contains("abc", "bd")', "false"),
    ('startsWith("abc", "ab")', "true"),
    ('endsWith("abc", "bc")', "true"),
    ('endsWith("abc", "")', "true"),
    ('substring("abc", 1)', '"bc"'),
    ('substring("abc", 3)', '""'),
    ('substring("abc", 4)', "null"),
    ('substring("abc", -1)', "null"),
    ('substring("abc", 0, 2)', '"ab"'),
    ('substring("abc", 2, 1)', "null"),
    ('substring("abc", 0, 4)', "null"),
    ('substring("a𝄞b", 1, 2)', '"𝄞"'),
    ('replace("a.b.c", ".", "")', '"abc"'),
    ('replace("aaa", "aa", "b")', '"ba"'),
    ('replace("ab", "", "-")', '"-a-b-"'),
    ('toUpperCase("straße")', '"STRASSE"'),
    ('toLowerCase("ÀB")', '"àb"'),
    ('trim("\\u0000\\t a b \\n")', '"a b"'),
    ('trim("\\u00a0x\\u2003")', '"\xa0x\u2003"'),
    ('concat("a", "", "b")', '"ab"'),
    ('concat("a", null)', "null"),
    ("length(null)", "null"),
    # regular expressions
    ('matches("abc", "b")', "false"),
    ('matches("abc", "a.c")', "true"),
    ('matches("abc", "a|abc")', "true"),
    ('matches("a\\nc", "a.c")', "false"),
    ('matches("ABC", "(?i)abc")', "true"),
    ('matches("", "")', "true"),
    ('matches("a", "(")', "null"),
    ('matches("ab", "a)(b")', "null"),
    ('matches("aa", "(a)\\\\1")', "null"),
    ('matches("a(b", "\\\\Qa(b")', "true"),
    ('matches("é", ".")', "true"),
    ('replaceAll("a1b22", "[0-9]+", "#")', '"a#b#"'),
    ('replaceAll("john smith", "(\\\\w+) (\\\\w+)", "$2 $1")', '"smith john"'),
    ('replaceAll("abc", "b", "[$0]")', '"a[b]c"'),
    ('replaceAll("abc", "b", "\\\\1")', '"a1c"'),
    ('replaceAll("abc", "(b)", "\\\\$1")', '"a$1c"'),
    ('replaceAll("abc", "(b)", "\\\\\\\\$1")', '"a\\\\bc"'),
    ('replaceFirst("abcb", "b", "\\\\\\\\")', '"a\\\\cb"'),
    ('replaceAll("abc", "b", "\\\\")', "null"),
    ('replaceAll("abc", "b", "$")', '"a$c"'),
    ('replaceAll("abc", "b", "$3")', "null"),
    ('replaceAll("abc", "", "-")', '"-a-b-c-"'),
    ('replaceAll("abc", "[", "-")', "null"),
    ('replaceFirst("aaa", "a", "b")', '"baa"'),
    ('replaceFirst("aaa", "x", "b")', '"aaa"'),
    # split
    ('split("a,b", ",")', '[ "a", "b" ]'),
    ('split("a,b,,", ",")', '[ "a", "b" ]'),
    ('split(",a", ",")', '[ "", "a" ]'),
    ('split(",", ",")', "[ ]"),
    ('split("", ",")', '[ "" ]'),
    ('split("", "")', '[ "" ]'),
    ('split("abc", "")', '[ "a", "b", "c" ]'),
    ('split("abc", "x*")', '[ "a", "b", "c" ]'),
    ('split("abc", "x")', '[ "abc" ]'),
    ('split("a1b22c", "[0-9]+")', '[ "a", "b", "c" ]'),
    ('split("a.b", ".")', "[ ]"),
    ('split("aXbXc", "(X)")', '[ "a", "b", "c" ]'),
    ('split("abab", "^a")', '[ "", "bab" ]'),
    ('split("a", "(")', "null"),
    ('split("\\ue000,\\ue001", ",")', '[ "\ue000", "\ue001" ]'),
]


@pytest.mark.parametrize(("text", "expected"), STRING_TABLE)
def test_strings(text: str, expected: str) -> None:
    assert answer_text(text) == expected


def test_half_of_a_surrogate_pair_has_no_matches() -> None:
    assert call("matches", BOOL, "\ud800", ".") is None
    assert call("replaceAll", STRING, "a", "a", "\ud800") is None
    assert call("split", list_of(STRING), "\ud800", ",") is None
    assert call("length", INT, "\ud800") == 1


@given(st.text("ab,", max_size=8))
def test_split_is_that_of_java(text: str) -> None:
    pieces = text.split(",") if "," in text else [text]
    while len(pieces) > 1 and not pieces[-1]:
        pieces.pop()
    expected = [] if text and not any(pieces) and "," in text else pieces
    assert call("split", list_of(STRING), text, ",") == expected


@given(st.text(max_size=6), st.integers(-1, 7), st.integers(-1, 7))
def test_substring(text: str, begin: int, end: int) -> None:
    valid = 0 <= begin <= end <= len(text)
    assert call("substring", STRING, text, begin, end) == (text[begin:end] if valid else None)


# --- dates -------------------------------------------------------------------------------

DATE_TABLE: list[tuple[str, str]] = [
    ("date(2026, 2, 28)", 'date("2026-02-28")'),
    ("date(2026, 2, 29)", "null"),
    ("date(0, 1, 1)", "null"),
    ("date(10000, 1, 1)", "null"),
    ("date(2026, null, 1)", "null"),
    ('date("2026-02-28")', 'date("2026-02-28")'),
    ('date("soon")', "null"),
    ('date(timestamp("2026-02-28T23:59:59.9Z"))', 'date("2026-02-28")'),
    ('timestamp("2026-01-31T10:00:00+01:00")', 'timestamp("2026-01-31T09:00:00Z")'),
    ('timestamp(date("2026-01-31"))', 'timestamp("2026-01-31T00:00:00Z")'),
    ('date_add(date("2024-02-28"), 1)', 'date("2024-02-29")'),
    ('date_add(date("9999-12-31"), 1)', "null"),
    ('date_add(date("0001-01-01"), -1)', "null"),
    ('date_add(date("2026-01-01"), 2147483647)', "null"),
    ('date_add(timestamp("2026-01-31T10:00:00Z"), 1)', 'timestamp("2026-02-01T10:00:00Z")'),
    ('date_diff(date("2026-03-01"), date("2026-02-01"))', "28"),
    ('date_diff(date("2026-02-01"), date("2026-03-01"))', "-28"),
    ('date_diff(timestamp("2026-03-02T00:00:00Z"), timestamp("2026-03-01T23:59:59Z"))', "1"),
    ('date_trunc("century", date("2026-03-01"))', "null"),
    ('date_trunc("week", date("0001-01-03"))', 'date("0001-01-01")'),
    ('date_trunc("hour", date("2026-03-01"))', 'date("2026-03-01")'),
    ('date_trunc("MONTH", date("2026-03-09"))', 'date("2026-03-01")'),
    ('year(date("2026-03-01"))', "2026"),
    ('second(timestamp("2026-01-31T10:20:30.9Z"))', "30"),
]


@pytest.mark.parametrize(("text", "expected"), DATE_TABLE)
def test_dates(text: str, expected: str) -> None:
    assert answer_text(text) == expected


@pytest.mark.parametrize(
    ("unit", "code"),
    [("year", "Y"), ("month", "M"), ("day", "D"), ("hour", "h"), ("minute", "m"), ("second", "s")],
)
@given(moment=st.datetimes(timezones=st.just(UTC)))
def test_truncation_is_that_of_numpy(unit: str, code: str, moment: datetime) -> None:
    plain = np.datetime64(moment.replace(tzinfo=None), "us")
    expected = plain.astype(f"datetime64[{code}]").astype("datetime64[us]").item()
    assert call("date_trunc", TIMESTAMP, unit, moment) == expected.replace(tzinfo=UTC)


@given(st.dates())
def test_weeks_and_quarters(day: date) -> None:
    week = call("date_trunc", DATE, "week", day)
    assert week.weekday() == 0
    assert timedelta(0) <= day - week < timedelta(7)
    quarter = call("date_trunc", DATE, "quarter", day)
    assert quarter.day == 1
    assert quarter.month in (1, 4, 7, 10)
    assert 0 <= (day.year - quarter.year) * 12 + day.month - quarter.month < 3


def test_parts_of_a_time() -> None:
    parts = [
        call(part, INT, MOMENT) for part in ("year", "month", "day", "hour", "minute", "second")
    ]
    assert parts == [2026, 8, 13, 14, 15, 16]


# --- collections -------------------------------------------------------------------------

COLLECTION_TABLE: list[tuple[str, str]] = [
    ("member(1, {2, 1})", "true"),
    ("member(1, {1.0})", "true"),
    ("member(null, {null})", "false"),
    ("member(NaN, {NaN})", "true"),
    ("member(1, {null})", "false"),
    ("member({1,2}, [{2,1}])", "true"),
    ("elem({3, 1, 2})", "1"),
    ("elem([3, 1, 2])", "3"),
    ("elem([null, 3])", "3"),
    ("elem({})", "null"),
    ("distinct({1, null, 1, null})", "{ null, 1 }"),
    ("distinct([2, 1, 2])", "{ 1, 2 }"),
    ("sort({2, null, 1})", "[ null, 1, 2 ]"),
    ("sort([2.0, NaN, -1.0])", "[ -1.0, 2.0, NaN ]"),
    ("reverse([1, 3, 2])", "[ 2, 3, 1 ]"),
    ("reverse({1, 3, 2})", "[ 3, 2, 1 ]"),
    ("flatten({{1}, {1, 2}})", "{ 1, 1, 2 }"),
    ("flatten([[1], [], [3, 2]])", "[ 1, 3, 2 ]"),
    ("flatten([{1}])", "{ 1 }"),
    ("flatten({{1}, null})", "{ 1 }"),
    ('zip([1, 2, 3], ["a", "b"])', '[ (1,"a"), (2,"b") ]'),
    ('zip({2, 1}, ["a", "b"])', '[ (1,"a"), (2,"b") ]'),
    ('index(["a", "b"])', '[ ("a",0), ("b",1) ]'),
    ("range(2, 4)", "[ 2, 3, 4 ]"),
    ("range(null, 4)", "null"),
    ("inv(null)", "null"),
    ("inv(3)", "3"),
]


@pytest.mark.parametrize(("text", "expected"), COLLECTION_TABLE)
def test_collections(text: str, expected: str) -> None:
    assert answer_text(text) == expected


@pytest.mark.parametrize(
    ("function", "empty"),
    [("distinct", Bag([])), ("sort", []), ("reverse", []), ("flatten", Bag([])), ("index", [])],
)
def test_a_null_collection_is_empty(function: str, empty: list[Value]) -> None:
    inner = "{{1}}" if function == "flatten" else "{1}"
    collection = value(f"{function}(if false then {inner} else null)")
    assert same(collection, empty)


def test_round_half_up_against_fractions() -> None:
    rng = random.Random(3)
    for _ in range(2_000):
        x = rng.choice([rng.uniform(-10, 10), rng.randint(-40, 40) / 4, rng.uniform(-1e17, 1e17)])
        assert call("round", LONG, x) == math.floor(Fraction(x) + Fraction(1, 2))


def test_null_arguments() -> None:
    for name, signatures in FUNCTIONS.items():
        if signatures[0].key(name) in NULL_AWARE:
            continue
        arguments = (None,) * len(signatures[0].parameters)
        assert call(name, BOOL, *arguments, fail_arithmetic=True) is None
