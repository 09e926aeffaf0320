"""The schema of a state table, and how its rows are sorted and grouped by it.

    order_words   eight bytes of the first column, most significant first, null least
    order_bytes   canonical bytes, column after column; a descending column is inverted

A word never contradicts the bytes.  It depends on the row alone, so that rows of different segments
compare; `decides` says which words belong to one row of a key only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.engine.columns.keys import (
    Indices,
    KeyBytes,
    Keys,
    Mask,
    Piece,
    Words,
    binary,
    concat_pieces,
    escape_zeros,
    float_words,
    integer_words,
    piece_of,
    same_keys,
    whole_number_tag,
)
from incmrql.types.model import (
    BINARY,
    BOOL,
    EXACT_SUM,
    STRING,
    Decimal,
    Record,
    Tuple,
    Type,
    is_float,
)
from incmrql.types.model import Any as AnyType
from incmrql.values.hashing.columns import Hashes

# --- The schema of a table ---


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a table's rows and their order.

    Rows are sorted by the hash of `keys`, then by the key itself where keys share a hash, then by
    `rest`; `keys` and `rest` together tell rows apart.
    """

    keys: tuple[Type, ...]
    """The key columns, which are hashed into buckets.  Without any, all rows share one key."""
    rest: tuple[Type, ...] = ()
    """The other columns."""
    descending: tuple[bool, ...] | None = None
    """None if the order of the rows of a key does not matter.  Otherwise, for each column of
    `rest`, whether it sorts in the exact reverse of canonical order."""
    most: int | None = None
    """A key keeps only its first rows, up to this total weight; weights are then positive."""
    last: bool = False
    """A key keeps its last rows instead of its first."""

    @property
    def ordered(self) -> bool:
        """Whether the order of the rows of a key matters."""
        return self.descending is not None


STATE_OF_A_STEP: Final = "what a step of the loop keeps"


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A state table: its schema, a description of its rows, and the node that owns it.

    A table with the rows of an answer belongs to the answer and not to a node.
    """

    name: str
    schema: TableSchema
    holds: str
    node: int | None
    answer: int | None = None


# --- Order within a key ---


_LONG_DIGITS: Final = 18
"""Digits of a decimal that always fit a word."""
_DROPPED_BITS: Final = 32
"""Low bits of a wider decimal that its word leaves out."""
_TOP: Final = np.uint64(1 << 63)
_ALL: Final = np.uint64((1 << 64) - 1)
_WORD: Final = 8


def order_words(rest: Keys, descending: tuple[bool, ...]) -> Words:
    """A word for each row: rows sort like their words, except where words are equal."""
    words = _words(rest.columns[0], rest.types[0])
    return ~words if descending[0] else words


def order_bytes(rest: Keys, descending: tuple[bool, ...] | None) -> KeyBytes:
    """Bytes for each row that sort like the row; canonical bytes if the order does not matter."""
    if descending is None:
        return rest.key_bytes()
    pieces = [
        _inverse(piece_of(column, type_)) if falls else piece_of(column, type_)
        for column, type_, falls in zip(rest.columns, rest.types, descending, strict=True)
    ]
    return KeyBytes(pieces[0] if len(pieces) == 1 else concat_pieces(pieces, len(rest)))


def decides(schema: TableSchema, words: Words) -> Mask:
    """Which words belong to only one row of their key."""
    # The word of a null is the least, which a value may have too: it decides nothing.
    if schema.descending is None or len(schema.rest) > 1 or not _fits_word(schema.rest[0]):
        return np.zeros(len(words), np.bool_)
    is_exact: Mask = words != (_ALL if schema.descending[0] else np.uint64(0))
    return is_exact


def _fits_word(type_: Type) -> bool:
    if isinstance(type_, Decimal):
        return type_.precision <= _LONG_DIGITS
    return is_float(type_) or type_ == BOOL or whole_number_tag(type_) is not None


def _words(column: Any, type_: Type) -> Words:
    """The words of a column; the word of a null is 0."""
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
        case _ if whole_number_tag(type_) is not None:
            return integer_words(column)
        case _ if is_float(type_):
            return float_words(column)
        case _ if type_ == BOOL:
            bits: Words = column.to_numpy(zero_copy_only=False).astype(np.uint64)
            return bits + np.uint64(1)
        case _ if type_ in (STRING, BINARY, EXACT_SUM):
            return _leading_words(escape_zeros(column), 0)
        case _:
            return _leading_words(
                binary(piece_of(column, type_)), 0 if isinstance(type_, AnyType) else 1
            )


def _decimal_words(column: Any, precision: int) -> Words:
    """The unscaled number; the middle bits of a wide decimal, clipped to the range of a word."""
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


def _leading_words(strings: Any, skipped: int) -> Words:
    """Eight bytes of each byte string as a number, padded with zeros."""
    if not len(strings):
        return np.zeros(0, np.uint64)
    _, offsets, data = strings.buffers()
    ends = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    has_data = data is not None and data.size
    content = np.frombuffer(data, np.uint8) if has_data else np.zeros(1, np.uint8)
    index = (ends[:-1] + skipped)[:, None] + np.arange(_WORD)
    words_bytes = content[np.minimum(index, len(content) - 1)]
    words_bytes[index >= ends[1:, None]] = 0
    words: Words = words_bytes.view(">u8").ravel().astype(np.uint64)
    return words


def _inverse(piece: Piece) -> Piece:
    """Bytes that sort in the reverse order; this holds because no piece is a prefix of another."""
    if isinstance(piece, np.ndarray):
        return ~piece
    _, offsets, data = piece.buffers()
    turned = None if data is None else pa.py_buffer(~np.frombuffer(data, np.uint8))
    buffers = [None, offsets, turned]
    return pa.Array.from_buffers(piece.type, len(piece), buffers, offset=piece.offset)


# --- Sorting and grouping ---
#
# Sorting bytes is slow, so hashes and order words are sorted as numbers first. Keys are compared
# only where hashes are equal, and other columns only where words are equal and do not decide. Rows
# are sorted by bytes only where such a comparison finds a difference, which is rare.


Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowGroups:
    """The order of rows, in which equal rows form groups."""

    rows: Indices
    """The indices of all rows, sorted."""
    starts: Indices
    """Where in `rows` each group starts."""
    key_starts: Mask
    """Which groups are the first group of their key."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def firsts(self) -> Indices:
        """The index of one row of each group."""
        return self.rows[self.starts]

    @property
    def of_row(self) -> Indices:
        """The group of each input row."""
        starting = np.zeros(len(self.rows), np.int64)
        starting[self.starts] = 1
        groups = np.empty(len(self.rows), np.int64)
        groups[self.rows] = np.cumsum(starting) - 1
        return groups

    def add_up(self, numbers: Integers) -> Integers:
        """The sum over each group."""
        if not len(self.starts):
            return np.zeros(0, np.int64)
        if len(self.starts) == len(self.rows):
            return numbers[self.rows]
        totals: Integers = np.add.reduceat(numbers[self.rows], self.starts)
        return totals


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The columns that order rows within their key."""

    schema: TableSchema
    order: Hashes
    rest: Keys


def group(
    hashes: Hashes, keys: Keys | None, within: RowOrder | None = None, *, merged: bool = False
) -> RowGroups:
    """The groups of equal rows.

    Without `keys` the hashes are the keys.  `merged` says that the rows consist of a few sorted
    parts, which a stable sort merges fast.
    """
    rows = np.argsort(hashes, kind="stable" if merged else None)
    same = _equals_previous(hashes[rows])
    if keys is not None:
        _split_ties(rows, same, np.flatnonzero(same), keys, None)
    key_starts = ~same
    if within is not None:
        _sort_within(rows, same, within)
    starts = np.flatnonzero(~same)
    return RowGroups(rows, starts, key_starts[starts])


def _sort_within(rows: Indices, same: Mask, within: RowOrder) -> None:
    words = within.order[rows]
    fallen = np.zeros(len(rows), np.bool_)
    fallen[1:] = words[1:] < words[:-1]
    fallen &= same
    if fallen.any():
        _sort_again(rows, same, fallen, lambda doubtful: within.order[doubtful])
        words = within.order[rows]
    same &= _equals_previous(words)
    tied = np.flatnonzero(same)
    tied = tied[~decides(within.schema, words[tied])]
    _split_ties(rows, same, tied, within.rest, within.schema.descending)


def _split_ties(
    rows: Indices, same: Mask, tied: Indices, keys: Keys, descending: tuple[bool, ...] | None
) -> None:
    """Compare rows that are tied with the row before them; sort and split them by their bytes."""
    if not len(tied):
        return
    different = tied[~same_keys(keys, rows[tied - 1], keys, rows[tied])]
    if not len(different):
        return
    after = order_bytes(keys.take(rows[different]), descending)
    fallen = after.precedes(order_bytes(keys.take(rows[different - 1]), descending))
    if fallen.any():
        broken = np.zeros(len(rows), np.bool_)
        broken[different] = True
        doubtful, ranks = _sort_again(
            rows, same, broken, lambda some: order_bytes(keys.take(some), descending).ranks()
        )
        same[doubtful[1:]] &= ranks[1:] == ranks[:-1]
    else:
        same[different] = False


def _sort_again(
    rows: Indices, same: Mask, broken: Mask, rank: Callable[[Indices], npt.NDArray[Any]]
) -> tuple[Indices, npt.NDArray[Any]]:
    """Sort the stretches of tied rows that have a broken row; the rows, and their ranks."""
    stretch = np.cumsum(~same)
    chosen = np.zeros(stretch[-1] + 1, np.bool_)
    chosen[stretch[broken]] = True
    doubtful = np.flatnonzero(chosen[stretch])
    ranks = rank(rows[doubtful])
    sorted_ = np.lexsort((ranks, stretch[doubtful]))
    rows[doubtful] = rows[doubtful[sorted_]]
    return doubtful, ranks[sorted_]


def _equals_previous(words: Hashes) -> Mask:
    """Which words equal the word before them."""
    same = np.zeros(len(words), np.bool_)
    same[1:] = words[1:] == words[:-1]
    return same
