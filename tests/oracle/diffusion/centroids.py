"""Centroids: averages of points, each point with its nearest, that are not assigned again.

Kept are the exact sums and counts of each centroid under a key that stays the same from batch to
batch, the row that it was when the loop was run last.  New points go to the centroid nearest to
them now, and deleted ones are taken from it, whether or not they had gone to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from incmrql.plan.changes import Weighted
from incmrql.plan.diffusion.slopes import doubles
from incmrql.plan.diffusion.ways import Centroids, UnmeasuredError
from incmrql.plan.nodes import Groups, LoopParam
from incmrql.reference import Environment
from incmrql.values import Value, encode
from tests.oracle.changes import by_key
from tests.oracle.diffusion.program import Program, Table
from tests.oracle.diffusion.rows import Split, as_double, total
from tests.oracle.states.base import Work
from tests.oracle.states.groups import GroupsState


@dataclass(frozen=True, slots=True)
class Centre:
    """A centroid: its key, where it is, and where it was when the loop was run last."""

    key: Value
    row: Value
    home: Value


class Means:
    """A loop over centroids, at work."""

    def __init__(self, shape: Centroids, env: Environment) -> None:
        self.shape, self.env, self.program = shape, env, shape.program
        self.centres: Table[Centre] = Table()
        self.ranked: Table[Weighted] = Table()
        """The rows that pairs with centroids are made of, by the key of a point."""
        self.state = self._groups()
        self.change = Weighted()
        self.is_lost = False
        self.points = 0
        variable = self.program.nodes[self.program.variables[0]]
        assert isinstance(variable, LoopParam)
        self.split = Split(tuple(doubles(variable.element)))
        self._taken: list[tuple[bytes, Weighted]] = []
        self._before: tuple[bool, int] = (False, 0)
        self._old: tuple[GroupsState, list[tuple[bytes, Weighted]]] | None = None
        self._read = 0

    def _groups(self) -> GroupsState:
        node = self.program.nodes[self.shape.averaged]
        assert isinstance(node, Groups)
        return GroupsState(node, self.env)

    @property
    def read(self) -> int:
        """How many rows were read since this was asked last."""
        count, self._read = self._read, 0
        return count

    @property
    def norm(self) -> float:
        """The sum of the sizes of all coordinates."""
        return as_double(
            sum(total(self.split.units(centre.row)) for centre in self.centres.values())
        )

    def take(self, _changes: Sequence[Weighted]) -> None:
        """Changes of the inputs, before the loop is run again."""
        self._begin()

    def _begin(self) -> None:
        self.change, self._taken, self._old = Weighted(), [], None
        self._before = (self.is_lost, self.points)

    # --- new points ------------------------------------------------------------------------------

    def follow(self, changes: Sequence[Weighted]) -> None:
        """Points that come and go."""
        self._begin()
        centroids = Weighted((centre.row, 1) for centre in self.centres.values())
        if not centroids:
            raise UnmeasuredError("there are no centroids")
        self._rank(changes[self.shape.ranked], centroids)
        nearest = {encode(centre.row): identity for identity, centre in self._rows()}
        for sign in (1, -1):
            self._assign(changes, sign, centroids, nearest)

    def _rank(self, change: Weighted, centroids: Weighted) -> None:
        """Know by the keys of points what pairs are made of."""
        one = Weighted([next((row, 1) for row, _ in centroids)])
        for row, weight in change:
            pairs = self._run({self.shape.ranked: Weighted([(row, 1)])}, one)[self.shape.pairs]
            for (key, _), _ in pairs:
                known = self.ranked.get(encode(key))
                rows = known.copy() if known else Weighted()
                rows.add(row, weight)
                self.ranked.put(encode(key), rows if rows else None)

    def _assign(
        self,
        changes: Sequence[Weighted],
        sign: int,
        centroids: Weighted,
        nearest: dict[bytes, bytes],
    ) -> None:
        """Give points to the centroid that is nearest now, or take them from it."""
        feed = self.shape.fed
        rows = Weighted((row, abs(w)) for row, w in changes[feed] if w * sign > 0)
        if not rows:
            return
        given = {feed: rows}
        keyed = by_key(self._run(given, Weighted())[self.shape.points])
        ranked = Weighted()
        for identity in keyed:
            known = self.ranked.get(identity) or self.ranked.kept.get(identity)
            for row, _ in known or Weighted():
                ranked.add(row, 1)
        if self.shape.ranked != feed:
            given[self.shape.ranked] = ranked
        assigned = self._run(given, centroids)[self.shape.assigned]
        for key, values in by_key(assigned).values():
            self._give(nearest, key, values, sign)

    def _rows(self) -> list[tuple[bytes, Centre]]:
        return sorted(self.centres.items(), reverse=True)

    def _give(
        self,
        nearest: dict[bytes, bytes],
        key: Value,
        values: Weighted,
        sign: int,
    ) -> None:
        while encode(key) not in nearest:  # the row may be the only part of its group's key
            if not isinstance(key, tuple | list) or len(key) != 1:
                raise UnmeasuredError("points are near to something else than a centroid")
            key = key[0]
        identity = nearest[encode(key)]
        centre = self.centres.get(identity)
        if centre is None:
            raise UnmeasuredError("a centroid has gone")
        change = Weighted(((centre.key, value), weight * sign) for value, weight in values)
        effect = self._apply(identity, change)
        group = self.state.groups.get(identity)
        self.is_lost |= group is None or group.counts[0] <= 0
        rows = [row for row, weight in effect if weight > 0]
        if rows:
            self.centres.put(identity, Centre(centre.key, rows[0], centre.home))
        elif effect:
            self.centres.put(identity, None)
        self.points += values.total

    def _apply(self, identity: bytes, change: Weighted) -> Weighted:
        self.state.work = Work()
        effect = self.state.advance([change])
        self.state.commit()
        self._read += self.state.work.read
        self._taken.append((identity, change))
        self.change.merge(effect)
        return effect

    def _run(self, given: dict[int, Weighted], variable: Weighted) -> list[Weighted]:
        """The step over some rows alone."""
        program = Program(self.program, self.env)
        rows = [given.get(place) or Weighted() for place in range(len(self.program.inputs))]
        changes = program.run(rows, variable)
        self._read += program.read + len(variable)
        return changes

    # --- all again -------------------------------------------------------------------------------

    def reset(self, steps: Sequence[Sequence[Value]], given: Sequence[Weighted]) -> None:
        """Be at the loop's own result, with the points that the last step gives each centroid."""
        if len(steps) < 2:
            raise UnmeasuredError("a loop without steps")
        self.change = Weighted((centre.row, -1) for centre in self.centres.kept.values())
        self._old = (self.state, self._taken)
        self.state, self._taken = self._groups(), []
        self.centres.clear()
        self.ranked.clear()
        self.is_lost, self.points = False, 0
        last = Weighted((row, 1) for row in steps[-2])
        assigned = self._run(dict(enumerate(given)), last)[self.shape.assigned]
        for identity, (key, values) in by_key(assigned).items():
            change = Weighted(((key, value), weight) for value, weight in values)
            for row, _ in self._apply(identity, change):
                self.split.units(row)
                self.centres.put(identity, Centre(key, row, row))
        if last:
            self._rank(given[self.shape.ranked], last)

    def stated_error(
        self,
    ) -> tuple[Literal["bound", "residual"], float, tuple[tuple[str, float], ...]]:
        """How far centroids have moved since the loop ran; this bounds no error."""
        moved = 0
        for centre in self.centres.values():
            pairs = zip(self.split.units(centre.row), self.split.units(centre.home), strict=True)
            moved += sum(abs(a - b) for a, b in pairs)
        figure = as_double(moved)
        return "residual", figure, (("moved", figure), ("points", float(self.points)))

    def commit(self) -> None:
        """Remember the batch."""
        self.centres.commit()
        self.ranked.commit()
        self._taken, self._old = [], None

    def cancel(self) -> None:
        """Be as before the batch."""
        self.centres.cancel()
        self.ranked.cancel()
        if self._old is not None:
            (self.state, self._taken), self._old = self._old, None
        for _, change in reversed(self._taken):
            back = Weighted()
            back.merge(change, -1)
            self.state.advance([back])
            self.state.commit()
        self._taken = []
        self.is_lost, self.points = self._before

    @property
    def size(self) -> int:
        """How much is remembered."""
        return self.state.size + len(self.centres.kept) + len(self.ranked.kept)
