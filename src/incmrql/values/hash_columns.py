"""`hash64` and `bucket` of whole columns: one NumPy operation per word, the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.values.hashing import FIRST, SECOND, WORD, start

Hashes: TypeAlias = npt.NDArray[np.uint64]


def hash_fixed(rows: npt.NDArray[np.uint8]) -> Hashes:
    """`hash64` of every row of an array of shape (n, width)."""
    count, width = rows.shape
    padded = np.zeros((count, -(-width // WORD) * WORD), np.uint8)
    padded[:, :width] = rows
    words = padded.view("<u8")
    hashes = np.full(count, start(width), np.uint64)
    for column in range(words.shape[1]):
        hashes = _mix(hashes ^ words[:, column])
    return hashes


def hash_many(keys: pa.Array | Sequence[bytes]) -> Hashes:
    """`hash64` of every byte string; those of equal length go through `hash_fixed` together."""
    array = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.large_binary())
    content, starts = _content(array.cast(pa.large_binary()))
    lengths = np.diff(starts)
    hashes = np.empty(len(lengths), np.uint64)
    for length in np.unique(lengths):
        chosen = np.flatnonzero(lengths == length)
        hashes[chosen] = hash_fixed(content[starts[chosen, None] + np.arange(length)])
    return hashes


def buckets(hashes: Hashes, count: int) -> npt.NDArray[np.int32]:
    """`bucket` of every hash."""
    half = np.uint64(32)
    return ((hashes >> half) * np.uint64(count) >> half).astype(np.int32)


def _mix(hashes: Hashes) -> Hashes:
    shift = np.uint64(33)
    hashes = (hashes ^ hashes >> shift) * np.uint64(FIRST)
    hashes = (hashes ^ hashes >> shift) * np.uint64(SECOND)
    return hashes ^ hashes >> shift


def _content(keys: Any) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of an array of large binaries, and where each starts (with a final end)."""
    if keys.null_count:
        raise ValueError("null has no bytes of its own to hash; encode it first")
    if not len(keys):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = keys.buffers()
    starts = np.frombuffer(offsets, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return content, starts
