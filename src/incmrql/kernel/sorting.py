"""Rows sorted by (hash, key, order within the key), and grouped where all of these are the same.

The hashes and the order words are sorted as numbers.  Keys are compared only where hashes are the
same, and the bytes of the rest only where words are the same and do not decide; rows are sorted
by bytes only where they are found to differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from incmrql.kernel.form import Form
from incmrql.kernel.keys import Keys, Mask, Places, same_keys
from incmrql.kernel.ordering_bytes import decides, order_bytes
from incmrql.values.hash_columns import Hashes

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in order, equal ones together."""

    rows: Places
    """All rows, sorted."""
    starts: Places
    """Where in `rows` each group starts."""
    key_starts: Mask
    """Which groups are the first of their key."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def firsts(self) -> Places:
        """A row of each group."""
        return self.rows[self.starts]

    @property
    def of_row(self) -> Places:
        """The group of each row of the input."""
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
class Within:
    """What sorts rows within their key."""

    form: Form
    order: Hashes
    rest: Keys


def group(
    hashes: Hashes, keys: Keys | None, within: Within | None = None, *, merged: bool = False
) -> Groups:
    """The groups of equal rows.

    Without `keys` the hashes are taken for the keys.  `merged` says that the rows consist of a
    few parts that are sorted already.
    """
    rows = np.argsort(hashes, kind="stable" if merged else None)
    same = _repeated(hashes[rows])
    if keys is not None:
        _tell_apart(rows, same, np.flatnonzero(same), keys, None)
    key_starts = ~same
    if within is not None:
        _sort_within(rows, same, within)
    starts = np.flatnonzero(~same)
    return Groups(rows, starts, key_starts[starts])


def _sort_within(rows: Places, same: Mask, within: Within) -> None:
    words = within.order[rows]
    fallen = np.zeros(len(rows), np.bool_)
    fallen[1:] = words[1:] < words[:-1]
    fallen &= same
    if fallen.any():
        _sort_again(rows, same, fallen, lambda doubtful: within.order[doubtful])
        words = within.order[rows]
    same &= _repeated(words)
    tied = np.flatnonzero(same)
    tied = tied[~decides(within.form, words[tied])]
    _tell_apart(rows, same, tied, within.rest, within.form.descending)


def _tell_apart(
    rows: Places, same: Mask, tied: Places, keys: Keys, descending: tuple[bool, ...] | None
) -> None:
    """Where a row is tied with the one before, look at the bytes; sort and part by them."""
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
    rows: Places, same: Mask, broken: Mask, rank: Callable[[Places], npt.NDArray[Any]]
) -> tuple[Places, npt.NDArray[Any]]:
    """Sort the stretches of equal rows that hold a broken place; the places, and their ranks."""
    stretch = np.cumsum(~same)
    chosen = np.zeros(stretch[-1] + 1, np.bool_)
    chosen[stretch[broken]] = True
    doubtful = np.flatnonzero(chosen[stretch])
    ranks = rank(rows[doubtful])
    sorted_ = np.lexsort((ranks, stretch[doubtful]))
    rows[doubtful] = rows[doubtful[sorted_]]
    return doubtful, ranks[sorted_]


def _repeated(words: Hashes) -> Mask:
    """Which words are those before them."""
    same = np.zeros(len(words), np.bool_)
    same[1:] = words[1:] == words[:-1]
    return same
