"""Groups: -old +new for the keys that a batch affects.

contributions    of rows to accumulators, to tables of values and to rows of sides, by key
requests         of the affected keys, before and after the batch
answers          of keys for which a request changed, and of rows that came or went
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.engine.columns.accumulators import AccumulatorRead, Parts, add, lift_rows
from incmrql.engine.columns.keys import Keys, concat_keys, no_keys, same_keys
from incmrql.engine.columns.layouts import Layout, leaves, part, width
from incmrql.engine.columns.pipelines import Pipeline
from incmrql.engine.columns.rows import Rows, concat_rows, no_rows
from incmrql.engine.compile.physical import (
    CompiledRequest,
    GroupScan,
    PhysicalBlock,
    PhysicalSide,
    Ranking,
    RankingMerge,
    RankingRead,
)
from incmrql.engine.context import BatchContext, merge_all, zeros
from incmrql.engine.loops.recompute.groups import GroupEvaluator, reads_first
from incmrql.engine.operators.base import Evaluator, NamedSchema, StatefulOp, any_by_row
from incmrql.engine.operators.joins import Sums
from incmrql.engine.operators.requests import Affected, Answers, request_columns, whole_delta
from incmrql.engine.store.content import SortedRows, aggregate_rows, distinct_keys, empty
from incmrql.engine.store.lookup import look_up, partners
from incmrql.engine.store.sorting import RowGroups, TableSchema
from incmrql.engine.store.tables import scan
from incmrql.plan.access import Mode
from incmrql.plan.changes import NegativeWeight
from incmrql.reference import Environment
from incmrql.types import typed
from incmrql.values.exact.sums import Integers

if TYPE_CHECKING:
    from incmrql.engine.compile.windows import WindowPlan

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GroupOp(StatefulOp):
    """-old +new of the affected keys.

    Mode `fold`: an answer depends on the key and the requests only.  `linear`: there is one for
    each row of one side.  `whole`: it depends on all rows of some sides, and is evaluated key by
    key.  `window`: there is one for each row, with values of the rows around it.
    """

    sides: tuple[PhysicalSide, ...]
    key: Layout
    blocks: tuple[tuple[PhysicalBlock, ...], ...]
    """The contributions to accumulators, by side."""
    rankings: tuple[Ranking, ...]
    requests: tuple[CompiledRequest, ...]
    mode: Mode
    body: Pipeline
    """From key, row of the linear side and requests to the answer; by row in mode `whole`."""
    linear: int | None
    used: tuple[int, ...]
    table: str | None
    schema: TableSchema
    group: typed.Variable
    window: WindowPlan | None = None

    @property
    def state_tables(self) -> tuple[NamedSchema, ...]:
        """Accumulators, tables of values, and the rows of sides that are kept."""
        own = () if self.table is None else ((self.table, self.schema),)
        rankings = [(ranking.name, ranking.schema) for ranking in self.rankings]
        sides = [(side.table, side.schema) for side in self.sides if side.table is not None]
        return (*own, *rankings, *sides)

    @property
    def is_by_row(self) -> bool:
        """Whether an expression or a request evaluates rows or values one by one."""
        blocks = [block.pipeline for blocks in self.blocks for block in blocks]
        rankings = [ranking.pipeline for ranking in self.rankings]
        return (
            self.mode in ("whole", "window")
            or any_by_row([*[side.paired for side in self.sides], *blocks, *rankings, self.body])
            or any(_is_by_row(request, self.rankings) for request in self.requests)
        )

    @property
    def delta_schemas(self) -> tuple[TableSchema, ...]:
        """The schemas of accumulators, of tables of values, and of the rows of sides."""
        return (
            self.schema,
            *[ranking.schema for ranking in self.rankings],
            *[side.schema for side in self.sides],
        )

    def has_rows(self, inputs: Sequence[bool]) -> bool:
        """Whether a side has any; in mode `linear`, the linear one."""
        return any(inputs) if self.linear is None else inputs[self.linear]

    def gather(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[SortedRows]:
        """What rows contribute to accumulators, to tables and to rows of sides, by key."""
        sums: list[SortedRows] = []
        rankings: list[list[SortedRows]] = [[] for _ in self.rankings]
        rows: list[list[SortedRows]] = [[] for _ in self.sides]
        for number, (side, chunks) in enumerate(zip(self.sides, inputs, strict=True)):
            for chunk in chunks:
                if not len(chunk):
                    continue
                if isinstance(chunk, Sums):
                    sums.append(chunk.content)
                    continue
                pairs = chunk if side.paired is None else side.paired.apply(chunk, env)
                if _needs_rows(self, number):
                    rows[number].append(_side_rows(side, pairs))
                sums += [
                    _accumulators(self, block, pairs, env)
                    for block in self.blocks[number]
                    if block.table is None
                ]
                for index, ranking in enumerate(self.rankings):
                    if ranking.side == number:
                        rankings[index].append(_ranking_rows(ranking, pairs, env))
        by_schema = zip(self.delta_schemas, [sums, *rankings, *rows], strict=True)
        return [merge_all(schema, parts) for schema, parts in by_schema]

    def meet(self, deltas: Sequence[SortedRows], context: BatchContext) -> Iterator[Rows]:
        """The changes of the answers of affected keys; adds the deltas to the state."""
        sums, rankings, rows = _by_kind(self, deltas)
        sums = merge_all(self.schema, [sums, *_distinct_deltas(self, rankings, context)])
        affected = _affected_keys(self, sums, rankings, rows, context)
        if len(affected):
            answers = request_columns(self, affected, context)
            match self.mode:
                case "fold":
                    yield _fold_delta(self, affected, answers, context)
                case "linear":
                    yield from _linear_delta(self, affected, answers, context)
                case "whole":
                    yield whole_delta(self, affected, answers, context)
                case "window":
                    from incmrql.engine.operators.windows import window_delta  # few programs do

                    yield from window_delta(self, affected, answers, context)
        context.add(self.table, sums)
        for ranking, content in zip(self.rankings, rankings, strict=True):
            context.add(ranking.name, content)
        for side, content in zip(self.sides, rows, strict=True):
            context.add(side.table, content)

    def evaluator(self, moving: tuple[bool, ...], _most: int) -> Evaluator:
        """The answers of all groups; keys that come again keep their numbers."""
        return GroupEvaluator(self, moving).meet

    def bucket_rows(self, bucket: int, context: BatchContext) -> Rows:
        """All answers of the keys of a bucket of a fold, computed from its tables."""
        content = scan(context.table(self.table, self.schema), context.reader, bucket)
        groups = content.take(content.weights > 0)
        no_deltas = [empty(schema) for schema in self.delta_schemas]
        _, rankings, sides = _by_kind(self, no_deltas)
        weights, parts = groups.weights, groups.parts
        no_side_rows = [(delta, zeros(0)) for delta in sides]
        affected = Affected(
            groups.hashes, groups.keys, weights, weights, parts, parts, rankings, no_side_rows
        )
        if not len(affected):
            return no_rows(self.body.types)
        columns = request_columns(self, affected, context).before
        rows = Rows((*groups.keys.columns, *columns), np.ones_like(weights))
        return self.body.apply(rows, context.env)


def _is_by_row(request: CompiledRequest, rankings: Sequence[Ranking]) -> bool:
    """Whether a request is evaluated group by group in Python."""
    match request:
        case RankingRead(table=table):
            return not reads_first(request, rankings[table])
        case AccumulatorRead():
            return False
        case GroupScan() | RankingMerge():
            return True


def _by_kind(
    step: GroupOp, deltas: Sequence[SortedRows]
) -> tuple[SortedRows, Sequence[SortedRows], Sequence[SortedRows]]:
    """The deltas of accumulators, of tables of values, and of rows of sides."""
    until = 1 + len(step.rankings)
    return deltas[0], deltas[1:until], deltas[until:]


# --- contributions of rows -----------------------------------------------------------------


def _distinct_deltas(
    step: GroupOp, rankings: Sequence[SortedRows], context: BatchContext
) -> Iterator[SortedRows]:
    """What distinct values of tables that appear or disappear contribute to accumulators."""
    for block in (block for blocks in step.blocks for block in blocks):
        if block.table is not None and len(rankings[block.table]):
            values = _distinct_changes(step.rankings[block.table], rankings[block.table], context)
            yield _accumulators(step, block, values, context.env)


def _needs_rows(step: GroupOp, side: int) -> bool:
    """Whether the rows of a side are needed, not only what they contribute."""
    scanned = [compiled.request.side for compiled in step.requests if compiled.request.reads_rows]
    return side in (step.linear, *step.used, *scanned) or step.sides[side].table is not None


def _side_rows(side: PhysicalSide, pairs: Rows) -> SortedRows:
    columns = (*range(side.key_width), *side.columns)
    return aggregate_rows(side.schema, pairs.pick(columns).columns, pairs.weights)


def _accumulators(step: GroupOp, block: PhysicalBlock, pairs: Rows, env: Environment) -> SortedRows:
    """What rows contribute to the accumulators of their keys."""
    rows = block.pipeline.apply(pairs, env)
    columns, weights = list(rows.columns), rows.weights

    def parts(groups: RowGroups) -> Parts:
        of, n = groups.of_row, len(groups)
        sums: Parts = {}
        for lift in block.lifts:
            sums |= lift_rows(lift, columns, weights, of, n)
        return sums

    counts = weights if block.counted else zeros(len(rows))
    return aggregate_rows(step.schema, columns[: len(step.schema.keys)], counts, parts)


def _ranking_rows(ranking: Ranking, pairs: Rows, env: Environment) -> SortedRows:
    rows = ranking.pipeline.apply(pairs, env)
    if ranking.drops_null and rows.columns[-1].null_count:
        rows = rows.take(rows.columns[-1].is_valid().to_numpy(zero_copy_only=False))
    return aggregate_rows(ranking.schema, rows.columns, rows.weights)


def _distinct_changes(ranking: Ranking, change: SortedRows, context: BatchContext) -> Rows:
    """The distinct values of a table that appear or disappear: pairs of key and value."""
    before, _ = look_up(context.table(ranking.name, ranking.schema), context.reader, change)
    appears = (before + change.weights > 0).astype(np.int64) - (before > 0)
    value = part(ranking.element, 1) if ranking.paired else ranking.element
    columns = change.columns[: len(ranking.schema.keys)]
    values = change.columns[len(change.columns) - width(value) :]
    return Rows((*columns, *values), appears).take(appears != 0)


# --- the affected keys ----------------------------------------------------------------------


def _affected_keys(
    step: GroupOp,
    sums: SortedRows,
    rankings: Sequence[SortedRows],
    rows: Sequence[SortedRows],
    context: BatchContext,
) -> Affected:
    """The keys of all deltas, and their accumulators before and after the batch."""
    deltas = [delta for delta in (sums, *rankings, *rows) if len(delta)]
    if not deltas:
        none = no_keys(step.schema.keys)
        return Affected(np.zeros(0, np.uint64), none, zeros(0), zeros(0), {}, {}, [], [])
    if len(deltas) == 1 and deltas[0] is sums:  # its keys are distinct and sorted already
        hashes, keys = sums.hashes, sums.keys
        key_indices: list[Integers] = [np.arange(len(sums))]
    else:
        hashes, keys, of_row = distinct_keys(concat_keys([delta.keys for delta in deltas]))
        ends = np.cumsum([len(delta) for delta in deltas])
        key_indices = np.split(of_row, ends[:-1])
    indices_of = {id(delta): at for delta, at in zip(deltas, key_indices, strict=True)}
    nothing = zeros(0)
    at = indices_of.get(id(sums), nothing)
    sought = SortedRows(step.schema, hashes, keys, no_keys(()), None, zeros(len(hashes)))
    weights, parts = look_up(context.table(step.table, step.schema), context.reader, sought)
    added = zeros(len(hashes))
    added[at] = sums.weights
    after: Parts = {}
    for name, column in sums.parts.items():
        after[name] = zeros(len(hashes))
        after[name][at] = column
    if (weights + added < 0).any():
        raise NegativeWeight("a group has fewer than no rows")
    side_rows = [(delta, indices_of.get(id(delta), nothing)) for delta in rows]
    return Affected(
        hashes, keys, weights, weights + added, parts, add(parts, after), rankings, side_rows
    )


# --- answers -------------------------------------------------------------------------------


def changed_keys(affected: Affected, answers: Answers) -> Mask:
    """The keys for which a request has a different value after the batch."""
    everything = np.arange(len(affected))
    is_changed = np.zeros(len(affected), np.bool_)
    for before, after, type_ in zip(answers.before, answers.after, answers.types, strict=True):
        if before is after:
            continue
        one, two = Keys((before,), (type_,)), Keys((after,), (type_,))
        is_changed |= ~same_keys(one, everything, two, everything)
    return is_changed


def _fold_delta(step: GroupOp, affected: Affected, answers: Answers, context: BatchContext) -> Rows:
    """-old +new of keys that appear, disappear, or have a changed request."""
    was, is_ = affected.before > 0, affected.after > 0
    differs = changed_keys(affected, answers) | (was != is_)
    old, new = np.flatnonzero(was & differs), np.flatnonzero(is_ & differs)
    both = [
        Rows((*_columns_at(affected.keys.columns, keys), *_columns_at(columns, keys)), signs)
        for keys, columns, signs in (
            (old, answers.before, np.full(len(old), -1)),
            (new, answers.after, np.full(len(new), 1)),
        )
    ]
    types = (*step.schema.keys, *answers.types)
    return step.body.apply(concat_rows(both, types), context.env)


def _linear_delta(
    step: GroupOp, affected: Affected, answers: Answers, context: BatchContext
) -> Iterable[Rows]:
    """The answers of inserted and deleted rows, and of all rows of keys with a changed request."""
    assert step.linear is not None
    side = step.sides[step.linear]
    new, at = affected.rows[step.linear]
    if len(new):
        rows = Rows((*new.columns, *_columns_at(answers.after, at)), new.weights)
        yield step.body.apply(rows, context.env)
    differs = np.flatnonzero(changed_keys(affected, answers)) if answers.types else zeros(0)
    table = context.table(side.table, side.schema)
    if not len(differs) or not table.segments:
        return
    keys = affected.keys.take(differs)
    # The new rows are answered above with the requests after the batch; old rows are still the
    # table's, which does not have the delta yet.
    for key_indices, old in partners(table, context.reader, affected.hashes[differs], keys):
        at = differs[key_indices]
        before = Rows((*old.columns, *_columns_at(answers.before, at)), -old.weights)
        after = Rows((*old.columns, *_columns_at(answers.after, at)), old.weights)
        types = (*side.schema.keys, *leaves(side.value), *answers.types)
        yield step.body.apply(concat_rows([before, after], types), context.env)


def _columns_at(columns: Sequence[Any], indices: npt.NDArray[Any]) -> list[Any]:
    index = pa.array(indices)
    return [column.take(index) for column in columns]
