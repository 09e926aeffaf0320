"""What is shown reads back as the same value, and looks as interfaces.md says."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.errors import InternalError
from incmrql.values import Bag, Data, LocalTime, Months, Record, Value, identical, read, show
from tests.values.strategies import CONSTRUCTORS, decimals, floats, values


@given(values())
def test_what_is_shown_reads_back(value: Value) -> None:
    assert identical(read(show(value), CONSTRUCTORS), value)


@given(values())
def test_one_line_and_the_same_again(value: Value) -> None:
    shown = show(value)
    assert "\n" not in shown
    assert show(read(shown, CONSTRUCTORS)) == shown


@given(st.text(st.characters(categories=["Cs", "Cc", "L"]), max_size=5))
def test_lone_surrogates_and_control_characters(text: str) -> None:
    shown = show(text)
    shown.encode()
    assert read(shown) == text


@given(floats())
def test_doubles_have_a_point_and_the_shortest_digits(x: float) -> None:
    shown = show(x)
    if math.isfinite(x):
        assert re.fullmatch(r"-?(\d+\.\d+|\d\.\d+E-?\d+)", shown)
        assert float(shown) == x
        assert Decimal(shown) == Decimal(repr(x))
        assert ("E" in shown) == (x != 0 and not 1e-3 <= abs(x) < 1e16)


@given(decimals())
def test_decimals_keep_their_zeros(number: Decimal) -> None:
    back = read(show(number))
    assert back == number
    assert back.as_tuple().exponent == number.as_tuple().exponent


TABLE: list[tuple[Value, str]] = [
    (None, "null"),
    (True, "true"),
    (False, "false"),
    (12, "12"),
    (-(2**63), "-9223372036854775808"),
    (1.0, "1.0"),
    (0.1, "0.1"),
    (-0.0, "0.0"),
    (1e16, "1.0E16"),
    (9999999999999998.0, "9999999999999998.0"),
    (12345678.0, "12345678.0"),
    (1e-5, "1.0E-5"),
    (0.001, "0.001"),
    (0.00099, "9.9E-4"),
    (-1.25e300, "-1.25E300"),
    (5e-324, "5.0E-324"),
    (math.nan, "NaN"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"),
    (Decimal("1.50"), 'decimal("1.50")'),
    (Decimal("-0.0"), 'decimal("0.0")'),
    (Decimal("1E-10"), 'decimal("0.0000000001")'),
    (Decimal("1E+2"), 'decimal("100")'),
    (date(2026, 1, 31), 'date("2026-01-31")'),
    (date(1, 1, 1), 'date("0001-01-01")'),
    (datetime(2026, 1, 31, 10, tzinfo=UTC), 'timestamp("2026-01-31T10:00:00Z")'),
    (datetime(2026, 1, 31, 10), 'timestamp("2026-01-31T10:00:00Z")'),
    (datetime(2026, 1, 31, 10, 0, 0, 500000), 'timestamp("2026-01-31T10:00:00.5Z")'),
    (datetime(26, 1, 31, 10, 0, 0, 1), 'timestamp("0026-01-31T10:00:00.000001Z")'),
    (LocalTime(2026, 1, 31, 10), 'timestamp_ntz("2026-01-31T10:00:00")'),
    (LocalTime(1, 1, 1, 0, 0, 0, 100), 'timestamp_ntz("0001-01-01T00:00:00.0001")'),
    (b"\x00\xff", 'binary("00ff")'),
    (b"", 'binary("")'),
    (Months(14), 'interval("1-2")'),
    (Months(-11), 'interval("-0-11")'),
    (timedelta(days=1, hours=2, microseconds=3_500_000), 'interval("1 02:00:03.5")'),
    (timedelta(microseconds=-1), 'interval("-0 00:00:00.000001")'),
    ("", '""'),
    ('say "hi"\\', r'"say \"hi\"\\"'),
    ("a\nb\tc\rd", r'"a\nb\tc\rd"'),
    ("\0\x1f\x7f\x9f", r'"\u0000\u001f\u007f\u009f"'),
    ("é€😀'", '"é€😀\'"'),
    ("\ud800x", r'"\ud800x"'),
    ((), "()"),
    ((1, "a"), '(1,"a")'),
    (((), (1, 2)), "((),(1,2))"),
    (Bag([(2, "b"), (1, "a")]), '{ (1,"a"), (2,"b") }'),
    (Bag(), "{ }"),
    ([2, 1], "[ 2, 1 ]"),
    ([], "[ ]"),
    (Record({"A": 1, "B": Bag()}), "< A: 1, B: { } >"),
    (Record({"a b": 1, "": 2}), '< "a b": 1, "": 2 >'),
    (Record(), "< >"),
    (Data("Add", 0, (1, 2)), "Add(1,2)"),
    (Data("Num", 1, 1), "Num(1)"),
    (Data("Jnull", 2, ()), "Jnull()"),
    (Data("Node", 3, ("a", Bag(), [])), 'Node("a",{ },[ ])'),
    (Data("Num", 1, Record({"A": None})), "Num(< A: null >)"),
]
TREES = {"Add": 0, "Num": 1, "Jnull": 2, "Node": 3}


@pytest.mark.parametrize(("value", "text"), TABLE, ids=repr)
def test_notation_table(value: Value, text: str) -> None:
    assert show(value) == text
    assert identical(read(text, TREES), value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" {1,2 , 3}\n", Bag([3, 2, 1])),
        ("[[],[ ]]", [[], []]),
        ("<A:1,B:<C:()>>", Record({"A": 1, "B": Record({"C": ()})})),
        ("(1)", 1),
        ("1e3", 1000.0),
        ("-0.0", 0.0),
        ("1E400", math.inf),
        (r'"\u00E9\u0041"', "éA"),
        ('"a\nb"', "a\nb"),
        ('timestamp("2026-01-31T10:00:00.250+02:00")', datetime(2026, 1, 31, 8, 0, 0, 250000)),
        ("< null: null >", Record({"null": None})),
    ],
)
def test_more_that_can_be_read(text: str, value: Value) -> None:
    assert identical(read(text), value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a value at position 0, found the end"),
        ("{ 1", "expected ',' at position 3, found the end"),
        ("[ 1 2 ]", "expected ',' at position 4, found '2'"),
        ("[ 1, ]", "expected a value at position 5, found ']'"),
        ("( , )", "expected a value at position 2, found ','"),
        ("{ 1 ]", "expected ',' at position 4, found ']'"),
        ("< A 1 >", "expected ':' at position 4, found '1'"),
        ("< 1: 1 >", "expected a field name at position 2, found '1'"),
        ("1 2", "expected the end of the text at position 2, found '2'"),
        ("12L", "expected the end of the text at position 2, found 'L'"),
        ("{ 1, ... }", "expected a value at position 5, found '.'"),
        ("9223372036854775808", "expected an integer of 64 bits at position 0"),
        ("9" * 9999, "expected an integer of 64 bits at position 0"),
        ('[ "abc', "expected a value at position 2, found '\"'"),
        (r'"\q"', r"expected a string without \q at position 0"),
        (r'"\u12"', r"expected a string without \u at position 0"),
        ("Leaf(1)", "expected a value or a known constructor at position 0, found 'Leaf'"),
        ("-x", "expected a value or a known constructor at position 0, found '-x'"),
        ("date", "expected '(' at position 4, found the end"),
        ('date("31.1.2026")', "expected a date at position 0, found 'date(\"31.1.2026\")'"),
        ('[ date("2026-02-30") ]', "expected a date at position 2"),
        ("decimal(1)", "expected a decimal at position 0"),
        ('decimal("1","2")', "expected a decimal at position 0"),
        ('decimal("x")', "expected a decimal at position 0"),
        ('decimal("NaN")', "expected a decimal at position 0"),
        ('decimal("1E40")', "expected a decimal at position 0"),
        ('timestamp("soon")', "expected a timestamp at position 0"),
        ('timestamp("0001-01-01T00:00:00+05:00")', "expected a timestamp at position 0"),
    ],
)
def test_what_is_not_a_value_names_its_place(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        read(text)


@given(st.text(st.sampled_from('{}[]()<>,:"\\ 1.-eEnulA\n\0é'), max_size=12))
def test_reading_anything_gives_a_value_or_a_value_error(text: str) -> None:
    try:
        value = read(text, {"A": 0})
    except ValueError:
        return
    assert identical(read(show(value), {"A": 0}), value)


@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [
        (Bag([3, 1, 2]), 2, "{ 1, 2, ... }"),
        (Bag([3, 1, 2]), 3, "{ 1, 2, 3 }"),
        ([3, 1, 2], 1, "[ 3, ... ]"),
        ([[3, 1, 2]], 1, "[ [ 3, 1, 2 ] ]"),
        ([1], 0, "[ ... ]"),
        ([], 0, "[ ]"),
        ((1, 2, 3), 1, "(1,2,3)"),
        ("abc", 1, '"abc"'),
    ],
)
def test_a_limit_cuts_the_outermost_collection(value: Value, limit: int, text: str) -> None:
    assert show(value, limit=limit) == text


def test_a_dict_has_no_notation() -> None:
    with pytest.raises(InternalError, match="dict"):
        show([{"A": 1}])
