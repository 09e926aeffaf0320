"""Exact sums against fractions, which round in their own way here."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.reference.aggregates import aggregate
from incmrql.types.model import LONG
from incmrql.values import ExactSum, average, exact_sum, stddev, sum_floats, variance
from incmrql.values.exact import square
from tests.values.strategies import LONG_MAX, LONG_MIN, floats, integers

LARGEST = 1.7976931348623157e308


def sum_integers(numbers: list[int]) -> Any:
    return aggregate("sum", list(numbers), LONG)


def sum_squares(numbers: list[float]) -> Fraction:
    return sum(map(square, numbers), Fraction(0))


def nearest_double(exact: Fraction) -> float:
    """The double nearest to a fraction, ties to even, by looking for its exponent."""
    length = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent = max(-1074, length - 54)
    while abs(exact) >= Fraction(2) ** (exponent + 53):
        exponent += 1
    try:
        return math.ldexp(round(exact / Fraction(2) ** exponent), exponent)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def ieee(numbers: list[float]) -> float:
    """What values.md says a sum is."""
    odd = [x for x in numbers if not math.isfinite(x)]
    if odd:
        return sum(odd)
    return nearest_double(sum(map(Fraction, numbers), Fraction(0)))


def bits(x: float | None) -> bytes | None:
    """The double's bits, with one NaN."""
    return None if x is None else struct.pack("<d", math.nan if math.isnan(x) else x)


def finite() -> st.SearchStrategy[float]:
    near = st.floats(-4, 4, allow_subnormal=False)
    return st.one_of(floats().filter(math.isfinite), near)


def sums() -> st.SearchStrategy[ExactSum]:
    """Sums with terms put in and taken away."""
    terms = st.lists(st.tuples(floats(), st.integers(-3, 3)), max_size=4)
    return terms.map(lambda pairs: sum((ExactSum.of(x).scaled(w) for x, w in pairs), ExactSum.zero))


@given(st.lists(floats(), max_size=12))
def test_the_sum_is_rounded_once(numbers: list[float]) -> None:
    assert bits(sum_floats(numbers)) == bits(ieee(numbers))


@given(st.lists(finite(), max_size=12), st.randoms(use_true_random=False))
def test_a_sum_near_a_tie(numbers: list[float], random: Any) -> None:
    """Half of the last place and a tiny push, where a second rounding would show."""
    base = random.choice([1.0, 2.0**53, 1e308, 2.0**-1022])
    ulp = math.ulp(base)
    tricky = [*numbers, *(-x for x in numbers), base, ulp / 2, random.choice([0.0, ulp * 2**-60])]
    assert bits(sum_floats(tricky)) == bits(ieee(tricky))


@given(st.lists(floats(), max_size=12), st.randoms(use_true_random=False))
def test_order_and_batches_do_not_change_a_bit(numbers: list[float], random: Any) -> None:
    mixed = list(numbers)
    random.shuffle(mixed)
    cut = random.randint(0, len(mixed))
    merged = exact_sum(mixed[cut:]) + exact_sum(mixed[:cut])
    assert bits(merged.result()) == bits(sum_floats(numbers))
    assert merged == exact_sum(numbers)


@given(sums(), sums(), sums())
def test_sums_are_an_abelian_group(a: ExactSum, b: ExactSum, c: ExactSum) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + ExactSum.zero == a
    assert a + a.negate() == ExactSum.zero
    assert a - b == a + -b
    assert hash(a + b) == hash(b + a)


@given(sums(), sums(), st.integers(-5, 5), st.integers(-5, 5))
def test_weights_distribute(a: ExactSum, b: ExactSum, n: int, m: int) -> None:
    assert (a + b).scaled(n) == a.scaled(n) + b.scaled(n)
    assert a.scaled(n + m) == a.scaled(n) + a.scaled(m)
    assert a.scaled(n).scaled(m) == a.scaled(n * m)
    assert a.scaled(1) == a


@given(st.lists(floats(), max_size=8), st.lists(floats(), max_size=8))
def test_what_comes_and_goes_leaves_no_trace(kept: list[float], gone: list[float]) -> None:
    left = exact_sum(kept + gone) - exact_sum(gone)
    assert bits(left.result()) == bits(sum_floats(kept))


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([], 0.0),
        ([-0.0], 0.0),
        ([-0.0, -0.0], 0.0),
        ([1e16, 1.0, -1e16], 1.0),
        ([0.1] * 10, 1.0),
        ([LARGEST, LARGEST], math.inf),
        ([-LARGEST, -LARGEST], -math.inf),
        ([LARGEST, LARGEST, -LARGEST], LARGEST),
        ([LARGEST, 2.0**969], LARGEST),
        ([LARGEST, 2.0**970], math.inf),
        ([5e-324, 5e-324], 1e-323),
        ([5e-324, -5e-324], 0.0),
        ([2.0**53, 1.0], 2.0**53),
        ([2.0**53, 1.0, 5e-324], 2.0**53 + 2),
        ([math.inf, 1.0], math.inf),
        ([math.inf, math.inf], math.inf),
        ([-math.inf, LARGEST, LARGEST], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, math.inf], math.nan),
    ],
)
def test_sums_of_the_table(numbers: list[float], expected: float) -> None:
    assert bits(sum_floats(numbers)) == bits(expected)


@given(st.lists(finite(), max_size=10))
def test_an_average_rounds_once_more(numbers: list[float]) -> None:
    mean = average(exact_sum(numbers), len(numbers))
    assert bits(mean) == (bits(ieee(numbers) / len(numbers) + 0.0) if numbers else None)


@given(st.lists(floats(), max_size=8))
def test_variance_is_the_mean_square_of_deviations(numbers: list[float]) -> None:
    n = len(numbers)
    total, squares = exact_sum(numbers), sum_squares(numbers)
    spread, root = variance(total, squares, n), stddev(total, squares, n)
    if n < 2:
        assert (spread, root) == (None, None)
    elif not all(map(math.isfinite, numbers)):
        assert bits(spread) == bits(root) == bits(math.nan)
    else:
        exact = [Fraction(x) for x in numbers]
        mean = sum(exact, Fraction(0)) / n
        squared = sum(((x - mean) ** 2 for x in exact), Fraction(0))
        expected = nearest_double(squared / (n - 1))
        assert bits(spread) == bits(expected)
        assert bits(root) == bits(math.sqrt(expected))


@given(st.lists(finite(), min_size=2, max_size=6), st.lists(floats(), max_size=4))
def test_variance_forgets_what_has_gone(kept: list[float], gone: list[float]) -> None:
    total = exact_sum(kept + gone) - exact_sum(gone)
    squares = sum_squares(kept + gone) - sum_squares(gone)
    plain = variance(exact_sum(kept), sum_squares(kept), len(kept))
    assert bits(variance(total, squares, len(kept))) == bits(plain)


def test_a_constant_has_no_variance() -> None:
    numbers = [0.1] * 7
    assert variance(exact_sum(numbers), sum_squares(numbers), 7) == 0.0


def test_a_variance_may_be_out_of_range() -> None:
    numbers = [LARGEST, -LARGEST]
    assert variance(exact_sum(numbers), sum_squares(numbers), 2) == math.inf


@given(st.lists(integers(), max_size=10))
def test_integers_are_summed_exactly_or_not_at_all(numbers: list[int]) -> None:
    total = sum(numbers)
    assert sum_integers(numbers) == (total if LONG_MIN <= total <= LONG_MAX else None)


def test_only_the_final_sum_of_integers_must_fit() -> None:
    assert sum_integers([LONG_MAX, LONG_MAX, -LONG_MAX]) == LONG_MAX
    assert sum_integers([LONG_MAX, 1]) is None
    assert sum_integers([LONG_MIN, -1]) is None
    assert sum_integers([]) == 0
