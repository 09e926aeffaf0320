"""Keys: their bytes, hashes and groups."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.engine.columns.keys import Keys, key_bytes, same_keys
from incmrql.engine.store.sorting import TableSchema, decides, group, order_bytes, order_words
from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import to_arrow
from incmrql.types.model import (
    ANY,
    BOOL,
    BYTE,
    DATE,
    DOUBLE,
    EXACT_SUM,
    FLOAT,
    INT,
    LONG,
    NOTHING,
    STRING,
    TIMESTAMP,
    Record,
    Tuple,
    Type,
    bag,
)
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Record as RecordValue
from incmrql.values import canonical, encode, hash64

TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.just("\0"), max_size=5)
RECORD = Record((("a", STRING), ("b\0", Tuple((DOUBLE,)))))
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    BOOL: st.booleans(),
    BYTE: st.integers(-128, 127),
    INT: st.integers(-(2**31), 2**31 - 1),
    LONG: st.integers(-(2**63), 2**63 - 1),
    FLOAT: st.floats(width=32),
    DOUBLE: st.floats(),
    STRING: TEXT,
    DATE: st.dates(date(1, 1, 1), date(9999, 12, 31)),
    TIMESTAMP: st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
    DecimalType(38, 2): st.decimals(-(10**35), 10**35, places=2).map(Decimal),
    DecimalType(8, 2): st.decimals(-1000, 1000, places=2),
    Tuple((INT, STRING)): st.tuples(st.none() | st.integers(0, 9), TEXT),
    Tuple(()): st.just(()),
    NOTHING: st.none(),
    RECORD: st.builds(
        lambda a, b: RecordValue.of(RECORD.names, [a, b]),
        st.none() | TEXT,
        st.none() | st.tuples(st.none() | st.floats()),
    ),
    ANY: st.integers(-3, 3) | TEXT | st.booleans(),
    bag(INT): st.lists(st.integers(0, 3), max_size=3),
}


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[Type], list[tuple[Any, ...]]]:
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    nullable = draw(st.booleans())
    values = [VALUES[type_] | st.none() if nullable else VALUES[type_] for type_ in types]
    return types, draw(st.lists(st.tuples(*values), max_size=6))


def arrow(types: list[Type], rows: list[tuple[Any, ...]]) -> list[Any]:
    return [
        pa.array([to_arrow(row[i], type_) for row in rows], arrow_type(type_))
        for i, type_ in enumerate(types)
    ]


@given(columns())
def test_columns_have_the_canonical_bytes_and_hashes_of_their_values(
    case: tuple[list[Type], list[tuple[Any, ...]]],
) -> None:
    types, rows = case
    keys = key_bytes(arrow(types, rows), types)
    wanted = [encode(canonical(_as_values(row, types))) for row in rows]
    assert keys.bytes_at(np.arange(len(rows))) == wanted
    assert keys.hashes().tolist() == [hash64(key) for key in wanted]


def _as_values(row: tuple[Any, ...], types: list[Type]) -> tuple[Any, ...]:
    from incmrql.values import Bag

    return tuple(
        Bag(value) if isinstance(value, list) and type_ == bag(INT) else value
        for value, type_ in zip(row, types, strict=True)
    )


@given(st.lists(st.integers(0, 20), max_size=60), st.sampled_from([1, 2, 3, 1000]))
def test_groups_are_by_key_whatever_the_hash(numbers: list[int], spread: int) -> None:
    """With a deliberately weak hash too, which many keys share."""
    keys = Keys((pa.array(numbers, pa.int32()),), (INT,))
    hashes = np.array([number % spread for number in numbers], np.uint64)
    groups = group(hashes, keys)
    numbers_by_group = [numbers[i] for i in groups.firsts]
    assert numbers_by_group == sorted(set(numbers), key=lambda number: (number % spread, number))
    assert [numbers_by_group[i] for i in groups.of_row] == numbers


def test_no_columns_are_one_key() -> None:
    keys = key_bytes([], [], 3)
    assert keys.bytes_at(np.arange(3)) == [encode(())] * 3
    assert keys.hashes().tolist() == [hash64(encode(()))] * 3


@given(st.lists(st.none() | st.binary(max_size=3), max_size=8))
def test_exact_sums_are_told_apart_by_their_bytes(sums: list[bytes | None]) -> None:
    keys = key_bytes([pa.array(sums, pa.binary())], [EXACT_SUM]).bytes_at(np.arange(len(sums)))
    for one, mine in zip(sums, keys, strict=True):
        for two, yours in zip(sums, keys, strict=True):
            assert (mine == yours) == (one == two)
            assert (mine < yours) == ((one is not None, one or b"") < (two is not None, two or b""))


@given(columns(), st.data())
def test_keys_are_the_same_where_their_bytes_are(
    case: tuple[list[Type], list[tuple[Any, ...]]], data: st.DataObject
) -> None:
    types, rows = case
    keys = Keys(tuple(arrow(types, rows)), tuple(types))
    places = st.lists(st.integers(0, len(rows) - 1), min_size=9, max_size=9)
    one, two = (np.array(data.draw(places if rows else st.just([])), np.int64) for _ in range(2))
    bytes_ = [encode(canonical(_as_values(row, types))) for row in rows]
    wanted = [bytes_[i] == bytes_[j] for i, j in zip(one, two, strict=True)]
    assert same_keys(keys, one, keys, two).tolist() == wanted


@given(columns(), st.lists(st.booleans(), min_size=3, max_size=3))
def test_words_and_bytes_sort_like_the_values(
    case: tuple[list[Type], list[tuple[Any, ...]]], falls: list[bool]
) -> None:
    """The words of two rows never contradict their bytes, and differ where they must."""
    types, rows = case
    descending = tuple(falls[: len(types)])
    rest = Keys(tuple(arrow(types, rows)), tuple(types))
    words = order_words(rest, descending)
    bytes_ = order_bytes(rest, descending).bytes_at(np.arange(len(rows)))
    sure = decides(TableSchema((), tuple(types), descending), words)
    single = [[encode(canonical(value)) for value in _as_values(row, types)] for row in rows]
    for i, one in enumerate(single):
        for j, two in enumerate(single):
            first = next((k for k in range(len(types)) if one[k] != two[k]), None)
            before = first is not None and (one[first] < two[first]) != descending[first]
            assert (bytes_[i] < bytes_[j]) == before
            assert not before or words[i] <= words[j]
            assert first is None or words[i] != words[j] or not sure[i]


@pytest.mark.parametrize("nulls", [False, True])
def test_keys_with_and_without_nulls_compare(nulls: bool) -> None:
    one = key_bytes([pa.array([1, 2, None if nulls else 3], pa.int32())], [INT])
    two = key_bytes([pa.array([1, 5, 3], pa.int32())], [INT])
    assert one.equal(two).tolist() == [True, False, not nulls]
