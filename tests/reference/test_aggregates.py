"""Aggregates against Python's own statistics, fractions and NumPy."""

from __future__ import annotations

import math
import statistics
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.reference.aggregates import aggregate
from incmrql.types.model import BOOL, DOUBLE, LONG, STRING, Type, bag
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Bag, Value
from tests.reference.running import answer_text, same, value

INF, NAN = math.inf, math.nan
NUMBERS = st.floats(-1e6, 1e6)

EMPTY: list[tuple[str, Type, Value]] = [
    ("count", LONG, 0), ("sum", LONG, 0), ("sum", DOUBLE, 0.0),
    ("sum", DecimalType(20, 2), Decimal("0.00")), ("avg", DOUBLE, None), ("min", LONG, None),
    ("max", STRING, None), ("some", BOOL, False), ("all", BOOL, True), ("variance", DOUBLE, None),
    ("stddev", DOUBLE, None), ("median", DOUBLE, None), ("first", LONG, None),
    ("collect", bag(LONG), Bag([])),
]  # fmt: skip


@pytest.mark.parametrize(("name", "type_", "expected"), EMPTY)
@pytest.mark.parametrize("operand", [Bag([]), [], None, Bag([None, None])], ids=str)
def test_over_nothing(name: str, type_: Type, expected: Value, operand: Value) -> None:
    assert same(aggregate(name, operand, type_), expected)


TABLE: list[tuple[str, list[Value], Type, Value]] = [
    ("count", [1, None, 2], LONG, 2),
    ("sum", [1, None, 2], LONG, 3),
    ("sum", [2**63 - 1, 1], LONG, None),
    ("sum", [2**63 - 1, 1, -1], LONG, 2**63 - 1),
    ("sum", [1e308, 1e308, -1e308], DOUBLE, 1e308),
    ("sum", [1e308, 1e308], DOUBLE, INF),
    ("sum", [1e100, 1.0, -1e100], DOUBLE, 1.0),
    ("sum", [INF, 1.0], DOUBLE, INF),
    ("sum", [INF, -INF], DOUBLE, NAN),
    ("sum", [NAN, 1.0], DOUBLE, NAN),
    ("sum", [Decimal("1.10"), Decimal("2.25")], DecimalType(15, 2), Decimal("3.35")),
    ("sum", [Decimal(10**37)] * 10, DecimalType(38, 0), None),
    ("avg", [2**53 + 1, 2**53 + 1, 2**53 + 2], DOUBLE, float(2**53 + 2)),
    ("avg", [1, 2], DOUBLE, 1.5),
    ("avg", [2**63 - 1, 2**63 - 1], DOUBLE, 2.0**63),
    ("avg", [1e308, 1e308], DOUBLE, INF),
    ("avg", [0.1, 0.2, 0.3], DOUBLE, 0.6 / 3),
    ("avg", [Decimal("1.00"), Decimal("2.00"), Decimal("2.00")], DecimalType(14, 6),
     Decimal("1.666667")),
    ("avg", [Decimal("-1.00"), Decimal("-2.00"), Decimal("-2.00")], DecimalType(14, 6),
     Decimal("-1.666667")),
    ("min", [1.0, NAN, -INF], DOUBLE, -INF),
    ("max", [1.0, NAN, INF], DOUBLE, NAN),
    ("max", [-5.0, -2.0], DOUBLE, -2.0),
    ("max", ["a", "𝄞", "\uffff"], STRING, "𝄞"),
    ("some", [False, None, True], BOOL, True),
    ("some", [False, None], BOOL, False),
    ("all", [True, None], BOOL, True),
    ("all", [True, False, None], BOOL, False),
    ("variance", [1, None], DOUBLE, None),
    ("variance", [1.0, INF], DOUBLE, NAN),
    ("variance", [2**62, 2**62 + 2], DOUBLE, 2.0),
    ("stddev", [2, 4, 4, 4, 5, 5, 7, 9], DOUBLE, math.sqrt(32 / 7)),
    ("median", [3, 1, None, 2], DOUBLE, 2.0),
    ("median", [1, 2], DOUBLE, 1.5),
    ("median", [1e308, 1.7e308], DOUBLE, 1.35e308),
    ("median", [2**63 - 1, 2**63 - 3], DOUBLE, 2.0**63),
    ("median", [1.0, NAN, NAN], DOUBLE, NAN),
    ("median", [1.0, 2.0, NAN], DOUBLE, 2.0),
    ("median", [-INF, INF], DOUBLE, NAN),
    ("median", [INF, INF], DOUBLE, INF),
    ("median", [1.0, INF], DOUBLE, INF),
    ("median", [Decimal("0.1"), Decimal("0.2")], DOUBLE, 0.15),
    ("first", [None, 3, 1], LONG, 3),
    ("collect", [3, None, 1], bag(LONG), Bag([1, 3])),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values", "type_", "expected"), TABLE)
def test_table(name: str, values: list[Value], type_: Type, expected: Value) -> None:
    assert same(aggregate(name, values, type_), expected)
    if name != "first":
        assert same(aggregate(name, Bag(values[::-1]), type_), expected)


def test_first_of_a_bag_is_the_least() -> None:
    assert aggregate("first", Bag([3, None, 1]), LONG) == 1


@given(st.lists(NUMBERS, min_size=1))
def test_sum_and_average(values: list[float]) -> None:
    assert aggregate("sum", Bag(values), DOUBLE) == math.fsum(values)
    assert aggregate("avg", Bag(values), DOUBLE) == math.fsum(values) / len(values)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_average_of_longs_is_rounded_once(values: list[int]) -> None:
    mean = Fraction(sum(values), len(values))
    assert aggregate("avg", values, DOUBLE) == mean.numerator / mean.denominator


@given(st.lists(NUMBERS, min_size=2))
def test_variance(values: list[float]) -> None:
    exact = statistics.variance([Fraction(x) for x in values])
    assert aggregate("variance", values, DOUBLE) == exact.numerator / exact.denominator
    assert aggregate("stddev", values, DOUBLE) == math.sqrt(exact.numerator / exact.denominator)


@given(st.lists(st.integers(-(2**40), 2**40), min_size=2))
def test_variance_of_integers(values: list[int]) -> None:
    assert aggregate("variance", values, DOUBLE) == float(
        statistics.variance([Fraction(x) for x in values])
    )


@given(st.lists(NUMBERS, min_size=1), st.floats(0, 1))
def test_median_and_percentile(values: list[float], p: float) -> None:
    middle = statistics.median([Fraction(x) for x in values])
    assert aggregate("median", values, DOUBLE) == float(middle)
    estimate = aggregate("percentile", values, DOUBLE, p)
    assert estimate == pytest.approx(float(np.percentile(values, p * 100)), rel=1e-9, abs=1e-6)
    assert min(values) <= estimate <= max(values)


@pytest.mark.parametrize(("p", "expected"), [(0.0, 1.0), (1.0, 4.0), (0.5, 2.5), (None, None),
                                             (-0.1, None), (1.1, None), (NAN, None)])  # fmt: skip
def test_percentile_at_its_ends(p: float | None, expected: float | None) -> None:
    assert aggregate("percentile", [4, 1, 3, 2], DOUBLE, p) == expected
    assert aggregate("percentile", [], DOUBLE, p) is None


@given(st.lists(st.decimals(-1000, 1000, places=2), min_size=1))
def test_decimal_average(values: list[Decimal]) -> None:
    with localcontext(prec=60):
        mean = (sum(values, Decimal(0)) / len(values)).quantize(Decimal("1.000000"), ROUND_HALF_UP)
    assert aggregate("avg", values, DecimalType(14, 6)) == mean


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sum({1, 2})", "3"),
        ("sum({})", "0"),
        ("avg({})", "null"),
        ("count({1, null})", "1"),
        ("count(select null from x in {1,2})", "0"),
        ("max({-1.5, -2.5})", "-1.5"),
        ("some x in {1, 2}: x > 1", "true"),
        ("all x in {1, 2}: x > 1", "false"),
        ("all x in {}: x = 1", "true"),
        ("some x in {null, 2}: x = 2", "true"),
        ("sum(select x.A from x in {<A: 1>, <A: 2>})", "3"),
        ("avg({1 as decimal, 2 as decimal})", 'decimal("1.5000000000000000000000")'),
        ("percentile({1, 2, 3}, 0.25)", "1.5"),
        ("sum({0.1, 0.2, 0.3})", "0.6"),
        ("first([null, 2, 1])", "2"),
        ("collect([1, null])", "{ 1 }"),
        ("min({{2}, {1, 5}})", "{ 1, 5 }"),
    ],
)
def test_in_queries(text: str, expected: str) -> None:
    assert answer_text(text) == expected


def test_sum_of_ints_is_a_long() -> None:
    assert value("sum({2147483647, 1})") == 2**31
