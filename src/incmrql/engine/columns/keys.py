"""Keys as columns: the canonical bytes of each row (as `values.encode` gives them), and hashes.

    encoded(columns, types)[i]  =  encode((columns[0][i], columns[1][i], ...))

Columns of numbers and times without nulls give a matrix of bytes, which is hashed and compared
as it is; strings and nulls give byte strings.  Bags and lists go value by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal as DecimalValue
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from incmrql.io.arrow.columns import column_values
from incmrql.io.arrow.types import arrow_type
from incmrql.types.model import (
    BOOL,
    DATE,
    EXACT_SUM,
    NOTHING,
    STRING,
    TIMESTAMP,
    Data,
    Decimal,
    Record,
    Tuple,
    Type,
    is_float,
    is_integer,
)
from incmrql.types.model import Any as AnyType
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import encode
from incmrql.values import encoding as tags
from incmrql.values.encoding import encode_text
from incmrql.values.hashing.columns import Hashes, hash_fixed, hash_many

Matrix: TypeAlias = npt.NDArray[np.uint8]
Piece: TypeAlias = Any
"""A matrix with a row of bytes for each value, or an Arrow array of byte strings."""

Words: TypeAlias = npt.NDArray[np.uint64]

_SIGN: Final = np.uint64(tags.SIGN)
_TEXT_END: Final = b"\x00\x00"
_WHOLE: Final[dict[Type, bytes]] = {DATE: tags.DATE, TIMESTAMP: tags.TIMESTAMP}


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
            same = pc.equal(binary(one), binary(two)).to_numpy(zero_copy_only=False)
        return same

    def precedes(self, other: Encoded) -> npt.NDArray[np.bool_]:
        """Which keys come before those of another, place by place."""
        less = pc.less(binary(self.piece), binary(other.piece))
        before: npt.NDArray[np.bool_] = less.to_numpy(zero_copy_only=False)
        return before

    def ranks(self) -> npt.NDArray[np.int64]:
        """The place of each key among the different ones, in their order."""
        if isinstance(self.piece, np.ndarray):
            order = np.lexsort(_words(self.piece)[::-1])
        else:
            order = pc.sort_indices(self.piece).to_numpy().astype(np.int64)
        sorted_ = self.take(order).piece
        new = ~Encoded(sorted_[1:]).equal(Encoded(sorted_[:-1]))
        ranks = np.zeros(len(order), np.int64)
        ranks[order[1:]] = np.cumsum(new)
        return ranks

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


def encoded(columns: Sequence[Any], types: Sequence[Type], count: int | None = None) -> Encoded:
    """The canonical bytes of the tuple of the columns, for every row; `count` if there are none."""
    pieces = [piece_of(column, type_) for column, type_ in zip(columns, types, strict=True)]
    size = len(columns[0]) if columns else count or 0
    return Encoded(joined([tags.TUPLE, *pieces, tags.END], size))


def piece_of(column: Any, type_: Type) -> Piece:
    """The canonical bytes of each value of a column."""
    if type_ == NOTHING or pa.types.is_null(column.type):
        return np.full((len(column), 1), tags.NULL[0], np.uint8)
    if column.null_count == 0:
        return _valid(column, type_)
    if isinstance(type_, Tuple | Record):
        valid = binary(_valid(column, type_))
    elif (filler := _filler(column.type)) is not None:
        valid = binary(_valid(column.fill_null(filler), type_))
    else:
        return _one_by_one(column, type_)
    return pc.if_else(column.is_null(), pa.scalar(tags.NULL, pa.large_binary()), valid)


def _valid(column: Any, type_: Type) -> Piece:
    """The bytes of values none of which is null; where a struct is null, those of its fields."""
    if is_integer(type_) or type_ in (DATE, TIMESTAMP):
        return _tagged(_WHOLE.get(type_, tags.INTEGER), _big_endian(integer_words(column)))
    if is_float(type_):
        return _tagged(tags.FLOAT, _big_endian(float_words(column)))
    if type_ == BOOL:
        bits = column.to_numpy(zero_copy_only=False).astype(np.uint8)
        return _tagged(tags.BOOL, bits[:, None])
    if isinstance(type_, Decimal):
        return _tagged(tags.DECIMAL, _decimals(column))
    if type_ in (STRING, EXACT_SUM):
        return joined([tags.STRING, escaped(column), _TEXT_END], len(column))
    if isinstance(type_, Data | AnyType):
        return column.cast(pa.large_binary())
    if isinstance(type_, Tuple | Record):
        return _fields(column, type_)
    return _one_by_one(column, type_)


def _fields(column: Any, type_: Tuple | Record) -> Piece:
    if pa.types.is_boolean(column.type):  # there are no fields
        body = tags.TUPLE if isinstance(type_, Tuple) else tags.RECORD
        return joined([body + tags.END], len(column))
    if isinstance(type_, Tuple):
        inner = [piece_of(column.field(i), item) for i, item in enumerate(type_.items)]
        return joined([tags.TUPLE, *inner, tags.END], len(column))
    inner = [piece_of(column.field(i), type_) for i, (_, type_) in enumerate(type_.fields)]
    header = b"".join([b"\x01" + encode_text(name) for name in type_.names])
    return joined([tags.RECORD + header + tags.END, *inner], len(column))


def _one_by_one(column: Any, type_: Type) -> Piece:
    return pa.array([encode(value) for value in column_values(column, type_)], pa.large_binary())


def integer_words(column: Any) -> Words:
    """Whole numbers, days or microseconds as words that sort like them; none is null."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    numbers: npt.NDArray[np.int64] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers.view(np.uint64) ^ _SIGN


def float_words(column: Any) -> Words:
    """Floating point numbers as words that sort like them; none is null."""
    numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
    numbers = np.where(np.isnan(numbers), np.float64("nan"), numbers)
    bits = np.ascontiguousarray(numbers).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits ^ _SIGN)


def _decimals(column: Any) -> Matrix:
    """Multiples of 10**-38 in 256 bits: what Arrow holds for the widest decimal, turned round."""
    wide = column.cast(pa.decimal256(2 * tags.DIGITS, tags.DIGITS))
    width = tags.DECIMAL_BYTES
    raw = np.frombuffer(wide.buffers()[1], np.uint8)[wide.offset * width :][: len(wide) * width]
    matrix = raw.reshape(-1, width)[:, ::-1].copy()
    matrix[:, 0] ^= 0x80
    return matrix


def escaped(column: Any) -> Any:
    """Strings without nulls as byte strings in which each zero byte is followed by 255."""
    content = column.cast(pa.large_binary())
    if pc.any(pc.match_substring(content, pattern=b"\x00")).as_py():
        content = pc.replace_substring(content, pattern=b"\x00", replacement=b"\x00\xff")
    return content


def _big_endian(words: Words) -> Matrix:
    return words.astype(">u8").view(np.uint8).reshape(-1, 8)


def _tagged(tag: bytes, body: Matrix) -> Matrix:
    return np.concatenate([np.full((len(body), 1), tag[0], np.uint8), body], axis=1)


def joined(pieces: Sequence[Piece | bytes], count: int) -> Piece:
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
        pa.scalar(piece, pa.large_binary()) if isinstance(piece, bytes) else binary(piece)
        for piece in pieces
    ]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def binary(piece: Piece) -> Any:
    """A piece as byte strings."""
    if not isinstance(piece, np.ndarray):
        return piece
    width = piece.shape[1]
    data = pa.py_buffer(np.ascontiguousarray(piece))
    fixed = pa.Array.from_buffers(pa.binary(width), len(piece), [None, data])
    return fixed.cast(pa.large_binary())


def _words(matrix: Matrix) -> list[Words]:
    """Rows of bytes as columns of words that sort like them."""
    count, width = matrix.shape
    padded = np.zeros((count, -(-width // 8) * 8), np.uint8)
    padded[:, :width] = matrix
    words = padded.view(">u8").astype(np.uint64)
    return [words[:, i] for i in range(words.shape[1])]


def _filler(arrow: Any) -> Any:
    """Some value of an Arrow type, to stand in the places of nulls; None if that has no use."""
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        return pa.scalar(b"", pa.binary()).cast(arrow)
    if pa.types.is_boolean(arrow):
        return pa.scalar(False)
    if pa.types.is_temporal(arrow):
        width = pa.int32() if pa.types.is_date32(arrow) else pa.int64()
        return pa.scalar(0, width).cast(arrow)
    if pa.types.is_decimal(arrow):
        return pa.scalar(DecimalValue(0), arrow)
    return None if pa.types.is_nested(arrow) else pa.scalar(0).cast(arrow)


# --- Hashes and equality ---
#
# A hash is of the canonical bytes. Whether two keys are the same is seen from the columns where
# that comes to the same thing, and from the bytes elsewhere.


Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Keys:
    """Some keys: their columns and types; the canonical bytes once they are made."""

    columns: tuple[Any, ...]
    types: tuple[Type, ...]
    made: Encoded | None = field(default=None, repr=False, compare=False)
    count: int = 0
    """How many keys there are, where no column says it."""

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else self.count

    def encoded(self) -> Encoded:
        """The canonical bytes."""
        return encoded(self.columns, self.types, self.count) if self.made is None else self.made

    def with_bytes(self) -> Keys:
        """The same keys, their bytes kept at hand."""
        return Keys(self.columns, self.types, self.encoded(), self.count)

    def take(self, places: Places) -> Keys:
        """The keys at these places."""
        index = pa.array(places)
        made = None if self.made is None else self.made.take(places)
        columns = tuple(column.take(index) for column in self.columns)
        return Keys(columns, self.types, made, len(places))

    def slice(self, start: int, stop: int) -> Keys:
        """The keys from one place to another."""
        cut = tuple(column.slice(start, stop - start) for column in self.columns)
        return Keys(cut, self.types, None, stop - start)


def hash_keys(keys: Keys) -> Hashes:
    """The hash of each key."""
    return keys.encoded().hashes()


def no_keys(types: tuple[Type, ...]) -> Keys:
    """Keys of some types, of which there are none."""
    return Keys(tuple(pa.array([], arrow_type(type_)) for type_ in types), types)


def concat_keys(parts: Sequence[Keys]) -> Keys:
    """All keys of several."""
    columns = zip(*[part.columns for part in parts], strict=True)
    joined = tuple(pa.concat_arrays(list(column)) for column in columns)
    return Keys(joined, parts[0].types, None, sum(map(len, parts)))


def same_keys(one: Keys, at: Places, two: Keys, other: Places) -> Mask:
    """Which keys at places of one are those at places of another, pair by pair."""
    same = np.ones(len(at), np.bool_)
    for mine, yours, type_ in zip(one.columns, two.columns, one.types, strict=True):
        same &= _same_values(mine, at, yours, other, type_)
    return same


def _same_values(one: Any, at: Places, two: Any, other: Places, type_: Type) -> Mask:
    full = one.null_count == 0 and two.null_count == 0
    if full and (is_integer(type_) or is_float(type_) or type_ in (DATE, TIMESTAMP)):
        mine, yours = _numbers(one)[at], _numbers(two)[other]
        same: Mask = mine == yours
        return same | (np.isnan(mine) & np.isnan(yours)) if is_float(type_) else same
    mine, yours = one.take(pa.array(at)), two.take(pa.array(other))
    if type_ not in (STRING, EXACT_SUM) and not isinstance(type_, DecimalType):
        return encoded([mine], [type_]).equal(encoded([yours], [type_]))
    same = pc.equal(mine, yours).fill_null(False).to_numpy(zero_copy_only=False)
    if not full:
        same = same | pc.and_(mine.is_null(), yours.is_null()).to_numpy(zero_copy_only=False)
    return same


def _numbers(column: Any) -> Any:
    """A column of numbers or times as it lies in memory."""
    kinds = pa.types
    if kinds.is_temporal(column.type):
        column = column.view(pa.int32() if kinds.is_date32(column.type) else pa.int64())
    return column.to_numpy(zero_copy_only=True)
