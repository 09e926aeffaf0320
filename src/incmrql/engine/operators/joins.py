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
from incmrql.engine.compile.physical import Fused, Side
from incmrql.engine.context import BatchContext
from incmrql.engine.loops.recompute.joins import Joining
from incmrql.engine.operators.base import Evaluator, NamedSchema, StatefulOp, any_by_row
from incmrql.engine.store.content import SortedRows, aggregate_rows, empty, keys_of_rows, merge
from incmrql.engine.store.lookup import expand_ranges, partners, slices_by_count, span_of
from incmrql.engine.store.segments import SegmentRows
from incmrql.engine.store.sorting import Groups, TableSchema
from incmrql.reference import Environment
from incmrql.values.exact.sums import Integers
from incmrql.values.hashing.columns import Hashes

MOST_PAIRS: Final = 1 << 20
"""Pairs of a chunk."""


@dataclass(frozen=True, slots=True)
class Sums(Rows):
    """What rows of a join bring to the accumulators of the fold above it, instead of the rows."""

    content: SortedRows


@dataclass(frozen=True, slots=True)
class JoinOp(StatefulOp):
    """ΔX⋈Y + X⋈ΔY + ΔX⋈ΔY: `body` over key, left value and right value."""

    is_bilinear: ClassVar[bool] = True

    sides: tuple[Side, Side]
    key: Layout
    body: Pipeline
    fused: Fused | None = None

    @property
    def state_tables(self) -> tuple[NamedSchema, ...]:
        """The rows of the sides that are kept."""
        return tuple((each.table, each.schema) for each in self.sides if each.table is not None)

    @property
    def is_by_row(self) -> bool:
        """Whether sides or pairs are gone through one by one."""
        return any_by_row([*[side.paired for side in self.sides], self.body])

    @property
    def is_cross(self) -> bool:
        """Whether there is no key."""
        return not leaves(self.key)

    @property
    def delta_schemas(self) -> tuple[TableSchema, ...]:
        """Those of both sides."""
        return tuple(side.schema for side in self.sides)

    def has_rows(self, given: Sequence[bool]) -> bool:
        """Whether both sides have any."""
        return all(given)

    def gather(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[SortedRows]:
        """The rows of each side that came and went, by key."""
        return [_delta(side, chunks, env) for side, chunks in zip(self.sides, inputs, strict=True)]

    def meet(self, deltas: Sequence[SortedRows], context: BatchContext) -> Iterator[Rows]:
        """The change of the pairs that agree on a key; the sides that are kept remember theirs.

        Where a fold above adds up what one side has, rows of that side meet their partners as
        sums.
        """
        left, right = deltas
        added = None if self.fused is None else self.fused.side
        if len(left) and added == 0:
            yield from _sums_with_partners(self, left, right, context)
        elif len(left):
            yield from _pairs_with_partners(self, left, right, context, flipped=False)
        if len(right) and added == 1:
            yield from _sums_with_partners(self, right, None, context)
        elif len(right):
            yield from _pairs_with_partners(self, right, None, context, flipped=True)
        for side, delta in zip(self.sides, deltas, strict=True):
            if side.owns:
                context.add(side.table, delta)

    def evaluator(self, moving: tuple[bool, ...], _most: int) -> Evaluator:
        """All pairs; sides with the same keys as before meet the same rows."""
        joining = Joining(self, moving)
        return lambda inputs, context: joining.meet(inputs, context.env)


def _delta(side: Side, chunks: Iterable[Rows], env: Environment) -> SortedRows:
    found = []
    columns = (*range(side.key_width), *side.columns)
    for chunk in chunks:
        if len(chunk):
            pairs = chunk if side.paired is None else side.paired.apply(chunk, env)
            found.append(aggregate_rows(side.schema, pairs.pick(columns).columns, pairs.weights))
    return merge(found) if found else empty(side.schema)


def _pairs_with_partners(
    join: JoinOp,
    change: SortedRows,
    more: SortedRows | None,
    context: BatchContext,
    *,
    flipped: bool,
) -> Iterator[Rows]:
    """Rows of a change with their partners: those that are remembered, and `more`."""
    other = join.sides[0 if flipped else 1]
    hashes, keys, of_row = keys_of_rows(change)
    starts = np.searchsorted(of_row, np.arange(len(hashes)))
    counts = np.diff(np.append(starts, len(change)))
    table = context.table(other.table, other.schema)
    found = partners(table, context.reader, hashes, keys)
    for places, rows in chain(found, _among(more, hashes, keys)):
        for chosen in slices_by_count(counts[places], MOST_PAIRS):
            some, partner = places[chosen], rows.slice(chosen.start, chosen.stop)
            mine, yours = _pairs(starts[some], counts[some])
            pairs = _rows(change, mine, partner, yours, flipped=flipped)
            yield join.body.apply(pairs, context.env)


def _sums_with_partners(
    join: JoinOp, change: SortedRows, more: SortedRows | None, context: BatchContext
) -> Iterator[Sums]:
    """What the partners of a change bring to the fold above: each the sum of the rows it meets."""
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
    found = partners(table, context.reader, hashes, keys)
    for places, rows in chain(found, _among(more, hashes, keys)):
        by = fused.grouped.apply(Rows(rows.columns, rows.weights), context.env)
        weights = counts[places] * rows.weights if fused.counted else np.zeros_like(places)

        def brought(groups: Groups, at: Integers = places, rows: SortedRows = rows) -> Parts:
            return scaled_sums(parts, at, rows.weights, groups.of_row, len(groups))

        content = aggregate_rows(fused.schema, by.columns, weights, brought)
        yield Sums((), content.weights, content)


def _among(
    more: SortedRows | None, hashes: Hashes, keys: Keys
) -> Iterator[tuple[Indices, SortedRows]]:
    """The rows of keys in a change."""
    if more is not None and len(more):
        span = span_of(SegmentRows.of(more), hashes, keys)
        yield span.row_keys, more.take(span.positions)


def _pairs(starts: Integers, times: Integers) -> tuple[Integers, Integers | None]:
    """For each pair the place in the change and that of the partner; None: all, once."""
    if (times == 1).all():
        return starts, None
    yours = np.repeat(np.arange(len(times)), times)
    return expand_ranges(starts, times), yours


def _rows(
    change: SortedRows,
    mine: Integers,
    partner: SortedRows,
    yours: Integers | None,
    *,
    flipped: bool,
) -> Rows:
    """Pairs as rows: key, left value, right value."""
    index = pa.array(mine)
    own = [column.take(index) for column in change.columns]
    width = len(change.schema.keys)
    others, weights = list(partner.rest.columns), partner.weights
    if yours is not None:
        chosen = pa.array(yours)
        others, weights = [column.take(chosen) for column in others], weights[yours]
    values = [*others, *own[width:]] if flipped else [*own[width:], *others]
    return Rows((*own[:width], *values), change.weights[mine] * weights)
