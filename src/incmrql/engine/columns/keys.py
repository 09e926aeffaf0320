"""Keys as columns: the canonical bytes of each row (as `values.encode` gives them), and hashes.

    key_bytes(columns, types)[i]  =  encode((columns[0][i], columns[1][i], ...))

Columns of numbers and times without nulls become a matrix of bytes, which is hashed and compared
directly; strings, nulls, bags and lists become byte strings.
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
from incmrql.io.by_row import note_by_row
from incmrql.types.model import (
    BINARY,
    BOOL,
    DATE,
    EXACT_SUM,
    NOTHING,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Collection,
    Data,
    Decimal,
    Record,
    Tuple,
    Type,
    is_day_time,
    is_float,
    is_integer,
    is_year_month,
)
from incmrql.types.model import Any as AnyType
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import encode
from incmrql.values import encoding as tags
from incmrql.values.encoding import encode_text
from incmrql.values.hashing.columns import Hashes, hash_bytes, hash_rows

Matrix: TypeAlias = npt.NDArray[np.uint8]
Piece: TypeAlias = Any
"""A matrix with a row of bytes for each value, or an Arrow array of byte strings."""

Words: TypeAlias = npt.NDArray[np.uint64]

_SIGN: Final = np.uint64(tags.SIGN)
_TEXT_END: Final = b"\x00\x00"
_TIME_TAGS: Final[dict[Type, bytes]] = {
    DATE: tags.DATE,
    TIMESTAMP: tags.TIMESTAMP,
    TIMESTAMP_NTZ: tags.LOCAL_TIME,
}


def whole_number_tag(type_: Type) -> bytes | None:
    """The tag of values that columns hold as whole numbers; None for all other types."""
    if is_integer(type_):
        return tags.INTEGER
    if is_year_month(type_):
        return tags.MONTHS
    return tags.DURATION if is_day_time(type_) else _TIME_TAGS.get(type_)


@dataclass(frozen=True, slots=True)
class KeyBytes:
    """The canonical bytes of keys."""

    piece: Piece

    def __len__(self) -> int:
        return len(self.piece)

    def take(self, indices: npt.NDArray[np.int64]) -> KeyBytes:
        """The bytes of the keys at these indices."""
        if isinstance(self.piece, np.ndarray):
            return KeyBytes(self.piece[indices])
        return KeyBytes(self.piece.take(pa.array(indices)))

    def equal(self, other: KeyBytes) -> npt.NDArray[np.bool_]:
        """Which keys are the same, pair by pair."""
        left, right = self.piece, other.piece
        same: npt.NDArray[np.bool_]
        if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
            if left.shape[1] != right.shape[1]:
                return np.zeros(len(left), np.bool_)
            same = (left == right).all(axis=1)
        else:
            same = pc.equal(binary(left), binary(right)).to_numpy(zero_copy_only=False)
        return same

    def precedes(self, other: KeyBytes) -> npt.NDArray[np.bool_]:
        """Which keys sort before the other keys, pair by pair."""
        less = pc.less(binary(self.piece), binary(other.piece))
        before: npt.NDArray[np.bool_] = less.to_numpy(zero_copy_only=False)
        return before

    def ranks(self) -> npt.NDArray[np.int64]:
        """The rank of each key among the distinct keys."""
        if isinstance(self.piece, np.ndarray):
            order = np.lexsort(_sort_words(self.piece)[::-1])
        else:
            order = pc.sort_indices(self.piece).to_numpy().astype(np.int64)
        sorted_ = self.take(order).piece
        new = ~KeyBytes(sorted_[1:]).equal(KeyBytes(sorted_[:-1]))
        ranks = np.zeros(len(order), np.int64)
        ranks[order[1:]] = np.cumsum(new)
        return ranks

    def hashes(self) -> Hashes:
        """The hash of each key."""
        if isinstance(self.piece, np.ndarray):
            return hash_rows(self.piece)
        return hash_bytes(self.piece)

    def bytes_at(self, indices: npt.NDArray[np.int64]) -> list[bytes]:
        """The bytes of the keys at these indices, as Python values."""
        taken = self.take(indices).piece
        if isinstance(taken, np.ndarray):
            return [row.tobytes() for row in taken]
        values: list[bytes] = taken.to_pylist()
        return values


def key_bytes(columns: Sequence[Any], types: Sequence[Type], count: int | None = None) -> KeyBytes:
    """The canonical bytes of the tuple of the columns, for every row; `count` if there are none."""
    pieces = [piece_of(column, type_) for column, type_ in zip(columns, types, strict=True)]
    size = len(columns[0]) if columns else count or 0
    return KeyBytes(concat_pieces([tags.TUPLE, *pieces, tags.END], size))


def piece_of(column: Any, type_: Type) -> Piece:
    """The canonical bytes of each value of a column."""
    if type_ == NOTHING or pa.types.is_null(column.type):
        return np.full((len(column), 1), tags.NULL[0], np.uint8)
    if column.null_count == 0:
        return _piece_without_nulls(column, type_)
    if isinstance(type_, Tuple | Record | Collection):
        valid = binary(_piece_without_nulls(column, type_))
    elif (filler := _null_placeholder(column.type)) is not None:
        valid = binary(_piece_without_nulls(column.fill_null(filler), type_))
    else:
        return _piece_by_value(column, type_)
    return pc.if_else(column.is_null(), pa.scalar(tags.NULL, pa.large_binary()), valid)


def _piece_without_nulls(column: Any, type_: Type) -> Piece:
    """The bytes of values without nulls; of a null struct or list, those of what is inside."""
    if (tag := whole_number_tag(type_)) is not None:
        return _with_tag(tag, _big_endian(integer_words(column)))
    if is_float(type_):
        return _with_tag(tags.FLOAT, _big_endian(float_words(column)))
    if type_ == BOOL:
        bits = column.to_numpy(zero_copy_only=False).astype(np.uint8)
        return _with_tag(tags.BOOL, bits[:, None])
    if isinstance(type_, Decimal):
        return _with_tag(tags.DECIMAL, _decimal_bytes(column))
    if type_ in (STRING, EXACT_SUM):
        return concat_pieces([tags.STRING, escape_zeros(column), _TEXT_END], len(column))
    if type_ == BINARY:
        return concat_pieces([tags.BINARY, escape_zeros(column), _TEXT_END], len(column))
    if isinstance(type_, Data | AnyType):
        return column.cast(pa.large_binary())
    if isinstance(type_, Tuple | Record):
        return _struct_piece(column, type_)
    if isinstance(type_, Collection) and pa.types.is_list(column.type):
        return _collection_piece(column, type_)
    return _piece_by_value(column, type_)


def _struct_piece(column: Any, type_: Tuple | Record) -> Piece:
    if pa.types.is_boolean(column.type):  # there are no fields
        body = tags.TUPLE if isinstance(type_, Tuple) else tags.RECORD
        return concat_pieces([body + tags.END], len(column))
    if isinstance(type_, Tuple):
        inner = [piece_of(column.field(i), item) for i, item in enumerate(type_.items)]
        return concat_pieces([tags.TUPLE, *inner, tags.END], len(column))
    inner = [piece_of(column.field(i), type_) for i, (_, type_) in enumerate(type_.fields)]
    header = b"".join([b"\x01" + encode_text(name) for name in type_.names])
    return concat_pieces([tags.RECORD + header + tags.END, *inner], len(column))


def _collection_piece(column: Any, type_: Collection) -> Piece:
    """The bytes of the elements one after the other; those of a bag sorted."""
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    elements = binary(piece_of(column.flatten(), type_.element))
    if type_.kind == "bag":
        lists = pa.array(np.repeat(np.arange(len(column)), lengths))
        table = pa.table([lists, elements], names=["list", "element"])
        keys = [("list", "ascending"), ("element", "ascending")]
        elements = elements.take(pc.sort_indices(table, sort_keys=keys))
    ends = np.concatenate([[0], np.cumsum(lengths)])
    tag = tags.BAG if type_.kind == "bag" else tags.LIST
    if not len(elements):
        return concat_pieces([tag + tags.END], len(column))
    starts = np.frombuffer(elements.buffers()[1], np.int64)[elements.offset :][ends]
    content = pa.Array.from_buffers(
        pa.large_binary(), len(column), [None, pa.py_buffer(starts), elements.buffers()[2]]
    )
    return concat_pieces([tag, content, tags.END], len(column))


def _piece_by_value(column: Any, type_: Type) -> Piece:
    note_by_row(len(column))
    return pa.array([encode(value) for value in column_values(column, type_)], pa.large_binary())


def integer_words(column: Any) -> Words:
    """Whole numbers, days or microseconds without nulls, as words that sort the same way."""
    numbers: npt.NDArray[np.int64] = _memory_numbers(column).astype(np.int64, copy=False)
    return numbers.view(np.uint64) ^ _SIGN


def float_words(column: Any) -> Words:
    """Floating point numbers as words that sort the same way; nulls give those of NaN."""
    # Adding 0.0 makes -0.0 equal to 0.0, and all NaNs get the same bits: both are one key each.
    numbers = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False) + 0.0
    numbers = np.where(np.isnan(numbers), np.float64("nan"), numbers)
    bits = np.ascontiguousarray(numbers).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits ^ _SIGN)


def _decimal_bytes(column: Any) -> Matrix:
    """Multiples of 10**-38 in 256 bits, most significant byte first."""
    # Arrow's widest decimal holds these bits, least significant byte first. Flipping the sign bit
    # makes unsigned bytes sort like signed numbers.
    wide = column.cast(pa.decimal256(2 * tags.DIGITS, tags.DIGITS))
    width = tags.DECIMAL_BYTES
    raw = np.frombuffer(wide.buffers()[1], np.uint8)[wide.offset * width :][: len(wide) * width]
    matrix = raw.reshape(-1, width)[:, ::-1].copy()
    matrix[:, 0] ^= 0x80
    return matrix


def escape_zeros(column: Any) -> Any:
    """Strings without nulls as byte strings in which each zero byte is followed by 255."""
    content = column.cast(pa.large_binary())
    if not _content_bytes(content).all():
        content = pc.replace_substring(content, pattern=b"\x00", replacement=b"\x00\xff")
    return content


def _content_bytes(column: Any) -> npt.NDArray[np.uint8]:
    """The bytes of all values of a column of large byte strings, one after the other."""
    _, offsets, data = column.buffers()
    if not len(column) or data is None:
        return np.zeros(0, np.uint8)
    start, stop = np.frombuffer(offsets, np.int64)[[column.offset, column.offset + len(column)]]
    return np.frombuffer(data, np.uint8)[start:stop]


def _big_endian(words: Words) -> Matrix:
    return words.astype(">u8").view(np.uint8).reshape(-1, 8)


def _with_tag(tag: bytes, body: Matrix) -> Matrix:
    return np.concatenate([np.full((len(body), 1), tag[0], np.uint8), body], axis=1)


def concat_pieces(pieces: Sequence[Piece | bytes], count: int) -> Piece:
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
    count, width = piece.shape
    offsets = np.arange(count + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(piece))]
    return pa.Array.from_buffers(pa.large_binary(), count, buffers)


def _sort_words(matrix: Matrix) -> list[Words]:
    """Rows of bytes as columns of words that sort the same way."""
    count, width = matrix.shape
    padded = np.zeros((count, -(-width // 8) * 8), np.uint8)
    padded[:, :width] = matrix
    words = padded.view(">u8").astype(np.uint64)
    return [words[:, i] for i in range(words.shape[1])]


def _null_placeholder(arrow: Any) -> Any:
    """A value of an Arrow type to replace nulls; None for nested types, which have none."""
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
# Keys are hashed by their canonical bytes. They are compared by their columns where this is
# equivalent, which is faster, and by their bytes elsewhere.


Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys: their columns and types, and their canonical bytes once these are computed."""

    columns: tuple[Any, ...]
    types: tuple[Type, ...]
    cached_bytes: KeyBytes | None = field(default=None, repr=False, compare=False)
    count: int = 0
    """The number of keys, which matters only without any column."""

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else self.count

    def key_bytes(self) -> KeyBytes:
        """The canonical bytes."""
        return (
            key_bytes(self.columns, self.types, self.count)
            if self.cached_bytes is None
            else self.cached_bytes
        )

    def with_bytes(self) -> Keys:
        """The same keys, with their bytes computed."""
        return Keys(self.columns, self.types, self.key_bytes(), self.count)

    def take(self, indices: Indices) -> Keys:
        """The keys at these indices."""
        arrow_indices = pa.array(indices)
        cached_bytes = None if self.cached_bytes is None else self.cached_bytes.take(indices)
        columns = tuple(column.take(arrow_indices) for column in self.columns)
        return Keys(columns, self.types, cached_bytes, len(indices))

    def slice(self, start: int, stop: int) -> Keys:
        """The keys from `start` to `stop`."""
        cut = tuple(column.slice(start, stop - start) for column in self.columns)
        return Keys(cut, self.types, None, stop - start)


def hash_keys(keys: Keys) -> Hashes:
    """The hash of each key."""
    return keys.key_bytes().hashes()


def no_keys(types: tuple[Type, ...]) -> Keys:
    """Zero keys of these types."""
    return Keys(tuple(pa.array([], arrow_type(type_)) for type_ in types), types)


def concat_keys(parts: Sequence[Keys]) -> Keys:
    """The keys of all parts, one after the other."""
    columns = zip(*[part.columns for part in parts], strict=True)
    concat_pieces = tuple(pa.concat_arrays(list(column)) for column in columns)
    return Keys(concat_pieces, parts[0].types, None, sum(map(len, parts)))


def same_keys(left: Keys, left_rows: Indices, right: Keys, right_rows: Indices) -> Mask:
    """Which keys of the left rows equal those of the right rows, pair by pair."""
    same = np.ones(len(left_rows), np.bool_)
    for left_column, right_column, type_ in zip(
        left.columns, right.columns, left.types, strict=True
    ):
        same &= _same_values(left_column, left_rows, right_column, right_rows, type_)
    return same


def _same_values(
    left: Any, left_rows: Indices, right: Any, right_rows: Indices, type_: Type
) -> Mask:
    is_non_null = left.null_count == 0 and right.null_count == 0
    if is_non_null and (is_float(type_) or whole_number_tag(type_) is not None):
        left_values, right_values = (
            _memory_numbers(left)[left_rows],
            _memory_numbers(right)[right_rows],
        )
        same: Mask = left_values == right_values
        return same | (np.isnan(left_values) & np.isnan(right_values)) if is_float(type_) else same
    left_values, right_values = left.take(pa.array(left_rows)), right.take(pa.array(right_rows))
    if type_ not in (STRING, BINARY, EXACT_SUM) and not isinstance(type_, DecimalType):
        return key_bytes([left_values], [type_]).equal(key_bytes([right_values], [type_]))
    same = pc.equal(left_values, right_values).fill_null(False).to_numpy(zero_copy_only=False)
    if not is_non_null:
        same = same | pc.and_(left_values.is_null(), right_values.is_null()).to_numpy(
            zero_copy_only=False
        )
    return same


def _memory_numbers(column: Any) -> Any:
    """A column of numbers or times as NumPy reads it, without a copy."""
    kinds = pa.types
    if kinds.is_temporal(column.type):
        column = column.view(pa.int32() if kinds.is_date32(column.type) else pa.int64())
    return column.to_numpy(zero_copy_only=True)
