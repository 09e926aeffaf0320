"""Exact sums of doubles as byte strings, each sum in its one form.

    place of the first digit (4 bytes) | digits in base 2**32 (4 bytes each) | counts, if any

so that a sum that one node passes to another is one column, equal sums are equal bytes, and
whole columns are packed and unpacked at once.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.values.exact.scalar import BITS, ExactSum, digits_of
from incmrql.values.exact.sums import Integers, Limbs

_COUNTED: Final = 1 << 16
"""The flag of sums some of whose terms were not finite; the counts stand behind the digits."""
_COUNTS: Final = 6
"""Words that three counts of 64 bits take."""


def pack(limbs: Limbs, counts: tuple[Integers, Integers, Integers] | None, n: int) -> Any:
    """Sums, by their carried digits and the counts of infinities and NaNs, as byte strings."""
    first, last = min(limbs, default=0), max(limbs, default=-1)
    width = last - first + 1
    words = np.zeros((n, 1 + width + _COUNTS), np.int32)
    kept = np.zeros(words.shape, np.bool_)
    for place, column in limbs.items():
        words[:, 1 + place - first] = column
    if width:
        nonzero = words[:, 1 : 1 + width] != 0
        some = nonzero.any(axis=1)
        low = np.where(some, nonzero.argmax(axis=1), 0)
        high = np.where(some, width - 1 - nonzero[:, ::-1].argmax(axis=1), -1)
        places = np.arange(width)
        kept[:, 1 : 1 + width] = (places >= low[:, None]) & (places <= high[:, None])
        words[:, 0] = np.where(some, first + low, 0)
    kept[:, 0] = True
    if counts is not None:
        counted = (counts[0] != 0) | (counts[1] != 0) | (counts[2] != 0)
        for i, each in enumerate(counts):
            words[:, 1 + width + 2 * i] = (each & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
            words[:, 2 + width + 2 * i] = each >> BITS
        kept[:, 1 + width :] = counted[:, None]
        words[:, 0] |= np.where(counted, _COUNTED, 0).astype(np.int32)
    lengths = 4 * kept.sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    data = np.ascontiguousarray(words[kept])
    return pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def unpack(column: Any) -> tuple[Limbs, tuple[Integers, Integers, Integers]]:
    """The digits of sums, none of which is null, and the counts of infinities and NaNs."""
    n = len(column)
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + n + 1]
    nothing = tuple(np.zeros(n, np.int64) for _ in range(3))
    if not n:
        return {}, nothing  # type: ignore[return-value]
    words = np.frombuffer(column.buffers()[2], np.int32)[offsets[0] // 4 : offsets[-1] // 4]
    starts = (offsets[:-1] - offsets[0]) // 4
    lengths = np.diff(offsets) // 4
    heads = words[starts]
    counted = (heads & _COUNTED) != 0
    places = (heads & (_COUNTED - 1)).astype(np.int64)
    digits = lengths - 1 - np.where(counted, _COUNTS, 0)
    limbs: Limbs = {}
    for step in range(int(digits.max(initial=0))):
        rows = np.flatnonzero(digits > step)
        values, at = words[starts[rows] + 1 + step], places[rows] + step
        for place in np.unique(at).tolist():
            here = at == place
            limbs.setdefault(place, np.zeros(n, np.int64))[rows[here]] = values[here]
    return limbs, _counts(words, starts + 1 + digits, counted, n)


def _counts(
    words: npt.NDArray[np.int32], at: Any, counted: npt.NDArray[np.bool_], n: int
) -> tuple[Integers, Integers, Integers]:
    found = [np.zeros(n, np.int64) for _ in range(3)]
    rows = np.flatnonzero(counted)
    for i, each in enumerate(found):
        low = words[at[rows] + 2 * i].astype(np.int64) & 0xFFFFFFFF
        each[rows] = low | (words[at[rows] + 2 * i + 1].astype(np.int64) << BITS)
    return found[0], found[1], found[2]


def pack_one(total: ExactSum) -> bytes:
    """The bytes of one sum."""
    digits = digits_of(total.units)
    place = next((i for i, digit in enumerate(digits) if digit), 0)
    counts = (total.infinite, total.minus_infinite, total.nan)
    head = place | (_COUNTED if any(counts) else 0)
    tail = struct.pack("<3q", *counts) if any(counts) else b""
    return struct.pack(f"<{1 + len(digits) - place}i", head, *digits[place:]) + tail


def unpack_one(data: bytes) -> ExactSum:
    """The sum that some bytes are."""
    head = struct.unpack_from("<i", data)[0]
    counts = struct.unpack("<3q", data[-24:]) if head & _COUNTED else (0, 0, 0)
    stop = len(data) - (24 if head & _COUNTED else 0)
    digits = struct.unpack(f"<{stop // 4 - 1}i", data[4:stop])
    place = head & (_COUNTED - 1)
    units = sum(digit << (BITS * (place + i)) for i, digit in enumerate(digits))
    return ExactSum(units, *counts)
