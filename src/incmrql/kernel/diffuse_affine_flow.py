"""Differences that flow through an affine loop in one batch, ring by ring."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from incmrql.incremental.diffuse import UnmeasuredError
from incmrql.kernel.desk import Desk
from incmrql.kernel.diffuse_affine_bound import Account, Flowed, present
from incmrql.kernel.diffuse_affine_tables import AffineTables
from incmrql.kernel.diffuse_affine_taking import Doubles, Taken, Valued
from incmrql.kernel.diffuse_affine_vectors import Matrix, Vectors, added, whole_numbers
from incmrql.kernel.keys import Mask
from incmrql.values.exact.sums import Integers


class Flow:
    """Differences that flow in one batch."""

    def __init__(
        self,
        tables: AffineTables,
        before: Vectors,
        after: Vectors,
        known: int,
        taken: Taken,
        desk: Desk,
    ) -> None:
        self.tables, self.before, self.after, self.taken = tables, before, after, taken
        self.count = len(after.there)
        self.change = taken.matrix()
        whole = Matrix.of(self.change, self.count)
        self.new = whole
        self.turned = whole.only(known)
        self.matrix = Matrix.kept(tables, self.change, self.count, desk)
        self.steps = desk.env.world.max_steps if tables.limit is None else tables.limit
        self.flowed = Flowed(np.zeros(0))
        self.added = 0.0
        """The sum of all sizes that the batch adds up."""

    def take(self, account: Account) -> Mask:
        """Take the changes in, with the result as it is; the labels that they reach."""
        tables, before, after, new = self.tables, self.before, self.after, self.new
        touched = np.zeros(self.count, np.bool_)
        self.flowed.start = started(after, self.taken.start)
        rows_alone(after, self.taken.alone)
        if not tables.steady:
            spoken, rows, values = self.taken.said()
            after.constant[rows] = values
            for some in (new.rows, spoken, self.taken.alone.labels):
                touched[some] = True
            touched |= self._counted()
        changed = np.unique(new.origins)
        self.matrix.look_at(changed)
        account.norm = max(account.norm, float(self.matrix.sizes()[changed].max(initial=0.0)))
        after.adding += new.counted(before.there)
        flat = np.abs(new.slopes * new.weights * before.result[new.origins])
        self.added = float(flat.sum())
        self.differences = new.times(before.result)
        reached: Mask = touched | self._absorbed(before)
        return reached

    def _counted(self) -> Mask:
        """Bring up to date at which steps rows are there; those for which that changed."""
        before, after, new = self.before, self.after, self.new
        more = (after.alones > 0).astype(np.int64) - (before.alones > 0)
        was, is_ = before.starts > 0, after.starts > 0
        found: Mask = was != is_
        for old, counts in zip(before.counts, after.counts, strict=True):
            turned = is_.astype(np.int64) - was
            self.matrix.look_at(np.flatnonzero(turned))
            counts += new.counted(was.astype(np.int64)) + self.matrix.counted(turned) + more
            was, is_ = old > 0, counts > 0
            found |= was != is_
        return found

    def _absorbed(self, before: Vectors) -> Mask:
        """Add differences to what the next step makes; the labels for which that changed it.

        They include those of constants that come and go, since `before`.
        """
        tables, after = self.tables, self.after
        was, is_ = present(tables, before), present(tables, after)
        self.differences += constants(tables, after, is_) - constants(tables, before, was)
        gone = ~is_ & (was | (self.differences != 0.0))
        self.differences[gone] = -after.next[gone]
        after.next += self.differences
        changed: Mask = (self.differences != 0.0) | (was != is_)
        return changed

    def let_flow(self, touched: Mask, tolerance: float) -> None:
        """Ring by ring, for as many as the loop has steps."""
        after = self.after
        labels = int((after.there > 0).sum())
        least = after.size * tolerance / labels if labels else 0.0
        for _ in range(self.steps):
            there, result = after.there.copy(), after.result.copy()
            moved = self._move(touched, least)
            self.flowed.flipped.append(0.0)
            if (there == after.there).all() and (result == after.result).all():
                return
            came = after.there - there
            self.matrix.look_at(np.flatnonzero((moved != 0.0) | (came != 0)))
            self.differences = self.matrix.times(moved)
            earlier = replace(after, adding=after.adding.copy())
            after.adding += self.matrix.counted(came)
            flips = present(self.tables, earlier) != present(self.tables, after)
            if not self.tables.steady:
                self.flowed.flipped[-1] = float(np.abs(after.constant[flips]).sum())
            touched = self._absorbed(earlier)
        if self.tables.limit is None:
            after.held += self.differences

    def _move(self, touched: Mask, least: float) -> Doubles:
        """Move the result by differences that are large enough, and hold the others back."""
        after = self.after
        arrived = np.where(touched, self.differences, 0.0)
        waiting = after.held + arrived
        is_large = np.abs(waiting) > least
        there = np.where(touched, self._there(is_large), after.there)
        chosen = touched & ((there != after.there) | ((there > 0) & is_large))
        values = np.where(there > 0, after.result + waiting, 0.0)
        moved: Doubles = np.where(chosen, values - after.result, 0.0)
        after.result = np.where(chosen, values, after.result)
        after.there = there
        after.held = np.where(touched, waiting - moved, after.held)
        self.flowed.cut.append(float(np.abs(arrived - moved).sum()))
        if self.tables.keeps_ways:
            self.flowed.moved.append(moved)
        return moved

    def _there(self, is_large: Mask) -> Integers:
        """Which labels are to have a row."""
        tables, before, after = self.tables, self.before, self.after
        if not tables.steady:
            last: Integers = (after.counts[-1] > 0).astype(np.int64)
            return last
        was, is_ = present(tables, before), present(tables, after)
        kept = np.where(after.there > 0, 1, is_ & is_large)
        found: Integers = np.where(was != is_, is_, kept).astype(np.int64)
        return found


def constants(tables: AffineTables, vectors: Vectors, there: Mask) -> Doubles:
    """What rows have for being there."""
    if tables.steady:
        return vectors.alone
    found: Doubles = np.where(
        vectors.alones > 0, vectors.alone, np.where(there, vectors.constant, 0.0)
    )
    return found


def started(vectors: Vectors, rows: Valued) -> Doubles:
    """Take in a change of where the loop starts; by how much that moves it."""
    count = len(vectors.there)
    old = vectors.start.copy()
    vectors.starts += whole_numbers(rows.labels, rows.weights, count)
    vectors.start += added(rows.labels, rows.weights * rows.values, count)
    vectors.start[vectors.starts == 0] = 0.0
    return vectors.start - old


def rows_alone(vectors: Vectors, rows: Valued) -> None:
    """Take in a change of the rows that a step has without the variable."""
    vectors.alones += whole_numbers(rows.labels, rows.weights, len(vectors.there))
    if (vectors.alones > 1).any():
        raise UnmeasuredError("several rows have one label")
    came = rows.weights > 0
    vectors.alone[rows.labels[came]] = rows.values[came]
    vectors.alone[vectors.alones == 0] = 0.0
