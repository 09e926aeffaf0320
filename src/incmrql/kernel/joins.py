"""Joins: ΔX⋈Y + X⋈ΔY + ΔX⋈ΔY, in chunks of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from incmrql.kernel.accumulators import Parts, tidy
from incmrql.kernel.content import Content, added_up, empty, merge, touched_keys
from incmrql.kernel.desk import Desk
from incmrql.kernel.keys import Keys, Places
from incmrql.kernel.lifting import lifted, scaled_sums
from incmrql.kernel.look import partners
from incmrql.kernel.physical import Joined, Side
from incmrql.kernel.rows import Rows
from incmrql.kernel.run_rows import RunRows
from incmrql.kernel.sorting import Groups
from incmrql.kernel.spans import expanded, portions, span_of
from incmrql.kernel.sums import Integers
from incmrql.reference import Environment
from incmrql.values.hash_columns import Hashes

MOST_PAIRS: Final = 1 << 20
"""Pairs of a chunk."""


@dataclass(frozen=True, slots=True)
class Sums(Rows):
    """What rows of a join bring to the accumulators of the fold above it, instead of the rows."""

    content: Content


def joined_gather(
    step: Joined, inputs: Sequence[Iterable[Rows]], env: Environment
) -> list[Content]:
    """The rows of each side that came and went, by key."""
    return [_change(side, chunks, env) for side, chunks in zip(step.sides, inputs, strict=True)]


def joined_meet(step: Joined, changes: Sequence[Content], desk: Desk) -> Iterator[Rows]:
    """The change of the pairs that agree on a key; the sides that are kept remember theirs.

    Where a fold above adds up what one side has, rows of that side meet their partners as sums.
    """
    left, right = changes
    added = None if step.fused is None else step.fused.side
    if len(left) and added == 0:
        yield from _met_by_sums(step, left, right, desk)
    elif len(left):
        yield from _met(step, left, right, desk, flipped=False)
    if len(right) and added == 1:
        yield from _met_by_sums(step, right, None, desk)
    elif len(right):
        yield from _met(step, right, None, desk, flipped=True)
    for side, change in zip(step.sides, changes, strict=True):
        if side.owns:
            desk.change(side.table, change)


def _change(side: Side, chunks: Iterable[Rows], env: Environment) -> Content:
    found = []
    columns = (*range(side.key_width), *side.columns)
    for chunk in chunks:
        if len(chunk):
            pairs = chunk if side.paired is None else side.paired.apply(chunk, env)
            found.append(added_up(side.form, pairs.pick(columns).columns, pairs.weights))
    return merge(found) if found else empty(side.form)


def _met(
    step: Joined, change: Content, more: Content | None, desk: Desk, *, flipped: bool
) -> Iterator[Rows]:
    """Rows of a change with their partners: those that are remembered, and `more`."""
    other = step.sides[0 if flipped else 1]
    hashes, keys, of_row = touched_keys(change)
    starts = np.searchsorted(of_row, np.arange(len(hashes)))
    counts = np.diff(np.append(starts, len(change)))
    table = desk.table(other.table, other.form)
    found = partners(table, desk.reader, hashes, keys)
    for places, rows in chain(found, _among(more, hashes, keys)):
        for chosen in portions(counts[places], MOST_PAIRS):
            some, partner = places[chosen], rows.slice(chosen.start, chosen.stop)
            mine, yours = _pairs(starts[some], counts[some])
            pairs = _rows(change, mine, partner, yours, flipped=flipped)
            yield step.body.apply(pairs, desk.env)


def _met_by_sums(step: Joined, change: Content, more: Content | None, desk: Desk) -> Iterator[Sums]:
    """What the partners of a change bring to the fold above: each the sum of the rows it meets."""
    fused = step.fused
    assert fused is not None
    hashes, keys, of_row = touched_keys(change)
    n = len(hashes)
    columns = list(fused.added.apply(Rows(change.columns, change.weights), desk.env).columns)
    parts: Parts = {}
    for lift in fused.lifts:
        parts |= lifted(lift, columns, change.weights, of_row, n)
    parts = tidy(parts)
    counts = np.zeros(n, np.int64)
    np.add.at(counts, of_row, change.weights)
    other = step.sides[1 - fused.side]
    table = desk.table(other.table, other.form)
    found = partners(table, desk.reader, hashes, keys)
    for places, rows in chain(found, _among(more, hashes, keys)):
        by = fused.grouped.apply(Rows(rows.columns, rows.weights), desk.env)
        weights = counts[places] * rows.weights if fused.counted else np.zeros_like(places)

        def brought(groups: Groups, at: Integers = places, rows: Content = rows) -> Parts:
            return scaled_sums(parts, at, rows.weights, groups.of_row, len(groups))

        content = added_up(fused.form, by.columns, weights, brought)
        yield Sums((), content.weights, content)


def _among(more: Content | None, hashes: Hashes, keys: Keys) -> Iterator[tuple[Places, Content]]:
    """The rows of keys in a change."""
    if more is not None and len(more):
        span = span_of(RunRows.of(more), hashes, keys)
        yield span.places, more.take(span.positions)


def _pairs(starts: Integers, times: Integers) -> tuple[Integers, Integers | None]:
    """For each pair the place in the change and that of the partner; None: all, once."""
    if (times == 1).all():
        return starts, None
    yours = np.repeat(np.arange(len(times)), times)
    return expanded(starts, times), yours


def _rows(
    change: Content, mine: Integers, partner: Content, yours: Integers | None, *, flipped: bool
) -> Rows:
    """Pairs as rows: key, left value, right value."""
    index = pa.array(mine)
    own = [column.take(index) for column in change.columns]
    width = len(change.form.keys)
    others, weights = list(partner.rest.columns), partner.weights
    if yours is not None:
        chosen = pa.array(yours)
        others, weights = [column.take(chosen) for column in others], weights[yours]
    values = [*others, *own[width:]] if flipped else [*own[width:], *others]
    return Rows((*own[:width], *values), change.weights[mine] * weights)
