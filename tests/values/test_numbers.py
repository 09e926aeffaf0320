"""Total arithmetic: tables for the edges, other people's arithmetic for the rest."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.values.numbers import (
    BYTE,
    INT,
    INTEGER_RANGES,
    LONG,
    SHORT,
    PrecisionScale,
    decimal_arithmetic,
    decimal_result,
    divide_integers,
    fit_or_null,
    fits,
    normal,
    quantize,
    remainder,
    to_float32,
)
from tests.values.strategies import decimals, floats, integers


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (BYTE, -128, 127),
        (SHORT, -32768, 32767),
        (INT, -2147483648, 2147483647),
        (LONG, -9223372036854775808, 9223372036854775807),
    ],
)
def test_widths(kind: range, low: int, high: int) -> None:
    assert kind in INTEGER_RANGES.values()
    assert fits(kind, low)
    assert fits(kind, high)
    assert [fit_or_null(kind, n) for n in (low - 1, low, 0, high, high + 1)] == [
        None,
        *[low, 0, high],
        None,
    ]


@pytest.mark.parametrize(
    ("a", "b", "quotient", "rest"),
    [
        (7, 2, 3, 1),
        (-7, 2, -3, -1),
        (7, -2, -3, 1),
        (-7, -2, 3, -1),
        (6, 3, 2, 0),
        (-6, 3, -2, 0),
        (0, -5, 0, 0),
        (1, 0, None, None),
        (0, 0, None, None),
        (LONG.start, -1, 2**63, 0),
        (2**63 - 1, 3, 3074457345618258602, 1),
    ],
)
def test_division_truncates(a: int, b: int, quotient: int | None, rest: int | None) -> None:
    assert divide_integers(a, b) == quotient
    assert remainder(a, b) == rest


@given(integers(), integers().filter(bool))
def test_quotient_and_remainder_make_up_the_dividend(a: int, b: int) -> None:
    quotient, rest = divide_integers(a, b), remainder(a, b)
    assert quotient == math.trunc(Fraction(a, b))
    assert rest is not None
    assert quotient * b + rest == a
    assert rest == 0 or (rest < 0) == (a < 0)


@given(floats())
def test_one_zero_and_one_nan(x: float) -> None:
    data = struct.pack(">d", normal(x))
    if math.isnan(x):
        assert data == bytes.fromhex("7ff8000000000000")
    elif x == 0:
        assert data == bytes(8)
    else:
        assert data == struct.pack(">d", x)


@given(st.one_of(floats(), st.floats(width=32), st.floats(-1e-44, 1e-44)))
def test_float32_rounds_like_numpy(x: float) -> None:
    with np.errstate(all="ignore"):
        expected = normal(float(np.float64(x).astype(np.float32)))
    assert struct.pack(">d", to_float32(x)) == struct.pack(">d", expected)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (0.1, 0.10000000149011612),
        (16777217.0, 16777216.0),
        (16777219.0, 16777220.0),
        (3.4028235677973366e38, math.inf),
        (3.4028235677973362e38, 3.4028234663852886e38),
        (-1e300, -math.inf),
        (7.006492321624085e-46, 0.0),
        (-1e-300, 0.0),
        (7.1e-46, 1.401298464324817e-45),
    ],
)
def test_float32_table(x: float, expected: float) -> None:
    assert repr(to_float32(x)) == repr(expected)


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        ("+", (10, 2), (10, 2), (11, 2)),
        ("-", (10, 2), (5, 4), (13, 4)),
        ("+", (38, 10), (38, 10), (38, 9)),
        ("+", (38, 0), (38, 0), (38, 0)),
        ("+", (38, 38), (38, 0), (38, 6)),
        ("-", (38, 3), (38, 3), (38, 3)),
        ("*", (10, 2), (10, 2), (21, 4)),
        ("*", (38, 18), (38, 18), (38, 6)),
        ("*", (38, 38), (38, 38), (38, 37)),
        ("*", (38, 0), (38, 0), (38, 0)),
        ("*", (20, 2), (20, 2), (38, 4)),
        ("/", (10, 2), (10, 2), (23, 13)),
        ("/", (1, 0), (1, 0), (7, 6)),
        ("/", (38, 10), (38, 10), (38, 6)),
        ("/", (20, 10), (20, 10), (38, 18)),
        ("%", (10, 2), (8, 4), (8, 4)),
        ("%", (38, 0), (38, 38), (38, 38)),
        ("%", (38, 10), (38, 18), (38, 18)),
    ],
)
def test_precision_and_scale(
    operator: str, left: PrecisionScale, right: PrecisionScale, expected: PrecisionScale
) -> None:
    assert decimal_result(operator, left, right) == expected


def types() -> st.SearchStrategy[PrecisionScale]:
    return st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p)))


@given(st.sampled_from("+-*/%"), types(), types())
def test_results_are_types(operator: str, left: PrecisionScale, right: PrecisionScale) -> None:
    precision, scale = decimal_result(operator, left, right)
    assert 0 <= scale <= precision <= 38


def test_another_operator_is_refused() -> None:
    with pytest.raises(ValueError, match="no decimal operator"):
        decimal_result("^", (1, 0), (1, 0))


@pytest.mark.parametrize(
    ("number", "precision", "scale", "expected"),
    [
        ("1.005", 5, 2, "1.01"),
        ("-1.005", 5, 2, "-1.01"),
        ("1.0049", 5, 2, "1.00"),
        ("1", 5, 2, "1.00"),
        ("999.994", 5, 2, "999.99"),
        ("999.995", 5, 2, None),
        ("1000", 5, 2, None),
        ("-0.001", 5, 2, "0.00"),
        ("1E-999999", 5, 2, "0.00"),
        ("1E+999999", 5, 2, None),
        ("NaN", 5, 2, None),
        ("9" * 38, 38, 0, "9" * 38),
        ("0." + "9" * 39, 38, 38, None),
        ("0." + "9" * 38, 38, 38, "0." + "9" * 38),
    ],
)
def test_quantize(number: str, precision: int, scale: int, expected: str | None) -> None:
    quantized = quantize(Decimal(number), precision, scale)
    assert (None if quantized is None else str(quantized)) == expected


@pytest.mark.parametrize(
    ("a", "operator", "b", "result", "expected"),
    [
        ("1.50", "+", "2.25", (11, 2), "3.75"),
        ("1.50", "-", "1.50", (11, 2), "0.00"),
        ("1.50", "*", "-2.25", (21, 4), "-3.3750"),
        ("1", "/", "3", (7, 6), "0.333333"),
        ("2", "/", "3", (7, 6), "0.666667"),
        ("-2", "/", "3", (7, 6), "-0.666667"),
        ("1", "/", "2", (7, 0), "1"),
        ("1", "/", "0", (7, 6), None),
        ("1", "%", "0.0", (7, 6), None),
        ("7.5", "%", "2", (5, 1), "1.5"),
        ("-7.5", "%", "2", (5, 1), "-1.5"),
        ("7.5", "%", "-2", (5, 1), "1.5"),
        ("9" * 38, "+", "1", (38, 0), None),
        ("9" * 38, "-", "1", (38, 0), "9" * 37 + "8"),
        ("-0.0", "*", "5", (5, 1), "0.0"),
    ],
)
def test_decimal_table(
    a: str, operator: str, b: str, result: PrecisionScale, expected: str | None
) -> None:
    number = decimal_arithmetic(operator, Decimal(a), Decimal(b), result)
    assert (None if number is None else str(number)) == expected


@given(st.sampled_from("+-*/%"), decimals(), decimals(), types())
def test_decimals_are_exact_and_rounded_once(
    operator: str, a: Decimal, b: Decimal, result: PrecisionScale
) -> None:
    number = decimal_arithmetic(operator, a, b, result)
    precision, scale = result
    if operator in "/%" and not b:
        assert number is None
        return
    exact = _exactly(operator, Fraction(a), Fraction(b))
    if number is None:
        assert abs(exact) * 10**scale >= 10**precision - Fraction(1, 2)
        return
    assert number.as_tuple().exponent == -scale
    assert len(number.as_tuple().digits) <= precision
    error = abs(Fraction(number)) - abs(exact)
    assert -Fraction(1, 2) < error * 10**scale <= Fraction(1, 2)
    assert number == 0 or (number < 0) == (exact < 0)


def _exactly(operator: str, a: Fraction, b: Fraction) -> Fraction:
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return a / b
        case _:
            return (abs(a) % abs(b)) * (-1 if a < 0 else 1)
