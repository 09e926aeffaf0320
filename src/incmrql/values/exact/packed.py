"""Exact sums of doubles as byte strings, each sum in its only form.

    position of the first digit (4 bytes) | digits in base 2**32 (4 bytes each) | counts, if any

A sum that one node passes to another is one column, equal sums are equal bytes, and whole columns
are packed and unpacked at once.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.values.exact.scalar import BITS, ExactSum, digits_of
from incmrql.values.exact.sums import Integers, Limbs

_HAS_COUNTS: Final = 1 << 16
"""The flag in the first word of sums with terms that are not finite: counts follow the digits."""
_COUNTS: Final = 6
"""Words of three counts of 64 bits."""


def pack(limbs: Limbs, counts: tuple[Integers, Integers, Integers] | None, n: int) -> Any:
    """Sums, by their carried digits and the counts of infinities and NaNs, as byte strings."""
    first, last = min(limbs, default=0), max(limbs, default=-1)
    width = last - first + 1
    words = np.zeros((n, 1 + width + _COUNTS), np.int32)
    used = np.zeros(words.shape, np.bool_)
    for position, column in limbs.items():
        words[:, 1 + position - first] = column
    if width:
        nonzero = words[:, 1 : 1 + width] != 0
        some = nonzero.any(axis=1)
        low = np.where(some, nonzero.argmax(axis=1), 0)
        high = np.where(some, width - 1 - nonzero[:, ::-1].argmax(axis=1), -1)
        positions = np.arange(width)
        used[:, 1 : 1 + width] = (positions >= low[:, None]) & (positions <= high[:, None])
        words[:, 0] = np.where(some, first + low, 0)
    used[:, 0] = True
    if counts is not None:
        counted = (counts[0] != 0) | (counts[1] != 0) | (counts[2] != 0)
        for i, count in enumerate(counts):
            words[:, 1 + width + 2 * i] = (count & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
            words[:, 2 + width + 2 * i] = count >> BITS
        used[:, 1 + width :] = counted[:, None]
        words[:, 0] |= np.where(counted, _HAS_COUNTS, 0).astype(np.int32)
    lengths = 4 * used.sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    data = np.ascontiguousarray(words[used])
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
    counted = (heads & _HAS_COUNTS) != 0
    firsts = (heads & (_HAS_COUNTS - 1)).astype(np.int64)
    digits = lengths - 1 - np.where(counted, _COUNTS, 0)
    limbs: Limbs = {}
    for step in range(int(digits.max(initial=0))):
        rows = np.flatnonzero(digits > step)
        values, positions = words[starts[rows] + 1 + step], firsts[rows] + step
        for position in np.unique(positions).tolist():
            here = positions == position
            limbs.setdefault(position, np.zeros(n, np.int64))[rows[here]] = values[here]
    return limbs, _counts(words, starts + 1 + digits, counted, n)


def _counts(
    words: npt.NDArray[np.int32], at: Any, counted: npt.NDArray[np.bool_], n: int
) -> tuple[Integers, Integers, Integers]:
    columns = [np.zeros(n, np.int64) for _ in range(3)]
    rows = np.flatnonzero(counted)
    for i, column in enumerate(columns):
        low = words[at[rows] + 2 * i].astype(np.int64) & 0xFFFFFFFF
        column[rows] = low | (words[at[rows] + 2 * i + 1].astype(np.int64) << BITS)
    return columns[0], columns[1], columns[2]


def pack_sum(total: ExactSum) -> bytes:
    """The bytes of one sum."""
    digits = digits_of(total.units)
    first = next((i for i, digit in enumerate(digits) if digit), 0)
    counts = (total.infinite, total.minus_infinite, total.nan)
    head = first | (_HAS_COUNTS if any(counts) else 0)
    tail = struct.pack("<3q", *counts) if any(counts) else b""
    return struct.pack(f"<{1 + len(digits) - first}i", head, *digits[first:]) + tail


def unpack_sum(data: bytes) -> ExactSum:
    """The sum that `pack_sum` packed."""
    head = struct.unpack_from("<i", data)[0]
    counts = struct.unpack("<3q", data[-24:]) if head & _HAS_COUNTS else (0, 0, 0)
    stop = len(data) - (24 if head & _HAS_COUNTS else 0)
    digits = struct.unpack(f"<{stop // 4 - 1}i", data[4:stop])
    first = head & (_HAS_COUNTS - 1)
    units = sum(digit << (BITS * (first + i)) for i, digit in enumerate(digits))
    return ExactSum(units, *counts)
