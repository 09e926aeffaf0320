"""Affine loops that are diffused: a batch moves the result by the differences that it makes.

The step is x → A x + b.  Its matrix A is kept by columns, and brought up to date by a program of
changes; so a batch reads the columns of labels that it reaches, and no others, once for all rings.
What is kept and what is stated are those of `plan.diffusion.shape`, with two differences: sums are
added up as doubles, which the part for rounding covers, and rows that are there several times are
not diffused.  `tests/oracle/diffusion/bound.py` says why the bound of the error holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from incmrql.engine.columns.keys import Mask
from incmrql.engine.columns.rows import Rows
from incmrql.engine.context import BatchContext
from incmrql.engine.loops.affine.state import (
    Doubles,
    Labels,
    Matrix,
    Taken,
    Valued,
    Vectors,
    all_rows,
    integer_sums_by_label,
    keep,
    sums_by_label,
    take,
    values_by_label,
)
from incmrql.engine.loops.affine.tables import AffineTables
from incmrql.plan.diffusion.ways import StatedError, UnmeasuredError
from incmrql.values.exact.sums import Integers


def affine_follow(
    tables: AffineTables, changes: Sequence[Rows], context: BatchContext, tolerance: float
) -> tuple[Rows, StatedError] | None:
    """The change of the result for changes of the inputs, and what is known of its error.

    None if the loop has to be run again; `affine_reset` then forgets what was kept on the way.
    Differences of less than `tolerance` times the mean size of a value do not flow.
    """
    try:
        with np.errstate(all="ignore"):
            return _follow(tables, changes, context, tolerance)
    except UnmeasuredError:
        return None


def affine_reset(
    tables: AffineTables, inputs: Sequence[Rows], result: Rows, context: BatchContext
) -> bool:
    """Keep a loop that was run over all rows of its inputs, with the result that it has.

    False if it cannot be measured; nothing is kept then.
    """
    for name, schema in tables.own:
        context.truncate(name, schema)
    try:
        with np.errstate(all="ignore"):
            _reset(tables, inputs, result, context)
    except UnmeasuredError:
        for name, schema in tables.own:
            context.truncate(name, schema)
        return False
    return True


# --- a batch ---------------------------------------------------------------------------------


def _follow(
    tables: AffineTables, changes: Sequence[Rows], context: BatchContext, tolerance: float
) -> tuple[Rows, StatedError] | None:
    labels = Labels(tables, context)
    known = labels.count
    taken = take(tables, changes, labels, context, is_first=False)
    account = Account.load(tables, context)
    old = replace(account, strays=account.strays.copy())
    before = Vectors.load(tables, labels.count, context)
    flow = Flow(tables, before, before.grown(labels.count), known, taken, context)
    touched = flow.take(account)
    flow.let_flow(touched, tolerance)
    after = flow.after
    if not np.isfinite([after.result, after.held, after.next]).all():
        raise UnmeasuredError("a value is not finite")
    add_batch(account, tables, (before, after), flow.turned, flow.flowed)
    grow(account, after, flow.added)
    deletes = any((rows.weights < 0).any() for rows in changes)
    if deletes and not account.most < 1.0:
        return None
    keep(tables.numbers, before.columns(), after.columns(), known, context)
    account.keep(old, tables, context)
    context.add(tables.matrix[0], flow.change)
    error = error_of(account, tables, after, context.env.world.max_steps)
    return _moves(before, after, labels), error


def _moves(before: Vectors, after: Vectors, labels: Labels) -> Rows:
    """The rows that leave the result, and those that come to it."""
    differs = (before.there != after.there) | (before.result != after.result)
    old, new = (np.flatnonzero(differs & (v.there > 0)) for v in (before, after))
    values = np.concatenate([before.result[old], after.result[new]])
    weights = np.repeat([-1, 1], [len(old), len(new)])
    return labels.rows(np.concatenate([old, new]), values, weights)


# --- all again -------------------------------------------------------------------------------


def _reset(
    tables: AffineTables, inputs: Sequence[Rows], result: Rows, context: BatchContext
) -> None:
    labels = Labels(tables, context)
    taken = take(tables, inputs, labels, context, is_first=True)
    last = values_by_label(tables, result, labels)
    if (last.weights != 1).any() or len(np.unique(last.labels)) < len(last.labels):
        raise UnmeasuredError("several rows have one label")
    vectors = Vectors.empty(tables, labels.count)
    add_start(vectors, taken.start)
    add_rows_alone(vectors, taken.alone)
    vectors.there[last.labels], vectors.result[last.labels] = 1, last.values
    if not tables.steady:
        _, rows, values = taken.said()
        vectors.constant[rows] = values
    change = taken.matrix()
    matrix = Matrix.of(change, labels.count)
    _fill(tables, vectors, matrix)
    if not np.isfinite(vectors.next).all() or not np.isfinite(vectors.ways).all():
        raise UnmeasuredError("a value is not finite")
    account = Account.new(tables, float(matrix.sizes().max(initial=0.0)))
    grow(account, vectors, 0.0)
    account.keep(None, tables, context)
    keep(tables.numbers, None, vectors.columns(), 0, context)
    context.add(tables.matrix[0], change)


def _fill(tables: AffineTables, vectors: Vectors, matrix: Matrix) -> None:
    """The step after the result, and the way to it, from the matrix."""
    vectors.adding = matrix.counted(vectors.there)
    there = present(tables, vectors)
    vectors.next = constants(tables, vectors, there) + matrix.times(vectors.result)
    vectors.next[~there] = 0.0
    alones = (vectors.alones > 0).astype(np.int64)
    here = (vectors.starts > 0).astype(np.int64)
    for counts in vectors.counts:
        counts += matrix.counted(here) + alones
        here = (counts > 0).astype(np.int64)
    now = vectors.start
    for step, way in enumerate(vectors.ways):
        way += now - vectors.result
        is_there = vectors.counts[step] > 0 if not tables.steady else np.ones_like(there)
        now = np.where(is_there, constants(tables, vectors, is_there) + matrix.times(now), 0.0)


# --- differences, ring by ring ----------------------------------------------------------------


class Flow:
    """Differences that flow in one batch."""

    def __init__(
        self,
        tables: AffineTables,
        before: Vectors,
        after: Vectors,
        known: int,
        taken: Taken,
        context: BatchContext,
    ) -> None:
        self.tables, self.before, self.after, self.taken = tables, before, after, taken
        self.count = len(after.there)
        self.change = taken.matrix()
        whole = Matrix.of(self.change, self.count)
        self.new = whole
        self.turned = whole.only(known)
        self.matrix = Matrix.kept(tables, self.change, self.count, context)
        self.steps = context.env.world.max_steps if tables.limit is None else tables.limit
        self.flowed = Flowed(np.zeros(0))
        self.added = 0.0
        """The sum of all sizes that the batch adds up."""

    def take(self, account: Account) -> Mask:
        """Take the changes in, with the result as it is; the labels that they reach."""
        tables, before, after, new = self.tables, self.before, self.after, self.new
        touched = np.zeros(self.count, np.bool_)
        self.flowed.start = add_start(after, self.taken.start)
        add_rows_alone(after, self.taken.alone)
        if not tables.steady:
            spoken, rows, values = self.taken.said()
            after.constant[rows] = values
            for some in (new.rows, spoken, self.taken.alone.labels):
                touched[some] = True
            touched |= self._update_counts()
        changed = np.unique(new.origins)
        self.matrix.look_at(changed)
        account.norm = max(account.norm, float(self.matrix.sizes()[changed].max(initial=0.0)))
        after.adding += new.counted(before.there)
        flat = np.abs(new.slopes * new.weights * before.result[new.origins])
        self.added = float(flat.sum())
        self.differences = new.times(before.result)
        reached: Mask = touched | self._absorb(before)
        return reached

    def _update_counts(self) -> Mask:
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

    def _absorb(self, before: Vectors) -> Mask:
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
            touched = self._absorb(earlier)
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


def add_start(vectors: Vectors, rows: Valued) -> Doubles:
    """Take in a change of where the loop starts; by how much that moves it."""
    count = len(vectors.there)
    old = vectors.start.copy()
    vectors.starts += integer_sums_by_label(rows.labels, rows.weights, count)
    vectors.start += sums_by_label(rows.labels, rows.weights * rows.values, count)
    vectors.start[vectors.starts == 0] = 0.0
    return vectors.start - old


def add_rows_alone(vectors: Vectors, rows: Valued) -> None:
    """Take in a change of the rows that a step has without the variable."""
    vectors.alones += integer_sums_by_label(rows.labels, rows.weights, len(vectors.there))
    if (vectors.alones > 1).any():
        raise UnmeasuredError("several rows have one label")
    came = rows.weights > 0
    vectors.alone[rows.labels[came]] = rows.values[came]
    vectors.alone[vectors.alones == 0] = 0.0


# --- how far the result can be from that of the loop ------------------------------------------


_ULP: Final = 2.0**-48
"""More than what a step of a few dozen operations rounds, relative to what it adds up."""
_ABOVE: Final = 1.0 + 2.0**-50
"""What a sum of sizes may be short of, by rounding."""
_RINGS: Final = 16.0
"""So many rings round as much as `_ULP` says."""
_SINGLE: Final = 5


@dataclass(slots=True)
class Flowed:
    """What one batch did: where the loop starts, and ring by ring what moved and was cut off."""

    start: Doubles
    moved: list[Doubles] = field(default_factory=list)
    cut: list[float] = field(default_factory=list)
    flipped: list[float] = field(default_factory=list)
    """Constants that came or went."""


@dataclass(slots=True)
class Account:
    """The figures that the bounds are made of."""

    norm: float
    """The greatest sum of sizes in a column, since the loop was run."""
    rate: float
    """What it was then."""
    drift: float
    rounded: float
    """How often sums were rounded since then: once in each batch, and a little in each ring."""
    scale: float
    """The greatest sum of sizes that was added up since then."""
    strays: Doubles
    """For each step, how far the loop may be from what is known of its way."""

    @staticmethod
    def new(tables: AffineTables, norm: float) -> Account:
        """After the loop was run."""
        steps = tables.limit if tables.keeps_ways else 0
        assert steps is not None
        drift = 0.0 if tables.keeps_ways else math.inf
        return Account(norm, min(max(norm, 0.1), 1.0), drift, 0.0, 0.0, np.zeros(steps))

    @staticmethod
    def load(tables: AffineTables, context: BatchContext) -> Account:
        """The figures that are kept."""
        content = all_rows(tables.account, context)
        numbers = content.keys.columns[0].to_numpy(zero_copy_only=False)
        figures = np.zeros(len(content), np.int64)
        figures[numbers] = content.parts.get("figure.v", figures)
        doubles = figures.view(np.float64)
        norm, rate, drift, rounded, scale = doubles[:_SINGLE].tolist()
        return Account(norm, rate, drift, rounded, scale, doubles[_SINGLE:].copy())

    def figures(self) -> dict[str, Any]:
        """All figures as one vector."""
        single = [self.norm, self.rate, self.drift, self.rounded, self.scale]
        return {"figure.v": np.concatenate([single, self.strays])}

    def keep(self, before: Account | None, tables: AffineTables, context: BatchContext) -> None:
        """Keep these figures in the place of others."""
        old = None if before is None else before.figures()
        known = 0 if before is None else _SINGLE + len(before.strays)
        keep(tables.account, old, self.figures(), known, context)

    @property
    def most(self) -> float:
        """The norm of the step, at the most."""
        return self.norm * _ABOVE


def present(tables: AffineTables, vectors: Vectors) -> Mask:
    """Which rows one more step has."""
    some = vectors.adding + vectors.alones if tables.grouped else vectors.alones
    there: Mask = some > 0
    return there


def _missing(tables: AffineTables, vectors: Vectors) -> Doubles:
    """By step, the constants of rows that are there and not in one more step.

    The other way round they are negative.
    """
    there = (vectors.counts > 0).astype(np.int64) - present(tables, vectors)
    found: Doubles = vectors.constant * there
    return found


def _sum_by_last_step(rate: float, sizes: Doubles) -> float:
    """What comes of sizes at steps 1, 2, ... by the last one."""
    steps = len(sizes)
    return float((rate ** (steps - 1.0 - np.arange(steps)) * sizes).sum())


def add_batch(
    account: Account,
    tables: AffineTables,
    vectors: tuple[Vectors, Vectors],
    turned: Matrix,
    flowed: Flowed,
) -> None:
    """Add what a batch brings, given the vectors before and after and how the matrix changed.

    The ways of the labels are brought up to date.
    """
    before, after = vectors
    account.rounded += 1.0 + len(flowed.cut) / _RINGS
    c, n = account.most, tables.limit
    if n is None or not (tables.keeps_ways and c < 1.0):
        account.drift = math.inf
    if n is None or math.isinf(account.drift):
        return
    absent = np.zeros(n)
    if not tables.steady:
        absent = np.abs(_missing(tables, after) - _missing(tables, before)).sum(axis=1)
    most, sizes = _changed_columns(account, before, turned)
    cuts, flips = np.array(flowed.cut), np.array(flowed.flipped)
    places = np.arange(len(cuts))
    started = float(np.abs(flowed.start).sum())
    late = float((c ** (n - places) * cuts).sum())
    late += float(((c ** (n - 1.0 - places) + c**n) * flips).sum())
    pending = float(np.abs(before.held).sum())
    account.drift += (
        c**n * started
        + _sum_by_last_step(c, sizes)
        + late / (1.0 - c)
        + _sum_by_last_step(c, absent)
    )
    account.drift += most * pending / (1.0 - c) ** 2
    every = float(cuts.sum() + 2.0 * flips.sum()) / (1.0 - c) + float(absent.sum())
    for step in range(1, n):
        account.strays[step] += c**step * started + _sum_by_last_step(c, sizes[:step]) + every
    after.ways[0] += flowed.start
    for place, moved in enumerate(flowed.moved):
        after.ways[: place + 1] -= moved


def _changed_columns(account: Account, before: Vectors, turned: Matrix) -> tuple[float, Doubles]:
    """The greatest change of a column, and what the changes make of the way at each step."""
    most = float(turned.sizes().max(initial=0.0))
    found = np.array([float(np.abs(turned.times(way)).sum()) for way in before.ways])
    return most, found + most * account.strays


def error_of(
    account: Account, tables: AffineTables, vectors: Vectors, most_steps: int
) -> StatedError:
    """What is known of the error: a bound while the norm is below 1, else a residual."""
    c = account.most
    n = most_steps if tables.limit is None else tables.limit
    residual = float(np.abs(vectors.next - vectors.result).sum())
    if not 0.0 <= c < 1.0:
        return StatedError("residual", residual, vectors.size, {"residual": residual})
    absent = 0.0
    if not tables.steady:
        missing = np.abs(_missing(tables, vectors)).sum(axis=1)
        absent = max(1.0, c / account.rate) ** n * _sum_by_last_step(account.rate, missing)
    steps = min(n, 1.0 / (1.0 - c)) + account.rounded + 1.0
    rounding = _ULP * steps * account.scale / (1.0 - c) ** 2
    parts = {
        "norm of the step": c,
        "residual": residual * (1.0 + c**n) / (1.0 - c),
        "stopping": c**n * float(np.abs(vectors.start - vectors.result).sum()),
        "rows not there": absent,
        "drift": account.drift,
        "held back": float(np.abs(vectors.held).sum()) / (1.0 - c),
        "rounding": rounding,
    }
    fixed = parts["residual"] + parts["stopping"] + absent + rounding
    differences = account.drift + parts["held back"] + rounding
    parts |= {"by the fixed point": fixed, "by differences": differences}
    return StatedError("bound", min(fixed, differences), vectors.size, parts)


def grow(account: Account, vectors: Vectors, more: float) -> None:
    """Remember the greatest sum of sizes that was added up; `more` was, beside the vectors."""
    sizes = (vectors.result, vectors.start, vectors.next)
    account.scale = max(account.scale, more + sum(float(np.abs(each).sum()) for each in sizes))
