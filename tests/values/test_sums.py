"""Exact sums in columns of limbs have the bits of `values.exact`."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from incmrql.values.exact import ExactSum, sums

DOUBLES = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308, -1.7976931348623157e308, 1e16, 1.0]
    + [2.0**i for i in range(-1074, 1024, 53)]
)
WEIGHTS = st.sampled_from([1, -1, 1, -1, 2, -3, 2**20, -(2**33), 2**62])
TERMS = st.lists(st.tuples(st.integers(0, 3), DOUBLES, WEIGHTS), max_size=40)


def bits(x: float) -> bytes:
    return struct.pack(">d", x)


def exact(terms: list[tuple[int, float, int]], group: int) -> ExactSum:
    total = ExactSum.zero
    for of, x, weight in terms:
        if of == group:
            total = total.add(ExactSum.of(x).scaled(weight))
    return total


def columns(
    terms: list[tuple[int, float, int]], add: Callable[..., sums.Limbs] = sums.sum_doubles
) -> sums.Limbs:
    of, numbers, weights = (np.array([term[i] for term in terms]) for i in range(3))
    return add(numbers.astype(np.float64), weights.astype(np.int64), of.astype(np.int64), 4)


@given(TERMS)
def test_sums_of_doubles_are_exact_and_rounded_once(
    terms: list[tuple[int, float, int]],
) -> None:
    limbs = columns(terms)
    wanted = [exact(terms, group) for group in range(4)]
    assert sums.as_integers(limbs, 4) == [total.units for total in wanted]
    doubles = sums.nearest_doubles(limbs, 4).tolist()
    assert [bits(x) for x in doubles] == [bits(total.result()) for total in wanted]


SLICED = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.floats(-1e200, 1e200) | st.sampled_from([0.0, 5e-324, -5e-324, 1e16, 1.0]),
        st.sampled_from([1, 1, 1, -1, 2, 1 << 20]),
    ),
    max_size=30,
)


@given(SLICED)
def test_slices_and_digits_add_up_to_the_same(terms: list[tuple[int, float, int]]) -> None:
    sliced, plain = columns(terms), columns(terms, sums.sum_digits)
    assert {place: column.tolist() for place, column in sliced.items()} == {
        place: column.tolist() for place, column in plain.items()
    }


def test_slices_are_not_left_for_digits() -> None:
    """Numbers of ordinary size are added up in slices, huge ones by their digits."""
    with mock.patch.object(sums, "sum_digits", wraps=sums.sum_digits) as digits:
        columns([(0, 0.1, 1), (1, 1e9 / 7, 2), (0, -3.25, 1)])
        assert not digits.called
        columns([(0, 0.1, 1), (0, 1e300, 1)])
        assert digits.called


@given(TERMS, st.randoms(use_true_random=False))
def test_equal_sums_have_equal_limbs_however_they_came_about(
    terms: list[tuple[int, float, int]], random: object
) -> None:
    whole = columns(terms)
    shuffled = list(terms)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    half = len(terms) // 2
    first, second = columns(shuffled[:half]), columns(shuffled[half:])
    places = {*first, *second}
    nothing = np.zeros(4, np.int64)
    merged = sums.carry_limbs({p: first.get(p, nothing) + second.get(p, nothing) for p in places})
    assert sorted(merged) == sorted(whole)
    assert all((merged[place] == whole[place]).all() for place in whole)


def test_what_is_added_and_taken_away_leaves_nothing() -> None:
    terms = [(0, 1e16, 1), (0, 1.0, 1), (0, 1e16, -1), (0, 1.0, -1)]
    assert columns(terms) == {}


def test_the_largest_sums_are_infinite() -> None:
    largest = 1.7976931348623157e308
    assert sums.nearest_doubles(columns([(0, largest, 1), (0, largest, 1)]), 4)[0] == math.inf
    assert sums.nearest_doubles(columns([(0, largest, -2)]), 4)[0] == -math.inf


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), WEIGHTS), max_size=20))
def test_sums_of_integers_are_exact_and_null_where_they_do_not_fit(
    terms: list[tuple[int, int]],
) -> None:
    numbers, weights = (np.array([t[i] for t in terms], np.int64) for i in (0, 1))
    limbs = sums.sum_integers(numbers, weights, np.zeros(len(terms), np.int64), 1)
    total = sum(number * weight for number, weight in terms)
    assert sums.as_integers(limbs, 1) == [total]
    assert sums.as_longs(limbs, 1).to_pylist() == [total if -(2**63) <= total < 2**63 else None]


@given(st.lists(st.decimals(-(10**30), 10**30, places=4, allow_nan=False), max_size=20))
def test_sums_of_decimals_are_exact(terms: list[Decimal]) -> None:
    column = pa.array(terms, pa.decimal128(38, 4))
    ones, zeros = np.ones(len(terms), np.int64), np.zeros(len(terms), np.int64)
    limbs = sums.sum_decimals(column, ones, zeros, 1)
    assert sums.as_integers(limbs, 1) == [sum(int(Fraction(term) * 10**4) for term in terms)]
