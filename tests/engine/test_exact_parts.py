"""Exact sums as byte strings: one form each, the same by columns and by values."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from incmrql.engine.columns import accumulators
from incmrql.engine.columns.accumulators import Lift, lift_rows, scaled_sums
from incmrql.reference.aggregates import pack_part, sum_part_value, unpack_part
from incmrql.types.model import EXACT_SUM
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Data, ExactSum, exact_sum
from incmrql.values.exact import sums
from incmrql.values.exact.packed import pack, unpack

doubles = st.floats(allow_nan=False, allow_infinity=False)
counts = st.sampled_from([0, 0, 0, 1, -2, 1 << 20])
groups = st.lists(
    st.tuples(st.lists(doubles, max_size=5), st.tuples(counts, counts, counts)), max_size=6
)


def part(terms: list[float], infinite: tuple[int, int, int]) -> Data:
    part_value = sum_part_value(ExactSum(exact_sum(terms).units, *infinite), EXACT_SUM)
    assert isinstance(part_value, Data)
    return part_value


def column(given: list[tuple[list[float], tuple[int, int, int]]]) -> object:
    numbers = np.array([x for terms, _ in given for x in terms], np.float64)
    of = np.array([n for n, (terms, _) in enumerate(given) for _ in terms], np.int64)
    limbs = sums.sum_doubles(numbers, np.ones(len(of), np.int64), of, len(given))
    inf, ninf, nan = (np.array([pair[1][i] for pair in given], np.int64) for i in range(3))
    return pack(limbs, (inf, ninf, nan), len(given))


@given(groups)
def test_columns_and_values_have_the_same_bytes(
    given: list[tuple[list[float], tuple[int, int, int]]],
) -> None:
    wanted = [part(*pair) for pair in given]
    packed = column(given).to_pylist()  # type: ignore[attr-defined]
    assert packed == [pack_part(part_value) for part_value in wanted]
    assert [unpack_part(packed_part) for packed_part in packed] == wanted


@given(groups)
def test_what_is_unpacked_is_what_was_packed(
    given: list[tuple[list[float], tuple[int, int, int]]],
) -> None:
    before = column(given)
    limbs, infinite = unpack(before)
    assert pack(sums.carry_limbs(limbs), infinite, len(given)).equals(before)
    cut = before.slice(len(given) // 2)  # type: ignore[attr-defined]
    limbs, infinite = unpack(cut)
    assert pack(limbs, infinite, len(cut)).to_pylist() == cut.to_pylist()


@given(groups, st.data())
def test_sums_of_sums(
    given: list[tuple[list[float], tuple[int, int, int]]], data: st.DataObject
) -> None:
    """Parts times weights, added up: by the accumulator over columns, and by scaled sums."""
    n = len(given)
    weights = data.draw(st.lists(st.integers(-3, 1 << 33), min_size=n, max_size=n))
    of = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    totals = [ExactSum.zero] * 3
    for (terms, infinite), weight, group in zip(given, weights, of, strict=True):
        one = ExactSum(exact_sum(terms).units, *infinite)
        totals[group] = totals[group].add(one.scaled(weight))
    times, at = np.array(weights, np.int64), np.array(of, np.int64)
    columns = [column(given), pa.array(np.ones(n, np.int64))]
    lift = Lift(0, "parts", (0, 1), EXACT_SUM)
    directly = lift_rows(lift, columns, times, at, 3)
    singly = lift_rows(lift, columns, np.ones(n, np.int64), np.arange(n), n)
    for lifted in (directly, scaled_sums(singly, np.arange(n), times, at, 3)):
        limbs = {int(name[4:]): c for name, c in lifted.items() if name.startswith("a0.l")}
        nothing = np.zeros(3, np.int64)
        inf, ninf, nan = (lifted.get(f"a0.{name}", nothing) for name in ("inf", "ninf", "nan"))
        packed_ = pack(sums.carry_limbs(limbs), (inf, ninf, nan), 3)
        assert [unpack_part(packed_part) for packed_part in packed_.to_pylist()] == [
            sum_part_value(total, EXACT_SUM) for total in totals
        ]


def test_a_decimal_sum_with_one_digit_too_many_is_null() -> None:
    units = np.array([10**13 - 1, 1 - 10**13, 10**13, -(10**13)], np.int64)
    limbs = sums.sum_integers(units, np.ones(4, np.int64), np.arange(4), 4)
    total = accumulators._decimals(limbs, 4, DecimalType(13, 2))
    assert total.to_pylist() == [Decimal("99999999999.99"), Decimal("-99999999999.99"), None, None]
