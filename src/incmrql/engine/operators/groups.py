"""Groups: -old +new for the keys that a batch touches.

what rows bring        accumulators, values of tables, rows, each added up by key
what is asked          before and after, of the affected keys
what is answered       for keys for which it changed, and for rows that came or went
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.engine.columns.accumulators import AccumulatorRead, Parts, add, lift_rows
from incmrql.engine.columns.keys import Keys, concat_keys, no_keys, same_keys
from incmrql.engine.columns.layouts import Layout, leaves, part, width
from incmrql.engine.columns.pipelines import Pipeline
from incmrql.engine.columns.rows import Rows, concat_rows, no_rows
from incmrql.engine.compile.physical import (
    Block,
    CompiledRequest,
    GroupScan,
    Ranking,
    RankingMerge,
    RankingRead,
    Side,
)
from incmrql.engine.context import BatchContext, merge_all, zeros
from incmrql.engine.loops.recompute.groups import Grouping, reads_first
from incmrql.engine.operators.base import Evaluator, NamedSchema, StatefulOp, any_by_row
from incmrql.engine.operators.joins import Sums
from incmrql.engine.operators.requests import Affected, Answers, request_columns, whole_delta
from incmrql.engine.store.content import SortedRows, aggregate_rows, distinct_keys, empty
from incmrql.engine.store.lookup import look_up, partners
from incmrql.engine.store.sorting import Groups, TableSchema
from incmrql.engine.store.tables import scan
from incmrql.plan.access import Mode
from incmrql.plan.changes import NegativeWeight
from incmrql.reference import Environment
from incmrql.types import typed
from incmrql.values.exact.sums import Integers

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GroupOp(StatefulOp):
    """-old +new of the affected keys.

    `fold`: the answer is of the key and what is asked.  `linear`: of each row of one side too.
    `whole`: of all rows of some sides, evaluated key by key.
    """

    sides: tuple[Side, ...]
    key: Layout
    blocks: tuple[tuple[Block, ...], ...]
    """By side."""
    rankings: tuple[Ranking, ...]
    wanted: tuple[CompiledRequest, ...]
    mode: Mode
    body: Pipeline
    """Over the key, a row of the linear side, and what is asked; by row in mode `whole`."""
    linear: int | None
    used: tuple[int, ...]
    table: str | None
    schema: TableSchema
    group: typed.Variable

    @property
    def state_tables(self) -> tuple[NamedSchema, ...]:
        """Accumulators, values in order, and rows of the sides that are kept."""
        own = () if self.table is None else ((self.table, self.schema),)
        rankings = [(ranking.name, ranking.schema) for ranking in self.rankings]
        sides = [(side.table, side.schema) for side in self.sides if side.table is not None]
        return (*own, *rankings, *sides)

    @property
    def is_by_row(self) -> bool:
        """Whether an expression or a request goes through rows or values one by one."""
        blocks = [block.pipeline for blocks in self.blocks for block in blocks]
        rankings = [ranking.pipeline for ranking in self.rankings]
        return (
            self.mode == "whole"
            or any_by_row([*[side.paired for side in self.sides], *blocks, *rankings, self.body])
            or any(_goes_through(each, self.rankings) for each in self.wanted)
        )

    @property
    def delta_schemas(self) -> tuple[TableSchema, ...]:
        """Those of accumulators, of tables of values, and of the rows of sides."""
        return (
            self.schema,
            *[ranking.schema for ranking in self.rankings],
            *[side.schema for side in self.sides],
        )

    def has_rows(self, given: Sequence[bool]) -> bool:
        """Whether a side has any, or the one that is answered row by row."""
        return any(given) if self.linear is None else given[self.linear]

    def gather(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[SortedRows]:
        """What rows bring to accumulators, to tables and to the rows of sides, by key."""
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
                for place, ranking in enumerate(self.rankings):
                    if ranking.side == number:
                        rankings[place].append(_ranking_rows(ranking, pairs, env))
        parts = [sums, *rankings, *rows]
        return [
            merge_all(schema, each) for schema, each in zip(self.delta_schemas, parts, strict=True)
        ]

    def meet(self, deltas: Sequence[SortedRows], context: BatchContext) -> Iterator[Rows]:
        """What the rows that were brought do to the answers of their keys."""
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
        context.add(self.table, sums)
        for ranking, content in zip(self.rankings, rankings, strict=True):
            context.add(ranking.name, content)
        for side, content in zip(self.sides, rows, strict=True):
            context.add(side.table, content)

    def evaluator(self, moving: tuple[bool, ...], _most: int) -> Evaluator:
        """The answers of all groups; keys that stay the same keep their numbers."""
        return Grouping(self, moving).meet

    def bucket_rows(self, bucket: int, context: BatchContext) -> Rows:
        """All rows that the keys of a bucket answer with, from the tables of a fold."""
        content = scan(context.table(self.table, self.schema), context.reader, bucket)
        there = content.take(content.weights > 0)
        none = [empty(schema) for schema in self.delta_schemas]
        _, rankings, rows = _by_kind(self, none)
        weights, parts = there.weights, there.parts
        nothing = [(each, zeros(0)) for each in rows]
        affected = Affected(
            there.hashes, there.keys, weights, weights, parts, parts, rankings, nothing
        )
        if not len(affected):
            return no_rows(self.body.types)
        columns = request_columns(self, affected, context).before
        rows_ = Rows((*there.keys.columns, *columns), np.ones_like(weights))
        return self.body.apply(rows_, context.env)


def _goes_through(wanted: CompiledRequest, rankings: Sequence[Ranking]) -> bool:
    """Whether rows or values are read group by group for a request."""
    match wanted:
        case RankingRead(table=table):
            return not reads_first(wanted, rankings[table])
        case AccumulatorRead():
            return False
        case GroupScan() | RankingMerge():
            return True


def _by_kind(
    step: GroupOp, brought: Sequence[SortedRows]
) -> tuple[SortedRows, Sequence[SortedRows], Sequence[SortedRows]]:
    until = 1 + len(step.rankings)
    return brought[0], brought[1:until], brought[until:]


# --- what rows bring -----------------------------------------------------------------------


def _distinct_deltas(
    step: GroupOp, rankings: Sequence[SortedRows], context: BatchContext
) -> Iterator[SortedRows]:
    """What the different values of tables that come and go bring to accumulators."""
    for block in (each for blocks in step.blocks for each in blocks):
        if block.table is not None and len(rankings[block.table]):
            came = _distinct_changes(step.rankings[block.table], rankings[block.table], context)
            yield _accumulators(step, block, came, context.env)


def _needs_rows(step: GroupOp, side: int) -> bool:
    """Whether the rows of a side matter themselves."""
    walked = [each.request.side for each in step.wanted if each.request.reads_rows]
    return side in (step.linear, *step.used, *walked) or step.sides[side].table is not None


def _side_rows(side: Side, pairs: Rows) -> SortedRows:
    columns = (*range(side.key_width), *side.columns)
    return aggregate_rows(side.schema, pairs.pick(columns).columns, pairs.weights)


def _accumulators(step: GroupOp, block: Block, pairs: Rows, env: Environment) -> SortedRows:
    """What rows add to the accumulators of their keys."""
    rows = block.pipeline.apply(pairs, env)
    columns, weights = list(rows.columns), rows.weights

    def parts(groups: Groups) -> Parts:
        of, n = groups.of_row, len(groups)
        found: Parts = {}
        for lift in block.lifts:
            found |= lift_rows(lift, columns, weights, of, n)
        return found

    counts = weights if block.counted else zeros(len(rows))
    return aggregate_rows(step.schema, columns[: len(step.schema.keys)], counts, parts)


def _ranking_rows(ranking: Ranking, pairs: Rows, env: Environment) -> SortedRows:
    rows = ranking.pipeline.apply(pairs, env)
    if ranking.drops_null and rows.columns[-1].null_count:
        rows = rows.take(rows.columns[-1].is_valid().to_numpy(zero_copy_only=False))
    return aggregate_rows(ranking.schema, rows.columns, rows.weights)


def _distinct_changes(ranking: Ranking, change: SortedRows, context: BatchContext) -> Rows:
    """The different values of a table that come and go: pairs of key and value."""
    before, _ = look_up(context.table(ranking.name, ranking.schema), context.reader, change)
    came = (before + change.weights > 0).astype(np.int64) - (before > 0)
    value = part(ranking.element, 1) if ranking.paired else ranking.element
    columns = change.columns[: len(ranking.schema.keys)]
    values = change.columns[len(change.columns) - width(value) :]
    return Rows((*columns, *values), came).take(came != 0)


# --- the affected keys ----------------------------------------------------------------------


def _affected_keys(
    step: GroupOp,
    sums: SortedRows,
    rankings: Sequence[SortedRows],
    rows: Sequence[SortedRows],
    context: BatchContext,
) -> Affected:
    """The keys that something was brought to, and their accumulators before and after."""
    some = [content for content in (sums, *rankings, *rows) if len(content)]
    if not some:
        none = no_keys(step.schema.keys)
        return Affected(np.zeros(0, np.uint64), none, zeros(0), zeros(0), {}, {}, [], [])
    if len(some) == 1 and some[0] is sums:
        hashes, keys = sums.hashes, sums.keys
        places: list[Integers] = [np.arange(len(sums))]
    else:
        hashes, keys, of_row = distinct_keys(concat_keys([content.keys for content in some]))
        ends = np.cumsum([len(content) for content in some])
        places = np.split(of_row, ends[:-1])
    where = {id(content): at for content, at in zip(some, places, strict=True)}
    nothing = zeros(0)
    at = where.get(id(sums), nothing)
    asked = SortedRows(step.schema, hashes, keys, no_keys(()), None, zeros(len(hashes)))
    weights, parts = look_up(context.table(step.table, step.schema), context.reader, asked)
    added = zeros(len(hashes))
    added[at] = sums.weights
    after: Parts = {}
    for name, column in sums.parts.items():
        after[name] = zeros(len(hashes))
        after[name][at] = column
    if (weights + added < 0).any():
        raise NegativeWeight("a group has fewer than no rows")
    placed = [(each, where.get(id(each), nothing)) for each in rows]
    return Affected(
        hashes, keys, weights, weights + added, parts, add(parts, after), rankings, placed
    )


# --- answers -------------------------------------------------------------------------------


def changed_keys(affected: Affected, answers: Answers) -> Mask:
    """For which keys something that is asked has another value."""
    everything = np.arange(len(affected))
    found = np.zeros(len(affected), np.bool_)
    for before, after, type_ in zip(answers.before, answers.after, answers.types, strict=True):
        if before is after:
            continue
        one, two = Keys((before,), (type_,)), Keys((after,), (type_,))
        found |= ~same_keys(one, everything, two, everything)
    return found


def _fold_delta(step: GroupOp, affected: Affected, answers: Answers, context: BatchContext) -> Rows:
    """The answers of keys that came, went, or for which what is asked changed."""
    was, is_ = affected.before > 0, affected.after > 0
    differs = changed_keys(affected, answers) | (was != is_)
    old, new = np.flatnonzero(was & differs), np.flatnonzero(is_ & differs)
    given = [
        Rows((*_columns_at(affected.keys.columns, places), *_columns_at(columns, places)), signs)
        for places, columns, signs in (
            (old, answers.before, np.full(len(old), -1)),
            (new, answers.after, np.full(len(new), 1)),
        )
    ]
    types = (*step.schema.keys, *answers.types)
    return step.body.apply(concat_rows(given, types), context.env)


def _linear_delta(
    step: GroupOp, affected: Affected, answers: Answers, context: BatchContext
) -> Iterable[Rows]:
    """Rows that came or went, and all rows of keys for which what is asked changed."""
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
    for places, old in partners(table, context.reader, affected.hashes[differs], keys):
        at = differs[places]
        before = Rows((*old.columns, *_columns_at(answers.before, at)), -old.weights)
        after = Rows((*old.columns, *_columns_at(answers.after, at)), old.weights)
        types = (*side.schema.keys, *leaves(side.value), *answers.types)
        yield step.body.apply(concat_rows([before, after], types), context.env)


def _columns_at(columns: Sequence[Any], places: npt.NDArray[Any]) -> list[Any]:
    index = pa.array(places)
    return [column.take(index) for column in columns]
