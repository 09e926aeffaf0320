"""One Spark job for each batch: the engine inside tasks that read files and write segments.

A small change runs in one task.  A large one is read by many tasks, whose partial results are
shuffled by bucket, stage after stage, through the same functions and into the same segments.  Tasks
return what they did as text.  What they wrote counts once the driver's manifest names it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from incmrql.engine.batch import CompiledProgram
from incmrql.engine.inputs import InputFile
from incmrql.engine.jobs import LARGE, LOOP_ROWS, LOOPS, REQUEST, JobResult, trusted_deletes_error
from incmrql.engine.loops.offload import Offloading
from incmrql.engine.messages import (
    BagSummary,
    BatchRequest,
    BatchResult,
    Part,
    Reading,
    combine_results,
)
from incmrql.engine.stages import Route
from incmrql.engine.store.compaction import CompactionTask
from incmrql.engine.store.segments import Segment
from incmrql.errors import CheckpointError, DataError, InternalError
from incmrql.plan.program import Stream
from incmrql.spark.batch.queries import with_runner
from incmrql.spark.clusters import is_local, watch_executors
from incmrql.spark.internals import job_counts
from incmrql.spark.loops.placement import Offload, find_loop, task_row_limits
from incmrql.spark.packing import pack_program
from incmrql.spark.probe import Proof, check_proofs, create_probe
from incmrql.spark.sources.spools import reading_session, spool_files
from incmrql.spark.stream_tasks import (
    REQUEST_PROPERTY,
    batch_task,
    cut_answers_task,
    meet_task,
    merge_task,
    prove_task,
    read_task,
    summarize_task,
    write_answers_task,
    write_differences_task,
)
from incmrql.storage import create, delete
from incmrql.types.typed import SparkReader

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession


_SETTINGS: Final = {
    "spark.sql.adaptive.enabled": "false",  # else each stage is a separate job
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",  # a row may hold all rows of a bucket
    "spark.sql.optimizer.singleTaskExecution.enabled": "true",
}
_SENT_TYPE: Final = "bucket int, name string, data binary"
_RESULT_TYPE: Final = "kind string, text string"


class StreamJob:
    """Runs a program batch by batch; `folder` holds the requests of small batches.

    Each attempt writes a request file of its own, whose name travels with the job.  So two drivers
    on one checkpoint, or a task that comes late, can never run each other's requests.
    """

    def __init__(
        self, spark: SparkSession, compiled: CompiledProgram, folder: Path, buckets: int
    ) -> None:
        self.given, self.spark = spark, spark.newSession()
        for name, value in _SETTINGS.items():
            self.spark.conf.set(name, value)
        context = self.spark.sparkContext
        if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable  # another Python may not have this package
        self.compiled, self.folder, self.buckets = compiled, folder.absolute(), buckets
        self.route = Route(compiled.physical)
        self.sent = pack_program(compiled)
        self.single_task = self._single_task()
        self._reading: dict[SparkReader, SparkSession] = {}
        """The sessions in which readers of Spark read as in the user's."""
        self.group = f"incmrql-{uuid.uuid4().hex[:8]}"

    def _single_task(self) -> RDD[tuple[str, str]]:
        """The RDD that runs a small batch when it is collected."""
        # An RDD and not a data frame: an action of Spark's SQL takes twice as long.
        rdd = self.spark.sparkContext.parallelize([0], 1)
        return rdd.mapPartitions(partial(batch_task, self.sent))

    def _prepare(self) -> None:
        """Before the first job that writes, check that a cluster's executors see the checkpoint.

        Executors that come later prove it in the first task of each of their processes.
        """
        context = self.spark.sparkContext
        if is_local(context.master) or self.sent.probe is not None:
            return
        self.sent = replace(self.sent, probe=create_probe(self.folder))
        self.single_task = self._single_task()
        tasks = max(2, context.defaultParallelism)
        job = context.parallelize(range(tasks), tasks).mapPartitions(partial(prove_task, self.sent))
        self._check(job.collect())

    def _check(self, rows: Iterable[tuple[str, str]], files: Iterable[InputFile] = ()) -> None:
        """Refuse results of tasks that do not see the driver's storage."""
        proofs = [Proof(**json.loads(text)) for kind, text in rows if kind == "proof"]
        if self.sent.probe is not None:
            try:
                check_proofs(self.sent.probe, proofs, files)
            except DataError:
                self.sent = replace(self.sent, probe=None)  # the next attempt probes anew
                raise

    def run(
        self, request: BatchRequest, *, large: int = LARGE, loop_rows: int = LOOP_ROWS
    ) -> JobResult:
        """Run a batch; raises the problems that its tasks report."""
        context = self.spark.sparkContext
        group = f"{self.group}-{request.number}-{request.attempt}"
        context.setJobGroup(group, f"batch {request.number}")
        folder = self.folder / f"{LOOPS}{request.number:06d}-{request.attempt}"
        offloading = Offloading(str(folder), task_row_limits(self.compiled, loop_rows))
        try:
            with watch_executors(self.spark):
                self._prepare()
                rows = self._answers(replace(request, offloading=offloading), large)
        except Py4JJavaError as problem:
            raise _unfinished_error(request.number, str(problem)) from None
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
            shutil.rmtree(folder, ignore_errors=True)
        self._check(rows, request.files)
        reading, done = self._read(rows, request)
        return JobResult(reading, done, *job_counts(context, group))

    def spool(self, stream: Stream, files: Sequence[InputFile], folder: Path) -> list[InputFile]:
        """The rows of files as the reader of a stream reads them, in spools of a directory."""
        self._prepare()
        reader = stream.source.reader
        assert reader is not None
        if reader not in self._reading:
            self._reading[reader] = reading_session(self.given, reader)
        return spool_files(self._reading[reader], stream, files, folder)

    def _answers(self, request: BatchRequest, large: int) -> list[tuple[str, str]]:
        """The messages of a batch's tasks.

        A loop that is too large for a task runs on Spark, and then the batch runs once more.
        """
        while True:
            if sum(file.size for file in request.files) < large:
                rows = self._in_one_task(request)
            else:
                rows = [(row[0], row[1]) for row in self._in_stages(request).collect()]
            too_large = [json.loads(text) for kind, text in rows if kind == "loop"]
            if not too_large or any(kind == "data-error" for kind, _ in rows):
                return rows
            self._check(rows, request.files)
            results = list(request.offloading.results)
            for name, files in too_large:
                loop = find_loop(self.compiled, name)
                offload = Offload(
                    self.given, self.compiled, self.sent, request, loop, files, with_runner
                )
                results.append(offload.run())
            offloading = replace(request.offloading, results=tuple(results))
            request = replace(request, offloading=offloading)

    def _in_one_task(self, request: BatchRequest) -> list[tuple[str, str]]:
        """The messages of the one task of a small batch."""
        token = uuid.uuid4().hex[:8]
        path = self.folder / f"{REQUEST}{request.number:06d}-{request.attempt}-{token}.json"
        create(path, json.dumps(request.as_json()).encode(), durable=False)
        try:
            self.spark.sparkContext.setLocalProperty(REQUEST_PROPERTY, str(path))
            return self.single_task.collect()
        finally:
            delete(path)

    def write_answers(self, request: BatchRequest) -> list[Part]:
        """Write all rows of answers to the targets of a request."""
        self._prepare()
        task = partial(write_answers_task, self.sent, json.dumps(request.as_json()))
        return self._parts(self._buckets(request).mapInArrow(task, _RESULT_TYPE))

    def write_differences(
        self, request: BatchRequest, old: BatchRequest, old_program: CompiledProgram,
        places: Sequence[int],
    ) -> list[Part]:  # fmt: skip
        """Write to some targets the rows in which their answers differ from old ones.

        The targets of `old` have the old answers, one for each of `places`.
        """
        self._prepare()
        new = replace(request, targets=tuple(request.targets[place] for place in places))
        old_sent = replace(pack_program(old_program), probe=self.sent.probe)
        cut = [
            self._buckets(saved).mapInArrow(
                partial(cut_answers_task, sent, json.dumps(saved.as_json()), list(places), sign),
                _SENT_TYPE,
            )
            for sent, saved, sign in ((self.sent, new, 1), (old_sent, old, -1))
        ]
        task = partial(write_differences_task, self.sent, json.dumps(request.as_json()))
        both = cut[0].union(cut[1]).repartition(request.buckets, "bucket")
        return self._parts(both.mapInArrow(task, _RESULT_TYPE))

    def _buckets(self, request: BatchRequest) -> DataFrame:
        """The numbers of the buckets, each for a task of its own."""
        return self.spark.range(0, request.buckets, 1, request.buckets)

    def _parts(self, frame: DataFrame) -> list[Part]:
        """The parts that tasks have written; raises the problems that they report."""
        rows = [(row[0], row[1]) for row in frame.collect()]
        self._check(rows)
        parts: list[Part] = []
        for kind, text in rows:
            data = json.loads(text)
            if kind == "parts":
                parts += [Part(**part) for part in data]
            elif kind == "data-error":
                raise DataError(**data)
            elif kind == "checkpoint-error":
                raise CheckpointError(data)
        return parts

    def summarize(self, request: BatchRequest, numbers: Sequence[int]) -> list[BagSummary]:
        """The sizes and least rows of some answers, which are bags, in the tables of a request."""
        self._prepare()
        task = partial(summarize_task, self.sent, json.dumps(request.as_json()), list(numbers))
        rows = self._buckets(request).mapInArrow(task, _RESULT_TYPE).collect()
        self._check((row[0], row[1]) for row in rows)
        summaries = dict.fromkeys(numbers, BagSummary())
        for kind, text in rows:
            data = json.loads(text)
            if kind == "summary":
                summaries[data["number"]] += BagSummary(data["count"], data["least"])
            elif kind == "checkpoint-error":
                raise CheckpointError(data)
        return list(summaries.values())

    def compact(self, compaction: CompactionTask, runs: str) -> Segment | None:
        """Merge segments in a job of its own; may be called from another thread."""
        self._prepare()
        context = self.spark.sparkContext
        context.setJobGroup(f"{self.group}-merging", f"merging {compaction.rows} rows")
        text = json.dumps(compaction.as_json())
        task = partial(merge_task, self.sent, text, runs, self.buckets)
        frame = self.spark.range(0, 1, 1, 1).mapInArrow(task, _RESULT_TYPE)
        rows = [(row[0], row[1]) for row in frame.collect()]
        self._check(rows)
        segment = json.loads(dict(rows)["merged"])
        return None if segment is None else Segment.of_json(segment)

    def _in_stages(self, request: BatchRequest) -> DataFrame:
        """The plan of a large batch: read by files, then meet by bucket, stage after stage."""
        width = max(2 * self.spark.sparkContext.defaultParallelism, 1)
        groups = balance_files(request.files, width) or [[]]
        text = json.dumps(request.as_json())
        frame = self.spark.range(0, len(groups), 1, len(groups)).mapInArrow(
            partial(read_task, self.sent, text, groups), _SENT_TYPE
        )
        for stage in range(1, self.route.last + 1):
            is_last = stage == self.route.last
            frame = frame.repartition(request.buckets, "bucket").mapInArrow(
                partial(meet_task, self.sent, text, stage, is_last=is_last),
                _RESULT_TYPE if is_last else _SENT_TYPE,
            )
        return frame

    def _read(
        self, rows: list[tuple[str, str]], request: BatchRequest
    ) -> tuple[Reading, BatchResult]:
        """The results of all tasks as one.

        A data error is raised before any other problem, which may be its consequence.
        """
        reading = Reading()
        results: list[BatchResult] = []
        problems: list[Exception] = []
        dropped = 0
        for kind, text in rows:
            data = json.loads(text)
            if kind in ("reading", "done") and data["attempt"] != request.attempt:
                dropped += 1
                continue
            match kind:
                case "reading":
                    reading.add(Reading.of_json(data))
                case "done":
                    results.append(
                        BatchResult.of_json(data, self.compiled.physical.schemas, request.buckets)
                    )
                case "data-error":
                    problems.insert(0, DataError(**data))
                case "checkpoint-error":
                    problems.append(CheckpointError(data))
                case "negative":
                    problems.append(trusted_deletes_error(self.compiled, data))
                case "loop" | "proof":  # a loop beside a problem; a proof that was checked
                    pass
                case _:
                    raise InternalError(f"a task answered with {kind!r}")
        if problems:
            raise problems[0]
        if dropped:
            raise _unfinished_error(request.number, "a task has answered for a different attempt")
        return reading, combine_results(request, results)


def _unfinished_error(number: int, text: str) -> Exception:
    """The error for a batch that Spark did not finish, from the text of Spark's exception."""
    lines = [line.strip() for line in text.splitlines() if "Exception: " in line]
    why = lines[0].split("Exception: ", 1)[1][:300] if lines else text[:300]
    if "Python worker exited unexpectedly" in text:
        why = "a Python worker of Spark was killed"
    message = f"batch {number} was not finished: {why}"
    hint = "What was committed before is unchanged. Run again to repeat the batch."
    return CheckpointError(f"error: {message}\n = hint: {hint}")


def balance_files(files: Iterable[InputFile], width: int) -> list[list[InputFile]]:
    """Files in groups of about the same size, the largest first."""
    groups: list[list[InputFile]] = [[] for _ in range(width)]
    sizes = [0] * width
    for file in sorted(files, key=lambda file: (-file.size, file.path)):
        least = sizes.index(min(sizes))
        groups[least].append(file)
        sizes[least] += file.size
    return [group for group in groups if group]
