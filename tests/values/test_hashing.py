"""One hash: column by column it has the same bits as one by one, and it never changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.values import bucket, encode, hash64
from incmrql.values.hash_columns import buckets, hash_fixed, hash_many
from tests.values.strategies import values

GOLDEN = {
    b"": 0x9CA066F1A4AB2EEA,
    b"\x00": 0xC6FFE416E9A5DFEE,
    b"a": 0xA70E84D52B813287,
    b"12345678": 0x2B38C9D0B5ECFCC0,
    b"123456789": 0xF24EE62CC18A6FDF,
    bytes(range(33)): 0xB514E9CC55D10A5A,
    b"\t\x03\x80\x00\x00\x00\x00\x00\x00\x01\x06a\x00\x00\x00": 0xC996D80ECDA810EB,
    b"\x01": 0x378CB22F6CA5D76D,
}


@pytest.mark.parametrize(("data", "expected"), GOLDEN.items(), ids=repr)
def test_the_hash_never_changes(data: bytes, expected: int) -> None:
    assert hash64(data) == expected


@given(st.integers(0, 40).flatmap(lambda n: st.lists(st.binary(min_size=n, max_size=n))))
def test_rows_of_one_width(rows: list[bytes]) -> None:
    width = len(rows[0]) if rows else 3
    table = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), width)
    assert hash_fixed(table).tolist() == [hash64(row) for row in rows]


def surrounded(keys: list[bytes], kind: Any) -> Any:
    return pa.array([b"before", *keys, b"after"], kind)


FORMS: dict[str, Callable[[list[bytes]], Any]] = {
    "list": lambda keys: keys,
    "binary": lambda keys: pa.array(keys, pa.binary()),
    "large binary": lambda keys: pa.array(keys, pa.large_binary()),
    "slice": lambda keys: surrounded(keys, pa.binary()).slice(1, len(keys)),
    "large slice": lambda keys: surrounded(keys, pa.large_binary()).slice(1, len(keys)),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(st.lists(st.one_of(st.binary(max_size=40), values(4).map(encode)), max_size=12))
def test_many_at_once(form: Callable[[list[bytes]], Any], keys: list[bytes]) -> None:
    hashes = hash_many(form(keys))
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == [hash64(key) for key in keys]


def test_null_is_not_hashed_without_its_bytes() -> None:
    with pytest.raises(ValueError, match="null"):
        hash_many(pa.array([b"a", None], pa.binary()))


@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=10),
    st.one_of(st.integers(1, 20), st.integers(1, 2**31 - 1)),
)
def test_buckets_at_once(hashes: list[int], count: int) -> None:
    one_by_one = [bucket(h, count) for h in hashes]
    assert buckets(np.array(hashes, np.uint64), count).tolist() == one_by_one
    assert all(0 <= b < count for b in one_by_one)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(1, 1000))
def test_buckets_are_ranges_of_hashes(a: int, b: int, count: int) -> None:
    assert (bucket(min(a, b), count)) <= bucket(max(a, b), count)


KEYS: dict[str, Callable[[int], Any]] = {
    "counting": lambda i: i,
    "strides": lambda i: i * 65536,
    "doubles": float,
    "pairs": lambda i: (i % 100, f"name {i // 100}"),
}


@pytest.mark.parametrize("count", [2, 7, 16, 64])
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_regular_keys_spread_over_the_buckets(key: Callable[[int], Any], count: int) -> None:
    hashes = hash_many([encode(key(i)) for i in range(20_000)])
    sizes = np.bincount(buckets(hashes, count), minlength=count)
    expected = 20_000 / count
    assert np.all(np.abs(sizes - expected) < 5 * np.sqrt(expected))


def test_every_bit_of_the_input_moves_half_of_the_output() -> None:
    data = bytes(range(24))
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        assert 12 <= (hash64(data) ^ hash64(bytes(changed))).bit_count() <= 52


def test_length_counts() -> None:
    assert len({hash64(bytes(n)) for n in range(100)}) == 100
