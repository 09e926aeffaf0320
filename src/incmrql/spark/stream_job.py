"""One Spark job for each batch: the engine inside tasks that read files and write runs.

A small change runs in one task.  A large one is read in many tasks, and what they add up meets
by bucket, stage after stage: the same functions, the same run files, the same answers.  Tasks
return what they did as text; what they wrote counts once the driver's manifest names it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from incmrql.engine.batch import CompiledProgram
from incmrql.engine.inputs import InputFile
from incmrql.engine.loops.offload import Apart
from incmrql.engine.messages import BatchRequest, BatchResult, Part, Reading, together
from incmrql.engine.stages import Route
from incmrql.engine.store.compaction import CompactionTask
from incmrql.engine.store.segments import Segment
from incmrql.errors import CheckpointError, DataError, InternalError
from incmrql.spark.batch.queries import with_runner
from incmrql.spark.clusters import is_local, watched
from incmrql.spark.internals import job_counts
from incmrql.spark.loops.placement import LOOP_ROWS, Offload, loop_named, most_rows
from incmrql.spark.packing import sent_program
from incmrql.spark.probe import Proof, check_proofs, create_probe
from incmrql.spark.stream_tasks import (
    REQUEST_PROPERTY,
    batch_task,
    meet_task,
    merge_task,
    prove_task,
    read_task,
    write_answers_task,
)
from incmrql.storage import create, delete

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession


LARGE: Final = 16 << 20
"""Bytes of a change from which on it is read in many tasks."""
LOOPS: Final = "loops-"
"""How folders are named in which loops that run apart have their rows."""
REQUEST: Final = "request-"
"""How files are named that tell a task what to do."""
_SETTINGS: Final = {
    "spark.sql.adaptive.enabled": "false",  # it adds jobs
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",  # what is sent is large
    "spark.sql.optimizer.singleTaskExecution.enabled": "true",
}
_SENT_TYPE: Final = "bucket int, name string, data binary"


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a batch did, and what Spark ran for it."""

    reading: Reading
    done: BatchResult
    jobs: int
    stages: int
    tasks: int


class StreamJob:
    """The job of a program, run batch by batch; `folder` is where requests wait for their tasks.

    Each attempt has a request file of its own, whose name travels with the job: two drivers on one
    checkpoint, or a task that comes late, can never run each other's requests.
    """

    def __init__(
        self, spark: SparkSession, compiled: CompiledProgram, folder: Path, buckets: int
    ) -> None:
        self.given, self.spark = spark, spark.newSession()
        for name, value in _SETTINGS.items():
            self.spark.conf.set(name, value)
        context = self.spark.sparkContext
        if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable  # the one that has this package
        self.compiled, self.folder, self.buckets = compiled, folder.absolute(), buckets
        self.route = Route(compiled.physical)
        self.sent = sent_program(compiled)
        self.small = self._small()
        self.group = f"incmrql-{uuid.uuid4().hex[:8]}"

    def _small(self) -> RDD[tuple[str, str]]:
        """The job of small batches; not a frame: an action of Spark's SQL takes twice as long."""
        one = self.spark.sparkContext.parallelize([0], 1)
        return one.mapPartitions(partial(batch_task, self.sent))

    def _prepare(self) -> None:
        """Before the first job that writes: let every executor of a cluster prove what it sees.

        Executors that come later prove it in the first task of each of their processes.
        """
        context = self.spark.sparkContext
        if is_local(context.master) or self.sent.probe is not None:
            return
        self.sent = replace(self.sent, probe=create_probe(self.folder))
        self.small = self._small()
        tasks = max(2, context.defaultParallelism)
        job = context.parallelize(range(tasks), tasks).mapPartitions(partial(prove_task, self.sent))
        self._check(job.collect())

    def _check(self, rows: Iterable[tuple[str, str]], files: Iterable[InputFile] = ()) -> None:
        """Refuse results of tasks that did not see what is here; the next attempt probes anew."""
        proofs = [Proof(**json.loads(text)) for kind, text in rows if kind == "proof"]
        if self.sent.probe is not None:
            try:
                check_proofs(self.sent.probe, proofs, files)
            except DataError:
                self.sent = replace(self.sent, probe=None)
                raise

    def run(
        self, order: BatchRequest, *, large: int = LARGE, loop_rows: int = LOOP_ROWS
    ) -> JobResult:
        """Run a batch; problems that tasks met are raised."""
        context = self.spark.sparkContext
        group = f"{self.group}-{order.number}-{order.attempt}"
        context.setJobGroup(group, f"batch {order.number}")
        folder = self.folder / f"{LOOPS}{order.number:06d}-{order.attempt}"
        apart = Apart(str(folder), most_rows(self.compiled, loop_rows))
        try:
            with watched(self.spark):
                self._prepare()
                rows = self._answers(replace(order, apart=apart), large)
        except Py4JJavaError as problem:
            raise _unfinished(order.number, str(problem)) from None
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
            shutil.rmtree(folder, ignore_errors=True)
        self._check(rows, order.files)
        reading, done = self._read(rows, order)
        return JobResult(reading, done, *job_counts(context, group))

    def _answers(self, order: BatchRequest, large: int) -> list[tuple[str, str]]:
        """What the tasks of a batch say; loops that are too large for them are run on the way."""
        while True:
            if sum(file.size for file in order.files) < large:
                rows = self._in_one_task(order)
            else:
                rows = [(row[0], row[1]) for row in self._in_stages(order).collect()]
            asked = [json.loads(text) for kind, text in rows if kind == "loop"]
            if not asked or any(kind == "data-error" for kind, _ in rows):
                return rows
            self._check(rows, order.files)
            ran = []
            for name, inputs in asked:
                loop = loop_named(self.compiled, name)
                given = (self.given, self.compiled, self.sent, order, loop, inputs)
                ran.append(Offload(*given, with_runner).run())
            order = replace(order, apart=replace(order.apart, there=(*order.apart.there, *ran)))

    def _in_one_task(self, order: BatchRequest) -> list[tuple[str, str]]:
        """What the one task of a small batch says."""
        request = self.folder / f"{REQUEST}{order.number:06d}-{order.attempt}-{_token()}.json"
        create(request, json.dumps(order.as_json()).encode(), durable=False)
        try:
            self.spark.sparkContext.setLocalProperty(REQUEST_PROPERTY, str(request))
            return self.small.collect()
        finally:
            delete(request)

    def write_answers(
        self, order: BatchRequest, sign: int, compiled: CompiledProgram | None = None
    ) -> list[Part]:
        """Write all rows of answers to the targets of an order, as rows that come or go."""
        self._prepare()
        sent = (
            self.sent
            if compiled is None
            else replace(sent_program(compiled), probe=self.sent.probe)
        )
        task = partial(write_answers_task, sent, json.dumps(order.as_json()), sign)
        frame = self.spark.range(0, order.buckets, 1, order.buckets)
        rows = frame.mapInArrow(task, "kind string, text string").collect()
        self._check((row[0], row[1]) for row in rows)
        found = [json.loads(text) for kind, text in rows if kind == "parts"]
        return [Part(**part) for parts in found for part in parts]

    def compact(self, chore: CompactionTask, runs: str) -> Segment | None:
        """Merge the runs of a chore in a job of its own; may be called from another thread."""
        self._prepare()
        context = self.spark.sparkContext
        context.setJobGroup(f"{self.group}-merging", f"merging {chore.rows} rows")
        text = json.dumps(chore.as_json())
        task = partial(merge_task, self.sent, text, runs, self.buckets)
        frame = self.spark.range(0, 1, 1, 1).mapInArrow(task, "kind string, text string")
        rows = [(row[0], row[1]) for row in frame.collect()]
        self._check(rows)
        made = json.loads(dict(rows)["merged"])
        return None if made is None else Segment.of_json(made)

    def _in_stages(self, order: BatchRequest) -> DataFrame:
        """The plan of a large change: read by files, then meet by bucket, stage after stage."""
        width = max(2 * self.spark.sparkContext.defaultParallelism, 1)
        groups = balanced(order.files, width) or [[]]
        text = json.dumps(order.as_json())
        frame = self.spark.range(0, len(groups), 1, len(groups)).mapInArrow(
            partial(read_task, self.sent, text, groups), _SENT_TYPE
        )
        for stage in range(1, self.route.last + 1):
            is_last = stage == self.route.last
            frame = frame.repartition(order.buckets, "bucket").mapInArrow(
                partial(meet_task, self.sent, text, stage, is_last=is_last),
                "kind string, text string" if is_last else _SENT_TYPE,
            )
        return frame

    def _read(
        self, rows: list[tuple[str, str]], order: BatchRequest
    ) -> tuple[Reading, BatchResult]:
        """The results of all tasks as one; a refusal comes before what may follow from it."""
        reading = Reading()
        results: list[BatchResult] = []
        problems: list[Exception] = []
        dropped = 0
        for kind, text in rows:
            found = json.loads(text)
            if kind in ("reading", "done") and found["attempt"] != order.attempt:
                dropped += 1  # not what was asked for
                continue
            match kind:
                case "reading":
                    reading.add(Reading.of_json(found))
                case "done":
                    results.append(
                        BatchResult.of_json(found, self.compiled.physical.schemas, order.buckets)
                    )
                case "data-error":
                    problems.insert(0, DataError(**found))
                case "checkpoint-error":
                    problems.append(CheckpointError(found))
                case "negative":
                    problems.append(_trusted(self.compiled, found))
                case "loop" | "proof":  # the former beside a problem, the latter was checked
                    pass
                case _:
                    raise InternalError(f"a task answered with {kind!r}")
        if problems:
            raise problems[0]
        if dropped:
            raise _unfinished(order.number, "a task has answered for a different attempt")
        return reading, together(order, results)


def _token() -> str:
    return uuid.uuid4().hex[:8]


def _unfinished(number: int, told: str) -> Exception:
    """A job that Spark gave up."""
    lines = [line.strip() for line in told.splitlines() if "Exception: " in line]
    why = lines[0].split("Exception: ", 1)[1][:300] if lines else told[:300]
    if "Python worker exited unexpectedly" in told:
        why = "a Python worker of Spark's was killed"
    message = f"batch {number} was not finished: {why}"
    hint = "What was committed before is as it was. Run again: the batch is done once more."
    return CheckpointError(f"error: {message}\n = hint: {hint}")


def _trusted(compiled: CompiledProgram, problem: str) -> Exception:
    """What is wrong where deletions are trusted: one of them was of a row that is not there."""
    names = [s.name for s in compiled.program.streams if s.streaming and not s.ledger]
    if not names:
        return InternalError(problem)
    message = f"a row is deleted that is not there: {problem}"
    hint = "Without trusted_deletes such a batch is refused, and the row is named."
    return DataError("R205", message, place=", ".join(names), hint=hint)


def balanced(files: Iterable[InputFile], width: int) -> list[list[InputFile]]:
    """Files in groups of about the same size, the largest first."""
    groups: list[list[InputFile]] = [[] for _ in range(width)]
    sizes = [0] * width
    for file in sorted(files, key=lambda file: (-file.size, file.path)):
        least = sizes.index(min(sizes))
        groups[least].append(file)
        sizes[least] += file.size
    return [group for group in groups if group]
