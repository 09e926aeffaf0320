"""Joins of all rows of two sides, again and again: what has the same keys meets the same rows."""

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
    Numbered,
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
"""Pairs that are made at once and remembered; more are made in chunks."""


@dataclass(frozen=True, slots=True)
class _Index:
    """The rows of a side by the numbers of their keys; -1 is a key without rows."""

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

    def met(self, numbers: Indices, start: int) -> tuple[Any, Any]:
        """For rows with these numbers, the first of which is at `start`: the rows here, and they.

        The latter are None if they are all of those, each once.
        """
        times = self.counts[numbers]
        here = pa.array(self.order[expand_ranges(self.starts[numbers], times)])
        if (times == 1).all():
            return here, None
        return here, pa.array(np.repeat(np.arange(start, start + len(times)), times))


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Which row of the asking side meets which row of the side that is kept.

    None stands for all rows of a side, each once.
    """

    mine: Any
    yours: Any


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked last: the keys of both sides, and which rows meet."""

    known: Numbered
    columns: Columns
    count: int
    pairs: _Pairs

    def is_again(self, known: Numbered, columns: Columns, count: int) -> bool:
        """Whether the same is asked."""
        return self.known is known and self.count == count and all_same(columns, self.columns)


@dataclass(slots=True)
class Joining:
    """A join at work.  The side that is kept is the one that does not change, if there is one."""

    step: JoinOp
    moving: tuple[bool, ...]
    numbering: Numbering = field(init=False)
    rows: Rows | None = None
    """Those of a kept side that does not change."""
    asked: _Asked | None = None
    gathered: tuple[Rows, _Pairs, Rows] | None = None
    """The last rows that were kept, the pairs, and the rows in the order of the pairs."""
    values: dict[int, Any] | None = None
    """Those of the columns of these rows that are looked at."""

    def __post_init__(self) -> None:
        self.numbering = Numbering(self.step.sides[0].schema.keys)

    @property
    def kept(self) -> int:
        """The side whose rows look for those of the other one."""
        return 1 if self.moving == (True, False) else 0

    def meet(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> Iterator[Rows]:
        """The rows of the join."""
        kept, other = self.kept, 1 - self.kept
        rows = self.rows
        if rows is None:
            rows = self._side(kept, inputs[kept], env)
            self.rows = None if self.moving[kept] else rows
        asking = self._side(other, inputs[other], env)
        if not len(rows) or not len(asking):
            return
        for pairs in self._pairs(rows, asking):
            made = self._joined_rows(rows, asking, pairs)
            if self.gathered is not None and self.values is None:
                self.values = values_of(self.step.body, made, self.gathered[2].columns)
            yield apply_pipeline(self.step.body, made, env, self.values)

    def _side(self, number: int, chunks: Iterable[Rows], env: Environment) -> Rows:
        side = self.step.sides[number]
        columns = (*range(side.key_width), *side.columns)
        found = []
        for chunk in chunks:
            pairs = chunk if side.paired is None else apply_pipeline(side.paired, chunk, env)
            if len(pairs):
                found.append(pairs.pick(columns))
        if len(found) == 1:
            return found[0]
        return concat_rows(list(map(plain_rows, found)), (*side.schema.keys, *side.schema.rest))

    def _pairs(self, rows: Rows, asking: Rows) -> Iterator[_Pairs]:
        width = self.step.sides[0].key_width
        known = self.numbering.of(rows.columns[:width], len(rows))
        columns, count = asking.columns[:width], len(asking)
        if self.asked is not None and self.asked.is_again(known, columns, count):
            yield self.asked.pairs
            return
        self.asked = self.gathered = self.values = None
        numbers = look_up(known, columns, count)
        by_asking = len(asking) > len(rows)
        outer, inner = (numbers, known.of_row) if by_asking else (known.of_row, numbers)
        index = _Index.of(inner, len(known))
        times = index.counts[outer]
        at_once = bool(times.sum() <= MOST_PAIRS)
        for some in [slice(0, len(outer))] if at_once else slices_by_count(times, MOST_PAIRS):
            here, there = index.met(outer[some], some.start)
            if there is None and not at_once:
                there = pa.array(np.arange(some.start, some.stop))
            pairs = _Pairs(there, here) if by_asking else _Pairs(here, there)
            if at_once:
                self.asked = _Asked(known, columns, count, pairs)
            yield pairs

    def _joined_rows(self, rows: Rows, asking: Rows, pairs: _Pairs) -> Rows:
        """Key, left value, right value."""
        width = self.step.sides[0].key_width
        kept = self._gather_kept(rows, pairs)
        yours = kept.columns
        mine = list(asking.columns[width:])
        if pairs.mine is not None:
            mine = [gather(column, pairs.mine) for column in mine]
        values = [*mine, *yours[width:]] if self.kept else [*yours[width:], *mine]
        times = kept.weights
        if (asking.weights != 1).any():
            own = asking.weights
            times = times * (own if pairs.mine is None else own[pairs.mine.to_numpy()])
        return Rows((*yours[:width], *values), times)

    def _gather_kept(self, rows: Rows, pairs: _Pairs) -> Rows:
        """The rows that are kept, in the order of pairs."""
        if pairs.yours is None:
            return rows
        last = self.gathered
        if last is not None and last[0] is rows and last[1] is pairs:
            return last[2]
        columns = tuple(gather(column, pairs.yours) for column in rows.columns)
        found = Rows(columns, rows.weights[pairs.yours.to_numpy()])
        self.gathered = (rows, pairs, found) if self.asked is not None else None
        self.values = None
        return found
