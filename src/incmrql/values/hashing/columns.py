"""`hash64` and `bucket` of whole columns, the same bits.

The words of all keys are mixed together, a cache full at a time, and added up key by key.  So a
long text costs no more per byte than many short ones.
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
_Places: TypeAlias = npt.NDArray[np.int64]

CHUNK: Final = 1 << 14
"""Words that are mixed at a time: they and what is computed from them stay in the cache."""

MANY: Final = 512
"""More keys than this are hashed by the number of their words, if that is small."""
SHORT: Final = 16
"""Words of a small key."""
_MASKS: Final = np.array([-1, *((1 << 8 * n) - 1 for n in range(1, WORD))], np.int64).view(
    np.uint64
)
"""The bits of a key's last word that are the key's own, by its length modulo 8."""


_SEED: Final = np.uint64(SEED)
_SHIFT: Final = np.uint64(33)
_FIRST: Final = np.uint64(FIRST)
_SECOND: Final = np.uint64(SECOND)


def hash_fixed(rows: npt.NDArray[np.uint8]) -> Hashes:
    """`hash64` of every row of an array of shape (n, width)."""
    count, width = rows.shape
    words = -(-width // WORD)
    if words > count:  # few and wide
        starts = np.arange(count) * width
        return _hash_stretches(rows.ravel(), starts, np.full(count, width))
    hashes = np.full(count, start(width), np.uint64)
    for first in range(0, count, CHUNK):
        some = rows[first : first + CHUNK]
        padded = np.zeros((len(some), words * WORD), np.uint8)
        padded[:, :width] = some
        columns = padded.view("<u8")
        for place, key in enumerate(_word_keys(0, words)):
            hashes[first : first + CHUNK] += _mix(columns[:, place] ^ key)
    return hashes


def hash_many(keys: pa.Array | Sequence[bytes]) -> Hashes:
    """`hash64` of every byte string."""
    array = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.large_binary())
    content, starts = _content(array.cast(pa.large_binary()))
    used = content[starts[0] : starts[-1]]
    return _hash_stretches(used, starts[:-1] - starts[0], np.diff(starts))


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Stretches of bytes, and the words that each of them has."""

    everywhere: Hashes
    """A word from every byte on; the last one of a stretch may reach beyond it."""
    starts: _Places
    lengths: _Places
    counts: _Places

    def take(self, places: _Places) -> _Stretches:
        """Some of the stretches."""
        return _Stretches(
            self.everywhere, self.starts[places], self.lengths[places], self.counts[places]
        )


def _hash_stretches(content: npt.NDArray[np.uint8], starts: _Places, lengths: _Places) -> Hashes:
    hashes = _mix(lengths.astype(np.uint64) + _SEED)
    padded = np.concatenate([content, np.zeros(WORD, np.uint8)])
    everywhere: Hashes = np.ndarray((len(content) + 1,), "<u8", padded, strides=(1,))
    counts = (lengths + (WORD - 1)) >> 3
    stretches = _Stretches(everywhere, starts, lengths, counts)
    if len(counts) <= MANY:
        _add_long(hashes, np.arange(len(counts)), stretches)
        return hashes
    for count in range(1, SHORT + 1):
        chosen = np.flatnonzero(counts == count)
        for first in range(0, len(chosen), CHUNK):
            some = chosen[first : first + CHUNK]
            hashes[some] += _short_sums(stretches.take(some), count)
    long = np.flatnonzero(counts > SHORT)
    if len(long):
        _add_long(hashes, long, stretches.take(long))
    return hashes


def _short_sums(stretches: _Stretches, count: int) -> Hashes:
    """The sums over the words of stretches that all have the same number of them."""
    sums = np.zeros(len(stretches.starts), np.uint64)
    for place, key in enumerate(_word_keys(0, count)):
        words = stretches.everywhere[stretches.starts + WORD * place]
        if place == count - 1:
            words &= _MASKS[stretches.lengths & 7]
        words ^= key
        sums += _mix(words)
    return sums


def _add_long(hashes: Hashes, keys: _Places, stretches: _Stretches) -> None:
    """Add the sums over the words of stretches of any lengths to the hashes of their keys."""
    starts, lengths, counts = stretches.starts, stretches.lengths, stretches.counts
    ends = np.cumsum(counts)
    for first, last, a, b in _chunks(ends):
        if first == last:  # within one long key
            place = a - int(ends[first] - counts[first])
            at = int(starts[first]) + WORD * place
            words = stretches.everywhere[at : at + WORD * (b - a) : WORD].copy()
            if b == ends[first]:
                words[-1] &= _MASKS[lengths[first] & 7]
            words ^= _word_keys(place, place + b - a)
            hashes[keys[first : first + 1]] += np.add.reduce(_mix(words))
            continue
        some = slice(first, last + 1)
        before = ends[some] - counts[some]
        here = np.minimum(ends[some], b) - np.maximum(before, a)
        filled = np.flatnonzero(here)
        of = np.repeat(np.arange(len(here)), here)
        places = np.arange(a, b) - before[of]
        words = stretches.everywhere[starts[some][of] + WORD * places]
        whole = filled[ends[some][filled] <= b]
        words[ends[some][whole] - 1 - a] &= _MASKS[lengths[some][whole] & 7]
        words ^= (places + 1).view(np.uint64) * _SEED
        offsets = np.cumsum(here) - here
        hashes[keys[some][filled]] += np.add.reduceat(_mix(words), offsets[filled])


def _chunks(ends: _Places) -> Iterator[tuple[int, int, int, int]]:
    """The first and the last key, the first word and the end of each stretch of words."""
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.append(np.arange(0, total, CHUNK), total)
    firsts = np.searchsorted(ends, cuts[:-1], "right")
    lasts = np.searchsorted(ends, cuts[1:] - 1, "right")
    yield from zip(
        firsts.tolist(), lasts.tolist(), cuts[:-1].tolist(), cuts[1:].tolist(), strict=True
    )


def _word_keys(start_: int, stop: int) -> Hashes:
    """What the words at places are mixed with, so that their order matters."""
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
