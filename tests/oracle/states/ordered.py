"""The first rows in order: only they are read, and where rows only come only they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from incmrql.plan.changes import Weighted
from incmrql.plan.nodes import Ordered
from incmrql.plan.reading import limit_value
from incmrql.reference import Environment
from incmrql.values import Value
from tests.oracle.ranked import Rank, Ranked, rank
from tests.oracle.states.base import Work


def in_order(pairs: Weighted, descending: Sequence[bool]) -> list[Value]:
    """The values of pairs, by their keys."""
    ranked = sorted(pairs, key=lambda row: rank(row[0], descending))
    return [value for (_, value), weight in ranked for _ in range(weight)]


@dataclass(slots=True)
class OrderedState:
    """Pairs by rank; the answer is the first of them."""

    node: Ordered
    env: Environment
    ranked: Ranked = field(default_factory=Ranked)
    work: Work = field(default_factory=Work)
    _undo: list[tuple[Rank, Value, int]] = field(default_factory=list)

    def advance(self, changes: Sequence[Weighted]) -> Weighted:
        """-old +new of the first rows."""
        change = Weighted()
        if not changes[0]:
            return change
        most = limit_value(self.node.limit, self.env) or 0
        before = self._first(most)
        self._take_in(changes[0], most)
        change.merge(self._first(most))
        change.merge(before, -1)
        return change

    def take(self, changes: Sequence[Weighted]) -> None:
        """Remember changes without answering."""
        self._take_in(changes[0], limit_value(self.node.limit, self.env) or 0)
        self.commit()

    def _take_in(self, change: Weighted, most: int) -> None:
        for row, weight in change:
            self._add(rank(row, self.node.descending), row, weight)
        if self.node.grows:
            self._cut(most)

    def _first(self, most: int) -> Weighted:
        self.ranked.read = 0
        rows = Weighted(self.ranked.weights(0, most))
        self.work.read += self.ranked.read
        return rows

    def _cut(self, most: int) -> None:
        """Forget what nothing that comes can bring to the front."""
        rest = list(self.ranked.weights(most, self.ranked.total))
        for row, weight in rest:
            self._add(rank(row, self.node.descending), row, -weight)

    def _add(self, place: Rank, row: Value, weight: int) -> None:
        self.ranked.add(place, row, weight)
        self._undo.append((place, row, -weight))

    def commit(self) -> None:
        """What came stays."""
        self._undo = []

    def cancel(self) -> None:
        """Give back what came."""
        for place, row, weight in self._undo:
            self.ranked.add(place, row, weight)
        self._undo = []

    @property
    def value(self) -> Weighted:
        """All pairs that are kept."""
        return Weighted(self.ranked)

    @property
    def size(self) -> int:
        """All pairs that are kept."""
        return len(self.ranked)
