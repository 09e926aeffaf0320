"""Canonical bytes of whole columns, the same bytes as `values.encode` has for each value.

    encoded(columns, types)[i]  =  encode((columns[0][i], columns[1][i], ...))

Columns of numbers and times without nulls give a matrix of bytes, which is hashed and compared
as it is; strings and nulls give byte strings.  What has no rule here goes value by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal as DecimalValue
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from incmrql.kernel.columns import column_values
from incmrql.types.model import (
    BOOL,
    DATE,
    STRING,
    TIMESTAMP,
    Decimal,
    Tuple,
    Type,
    is_float,
    is_integer,
    is_scalar,
)
from incmrql.values import encode
from incmrql.values import encoding as tags
from incmrql.values.hash_columns import Hashes, hash_fixed, hash_many

Matrix: TypeAlias = npt.NDArray[np.uint8]
Piece: TypeAlias = Any
"""A matrix with a row of bytes for each value, or an Arrow array of byte strings."""

_SIGN: Final = np.uint64(tags.SIGN)


@dataclass(frozen=True, slots=True)
class Encoded:
    """The canonical bytes of some keys."""

    piece: Piece

    def __len__(self) -> int:
        return len(self.piece)

    def take(self, places: npt.NDArray[np.int64]) -> Encoded:
        """The bytes of the keys at these places."""
        if isinstance(self.piece, np.ndarray):
            return Encoded(self.piece[places])
        return Encoded(self.piece.take(pa.array(places)))

    def equal(self, other: Encoded) -> npt.NDArray[np.bool_]:
        """Which keys are the same, place by place."""
        one, two = self.piece, other.piece
        same: npt.NDArray[np.bool_]
        if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
            if one.shape[1] != two.shape[1]:
                return np.zeros(len(one), np.bool_)
            same = (one == two).all(axis=1)
        else:
            same = pc.equal(_binary(one), _binary(two)).to_numpy(zero_copy_only=False)
        return same

    def hashes(self) -> Hashes:
        """The hash of each key."""
        if isinstance(self.piece, np.ndarray):
            return hash_fixed(self.piece)
        return hash_many(self.piece)

    def bytes_at(self, places: npt.NDArray[np.int64]) -> list[bytes]:
        """The bytes themselves."""
        taken = self.take(places).piece
        if isinstance(taken, np.ndarray):
            return [row.tobytes() for row in taken]
        found: list[bytes] = taken.to_pylist()
        return found


def encoded(columns: Sequence[Any], types: Sequence[Type]) -> Encoded:
    """The canonical bytes of the tuple of the columns, for every row."""
    pieces = [_piece(column, type_) for column, type_ in zip(columns, types, strict=True)]
    return Encoded(_joined([tags.TUPLE, *pieces, tags.END], len(columns[0])))


def _piece(column: Any, type_: Type) -> Piece:
    if column.null_count == 0:
        return _valid(column, type_)
    if not is_scalar(type_):  # a null tuple has no items to look at
        return _one_by_one(column, type_)
    valid = _binary(_valid(column.fill_null(_filler(column.type)), type_))
    return pc.if_else(column.is_null(), pa.scalar(tags.NULL, pa.large_binary()), valid)


def _valid(column: Any, type_: Type) -> Piece:
    """The bytes of values none of which is null."""
    if is_integer(type_):
        return _tagged(tags.INTEGER, _integers(column.cast(pa.int64())))
    if type_ == DATE:
        return _tagged(tags.DATE, _integers(column.cast(pa.int32()).cast(pa.int64())))
    if type_ == TIMESTAMP:
        return _tagged(tags.TIMESTAMP, _integers(column.cast(pa.int64())))
    if is_float(type_):
        return _tagged(tags.FLOAT, _floats(column))
    if type_ == BOOL:
        bits = column.to_numpy(zero_copy_only=False).astype(np.uint8)
        return _tagged(tags.BOOL, bits[:, None])
    if isinstance(type_, Decimal):
        return _tagged(tags.DECIMAL, _decimals(column))
    if type_ == STRING:
        return _strings(column)
    if isinstance(type_, Tuple) and type_.items:
        inner = [_piece(column.field(i), item) for i, item in enumerate(type_.items)]
        return _joined([tags.TUPLE, *inner, tags.END], len(column))
    return _one_by_one(column, type_)


def _one_by_one(column: Any, type_: Type) -> Piece:
    return pa.array([encode(value) for value in column_values(column, type_)], pa.large_binary())


def _integers(column: Any) -> Matrix:
    return _big_endian(column.to_numpy(zero_copy_only=False).view(np.uint64) ^ _SIGN)


def _floats(column: Any) -> Matrix:
    numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
    numbers = np.where(np.isnan(numbers), np.float64("nan"), numbers)
    bits = np.ascontiguousarray(numbers).view(np.uint64)
    return _big_endian(np.where(bits & _SIGN, ~bits, bits ^ _SIGN))


def _decimals(column: Any) -> Matrix:
    """Multiples of 10**-38 in 256 bits: what Arrow holds for the widest decimal, turned round."""
    wide = column.cast(pa.decimal256(2 * tags.DIGITS, tags.DIGITS))
    width = tags.DECIMAL_BYTES
    raw = np.frombuffer(wide.buffers()[1], np.uint8)[wide.offset * width :][: len(wide) * width]
    matrix = raw.reshape(-1, width)[:, ::-1].copy()
    matrix[:, 0] ^= 0x80
    return matrix


def _strings(column: Any) -> Piece:
    content = column.cast(pa.large_binary())
    if pc.any(pc.match_substring(content, pattern=b"\x00")).as_py():
        content = pc.replace_substring(content, pattern=b"\x00", replacement=b"\x00\xff")
    return _joined([tags.STRING, content, b"\x00\x00"], len(column))


def _big_endian(words: npt.NDArray[np.uint64]) -> Matrix:
    return words.astype(">u8").view(np.uint8).reshape(-1, 8)


def _tagged(tag: bytes, body: Matrix) -> Matrix:
    return np.concatenate([np.full((len(body), 1), tag[0], np.uint8), body], axis=1)


def _joined(pieces: Sequence[Piece | bytes], count: int) -> Piece:
    """Pieces and fixed bytes, one after the other."""
    if all(isinstance(piece, bytes | np.ndarray) for piece in pieces):
        columns = [
            np.tile(np.frombuffer(piece, np.uint8), (count, 1))
            if isinstance(piece, bytes)
            else piece
            for piece in pieces
        ]
        return np.concatenate(columns, axis=1)
    parts = [
        pa.scalar(piece, pa.large_binary()) if isinstance(piece, bytes) else _binary(piece)
        for piece in pieces
    ]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def _binary(piece: Piece) -> Any:
    """A piece as byte strings."""
    if not isinstance(piece, np.ndarray):
        return piece
    width = piece.shape[1]
    data = pa.py_buffer(np.ascontiguousarray(piece))
    fixed = pa.Array.from_buffers(pa.binary(width), len(piece), [None, data])
    return fixed.cast(pa.large_binary())


def _filler(arrow: Any) -> Any:
    """Some value of an Arrow type, to stand in the places of nulls."""
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        return pa.scalar(b"", pa.binary()).cast(arrow)
    if pa.types.is_boolean(arrow):
        return pa.scalar(False)
    if pa.types.is_temporal(arrow):
        width = pa.int32() if pa.types.is_date32(arrow) else pa.int64()
        return pa.scalar(0, width).cast(arrow)
    if pa.types.is_decimal(arrow):
        return pa.scalar(DecimalValue(0), arrow)
    return pa.scalar(0).cast(arrow)
