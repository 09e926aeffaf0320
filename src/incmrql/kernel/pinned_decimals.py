"""Arithmetic of decimal columns: exact, by Python's integers, and rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any as Arrow
from typing import Final

import numpy as np
import pyarrow as pa

from incmrql.types.model import Decimal, Type

_WORD: Final = 1 << 64


def decimals(
    op: str, arguments: Sequence[Arrow], types: Sequence[Type], result: Type
) -> Arrow | None:
    """`a op b` of two columns of decimals, null where there is no result."""
    left, right = types
    if not (isinstance(left, Decimal) and isinstance(right, Decimal)):
        return None
    if not isinstance(result, Decimal):
        return None
    known = np.logical_and(
        *(array.is_valid().to_numpy(zero_copy_only=False) for array in arguments)
    )
    a, b = (_unscaled(array) for array in arguments)
    if op in "/%":
        known &= b != 0
        b = np.where(known, b, 1)
    numerator, denominator = _exact(op, (a, left.scale), (b, right.scale), result.scale)
    found = _half_up(numerator, denominator)
    known &= np.abs(found) < 10**result.precision
    return _decimals(np.where(known, found, 0), known, result)


def _exact(
    op: str, left: tuple[Arrow, int], right: tuple[Arrow, int], scale: int
) -> tuple[Arrow, Arrow]:
    """The result times 10**scale, as a fraction of integers."""
    (a, s1), (b, s2) = left, right
    if op == "*":
        return a * b * 10**scale, 10 ** (s1 + s2)
    if op == "/":
        return a * 10 ** (s2 + scale) * np.sign(b), np.abs(b) * 10**s1
    common = max(s1, s2)
    a, b = a * 10 ** (common - s1), b * 10 ** (common - s2)
    match op:
        case "+":
            exact = a + b
        case "-":
            exact = a - b
        case _:
            exact = np.sign(a) * (np.abs(a) % np.abs(b))
    return exact * 10**scale, 10**common


def _half_up(numerator: Arrow, denominator: Arrow) -> Arrow:
    """The nearest integers, halves away from zero."""
    return np.sign(numerator) * ((2 * np.abs(numerator) + denominator) // (2 * denominator))


def _unscaled(array: Arrow) -> Arrow:
    """The integers that a column of decimals is made of; 0 for null."""
    filled = array.fill_null(0)
    words = np.frombuffer(filled.buffers()[1], np.uint64).reshape(-1, 2)
    mine = words[filled.offset : filled.offset + len(filled)]
    high = mine[:, 1].view(np.int64).astype(object)
    return high * _WORD + mine[:, 0].astype(object)


def _decimals(numbers: Arrow, known: Arrow, type_: Decimal) -> Arrow:
    words = np.empty((len(numbers), 2), np.uint64)
    words[:, 0] = (numbers % _WORD).astype(np.uint64)
    words[:, 1] = (numbers // _WORD).astype(np.int64).view(np.uint64)
    validity = pa.array(known).buffers()[1]
    kind = pa.decimal128(type_.precision, type_.scale)
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(words.tobytes())])
