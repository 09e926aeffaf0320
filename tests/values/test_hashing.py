"""One hash: column by column it has the same bits as one by one, and it never changes.

What it is changes only together with the format of checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import permutations
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.values import bucket, encode, hash64
from incmrql.values.hashing import columns
from incmrql.values.hashing.columns import buckets, hash_bytes, hash_rows
from tests.values.strategies import values

GOLDEN = {
    b"": 0x9CA066F1A4AB2EEA,
    b"\x00": 0x829E271785EA1DBF,
    b"a": 0x2650F80919A03D66,
    b"12345678": 0xA21D8EE599165C9D,
    b"123456789": 0xF1BD8D8B5A68E53C,
    bytes(range(33)): 0x0773EAB17BD5BC4C,
    b"\t\x03\x80\x00\x00\x00\x00\x00\x00\x01\x06a\x00\x00\x00": 0xE90E24E22DE00F42,
    b"\x01": 0x0BB53620CDE7E3F5,
}


@pytest.mark.parametrize(("data", "expected"), GOLDEN.items(), ids=repr)
def test_the_hash_never_changes(data: bytes, expected: int) -> None:
    assert hash64(data) == expected


@given(st.integers(0, 40).flatmap(lambda n: st.lists(st.binary(min_size=n, max_size=n))))
def test_rows_of_one_width(rows: list[bytes]) -> None:
    width = len(rows[0]) if rows else 3
    table = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), width)
    assert hash_rows(table).tolist() == [hash64(row) for row in rows]


def array_between_others(keys: list[bytes], kind: Any) -> Any:
    return pa.array([b"before", *keys, b"after"], kind)


FORMS: dict[str, Callable[[list[bytes]], Any]] = {
    "list": lambda keys: keys,
    "binary": lambda keys: pa.array(keys, pa.binary()),
    "large binary": lambda keys: pa.array(keys, pa.large_binary()),
    "slice": lambda keys: array_between_others(keys, pa.binary()).slice(1, len(keys)),
    "large slice": lambda keys: array_between_others(keys, pa.large_binary()).slice(1, len(keys)),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(st.lists(st.one_of(st.binary(max_size=40), values(4).map(encode)), max_size=12))
def test_many_at_once(form: Callable[[list[bytes]], Any], keys: list[bytes]) -> None:
    hashes = hash_bytes(form(keys))
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == [hash64(key) for key in keys]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of five words, so that keys end within, at and after the end of a chunk."""
    monkeypatch.setattr(columns, "CHUNK", 5)
    monkeypatch.setattr(columns, "FEW_KEYS", 6)
    monkeypatch.setattr(columns, "SHORT_WORDS", 3)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("seed", range(8))
def test_keys_of_any_length_in_chunks(seed: int) -> None:
    random = Random(seed)
    for count in (1, 2, 5, 7, 20, 60):
        keys = [
            random.randbytes(random.choice([0, 1, 7, 8, 9, 39, 40, 41, 200])) for _ in range(count)
        ]
        assert hash_bytes(keys).tolist() == [hash64(key) for key in keys]
    for width in (1, 8, 39, 40, 41, 200):
        for count in (1, 3, 5, 6, 11):
            table = np.frombuffer(random.randbytes(count * width), np.uint8).reshape(count, width)
            assert hash_rows(table).tolist() == [hash64(bytes(row)) for row in table]


@pytest.mark.parametrize("length", [8 * columns.CHUNK + d for d in (-1, 0, 1, 8, 9)])
def test_texts_longer_than_a_chunk(length: int) -> None:
    text = Random(length).randbytes(length)
    assert hash_bytes([b"x", text, b"", text]).tolist() == [
        hash64(k) for k in (b"x", text, b"", text)
    ]


def test_long_texts_are_hashed_at_the_speed_of_memory() -> None:
    """Hundreds of megabytes a second; a word at a time in Python is less than ten."""
    texts = pa.array([bytes(n) for n in (4_000_000, 10_001, 1_000_003)], pa.large_binary())
    many, few = 5_011_004, 100_000

    def seconds(work: Callable[[], object]) -> float:
        """Of the processor, for others use the machine too."""
        start = time.thread_time()
        work()
        return time.thread_time() - start

    by_word = min(seconds(lambda: hash64(bytes(few))) for _ in range(3)) / few
    at_once = min(seconds(lambda: hash_bytes(texts)) for _ in range(5)) / many
    assert by_word > 6 * at_once


def test_null_is_not_hashed_without_its_bytes() -> None:
    with pytest.raises(ValueError, match="null"):
        hash_bytes(pa.array([b"a", None], pa.binary()))


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
    hashes = hash_bytes([encode(key(i)) for i in range(20_000)])
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


def test_pairs_of_regular_words_do_not_collide() -> None:
    """Words are added up: sums of the mixed words of a grid are all different."""
    side = np.arange(1000, dtype="<u8")
    grid = np.stack(np.meshgrid(side, side << np.uint64(32)), axis=-1).reshape(-1, 2)
    assert len(np.unique(hash_rows(grid.view(np.uint8)))) == 1_000_000


def test_the_order_of_words_counts() -> None:
    words = [bytes([n]) * 8 for n in range(1, 7)]
    assert len({hash64(b"".join(some)) for some in permutations(words)}) == 720


def test_long_texts_that_differ_in_a_bit() -> None:
    """No two of the hashes are the same, and their bits are ones as often as zeros."""
    text = np.zeros((2000, 400), np.uint8)
    text[np.arange(2000), np.arange(2000) // 8 % 400] ^= 1 << np.arange(2000, dtype=np.uint8) % 8
    hashes = hash_rows(text)
    assert len(np.unique(hashes)) == 2000
    ones = np.unpackbits(hashes.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=0)
    assert np.all(np.abs(ones - 1000.0) < 5 * np.sqrt(500))
