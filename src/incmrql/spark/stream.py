"""One Spark job for each batch: the kernel inside tasks that read files and write runs.

A small change runs in one task.  A large one is read in many tasks, whose deltas are shuffled by
bucket to tasks that apply them: the same functions, the same run files, the same answer.  Tasks
return what they did as text; what they wrote counts once the driver's manifest names it.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from incmrql.diagnostics import CheckpointError, DataError, InternalError
from incmrql.incremental import Program
from incmrql.kernel.batch import apply, chunks, deltas, ledger_types, merged, run_batch, split
from incmrql.kernel.content import from_table, to_table
from incmrql.kernel.order import Applied, Deltas, Order, Share, Taken, together
from incmrql.kernel.reading import InputFile
from incmrql.kernel.segments import linear_segment
from incmrql.kernel.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LARGE: Final = 16 << 20
"""Bytes of a change from which on it is read in many tasks."""
_SETTINGS: Final = {
    "spark.sql.adaptive.enabled": "false",  # it adds jobs
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",  # deltas are large
    "spark.sql.optimizer.singleTaskExecution.enabled": "true",
}
_RESULT: Final = pa.schema([("kind", pa.string()), ("text", pa.string())])
_DELTA: Final = pa.schema(
    [("bucket", pa.int32()), ("kind", pa.string()), ("data", pa.large_binary())]
)
_MOST_NODE_ROWS: Final = 1 << 20
"""Keys that a reading task merges before it hands them on."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a batch did, and what Spark ran for it."""

    taken: Taken
    applied: Applied
    jobs: int
    stages: int
    tasks: int


class StreamJob:
    """The job of a program, run batch by batch; `folder` is where an order waits for its task."""

    def __init__(
        self, spark: SparkSession, program: Program, tables: tuple[Table, ...], folder: Path
    ):
        self.spark = spark.newSession()
        for name, value in _SETTINGS.items():
            self.spark.conf.set(name, value)
        if (
            str(self.spark.sparkContext.master).startswith("local")
            and "PYSPARK_PYTHON" not in os.environ
        ):
            self.spark.sparkContext.pythonExec = sys.executable  # the one that has this package
        self.program, self.order_file = program, folder / "order.json"
        self.shapes = tables[0], tables[1] if len(tables) > 1 else None
        task = partial(_whole, program, self.shapes, str(self.order_file))
        one = self.spark.range(0, 1, 1, 1)
        self.small: DataFrame = one.mapInArrow(task, "kind string, text string")
        self.group = f"incmrql-{uuid.uuid4().hex[:8]}"

    def run(self, order: Order, *, large: int = LARGE) -> JobResult:
        """Run a batch; refusals come back in the result, other problems are raised."""
        context = self.spark.sparkContext
        group = f"{self.group}-{order.number}-{order.attempt}"
        context.setJobGroup(group, f"batch {order.number}")
        try:
            if sum(file.size for file in order.files) < large:
                self.order_file.write_text(json.dumps(order.as_json()), encoding="utf-8")
                rows = self.small.collect()
            else:
                rows = self._parallel(order).collect()
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        taken, applied = self._read([(row[0], row[1]) for row in rows], order)
        return JobResult(taken, applied, *_counted(context, group))

    def _parallel(self, order: Order) -> DataFrame:
        """The plan of a large change: read by files, meet by bucket."""
        width = max(2 * self.spark.sparkContext.defaultParallelism, 1)
        groups = _balanced(order.files, width)
        text = json.dumps(order.as_json())
        read = self.spark.range(0, len(groups), 1, len(groups)).mapInArrow(
            partial(_take, self.program, order.buckets, groups),
            "bucket int, kind string, data binary",
        )
        met = read.repartition(order.buckets, "bucket")
        return met.mapInArrow(
            partial(_apply, self.program, self.shapes, text), "kind string, text string"
        )

    def _read(self, rows: list[tuple[str, str]], order: Order) -> tuple[Taken, Applied]:
        """The results of all tasks as one."""
        taken = Taken()
        results: list[Applied] = []
        for kind, text in rows:
            found = json.loads(text)
            match kind:
                case "taken":
                    taken.add(Taken.of_json(found))
                case "applied":
                    results.append(Applied.of_json(found, *self.shapes))
                case "data-error":
                    raise DataError(**found)
                case "checkpoint-error":
                    raise CheckpointError(found)
                case _:
                    raise InternalError(f"a task answered with {kind!r}")
        done = {bucket for result in results for bucket in result.buckets}
        rest = [bucket for bucket in range(order.buckets) if bucket not in done]
        ledger = None if order.ledger is None else order.ledger.only(rest)
        untouched = Applied(order.node.only(rest), ledger)
        return taken, together([untouched, *results])


def _balanced(files: Iterable[InputFile], width: int) -> list[list[InputFile]]:
    """Files in groups of about the same size, the largest first."""
    groups: list[list[InputFile]] = [[] for _ in range(width)]
    sizes = [0] * width
    for file in sorted(files, key=lambda file: (-file.size, file.path)):
        least = sizes.index(min(sizes))
        groups[least].append(file)
        sizes[least] += file.size
    return [group for group in groups if group]


def _counted(context: Any, group: str) -> tuple[int, int, int]:
    """The jobs, stages and tasks that ran under a group."""
    tracker = context.statusTracker()
    jobs = tracker.getJobIdsForGroup(group)
    infos = [tracker.getJobInfo(job) for job in jobs]
    stages = [stage for info in infos if info is not None for stage in info.stageIds]
    found = [tracker.getStageInfo(stage) for stage in stages]
    return len(jobs), len(stages), sum(info.numTasks for info in found if info is not None)


# --- inside tasks --------------------------------------------------------------------------


def _whole(
    program: Program, shapes: tuple[Table, Table | None], path: str, rows: Iterator[Any]
) -> Iterator[Any]:
    """A whole batch in one task."""
    for _ in rows:
        pass

    def done() -> Iterator[tuple[str, Any]]:
        order = Order.of_json(json.loads(Path(path).read_text(encoding="utf-8")), *shapes)
        taken, applied = run_batch(program, order)
        yield "taken", taken.as_json()
        yield "applied", applied.as_json()

    yield _results(done)


def _take(
    program: Program, buckets: int, groups: list[list[InputFile]], rows: Iterator[Any]
) -> Iterator[Any]:
    """The deltas of some files, cut by bucket; the ledger's at once, the node's merged."""
    segment = linear_segment(program)
    for batch in rows:
        for number in batch.column(0).to_pylist():
            taken = Taken()
            kept: list[Deltas] = []
            try:
                for file in groups[number]:
                    for table in chunks(program, file, taken):
                        change = deltas(program, segment, table, taken)
                        yield from _sent(Deltas(change.node.slice(0, 0), change.ledger), buckets)
                        kept.append(Deltas(change.node, None))
                        if sum(len(each.node) for each in kept) > _MOST_NODE_ROWS:
                            yield from _sent(merged(program, kept), buckets)
                            kept = []
            except DataError as problem:
                yield _row(-1, "data-error", json.dumps(_problem(problem)).encode())
                return
            if kept:
                yield from _sent(merged(program, kept), buckets)
            yield _row(-1, "taken", json.dumps(taken.as_json()).encode())


def _apply(
    program: Program, shapes: tuple[Table, Table | None], text: str, rows: Iterator[Any]
) -> Iterator[Any]:
    """Deltas that have met by bucket, applied bucket by bucket."""
    order = Order.of_json(json.loads(text), *shapes)
    passed: list[tuple[str, str]] = []
    parts: dict[int, list[Deltas]] = {}
    for batch in rows:
        for bucket, kind, data in zip(
            *[column.to_pylist() for column in batch.columns], strict=True
        ):
            if bucket < 0:
                passed.append((kind, data.decode()))
            else:
                parts.setdefault(bucket, []).append(_received(program, kind, data))

    yield pa.record_batch([*map(list, zip(*passed, strict=True))] or [[], []], schema=_RESULT)
    for bucket in sorted(parts):
        change = _gathered(program, parts.pop(bucket))
        yield _results(partial(_applied, program, order, change, Share.of([bucket])))


def _applied(
    program: Program, order: Order, change: Deltas, share: Share
) -> Iterator[tuple[str, Any]]:
    yield "applied", apply(program, order, change, share).as_json()


def _gathered(program: Program, parts: list[Deltas]) -> Deltas:
    """The deltas of a bucket as one."""
    nothing = merged(program, [])
    return merged(program, [nothing, *parts])


def _sent(change: Deltas, buckets: int) -> Iterator[Any]:
    for bucket, part in split(change, buckets):
        for kind, content in (("node", part.node), ("ledger", part.ledger)):
            if content is not None and len(content):
                sink = pa.BufferOutputStream()
                table = to_table(content)
                with pa.ipc.new_stream(sink, table.schema) as writer:
                    writer.write_table(table)
                yield _row(bucket, kind, sink.getvalue().to_pybytes())


def _received(program: Program, kind: str, data: bytes) -> Deltas:
    table = pa.ipc.open_stream(data).read_all().combine_chunks()
    empty = merged(program, [])
    if kind == "node":
        return Deltas(from_table(table, program.fold.keys), empty.ledger)
    return Deltas(empty.node, from_table(table, ledger_types(program)))


def _row(bucket: int, kind: str, data: bytes) -> Any:
    return pa.record_batch([[bucket], [kind], [data]], schema=_DELTA)


def _results(run: Callable[[], Iterator[tuple[str, Any]]]) -> Any:
    """What a task did, as rows of text; problems of data and checkpoint too."""
    try:
        done = list(run())
    except DataError as problem:
        done = [("data-error", _problem(problem))]
    except CheckpointError as problem:
        done = [("checkpoint-error", str(problem))]
    kinds, texts = [kind for kind, _ in done], [json.dumps(found) for _, found in done]
    return pa.record_batch([kinds, texts], schema=_RESULT)


def _problem(problem: DataError) -> dict[str, str]:
    return {
        "code": problem.code,
        "message": problem.message,
        "place": problem.place,
        "hint": problem.hint,
    }
