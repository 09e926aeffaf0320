"""The one hash of the package, and the bucket that a key falls into.

    h = mix(SEED + length) + sum over i of mix(word[i] ^ SEED * (i + 1))      modulo 2**64

over the words of 8 bytes, little-endian, the last padded with 0, with `mix` the 64-bit finaliser
of MurmurHash3.  The terms do not depend on each other, so that short keys are hashed side by side
and long ones in one go (`columns.py`), with the same bits.  `mix` is one-to-one: keys that
differ in one word never share a hash.  State on disk is laid out by this hash: changing the hash
changes the format of checkpoints.
"""

from __future__ import annotations

from typing import Final

SEED: Final = 0x9E3779B97F4A7C15
FIRST: Final = 0xFF51AFD7ED558CCD
SECOND: Final = 0xC4CEB9FE1A85EC53
WORD: Final = 8
"""Bytes per word."""

_ALL_BITS: Final = (1 << 64) - 1


def hash64(data: bytes) -> int:
    """The hash of some bytes, an unsigned number of 64 bits."""
    h = start(len(data))
    for i, at in enumerate(range(0, len(data), WORD), 1):
        h += mix(int.from_bytes(data[at : at + WORD], "little") ^ SEED * i & _ALL_BITS)
    return h & _ALL_BITS


def bucket(hash_: int, count: int) -> int:
    """The bucket, of `count`, that a hash falls into: buckets share the range of hashes."""
    return (hash_ >> 32) * count >> 32


def start(length: int) -> int:
    """The term of the hash that depends on the length of the data."""
    return mix(SEED + length & _ALL_BITS)


def mix(h: int) -> int:
    """64 bits, each of which depends on all those of `h`."""
    h = (h ^ h >> 33) * FIRST & _ALL_BITS
    h = (h ^ h >> 33) * SECOND & _ALL_BITS
    return h ^ h >> 33
