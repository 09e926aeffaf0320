"""Loops over streams that are too large for a task: their steps are stages of Spark's.

    inputs    what is kept of each, with what the batch changes, bucket by bucket
    steps     those of a loop over all data (`loops.py`)
    answer    what is kept of it against what was found, bucket by bucket

Nothing of it comes to the driver.  The kernel finds what it needs in a folder (`kernel/apart.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any as Arrow
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from incmrql.algebra.term import Loop, Query
from incmrql.diagnostics import DataError
from incmrql.incremental.changes import Negative
from incmrql.kernel.apart import (
    Inputs,
    Offloaded,
    leave_answer,
    left_input,
    packed,
    unpacked,
)
from incmrql.kernel.batches import Kit, desk_of
from incmrql.kernel.content import Content, merge
from incmrql.kernel.desk import content_of, rows_of
from incmrql.kernel.layouts import Layout, Struct, leaves
from incmrql.kernel.orders import Order
from incmrql.kernel.physical import Looped
from incmrql.kernel.recompute import has_cross_join, has_row_by_row
from incmrql.kernel.rows import Rows
from incmrql.kernel.table import by_bucket, scan
from incmrql.spark.batch import Batch, Work
from incmrql.spark.failures import Carried, told
from incmrql.spark.internals import blocks_size, free_blocks
from incmrql.spark.loops import Held, run_loop
from incmrql.spark.loops_columns import names_of, of_spark, schema_of, sent_rows, shape_of
from incmrql.spark.loops_task import BY_ROW
from incmrql.spark.probe import require_checkpoint
from incmrql.spark.sending import SentKit, kit_of
from incmrql.spark.session import private
from incmrql.spark.sources_context import Context as Sources
from incmrql.sql import arrays, tree
from incmrql.sql.shapes import Cell, Shape, split
from incmrql.sql.statements import view
from incmrql.sql.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import PREDEFINED, UNIT

LOOP_ROWS: Final = 1 << 24
"""Rows of its inputs, and in each of its steps, up to which one task runs a loop again."""
_CROSSED: Final = 2
"""How many times less that is where all rows of an input meet all rows of a variable: such a pair
takes about 300 bytes.  Steps on Spark take many times as long."""
_SENT: Final = pa.schema([("bucket", pa.int32()), ("data", pa.large_binary())])


def most_rows(kit: Kit, rows: int = LOOP_ROWS) -> dict[str, int]:
    """The same for each loop of a program: fewer where its rows are dear."""
    loops = [step for step in kit.physical.steps if isinstance(step, Looped)]
    return {loop.result: rows // _share(loop) for loop in loops}


def _share(loop: Looped) -> int:
    if has_row_by_row(loop.plain):
        return BY_ROW
    return _CROSSED if has_cross_join(loop.plain) else 1


@dataclass(frozen=True, slots=True)
class Stages:
    """A loop of a batch, and where its rows are."""

    spark: SparkSession
    kit: Kit
    sent: SentKit
    order: Order
    loop: Looped
    inputs: Inputs

    def run(self) -> Offloaded:
        """Run the loop from its beginning; the files of what that changes in its answer."""
        spark = private(self.spark)
        world = self.kit.env().world
        sources = Sources(data=world.script.data or PREDEFINED, parsers=world.script.parsers)
        node = self.loop.node
        nothing = typed.Const((), type=UNIT)
        query = Query(tuple((each, Loop(each)) for each in node.variables), nothing)
        frames = [self._input(spark, number) for number in range(len(node.variables))]
        try:
            with Batch(spark, world, fast_sums=False, sources=sources) as batch, told(spark):
                ran: list[Offloaded] = []
                batch.attempt(query, partial(self._stepped, frames=frames, ran=ran))
                batch.show_traces(world.on_trace)
                return ran[-1]
        finally:
            for frame in frames:
                free_blocks(frame)

    def _stepped(self, work: Work, frames: list[DataFrame], ran: list[Offloaded]) -> None:
        views = {}
        runner, loop = work.runner, self.loop
        runner.limit = lambda _: loop.limit
        for variable, frame, layout in zip(loop.node.variables, frames, loop.layouts, strict=True):
            name = f"input_{variable.number}"
            frame.createOrReplaceTempView(name)
            shape = shape_of(layout, iter(names_of(leaves(layout))))
            views[variable.number] = view(name, shape, blocks_size(frame))
        held = run_loop(loop.node.term, runner, views)
        runner.kept += [each.blocks for each in held]
        files = self._answer(work, held[loop.node.term.chosen])
        ran.append(Offloaded(loop.result, tuple(files), runner.steps))

    def _input(self, spark: SparkSession, number: int) -> DataFrame:
        """All rows of an input, kept as blocks."""
        buckets = self.order.buckets
        order, name = self.order.as_json(), self.loop.result
        task = partial(_read, self.sent, order, name, number, self.inputs)
        schema = schema_of(leaves(self.loop.layouts[number]))
        whole = spark.range(0, buckets, 1, buckets).mapInArrow(task, schema)
        return whole.localCheckpoint(eager=True)

    def _answer(self, work: Work, held: Held) -> list[str]:
        """Compare what was found with what is kept; the files of the difference."""
        ctx = work.runner.context()
        columns = []
        for place, cell in enumerate(_cells(held.row, self.loop.layout, work)):
            made = tree.print_tree(arrays.canonical(cell.tree, cell.type, ctx), Dialect.SPARK)
            columns.append(
                f"CAST({made} AS {tree.type_text(cell.type, Dialect.SPARK)}) AS c{place}"
            )
        rows = held.frame.selectExpr(*columns or ["true AS c0"])
        order, name = self.order.as_json(), self.loop.result
        cut = rows.mapInArrow(partial(_cut, self.sent, name, self.order.buckets), _TEXT)
        every = work.batch.spark.range(0, self.order.buckets).selectExpr(
            "CAST(id AS int) AS bucket", "CAST(NULL AS binary) AS data"
        )
        met = cut.unionAll(every).repartition(self.order.buckets, "bucket")
        task = partial(_compared, self.sent, order, name)
        return [row[0] for row in met.mapInArrow(task, "file string").collect()]


_TEXT: Final = "bucket int, data binary"


def _cells(row: Shape, layout: Layout, work: Work) -> Iterator[Cell]:
    """The columns of a row that the kernel has for it."""
    if isinstance(layout, Struct):
        for part, each in zip(split(row).parts, layout.parts, strict=True):
            yield from _cells(part, each, work)
    else:
        yield Cell(work.runner.context().whole(row), layout.type)


# --- inside tasks --------------------------------------------------------------------------


def _opened(sent: SentKit, told_: dict[str, Arrow], name: str) -> tuple[Kit, Order, Looped]:
    if sent.probe is not None:
        try:
            require_checkpoint(sent.probe)
        except DataError as problem:
            raise Carried(problem) from None
    kit = kit_of(sent)
    order = Order.of_json(told_, kit.physical.forms)
    return kit, order, loop_named(kit, name)


def loop_named(kit: Kit, name: str) -> Looped:
    """The loop whose result has a name."""
    return next(s for s in kit.physical.steps if isinstance(s, Looped) and s.result == name)


def _numbers(batches: Iterable[Arrow]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _read(
    sent: SentKit,
    order_: dict[str, Arrow],
    name: str,
    number: int,
    inputs: Inputs,
    batches: Iterable[Arrow],
) -> Iterator[Arrow]:
    """All rows of an input in some buckets."""
    kit, order, loop = _opened(sent, order_, name)
    table, form = order.tables[loop.tables[number]], loop.forms[number]
    reader = desk_of(kit, order, order.tables).reader
    for bucket in _numbers(batches):
        change = left_input(order.apart.folder, inputs, number, bucket, form)
        whole = rows_of(merge([scan(table, reader, bucket), change]))
        if (whole.weights < 0).any():
            raise Negative("a loop has fewer than no rows")
        yield from sent_rows(whole, leaves(loop.layouts[number]))


def _cut(sent: SentKit, name: str, buckets: int, batches: Iterable[Arrow]) -> Iterator[Arrow]:
    """Rows of an answer, cut by bucket."""
    loop = loop_named(kit_of(sent), name)
    types = leaves(loop.layout)
    for batch in batches:
        columns = tuple(map(of_spark, batch.columns, types))
        rows = Rows(columns, np.ones(batch.num_rows, np.int64))
        for bucket, part in by_bucket(content_of(loop.form, rows), buckets):
            yield pa.record_batch([[bucket], [packed(part)]], schema=_SENT)


def _compared(
    sent: SentKit, order_: dict[str, Arrow], name: str, batches: Iterable[Arrow]
) -> Iterator[Arrow]:
    """What was found against what is kept, bucket by bucket."""
    kit, order, loop = _opened(sent, order_, name)
    reader = desk_of(kit, order, order.tables).reader
    found: dict[int, list[Content]] = {}
    for batch in batches:
        for bucket, data in zip(*[column.to_pylist() for column in batch.columns], strict=True):
            parts = found.setdefault(bucket, [])
            if data is not None:
                parts.append(unpacked(data, loop.form))
    for bucket in sorted(found):
        old = scan(order.tables[name], reader, bucket)
        change = merge([*found.pop(bucket), old.with_weights(-old.weights)])
        if len(change):
            yield pa.record_batch([[leave_answer(order.apart.folder, change)]], ["file"])
