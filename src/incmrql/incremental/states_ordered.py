"""The first rows in order: all rows are remembered in order, and only the first are read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from incmrql.incremental.changes import Weighted
from incmrql.incremental.nodes import Ordered
from incmrql.incremental.states import Work
from incmrql.reference import Environment, evaluate
from incmrql.values import Value, encode


class _Falling(bytes):
    """Bytes whose order is turned around."""

    __slots__ = ()

    def __lt__(self, other: bytes) -> bool:
        return bytes.__gt__(self, other)

    def __gt__(self, other: bytes) -> bool:
        return bytes.__lt__(self, other)


Rank: TypeAlias = tuple[bytes, ...]


def rank(pair: tuple[Value, Value], descending: Sequence[bool]) -> Rank:
    """The place of a pair (key tuple, value): by its keys, then in the order of the values."""
    keys = zip(pair[0], descending, strict=True)
    ranks = [_Falling(encode(key)) if falls else encode(key) for key, falls in keys]
    return (*ranks, encode(pair[1]))


def in_order(pairs: Weighted, descending: Sequence[bool]) -> list[Value]:
    """The values of pairs, by their keys."""
    ranked = sorted(pairs, key=lambda row: rank(row[0], descending))
    return [value for (_, value), weight in ranked for _ in range(weight)]


@dataclass(slots=True)
class OrderedState:
    """All pairs by rank; the answer is the first of them."""

    node: Ordered
    env: Environment
    ranks: list[Rank] = field(default_factory=list)
    rows: dict[Rank, tuple[Value, int]] = field(default_factory=dict)
    first: Weighted = field(default_factory=Weighted)
    work: Work = field(default_factory=Work)
    _pending: tuple[dict[Rank, tuple[Value, int]], Weighted] | None = None

    def advance(self, changes: Sequence[Weighted]) -> Weighted:
        """-old +new of the first rows."""
        change = {rank(row, self.node.descending): (row, w) for row, w in changes[0]}
        found = Weighted()
        self._pending = None
        if not change:
            return found
        left = max(evaluate(self.node.limit, self.env) or 0, 0)
        first = Weighted()
        for row, weight in self._merged(change):
            if left <= 0:
                break
            first.add(row, min(weight, left))
            left -= weight
        self._pending = change, first
        found.merge(first)
        found.merge(self.first, -1)
        return found

    def _merged(self, change: dict[Rank, tuple[Value, int]]) -> Iterator[tuple[Value, int]]:
        """The rows in order as they are after a change, read from the front."""
        fresh = sorted([place for place in change if place not in self.rows])
        at = 0
        for place in self.ranks:
            while at < len(fresh) and fresh[at] < place:
                yield change[fresh[at]]
                at += 1
            self.work.read += 1
            row, weight = self.rows[place]
            weight += change.get(place, (row, 0))[1]
            if weight:
                yield row, weight
        for place in fresh[at:]:
            yield change[place]

    def commit(self) -> None:
        """Put the change in its places."""
        if self._pending is None:
            return
        change, self.first = self._pending
        for place, (row, weight) in change.items():
            if place not in self.rows:
                self.ranks.insert(bisect_left(self.ranks, place), place)
            total = weight + self.rows.get(place, (row, 0))[1]
            self.rows[place] = (row, total)
            if not total:
                del self.rows[place]
                del self.ranks[bisect_left(self.ranks, place)]
        self._pending = None

    @property
    def size(self) -> int:
        """All rows."""
        return len(self.rows)
