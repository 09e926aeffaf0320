"""Groups in every step of a loop: keys that are the same as in the last step keep their numbers.

Requests of a group are answered from sums, or are the first of its rows in order.  The first row is
found without sorting: by the least order word, then among ties.  Groups with other requests are
evaluated as by a batch: the rows are a delta of empty groups.
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
from incmrql.engine.compile.physical import CompiledRequest, PhysicalBlock, Ranking, RankingRead
from incmrql.engine.context import BatchContext, merge_all
from incmrql.engine.loops.recompute.columns import (
    SharedNumbering,
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
class GroupEvaluator:
    """Evaluates groups for every step of a loop."""

    step: GroupOp
    moving: tuple[bool, ...]
    is_direct: bool = field(init=False)
    """Whether all requests can be answered without sorting by key."""
    numbering: SharedNumbering = field(init=False)
    gathered: list[SortedRows] | None = None
    """What rows of inputs that do not change contribute."""
    runs: dict[int, Runs] = field(default_factory=dict)
    """The runs of equal keys, by table of values."""

    def __post_init__(self) -> None:
        self.is_direct = _is_direct(self.step)
        self.numbering = SharedNumbering(self.step.schema.keys)

    def meet(self, inputs: Sequence[Iterable[Rows]], context: BatchContext) -> Iterable[Rows]:
        """The answers of all groups."""
        if not self.is_direct:
            return self._meet_as_delta(inputs, context)
        waiting = [filter(len, chunks) for chunks in inputs]
        heads = [list(islice(chunks, 2)) for chunks in waiting]
        if not any(heads):
            return ()
        if any(len(head) > 1 for head in heads):
            chunks = [chain(*both) for both in zip(heads, waiting, strict=True)]
            return self._meet_as_delta(chunks, context)
        return _GroupAnswers(self, [head[0] if head else None for head in heads], context).rows()

    def runs_of(self, table: int, numbers: Indices) -> Runs:
        """The runs of equal keys among the rows of a table, given their numbers."""
        known = self.runs.get(table)
        if known is None or known.numbers is not numbers:
            known = self.runs[table] = Runs.of(numbers)
        return known

    def _meet_as_delta(
        self, inputs: Sequence[Iterable[Rows]], context: BatchContext
    ) -> Iterator[Rows]:
        """The answers of groups, as the delta that the rows make of empty groups."""
        if self.gathered is None:
            constant = [() if moves else c for c, moves in zip(inputs, self.moving, strict=True)]
            self.gathered = self._gather(constant, context.env)
        moving = [c if moves else () for c, moves in zip(inputs, self.moving, strict=True)]
        deltas = zip(
            self.step.delta_schemas, self.gathered, self._gather(moving, context.env), strict=True
        )
        return self.step.meet([merge_all(schema, both) for schema, *both in deltas], context)

    def _gather(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[SortedRows]:
        return self.step.gather([map(plain_rows, chunks) for chunks in inputs], env)


def goes_row_by_row(step: GroupOp) -> bool:
    """Whether the rows of each group are evaluated one by one in Python."""
    return step.mode == "whole" or not all(_is_simple(request, step) for request in step.requests)


def _is_direct(step: GroupOp) -> bool:
    return not goes_row_by_row(step) and all(
        block.table is None for blocks in step.blocks for block in blocks
    )


def _is_simple(request: CompiledRequest, step: GroupOp) -> bool:
    """Whether a request is answered by sums or by the first row."""
    match request:
        case AccumulatorRead():
            return True
        case RankingRead(table=table):
            return reads_first(request, step.rankings[table])
        case _:
            return False


class _GroupAnswers:
    """The answers of the groups of rows, given as at most one chunk for each side."""

    def __init__(
        self, evaluator: GroupEvaluator, chunks: Sequence[Rows | None], context: BatchContext
    ) -> None:
        self.evaluator, self.step, self.context = evaluator, evaluator.step, context
        step, env = self.step, context.env
        self.sides = [
            rows if rows is None or side.paired is None else apply_pipeline(side.paired, rows, env)
            for side, rows in zip(step.sides, chunks, strict=True)
        ]
        self.blocks: list[tuple[PhysicalBlock, Rows]] = []
        for blocks, rows in zip(step.blocks, self.sides, strict=True):
            if rows is not None:
                self.blocks += [
                    (block, apply_pipeline(block.pipeline, rows, env)) for block in blocks
                ]
        self.ranked: dict[int, Rows] = {}
        for index, ranking in enumerate(step.rankings):
            rows = self.sides[ranking.side]
            if rows is not None:
                self.ranked[index] = apply_pipeline(ranking.pipeline, rows, env)
        self.linear = self._linear()
        sources = [rows for _, rows in self.blocks] + [*self.ranked.values()]
        sources += [] if self.linear is None else [self.linear]
        width = len(step.schema.keys)
        keys = [(rows.columns[:width], len(rows)) for rows in sources]
        self.known = evaluator.numbering.of(keys)
        self.numbers = dict(zip(map(id, sources), self.known.numbers, strict=True))

    def _linear(self) -> Rows | None:
        """The rows of the linear side: key and value."""
        if self.step.linear is None:
            return None
        side, rows = self.step.sides[self.step.linear], self.sides[self.step.linear]
        columns = (*range(side.key_width), *side.columns)
        return None if rows is None else rows.pick(columns)

    def rows(self) -> Iterator[Rows]:
        """The rows of the answers."""
        step, known = self.step, self.known
        if not len(known.used):
            return
        parts = self._parts()
        columns = [self._request_column(request, parts) for request in step.requests]
        if step.mode == "fold":
            if len(known.used) < known.count:
                index = pa.array(known.used)
                columns = [column.take(index) for column in columns]
            ones = np.ones(len(known.used), np.int64)
            groups = Rows((*known.columns, *columns), ones)
            yield apply_pipeline(step.body, groups, self.context.env)
        elif self.linear is not None:
            at = pa.array(self.numbers[id(self.linear)])
            gathered = [gather(column, at) for column in columns]
            yield apply_pipeline(step.body, self.linear.with_columns(*gathered), self.context.env)

    def _parts(self) -> Parts:
        """The accumulators of all keys."""
        parts: Parts = {}
        for block, rows in self.blocks:
            read = {index for lift in block.lifts for index in lift.columns}
            columns = [plain_column(c) if n in read else c for n, c in enumerate(rows.columns)]
            for lift in block.lifts:
                numbers = self.numbers[id(rows)]
                parts |= lift_rows(lift, columns, rows.weights, numbers, self.known.count)
        return normalize_parts(parts)

    def _request_column(self, request: CompiledRequest, parts: Parts) -> Any:
        """The column of a request, with a row for each number of a key."""
        count = self.known.count
        if isinstance(request, AccumulatorRead):
            return aggregate_column(request, parts, count)
        assert isinstance(request, RankingRead)
        ranking, rows = self.step.rankings[request.table], self.ranked.get(request.table)
        if rows is None:
            rows, numbers = no_rows(ranking.pipeline.types), np.zeros(0, np.int64)
        else:
            numbers = self.numbers[id(rows)]
        if ranking.drops_null:
            rows, numbers = _without_nulls(rows, numbers)
        last = request.reading.how == "greatest"
        runs = self.evaluator.runs_of(request.table, numbers)
        chosen = first_rows(ranking, rows, runs, count, last=last)
        if request.reading.how == "at" and (chosen[self.known.used] < 0).any():
            # `x[0]` of an empty group: report the failure as the evaluator would.
            element_at([], 0, partial(self.context.env.world.fail, request.request.expr.span))
        return ranking_column(request, ranking, rows, chosen)


def _without_nulls(rows: Rows, numbers: Indices) -> tuple[Rows, Indices]:
    """Rows whose last column is not null, and their numbers."""
    last = plain_column(rows.columns[-1])
    if not last.null_count:
        return rows, numbers
    kept = np.flatnonzero(last.is_valid().to_numpy(zero_copy_only=False))
    return take_rows(rows, kept), numbers[kept]


# --- the first row of each key ----------------------------------------------------------------


def reads_first(request: RankingRead, ranking: Ranking) -> bool:
    """Whether a request reads only the first or last row of a key."""
    reading = request.reading
    if reading.variable is not None:
        return False
    match reading.how:
        case "least" | "greatest":
            return isinstance(ranking.element, Leaf)
        case "first" | "at":
            (argument,) = reading.arguments or (None,)
            value = _value(ranking)
            is_flat = isinstance(value, Leaf) or all(isinstance(e, Leaf) for e in _parts(value))
            expected = 1 if reading.how == "first" else 0
            return is_flat and isinstance(argument, typed.Const) and argument.value == expected
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
    """Runs of consecutive rows with the same key."""

    numbers: Indices
    """The number of the key of each row."""
    starts: Indices
    of_runs: Indices
    """The number of the key of each run."""
    lengths: Indices

    @staticmethod
    def of(numbers: Indices) -> Runs:
        """The runs of rows, given the number of each row's key."""
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        lengths = np.diff(np.append(starts, len(numbers)))
        return Runs(numbers, starts, numbers[starts], lengths)


def first_rows(ranking: Ranking, rows: Rows, runs: Runs, count: int, *, last: bool) -> Indices:
    """The first or last row of each key in order; -1 for keys without rows."""
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
    candidates = np.flatnonzero(words == np.repeat(best[runs.of_runs], runs.lengths))
    keys = runs.numbers[candidates]
    chosen[keys] = candidates
    # Several candidates of a key share a word: only these are compared as a whole.
    tied = np.isin(keys, keys[chosen[keys] != candidates])
    if tied.any():
        keys, candidates = keys[tied], candidates[tied]
        order = _ranks(schema, take_rows(rest, candidates))
        sorted_ = np.lexsort((order if last else -order, keys))
        chosen[keys[sorted_]] = candidates[sorted_]
    return chosen


def _sortable(column: Any, type_: Type, *, falls: bool) -> tuple[Any, Any]:
    """Numbers that sort like the values of a column, perhaps with ties; and the greatest number."""
    if is_float(type_) and not column.null_count:
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if not np.isnan(numbers.min()):
            return -numbers if falls else numbers, np.inf
    words = order_words(Keys((column,), (type_,)), (falls,))
    return words, np.iinfo(np.uint64).max


def _ranks(schema: TableSchema, rows: Rows) -> Indices:
    """The rank of each row."""
    rest = Keys(tuple(map(plain_column, rows.columns)), schema.rest)
    return order_bytes(rest, schema.descending).ranks()


def ranking_column(request: RankingRead, ranking: Ranking, rows: Rows, chosen: Indices) -> Any:
    """The column of a request, with a row for each key, from the chosen row of each key."""
    type_ = column_type(request.request.variable.type)
    value = _value(ranking)
    columns = rows.columns[len(rows.columns) - width(value) :]
    if request.reading.how in ("least", "greatest"):
        values = plain_column(columns[0]).take(pa.array(chosen, mask=chosen < 0))
        return values if values.type == type_ else values.cast(type_)
    bases, indices = bases_of(columns)
    index = chosen if indices is None else indices.to_numpy(zero_copy_only=False)[chosen]
    is_one = request.reading.how == "at"
    packed = type_ if is_one else type_.value_type
    (single,) = bases if isinstance(value, Leaf) else (_struct_of(bases, packed),)
    if is_one:
        single = single if single.type == type_ else single.cast(type_)
        if (chosen < 0).any():
            return single.take(pa.array(index, mask=chosen < 0))
        return gather(single, pa.array(index))
    # The result is a list of at most one element: gathered from one-element lists over the base
    # column, and an empty list at the end for keys without rows.
    if indices is None:
        present = chosen[chosen >= 0]
        single = single.take(pa.array(present))
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
