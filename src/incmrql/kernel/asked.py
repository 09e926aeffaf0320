"""What answers ask of touched keys, before and after a batch: a column for each request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from incmrql.incremental.merging import user_monoid
from incmrql.incremental.nodes import Request
from incmrql.incremental.tables import read
from incmrql.kernel.content import Content
from incmrql.kernel.desk import Desk
from incmrql.kernel.extremes import extremes
from incmrql.kernel.finishing import Asked, finished
from incmrql.kernel.keys import Keys
from incmrql.kernel.layouts import column_of, rows_of
from incmrql.kernel.ordered import at, totals
from incmrql.kernel.physical import Grouped, Merged, Ranking, Read, Walked, Wanted
from incmrql.kernel.table import Reader, Table
from incmrql.kernel.touched import Touched
from incmrql.kernel.walked import bags_of, group_value
from incmrql.reference import Environment, evaluate
from incmrql.reference.calls import apply
from incmrql.types.model import Type
from incmrql.values import Value
from incmrql.values.hash_columns import Hashes

_Asked: TypeAlias = tuple[Table, Reader, Content | None, Hashes, Keys]
"""A table, its reader, a change that counts as part of it, and the keys that are asked."""


@dataclass(frozen=True, slots=True)
class Answers:
    """A column for each request, before and after."""

    before: list[Any]
    after: list[Any]
    types: tuple[Type, ...]


def column_before_after(step: Grouped, touched: Touched, desk: Desk) -> Answers:
    """What is asked of the touched keys; the very same column where nothing can have changed."""
    before: list[Any] = []
    after: list[Any] = []
    for wanted in step.wanted:
        old, new = _both(wanted, step, touched, desk)
        before.append(old)
        after.append(new)
    return Answers(before, after, tuple(each.request.variable.type for each in step.wanted))


def _both(wanted: Wanted, step: Grouped, touched: Touched, desk: Desk) -> tuple[Any, Any]:
    n = len(touched)
    match wanted:
        case Asked():
            old = finished(wanted, touched.parts_before, n)
            return old, finished(wanted, touched.parts_after, n)
        case Walked():
            return _walked(wanted.request, step, touched, desk)
        case Read() | Merged():
            ranking, change = step.rankings[wanted.table], touched.rankings[wanted.table]
            if isinstance(wanted, Read) and wanted.reading.how in ("least", "greatest"):
                table = desk.table(ranking.name, ranking.form)
                type_ = wanted.request.variable.type
                last = wanted.reading.how == "greatest"
                return extremes(ranking, table, desk.reader, touched, change, type_, last=last)
            old = _read(wanted, ranking, step, touched, None, desk)
            new = _read(wanted, ranking, step, touched, change, desk) if len(change) else old
            return old, new


def _read(
    wanted: Read | Merged,
    ranking: Ranking,
    step: Grouped,
    touched: Touched,
    extra: Content | None,
    desk: Desk,
) -> Any:
    table = desk.table(ranking.name, ranking.form)
    asked: _Asked = table, desk.reader, extra, touched.hashes, touched.keys
    type_ = wanted.request.variable.type
    counts = totals(*asked)
    if isinstance(wanted, Merged):
        spans = [(0, count) for count in counts.tolist()]
        values = _values(ranking, asked, spans)
        return column_of([_merged(wanted, each, desk.env) for each in values], type_)
    keys = rows_of(touched.keys.columns, step.key, len(touched))
    envs = [group_value(step, key, {}, desk.env) for key in keys]
    spans = [_span(wanted, env, count) for env, count in zip(envs, counts.tolist(), strict=True)]
    values = _values(ranking, asked, spans)
    found = [
        read(wanted.request, wanted.reading, _Given(count, span, list_), env)
        for env, count, span, list_ in zip(envs, counts.tolist(), spans, values, strict=True)
    ]
    return column_of(found, type_)


class _Asking(Exception):
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
        raise _Asking(start, stop)


@dataclass(slots=True)
class _Given:
    """A table of which the values that are read are at hand."""

    total: int
    at: tuple[int, int]
    values: list[Value] = field(default_factory=list)

    def span(self, start: int, stop: int) -> list[Value]:
        """The values from one place to another."""
        return self.values[start - self.at[0] : stop - self.at[0]]


def _span(wanted: Read, env: Environment, count: int) -> tuple[int, int]:
    """Which values a request reads of a key."""
    try:
        read(wanted.request, wanted.reading, _Unknown(count), env)
    except _Asking as asking:
        start, stop = min(asking.start, count), min(asking.stop, count)
        return start, max(start, stop)
    return 0, 0


def _values(ranking: Ranking, asked: _Asked, spans: Sequence[tuple[int, int]]) -> list[list[Value]]:
    """The values at the ranks that are read of each key, each as often as it is there."""
    starts = np.array([start for start, _ in spans], np.int64)
    stops = np.array([stop for _, stop in spans], np.int64)
    found: list[list[Value]] = [[] for _ in spans]
    if not (stops > starts).any():
        return found
    places, rows = at(*asked, starts, stops)
    values = rows_of(rows.rest.columns, ranking.element, len(rows))
    for place, value, weight in zip(places.tolist(), values, rows.weights.tolist(), strict=True):
        found[place] += [value[1] if ranking.paired else value] * weight
    return found


def _merged(wanted: Merged, values: Sequence[Value], env: Environment) -> Value:
    """All values merged as a user says."""
    aggregation = env.world.script.aggregations[wanted.aggregation]
    monoid = user_monoid(aggregation, env)
    total = monoid.zero
    for value in values:
        if value is not None:
            unit = aggregation.unit
            one = value if unit is None else apply(unit, [value], env.outermost())
            total = monoid.merge(total, one)
    return total


def _walked(request: Request, step: Grouped, touched: Touched, desk: Desk) -> tuple[Any, Any]:
    """A request over all rows of a side, for each key."""
    keys = rows_of(touched.keys.columns, step.key, len(touched))
    old, new = bags_of(step, request.side, touched, desk)
    found = []
    for bags in (old, new):
        envs = [
            group_value(step, key, {request.side: bag}, desk.env)
            for key, bag in zip(keys, bags, strict=True)
        ]
        values = [evaluate(request.asked, env) for env in envs]
        found.append(column_of(values, request.variable.type))
    return found[0], found[1]
