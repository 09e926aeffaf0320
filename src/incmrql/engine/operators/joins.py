"""Joins: ΔX⋈Y + X⋈ΔY + ΔX⋈ΔY, in chunks of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from incmrql.engine.columns.accumulators import Parts, lift_rows, normalize_parts, scaled_sums
from incmrql.engine.columns.keys import Indices, Keys
from incmrql.engine.columns.layouts import Layout, leaves
from incmrql.engine.columns.pipelines import Pipeline
from incmrql.engine.columns.rows import Rows
from incmrql.engine.compile.physical import Fused, PhysicalSide
from incmrql.engine.context import BatchContext
from incmrql.engine.loops.recompute.joins import JoinEvaluator
from incmrql.engine.operators.base import Evaluator, NamedSchema, StatefulOp, any_by_row
from incmrql.engine.store.content import SortedRows, aggregate_rows, empty, keys_of_rows, merge
from incmrql.engine.store.lookup import expand_ranges, partners, slices_by_count, span_of
from incmrql.engine.store.segments import SegmentRows
from incmrql.engine.store.sorting import RowGroups, TableSchema
from incmrql.reference import Environment
from incmrql.values.exact.sums import Integers
from incmrql.values.hashing.columns import Hashes

MOST_PAIRS: Final = 1 << 20
"""The most pairs in a chunk."""


@dataclass(frozen=True, slots=True)
class Sums(Rows):
    """What rows of a join contribute to the accumulators of the fold above, instead of the rows."""

    content: SortedRows


@dataclass(frozen=True, slots=True)
class JoinOp(StatefulOp):
    """ΔX⋈Y + X⋈ΔY + ΔX⋈ΔY: `body` over key, left value and right value."""

    is_bilinear: ClassVar[bool] = True

    sides: tuple[PhysicalSide, PhysicalSide]
    key: Layout
    body: Pipeline
    fused: Fused | None = None

    @property
    def state_tables(self) -> tuple[NamedSchema, ...]:
        """The rows of the sides that are kept."""
        return tuple((side.table, side.schema) for side in self.sides if side.table is not None)

    @property
    def is_by_row(self) -> bool:
        """Whether sides or pairs are evaluated one by one."""
        return any_by_row([*[side.paired for side in self.sides], self.body])

    @property
    def is_cross(self) -> bool:
        """Whether there is no key."""
        return not leaves(self.key)

    @property
    def delta_schemas(self) -> tuple[TableSchema, ...]:
        """The schemas of both sides."""
        return tuple(side.schema for side in self.sides)

    def has_rows(self, inputs: Sequence[bool]) -> bool:
        """Whether both sides have any."""
        return all(inputs)

    def gather(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[SortedRows]:
        """The inserted and deleted rows of each side, by key."""
        return [_delta(side, chunks, env) for side, chunks in zip(self.sides, inputs, strict=True)]

    def meet(self, deltas: Sequence[SortedRows], context: BatchContext) -> Iterator[Rows]:
        """The delta of the pairs that agree on a key; adds the deltas to the sides that are kept.

        If the join is fused with a fold above, rows of the summed side are joined as sums.
        """
        left, right = deltas
        summed = None if self.fused is None else self.fused.side
        # ΔX joins Y and ΔY, then ΔY joins only X: the tables do not have the deltas yet, so that
        # each pair of two new rows comes once.
        if len(left) and summed == 0:
            yield from _sums_with_partners(self, left, right, context)
        elif len(left):
            yield from _pairs_with_partners(self, left, right, context, flipped=False)
        if len(right) and summed == 1:
            yield from _sums_with_partners(self, right, None, context)
        elif len(right):
            yield from _pairs_with_partners(self, right, None, context, flipped=True)
        for side, delta in zip(self.sides, deltas, strict=True):
            if side.owns:
                context.add(side.table, delta)

    def evaluator(self, moving: tuple[bool, ...], _most: int) -> Evaluator:
        """All pairs; sides with the same keys as in the last call reuse which rows match."""
        evaluator = JoinEvaluator(self, moving)
        return lambda inputs, context: evaluator.meet(inputs, context.env)


def _delta(side: PhysicalSide, chunks: Iterable[Rows], env: Environment) -> SortedRows:
    """The delta of a side, consolidated."""
    parts = []
    columns = (*range(side.key_width), *side.columns)
    for chunk in chunks:
        if len(chunk):
            pairs = chunk if side.paired is None else side.paired.apply(chunk, env)
            parts.append(aggregate_rows(side.schema, pairs.pick(columns).columns, pairs.weights))
    return merge(parts) if parts else empty(side.schema)


def _pairs_with_partners(
    join: JoinOp,
    change: SortedRows,
    more: SortedRows | None,
    context: BatchContext,
    *,
    flipped: bool,
) -> Iterator[Rows]:
    """The pairs of rows of a change with their partners in the table and in `more`."""
    other = join.sides[0 if flipped else 1]
    hashes, keys, of_row = keys_of_rows(change)
    starts = np.searchsorted(of_row, np.arange(len(hashes)))
    counts = np.diff(np.append(starts, len(change)))
    table = context.table(other.table, other.schema)
    stored = partners(table, context.reader, hashes, keys)
    for key_indices, rows in chain(stored, _partners_in(more, hashes, keys)):
        for chosen in slices_by_count(counts[key_indices], MOST_PAIRS):
            some, partner = key_indices[chosen], rows.slice(chosen.start, chosen.stop)
            own, others = _pair_indices(starts[some], counts[some])
            pairs = _pair_rows(change, own, partner, others, flipped=flipped)
            yield join.body.apply(pairs, context.env)


def _sums_with_partners(
    join: JoinOp, change: SortedRows, more: SortedRows | None, context: BatchContext
) -> Iterator[Sums]:
    """What partners of a change contribute to the fold above: each joins the sum of its key."""
    fused = join.fused
    assert fused is not None
    hashes, keys, of_row = keys_of_rows(change)
    n = len(hashes)
    columns = list(fused.added.apply(Rows(change.columns, change.weights), context.env).columns)
    parts: Parts = {}
    for lift in fused.lifts:
        parts |= lift_rows(lift, columns, change.weights, of_row, n)
    parts = normalize_parts(parts)
    counts = np.zeros(n, np.int64)
    np.add.at(counts, of_row, change.weights)
    other = join.sides[1 - fused.side]
    table = context.table(other.table, other.schema)
    stored = partners(table, context.reader, hashes, keys)
    for key_indices, rows in chain(stored, _partners_in(more, hashes, keys)):
        by = fused.grouped.apply(Rows(rows.columns, rows.weights), context.env)
        weights = (
            counts[key_indices] * rows.weights if fused.counted else np.zeros_like(key_indices)
        )

        def sums(groups: RowGroups, at: Integers = key_indices, rows: SortedRows = rows) -> Parts:
            return scaled_sums(parts, at, rows.weights, groups.of_row, len(groups))

        content = aggregate_rows(fused.schema, by.columns, weights, sums)
        yield Sums((), content.weights, content)


def _partners_in(
    more: SortedRows | None, hashes: Hashes, keys: Keys
) -> Iterator[tuple[Indices, SortedRows]]:
    """The rows of keys in a change: the index of the key, and the row."""
    if more is not None and len(more):
        span = span_of(SegmentRows.of(more), hashes, keys)
        yield span.row_keys, more.take(span.positions)


def _pair_indices(starts: Integers, times: Integers) -> tuple[Integers, Integers | None]:
    """For each pair, the index of the row in the change, and of its partner; None: all, once."""
    if (times == 1).all():
        return starts, None
    partner_indices = np.repeat(np.arange(len(times)), times)
    return expand_ranges(starts, times), partner_indices


def _pair_rows(
    change: SortedRows,
    indices: Integers,
    partner: SortedRows,
    partner_indices: Integers | None,
    *,
    flipped: bool,
) -> Rows:
    """Pairs as rows: key, left value, right value."""
    index = pa.array(indices)
    own = [column.take(index) for column in change.columns]
    width = len(change.schema.keys)
    others, weights = list(partner.rest.columns), partner.weights
    if partner_indices is not None:
        chosen = pa.array(partner_indices)
        others, weights = [column.take(chosen) for column in others], weights[partner_indices]
    values = [*others, *own[width:]] if flipped else [*own[width:], *others]
    return Rows((*own[:width], *values), change.weights[indices] * weights)
