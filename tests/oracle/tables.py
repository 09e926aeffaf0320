"""Values of a group in order: how a table applies changes, and undoes them.

A table takes a change in at once and can give it back, for weighted values form a group: to undo
is to add the inverse.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from incmrql.plan.changes import Weighted
from incmrql.values import Value
from tests.oracle.ranked import Rank, Ranked, rank


@dataclass(slots=True)
class TableState:
    """The values of a table for one key."""

    order: tuple[bool, ...] | None
    most: int | None = None
    """How many of the first values are kept; all of them if it is None."""
    ranked: Ranked = field(default_factory=Ranked)
    _undo: list[tuple[Rank, Value, int]] = field(default_factory=list)

    def change(self, elements: Weighted) -> Weighted:
        """Take in elements; the change of the different ones, each once."""
        change = Weighted()
        for element, weight in elements:
            if element is None and self.order is None:
                continue
            after = self._add(element, weight)
            came = (after > 0) - (after - weight > 0)
            if came:
                change.add(element if self.order is None else element[1], came)
        if self.most is not None:
            for element, weight in list(self.ranked.weights(self.most, self.ranked.total)):
                self._add(element, -weight)
        return change

    def _add(self, element: Value, weight: int) -> int:
        place = rank(element, self.order)
        self._undo.append((place, element, -weight))
        return self.ranked.add(place, element, weight)

    def cancel(self) -> None:
        """Undo all changes since the last commit."""
        for place, element, weight in self._undo:
            self.ranked.add(place, element, weight)
        self.commit()

    def commit(self) -> None:
        """Keep the changes since the last commit."""
        self._undo = []

    def take_read_count(self) -> int:
        """The number of values read since the last call."""
        count, self.ranked.read = self.ranked.read, 0
        return count

    @property
    def total(self) -> int:
        """How many values there are."""
        return self.ranked.total

    @property
    def weights(self) -> Weighted:
        """All elements."""
        return Weighted(self.ranked)

    def span(self, start: int, stop: int) -> list[Value]:
        """The values from one place to another, without the keys of their order."""
        values = self.ranked.span(start, stop)
        return list(values) if self.order is None else [value for _, value in values]
