"""Affine loops that are diffused: a batch moves the result by the differences that it makes.

The step is x → A x + b.  Its matrix A is kept by columns, and brought up to date by a program of
changes; so a batch reads the columns of labels that it reaches, and no others, once for all rings.
What is kept and what is stated are those of `incremental.diffuse`, with two differences: sums are
added up as doubles, which the part for rounding covers, and rows that are there several times are
not diffused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from incmrql.incremental.diffuse import UnmeasuredError
from incmrql.kernel.desk import Desk
from incmrql.kernel.diffuse_affine_bound import Account, add_batch, error_of, grow, present
from incmrql.kernel.diffuse_affine_compile import affine_compiled
from incmrql.kernel.diffuse_affine_flow import Flow, constants, rows_alone, started
from incmrql.kernel.diffuse_affine_tables import AffineTables
from incmrql.kernel.diffuse_affine_taking import Labels, take, valued
from incmrql.kernel.diffuse_affine_vectors import Matrix, Vectors, keep
from incmrql.kernel.rows import Rows

__all__ = ["AffineTables", "affine_compiled", "affine_follow", "affine_reset"]


def affine_follow(
    tables: AffineTables, changes: Sequence[Rows], desk: Desk, tolerance: float
) -> tuple[Rows, dict[str, Any]] | None:
    """The change of the result for changes of the inputs, and what is known of its error.

    None if the loop has to be run again; `affine_reset` then forgets what was kept on the way.
    Differences of less than `tolerance` times the mean size of a value do not flow.  The error
    has `kind`, `figure`, its `parts`, and the `size` of the result, the sum of all sizes.
    """
    try:
        with np.errstate(all="ignore"):
            return _followed(tables, changes, desk, tolerance)
    except UnmeasuredError:
        return None


def affine_reset(tables: AffineTables, inputs: Sequence[Rows], result: Rows, desk: Desk) -> bool:
    """Keep a loop that was run over all rows of its inputs, with the result that it has.

    False if it cannot be measured; nothing is kept then.
    """
    for name, form in tables.own:
        desk.clear(name, form)
    try:
        with np.errstate(all="ignore"):
            _reset(tables, inputs, result, desk)
    except UnmeasuredError:
        for name, form in tables.own:
            desk.clear(name, form)
        return False
    return True


# --- a batch ---------------------------------------------------------------------------------


def _followed(
    tables: AffineTables, changes: Sequence[Rows], desk: Desk, tolerance: float
) -> tuple[Rows, dict[str, Any]] | None:
    labels = Labels(tables, desk)
    known = labels.count
    taken = take(tables, changes, labels, desk, is_first=False)
    account = Account.load(tables, desk)
    old = replace(account, strays=account.strays.copy())
    before = Vectors.load(tables, labels.count, desk)
    flow = Flow(tables, before, before.grown(labels.count), known, taken, desk)
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
    keep(tables.numbers, before.columns(), after.columns(), known, desk)
    account.keep(old, tables, desk)
    desk.change(tables.matrix[0], flow.change)
    found = error_of(account, tables, after, desk.env.world.max_steps)
    return _moves(before, after, labels), found


def _moves(before: Vectors, after: Vectors, labels: Labels) -> Rows:
    """The rows that leave the result, and those that come to it."""
    differs = (before.there != after.there) | (before.result != after.result)
    old, new = (np.flatnonzero(differs & (v.there > 0)) for v in (before, after))
    values = np.concatenate([before.result[old], after.result[new]])
    weights = np.repeat([-1, 1], [len(old), len(new)])
    return labels.rows(np.concatenate([old, new]), values, weights)


# --- all again -------------------------------------------------------------------------------


def _reset(tables: AffineTables, inputs: Sequence[Rows], result: Rows, desk: Desk) -> None:
    labels = Labels(tables, desk)
    taken = take(tables, inputs, labels, desk, is_first=True)
    last = valued(tables, result, labels)
    if (last.weights != 1).any() or len(np.unique(last.labels)) < len(last.labels):
        raise UnmeasuredError("several rows have one label")
    vectors = Vectors.empty(tables, labels.count)
    started(vectors, taken.start)
    rows_alone(vectors, taken.alone)
    vectors.there[last.labels], vectors.result[last.labels] = 1, last.values
    if not tables.steady:
        _, rows, values = taken.said()
        vectors.constant[rows] = values
    change = taken.matrix()
    matrix = Matrix.of(change, labels.count)
    _filled(tables, vectors, matrix)
    if not np.isfinite(vectors.next).all() or not np.isfinite(vectors.ways).all():
        raise UnmeasuredError("a value is not finite")
    account = Account.new(tables, float(matrix.sizes().max(initial=0.0)))
    grow(account, vectors, 0.0)
    account.keep(None, tables, desk)
    keep(tables.numbers, None, vectors.columns(), 0, desk)
    desk.change(tables.matrix[0], change)


def _filled(tables: AffineTables, vectors: Vectors, matrix: Matrix) -> None:
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
