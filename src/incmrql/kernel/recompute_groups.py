"""Groups of all rows at once, again and again: keys that stay the same keep their numbers.

What a group is asked for comes from sums or is the first of some rows in order; groups that are
asked for something else go the way of changes, as a change of nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from incmrql.kernel.accumulators import Parts, tidy
from incmrql.kernel.content import Content
from incmrql.kernel.desk import Desk, merged
from incmrql.kernel.finishing import Asked, finished
from incmrql.kernel.keys import Places
from incmrql.kernel.lifting import lifted
from incmrql.kernel.physical import Block, Read, Wanted
from incmrql.kernel.recompute_columns import applied, gathered, plain, plain_rows, taken
from incmrql.kernel.recompute_first import Runs, answers, first_rows, reads_first
from incmrql.kernel.recompute_keys import Together
from incmrql.kernel.rows import Rows, no_rows
from incmrql.reference import Environment
from incmrql.reference.navigate import element_at

if TYPE_CHECKING:
    from incmrql.kernel.groups import GroupOp


@dataclass(slots=True)
class Grouping:
    """Groups at work."""

    step: GroupOp
    moving: tuple[bool, ...]
    at_once: bool = field(init=False)
    """Whether all that is asked for can be had without an order of keys."""
    together: Together = field(init=False)
    gathered: list[Content] | None = None
    """What the inputs that do not change bring."""
    runs: dict[int, Runs] = field(default_factory=dict)
    """Of the rows of tables of values in order."""

    def __post_init__(self) -> None:
        self.at_once = _is_at_once(self.step)
        self.together = Together(self.step.form.keys)

    def meet(self, inputs: Sequence[Iterable[Rows]], desk: Desk) -> Iterable[Rows]:
        """The answers of all groups."""
        if not self.at_once:
            return self._as_changes(inputs, desk)
        waiting = [filter(len, chunks) for chunks in inputs]
        heads = [list(islice(chunks, 2)) for chunks in waiting]
        if not any(heads):
            return ()
        if any(len(head) > 1 for head in heads):
            chunks = [chain(*both) for both in zip(heads, waiting, strict=True)]
            return self._as_changes(chunks, desk)
        return _Answering(self, [head[0] if head else None for head in heads], desk).rows()

    def runs_of(self, table: int, numbers: Places) -> Runs:
        """The runs of the rows of a table."""
        known = self.runs.get(table)
        if known is None or known.numbers is not numbers:
            known = self.runs[table] = Runs.of(numbers)
        return known

    def _as_changes(self, inputs: Sequence[Iterable[Rows]], desk: Desk) -> Iterator[Rows]:
        """What rows do to groups that have none."""
        if self.gathered is None:
            fixed = [() if moves else c for c, moves in zip(inputs, self.moving, strict=True)]
            self.gathered = self._gathered(fixed, desk.env)
        fresh = [c if moves else () for c, moves in zip(inputs, self.moving, strict=True)]
        brought = zip(
            self.step.delta_forms, self.gathered, self._gathered(fresh, desk.env), strict=True
        )
        return self.step.meet([merged(form, both) for form, *both in brought], desk)

    def _gathered(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[Content]:
        return self.step.gather([map(plain_rows, chunks) for chunks in inputs], env)


def _is_at_once(step: GroupOp) -> bool:
    return (
        step.mode != "whole"
        and all(block.table is None for blocks in step.blocks for block in blocks)
        and all(_is_simple(each, step) for each in step.wanted)
    )


def _is_simple(wanted: Wanted, step: GroupOp) -> bool:
    match wanted:
        case Asked():
            return True
        case Read(table=table):
            return reads_first(wanted, step.rankings[table])
        case _:
            return False


class _Answering:
    """The groups of rows, of which each side has one chunk at most."""

    def __init__(self, grouping: Grouping, chunks: Sequence[Rows | None], desk: Desk) -> None:
        self.grouping, self.step, self.desk = grouping, grouping.step, desk
        step, env = self.step, desk.env
        self.sides = [
            rows if rows is None or side.paired is None else applied(side.paired, rows, env)
            for side, rows in zip(step.sides, chunks, strict=True)
        ]
        self.blocks: list[tuple[Block, Rows]] = []
        for blocks, rows in zip(step.blocks, self.sides, strict=True):
            if rows is not None:
                self.blocks += [(block, applied(block.segment, rows, env)) for block in blocks]
        self.ranked: dict[int, Rows] = {}
        for place, ranking in enumerate(step.rankings):
            rows = self.sides[ranking.side]
            if rows is not None:
                self.ranked[place] = applied(ranking.segment, rows, env)
        self.linear = self._linear()
        sources = [rows for _, rows in self.blocks] + [*self.ranked.values()]
        sources += [] if self.linear is None else [self.linear]
        width = len(step.form.keys)
        self.known = grouping.together.of([(each.columns[:width], len(each)) for each in sources])
        self.numbers = dict(zip(map(id, sources), self.known.numbers, strict=True))

    def _linear(self) -> Rows | None:
        if self.step.linear is None:
            return None
        side, rows = self.step.sides[self.step.linear], self.sides[self.step.linear]
        columns = (*range(side.key_width), *side.columns)
        return None if rows is None else rows.pick(columns)

    def rows(self) -> Iterator[Rows]:
        """The answers."""
        step, known = self.step, self.known
        if not len(known.used):
            return
        parts = self._parts()
        asked = [self._asked(wanted, parts) for wanted in step.wanted]
        if step.mode == "fold":
            if len(known.used) < known.count:
                index = pa.array(known.used)
                asked = [column.take(index) for column in asked]
            ones = np.ones(len(known.used), np.int64)
            yield applied(step.body, Rows((*known.columns, *asked), ones), self.desk.env)
        elif self.linear is not None:
            at = pa.array(self.numbers[id(self.linear)])
            beside = [gathered(column, at) for column in asked]
            yield applied(step.body, self.linear.beside(*beside), self.desk.env)

    def _parts(self) -> Parts:
        """The accumulators of all keys."""
        found: Parts = {}
        for block, rows in self.blocks:
            wanted = {place for lift in block.lifts for place in lift.columns}
            columns = [plain(c) if n in wanted else c for n, c in enumerate(rows.columns)]
            for lift in block.lifts:
                numbers = self.numbers[id(rows)]
                found |= lifted(lift, columns, rows.weights, numbers, self.known.count)
        return tidy(found)

    def _asked(self, wanted: Wanted, parts: Parts) -> Any:
        """What is asked for, as a column with a row for each number."""
        count = self.known.count
        if isinstance(wanted, Asked):
            return finished(wanted, parts, count)
        assert isinstance(wanted, Read)
        ranking, rows = self.step.rankings[wanted.table], self.ranked.get(wanted.table)
        if rows is None:
            rows, numbers = self._nothing(wanted.table), np.zeros(0, np.int64)
        else:
            numbers = self.numbers[id(rows)]
        if ranking.drops_null:
            rows, numbers = _without_nulls(rows, numbers)
        last = wanted.reading.how == "greatest"
        runs = self.grouping.runs_of(wanted.table, numbers)
        chosen = first_rows(ranking, rows, runs, count, last=last)
        if wanted.reading.how == "at" and (chosen[self.known.used] < 0).any():
            element_at([], 0, partial(self.desk.env.world.failed, wanted.request.asked.span))
        return answers(wanted, ranking, rows, chosen)

    def _nothing(self, table: int) -> Rows:
        return no_rows(self.step.rankings[table].segment.types)


def _without_nulls(rows: Rows, numbers: Places) -> tuple[Rows, Places]:
    last = plain(rows.columns[-1])
    if not last.null_count:
        return rows, numbers
    there = np.flatnonzero(last.is_valid().to_numpy(zero_copy_only=False))
    return taken(rows, there), numbers[there]
