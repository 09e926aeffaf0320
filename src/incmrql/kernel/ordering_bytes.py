"""The order of rows within a key: a word for each row that sorts like it, and bytes for ties.

    order_words   from the first column: eight bytes, most significant first, null least
    order_bytes   canonical bytes, column after column; those of a falling column are inverted

A word never contradicts the bytes.  It is a function of the row alone, so rows of all runs
compare; `decides` says where no two different rows have the same word.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from incmrql.kernel.encoding import (
    Encoded,
    Piece,
    Words,
    binary,
    escaped,
    float_words,
    integer_words,
    joined,
    piece_of,
)
from incmrql.kernel.form import Form
from incmrql.kernel.keys import Keys, Mask
from incmrql.types.model import (
    BOOL,
    DATE,
    EXACT_SUM,
    STRING,
    TIMESTAMP,
    Decimal,
    Record,
    Tuple,
    Type,
    is_float,
    is_integer,
)
from incmrql.types.model import (
    Any as AnyType,
)

_LONG_DIGITS: Final = 18
"""Digits of a decimal that always fit a word."""
_DROPPED_BITS: Final = 32
"""Bits of a wider decimal that its word leaves out."""
_TOP: Final = np.uint64(1 << 63)
_ALL: Final = np.uint64((1 << 64) - 1)
_WORD: Final = 8


def order_words(rest: Keys, descending: tuple[bool, ...]) -> Words:
    """A word for each row that sorts like it, as far as it goes."""
    words = _words(rest.columns[0], rest.types[0])
    return ~words if descending[0] else words


def order_bytes(rest: Keys, descending: tuple[bool, ...] | None) -> Encoded:
    """Bytes for each row that sort like it; canonical ones if the order does not matter."""
    if descending is None:
        return rest.encoded()
    pieces = [
        _inverted(piece_of(column, type_)) if falls else piece_of(column, type_)
        for column, type_, falls in zip(rest.columns, rest.types, descending, strict=True)
    ]
    return Encoded(pieces[0] if len(pieces) == 1 else joined(pieces, len(rest)))


def decides(form: Form, words: Words) -> Mask:
    """Which words no other row of the same key can have."""
    if form.descending is None or len(form.rest) > 1 or not _fits(form.rest[0]):
        return np.zeros(len(words), np.bool_)
    sure: Mask = words != (_ALL if form.descending[0] else np.uint64(0))
    return sure


def _fits(type_: Type) -> bool:
    if isinstance(type_, Decimal):
        return type_.precision <= _LONG_DIGITS
    return is_integer(type_) or is_float(type_) or type_ in (BOOL, DATE, TIMESTAMP)


def _words(column: Any, type_: Type) -> Words:
    """Words of a column; that of null is 0."""
    if column.null_count == 0:
        return _valid_words(column, type_)
    words = np.zeros(len(column), np.uint64)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if valid.any():
        words[valid] = _valid_words(column.filter(pa.array(valid)), type_)
    return words


def _valid_words(column: Any, type_: Type) -> Words:
    match type_:
        case Decimal(precision, scale):
            return _decimal_words(column.cast(pa.decimal128(precision, scale)), precision)
        case Tuple((first, *_)) | Record(((_, first), *_)):
            return _words(column.field(0), first)
        case _ if is_integer(type_) or type_ in (DATE, TIMESTAMP):
            return integer_words(column)
        case _ if is_float(type_):
            return float_words(column)
        case _ if type_ == BOOL:
            bits: Words = column.to_numpy(zero_copy_only=False).astype(np.uint64)
            return bits + np.uint64(1)
        case _ if type_ in (STRING, EXACT_SUM):
            return _leading(escaped(column), 0)
        case _:
            return _leading(binary(piece_of(column, type_)), 0 if isinstance(type_, AnyType) else 1)


def _decimal_words(column: Any, precision: int) -> Words:
    """The unscaled number; of a wide one the middle bits, the nearest word if it is beyond."""
    raw = np.frombuffer(column.buffers()[1], np.int64)
    low, high = raw[2 * column.offset :][: 2 * len(column)].reshape(-1, 2).T
    if precision <= _LONG_DIGITS:
        return low.view(np.uint64) ^ _TOP
    limit = 1 << (63 - _DROPPED_BITS)
    near = (high >= -limit) & (high < limit)
    middle = (high << _DROPPED_BITS) | (low.view(np.uint64) >> np.uint64(_DROPPED_BITS)).view(
        np.int64
    )
    least, greatest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    far = np.where(high < 0, least, greatest)
    return np.where(near, middle, far).view(np.uint64) ^ _TOP


def _leading(strings: Any, skipped: int) -> Words:
    """Eight bytes of each byte string as a number, with zeros after its end."""
    if not len(strings):
        return np.zeros(0, np.uint64)
    _, offsets, data = strings.buffers()
    ends = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    some = data is not None and data.size
    content = np.frombuffer(data, np.uint8) if some else np.zeros(1, np.uint8)
    index = (ends[:-1] + skipped)[:, None] + np.arange(_WORD)
    taken = content[np.minimum(index, len(content) - 1)]
    taken[index >= ends[1:, None]] = 0
    words: Words = taken.view(">u8").ravel().astype(np.uint64)
    return words


def _inverted(piece: Piece) -> Piece:
    """Bytes that sort in the reverse order, as no piece is the beginning of another."""
    if isinstance(piece, np.ndarray):
        return ~piece
    _, offsets, data = piece.buffers()
    turned = None if data is None else pa.py_buffer(~np.frombuffer(data, np.uint8))
    buffers = [None, offsets, turned]
    return pa.Array.from_buffers(piece.type, len(piece), buffers, offset=piece.offset)
