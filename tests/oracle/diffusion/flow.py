"""Differences that flow: the last result of a loop, moved by what a batch changes.

Kept are the result X, what one more step makes of it, G, and differences that were too small to
go on, Q.  A batch changes G, with X as it is; these differences are added to X, go through the
step, and what they change in G is the next ring, for as many rings as the loop has steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from incmrql.plan.changes import Weighted
from incmrql.plan.diffusion.ways import UnmeasuredError
from incmrql.values import Value, decode, encode
from tests.oracle.diffusion.columns import Columns
from tests.oracle.diffusion.program import Program, Table
from tests.oracle.diffusion.rows import Held, Split, Sum, Units, as_double, in_units, total


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sums of sizes over all labels, in units."""

    result: int = 0
    labels: int = 0
    start: int = 0
    stepped: int = 0
    residual: int = 0
    """How far one more step would move the result."""
    way: int = 0
    """How far the result is from where the loop starts."""
    pending: int = 0


@dataclass(slots=True)
class Ring:
    """One round: what moved, how much was held back or taken up, and constants that changed."""

    moved: dict[bytes, Units] = field(default_factory=dict)
    cut: int = 0
    flipped: int = 0


@dataclass(slots=True)
class Batch:
    """What one batch did, in units."""

    start: dict[bytes, Units] = field(default_factory=dict)
    rings: list[Ring] = field(default_factory=list)
    touched: set[bytes] = field(default_factory=set)


@dataclass(slots=True)
class Flow:
    """The vector state of a loop.  `columns` is the matrix of its step, where that is affine."""

    program: Program
    split: Split
    rounds: int
    has_limit: bool
    tolerance: float
    columns: Columns | None = None
    held: Table[Held] = field(default_factory=Table)
    start: Table[Sum] = field(default_factory=Table)
    stepped: Table[Sum] = field(default_factory=Table)
    pending: Table[Units] = field(default_factory=Table)
    sizes: Sizes = field(default_factory=Sizes)
    change: Weighted = field(default_factory=Weighted)
    """What the batch changed in the result."""
    done: Batch = field(default_factory=Batch)
    _before: Sizes = field(default_factory=Sizes)

    # --- taking in -------------------------------------------------------------------------------

    def take(self, changes: Sequence[Weighted]) -> dict[bytes, Units]:
        """Changes of the inputs, with the result as it is; the differences they make."""
        self._before, self.done, self.change = self.sizes, Batch(), Weighted()
        if self.columns is not None:
            self.columns.begin()
        looping = self.program.looping
        outputs = self.program.run(changes, Weighted())
        started = self._apply_start(outputs[looping.initial[0]])
        labels = [self.split.label(row) for row, _ in outputs[looping.initial[0]]]
        labels += [self.split.label(row) for row, _ in outputs[looping.step[0]]]
        differences = self._apply_step(outputs[looping.step[0]])
        if self.columns is not None:
            self.columns.take(changes, labels)
            if not self.columns.steady:
                self.done.touched |= self.columns.follow(started)
        return differences

    def _apply_start(self, change: Weighted) -> dict[bytes, bool]:
        """Apply a change of the initial value; returns whether each label is present."""
        present: dict[bytes, bool] = {}
        for identity, count, units in _by_label(change, self.split):
            before = self.start.get(identity) or Sum(0, self.split.nothing)
            after = Sum(before.count + count, _plus(before.units, units))
            self._resize(identity, start=after)
            present[identity] = after.count > 0
            self.done.start[identity] = units
        return present

    def _apply_step(self, change: Weighted, ring: Ring | None = None) -> dict[bytes, Units]:
        """Apply a change of the next step's result; returns the differences of its values."""
        differences: dict[bytes, Units] = {}
        came = {self.split.identity(row): row for row, weight in change if weight > 0}
        for identity, count, units in _by_label(change, self.split):
            before = self.stepped.get(identity) or Sum(0, self.split.nothing)
            after = Sum(before.count + count, _plus(before.units, units))
            if after.count > 1 and identity in came:
                _check_alike(after, self.split.units(came[identity]))
            self._resize(identity, stepped=after)
            differences[identity] = units
            if (before.count > 0) != (after.count > 0):
                self.done.touched.add(identity)
                if ring is not None:
                    ring.flipped += abs(self._constant(identity))
        return differences

    def _constant(self, identity: bytes) -> int:
        """What a row has for being there."""
        return 0 if self.columns is None else self.columns.constant(identity)

    # --- moving ----------------------------------------------------------------------------------

    def follow(self, changes: Sequence[Weighted]) -> None:
        """Take changes in, and let the differences flow."""
        differences = self.take(changes)
        touched = {*differences, *self.done.touched}
        least = self._least()
        for _ in range(self.rounds):
            ring = Ring()
            self.done.rings.append(ring)
            moves = self._moves(touched, differences, least, ring)
            if not moves:
                return
            outputs = self.program.run_variable(moves)
            differences = self._apply_step(outputs[self.program.looping.step[0]], ring)
            touched = set(differences)
        if not self.has_limit:
            for identity, units in differences.items():
                self._hold_back(identity, _plus(self._pending(identity), units))

    def _least(self) -> int:
        """Differences up to this size do not flow: a part of the size that values have."""
        if not self.sizes.labels:
            return 0
        return in_units(as_double(self.sizes.result) * self.tolerance / self.sizes.labels)

    def _moves(
        self, touched: Iterable[bytes], differences: Mapping[bytes, Units], least: int, ring: Ring
    ) -> Weighted:
        """Move the result by differences that are large enough, and hold the others back."""
        moves = Weighted()
        for identity in touched:
            arrived = differences.get(identity, self.split.nothing)
            waiting = _plus(self._pending(identity), arrived)
            before = self.held.get(identity)
            count = self._count(identity, before, total(waiting) > least)
            moved = self.split.nothing
            if count != (before.count if before else 0) or (count and total(waiting) > least):
                moved = ring.moved[identity] = self._move(identity, before, count, waiting, moves)
            self._hold_back(identity, _minus(waiting, moved))
            ring.cut += total(_minus(arrived, moved))
        self.change.merge(moves)
        return moves

    def _count(self, identity: bytes, before: Held | None, is_large: bool) -> int:
        """How many rows a label is to have."""
        if self.columns is not None and not self.columns.steady:
            return int(self.columns.is_there(identity))
        old, new = self.stepped.kept.get(identity), self.stepped.get(identity)
        now = new.count if new else 0
        if now != (old.count if old else 0):
            return now
        if before is not None:
            return before.count
        return now if is_large else 0

    def _move(
        self, identity: bytes, before: Held | None, count: int, waiting: Units, moves: Weighted
    ) -> Units:
        """Put other rows in the place of a label's; by how much its values move."""
        old = before.units if before else self.split.nothing
        after = None
        if count > 0:
            values = tuple(as_double(units, count) for units in _plus(old, waiting))
            after = Held(before.label if before else decode(identity), count, values)
        self._put(identity, before, after, moves)
        return _minus(after.units if after else self.split.nothing, old)

    def _put(
        self, identity: bytes, before: Held | None, after: Held | None, moves: Weighted
    ) -> None:
        if before is not None:
            moves.add(self.split.fill(before.label, before.values), -before.count)
        if after is not None:
            moves.add(self.split.fill(after.label, after.values), after.count)
        self._resize(identity, held=after, is_held=True)

    def _pending(self, identity: bytes) -> Units:
        return self.pending.get(identity) or self.split.nothing

    def _hold_back(self, identity: bytes, units: Units) -> None:
        more = total(units) - total(self._pending(identity))
        self.sizes = replace(self.sizes, pending=self.sizes.pending + more)
        self.pending.put(identity, units if any(units) else None)

    def _resize(
        self,
        identity: bytes,
        *,
        start: Sum | None = None,
        stepped: Sum | None = None,
        held: Held | None = None,
        is_held: bool = False,
    ) -> None:
        """Put something else for a label, and bring the sums of sizes up to date."""
        before = self._parts_by_size(identity)
        if start is not None:
            self.start.put(identity, start if start.count else None)
        if stepped is not None:
            self.stepped.put(identity, stepped if stepped.count else None)
        if is_held:
            self.held.put(identity, held)
        after = self._parts_by_size(identity)
        kept = astuple(self.sizes)
        self.sizes = Sizes(*[k + a - b for k, a, b in zip(kept, after, before, strict=True)])

    def _parts_by_size(self, identity: bytes) -> tuple[int, ...]:
        """What a label contributes to each of the sizes."""
        nothing = self.split.nothing
        held, start, stepped = (t.get(identity) for t in (self.held, self.start, self.stepped))
        result = held.units if isinstance(held, Held) else nothing
        first = start.units if isinstance(start, Sum) else nothing
        after = stepped.units if isinstance(stepped, Sum) else nothing
        return (
            total(result),
            int(held is not None),
            total(first),
            total(after),
            total(_minus(after, result)),
            total(_minus(first, result)),
            0,
        )

    # --- all again -------------------------------------------------------------------------------

    def reset(self, rows: Iterable[Value]) -> None:
        """Be at a result that is known, with nothing held back."""
        wanted: dict[bytes, Held] = {}
        for row in rows:
            label, values = self.split.label(row), self.split.values(row)
            identity = encode(label)
            known = wanted.get(identity)
            if known is not None and known.values != values:
                raise UnmeasuredError("rows of one label have different values")
            wanted[identity] = Held(label, (known.count if known else 0) + 1, values)
        moves = Weighted()
        for identity in {*wanted, *[held for held, _ in self.held.items()]}:
            before, after = self.held.get(identity), wanted.get(identity)
            if before != after:
                self._put(identity, before, after, moves)
        self.change.merge(moves)
        self._apply_step(self.program.run_variable(moves)[self.program.looping.step[0]])
        self.pending.clear()
        self.sizes = replace(self.sizes, pending=0)

    def commit(self) -> None:
        """Remember the batch."""
        self.program.commit()
        for table in self._tables():
            table.commit()

    def cancel(self) -> None:
        """Be as before the batch."""
        self.program.undo()
        for table in self._tables():
            table.cancel()
        self.sizes = self._before

    def _tables(self) -> tuple[Table[Any], ...]:
        return self.held, self.start, self.stepped, self.pending

    @property
    def size(self) -> int:
        """How much is remembered."""
        return self.program.size + sum(len(table.kept) for table in self._tables())


def _by_label(change: Weighted, split: Split) -> list[tuple[bytes, int, Units]]:
    """What a change comes to for each label: rows, and the sum of their values."""
    totals: dict[bytes, tuple[int, Units]] = {}
    for row, weight in change:
        identity = split.identity(row)
        count, units = totals.get(identity, (0, split.nothing))
        more = tuple(weight * unit for unit in split.units(row))
        totals[identity] = (count + weight, _plus(units, more))
    return [(identity, *total) for identity, total in totals.items() if total[0] or any(total[1])]


def _check_alike(rows: Sum, values: Units) -> None:
    """Raise if the rows of a label, which were alike before, do not all have these values."""
    if rows.units != tuple(rows.count * value for value in values):
        raise UnmeasuredError("rows of one label have different values")


def _plus(one: Units, other: Units) -> Units:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _minus(one: Units, other: Units) -> Units:
    return tuple(a - b for a, b in zip(one, other, strict=True))
