"""Diffusion of centroids: new points go to the nearest centroid, old ones are not assigned again.

The state has the exact sums and counts of each centroid, under the key that it had when the loop
was recomputed last, its current position, and its position then.  A batch costs its points.
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
from incmrql.engine.store.sorting import RowGroups, TableSchema
from incmrql.engine.store.tables import scan
from incmrql.plan.changes import NegativeWeight
from incmrql.plan.diffusion.ways import StatedError
from incmrql.values import Value, encode


@dataclass(frozen=True, slots=True)
class Centre:
    """A centroid: its key, its current row, and its row when the loop was recomputed last."""

    key: Value
    row: Value
    home: Value


def centres_schema(averaged: GroupOp, row: Layout) -> TableSchema:
    """The schema of the table of centroids: key, row, home."""
    return TableSchema(averaged.schema.keys, (*leaves(row), *leaves(row)))


def is_fit(step: Any) -> bool:
    """Whether an operator keeps nothing but sums of one side."""
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
    """The delta of the result for inserted and deleted points, and the residual as its error.

    None if the loop has to be recomputed.  `every` returns all rows of an input; they are read for
    points that existed before with the same values.
    """
    inside = overlay(context, {str(means.averaged.table): means.sums[0]})
    centres = _centres(means, context)
    if not centres:
        return None
    now = list(centres)
    changed: list[Rows] = []
    try:
        for sign in (1, -1):
            sums = _sums_of_points(means, centres, changes, sign, every, context)
            if sums is None:
                return None
            for index, content in sums:
                delta = _add_points(means, now[index].key, content, inside)
                rows = [row for row, weight in _values(delta, means.row) if weight > 0]
                if any(map(len, delta)) and len(rows) != 1:
                    return None
                row = rows[0] if rows else now[index].row
                now[index] = Centre(now[index].key, row, now[index].home)
                changed += delta
    except NegativeWeight:
        return None
    if not all(map(_is_finite, [centre.row for centre in now])):
        return None
    _keep(means, centres, now, context)
    moved = [
        math.fsum(abs(a - b) for a, b in zip(_doubles(c.row), _doubles(c.home), strict=True))
        for c in now
    ]
    norm = math.fsum(abs(x) for centre in now for x in _doubles(centre.row))
    error = StatedError("residual", math.fsum(moved), norm)
    return concat_rows(changed, leaves(means.row)), error


def reset(means: Means, inputs: Sequence[Rows], before: Rows, context: BatchContext) -> bool:
    """Start from a recomputed result, with the points that its last step assigns to centroids."""
    for name, schema in (means.sums, means.centres):
        context.truncate(name, schema)
    inside = overlay(context, {str(means.averaged.table): means.sums[0]})
    steps = Steps(means.inner, inputs, BatchContext({}, context.reader, context.env, is_first=True))
    assigned = steps.at(means.shape.assigned, [before])
    sums = means.averaged.gather([assigned], context.env)[0]
    keys = rows_of(sums.keys.columns, means.averaged.key, len(sums))
    centres = []
    for index, key in enumerate(keys):
        delta = _add_points(means, key, sums.slice(index, index + 1), inside)
        rows = [row for row, _ in _values(delta, means.row)]
        if len(rows) != 1 or not _is_finite(rows[0]):
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
    """The changes of the sums of the nearest centroids, for inserted (1) or deleted (-1) points."""
    shape = means.shape
    inputs = [_absolute(rows) for rows in changes]
    fed = changes[shape.fed]
    inputs[shape.fed] = _absolute(fed.take(fed.weights * sign > 0))
    if not len(inputs[shape.fed]):
        return []
    sums = _sums_of_nearest(means, inputs, centres, sign, context)
    # Where distances are ranked over distinct points, a copy of an existing point does not change
    # that input, so its delta has no row to rank: rank it among all points instead.
    if sums is None and shape.ranked != shape.fed:
        ranked = changes[shape.ranked]
        deleted = _absolute(ranked.take(ranked.weights < 0))
        types = leaves(means.inner.layouts[means.inner.looping.inputs[shape.ranked]])
        inputs[shape.ranked] = concat_rows([every[shape.ranked](), deleted], types)
        sums = _sums_of_nearest(means, inputs, centres, sign, context)
    return sums


def _sums_of_nearest(
    means: Means,
    inputs: Sequence[Rows],
    centres: Sequence[Centre],
    sign: int,
    context: BatchContext,
) -> list[tuple[int, SortedRows]] | None:
    """The changes of the sums by index of the centroid; None if a point has no nearest one."""
    # Of centroids at one position the first one gets the points, as in the loop itself.
    index_of = {encode(centre.row): index for index, centre in reversed(list(enumerate(centres)))}
    rows = of_values([(centre.row, 1) for centre in centres], means.row)
    steps = Steps(means.inner, inputs, BatchContext({}, context.reader, context.env, is_first=True))
    assigned = steps.at(means.shape.assigned, [rows])
    sums = means.averaged.gather([assigned], context.env)[0]
    keys = rows_of(sums.keys.columns, means.averaged.key, len(sums))
    changes: list[tuple[int, SortedRows]] = []
    for number, key in enumerate(keys):
        index = _index_of_row(key, index_of)
        if index is None:
            return None
        one = sums.slice(number, number + 1)
        parts = {name: column * sign for name, column in one.parts.items()}
        changes.append((index, _with_sums(one, one.keys.columns, one.weights * sign, parts)))
    return changes


def _index_of_row(key: Value, index_of: Mapping[bytes, int]) -> int | None:
    """The index of the centroid whose row is the key of a group, or the only part of the key."""
    while encode(key) not in index_of:
        if not isinstance(key, tuple | list) or len(key) != 1:
            return None
        key = key[0]
    return index_of[encode(key)]


def _with_sums(
    content: SortedRows, columns: Sequence[Any], weights: Any, parts: Parts
) -> SortedRows:
    """Sorted rows like others, with these columns, weights and accumulators."""

    def same(_groups: RowGroups) -> Parts:
        return parts

    return aggregate_rows(content.schema, columns, weights, same)


def _add_points(means: Means, key: Value, content: SortedRows, inside: Overlay) -> list[Rows]:
    """Add to the sums of a centroid; returns the delta of its row."""
    columns = of_values([(key, 1)], means.averaged.key).columns
    own = _with_sums(content, columns, content.weights, content.parts)
    others = [empty(schema) for schema in means.averaged.delta_schemas[1:]]
    pipeline = means.inner.step[0]
    delta = means.averaged.meet([own, *others], inside)
    return [rows if pipeline is None else pipeline.apply(rows, inside.env) for rows in delta]


# --- positions -------------------------------------------------------------------------------


def _centres(means: Means, context: BatchContext) -> list[Centre]:
    """The centroids that the state has."""
    name, schema = means.centres
    table = context.table(name, schema)
    centres = []
    key, row = means.averaged.key, means.row
    width = len(leaves(row))
    for bucket in range(table.buckets):
        content = scan(table, context.reader, bucket)
        keys = rows_of(content.keys.columns, key, len(content))
        rows = rows_of(content.rest.columns[:width], row, len(content))
        homes = rows_of(content.rest.columns[width:], row, len(content))
        centres += [Centre(*fields) for fields in zip(keys, rows, homes, strict=True)]
    return centres


def _keep(
    means: Means, old: Sequence[Centre], new: Sequence[Centre], context: BatchContext
) -> None:
    """Replace centroids in the state."""
    name, schema = means.centres
    layouts = (("key", means.averaged.key), ("row", means.row), ("home", means.row))
    parts = []
    for centres, sign in ((old, -1), (new, 1)):
        columns = [
            of_values([(getattr(centre, part), sign) for centre in centres], layout)
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


def _is_finite(row: Value) -> bool:
    """Whether no part of a row is null, and all of its doubles are finite."""
    return all(map(math.isfinite, _doubles(row)))


def _doubles(value: Value) -> Iterator[float]:
    """The doubles of a row, in order; a null counts as NaN."""
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
