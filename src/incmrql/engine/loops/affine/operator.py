"""Diffusion of affine loops: a batch moves the result by the differences that it causes.

The step is x → A x + b.  The state has the matrix A by columns, and a program of changes updates
it.  A batch reads only the columns of labels that it reaches, each once for all rings, where ring n
are the labels that differences reach after n steps.  State and bound are those of
`plan.diffusion.shape`, with two differences: sums are sums of doubles, which the bound covers as
rounding, and loops with rows of weight 2 or more do not diffuse.  `tests/oracle/diffusion/bound.py`
says why the bound holds.
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
    LabelledRows,
    Labels,
    LoopChange,
    Matrix,
    Vectors,
    all_rows,
    integer_sums_by_label,
    keep,
    loop_change,
    sums_by_label,
    values_by_label,
)
from incmrql.engine.loops.affine.tables import AffineTables
from incmrql.plan.diffusion.ways import StatedError, UnmeasuredError
from incmrql.values.exact.sums import Integers


def affine_follow(
    tables: AffineTables, changes: Sequence[Rows], context: BatchContext, tolerance: float
) -> tuple[Rows, StatedError] | None:
    """The delta of the result for deltas of the inputs, and its error.

    None if the loop has to be recomputed; `affine_reset` then replaces whatever was added to the
    state meanwhile.  Differences below `tolerance` times the mean size of a value are held back.
    """
    try:
        with np.errstate(all="ignore"):
            return _follow(tables, changes, context, tolerance)
    except UnmeasuredError:
        return None


def affine_reset(
    tables: AffineTables, inputs: Sequence[Rows], result: Rows, context: BatchContext
) -> bool:
    """Set up the state of a loop that was recomputed, from all rows of its inputs and its result.

    False if the loop cannot diffuse from there; the state is then empty.
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
    """Apply the deltas to matrix and vectors, let differences flow, and account for the error."""
    labels = Labels(tables, context)
    known = labels.count
    change = loop_change(tables, changes, labels, context, is_first=False)
    account = Account.load(tables, context)
    old = replace(account, strays=account.strays.copy())
    before = Vectors.load(tables, labels.count, context)
    flow = DifferenceFlow(tables, before, before.extend(labels.count), known, change, context)
    reached = flow.apply_change(account)
    flow.let_flow(reached, tolerance)
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
    """-old +new of the rows of the result."""
    differs = (before.there != after.there) | (before.result != after.result)
    old, new = (np.flatnonzero(differs & (v.there > 0)) for v in (before, after))
    values = np.concatenate([before.result[old], after.result[new]])
    weights = np.repeat([-1, 1], [len(old), len(new)])
    return labels.rows(np.concatenate([old, new]), values, weights)


# --- after a recomputation -------------------------------------------------------------------


def _reset(
    tables: AffineTables, inputs: Sequence[Rows], result: Rows, context: BatchContext
) -> None:
    """Store matrix, vectors and account for a result that was recomputed."""
    labels = Labels(tables, context)
    whole = loop_change(tables, inputs, labels, context, is_first=True)
    last = values_by_label(tables, result, labels)
    if (last.weights != 1).any() or len(np.unique(last.labels)) < len(last.labels):
        raise UnmeasuredError("several rows have one label")
    vectors = Vectors.empty(tables, labels.count)
    add_start(vectors, whole.start)
    add_rows_alone(vectors, whole.alone)
    vectors.there[last.labels], vectors.result[last.labels] = 1, last.values
    if not tables.steady:
        _, rows, values = whole.changed_constants()
        vectors.constant[rows] = values
    change = whole.matrix()
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
    """Fill in the next step after the result, and the way to it, from the matrix."""
    vectors.adding = matrix.count_times(vectors.there)
    there = present(tables, vectors)
    vectors.next = constants(tables, vectors, there) + matrix.times(vectors.result)
    vectors.next[~there] = 0.0
    alones = (vectors.alones > 0).astype(np.int64)
    here = (vectors.starts > 0).astype(np.int64)
    for counts in vectors.counts:
        counts += matrix.count_times(here) + alones
        here = (counts > 0).astype(np.int64)
    now = vectors.start
    for step, way in enumerate(vectors.ways):
        way += now - vectors.result
        is_there = vectors.counts[step] > 0 if not tables.steady else np.ones_like(there)
        now = np.where(is_there, constants(tables, vectors, is_there) + matrix.times(now), 0.0)


# --- differences, ring by ring ----------------------------------------------------------------


class DifferenceFlow:
    """The flow of differences in one batch."""

    def __init__(
        self,
        tables: AffineTables,
        before: Vectors,
        after: Vectors,
        known: int,
        loop_change: LoopChange,
        context: BatchContext,
    ) -> None:
        self.tables, self.before, self.after = tables, before, after
        self.loop_change = loop_change
        self.count = len(after.there)
        self.change = loop_change.matrix()
        whole = Matrix.of(self.change, self.count)
        self.new = whole
        self.turned = whole.only(known)
        self.matrix = Matrix.of_stored_rows(tables, self.change, self.count, context)
        self.steps = context.env.world.max_steps if tables.limit is None else tables.limit
        self.flowed = FlowRecord(np.zeros(0))
        self.added = 0.0
        """The sum of the absolute values of everything that the batch adds up."""

    def apply_change(self, account: Account) -> Mask:
        """Apply the change of the loop while the result stays; returns the labels it reaches."""
        tables, before, after, new = self.tables, self.before, self.after, self.new
        touched = np.zeros(self.count, np.bool_)
        self.flowed.start = add_start(after, self.loop_change.start)
        add_rows_alone(after, self.loop_change.alone)
        if not tables.steady:
            changed_rows, rows, values = self.loop_change.changed_constants()
            after.constant[rows] = values
            for labels in (new.rows, changed_rows, self.loop_change.alone.labels):
                touched[labels] = True
            touched |= self._update_counts()
        changed = np.unique(new.origins)
        self.matrix.read_columns(changed)
        account.norm = max(account.norm, float(self.matrix.sizes()[changed].max(initial=0.0)))
        after.adding += new.count_times(before.there)
        flat = np.abs(new.slopes * new.weights * before.result[new.origins])
        self.added = float(flat.sum())
        self.differences = new.times(before.result)
        reached: Mask = touched | self._absorb(before)
        return reached

    def _update_counts(self) -> Mask:
        """Update at which steps rows exist; returns the labels for which that changed."""
        before, after, new = self.before, self.after, self.new
        more = (after.alones > 0).astype(np.int64) - (before.alones > 0)
        was, is_ = before.starts > 0, after.starts > 0
        is_changed: Mask = was != is_
        for old, counts in zip(before.counts, after.counts, strict=True):
            turned = is_.astype(np.int64) - was
            self.matrix.read_columns(np.flatnonzero(turned))
            counts += new.count_times(was.astype(np.int64)) + self.matrix.count_times(turned) + more
            was, is_ = old > 0, counts > 0
            is_changed |= was != is_
        return is_changed

    def _absorb(self, before: Vectors) -> Mask:
        """Add the differences to the next step; returns the labels for which they changed it.

        The differences include those of constants that appeared or disappeared since `before`.
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
        """Let differences flow ring by ring, at most as many rings as the loop has steps."""
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
            self.matrix.read_columns(np.flatnonzero((moved != 0.0) | (came != 0)))
            self.differences = self.matrix.times(moved)
            earlier = replace(after, adding=after.adding.copy())
            after.adding += self.matrix.count_times(came)
            flips = present(self.tables, earlier) != present(self.tables, after)
            if not self.tables.steady:
                self.flowed.flipped[-1] = float(np.abs(after.constant[flips]).sum())
            touched = self._absorb(earlier)
        if self.tables.limit is None:
            after.held += self.differences

    def _move(self, touched: Mask, least: float) -> Doubles:
        """Move the result by differences that are large enough; hold the others back."""
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
        """The labels that have a row in the result from now on."""
        tables, before, after = self.tables, self.before, self.after
        if not tables.steady:
            last: Integers = (after.counts[-1] > 0).astype(np.int64)
            return last
        was, is_ = present(tables, before), present(tables, after)
        kept = np.where(after.there > 0, 1, is_ & is_large)
        there: Integers = np.where(was != is_, is_, kept).astype(np.int64)
        return there


def constants(tables: AffineTables, vectors: Vectors, there: Mask) -> Doubles:
    """The values that rows have without any contribution."""
    if tables.steady:
        return vectors.alone
    values: Doubles = np.where(
        vectors.alones > 0, vectors.alone, np.where(there, vectors.constant, 0.0)
    )
    return values


def add_start(vectors: Vectors, rows: LabelledRows) -> Doubles:
    """Apply a delta of the initial rows; returns by how much it moves them."""
    count = len(vectors.there)
    old = vectors.start.copy()
    vectors.starts += integer_sums_by_label(rows.labels, rows.weights, count)
    vectors.start += sums_by_label(rows.labels, rows.weights * rows.values, count)
    vectors.start[vectors.starts == 0] = 0.0
    return vectors.start - old


def add_rows_alone(vectors: Vectors, rows: LabelledRows) -> None:
    """Apply a delta of the rows that a step has without the variable."""
    vectors.alones += integer_sums_by_label(rows.labels, rows.weights, len(vectors.there))
    if (vectors.alones > 1).any():
        raise UnmeasuredError("several rows have one label")
    is_new = rows.weights > 0
    vectors.alone[rows.labels[is_new]] = rows.values[is_new]
    vectors.alone[vectors.alones == 0] = 0.0


# --- how far the result can be from that of the loop ------------------------------------------


_ULP: Final = 2.0**-48
"""More than the rounding of a step of a few dozen operations, relative to what it adds up."""
_ABOVE: Final = 1.0 + 2.0**-50
"""The factor by which a sum of absolute values may be too small because of rounding."""
_RINGS: Final = 16.0
"""The number of rings whose rounding `_ULP` covers."""
_SINGLE: Final = 5


@dataclass(slots=True)
class FlowRecord:
    """The record of one batch for the bound: the moved start, and what each ring moved or cut."""

    start: Doubles
    moved: list[Doubles] = field(default_factory=list)
    cut: list[float] = field(default_factory=list)
    flipped: list[float] = field(default_factory=list)
    """The size of constants that appeared or disappeared, by ring."""


@dataclass(slots=True)
class Account:
    """The figures from which the error bound is computed."""

    norm: float
    """The greatest norm of a column of the matrix since the loop was recomputed."""
    rate: float
    """The norm at that time."""
    drift: float
    rounded: float
    """How often sums were rounded since: once in each batch, and a little in each ring."""
    scale: float
    """The greatest sum of absolute values that was added up since."""
    strays: Doubles
    """For each step, a bound on the distance of the loop from the known way."""

    @staticmethod
    def new(tables: AffineTables, norm: float) -> Account:
        """The account of a loop that was just recomputed."""
        steps = tables.limit if tables.keeps_ways else 0
        assert steps is not None
        drift = 0.0 if tables.keeps_ways else math.inf
        return Account(norm, min(max(norm, 0.1), 1.0), drift, 0.0, 0.0, np.zeros(steps))

    @staticmethod
    def load(tables: AffineTables, context: BatchContext) -> Account:
        """The stored figures."""
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
        """Replace the stored figures by these."""
        old = None if before is None else before.figures()
        known = 0 if before is None else _SINGLE + len(before.strays)
        keep(tables.account, old, self.figures(), known, context)

    @property
    def most(self) -> float:
        """An upper bound on the norm of the step."""
        return self.norm * _ABOVE


def present(tables: AffineTables, vectors: Vectors) -> Mask:
    """The labels that have a row after one more step."""
    some = vectors.adding + vectors.alones if tables.grouped else vectors.alones
    there: Mask = some > 0
    return there


def _missing(tables: AffineTables, vectors: Vectors) -> Doubles:
    """By step, the constants of rows that exist at this step and not after one more step.

    Constants of rows for which it is the other way round are negative.
    """
    there = (vectors.counts > 0).astype(np.int64) - present(tables, vectors)
    missing: Doubles = vectors.constant * there
    return missing


def _sum_by_last_step(rate: float, sizes: Doubles) -> float:
    """The effect at the last step of errors of these sizes at steps 1, 2, ..."""
    steps = len(sizes)
    return float((rate ** (steps - 1.0 - np.arange(steps)) * sizes).sum())


def add_batch(
    account: Account,
    tables: AffineTables,
    vectors: tuple[Vectors, Vectors],
    turned: Matrix,
    flowed: FlowRecord,
) -> None:
    """Add a batch to the account, given the vectors before and after and the changed columns.

    Also updates the ways of the labels.
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
    rings = np.arange(len(cuts))
    started = float(np.abs(flowed.start).sum())
    late = float((c ** (n - rings) * cuts).sum())
    late += float(((c ** (n - 1.0 - rings) + c**n) * flips).sum())
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
    for ring, moved in enumerate(flowed.moved):
        after.ways[: ring + 1] -= moved


def _changed_columns(account: Account, before: Vectors, turned: Matrix) -> tuple[float, Doubles]:
    """The greatest change of a column, and a bound on the change of the way at each step."""
    most = float(turned.sizes().max(initial=0.0))
    sizes = np.array([float(np.abs(turned.times(way)).sum()) for way in before.ways])
    return most, sizes + most * account.strays


def error_of(
    account: Account, tables: AffineTables, vectors: Vectors, most_steps: int
) -> StatedError:
    """The error: a bound while the norm of the step is below 1, else the residual."""
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
    """Update the greatest sum of absolute values; `more` was added up besides the vectors."""
    sizes = (vectors.result, vectors.start, vectors.next)
    account.scale = max(account.scale, more + sum(float(np.abs(v).sum()) for v in sizes))
