"""Canonical bytes against an order of values that is written without them."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.errors import InternalError
from incmrql.values import (
    Bag,
    Data,
    LocalTime,
    Months,
    Record,
    Value,
    canonical,
    compare,
    decode,
    encode,
    identical,
    show,
    sort_values,
)
from tests.values.strategies import LONG_MAX, LONG_MIN, any_pairs, bags, pairs, values

KINDS = [
    *[type(None), bool, Months, int, float, Decimal, str, LocalTime, datetime, date, tuple],
    *[Record, Bag, list, Data, bytes, timedelta],
]
RANKS = [0, 1, 15, 2, 3, 4, 5, 14, 7, 6, 8, 9, 11, 10, 12, 13, 16]


def rank(value: Value) -> int:
    return next(r for kind, r in zip(KINDS, RANKS, strict=True) if isinstance(value, kind))


def plain_compare(a: Value, b: Value) -> int:
    """The order of values.md, said in Python's own comparisons."""
    if rank(a) != rank(b):
        return sign(rank(a), rank(b))
    match a:
        case None:
            return 0
        case float():
            return sign(_float_key(a), _float_key(b))
        case LocalTime():
            return sign(a, b)
        case datetime():
            return sign(_in_utc(a), _in_utc(b))
        case Bag():
            in_order = cmp_to_key(plain_compare)
            return compare_sequences(sorted(a, key=in_order), sorted(b, key=in_order))
        case tuple() | list():
            return compare_sequences(a, b)
        case Record():
            names = sign(a.names_, b.names_)
            return names or compare_sequences(a.values_, b.values_)
        case Data():
            constructors = sign((a.position, a.constructor), (b.position, b.constructor))
            return constructors or plain_compare(a.content, b.content)
        case _:
            return sign(a, b)


def sign(a: Any, b: Any) -> int:
    return bool(a > b) - bool(a < b)


def compare_sequences(a: Any, b: Any) -> int:
    differences = (plain_compare(x, y) for x, y in zip(a, b, strict=False))
    return next((d for d in differences if d), sign(len(a), len(b)))


def _float_key(x: float) -> tuple[bool, float]:
    return (math.isnan(x), 0.0 if math.isnan(x) else x)


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@given(any_pairs())
def test_bytes_are_ordered_like_the_values(pair: tuple[Value, Value]) -> None:
    a, b = pair
    assert compare(a, b) == plain_compare(a, b)
    assert identical(a, b) == (plain_compare(a, b) == 0)


@given(any_pairs())
def test_no_encoding_is_the_beginning_of_another(pair: tuple[Value, Value]) -> None:
    a, b = map(encode, pair)
    assert a == b or not (a.startswith(b) or b.startswith(a))


@given(values())
def test_decoding_gives_the_value_back(value: Value) -> None:
    back = decode(encode(value))
    assert rank(back) == rank(value)
    assert plain_compare(back, value) == 0
    assert encode(back) == encode(value)


@given(values(), st.integers(0, 200))
def test_bytes_cut_short_or_with_more_behind_are_refused(value: Value, place: int) -> None:
    whole = encode(value)
    with pytest.raises(InternalError):
        decode(whole[: place % len(whole)])
    with pytest.raises(InternalError):
        decode(whole + b"\x00")


@given(bags(), st.randoms(use_true_random=False))
def test_the_order_of_a_bag_does_not_matter(bag: Bag, random: Any) -> None:
    mixed = list(bag)
    random.shuffle(mixed)
    assert encode(Bag(mixed)) == encode(bag)
    assert Bag(mixed) == bag


@given(bags())
def test_multiplicities_of_a_bag_matter(bag: Bag) -> None:
    assert encode(Bag([*bag, None])) != encode(bag)


@given(st.lists(values(3), max_size=6))
def test_ordered_is_sorted_by_the_plain_order(items: list[Value]) -> None:
    assert all(plain_compare(a, b) <= 0 for a, b in pairwise(sort_values(items)))
    assert Bag(sort_values(items)) == Bag(items)


@given(values())
def test_canonical_is_the_same_value_in_one_form(value: Value) -> None:
    form = canonical(value)
    assert identical(form, value)
    assert repr(canonical(form)) == repr(form)
    assert show(form) == show(value)
    for part in _inside(form):
        if isinstance(part, float) and part == 0:
            assert math.copysign(1.0, part) == 1.0
        if isinstance(part, datetime) and not isinstance(part, LocalTime):
            assert part.tzinfo is UTC
        if isinstance(part, Bag):
            assert all(compare(a, b) <= 0 for a, b in pairwise(part))


@given(pairs())
def test_objects_compare_and_hash_by_identity(pair: tuple[Value, Value]) -> None:
    a, b = (Data("Leaf", 0, value) for value in pair)
    assert (a == b) == identical(a, b)
    assert a != b or hash(a) == hash(b)
    left, right = (Record({"A": value}) for value in pair)
    assert (left == right) == identical(left, right)
    assert left != right or hash(left) == hash(right)


def _inside(value: Value) -> list[Value]:
    parts: list[Value] = [value]
    for part in parts:
        if isinstance(part, tuple | list):
            parts.extend(part)
        elif isinstance(part, Record):
            parts.extend(part.values_)
        elif isinstance(part, Data):
            parts.append(part.content)
    return parts


INDIA = timezone(timedelta(hours=5, minutes=30))

ASCENDING: list[Value] = [
    None,
    *[False, True],
    *[LONG_MIN, -256, -1, 0, 1, 255, 256, LONG_MAX],
    *[-math.inf, -1e308, -1.5, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1.5, 1e308, math.inf, math.nan],
    *map(Decimal, ["-1E37", "-1.5", "-1E-38", "0", "1E-38", "0.1", "1.50", "1.51", "1E37"]),
    *["", "\0", "\0\0", "\0a", "\x01", "A", "a", "a\0", "a\0b", "a\x01", "aa", "b", "\x7f", "é"],
    *["\ud7ff", "\ud800", "\udfff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"],
    *[date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)],
    *[datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1)],
    *[datetime(2026, 1, 31, 10, tzinfo=INDIA), datetime(2026, 1, 31, 10, tzinfo=UTC)],
    *[(), (None,), (None, None), (1,), (1, "a"), (1, "b"), (1, ()), (2,), (2, None), ((),)],
    *[Record(), Record({"A": None}), Record({"A": 1}), Record({"A": 2}), Record({"A": 1, "B": 1})],
    *[Record({"A": 1, "B": 2}), Record({"B": 0}), Record({"B": 0, "A": 0})],
    *[[], [None], [1], [1, 1], [1, 2], [2], [[]], [[], 1], [[1]]],
    *[Bag(), Bag([None]), Bag([1]), Bag([1, 1]), Bag([9, 1, 1]), Bag([2, 1]), Bag([2]), Bag([[]])],
    *[Data("Z", 0, 9), Data("Z", 0, "a"), Data("A", 1, 1), Data("A", 1, ()), Data("B", 256, 0)],
]


def test_the_order_of_values_table() -> None:
    encoded = list(map(encode, ASCENDING))
    assert all(a < b for a, b in pairwise(encoded))


@pytest.mark.parametrize("value", ASCENDING, ids=repr)
def test_values_of_the_table_decode(value: Value) -> None:
    assert identical(decode(encode(value)), value)


@pytest.mark.parametrize(
    ("written", "decoded"), [("1.50", "1.5"), ("100.00", "100"), ("1E+2", "100"), ("-0.0", "0")]
)
def test_decimals_decode_without_zeros_behind_the_point(written: str, decoded: str) -> None:
    assert str(decode(encode(Decimal(written)))) == decoded


def _nan(bits: int) -> float:
    nan: float = struct.unpack(">d", struct.pack(">Q", bits))[0]
    return nan


SAME: list[tuple[Value, Value]] = [
    (0.0, -0.0),
    (math.nan, _nan(0x7FF0000000000001)),
    (math.nan, _nan(0xFFF8000000000000)),
    ([(0.0,)], [(-0.0,)]),
    (Bag([1, 2]), Bag([2, 1])),
    (Bag([Bag([1, 2]), Bag()]), Bag([Bag(), Bag([2, 1])])),
    (Bag([-0.0, math.nan]), Bag([-math.nan, 0.0])),
    (Decimal("1.50"), Decimal("1.5")),
    (Decimal("100"), Decimal("1E+2")),
    (Decimal("-0.00"), Decimal(0)),
    (datetime(2026, 1, 31, 10), datetime(2026, 1, 31, 15, 30, tzinfo=INDIA)),
    (np.float64(1.5), 1.5),
    (Record({"A": Bag([1, 2])}), Record({"A": Bag([2, 1])})),
]

DIFFERENT: list[tuple[Value, Value]] = [
    (1, 1.0),
    (1, Decimal(1)),
    (1.0, Decimal(1)),
    (1, True),
    (0, False),
    (0, None),
    ("1", 1),
    ([1, 2], [2, 1]),
    ([1], Bag([1])),
    ([1], (1,)),
    (Bag([1]), Bag([1, 1])),
    (Record({"A": 1}), Record({"a": 1})),
    (Record({"A": 1, "B": 2}), Record({"B": 2, "A": 1})),
    (Record({"A": 1}), (1,)),
    (date(2026, 1, 31), datetime(2026, 1, 31)),
    (Data("A", 0, 1), Data("A", 1, 1)),
    (Data("A", 0, 1), Data("B", 0, 1)),
    ("\ud800\udc00", "\U00010000"),
    (["a", "b"], ["ab"]),
    ([["a"], "b"], [["a", "b"]]),
]


@pytest.mark.parametrize(("a", "b"), SAME, ids=repr)
def test_these_are_one_value(a: Value, b: Value) -> None:
    assert identical(a, b)
    assert show(canonical(a)) == show(canonical(b)) or isinstance(a, Decimal)


@pytest.mark.parametrize(("a", "b"), DIFFERENT, ids=repr)
def test_these_are_two_values(a: Value, b: Value) -> None:
    assert not identical(a, b)


@pytest.mark.parametrize(
    "thing",
    [
        *[{"A": 1}, bytearray(b"bytes"), {1}, len, 1j, 2**63, -(2**63) - 1, [2**63], Bag([{}])],
        *[Decimal("1E+38"), Decimal("1E-39"), Decimal("NaN"), Decimal("0." + "0" * 99 + "1")],
        *[Decimal("0.1" + "0" * 200 + "1"), Decimal("Infinity"), Decimal("1E+999999")],
        *[Data("A", 1 << 16, 1), Data("A", -1, 1), datetime(1, 1, 1, tzinfo=INDIA)],
    ],
    ids=lambda thing: repr(thing)[:40],
)
def test_what_is_not_a_value_is_refused(thing: object) -> None:
    with pytest.raises(InternalError):
        encode(thing)


def test_a_dict_is_refused_with_the_way_out() -> None:
    with pytest.raises(InternalError, match=r"dict is not a value.*Record\("):
        encode([{"A": 1}])


WRAPPERS: dict[str, Callable[[Value], Value]] = {
    "tuple": lambda value: (value, 1),
    "list": lambda value: [1, value],
    "bag": lambda value: Bag([value]),
    "record": lambda value: Record({"A": value}),
    "data": lambda value: Data("Node", 1, value),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_thousand_levels_take_two_frames_each(wrap: Callable[[Value], Value]) -> None:
    value: Value = 0
    for _ in range(1000):
        value = wrap(value)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_depth() + 2 * 1000 + 60)
    try:
        assert encode(decode(encode(value))) == encode(value)
        assert encode(canonical(value)) == encode(value)
        assert show(value).count("1") >= 0
    finally:
        sys.setrecursionlimit(limit)


def _depth() -> int:
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    return depth
