"""Joins in every step of a loop: equal keys as in the last step reuse which rows match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from incmrql.engine.columns.keys import Indices
from incmrql.engine.columns.rows import Rows, concat_rows
from incmrql.engine.loops.recompute.columns import (
    Columns,
    KeyNumbers,
    Numbering,
    all_same,
    apply_pipeline,
    gather,
    look_up,
    plain_rows,
    values_of,
)
from incmrql.engine.store.lookup import expand_ranges, slices_by_count
from incmrql.reference import Environment

if TYPE_CHECKING:
    from incmrql.engine.operators.joins import JoinOp


MOST_PAIRS: Final = 1 << 24
"""The most pairs that are computed in one piece and remembered; more come in chunks."""


@dataclass(frozen=True, slots=True)
class _Index:
    """The rows of a side by the numbers of their keys; -1 stands for a key without rows."""

    order: Indices
    starts: Indices
    counts: Indices

    @staticmethod
    def of(numbers: Indices, count: int) -> _Index:
        """The index of rows whose keys have these numbers; rows with -1 are left out."""
        order = np.argsort(numbers, kind="stable")
        inside = order[np.searchsorted(numbers[order], 0) :]
        counts = np.append(np.bincount(numbers[inside], minlength=count), 0)
        return _Index(inside, np.cumsum(counts) - counts, counts)

    def matches(self, numbers: Indices, start: int) -> tuple[Any, Any]:
        """Pairs of indices: of rows here, and of rows outside, from `start` on, with these numbers.

        The latter are None if each row outside has exactly one match.
        """
        times = self.counts[numbers]
        inner = pa.array(self.order[expand_ranges(self.starts[numbers], times)])
        if (times == 1).all():
            return inner, None
        return inner, pa.array(np.repeat(np.arange(start, start + len(times)), times))


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The pairs of a join, as indices into the probe side and into the indexed side.

    None stands for all rows of a side, each once.
    """

    probe: Any
    indexed: Any


@dataclass(frozen=True, slots=True)
class _LastPairs:
    """The keys of both sides in the last call, and the pairs."""

    known: KeyNumbers
    columns: Columns
    count: int
    pairs: _Pairs

    def is_same(self, known: KeyNumbers, columns: Columns, count: int) -> bool:
        """Whether both sides have the same keys again."""
        return self.known is known and self.count == count and all_same(columns, self.columns)


@dataclass(slots=True)
class JoinEvaluator:
    """Evaluates a join for every step of a loop.

    One side is indexed: the one that does not change, if there is such a side.
    """

    step: JoinOp
    moving: tuple[bool, ...]
    numbering: Numbering = field(init=False)
    rows: Rows | None = None
    """The rows of an indexed side that does not change."""
    last: _LastPairs | None = None
    gathered: tuple[Rows, _Pairs, Rows] | None = None
    """Rows of the indexed side, pairs, and these rows in the order of the pairs."""
    values: dict[int, Any] | None = None
    """The values of those columns of these rows that the pipeline reads."""

    def __post_init__(self) -> None:
        self.numbering = Numbering(self.step.sides[0].schema.keys)

    @property
    def indexed_side(self) -> int:
        """The side whose rows are indexed by key."""
        return 1 if self.moving == (True, False) else 0

    def meet(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> Iterator[Rows]:
        """The rows of the join."""
        indexed, other = self.indexed_side, 1 - self.indexed_side
        rows = self.rows
        if rows is None:
            rows = self._side_rows(indexed, inputs[indexed], env)
            self.rows = None if self.moving[indexed] else rows
        probe = self._side_rows(other, inputs[other], env)
        if not len(rows) or not len(probe):
            return
        for pairs in self._pairs(rows, probe):
            joined = self._joined_rows(rows, probe, pairs)
            if self.gathered is not None and self.values is None:
                self.values = values_of(self.step.body, joined, self.gathered[2].columns)
            yield apply_pipeline(self.step.body, joined, env, self.values)

    def _side_rows(self, number: int, chunks: Iterable[Rows], env: Environment) -> Rows:
        """The rows of a side in one piece: key and value."""
        side = self.step.sides[number]
        columns = (*range(side.key_width), *side.columns)
        parts = []
        for chunk in chunks:
            pairs = chunk if side.paired is None else apply_pipeline(side.paired, chunk, env)
            if len(pairs):
                parts.append(pairs.pick(columns))
        if len(parts) == 1:
            return parts[0]
        return concat_rows(list(map(plain_rows, parts)), (*side.schema.keys, *side.schema.rest))

    def _pairs(self, rows: Rows, probe: Rows) -> Iterator[_Pairs]:
        """The pairs of the join: those of the last call if the keys are the same."""
        width = self.step.sides[0].key_width
        known = self.numbering.of(rows.columns[:width], len(rows))
        columns, count = probe.columns[:width], len(probe)
        if self.last is not None and self.last.is_same(known, columns, count):
            yield self.last.pairs
            return
        self.last = self.gathered = self.values = None
        numbers = look_up(known, columns, count)
        # Walk the larger side and index the smaller one: the index is sorted, the walk is not.
        by_probe = len(probe) > len(rows)
        outer, inner = (numbers, known.of_row) if by_probe else (known.of_row, numbers)
        index = _Index.of(inner, len(known))
        times = index.counts[outer]
        at_once = bool(times.sum() <= MOST_PAIRS)
        for some in [slice(0, len(outer))] if at_once else slices_by_count(times, MOST_PAIRS):
            inner_rows, outer_rows = index.matches(outer[some], some.start)
            if outer_rows is None and not at_once:
                outer_rows = pa.array(np.arange(some.start, some.stop))
            pairs = _Pairs(outer_rows, inner_rows) if by_probe else _Pairs(inner_rows, outer_rows)
            if at_once:
                self.last = _LastPairs(known, columns, count, pairs)
            yield pairs

    def _joined_rows(self, rows: Rows, probe: Rows, pairs: _Pairs) -> Rows:
        """Key, left value, right value."""
        width = self.step.sides[0].key_width
        indexed = self._gather_indexed(rows, pairs)
        columns = indexed.columns
        others = list(probe.columns[width:])
        if pairs.probe is not None:
            others = [gather(column, pairs.probe) for column in others]
        values = [*others, *columns[width:]] if self.indexed_side else [*columns[width:], *others]
        weights = indexed.weights
        if (probe.weights != 1).any():
            own = probe.weights
            weights = weights * (own if pairs.probe is None else own[pairs.probe.to_numpy()])
        return Rows((*columns[:width], *values), weights)

    def _gather_indexed(self, rows: Rows, pairs: _Pairs) -> Rows:
        """The rows of the indexed side, in the order of pairs."""
        if pairs.indexed is None:
            return rows
        last = self.gathered
        if last is not None and last[0] is rows and last[1] is pairs:
            return last[2]
        columns = tuple(gather(column, pairs.indexed) for column in rows.columns)
        gathered = Rows(columns, rows.weights[pairs.indexed.to_numpy()])
        self.gathered = (rows, pairs, gathered) if self.last is not None else None
        self.values = None
        return gathered
