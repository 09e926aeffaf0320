"""Keys as columns with their hashes: sorted, grouped, and told apart when hashes are equal.

Rows are sorted by (hash, canonical bytes).  The bytes are only made for rows whose hash is that
of a neighbour, to see whether the keys really are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.kernel.encoding import Encoded, encoded
from incmrql.types.model import Type
from incmrql.values.hash_columns import Hashes

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Keys:
    """Some keys: their columns and types; the canonical bytes once they are made."""

    columns: tuple[Any, ...]
    types: tuple[Type, ...]
    made: Encoded | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.columns[0])

    def encoded(self) -> Encoded:
        """The canonical bytes."""
        return encoded(self.columns, self.types) if self.made is None else self.made

    def with_bytes(self) -> Keys:
        """The same keys, their bytes kept at hand."""
        return Keys(self.columns, self.types, self.encoded())

    def take(self, places: Places) -> Keys:
        """The keys at these places."""
        index = pa.array(places)
        made = None if self.made is None else self.made.take(places)
        return Keys(tuple(column.take(index) for column in self.columns), self.types, made)

    def slice(self, start: int, stop: int) -> Keys:
        """The keys from one place to another."""
        cut = tuple(column.slice(start, stop - start) for column in self.columns)
        return Keys(cut, self.types)


def hash_keys(keys: Keys) -> Hashes:
    """The hash of each key."""
    return keys.encoded().hashes()


def concat_keys(parts: list[Keys]) -> Keys:
    """All keys of several."""
    columns = zip(*[part.columns for part in parts], strict=True)
    return Keys(tuple(pa.concat_arrays(list(column)) for column in columns), parts[0].types)


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows grouped by key: the sorted order, and which group each row of the input is in."""

    firsts: Places
    """A row of each group, in the order of (hash, canonical bytes)."""
    of_row: Places

    def __len__(self) -> int:
        return len(self.firsts)

    def add_up(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The sum over each group."""
        totals = np.zeros(len(self.firsts), np.int64)
        np.add.at(totals, self.of_row, numbers)
        return totals


def group(hashes: Hashes, keys: Keys) -> Groups:
    """The groups of rows with the same key."""
    order = np.argsort(hashes, kind="stable")
    starts = _starts(hashes, keys, order)
    if starts is None:
        order = _told_apart(hashes, keys, order)
        starts = _starts(hashes, keys, order, told_apart=True)
        assert starts is not None
    of_row = np.empty(len(hashes), np.int64)
    of_row[order] = np.cumsum(starts) - 1
    return Groups(order[starts], of_row)


def _starts(
    hashes: Hashes, keys: Keys, order: Places, *, told_apart: bool = False
) -> npt.NDArray[np.bool_] | None:
    """Where in the order a group starts; None if equal hashes have different keys."""
    sorted_ = hashes[order]
    starts = np.ones(len(order), np.bool_)
    twins = np.flatnonzero(sorted_[1:] == sorted_[:-1])
    if len(twins):
        before, after = keys.take(order[twins]), keys.take(order[twins + 1])
        same = before.encoded().equal(after.encoded())
        if not told_apart and not same.all():
            return None
        starts[twins + 1] = ~same
    return starts


def _told_apart(hashes: Hashes, keys: Keys, order: Places) -> Places:
    """The order with rows of equal hashes sorted by their canonical bytes."""
    sorted_ = hashes[order]
    same = np.flatnonzero(sorted_[1:] == sorted_[:-1])
    doubtful = np.union1d(same, same + 1)
    content = keys.take(order[doubtful]).encoded()
    in_bytes = content.bytes_at(np.arange(len(doubtful)))
    ranked = sorted(
        range(len(doubtful)), key=lambda i: (sorted_[doubtful[i]], in_bytes[i], order[doubtful[i]])
    )
    resolved = order.copy()
    resolved[doubtful] = order[doubtful[np.array(ranked)]]
    return resolved
