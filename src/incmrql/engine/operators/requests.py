"""What answers request of affected keys, before and after a batch.

| request | comes from |
|---|---|
| `Asked` | accumulators |
| `Read`, `Merged` | a table of values in order |
| `Walked` | all rows of a side, evaluated group by group |

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
"""A table, its reader, a change that counts as part of it, and the keys that are asked."""

Found = tuple[Indices, SortedRows]
"""Rows, and the places of their keys."""


@dataclass(frozen=True, slots=True)
class Affected:
    """Different keys in order: multiplicities and accumulators before and after.

    `rankings` are the changes of tables, and `rows` those of the rows of sides, where they matter,
    with the place of each row's key.
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
    """A column for each request, before and after."""

    before: list[Any]
    after: list[Any]
    types: tuple[Type, ...]


def request_columns(step: GroupOp, affected: Affected, context: BatchContext) -> Answers:
    """What is asked of the affected keys; the very same column where nothing can have changed."""
    before: list[Any] = []
    after: list[Any] = []
    for wanted in step.wanted:
        old, new = _column_pair(wanted, step, affected, context)
        before.append(old)
        after.append(new)
    return Answers(before, after, tuple(each.request.variable.type for each in step.wanted))


def _column_pair(
    wanted: CompiledRequest, step: GroupOp, affected: Affected, context: BatchContext
) -> tuple[Any, Any]:
    n = len(affected)
    match wanted:
        case AccumulatorRead():
            old = aggregate_column(wanted, affected.parts_before, n)
            return old, aggregate_column(wanted, affected.parts_after, n)
        case GroupScan():
            return _side_columns(wanted.request, step, affected, context)
        case RankingRead() | RankingMerge():
            ranking, change = step.rankings[wanted.table], affected.rankings[wanted.table]
            if isinstance(wanted, RankingRead) and wanted.reading.how in ("least", "greatest"):
                table = context.table(ranking.name, ranking.schema)
                type_ = wanted.request.variable.type
                last = wanted.reading.how == "greatest"
                return extremes(ranking, table, context.reader, affected, change, type_, last=last)
            old = _table_column(wanted, ranking, step, affected, None, context)
            new = (
                _table_column(wanted, ranking, step, affected, change, context)
                if len(change)
                else old
            )
            return old, new


def _table_column(
    wanted: RankingRead | RankingMerge,
    ranking: Ranking,
    step: GroupOp,
    affected: Affected,
    extra: SortedRows | None,
    context: BatchContext,
) -> Any:
    table = context.table(ranking.name, ranking.schema)
    asked: _KeysOfTable = table, context.reader, extra, affected.hashes, affected.keys
    type_ = wanted.request.variable.type
    counts = totals(*asked)
    if isinstance(wanted, RankingMerge):
        spans = [(0, count) for count in counts.tolist()]
        values = _values(ranking, asked, spans)
        return column_of([_merged_value(wanted, each, context.env) for each in values], type_)
    keys = rows_of(affected.keys.columns, step.key, len(affected))
    envs = [group_value(step, key, {}, context.env) for key in keys]
    spans = [_span(wanted, env, count) for env, count in zip(envs, counts.tolist(), strict=True)]
    values = _values(ranking, asked, spans)
    found = [
        read_value(wanted.request, wanted.reading, _Given(count, span, list_), env)
        for env, count, span, list_ in zip(envs, counts.tolist(), spans, values, strict=True)
    ]
    return column_of(found, type_)


class _Requested(Exception):
    """Which values a request reads."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__(start, stop)
        self.start, self.stop = start, stop


@dataclass(slots=True)
class _Unknown:
    """A table of which nothing is known but how many values it has."""

    total: int

    def span(self, start: int, stop: int) -> list[Value]:
        """Say what is read."""
        raise _Requested(start, stop)


@dataclass(slots=True)
class _Given:
    """A table of which the values that are read are at hand."""

    total: int
    at: tuple[int, int]
    values: list[Value] = field(default_factory=list)

    def span(self, start: int, stop: int) -> list[Value]:
        """The values from one place to another."""
        return self.values[start - self.at[0] : stop - self.at[0]]


def _span(wanted: RankingRead, env: Environment, count: int) -> tuple[int, int]:
    """Which values a request reads of a key."""
    try:
        read_value(wanted.request, wanted.reading, _Unknown(count), env)
    except _Requested as asking:
        start, stop = min(asking.start, count), min(asking.stop, count)
        return start, max(start, stop)
    return 0, 0


def _values(
    ranking: Ranking, asked: _KeysOfTable, spans: Sequence[tuple[int, int]]
) -> list[list[Value]]:
    """The values at the ranks that are read of each key, each as often as it is there."""
    starts = np.array([start for start, _ in spans], np.int64)
    stops = np.array([stop for _, stop in spans], np.int64)
    found: list[list[Value]] = [[] for _ in spans]
    if not (stops > starts).any():
        return found
    places, rows = rows_between(*asked, starts, stops)
    values = rows_of(rows.rest.columns, ranking.element, len(rows))
    for place, value, weight in zip(places.tolist(), values, rows.weights.tolist(), strict=True):
        found[place] += [value[1] if ranking.paired else value] * weight
    return found


def _merged_value(wanted: RankingMerge, values: Sequence[Value], env: Environment) -> Value:
    """All values merged as a user says."""
    aggregation = env.world.script.aggregations[wanted.aggregation]
    monoid = user_monoid(aggregation, env, commutative=True)
    total = monoid.zero
    for value in values:
        if value is not None:
            unit = aggregation.unit
            one = value if unit is None else apply(unit, [value], env.outermost())
            total = monoid.merge(total, one)
    return total


# --- the least and the greatest --------------------------------------------------------------
# After a change it is the better of the one before and the best that came, unless what was the
# best goes: only then the table is read again.


def extremes(  # noqa: PLR0913 (a table, keys, a change of it, and what is asked)
    ranking: Ranking,
    table: StateTable,
    reader: Reader,
    affected: Affected,
    change: SortedRows,
    type_: Type,
    *,
    last: bool,
) -> tuple[Any, Any]:
    """The least or greatest values of keys before and after, null where there is none."""
    asked = affected.hashes, affected.keys
    before = front(table, reader, None, *asked, 1, last=last)
    n = len(affected)
    old = _extreme_column(ranking, [before], n, type_)
    if not len(change):
        return old, old
    words = [change.order, before[1].order]
    if not all(each is not None and decides(ranking.schema, each).all() for each in words):
        after = front(table, reader, change, *asked, 1, last=last)
        return old, _extreme_column(ranking, [after], n, type_)
    better, again = _better_rows(before, change, affected, last=last)
    keys = affected.keys.take(again)
    places, rows = front(table, reader, change, affected.hashes[again], keys, 1, last=last)
    still = ~np.isin(before[0], again)
    kept = before[0][still], before[1].take(still)
    others = ~np.isin(better[0], again)
    came = better[0][others], better[1].take(others)
    return old, _extreme_column(ranking, [kept, came, (again[places], rows)], n, type_)


def _better_rows(
    before: Found, change: SortedRows, affected: Affected, *, last: bool
) -> tuple[Found, Indices]:
    """The rows that came and are better than those before; and the keys whose best one went."""
    n = len(affected)
    assert change.order is not None
    assert before[1].order is not None
    there = np.zeros(n, np.bool_)
    there[before[0]] = True
    words = np.zeros(n, np.uint64)
    words[before[0]] = before[1].order
    span = span_of(SegmentRows.of(change), affected.hashes, affected.keys)
    key_of = np.zeros(len(change), np.int64)
    key_of[expand_ranges(span.starts, span.counts)] = np.repeat(span.key_indices, span.counts)
    leaving = np.flatnonzero(change.weights < 0)
    at = key_of[leaving]
    again = np.unique(at[there[at] & (words[at] == change.order[leaving])])
    coming = np.flatnonzero(change.weights > 0)
    best, keys = _best_rows(coming, span.starts, span.stops, span.key_indices, last=last)
    fresh, old = change.order[best], words[keys]
    better = ~there[keys] | ((fresh > old) if last else (fresh < old))
    return (keys[better], change.take(best[better])), again


def _best_rows(
    coming: Indices, starts: Indices, stops: Indices, asked: Indices, *, last: bool
) -> tuple[Indices, Indices]:
    """The first or last of the rows that came of each key, and the key."""
    at = np.searchsorted(coming, stops) - 1 if last else np.searchsorted(coming, starts)
    inside = (at >= 0) & (at < len(coming))
    at, starts, stops, asked = at[inside], starts[inside], stops[inside], asked[inside]
    rows = coming[at]
    own = (rows >= starts) & (rows < stops)
    return rows[own], asked[own]


def _extreme_column(ranking: Ranking, found: Sequence[Found], n: int, type_: Type) -> Any:
    """One value for each key that has one; of several for a key the last part's holds."""
    where: npt.NDArray[np.int64] = np.full(n, -1)
    start = 0
    for places, rows in found:
        where[places] = start + np.arange(len(places))
        start += len(rows)
    if isinstance(ranking.element, Leaf):
        values = pa.concat_arrays([rows.rest.columns[0] for _, rows in found])
        taken = values.take(pa.array(where, mask=where < 0))
        wanted = column_type(type_)
        return taken if taken.type == wanted else taken.cast(wanted)
    known = [
        value
        for _, rows in found
        for value in rows_of(rows.rest.columns, ranking.element, len(rows))
    ]
    return column_of([None if i < 0 else known[i] for i in where.tolist()], type_)


# --- groups gone through row by row ----------------------------------------------------------


def _side_columns(
    request: Request, step: GroupOp, affected: Affected, context: BatchContext
) -> tuple[Any, Any]:
    """A request over all rows of a side, for each key."""
    keys = rows_of(affected.keys.columns, step.key, len(affected))
    old, new = bags_of(step, request.side, affected, context)
    found = []
    for bags in (old, new):
        envs = [
            group_value(step, key, {request.side: bag}, context.env)
            for key, bag in zip(keys, bags, strict=True)
        ]
        values = [evaluate(request.expr, env) for env in envs]
        found.append(column_of(values, request.variable.type))
    return found[0], found[1]


def whole_delta(step: GroupOp, affected: Affected, answers: Answers, context: BatchContext) -> Rows:
    """The answers of affected keys before, with weight -1, and after."""
    keys = rows_of(affected.keys.columns, step.key, len(affected))
    bags = {side: bags_of(step, side, affected, context) for side in step.used}
    requests = [each.request for each in step.wanted]
    found: list[tuple[Value, int]] = []
    for when, sign, counts in ((0, -1, affected.before), (1, 1, affected.after)):
        columns = (answers.before, answers.after)[when]
        asked = [values_of(c, t) for c, t in zip(columns, answers.types, strict=True)]
        for place in np.flatnonzero(counts > 0).tolist():
            mine = {side: both[when][place] for side, both in bags.items()}
            values = [column[place] for column in asked]
            found += [
                (row, sign)
                for row in _group_rows(step, keys[place], mine, requests, values, context)
            ]
    return of_values(found, step.body.made)


def _group_rows(
    step: GroupOp,
    key: Value,
    bags: dict[int, Bag],
    requests: Sequence[Request],
    values: Sequence[Value],
    context: BatchContext,
) -> list[Value]:
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
    places, rows = grouped_rows(table, context.reader, affected.hashes, affected.keys)
    before = _rows_by_key(places, rows, step, number, len(affected))
    after = [dict(each) for each in before]
    change = affected.rows[number]
    if len(change[0]):
        changes = _rows_by_key(change[1], change[0], step, number, len(affected))
        for known, new in zip(after, changes, strict=True):
            for identity, (value, weight) in new.items():
                total = weight + known.get(identity, (None, 0))[1]
                known[identity] = (value, total)
    return [_bag(each) for each in before], [_bag(each) for each in after]


def _rows_by_key(
    places: Indices, rows: SortedRows, step: GroupOp, number: int, count: int
) -> list[dict[bytes, tuple[Value, int]]]:
    found: list[dict[bytes, tuple[Value, int]]] = [{} for _ in range(count)]
    values = rows_of(rows.rest.columns, step.sides[number].value, len(rows))
    for place, value, weight in zip(places.tolist(), values, rows.weights.tolist(), strict=True):
        found[place][encode(value)] = (value, weight)
    return found


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
    """Where a group is known by its key and the rows of some sides; the others are empty."""
    sides = tuple(bags.get(side, Bag()) for side in range(len(step.sides)))
    return env.bind(step.group, (key, sides[0] if len(sides) == 1 else sides))
