"""Weighted values in order, read by rank: what the oracle's tables and orders are made of.

    at(n)      the value at rank n, each value as often as its weight says
    first(n)   the first n values, and no other is read

Keys of the order are tuples of bytes that sort like the values.  On the way to a rank the counts
of blocks are added up, and the weights of one block; a value is read where it is given out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from incmrql.plan.changes import NegativeWeight
from incmrql.values import Value, encode, show

BLOCK: Final = 64
"""The most ranks of a block."""


class _Falling(bytes):
    """Bytes whose order is turned around."""

    __slots__ = ()

    def __lt__(self, other: bytes) -> bool:
        return bytes.__gt__(self, other)

    def __gt__(self, other: bytes) -> bool:
        return bytes.__lt__(self, other)


Rank: TypeAlias = tuple[bytes, ...]


def rank(value: Value, order: Sequence[bool] | None) -> Rank:
    """The place of a value in canonical order, or of a pair (key tuple, value) by its keys."""
    if order is None:
        return (encode(value),)
    keys = zip(value[0], order, strict=True)
    ranks = [_Falling(encode(key)) if falls else encode(key) for key, falls in keys]
    return (*ranks, encode(value[1]))


@dataclass(slots=True)
class _Block:
    """Some neighbours, and how many values they are."""

    ranks: list[Rank]
    count: int


@dataclass(slots=True)
class Ranked:
    """Values with weights, by rank.  `read` counts the values that were looked at."""

    rows: dict[Rank, tuple[Value, int]] = field(default_factory=dict)
    total: int = 0
    """The sum of the weights."""
    read: int = 0
    _blocks: list[_Block] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def weight(self, place: Rank) -> int:
        """How often a value is there."""
        entry = self.rows.get(place)
        return 0 if entry is None else entry[1]

    def add(self, place: Rank, value: Value, weight: int) -> int:
        """Add a value with a weight; returns its new multiplicity."""
        if not weight:
            return self.weight(place)
        known = place in self.rows
        after = self.weight(place) + weight
        at = self._block(place)
        block = self._blocks[at]
        block.count += weight
        self.total += weight
        if after:
            self.rows[place] = (value, after)
            if not known:
                block.ranks.insert(bisect_left(block.ranks, place), place)
                self._split(at)
        elif known:
            del self.rows[place]
            del block.ranks[bisect_left(block.ranks, place)]
            if not block.ranks:
                del self._blocks[at]
        return after

    def _block(self, place: Rank) -> int:
        """The block where a rank is or belongs."""
        if not self._blocks:
            self._blocks.append(_Block([], 0))
            return 0
        at = bisect_left(self._blocks, place, key=lambda block: block.ranks[-1])
        return min(at, len(self._blocks) - 1)

    def _split(self, at: int) -> None:
        ranks = self._blocks[at].ranks
        if len(ranks) > BLOCK:
            halves = ranks[: BLOCK // 2], ranks[BLOCK // 2 :]
            self._blocks[at : at + 1] = [_Block(half, self._sum(half)) for half in halves]

    def _sum(self, ranks: list[Rank]) -> int:
        return sum([self.rows[place][1] for place in ranks])

    def at(self, place: int) -> Value:
        """The value at a place from 0, which must be there."""
        return next(self.span(place, place + 1))

    def first(self, count: int) -> Iterator[Value]:
        """The first values, at most `count` of them."""
        return self.span(0, count)

    def span(self, start: int, stop: int) -> Iterator[Value]:
        """The values from one place to another, each as often as it is there."""
        for value, weight in self.weights(start, stop):
            for _ in range(weight):
                yield value

    def weights(self, start: int, stop: int) -> Iterator[tuple[Value, int]]:
        """The values from one place to another, with how often they are there."""
        before = 0
        for block in self._blocks:
            if before >= stop:
                return
            if before + block.count <= start:
                before += block.count
                continue
            for place in block.ranks:
                value, weight = self.rows[place]
                if weight < 0:
                    raise NegativeWeight(f"a table holds {weight} times {show(value)}")
                if before >= stop:
                    return
                here = min(before + weight, stop) - max(before, start)
                before += weight
                if here > 0:
                    self.read += 1
                    yield value, here

    def __iter__(self) -> Iterator[tuple[Value, int]]:
        """All values in order, with their weights; not counted as read."""
        for block in self._blocks:
            for place in block.ranks:
                yield self.rows[place]
