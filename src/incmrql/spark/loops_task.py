"""Small loops on Spark: all steps inside one task, by the kernel that streams run on.

A step that is a job of Spark's takes a tenth of a second and more, however few rows it has.  So
the rows of small inputs all go to one task, which runs the loop and answers with the rows that it
ends with; none of them comes to the driver.  A loop that outgrows the task goes on as steps on
Spark, from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any as Arrow
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from incmrql.algebra.term import Repeat
from incmrql.incremental.nodes import Repeated
from incmrql.kernel.columns import flat
from incmrql.kernel.compile_alone import compiled_alone
from incmrql.kernel.desk import Desk
from incmrql.kernel.layouts import Layout, Leaf, Struct, leaves
from incmrql.kernel.physical import Looped
from incmrql.kernel.recompute import TooManyRows, has_cross_join, has_row_by_row, recomputed
from incmrql.kernel.rows import Rows
from incmrql.kernel.runs import Opened
from incmrql.kernel.table import Reader
from incmrql.reference import Environment, new_world
from incmrql.spark.functions import DEEPEST
from incmrql.spark.functions import _carrying as carrying
from incmrql.spark.internals import blocks_size, estimated_size
from incmrql.spark.loops import Held, Runner, Views, run_loop
from incmrql.spark.loops_columns import names_of, of_spark, schema_of, sent_rows, shape_of
from incmrql.spark.loops_parts import Parted, parted
from incmrql.spark.packing import Packed, packed
from incmrql.spark.values import value_type
from incmrql.sql import arrays, shapes, tree
from incmrql.sql.shapes import Cell, Parts, Shape
from incmrql.sql.statements import statement
from incmrql.sql.tree import Dialect
from incmrql.syntax.depth import room
from incmrql.types import typed
from incmrql.types.model import Type
from incmrql.values import Value

MOST_BYTES = 32 << 20
"""Bytes of the inputs of a loop up to which one task runs it."""
MOST_READ = 4 << 20
"""Bytes of inputs up to which that task reads the sources itself."""
MOST_ROWS = 1 << 22
"""Rows that anything in a step may have there."""
BY_ROW = 64
"""How many times less that is where the evaluator goes through rows one by one."""
CROSSED = 4
"""How many times less it is where all rows of an input meet all rows of a variable."""
_SLACK: Final = 2
"""How many times more bytes may come than were expected."""
_UNKNOWN: Final = range(1 << 50, 1 << 70)
"""The bytes that Spark takes rows for of which it knows nothing."""
_NUMBER: Final = "number"


@dataclass(frozen=True, slots=True)
class _Input:
    """Rows that a loop does not change, and what a row is in the columns of their frame."""

    frame: DataFrame
    row: Shape


@dataclass(frozen=True, slots=True)
class _Work:
    """What the task needs to know."""

    loop: Looped
    columns: tuple[tuple[int, ...], ...]
    """Where it finds the columns of each input."""
    script: typed.Script
    arguments: tuple[str, ...]
    stored: dict[str, Value]
    max_steps: int
    most_bytes: int
    most_rows: int


def end_of_loop(loop: Repeat, runner: Runner, views: Views) -> Held:
    """What the chosen variable of a loop holds at its end."""
    found = _in_task(loop, runner, views)
    if found is None:
        held = run_loop(loop, runner, views)
        runner.kept += [each.blocks for each in held]
        return held[loop.chosen]
    runner.kept.append(found.blocks)
    return found


def _in_task(loop: Repeat, runner: Runner, views: Views) -> Held | None:
    """The same by one task; None if it is too much for that, or would not be the same."""
    ctx = runner.context()
    parts = parted(loop, runner.shared, ctx.script)
    if parts is None:
        return None
    known = _known_size(parts, runner, views)
    if known is not None and known > MOST_BYTES:
        return None
    inputs = [_input(term, runner, views) for _, term in parts.inputs]
    size = sum(_guessed_size(each.frame) for each in inputs) if known is None else known
    if size > MOST_BYTES:
        return None
    limit = None if loop.limit is None else runner.limit(loop.limit) or 0
    variables = tuple(variable for variable, _ in parts.inputs)
    made = compiled_alone(
        Repeated(tuple(range(len(inputs))), variables, parts.loop),
        [_layout(each.row) for each in inputs],
        ctx.script,
        ctx.arguments,
        tuple(ctx.stored.items()),
        limit,
    )
    by_row = has_row_by_row(made.plain)
    share = BY_ROW if by_row else CROSSED if has_cross_join(made.plain) else 1
    if size > MOST_BYTES // share:
        return None
    together, columns = _together(inputs, runner)
    one = together.coalesce(1) if size <= MOST_READ else together.repartition(1)
    bounds = _SLACK * MOST_BYTES // share, MOST_ROWS // BY_ROW if by_row else MOST_ROWS
    stored = dict(ctx.stored)
    work = _Work(made, columns, ctx.script, tuple(ctx.arguments), stored, runner.max_steps, *bounds)
    return _run(one, work, runner)


def _run(frame: DataFrame, work: _Work, runner: Runner) -> Held | None:
    """Run the task now; None if it gave up."""
    layout = work.loop.layout
    types = leaves(layout)
    calls = [function.call for function in work.script.python.values()]
    gave_up = runner.spark.sparkContext.accumulator(0)
    task = partial(_looped, packed(work, calls), gave_up)
    made = frame.mapInArrow(task, schema_of(types))
    rows = made.localCheckpoint(eager=True)
    if gave_up.value:
        return None
    names = iter(names_of(types))
    return Held(rows, shape_of(layout, names), rows, blocks_size(rows))


# --- inputs ------------------------------------------------------------------------------


def _known_size(parts: Parted, runner: Runner, views: Views) -> int | None:
    """How many bytes the inputs have about, if that is known of all that they read."""
    size_of_scan = runner.context().size_of
    sizes = [
        *[size_of_scan(scan) for scan in parts.scans],
        *[views[variable.number].size for variable in parts.outer],
    ]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) and sum(known) <= MOST_BYTES:
        return None
    return sum(known)


def _guessed_size(frame: DataFrame) -> int:
    """How many bytes Spark takes the rows of a frame for.

    Where it cannot know, the task sees how many come, and gives up if they are too many.
    """
    size = estimated_size(frame)
    return 0 if size is None or size in _UNKNOWN else size


def _input(term: Arrow, runner: Runner, views: Views) -> _Input:
    made = statement(term, runner.context(), runner.shared, views, "flat")
    return _Input(runner.frame(made, views), made.row)


def _layout(row: Shape) -> Layout:
    """The columns of a row in the kernel."""
    if isinstance(row, Parts):
        return Struct(tuple(map(_layout, row.parts)), row.type)
    return Leaf(row.type)


def _together(
    inputs: Sequence[_Input], runner: Runner
) -> tuple[DataFrame, tuple[tuple[int, ...], ...]]:
    """The rows of all inputs in one frame, and in which columns those of each are.

    Inputs share columns of the same type; the first column has the number of the input.
    """
    ctx = runner.context()
    slots: dict[tuple[str, int], int] = {}
    columns: list[dict[int, Cell]] = []
    for each in inputs:
        found: dict[int, Cell] = {}
        used: dict[str, int] = {}
        for cell in shapes.leaves(each.row):
            type_ = tree.type_text(cell.type, Dialect.SPARK)
            used[type_] = used.get(type_, 0) + 1
            found[slots.setdefault((type_, used[type_]), len(slots))] = cell
        columns.append(found)
    frames = []
    for number, (each, found) in enumerate(zip(inputs, columns, strict=True)):
        texts = [f"{number} AS {_NUMBER}"]
        for (type_, _), slot in slots.items():
            text = "NULL"
            if slot in found:
                made = arrays.canonical(found[slot].tree, found[slot].type, ctx)
                text = tree.print_tree(made, Dialect.SPARK)
            texts.append(f"CAST({text} AS {type_}) AS s{slot}")
        frames.append(each.frame.selectExpr(*texts))
    if not frames:
        frames = [runner.spark.range(0, 1, 1, 1).select(sql.lit(-1).alias(_NUMBER))]
    places = tuple(tuple(slot + 1 for slot in found) for found in columns)
    return reduce(DataFrame.unionAll, frames), places


# --- inside the task ---------------------------------------------------------------------


def _looped(sent: Packed, gave_up: Accumulator[int], batches: Iterable[Arrow]) -> Iterator[Arrow]:
    """The rows that a loop ends with, from those of its inputs; none if they are too many."""
    work = sent.unpacked()
    assert isinstance(work, _Work)
    inputs = _received(work, batches)
    if inputs is None:
        gave_up.add(1)
        return
    world = new_world(
        work.script,
        arguments=list(work.arguments),
        stored=work.stored,
        max_steps=work.max_steps,
    )
    desk = Desk({}, Reader(Path(), Opened()), Environment(world), is_first=True)
    try:
        with room(DEEPEST), carrying():
            rows, _ = recomputed(work.loop, inputs, desk, work.most_rows)
    except TooManyRows:
        gave_up.add(1)
        return
    yield from sent_rows(rows, leaves(work.loop.layout))


def _received(work: _Work, batches: Iterable[Arrow]) -> list[Rows] | None:
    """The rows of each input; None if they are too large."""
    found: list[list[Arrow]] = [[] for _ in work.columns]
    size = 0
    for batch in batches:
        size += batch.nbytes
        if size > work.most_bytes:
            return None
        numbers = batch.column(0).to_numpy(zero_copy_only=False)
        for number in np.unique(numbers[numbers >= 0]).tolist():
            places = np.flatnonzero(numbers == number)
            picked = batch if len(places) == len(numbers) else batch.take(pa.array(places))
            found[number].append(picked)
    return [
        _rows(chunks, columns, leaves(layout))
        for chunks, columns, layout in zip(found, work.columns, work.loop.layouts, strict=True)
    ]


def _rows(chunks: list[Arrow], columns: tuple[int, ...], types: tuple[Type, ...]) -> Rows:
    count = sum(len(chunk) for chunk in chunks)
    made = []
    for place, type_ in zip(columns, types, strict=True):
        parts = [chunk.column(place) for chunk in chunks]
        empty = pa.chunked_array(parts, value_type(type_)) if not parts else pa.chunked_array(parts)
        made.append(of_spark(flat(empty), type_))
    return Rows(tuple(made), np.ones(count, np.int64))
