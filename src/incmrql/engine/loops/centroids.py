"""Centroids that are diffused: new points go to the nearest, old ones are not assigned again.

Kept are the exact sums and counts of each centroid, under the key that it had when the loop was
run last, where it is now, and where it was then.  A batch costs its points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from incmrql.engine.columns.accumulators import Parts
from incmrql.engine.columns.layouts import Layout, leaves, rows_of
from incmrql.engine.columns.rows import Rows, concat_rows, of_values, to_values
from incmrql.engine.compile.physical import Means
from incmrql.engine.context import BatchContext, Overlay, overlay, sorted_rows_of
from incmrql.engine.loops.recompute.steps import Steps
from incmrql.engine.operators.groups import GroupOp
from incmrql.engine.store.content import SortedRows, aggregate_rows, empty
from incmrql.engine.store.sorting import Groups, TableSchema
from incmrql.engine.store.tables import scan
from incmrql.plan.changes import NegativeWeight
from incmrql.plan.diffusion.ways import StatedError
from incmrql.values import Value, encode


@dataclass(frozen=True, slots=True)
class Centre:
    """A centroid: its key, where it is, and where it was when the loop was run last."""

    key: Value
    row: Value
    home: Value


def centres_form(averaged: GroupOp, row: Layout) -> TableSchema:
    """The form of the table of places: key, row, home."""
    return TableSchema(averaged.schema.keys, (*leaves(row), *leaves(row)))


def is_fit(step: Any) -> bool:
    """Whether a step keeps nothing but sums of one side."""
    return (
        isinstance(step, GroupOp)
        and step.mode == "fold"
        and len(step.sides) == 1
        and not step.rankings
        and step.sides[0].table is None
        and step.table is not None
    )


def follow(
    means: Means,
    changes: Sequence[Rows],
    every: Sequence[Callable[[], Rows]],
    context: BatchContext,
) -> tuple[Rows, StatedError] | None:
    """The change of the result for points that come and go, and what is known of its error.

    None if the loop has to be run again.  `every` gives all rows of an input, for points that
    others like them were there before.
    """
    inside = overlay(context, {str(means.averaged.table): means.sums[0]})
    centres = _centres(means, context)
    if not centres:
        return None
    now = list(centres)
    found: list[Rows] = []
    try:
        for sign in (1, -1):
            given = _sums_of_points(means, centres, changes, sign, every, context)
            if given is None:
                return None
            for place, content in given:
                made = _add_points(means, now[place].key, content, inside)
                rows = [each for each, weight in _values(made, means.row) if weight > 0]
                if any(map(len, made)) and len(rows) != 1:
                    return None
                at = rows[0] if rows else now[place].row
                now[place] = Centre(now[place].key, at, now[place].home)
                found += made
    except NegativeWeight:
        return None
    if not all(map(_is_measured, [each.row for each in now])):
        return None
    _keep(means, centres, now, context)
    figures = [
        math.fsum(abs(a - b) for a, b in zip(_doubles(each.row), _doubles(each.home), strict=True))
        for each in now
    ]
    norm = math.fsum(abs(x) for each in now for x in _doubles(each.row))
    error = StatedError("residual", math.fsum(figures), norm)
    return concat_rows(found, leaves(means.row)), error


def reset(means: Means, inputs: Sequence[Rows], before: Rows, context: BatchContext) -> bool:
    """Begin from the loop's own result, with the points that the last step gives each centroid."""
    for name, schema in (means.sums, means.centres):
        context.truncate(name, schema)
    inside = overlay(context, {str(means.averaged.table): means.sums[0]})
    steps = Steps(means.inner, inputs, BatchContext({}, context.reader, context.env, is_first=True))
    assigned = steps.at(means.shape.assigned, [before])
    sums = means.averaged.gather([assigned], context.env)[0]
    keys = rows_of(sums.keys.columns, means.averaged.key, len(sums))
    centres = []
    for place, key in enumerate(keys):
        made = _add_points(means, key, sums.slice(place, place + 1), inside)
        rows = [row for row, _ in _values(made, means.row)]
        if len(rows) != 1 or not _is_measured(rows[0]):
            return False
        centres.append(Centre(key, rows[0], rows[0]))
    _keep(means, [], centres, context)
    return bool(centres)


# --- points ----------------------------------------------------------------------------------


def _sums_of_points(
    means: Means,
    centres: Sequence[Centre],
    changes: Sequence[Rows],
    sign: int,
    every: Sequence[Callable[[], Rows]],
    context: BatchContext,
) -> list[tuple[int, SortedRows]] | None:
    """What points that come or go bring to the sums of the centroids that are nearest now.

    Points that others like them were there before have no change of their own where points are
    told apart: then they are looked for among all.
    """
    shape = means.shape
    given = [_absolute(rows) for rows in changes]
    fed = changes[shape.fed]
    given[shape.fed] = _absolute(fed.take(fed.weights * sign > 0))
    if not len(given[shape.fed]):
        return []
    found = _sums_of_nearest(means, given, centres, sign, context)
    if found is None and shape.ranked != shape.fed:
        ranked = changes[shape.ranked]
        gone = _absolute(ranked.take(ranked.weights < 0))
        types = leaves(means.inner.layouts[means.inner.looping.inputs[shape.ranked]])
        given[shape.ranked] = concat_rows([every[shape.ranked](), gone], types)
        found = _sums_of_nearest(means, given, centres, sign, context)
    return found


def _sums_of_nearest(
    means: Means, given: Sequence[Rows], centres: Sequence[Centre], sign: int, context: BatchContext
) -> list[tuple[int, SortedRows]] | None:
    """What points bring to the sums, by the place of a centroid; None if some have none."""
    where = {encode(centre.row): place for place, centre in reversed(list(enumerate(centres)))}
    rows = of_values([(centre.row, 1) for centre in centres], means.row)
    steps = Steps(means.inner, given, BatchContext({}, context.reader, context.env, is_first=True))
    assigned = steps.at(means.shape.assigned, [rows])
    sums = means.averaged.gather([assigned], context.env)[0]
    keys = rows_of(sums.keys.columns, means.averaged.key, len(sums))
    found: list[tuple[int, SortedRows]] = []
    for at, key in enumerate(keys):
        place = _place(key, where)
        if place is None:
            return None
        one = sums.slice(at, at + 1)
        parts = {name: column * sign for name, column in one.parts.items()}
        found.append((place, _content_like(one, one.keys.columns, one.weights * sign, parts)))
    return found


def _place(key: Value, where: Mapping[bytes, int]) -> int | None:
    """The place of the centroid whose row is in the key of a group, maybe as its only part."""
    while encode(key) not in where:
        if not isinstance(key, tuple | list) or len(key) != 1:
            return None
        key = key[0]
    return where[encode(key)]


def _content_like(
    content: SortedRows, columns: Sequence[Any], weights: Any, parts: Parts
) -> SortedRows:
    def same(_groups: Groups) -> Parts:
        return parts

    return aggregate_rows(content.schema, columns, weights, same)


def _add_points(means: Means, key: Value, content: SortedRows, inside: Overlay) -> list[Rows]:
    """Add to the sums of a centroid; what that does to its row."""
    columns = of_values([(key, 1)], means.averaged.key).columns
    mine = _content_like(content, columns, content.weights, content.parts)
    others = [empty(schema) for schema in means.averaged.delta_schemas[1:]]
    pipeline = means.inner.step[0]
    made = list(means.averaged.meet([mine, *others], inside))
    return [rows if pipeline is None else pipeline.apply(rows, inside.env) for rows in made]


# --- places ----------------------------------------------------------------------------------


def _centres(means: Means, context: BatchContext) -> list[Centre]:
    name, schema = means.centres
    table = context.table(name, schema)
    found = []
    key, row = means.averaged.key, means.row
    width = len(leaves(row))
    for bucket in range(table.buckets):
        content = scan(table, context.reader, bucket)
        keys = rows_of(content.keys.columns, key, len(content))
        rows = rows_of(content.rest.columns[:width], row, len(content))
        homes = rows_of(content.rest.columns[width:], row, len(content))
        found += [Centre(*each) for each in zip(keys, rows, homes, strict=True)]
    return found


def _keep(
    means: Means, old: Sequence[Centre], new: Sequence[Centre], context: BatchContext
) -> None:
    name, schema = means.centres
    layouts = (("key", means.averaged.key), ("row", means.row), ("home", means.row))
    parts = []
    for centres, sign in ((old, -1), (new, 1)):
        columns = [
            of_values([(getattr(each, part), sign) for each in centres], layout)
            for part, layout in layouts
        ]
        if centres:
            weights = np.full(len(centres), sign, np.int64)
            parts.append(Rows(tuple(c for rows in columns for c in rows.columns), weights))
    context.add(name, sorted_rows_of(schema, concat_rows(parts, (*schema.keys, *schema.rest))))


def _absolute(rows: Rows) -> Rows:
    return Rows(rows.columns, np.abs(rows.weights))


def _values(chunks: Sequence[Rows], layout: Layout) -> list[tuple[Value, int]]:
    return [pair for rows in chunks for pair in to_values(rows, layout)]


def _is_measured(row: Value) -> bool:
    """Whether all parts of a row are there, and its doubles are finite."""
    return all(map(math.isfinite, _doubles(row)))


def _doubles(value: Value) -> Iterator[float]:
    """The doubles of a row, in order; what is null counts as one that is no number."""
    if value is None:
        yield math.nan
    elif isinstance(value, float):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _doubles(part)
    elif hasattr(value, "values_"):
        for part in value.values_:
            yield from _doubles(part)
