"""`hash64` and `bucket` of whole columns, with the same bits.

The words of all keys are mixed together, one cache-sized chunk at a time, and then summed per key.
So a long text costs no more per byte than many short ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.values.hashing.scalar import FIRST, SECOND, SEED, WORD, start

Hashes: TypeAlias = npt.NDArray[np.uint64]
_Indexes: TypeAlias = npt.NDArray[np.int64]

CHUNK: Final = 1 << 14
"""Words mixed at a time: they and the intermediate results stay in the cache."""

FEW_KEYS: Final = 512
"""With more keys than this, the short ones are hashed in groups of equal length."""
SHORT_WORDS: Final = 16
"""The most words of a short key."""
_MASKS: Final = np.array([-1, *((1 << 8 * n) - 1 for n in range(1, WORD))], np.int64).view(
    np.uint64
)
"""The bits of a key's last word that are the key's own, by its length modulo 8."""


_SEED: Final = np.uint64(SEED)
_SHIFT: Final = np.uint64(33)
_FIRST: Final = np.uint64(FIRST)
_SECOND: Final = np.uint64(SECOND)


def hash_rows(rows: npt.NDArray[np.uint8]) -> Hashes:
    """`hash64` of every row of an array of shape (n, width)."""
    count, width = rows.shape
    words = -(-width // WORD)
    if words > count:  # few and wide
        starts = np.arange(count) * width
        return _hash_buffer(rows.ravel(), starts, np.full(count, width))
    hashes = np.full(count, start(width), np.uint64)
    for first in range(0, count, CHUNK):
        chunk = rows[first : first + CHUNK]
        padded = np.zeros((len(chunk), words * WORD), np.uint8)
        padded[:, :width] = chunk
        columns = padded.view("<u8")
        for index, key in enumerate(_word_keys(0, words)):
            hashes[first : first + CHUNK] += _mix(columns[:, index] ^ key)
    return hashes


def hash_bytes(keys: pa.Array | Sequence[bytes]) -> Hashes:
    """`hash64` of every byte string."""
    array = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.large_binary())
    content, starts = _content(array.cast(pa.large_binary()))
    used = content[starts[0] : starts[-1]]
    return _hash_buffer(used, starts[:-1] - starts[0], np.diff(starts))


@dataclass(frozen=True, slots=True)
class _KeyWords:
    """The words of many byte strings in one buffer."""

    word_at: Hashes
    """The word at every byte of the buffer; the last word of a key may reach into the next key."""
    starts: _Indexes
    lengths: _Indexes
    counts: _Indexes

    def take(self, keys: _Indexes) -> _KeyWords:
        """The words of some of the keys."""
        return _KeyWords(self.word_at, self.starts[keys], self.lengths[keys], self.counts[keys])


def _hash_buffer(content: npt.NDArray[np.uint8], starts: _Indexes, lengths: _Indexes) -> Hashes:
    hashes = _mix(lengths.astype(np.uint64) + _SEED)
    padded = np.concatenate([content, np.zeros(WORD, np.uint8)])
    word_at: Hashes = np.ndarray((len(content) + 1,), "<u8", padded, strides=(1,))
    counts = (lengths + (WORD - 1)) >> 3
    key_words = _KeyWords(word_at, starts, lengths, counts)
    if len(counts) <= FEW_KEYS:
        _add_word_sums(hashes, np.arange(len(counts)), key_words)
        return hashes
    for count in range(1, SHORT_WORDS + 1):
        chosen = np.flatnonzero(counts == count)
        for first in range(0, len(chosen), CHUNK):
            chunk = chosen[first : first + CHUNK]
            hashes[chunk] += _word_sums(key_words.take(chunk), count)
    long = np.flatnonzero(counts > SHORT_WORDS)
    if len(long):
        _add_word_sums(hashes, long, key_words.take(long))
    return hashes


def _word_sums(key_words: _KeyWords, count: int) -> Hashes:
    """The sums over the words of keys that all have `count` words."""
    sums = np.zeros(len(key_words.starts), np.uint64)
    for index, key in enumerate(_word_keys(0, count)):
        words = key_words.word_at[key_words.starts + WORD * index]
        if index == count - 1:
            words &= _MASKS[key_words.lengths & 7]
        words ^= key
        sums += _mix(words)
    return sums


def _add_word_sums(hashes: Hashes, keys: _Indexes, key_words: _KeyWords) -> None:
    """Add the sums over the words of keys of any length to their hashes."""
    starts, lengths, counts = key_words.starts, key_words.lengths, key_words.counts
    ends = np.cumsum(counts)
    for first, last, a, b in _word_chunks(ends):
        if first == last:  # within one long key
            index = a - int(ends[first] - counts[first])
            at = int(starts[first]) + WORD * index
            words = key_words.word_at[at : at + WORD * (b - a) : WORD].copy()
            if b == ends[first]:
                words[-1] &= _MASKS[lengths[first] & 7]
            words ^= _word_keys(index, index + b - a)
            hashes[keys[first : first + 1]] += np.add.reduce(_mix(words))
            continue
        chunk = slice(first, last + 1)
        before = ends[chunk] - counts[chunk]
        counts_here = np.minimum(ends[chunk], b) - np.maximum(before, a)
        present = np.flatnonzero(counts_here)
        owner = np.repeat(np.arange(len(counts_here)), counts_here)
        indexes = np.arange(a, b) - before[owner]
        words = key_words.word_at[starts[chunk][owner] + WORD * indexes]
        whole = present[ends[chunk][present] <= b]
        words[ends[chunk][whole] - 1 - a] &= _MASKS[lengths[chunk][whole] & 7]
        words ^= (indexes + 1).view(np.uint64) * _SEED
        offsets = np.cumsum(counts_here) - counts_here
        hashes[keys[chunk][present]] += np.add.reduceat(_mix(words), offsets[present])


def _word_chunks(ends: _Indexes) -> Iterator[tuple[int, int, int, int]]:
    """The first and last key, the first word and the end of each chunk of words."""
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.append(np.arange(0, total, CHUNK), total)
    firsts = np.searchsorted(ends, cuts[:-1], "right")
    lasts = np.searchsorted(ends, cuts[1:] - 1, "right")
    yield from zip(
        firsts.tolist(), lasts.tolist(), cuts[:-1].tolist(), cuts[1:].tolist(), strict=True
    )


def _word_keys(start_: int, stop: int) -> Hashes:
    """The constants that words are XORed with by their index, so that their order matters."""
    return np.arange(start_ + 1, stop + 1, dtype=np.uint64) * _SEED


def buckets(hashes: Hashes, count: int) -> npt.NDArray[np.int32]:
    """`bucket` of every hash."""
    half = np.uint64(32)
    return ((hashes >> half) * np.uint64(count) >> half).astype(np.int32)


def _mix(words: Hashes) -> Hashes:
    """`mix` of each word; the words themselves are overwritten."""
    shifted = words >> _SHIFT
    words ^= shifted
    words *= _FIRST
    np.right_shift(words, _SHIFT, out=shifted)
    words ^= shifted
    words *= _SECOND
    np.right_shift(words, _SHIFT, out=shifted)
    words ^= shifted
    return words


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
