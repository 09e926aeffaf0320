"""The rows of a run as steps read them: searched, looked at and taken, and verified before.

A corrupt byte must not change an answer.  So the columns of an open run are not at hand as such:
everything that reads them goes through `RunRows`, which verifies the blocks of the rows that are
read.  A binary search is not watched while it runs.  Its result is proven afterwards instead:

    p is the place of x   <=>   row p - 1 is before x, and row p is not

as the rows were sorted when they were written.  Only the blocks of these two rows are verified; a
step of the search that was led astray by a corrupt byte shows in a proof that fails.

Changes in memory that count as one more run have rows too, and nothing to verify.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from incmrql.diagnostics import InternalError
from incmrql.kernel.accumulators import Parts
from incmrql.kernel.blocks import Blocks
from incmrql.kernel.columns import WEIGHT, names
from incmrql.kernel.content import BEFORE, HASH, ORDER, Content
from incmrql.kernel.form import Form
from incmrql.kernel.keys import Keys, Mask, Places, same_keys
from incmrql.kernel.regions import Region
from incmrql.values.exact.sums import Integers
from incmrql.values.hash_columns import Hashes

MANY: Final = 4096
"""More rows than this are verified by granules rather than one by one."""
_GRANULE_SHIFT: Final = 8
"""Rows of a granule, as a power of two: a few pages of most columns."""

_Number = TypeVar("_Number", np.uint64, np.int64)
Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Guard:
    """The blocks of an open run, and where its columns lie in them."""

    blocks: Blocks
    regions: dict[str, tuple[Region, ...]]
    """By the names of columns in the file."""
    rows: int

    def verify(self, names: Iterable[str], positions: Places) -> None:
        """Verify the rows of columns at some places."""
        if not self.blocks.left or not len(positions):
            return
        if len(positions) > MANY:
            touched = np.zeros((self.rows >> _GRANULE_SHIFT) + 1, np.bool_)
            touched[positions >> _GRANULE_SHIFT] = True
            starts = np.flatnonzero(touched) << _GRANULE_SHIFT
            stops = np.minimum(starts + (1 << _GRANULE_SHIFT), self.rows)
        else:
            starts, stops = positions, positions + 1
        self._verify(names, starts, stops)

    def verify_range(self, names: Iterable[str], start: int, stop: int) -> None:
        """Verify the rows of columns from one place to another."""
        if self.blocks.left:
            self._verify(names, np.array([start]), np.array([stop]))

    def _verify(self, names: Iterable[str], starts: Places, stops: Places) -> None:
        for name in names:
            for region in self.regions[name]:
                region.verify(self.blocks, starts, stops)


@dataclass(frozen=True, slots=True)
class RunRows:
    """The rows of a run from one place to another."""

    _content: Content
    _guard: Guard | None
    _first: int
    _last: int

    @staticmethod
    def of(content: Content, guard: Guard | None = None) -> RunRows:
        """All rows of a content; without a guard they are in memory."""
        return RunRows(content, guard, 0, len(content))

    def __len__(self) -> int:
        return self._last - self._first

    @property
    def form(self) -> Form:
        """The form of the table."""
        return self._content.form

    @property
    def has_order(self) -> bool:
        """Whether rows have an order word."""
        return self._content.order is not None

    def slice(self, start: int, stop: int) -> RunRows:
        """The rows from one place to another; nothing is read."""
        return replace(self, _first=self._first + start, _last=self._first + stop)

    # --- contents ----------------------------------------------------------------------------

    def content(self) -> Content:
        """All these rows."""
        if self._guard is not None:
            self._guard.verify_range(self._guard.regions, self._first, self._last)
        if len(self) == len(self._content):
            return self._content
        return self._content.slice(self._first, self._last)

    def take(self, positions: Places) -> Content:
        """The rows at some places."""
        at = self._at(positions)
        if self._guard is not None:
            self._guard.verify((name for name in self._guard.regions if name != BEFORE), at)
        return self._content.take(at)

    # --- columns -----------------------------------------------------------------------------

    def hashes_at(self, positions: Places) -> Hashes:
        """The hashes of the rows at some places."""
        return self._numbers(HASH, self._content.hashes, positions)

    def order_at(self, positions: Places) -> Hashes:
        """The order words of the rows at some places."""
        assert self._content.order is not None
        return self._numbers(ORDER, self._content.order, positions)

    def weights_at(self, positions: Places) -> Integers:
        """The weights of the rows at some places."""
        return self._numbers(WEIGHT, self._content.weights, positions)

    def before_at(self, positions: Places) -> Integers:
        """The sums of the weights up to the rows at some places, these included."""
        assert self._content.before is not None
        return self._numbers(BEFORE, self._content.before, positions)

    def parts_at(self, positions: Places) -> Parts:
        """The accumulators of the rows at some places."""
        parts = self._content.parts.items()
        return {name: self._numbers(name, column, positions) for name, column in parts}

    def keys_at(self, positions: Places) -> Keys:
        """The keys of the rows at some places."""
        keys, at = self._content.keys, self._at(positions)
        self._verify(names("k", len(keys.columns)), at)
        return keys.take(at)

    def rest_at(self, positions: Places) -> Keys:
        """The further columns of the rows at some places."""
        rest, at = self._content.rest, self._at(positions)
        self._verify(names("r", len(rest.columns)), at)
        return rest.take(at)

    def same_keys(self, positions: Places, keys: Keys, other: Places) -> Mask:
        """Which rows at some places have the keys at places of others, pair by pair."""
        mine, at = self._content.keys, self._at(positions)
        self._verify(names("k", len(mine.columns)), at)
        return same_keys(mine, at, keys, other)

    def same_rest(self, positions: Places, rest: Keys, other: Places) -> Mask:
        """Which rows at some places have the further columns of others, pair by pair."""
        mine, at = self._content.rest, self._at(positions)
        self._verify(names("r", len(mine.columns)), at)
        return same_keys(mine, at, rest, other)

    def _numbers(
        self, name: str, column: npt.NDArray[_Number], positions: Places
    ) -> npt.NDArray[_Number]:
        at = self._at(positions)
        self._verify((name,), at)
        return column[at]

    def _at(self, positions: Places) -> Places:
        return positions + self._first if self._first else positions

    def _verify(self, columns: Iterable[str], at: Places) -> None:
        if self._guard is not None:
            self._guard.verify(columns, at)

    # --- searches ----------------------------------------------------------------------------

    def keys_between(self, sought: Hashes) -> tuple[Places, Places]:
        """From where to where each hash is found.  A key mostly has one row or many."""
        starts = self.search(sought)
        stops = starts.copy()
        inside = np.flatnonzero(starts < len(self))
        there = inside[self.hashes_at(starts[inside]) == sought[inside]]
        stops[there] += 1
        more = there[stops[there] < len(self)]
        more = more[self.hashes_at(stops[more]) == sought[more]]
        stops[more] = self.search(sought[more], "right")
        return starts, stops

    def search(self, sought: Hashes, side: Side = "left") -> Places:
        """The first row whose hash is not less, or is greater, than each of the hashes."""
        return self._search(HASH, self._content.hashes, (0, len(self)), sought, side)

    def search_order(self, start: int, stop: int, word: np.uint64) -> int:
        """The first row of a stretch whose order word is not less; all of it has one key."""
        assert self._content.order is not None
        sought = np.array([word])
        return int(self._search(ORDER, self._content.order, (start, stop), sought, "left")[0])

    def cuts(self, least: Hashes) -> Places:
        """Where the rows are cut before each of some hashes, with their start and their end."""
        return np.concatenate([[0], self.search(least), [len(self)]]).astype(np.int64)

    def _search(
        self, name: str, column: Hashes, within: tuple[int, int], sought: Hashes, side: Side
    ) -> Places:
        start, stop = within
        words = column[self._first + start : self._first + stop]
        places = np.searchsorted(words, sought, side)
        guard = self._guard
        if guard is None or not guard.blocks.left:
            return places + start
        if not self._is_proven(name, words, (start, places), sought, side):
            # Some block that the search has read is corrupt: this finds it.
            guard.verify_range((name,), self._first + start, self._first + stop)
            places = np.searchsorted(words, sought, side)
            if not self._is_proven(name, words, (start, places), sought, side):
                raise InternalError(f"a run in {guard.blocks.path} is not sorted by {name}")
        return places + start

    def _is_proven(
        self, name: str, words: Hashes, result: tuple[int, Places], sought: Hashes, side: Side
    ) -> bool:
        """Whether the rows on both sides of places show that a search has found them."""
        start, places = result
        later, earlier = np.flatnonzero(places < len(words)), np.flatnonzero(places > 0)
        here, before = places[later], places[earlier] - 1
        self._verify((name,), self._at(np.concatenate([here, before]) + start))
        if side == "left":
            right = (words[before] < sought[earlier]).all() and (words[here] >= sought[later]).all()
        else:
            right = (words[before] <= sought[earlier]).all() and (words[here] > sought[later]).all()
        return bool(right)
