"""Groups of all rows at once, again and again: keys that stay the same keep their numbers.

What a group is asked for comes from sums or is the first of some rows in order, which is found
without sorting: the least word, then the ties.  Groups that are asked for something else go the way
of changes, as a change of nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from incmrql.engine.columns.accumulators import (
    AccumulatorRead,
    Parts,
    aggregate_column,
    lift_rows,
    normalize_parts,
)
from incmrql.engine.columns.keys import Indices, Keys
from incmrql.engine.columns.layouts import Layout, Leaf, Unused, column_type, part, width
from incmrql.engine.columns.rows import Rows, no_rows
from incmrql.engine.compile.physical import Block, CompiledRequest, Ranking, RankingRead
from incmrql.engine.context import BatchContext, merge_all
from incmrql.engine.loops.recompute.columns import (
    Together,
    apply_pipeline,
    bases_of,
    gather,
    plain_column,
    plain_rows,
    take_rows,
)
from incmrql.engine.store.content import SortedRows
from incmrql.engine.store.sorting import TableSchema, order_bytes, order_words
from incmrql.reference import Environment
from incmrql.reference.navigate import element_at
from incmrql.types import typed
from incmrql.types.model import Type, is_float

if TYPE_CHECKING:
    from incmrql.engine.operators.groups import GroupOp


@dataclass(slots=True)
class Grouping:
    """Groups at work."""

    step: GroupOp
    moving: tuple[bool, ...]
    at_once: bool = field(init=False)
    """Whether all that is asked for can be had without an order of keys."""
    together: Together = field(init=False)
    gathered: list[SortedRows] | None = None
    """What the inputs that do not change bring."""
    runs: dict[int, Runs] = field(default_factory=dict)
    """Of the rows of tables of values in order."""

    def __post_init__(self) -> None:
        self.at_once = _is_at_once(self.step)
        self.together = Together(self.step.schema.keys)

    def meet(self, inputs: Sequence[Iterable[Rows]], context: BatchContext) -> Iterable[Rows]:
        """The answers of all groups."""
        if not self.at_once:
            return self._meet_as_changes(inputs, context)
        waiting = [filter(len, chunks) for chunks in inputs]
        heads = [list(islice(chunks, 2)) for chunks in waiting]
        if not any(heads):
            return ()
        if any(len(head) > 1 for head in heads):
            chunks = [chain(*both) for both in zip(heads, waiting, strict=True)]
            return self._meet_as_changes(chunks, context)
        return _Answering(self, [head[0] if head else None for head in heads], context).rows()

    def runs_of(self, table: int, numbers: Indices) -> Runs:
        """The runs of the rows of a table."""
        known = self.runs.get(table)
        if known is None or known.numbers is not numbers:
            known = self.runs[table] = Runs.of(numbers)
        return known

    def _meet_as_changes(
        self, inputs: Sequence[Iterable[Rows]], context: BatchContext
    ) -> Iterator[Rows]:
        """What rows do to groups that have none."""
        if self.gathered is None:
            fixed = [() if moves else c for c, moves in zip(inputs, self.moving, strict=True)]
            self.gathered = self._gather(fixed, context.env)
        fresh = [c if moves else () for c, moves in zip(inputs, self.moving, strict=True)]
        brought = zip(
            self.step.delta_schemas, self.gathered, self._gather(fresh, context.env), strict=True
        )
        return self.step.meet([merge_all(schema, both) for schema, *both in brought], context)

    def _gather(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[SortedRows]:
        return self.step.gather([map(plain_rows, chunks) for chunks in inputs], env)


def goes_row_by_row(step: GroupOp) -> bool:
    """Whether the evaluator goes through the rows of each group one by one."""
    return step.mode == "whole" or not all(_is_simple(each, step) for each in step.wanted)


def _is_at_once(step: GroupOp) -> bool:
    return not goes_row_by_row(step) and all(
        block.table is None for blocks in step.blocks for block in blocks
    )


def _is_simple(wanted: CompiledRequest, step: GroupOp) -> bool:
    match wanted:
        case AccumulatorRead():
            return True
        case RankingRead(table=table):
            return reads_first(wanted, step.rankings[table])
        case _:
            return False


class _Answering:
    """The groups of rows, of which each side has one chunk at most."""

    def __init__(
        self, grouping: Grouping, chunks: Sequence[Rows | None], context: BatchContext
    ) -> None:
        self.grouping, self.step, self.context = grouping, grouping.step, context
        step, env = self.step, context.env
        self.sides = [
            rows if rows is None or side.paired is None else apply_pipeline(side.paired, rows, env)
            for side, rows in zip(step.sides, chunks, strict=True)
        ]
        self.blocks: list[tuple[Block, Rows]] = []
        for blocks, rows in zip(step.blocks, self.sides, strict=True):
            if rows is not None:
                self.blocks += [
                    (block, apply_pipeline(block.pipeline, rows, env)) for block in blocks
                ]
        self.ranked: dict[int, Rows] = {}
        for place, ranking in enumerate(step.rankings):
            rows = self.sides[ranking.side]
            if rows is not None:
                self.ranked[place] = apply_pipeline(ranking.pipeline, rows, env)
        self.linear = self._linear()
        sources = [rows for _, rows in self.blocks] + [*self.ranked.values()]
        sources += [] if self.linear is None else [self.linear]
        width = len(step.schema.keys)
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
        asked = [self._answer(wanted, parts) for wanted in step.wanted]
        if step.mode == "fold":
            if len(known.used) < known.count:
                index = pa.array(known.used)
                asked = [column.take(index) for column in asked]
            ones = np.ones(len(known.used), np.int64)
            yield apply_pipeline(step.body, Rows((*known.columns, *asked), ones), self.context.env)
        elif self.linear is not None:
            at = pa.array(self.numbers[id(self.linear)])
            gathered = [gather(column, at) for column in asked]
            yield apply_pipeline(step.body, self.linear.with_columns(*gathered), self.context.env)

    def _parts(self) -> Parts:
        """The accumulators of all keys."""
        found: Parts = {}
        for block, rows in self.blocks:
            wanted = {place for lift in block.lifts for place in lift.columns}
            columns = [plain_column(c) if n in wanted else c for n, c in enumerate(rows.columns)]
            for lift in block.lifts:
                numbers = self.numbers[id(rows)]
                found |= lift_rows(lift, columns, rows.weights, numbers, self.known.count)
        return normalize_parts(found)

    def _answer(self, wanted: CompiledRequest, parts: Parts) -> Any:
        """What is asked for, as a column with a row for each number."""
        count = self.known.count
        if isinstance(wanted, AccumulatorRead):
            return aggregate_column(wanted, parts, count)
        assert isinstance(wanted, RankingRead)
        ranking, rows = self.step.rankings[wanted.table], self.ranked.get(wanted.table)
        if rows is None:
            rows, numbers = no_rows(ranking.pipeline.types), np.zeros(0, np.int64)
        else:
            numbers = self.numbers[id(rows)]
        if ranking.drops_null:
            rows, numbers = _without_nulls(rows, numbers)
        last = wanted.reading.how == "greatest"
        runs = self.grouping.runs_of(wanted.table, numbers)
        chosen = first_rows(ranking, rows, runs, count, last=last)
        if wanted.reading.how == "at" and (chosen[self.known.used] < 0).any():
            element_at([], 0, partial(self.context.env.world.fail, wanted.request.expr.span))
        return answers(wanted, ranking, rows, chosen)


def _without_nulls(rows: Rows, numbers: Indices) -> tuple[Rows, Indices]:
    last = plain_column(rows.columns[-1])
    if not last.null_count:
        return rows, numbers
    there = np.flatnonzero(last.is_valid().to_numpy(zero_copy_only=False))
    return take_rows(rows, there), numbers[there]


# --- the first row of each key ----------------------------------------------------------------


def reads_first(wanted: RankingRead, ranking: Ranking) -> bool:
    """Whether a request reads no more than the first or last row of a key."""
    reading = wanted.reading
    if reading.variable is not None:
        return False
    match reading.how:
        case "least" | "greatest":
            return isinstance(ranking.element, Leaf)
        case "first" | "at":
            (place,) = reading.arguments or (None,)
            value = _value(ranking)
            flat = isinstance(value, Leaf) or all(isinstance(e, Leaf) for e in _parts(value))
            wanted_ = 1 if reading.how == "first" else 0
            return flat and isinstance(place, typed.Const) and place.value == wanted_
        case _:
            return False


def _value(ranking: Ranking) -> Layout:
    return part(ranking.element, 1) if ranking.paired else ranking.element


def _parts(layout: Layout) -> tuple[Layout, ...]:
    return (
        (layout,) if isinstance(layout, Leaf | Unused) else layout.parts or (Unused(layout.type),)
    )


@dataclass(frozen=True, slots=True)
class Runs:
    """Stretches of rows with one key."""

    numbers: Indices
    """Of the key of each row."""
    starts: Indices
    of_runs: Indices
    """The numbers of the keys of runs."""
    lengths: Indices

    @staticmethod
    def of(numbers: Indices) -> Runs:
        """The runs of rows whose keys have these numbers."""
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        lengths = np.diff(np.append(starts, len(numbers)))
        return Runs(numbers, starts, numbers[starts], lengths)


def first_rows(ranking: Ranking, rows: Rows, runs: Runs, count: int, *, last: bool) -> Indices:
    """The first row of each key, or the last; -1 where there is none."""
    chosen = np.full(count, -1)
    if not len(rows):
        return chosen
    schema = ranking.schema
    rest = Rows(tuple(rows.columns[len(schema.keys) :]), rows.weights)
    assert schema.descending is not None
    words, most = _sortable(
        plain_column(rest.columns[0]), schema.rest[0], falls=schema.descending[0] != last
    )
    best = np.full(count, most)
    np.minimum.at(best, runs.of_runs, np.minimum.reduceat(words, runs.starts))
    places = np.flatnonzero(words == np.repeat(best[runs.of_runs], runs.lengths))
    keys = runs.numbers[places]
    chosen[keys] = places
    tied = np.isin(keys, keys[chosen[keys] != places])
    if tied.any():
        keys, places = keys[tied], places[tied]
        order = _ranks(schema, take_rows(rest, places))
        sorted_ = np.lexsort((order if last else -order, keys))
        chosen[keys[sorted_]] = places[sorted_]
    return chosen


def _sortable(column: Any, type_: Type, *, falls: bool) -> tuple[Any, Any]:
    """Numbers that sort like the values of a column, as far as they go; and the greatest one."""
    if is_float(type_) and not column.null_count:
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if not np.isnan(numbers.min()):
            return -numbers if falls else numbers, np.inf
    words = order_words(Keys((column,), (type_,)), (falls,))
    return words, np.iinfo(np.uint64).max


def _ranks(schema: TableSchema, rows: Rows) -> Indices:
    """The places of rows in their order."""
    rest = Keys(tuple(map(plain_column, rows.columns)), schema.rest)
    return order_bytes(rest, schema.descending).ranks()


def answers(wanted: RankingRead, ranking: Ranking, rows: Rows, chosen: Indices) -> Any:
    """What a request makes of the rows that are chosen, as a column with a row for each key."""
    type_ = column_type(wanted.request.variable.type)
    value = _value(ranking)
    columns = rows.columns[len(rows.columns) - width(value) :]
    if wanted.reading.how in ("least", "greatest"):
        found = plain_column(columns[0]).take(pa.array(chosen, mask=chosen < 0))
        return found if found.type == type_ else found.cast(type_)
    bases, places = bases_of(columns)
    index = chosen if places is None else places.to_numpy(zero_copy_only=False)[chosen]
    is_one = wanted.reading.how == "at"
    packed = type_ if is_one else type_.value_type
    (single,) = bases if isinstance(value, Leaf) else (_struct_of(bases, packed),)
    if is_one:
        single = single if single.type == type_ else single.cast(type_)
        if (chosen < 0).any():
            return single.take(pa.array(index, mask=chosen < 0))
        return gather(single, pa.array(index))
    if places is None:
        there = chosen[chosen >= 0]
        single = single.take(pa.array(there))
        index = np.cumsum(chosen >= 0) - 1
    count = len(single)
    ends = np.append(np.arange(count + 1), count).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(ends), single)
    lists = lists if lists.type == type_ else lists.cast(type_)
    return pa.DictionaryArray.from_arrays(
        pa.array(np.where(chosen < 0, count, index)), lists, safe=False
    )


def _struct_of(columns: tuple[Any, ...], type_: Any) -> Any:
    fields = [type_.field(i) for i in range(type_.num_fields)]
    return pa.StructArray.from_arrays(list(columns), fields=fields)
