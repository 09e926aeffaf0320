"""Where a loop runs: inside one task, by the engine that streams run on, or as steps on Spark.

| loop of | begins | moves |
|---|---|---|
| a batch query | on Spark | into one task, where its inputs are small (`end_of_loop`) |
| a stream | in the task of a batch | out to Spark, where its inputs are large (`Offload`) |

A step that is a job of Spark's takes a tenth of a second and more, however few rows it has.  So
the rows of small inputs all go to one task, which runs the loop and answers with the rows that it
ends with; none of them comes to the driver.  A loop that outgrows the task goes on as steps on
Spark, from its beginning.

A loop of a stream that is too large leaves its inputs in a folder (`engine.loops.offload`).  Tasks
read them bucket by bucket with what is kept of each, Spark runs the steps of a loop over all data,
and tasks compare what it ends with to what is kept of the answer, bucket by bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any as Arrow
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from incmrql.algebra.term import Loop, Query, Repeat
from incmrql.engine.batch import CompiledProgram, batch_context
from incmrql.engine.columns.layouts import (
    Layout,
    Leaf,
    Struct,
    column_of,
    column_type,
    leaves,
    values_of,
)
from incmrql.engine.columns.rows import Rows
from incmrql.engine.compile.program import compile_single_task_loop
from incmrql.engine.context import BatchContext, content_of
from incmrql.engine.loops.offload import (
    ChangeFiles,
    OffloadResult,
    read_input_change,
    rows_from_bytes,
    rows_to_bytes,
    write_change,
)
from incmrql.engine.loops.operator import LoopOp, input_rows, replacement
from incmrql.engine.loops.recompute.steps import TooManyRows, recompute_loop
from incmrql.engine.messages import BatchRequest
from incmrql.engine.store.content import SortedRows
from incmrql.engine.store.segments import Opened
from incmrql.engine.store.tables import Reader, by_bucket, scan
from incmrql.errors import DataError
from incmrql.io.arrow.columns import flat
from incmrql.lower import shapes, tree
from incmrql.lower.context import Context
from incmrql.lower.relations.statements import statement
from incmrql.lower.shapes import Cell, Parts, Shape, split
from incmrql.lower.tree import Dialect
from incmrql.plan.nodes import Repeated
from incmrql.reference import Environment, new_world
from incmrql.reference.environment import World
from incmrql.spark.batch.functions import DEEPEST, carried_errors
from incmrql.spark.clusters import Carried
from incmrql.spark.internals import blocks_size, estimated_size, free_blocks
from incmrql.spark.loops.parts import SplitLoop, split_loop
from incmrql.spark.loops.steps import Held, Runner, Views, canonical_text, run_loop, temporary_view
from incmrql.spark.packing import Packed, SentProgram, packed, read_compiled
from incmrql.spark.probe import require_checkpoint
from incmrql.spark.session import private
from incmrql.spark.values import BATCH, value_type
from incmrql.syntax.depth import room
from incmrql.types import typed
from incmrql.types.model import UNIT, Type
from incmrql.values import Value

MOST_BYTES = 32 << 20
"""Bytes of the inputs of a loop of a batch query up to which one task runs it."""
MOST_READ = 4 << 20
"""Bytes of inputs up to which that task reads the sources itself."""
MOST_ROWS = 1 << 22
"""Rows that anything in a step may have there."""
LOOP_ROWS: Final = 1 << 24
"""Rows of the inputs of a stream's loop, and in each of its steps, up to which one task runs it."""
BY_ROW = 64
"""How many times less all of that is where the evaluator goes through rows one by one."""
CROSSED = 4
"""How many times fewer bytes where all rows of an input meet all rows of a variable."""
_CROSSED_ROWS: Final = 2
"""How many times fewer rows of a stream there: such a pair takes about 300 bytes.  Steps on Spark
take many times as long."""
_SLACK: Final = 2
"""How many times more bytes may come than were expected."""
_UNKNOWN: Final = range(1 << 50, 1 << 70)
"""The bytes that Spark takes rows for of which it knows nothing."""
_NUMBER: Final = "number"


def most_rows(compiled: CompiledProgram, rows: int = LOOP_ROWS) -> dict[str, int]:
    """Rows up to which a task runs each loop of a program, by the names of their results."""
    loops = [step for step in compiled.physical.steps if isinstance(step, LoopOp)]
    return {loop.result: rows // _row_cost(loop, _CROSSED_ROWS) for loop in loops}


def _row_cost(loop: LoopOp, crossed: int = 1) -> int:
    """How many times as much as others the rows of a loop cost in a task."""
    if loop.is_by_row:
        return BY_ROW
    return crossed if loop.is_cross else 1


@dataclass(frozen=True, slots=True)
class _Input:
    """Rows that a loop does not change, and what a row is in the columns of their frame."""

    frame: DataFrame
    row: Shape


@dataclass(frozen=True, slots=True)
class _Work:
    """What the task needs to know."""

    loop: LoopOp
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
        return run_loop(loop, runner, views)
    runner.kept.append(found.blocks)
    return found


def _in_task(loop: Repeat, runner: Runner, views: Views) -> Held | None:
    """The same by one task; None if it is too much for that, or would not be the same."""
    ctx = runner.context()
    parts = split_loop(loop, runner.shared, ctx.script)
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
    made = compile_single_task_loop(
        Repeated(tuple(range(len(inputs))), variables, parts.loop),
        [_layout(each.row) for each in inputs],
        ctx.script,
        ctx.arguments,
        tuple(ctx.stored.items()),
        limit,
    )
    share = _row_cost(made, CROSSED)
    if size > MOST_BYTES // share:
        return None
    together, columns = _in_one_frame(inputs, runner)
    one = together.coalesce(1) if size <= MOST_READ else together.repartition(1)
    bounds = _SLACK * MOST_BYTES // share, MOST_ROWS // _row_cost(made)
    stored = dict(ctx.stored)
    work = _Work(made, columns, ctx.script, tuple(ctx.arguments), stored, runner.max_steps, *bounds)
    return _run(one, work, runner)


def _run(frame: DataFrame, work: _Work, runner: Runner) -> Held | None:
    """Run the task now; None if it gave up."""
    layout = work.loop.layout
    calls = [function.call for function in work.script.python.values()]
    gave_up = runner.spark.sparkContext.accumulator(0)
    task = partial(_run_loop_in_task, packed(work, calls), gave_up)
    held = _keep_rows(frame.mapInArrow(task, schema_of(layout)), layout)
    return None if gave_up.value else held


def _keep_rows(frame: DataFrame, layout: Layout) -> Held:
    """Rows of the engine that tasks make, kept as blocks."""
    rows = frame.localCheckpoint(eager=True)
    shape = shape_of(layout, iter(names_of(leaves(layout))))
    return Held(rows, shape, rows, blocks_size(rows))


# --- inputs of a task -------------------------------------------------------------------------


def _known_size(parts: SplitLoop, runner: Runner, views: Views) -> int | None:
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
    """The columns of a row in the engine."""
    if isinstance(row, Parts):
        return Struct(tuple(map(_layout, row.parts)), row.type)
    return Leaf(row.type)


def _in_one_frame(
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
            text = canonical_text(found[slot], ctx) if slot in found else "NULL"
            texts.append(f"CAST({text} AS {type_}) AS s{slot}")
        frames.append(each.frame.selectExpr(*texts))
    if not frames:
        frames = [runner.spark.range(0, 1, 1, 1).select(sql.lit(-1).alias(_NUMBER))]
    places = tuple(tuple(slot + 1 for slot in found) for found in columns)
    return reduce(DataFrame.unionAll, frames), places


# --- inside the task ---------------------------------------------------------------------


def _run_loop_in_task(
    sent: Packed, gave_up: Accumulator[int], batches: Iterable[Arrow]
) -> Iterator[Arrow]:
    """The rows that a loop ends with, from those of its inputs; none if they are too many."""
    work = sent.unpacked()
    assert isinstance(work, _Work)
    inputs = _receive_inputs(work, batches)
    if inputs is None:
        gave_up.add(1)
        return
    world = new_world(
        work.script,
        arguments=list(work.arguments),
        stored=work.stored,
        max_steps=work.max_steps,
    )
    context = BatchContext({}, Reader(Path(), Opened()), Environment(world), is_first=True)
    try:
        with room(DEEPEST), carried_errors():
            rows, _ = recompute_loop(work.loop, inputs, context, work.most_rows)
    except TooManyRows:
        gave_up.add(1)
        return
    yield from spark_batches(rows, work.loop.layout)


def _receive_inputs(work: _Work, batches: Iterable[Arrow]) -> list[Rows] | None:
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
        _kernel_rows(chunks, columns, leaves(layout))
        for chunks, columns, layout in zip(found, work.columns, work.loop.layouts, strict=True)
    ]


def _kernel_rows(chunks: list[Arrow], columns: tuple[int, ...], types: tuple[Type, ...]) -> Rows:
    count = sum(len(chunk) for chunk in chunks)
    made = []
    for place, type_ in zip(columns, types, strict=True):
        parts = [chunk.column(place) for chunk in chunks]
        empty = pa.chunked_array(parts, value_type(type_)) if not parts else pa.chunked_array(parts)
        made.append(kernel_column(flat(empty), type_))
    return Rows(tuple(made), np.ones(count, np.int64))


# --- out of the task --------------------------------------------------------------------------


WithRunner: TypeAlias = Callable[
    [SparkSession, World, Query, Callable[[Runner], OffloadResult]], OffloadResult
]
"""Calls a function with a runner of loops: `with_runner` of `batch.queries`, which imports us."""
_SENT: Final = pa.schema([("bucket", pa.int32()), ("data", pa.large_binary())])


@dataclass(frozen=True, slots=True)
class Offload:
    """A loop of a batch that is too large for a task, and what the batch changes in its inputs."""

    spark: SparkSession
    compiled: CompiledProgram
    sent: SentProgram
    request: BatchRequest
    loop: LoopOp
    inputs: ChangeFiles
    with_runner: WithRunner

    def run(self) -> OffloadResult:
        """Run the loop from its beginning; the files of what that changes in its answer."""
        spark, node = private(self.spark), self.loop.node
        nothing = typed.Const((), type=UNIT)
        query = Query(tuple((each, Loop(each)) for each in node.variables), nothing)
        inputs = [self._input(spark, number) for number in range(len(node.variables))]
        try:
            run = partial(self._run_steps, inputs=inputs)
            return self.with_runner(spark, self.compiled.env().world, query, run)
        finally:
            for each in inputs:
                free_blocks(each.blocks)

    def _run_steps(self, runner: Runner, inputs: list[Held]) -> OffloadResult:
        loop = self.loop
        runner.limit = lambda _: loop.limit
        views = {
            variable.number: temporary_view(f"input_{variable.number}", each)
            for variable, each in zip(loop.node.variables, inputs, strict=True)
        }
        held = run_loop(loop.node.term, runner, views)
        return OffloadResult(loop.result, tuple(self._answer(runner, held)), runner.steps)

    def _input(self, spark: SparkSession, number: int) -> Held:
        """All rows of an input."""
        buckets, layout = self.request.buckets, self.loop.layouts[number]
        request, name = self.request.as_json(), self.loop.result
        task = partial(_read_input, self.sent, request, name, number, self.inputs)
        return _keep_rows(
            spark.range(0, buckets, 1, buckets).mapInArrow(task, schema_of(layout)), layout
        )

    def _answer(self, runner: Runner, held: Held) -> list[str]:
        """Compare what was found with what is kept; the files of the difference."""
        ctx = runner.context()
        columns = [
            f"CAST({canonical_text(cell, ctx)} AS {tree.type_text(cell.type, Dialect.SPARK)})"
            f" AS c{place}"
            for place, cell in enumerate(_cells(held.row, self.loop.layout, ctx))
        ]
        rows = held.frame.selectExpr(*columns or ["true AS c0"])
        request, name = self.request.as_json(), self.loop.result
        cut = rows.mapInArrow(partial(_cut_by_bucket, self.sent, name, self.request.buckets), _TEXT)
        every = runner.spark.range(0, self.request.buckets).selectExpr(
            "CAST(id AS int) AS bucket", "CAST(NULL AS binary) AS data"
        )
        met = cut.unionAll(every).repartition(self.request.buckets, "bucket")
        task = partial(_compare, self.sent, request, name)
        return [row[0] for row in met.mapInArrow(task, "file string").collect()]


_TEXT: Final = "bucket int, data binary"


def _cells(row: Shape, layout: Layout, ctx: Context) -> Iterator[Cell]:
    """The columns of a row that the engine has for it."""
    if isinstance(layout, Struct):
        for part, each in zip(split(row).parts, layout.parts, strict=True):
            yield from _cells(part, each, ctx)
    else:
        yield Cell(ctx.whole(row), layout.type)


# --- inside the tasks of an offloaded loop ---------------------------------------------------


def _open(
    sent: SentProgram, request_json: dict[str, Arrow], name: str
) -> tuple[CompiledProgram, BatchRequest, LoopOp]:
    if sent.probe is not None:
        try:
            require_checkpoint(sent.probe)
        except DataError as problem:
            raise Carried(problem) from None
    compiled = read_compiled(sent)
    request = BatchRequest.of_json(request_json, compiled.physical.schemas)
    return compiled, request, loop_named(compiled, name)


def loop_named(compiled: CompiledProgram, name: str) -> LoopOp:
    """The loop whose result has a name."""
    return next(s for s in compiled.physical.steps if isinstance(s, LoopOp) and s.result == name)


def _bucket_numbers(batches: Iterable[Arrow]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _read_input(
    sent: SentProgram,
    request_json: dict[str, Arrow],
    name: str,
    number: int,
    inputs: ChangeFiles,
    batches: Iterable[Arrow],
) -> Iterator[Arrow]:
    """All rows of an input in some buckets."""
    compiled, request, loop = _open(sent, request_json, name)
    table, schema = request.tables[loop.tables[number]], loop.schemas[number]
    reader = batch_context(compiled, request, request.tables).reader
    for bucket in _bucket_numbers(batches):
        change = read_input_change(request.offloading.directory, inputs, number, bucket, schema)
        whole = input_rows([scan(table, reader, bucket), change])
        yield from spark_batches(whole, loop.layouts[number])


def _cut_by_bucket(
    sent: SentProgram, name: str, buckets: int, batches: Iterable[Arrow]
) -> Iterator[Arrow]:
    """Rows of an answer, cut by bucket."""
    loop = loop_named(read_compiled(sent), name)
    types = leaves(loop.layout)
    for batch in batches:
        columns = tuple(map(kernel_column, batch.columns, types))
        rows = Rows(columns, np.ones(batch.num_rows, np.int64))
        for bucket, part in by_bucket(content_of(loop.schema, rows), buckets):
            yield pa.record_batch([[bucket], [rows_to_bytes(part)]], schema=_SENT)


def _compare(
    sent: SentProgram, request_json: dict[str, Arrow], name: str, batches: Iterable[Arrow]
) -> Iterator[Arrow]:
    """What was found against what is kept, bucket by bucket."""
    compiled, request, loop = _open(sent, request_json, name)
    reader = batch_context(compiled, request, request.tables).reader
    found: dict[int, list[SortedRows]] = {}
    for batch in batches:
        for bucket, data in zip(*[column.to_pylist() for column in batch.columns], strict=True):
            parts = found.setdefault(bucket, [])
            if data is not None:
                parts.append(rows_from_bytes(data, loop.schema))
    for bucket in sorted(found):
        old = scan(request.tables[name], reader, bucket)
        change = replacement(loop.schema, found.pop(bucket), [old])
        if len(change):
            yield pa.record_batch([[write_change(request.offloading.directory, change)]], ["file"])


# --- rows of Spark as rows of the engine, and back --------------------------------------------


def kernel_column(column: Arrow, type_: Type) -> Arrow:
    """A column of Spark as one of the engine."""
    wanted = column_type(type_)
    if column.type == wanted:
        return column
    if value_type(type_) == wanted:
        return column.cast(wanted)
    return column_of(values_of(column, type_), type_)


def _spark_column(column: Arrow, type_: Type) -> Arrow:
    wanted = value_type(type_)
    if column.type == wanted:
        return column
    if column_type(type_) == wanted:
        return column.cast(wanted)
    return pa.array(column.to_pylist(), wanted)


def spark_batches(rows: Rows, layout: Layout) -> Iterator[Arrow]:
    """Rows of the engine as batches for Spark, each as often as its weight says."""
    if (rows.weights != 1).any():
        times = np.repeat(np.arange(len(rows)), rows.weights)
        rows = rows.take(times)
    types = leaves(layout)
    columns = [_spark_column(c, t) for c, t in zip(rows.columns, types, strict=True)]
    columns = columns or [pa.repeat(True, len(rows))]
    table = pa.table(columns, names=names_of(types))
    yield from table.to_batches(BATCH)


def names_of(types: Sequence[Type]) -> list[str]:
    """The names of the columns that hold values of some types."""
    return [f"c{place}" for place in range(1, len(types) + 1)] or ["c0"]


def schema_of(layout: Layout) -> str:
    """The schema of rows in a layout, as a text for Spark."""
    types = leaves(layout)
    texts = [tree.type_text(type_, Dialect.SPARK) for type_ in types] or ["BOOLEAN"]
    return ", ".join(f"{name} {text}" for name, text in zip(names_of(types), texts, strict=True))


def shape_of(layout: Layout, names: Iterator[str]) -> Shape:
    """What a row is in these columns."""
    if isinstance(layout, Struct):
        return Parts(tuple(shape_of(part, names) for part in layout.parts), layout.type)
    return Cell(tree.column(next(names)), layout.type)
