"""Keys as columns: their hashes, and which of them are the same.

A hash is of the canonical bytes.  Whether two keys are the same is seen from the columns where
that comes to the same thing, and from the bytes elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from incmrql.formats.arrow_types import arrow_type
from incmrql.kernel.encoding import Encoded, encoded
from incmrql.types.model import DATE, EXACT_SUM, STRING, TIMESTAMP, Type, is_float, is_integer
from incmrql.types.model import Decimal as DecimalType
from incmrql.values.hash_columns import Hashes

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
