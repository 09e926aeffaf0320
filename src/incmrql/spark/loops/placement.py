"""Decides where a loop runs: in one task, on the engine of streams, or as steps on Spark.

| loop of | begins | moves |
|---|---|---|
| a batch query | on Spark | into one task, where its inputs are small (`end_of_loop`) |
| a stream | in the task of a batch | out to Spark, where its inputs are large (`Offload`) |

A step that is a Spark job takes a tenth of a second or more, however few rows it has.  So the rows
of small inputs all go to one task, which runs the loop and returns its final rows; none of them
reach the driver.  A loop that outgrows the task is restarted as steps on Spark.

A loop of a stream that is too large leaves its input changes in a directory
(`engine.loops.offload`).  Tasks combine them with the state of each input, bucket by bucket; Spark
runs the steps of a loop over all data; tasks compare its result with the stored answer, again
bucket by bucket, and write the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
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
from incmrql.engine.context import BatchContext, sorted_rows_of
from incmrql.engine.jobs import LOOP_ROWS
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
from incmrql.engine.store.segments import OpenSegments
from incmrql.engine.store.tables import Reader, by_bucket, scan
from incmrql.errors import DataError
from incmrql.io.arrow.columns import flat
from incmrql.lower import shapes, tree
from incmrql.lower.context import Context
from incmrql.lower.relations.statements import statement
from incmrql.lower.shapes import Cell, Parts, Shape, split
from incmrql.lower.tree import Dialect
from incmrql.reference import Environment, new_world
from incmrql.reference.environment import World
from incmrql.spark.batch.functions import DEEPEST, encode_errors
from incmrql.spark.clusters import EncodedDataError
from incmrql.spark.internals import blocks_size, estimated_size, free_blocks
from incmrql.spark.loops.parts import SplitLoop
from incmrql.spark.loops.steps import (
    CachedRows,
    Runner,
    Views,
    canonical_text,
    run_loop,
    temporary_view,
)
from incmrql.spark.packing import (
    PickledObject,
    SentProgram,
    freeze_loaded,
    load_program,
    pack,
)
from incmrql.spark.probe import require_checkpoint
from incmrql.spark.session import private
from incmrql.spark.values import BATCH, value_type
from incmrql.syntax.depth import deep_recursion
from incmrql.types import typed
from incmrql.types.model import UNIT, Type
from incmrql.values import Value

MOST_BYTES = 32 << 20
"""Bytes of inputs up to which one task runs a loop of a batch query."""
MOST_READ = 4 << 20
"""Bytes of inputs up to which that task reads the sources itself."""
MOST_ROWS = 1 << 22
"""Rows up to which such a task computes any intermediate result of a step."""
BY_ROW = 64
"""Divides these limits if the reference evaluator processes rows one by one."""
CROSSED = 4
"""Divides the bytes if all rows of an input are combined with all rows of a variable."""
_CROSSED_ROWS: Final = 2
"""Divides the rows of a stream in that case: such a pair takes about 300 bytes.  The factor is
small because steps on Spark take many times as long."""
_SLACK: Final = 2
"""How many times the estimated bytes may arrive before the task gives up."""
_UNKNOWN: Final = range(1 << 50, 1 << 70)
"""The sizes that Spark estimates for rows about which it knows nothing."""
_NUMBER: Final = "number"


def task_row_limits(compiled: CompiledProgram, rows: int = LOOP_ROWS) -> dict[str, int]:
    """Rows up to which a task runs each loop of a program, by the names of their results."""
    loops = [step for step in compiled.physical.steps if isinstance(step, LoopOp)]
    return {loop.result: rows // _row_cost(loop, _CROSSED_ROWS) for loop in loops}


def _row_cost(loop: LoopOp, crossed: int = 1) -> int:
    """The cost of a loop's rows in a task, relative to a cheap loop."""
    if loop.is_by_row:
        return BY_ROW
    return crossed if loop.is_cross else 1


@dataclass(frozen=True, slots=True)
class _Input:
    """Rows that a loop does not change, and the shape of a row in the columns of their frame."""

    frame: DataFrame
    row: Shape


@dataclass(frozen=True, slots=True)
class _TaskLoop:
    """A loop as sent to the task that runs it."""

    loop: LoopOp
    columns: tuple[tuple[int, ...], ...]
    """For each input, the indices of its columns in the combined frame."""
    script: typed.Script
    arguments: tuple[str, ...]
    stored: dict[str, Value]
    max_steps: int
    most_bytes: int
    most_rows: int


def end_of_loop(loop: Repeat, runner: Runner, views: Views) -> CachedRows:
    """The rows of the chosen variable of a loop at its end."""
    rows = _run_in_task(loop, runner, views)
    if rows is None:
        return run_loop(loop, runner, views)
    runner.cached_frames.append(rows.blocks)
    return rows


def _run_in_task(loop: Repeat, runner: Runner, views: Views) -> CachedRows | None:
    """The same in one task; None if the loop is too large or would behave differently there."""
    ctx = runner.context()
    parts = runner.loops.split(loop, runner.shared, ctx)
    if parts is None:
        return None
    known_size = _known_size(parts, runner, views)
    if known_size is not None and known_size > MOST_BYTES:
        return None  # before any input is planned, which takes longer than this check
    inputs = [_input(term, runner, views) for _, term in parts.inputs]
    size = (
        sum(_estimated_size(input_.frame) for input_ in inputs)
        if known_size is None
        else known_size
    )
    if size > MOST_BYTES:
        return None
    limit = None if loop.limit is None else runner.limit(loop.limit) or 0
    layouts = tuple(_layout(input_.row) for input_ in inputs)
    compiled = runner.loops.compile(loop, layouts, ctx, limit)
    cost = _row_cost(compiled, CROSSED)
    if size > MOST_BYTES // cost:
        return None
    combined, columns = _in_one_frame(inputs, runner)
    # Coalescing also moves the reading of the sources into the one task: faster for tiny inputs.
    one_partition = combined.coalesce(1) if size <= MOST_READ else combined.repartition(1)
    bounds = _SLACK * MOST_BYTES // cost, MOST_ROWS // _row_cost(compiled)
    stored = dict(ctx.stored)
    task_loop = _TaskLoop(
        compiled, columns, ctx.script, tuple(ctx.arguments), stored, runner.max_steps, *bounds
    )
    return _run_task(one_partition, task_loop, runner)


def _run_task(frame: DataFrame, work: _TaskLoop, runner: Runner) -> CachedRows | None:
    """Run the task now; None if it gave up."""
    layout = work.loop.layout
    calls = [function.call for function in work.script.python.values()]
    # A loop may end without rows, so the absence of rows would not show that the task gave up.
    gave_up = runner.spark.sparkContext.accumulator(0)
    task = partial(_run_loop_in_task, pack(work, calls), gave_up)
    rows = _cache_rows(frame.mapInArrow(task, schema_of(layout)), layout)
    return None if gave_up.value else rows


def _cache_rows(frame: DataFrame, layout: Layout) -> CachedRows:
    """Compute rows of the engine now, and keep them as blocks."""
    rows = frame.localCheckpoint(eager=True)
    shape = shape_of(layout, iter(column_names(leaves(layout))))
    return CachedRows(rows, shape, rows, blocks_size(rows))


# --- inputs of a task -------------------------------------------------------------------------


def _known_size(parts: SplitLoop, runner: Runner, views: Views) -> int | None:
    """The approximate bytes of the inputs; None if it is unknown whether they are small."""
    size_of_scan = runner.context().size_of
    sizes = [
        *[size_of_scan(scan) for scan in parts.scans],
        *[views[variable.number].size for variable in parts.outer],
    ]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) and sum(known) <= MOST_BYTES:
        return None
    return sum(known)


def _estimated_size(frame: DataFrame) -> int:
    """The bytes that Spark estimates for a frame; 0 if it does not know.

    An underestimate is safe: the task counts what arrives and gives up if it is too much.
    """
    size = estimated_size(frame)
    return 0 if size is None or size in _UNKNOWN else size


def _input(term: Arrow, runner: Runner, views: Views) -> _Input:
    text = statement(term, runner.context(), runner.shared, views, "flat")
    return _Input(runner.frame(text, views), text.row)


def _layout(row: Shape) -> Layout:
    """The columns of a row in the engine."""
    if isinstance(row, Parts):
        return Struct(tuple(map(_layout, row.parts)), row.type)
    return Leaf(row.type)


def _in_one_frame(
    inputs: Sequence[_Input], runner: Runner
) -> tuple[DataFrame, tuple[tuple[int, ...], ...]]:
    """The rows of all inputs in one frame, and for each input the indices of its columns.

    Inputs share columns of the same type; the first column has the number of the input.
    """
    ctx = runner.context()
    slots: dict[tuple[str, int], int] = {}
    columns: list[dict[int, Cell]] = []
    for input_ in inputs:
        cells: dict[int, Cell] = {}
        used: dict[str, int] = {}
        for cell in shapes.leaves(input_.row):
            type_ = tree.type_text(cell.type, Dialect.SPARK)
            used[type_] = used.get(type_, 0) + 1
            cells[slots.setdefault((type_, used[type_]), len(slots))] = cell
        columns.append(cells)
    frames = []
    for number, (input_, cells) in enumerate(zip(inputs, columns, strict=True)):
        texts = [f"{number} AS {_NUMBER}"]
        for (type_, _), slot in slots.items():
            text = canonical_text(cells[slot], ctx) if slot in cells else "NULL"
            texts.append(f"CAST({text} AS {type_}) AS s{slot}")
        frames.append(input_.frame.selectExpr(*texts))
    if not frames:
        frames = [runner.spark.range(0, 1, 1, 1).select(sql.lit(-1).alias(_NUMBER))]
    positions = tuple(tuple(slot + 1 for slot in cells) for cells in columns)
    return reduce(DataFrame.unionAll, frames), positions


# --- inside the task ---------------------------------------------------------------------


def _run_loop_in_task(
    sent: PickledObject, gave_up: Accumulator[int], batches: Iterable[Arrow]
) -> Iterator[Arrow]:
    """The final rows of a loop, given the rows of its inputs; nothing if there are too many."""
    work = sent.load()
    assert isinstance(work, _TaskLoop)
    _freeze_once()
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
    context = BatchContext({}, Reader(Path(), OpenSegments()), Environment(world), is_first=True)
    try:
        with deep_recursion(DEEPEST), encode_errors():
            rows, _ = recompute_loop(work.loop, inputs, context, work.most_rows)
    except TooManyRows:
        gave_up.add(1)
        return
    yield from spark_batches(rows, work.loop.layout)


@cache
def _freeze_once() -> None:
    """Spare later tasks of this worker a collection over the modules that a loop imports."""
    freeze_loaded()


def _receive_inputs(work: _TaskLoop, batches: Iterable[Arrow]) -> list[Rows] | None:
    """The rows of each input; None if they are too large."""
    chunks_of_input: list[list[Arrow]] = [[] for _ in work.columns]
    size = 0
    for batch in batches:
        size += batch.nbytes
        if size > work.most_bytes:
            return None
        numbers = batch.column(0).to_numpy(zero_copy_only=False)
        for number in np.unique(numbers[numbers >= 0]).tolist():
            indices = np.flatnonzero(numbers == number)
            chunk = batch if len(indices) == len(numbers) else batch.take(pa.array(indices))
            chunks_of_input[number].append(chunk)
    return [
        _engine_rows(chunks, columns, leaves(layout))
        for chunks, columns, layout in zip(
            chunks_of_input, work.columns, work.loop.layouts, strict=True
        )
    ]


def _engine_rows(chunks: list[Arrow], columns: tuple[int, ...], types: tuple[Type, ...]) -> Rows:
    count = sum(len(chunk) for chunk in chunks)
    engine_columns = []
    for index, type_ in zip(columns, types, strict=True):
        parts = [chunk.column(index) for chunk in chunks]
        empty = pa.chunked_array(parts, value_type(type_)) if not parts else pa.chunked_array(parts)
        engine_columns.append(engine_column(flat(empty), type_))
    return Rows(tuple(engine_columns), np.ones(count, np.int64))


# --- out of the task --------------------------------------------------------------------------


WithRunner: TypeAlias = Callable[
    [SparkSession, World, Query, Callable[[Runner], OffloadResult]], OffloadResult
]
"""Calls a function with a runner of loops: `with_runner` of `batch.queries`, which imports us."""
_SENT: Final = pa.schema([("bucket", pa.int32()), ("data", pa.large_binary())])


@dataclass(frozen=True, slots=True)
class Offload:
    """A loop of a batch that is too large for a task, with the files of its input changes."""

    spark: SparkSession
    compiled: CompiledProgram
    sent: SentProgram
    request: BatchRequest
    loop: LoopOp
    inputs: ChangeFiles
    with_runner: WithRunner

    def run(self) -> OffloadResult:
        """Run the loop from its first step; returns the files with the changes of its answer."""
        spark, node = private(self.spark), self.loop.node
        nothing = typed.Const((), type=UNIT)
        query = Query(tuple((cached, Loop(cached)) for cached in node.variables), nothing)
        inputs = [self._input(spark, number) for number in range(len(node.variables))]
        try:
            run = partial(self._run_steps, inputs=inputs)
            return self.with_runner(spark, self.compiled.env().world, query, run)
        finally:
            for cached in inputs:
                free_blocks(cached.blocks)

    def _run_steps(self, runner: Runner, inputs: list[CachedRows]) -> OffloadResult:
        loop = self.loop
        runner.limit = lambda _: loop.limit
        views = {
            variable.number: temporary_view(f"input_{variable.number}", rows)
            for variable, rows in zip(loop.node.variables, inputs, strict=True)
        }
        end = run_loop(loop.node.term, runner, views)
        return OffloadResult(loop.result, tuple(self._answer(runner, end)), runner.steps)

    def _input(self, spark: SparkSession, number: int) -> CachedRows:
        """All rows of an input after this batch."""
        buckets, layout = self.request.buckets, self.loop.layouts[number]
        request, name = self.request.as_json(), self.loop.result
        task = partial(_read_input, self.sent, request, name, number, self.inputs)
        return _cache_rows(
            spark.range(0, buckets, 1, buckets).mapInArrow(task, schema_of(layout)), layout
        )

    def _answer(self, runner: Runner, end: CachedRows) -> list[str]:
        """Compare the result with the stored answer; returns the files of the difference."""
        ctx = runner.context()
        columns = [
            f"CAST({canonical_text(cell, ctx)} AS {tree.type_text(cell.type, Dialect.SPARK)})"
            f" AS c{number}"
            for number, cell in enumerate(_cells(end.row, self.loop.layout, ctx))
        ]
        rows = end.frame.selectExpr(*columns or ["true AS c0"])
        request, name = self.request.as_json(), self.loop.result
        parts = rows.mapInArrow(
            partial(_split_by_bucket, self.sent, name, self.request.buckets), _TEXT
        )
        # A bucket without rows must be compared too: its stored rows may all have gone.
        empty_parts = runner.spark.range(0, self.request.buckets).selectExpr(
            "CAST(id AS int) AS bucket", "CAST(NULL AS binary) AS data"
        )
        by_bucket = parts.unionAll(empty_parts).repartition(self.request.buckets, "bucket")
        task = partial(_compare, self.sent, request, name)
        return [row[0] for row in by_bucket.mapInArrow(task, "file string").collect()]


_TEXT: Final = "bucket int, data binary"


def _cells(row: Shape, layout: Layout, ctx: Context) -> Iterator[Cell]:
    """The columns of a row in the order of the engine."""
    if isinstance(layout, Struct):
        for part, part_layout in zip(split(row).parts, layout.parts, strict=True):
            yield from _cells(part, part_layout, ctx)
    else:
        yield Cell(ctx.whole(row), layout.type)


# --- inside the tasks of an offloaded loop ---------------------------------------------------


def _load_loop(
    sent: SentProgram, request_json: dict[str, Arrow], name: str
) -> tuple[CompiledProgram, BatchRequest, LoopOp]:
    if sent.probe is not None:
        try:
            require_checkpoint(sent.probe)
        except DataError as problem:
            raise EncodedDataError(problem) from None
    compiled = load_program(sent)
    request = BatchRequest.of_json(request_json, compiled.physical.schemas)
    return compiled, request, find_loop(compiled, name)


def find_loop(compiled: CompiledProgram, name: str) -> LoopOp:
    """The loop whose result has this name."""
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
    compiled, request, loop = _load_loop(sent, request_json, name)
    table, schema = request.tables[loop.tables[number]], loop.schemas[number]
    reader = batch_context(compiled, request, request.tables).reader
    for bucket in _bucket_numbers(batches):
        change = read_input_change(request.offloading.directory, inputs, number, bucket, schema)
        rows = input_rows([scan(table, reader, bucket), change])
        yield from spark_batches(rows, loop.layouts[number])


def _split_by_bucket(
    sent: SentProgram, name: str, buckets: int, batches: Iterable[Arrow]
) -> Iterator[Arrow]:
    """Rows of an answer, split by bucket."""
    loop = find_loop(load_program(sent), name)
    types = leaves(loop.layout)
    for batch in batches:
        columns = tuple(map(engine_column, batch.columns, types))
        rows = Rows(columns, np.ones(batch.num_rows, np.int64))
        for bucket, part in by_bucket(sorted_rows_of(loop.schema, rows), buckets):
            yield pa.record_batch([[bucket], [rows_to_bytes(part)]], schema=_SENT)


def _compare(
    sent: SentProgram, request_json: dict[str, Arrow], name: str, batches: Iterable[Arrow]
) -> Iterator[Arrow]:
    """Compare the result with the stored answer, bucket by bucket."""
    compiled, request, loop = _load_loop(sent, request_json, name)
    reader = batch_context(compiled, request, request.tables).reader
    parts_of_bucket: dict[int, list[SortedRows]] = {}
    for batch in batches:
        for bucket, data in zip(*[column.to_pylist() for column in batch.columns], strict=True):
            parts = parts_of_bucket.setdefault(bucket, [])
            if data is not None:
                parts.append(rows_from_bytes(data, loop.schema))
    for bucket in sorted(parts_of_bucket):
        old = scan(request.tables[name], reader, bucket)
        change = replacement(loop.schema, parts_of_bucket.pop(bucket), [old])
        if len(change):
            yield pa.record_batch([[write_change(request.offloading.directory, change)]], ["file"])


# --- rows of Spark as rows of the engine, and back --------------------------------------------


def engine_column(column: Arrow, type_: Type) -> Arrow:
    """Convert a column from Spark to the engine."""
    target = column_type(type_)
    if column.type == target:
        return column
    if value_type(type_) == target:
        return column.cast(target)
    return column_of(values_of(column, type_), type_)


def _spark_column(column: Arrow, type_: Type) -> Arrow:
    target = value_type(type_)
    if column.type == target:
        return column
    if column_type(type_) == target:
        return column.cast(target)
    return pa.array(column.to_pylist(), target)


def spark_batches(rows: Rows, layout: Layout) -> Iterator[Arrow]:
    """Rows of the engine as batches for Spark, each as often as its weight says."""
    if (rows.weights != 1).any():
        indices = np.repeat(np.arange(len(rows)), rows.weights)
        rows = rows.take(indices)
    types = leaves(layout)
    columns = [_spark_column(c, t) for c, t in zip(rows.columns, types, strict=True)]
    columns = columns or [pa.repeat(True, len(rows))]
    table = pa.table(columns, names=column_names(types))
    yield from table.to_batches(BATCH)


def column_names(types: Sequence[Type]) -> list[str]:
    """The names of the columns that hold values of some types."""
    return [f"c{number}" for number in range(1, len(types) + 1)] or ["c0"]


def schema_of(layout: Layout) -> str:
    """The schema of rows in a layout, as a text for Spark."""
    types = leaves(layout)
    texts = [tree.type_text(type_, Dialect.SPARK) for type_ in types] or ["BOOLEAN"]
    return ", ".join(
        f"{name} {text}" for name, text in zip(column_names(types), texts, strict=True)
    )


def shape_of(layout: Layout, names: Iterator[str]) -> Shape:
    """The shape of a row in these columns."""
    if isinstance(layout, Struct):
        return Parts(tuple(shape_of(part, names) for part in layout.parts), layout.type)
    return Cell(tree.column(next(names)), layout.type)
