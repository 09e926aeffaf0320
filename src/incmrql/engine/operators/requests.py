"""The requests of affected keys, computed before and after a batch.

| request | computed from |
|---|---|
| `AccumulatorRead` | accumulators |
| `RankingRead`, `RankingMerge` | a table of values in order |
| `GroupScan` | all rows of a side, evaluated group by group |

A whole answer may also be evaluated group by group, over all rows of some sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.engine.columns.accumulators import AccumulatorRead, Parts, aggregate_column
from incmrql.engine.columns.keys import Indices, Keys
from incmrql.engine.columns.layouts import Leaf, column_of, column_type, rows_of, values_of
from incmrql.engine.columns.pipelines import ByRow
from incmrql.engine.columns.rows import Rows, of_values
from incmrql.engine.compile.physical import (
    CompiledRequest,
    GroupScan,
    Ranking,
    RankingMerge,
    RankingRead,
)
from incmrql.engine.context import BatchContext
from incmrql.engine.store.content import SortedRows
from incmrql.engine.store.lookup import expand_ranges, grouped_rows, span_of
from incmrql.engine.store.ordered import front, rows_between, totals
from incmrql.engine.store.segments import SegmentRows
from incmrql.engine.store.sorting import decides
from incmrql.engine.store.tables import Reader, StateTable
from incmrql.io.by_row import note_by_row
from incmrql.plan.changes import NegativeWeight
from incmrql.plan.monoids import user_monoid
from incmrql.plan.nodes import Request
from incmrql.plan.reading import read_value
from incmrql.reference import Environment, evaluate
from incmrql.reference.calls import apply
from incmrql.types.model import Type
from incmrql.values import Bag, Value, encode, show
from incmrql.values.exact.sums import Integers
from incmrql.values.hashing.columns import Hashes

if TYPE_CHECKING:
    from incmrql.engine.operators.groups import GroupOp


_KeysOfTable: TypeAlias = tuple[StateTable, Reader, SortedRows | None, Hashes, Keys]
"""A table, its reader, a delta to be counted as part of it, and the requested keys."""

KeyedRows = tuple[Indices, SortedRows]
"""Rows, and the indices of their keys."""


@dataclass(frozen=True, slots=True)
class Affected:
    """The affected keys, in order: their weights and accumulators before and after the batch.

    `rankings` are the deltas of tables of values, and `rows` those of the rows of sides, if they
    are needed, with the index of each row's key.
    """

    hashes: Hashes
    keys: Keys
    before: Integers
    after: Integers
    parts_before: Parts
    parts_after: Parts
    rankings: Sequence[SortedRows]
    rows: Sequence[tuple[SortedRows, Indices]]

    def __len__(self) -> int:
        return len(self.hashes)


@dataclass(frozen=True, slots=True)
class Answers:
    """A column for each request, before and after the batch."""

    before: list[Any]
    after: list[Any]
    types: tuple[Type, ...]


def request_columns(step: GroupOp, affected: Affected, context: BatchContext) -> Answers:
    """The requests of the affected keys; the same column object where nothing can have changed."""
    before: list[Any] = []
    after: list[Any] = []
    for compiled in step.requests:
        old, new = _column_pair(compiled, step, affected, context)
        before.append(old)
        after.append(new)
    types = tuple(compiled.request.variable.type for compiled in step.requests)
    return Answers(before, after, types)


def _column_pair(
    compiled: CompiledRequest, step: GroupOp, affected: Affected, context: BatchContext
) -> tuple[Any, Any]:
    """The columns of a request before and after the batch."""
    n = len(affected)
    match compiled:
        case AccumulatorRead():
            old = aggregate_column(compiled, affected.parts_before, n)
            return old, aggregate_column(compiled, affected.parts_after, n)
        case GroupScan():
            return _scan_columns(compiled.request, step, affected, context)
        case RankingRead() | RankingMerge():
            ranking, change = step.rankings[compiled.table], affected.rankings[compiled.table]
            if isinstance(compiled, RankingRead) and compiled.reading.how in ("least", "greatest"):
                table = context.table(ranking.name, ranking.schema)
                type_ = compiled.request.variable.type
                last = compiled.reading.how == "greatest"
                return extremes(ranking, table, context.reader, affected, change, type_, last=last)
            old = _table_column(compiled, ranking, step, affected, None, context)
            new = (
                _table_column(compiled, ranking, step, affected, change, context)
                if len(change)
                else old
            )
            return old, new


def _table_column(
    compiled: RankingRead | RankingMerge,
    ranking: Ranking,
    step: GroupOp,
    affected: Affected,
    extra: SortedRows | None,
    context: BatchContext,
) -> Any:
    """The column of a request that reads a table, with `extra` counted as part of the table."""
    # The request is evaluated twice for each key: once to learn which ranks it reads, then with
    # the values at these ranks. So only they are read, for all keys at once.
    table = context.table(ranking.name, ranking.schema)
    lookup: _KeysOfTable = table, context.reader, extra, affected.hashes, affected.keys
    type_ = compiled.request.variable.type
    counts = totals(*lookup)
    if isinstance(compiled, RankingMerge):
        spans = [(0, count) for count in counts.tolist()]
        lists = _read_values(ranking, lookup, spans)
        return column_of([_merge_values(compiled, list_, context.env) for list_ in lists], type_)
    keys = rows_of(affected.keys.columns, step.key, len(affected))
    envs = [group_value(step, key, {}, context.env) for key in keys]
    spans = [_span(compiled, env, count) for env, count in zip(envs, counts.tolist(), strict=True)]
    lists = _read_values(ranking, lookup, spans)
    values = [
        read_value(compiled.request, compiled.reading, _LoadedTable(count, span, list_), env)
        for env, count, span, list_ in zip(envs, counts.tolist(), spans, lists, strict=True)
    ]
    return column_of(values, type_)


class _RanksRead(Exception):
    """Raised by `_UnreadTable` with the ranks that a request reads."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__(start, stop)
        self.start, self.stop = start, stop


@dataclass(slots=True)
class _UnreadTable:
    """Stands for a table whose values are not read yet; only their number is known."""

    total: int

    def span(self, start: int, stop: int) -> list[Value]:
        """Report the ranks that are read."""
        raise _RanksRead(start, stop)


@dataclass(slots=True)
class _LoadedTable:
    """A table of which the values at the requested ranks are loaded."""

    total: int
    at: tuple[int, int]
    values: list[Value] = field(default_factory=list)

    def span(self, start: int, stop: int) -> list[Value]:
        """The values at ranks from `start` to `stop`."""
        return self.values[start - self.at[0] : stop - self.at[0]]


def _span(compiled: RankingRead, env: Environment, count: int) -> tuple[int, int]:
    """The ranks that a request reads for a key with `count` values."""
    try:
        read_value(compiled.request, compiled.reading, _UnreadTable(count), env)
    except _RanksRead as ranks:
        start, stop = min(ranks.start, count), min(ranks.stop, count)
        return start, max(start, stop)
    return 0, 0


def _read_values(
    ranking: Ranking, lookup: _KeysOfTable, spans: Sequence[tuple[int, int]]
) -> list[list[Value]]:
    """The values of each key at its ranks, each repeated by its weight."""
    starts = np.array([start for start, _ in spans], np.int64)
    stops = np.array([stop for _, stop in spans], np.int64)
    lists: list[list[Value]] = [[] for _ in spans]
    if not (stops > starts).any():
        return lists
    key_indices, rows = rows_between(*lookup, starts, stops)
    note_by_row(len(rows))
    values = rows_of(rows.rest.columns, ranking.element, len(rows))
    by_key = zip(key_indices.tolist(), values, rows.weights.tolist(), strict=True)
    for key, value, weight in by_key:
        lists[key] += [value[1] if ranking.paired else value] * weight
    return lists


def _merge_values(compiled: RankingMerge, values: Sequence[Value], env: Environment) -> Value:
    """All values merged by a user's aggregation."""
    aggregation = env.world.script.aggregations[compiled.aggregation]
    monoid = user_monoid(aggregation, env, commutative=True)
    total = monoid.zero
    for value in values:
        if value is not None:
            unit = aggregation.unit
            one = value if unit is None else apply(unit, [value], env.outermost())
            total = monoid.merge(total, one)
    return total


# --- the least and the greatest --------------------------------------------------------------
# After a change it is the better one of the old value and the best inserted one, unless the old
# value was deleted: only then is the table read again.


def extremes(  # noqa: PLR0913 (a table, keys, a delta, and what is requested)
    ranking: Ranking,
    table: StateTable,
    reader: Reader,
    affected: Affected,
    change: SortedRows,
    type_: Type,
    *,
    last: bool,
) -> tuple[Any, Any]:
    """The least or greatest values of keys before and after the batch; null without values."""
    sought = affected.hashes, affected.keys
    before = front(table, reader, None, *sought, 1, last=last)
    n = len(affected)
    old = _extreme_column(ranking, [before], n, type_)
    if not len(change):
        return old, old
    # Order words are prefixes of the values: they can only be compared where they decide.
    words = [change.order, before[1].order]
    if not all(word is not None and decides(ranking.schema, word).all() for word in words):
        after = front(table, reader, change, *sought, 1, last=last)
        return old, _extreme_column(ranking, [after], n, type_)
    better, reread = _better_rows(before, change, affected, last=last)
    keys = affected.keys.take(reread)
    key_indices, rows = front(table, reader, change, affected.hashes[reread], keys, 1, last=last)
    stays = ~np.isin(before[0], reread)
    kept = before[0][stays], before[1].take(stays)
    others = ~np.isin(better[0], reread)
    new = better[0][others], better[1].take(others)
    return old, _extreme_column(ranking, [kept, new, (reread[key_indices], rows)], n, type_)


def _better_rows(
    before: KeyedRows, change: SortedRows, affected: Affected, *, last: bool
) -> tuple[KeyedRows, Indices]:
    """Inserted rows that are better than the old best, and the keys whose old best was deleted."""
    n = len(affected)
    assert change.order is not None
    assert before[1].order is not None
    has_row = np.zeros(n, np.bool_)
    has_row[before[0]] = True
    words = np.zeros(n, np.uint64)
    words[before[0]] = before[1].order
    span = span_of(SegmentRows.of(change), affected.hashes, affected.keys)
    key_of = np.zeros(len(change), np.int64)
    key_of[expand_ranges(span.starts, span.counts)] = np.repeat(span.key_indices, span.counts)
    leaving = np.flatnonzero(change.weights < 0)
    at = key_of[leaving]
    reread = np.unique(at[has_row[at] & (words[at] == change.order[leaving])])
    coming = np.flatnonzero(change.weights > 0)
    best, keys = _best_rows(coming, span.starts, span.stops, span.key_indices, last=last)
    new, old = change.order[best], words[keys]
    better = ~has_row[keys] | ((new > old) if last else (new < old))
    return (keys[better], change.take(best[better])), reread


def _best_rows(
    coming: Indices, starts: Indices, stops: Indices, keys: Indices, *, last: bool
) -> tuple[Indices, Indices]:
    """The first or last inserted row of each key, and the key; `coming` are the inserted rows."""
    at = np.searchsorted(coming, stops) - 1 if last else np.searchsorted(coming, starts)
    inside = (at >= 0) & (at < len(coming))
    at, starts, stops, keys = at[inside], starts[inside], stops[inside], keys[inside]
    rows = coming[at]
    own = (rows >= starts) & (rows < stops)
    return rows[own], keys[own]


def _extreme_column(ranking: Ranking, parts: Sequence[KeyedRows], n: int, type_: Type) -> Any:
    """A column with a value for each key that has a row; later parts override earlier ones."""
    index: npt.NDArray[np.int64] = np.full(n, -1)
    start = 0
    for keys, rows in parts:
        index[keys] = start + np.arange(len(keys))
        start += len(rows)
    if isinstance(ranking.element, Leaf):
        values = pa.concat_arrays([rows.rest.columns[0] for _, rows in parts])
        column = values.take(pa.array(index, mask=index < 0))
        wanted = column_type(type_)
        return column if column.type == wanted else column.cast(wanted)
    known = [
        value
        for _, rows in parts
        for value in rows_of(rows.rest.columns, ranking.element, len(rows))
    ]
    return column_of([None if i < 0 else known[i] for i in index.tolist()], type_)


# --- groups evaluated in Python --------------------------------------------------------------


def _scan_columns(
    request: Request, step: GroupOp, affected: Affected, context: BatchContext
) -> tuple[Any, Any]:
    """A request over all rows of a side, for each key."""
    keys = rows_of(affected.keys.columns, step.key, len(affected))
    old, new = bags_of(step, request.side, affected, context)
    columns = []
    for bags in (old, new):
        envs = [
            group_value(step, key, {request.side: bag}, context.env)
            for key, bag in zip(keys, bags, strict=True)
        ]
        values = [evaluate(request.expr, env) for env in envs]
        columns.append(column_of(values, request.variable.type))
    return columns[0], columns[1]


def whole_delta(step: GroupOp, affected: Affected, answers: Answers, context: BatchContext) -> Rows:
    """-old +new of affected keys, from all rows of some sides."""
    keys = rows_of(affected.keys.columns, step.key, len(affected))
    bags = {side: bags_of(step, side, affected, context) for side in step.used}
    requests = [compiled.request for compiled in step.requests]
    rows: list[tuple[Value, int]] = []
    for when, sign, counts in ((0, -1, affected.before), (1, 1, affected.after)):
        columns = (answers.before, answers.after)[when]
        requested = [values_of(c, t) for c, t in zip(columns, answers.types, strict=True)]
        for index in np.flatnonzero(counts > 0).tolist():
            own = {side: both[when][index] for side, both in bags.items()}
            values = [column[index] for column in requested]
            rows += [
                (row, sign)
                for row in _group_rows(step, keys[index], own, requests, values, context)
            ]
    return of_values(rows, step.body.layout)


def _group_rows(
    step: GroupOp,
    key: Value,
    bags: dict[int, Bag],
    requests: Sequence[Request],
    values: Sequence[Value],
    context: BatchContext,
) -> list[Value]:
    """The rows of the answer of one group."""
    assert isinstance(step.body.how, ByRow)
    known = {r.variable.number: value for r, value in zip(requests, values, strict=True)}
    env = group_value(step, key, bags, context.env).extend(known)
    return list(evaluate(step.body.how.first, env) or ())


def bags_of(
    step: GroupOp, number: int, affected: Affected, context: BatchContext
) -> tuple[list[Bag], list[Bag]]:
    """The rows that each affected key has on a side, before and after."""
    side = step.sides[number]
    table = context.table(side.table, side.schema)
    key_indices, rows = grouped_rows(table, context.reader, affected.hashes, affected.keys)
    before = _rows_by_key(key_indices, rows, step, number, len(affected))
    after = [dict(known) for known in before]
    change = affected.rows[number]
    if len(change[0]):
        changes = _rows_by_key(change[1], change[0], step, number, len(affected))
        for known, new in zip(after, changes, strict=True):
            for identity, (value, weight) in new.items():
                total = weight + known.get(identity, (None, 0))[1]
                known[identity] = (value, total)
    return [_bag(known) for known in before], [_bag(known) for known in after]


def _rows_by_key(
    key_indices: Indices, rows: SortedRows, step: GroupOp, number: int, count: int
) -> list[dict[bytes, tuple[Value, int]]]:
    """For each key, its rows with their weights, by canonical bytes."""
    by_key: list[dict[bytes, tuple[Value, int]]] = [{} for _ in range(count)]
    note_by_row(len(rows))
    values = rows_of(rows.rest.columns, step.sides[number].value, len(rows))
    weights = rows.weights.tolist()
    for key, value, weight in zip(key_indices.tolist(), values, weights, strict=True):
        by_key[key][encode(value)] = (value, weight)
    return by_key


def _bag(rows: Mapping[bytes, tuple[Value, int]]) -> Bag:
    bag = Bag()
    for value, weight in rows.values():
        if weight < 0:
            raise NegativeWeight(f"a group holds {weight} times {show(value)}")
        bag.extend([value] * weight)
    return bag


def group_value(
    step: GroupOp, key: Value, bags: Mapping[int, Bag], env: Environment
) -> Environment:
    """The environment with a group bound to its key and the rows of sides, by default none."""
    sides = tuple(bags.get(side, Bag()) for side in range(len(step.sides)))
    return env.bind(step.group, (key, sides[0] if len(sides) == 1 else sides))
