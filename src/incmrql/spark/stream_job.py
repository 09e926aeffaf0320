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
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from incmrql.engine.batch import Kit, run_batch, write_answers
from incmrql.engine.inputs import InputFile
from incmrql.engine.loops.offload import Apart, TooLarge, content_bytes, content_of_bytes
from incmrql.engine.messages import Done, Order, Part, Reading, together
from incmrql.engine.stages import Route, Sent, meet_stage, read_stage
from incmrql.engine.store.compaction import Chore, merge_runs
from incmrql.engine.store.segments import Opened, Run
from incmrql.engine.store.tables import Reader, Table
from incmrql.errors import CheckpointError, DataError, InternalError
from incmrql.plan.changes import Negative
from incmrql.spark.batch.queries import with_runner
from incmrql.spark.clusters import is_local, watched
from incmrql.spark.internals import job_counts
from incmrql.spark.loops.placement import LOOP_ROWS, Offload, loop_named, most_rows
from incmrql.spark.packing import SentKit, kit_of, sent_kit
from incmrql.spark.probe import Proof, check_proofs, create_probe, prove
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
_REQUEST: Final = "incmrql.request"
"""The property of a job that names its request."""
_SETTINGS: Final = {
    "spark.sql.adaptive.enabled": "false",  # it adds jobs
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",  # what is sent is large
    "spark.sql.optimizer.singleTaskExecution.enabled": "true",
}
_SPREAD: Final = 0.3
"""Seconds that the first task of an executor waits, so that the others get one too."""
_RESULT: Final = pa.schema([("kind", pa.string()), ("text", pa.string())])
_SENT: Final = pa.schema(
    [("bucket", pa.int32()), ("name", pa.string()), ("data", pa.large_binary())]
)
_SENT_TYPE: Final = "bucket int, name string, data binary"


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a batch did, and what Spark ran for it."""

    reading: Reading
    done: Done
    jobs: int
    stages: int
    tasks: int


class StreamJob:
    """The job of a program, run batch by batch; `folder` is where requests wait for their tasks.

    Each attempt has a request file of its own, whose name travels with the job: two drivers on one
    checkpoint, or a task that comes late, can never run each other's requests.
    """

    def __init__(self, spark: SparkSession, kit: Kit, folder: Path, buckets: int) -> None:
        self.given, self.spark = spark, spark.newSession()
        for name, value in _SETTINGS.items():
            self.spark.conf.set(name, value)
        context = self.spark.sparkContext
        if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable  # the one that has this package
        self.kit, self.folder, self.buckets = kit, folder.absolute(), buckets
        self.route = Route(kit.physical)
        self.sent = sent_kit(kit)
        self.small = self._small()
        self.group = f"incmrql-{uuid.uuid4().hex[:8]}"

    def _small(self) -> RDD[tuple[str, str]]:
        """The job of small batches; not a frame: an action of Spark's SQL takes twice as long."""
        one = self.spark.sparkContext.parallelize([0], 1)
        return one.mapPartitions(partial(whole_task, self.sent))

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
        job = context.parallelize(range(tasks), tasks).mapPartitions(partial(_prove, self.sent))
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

    def run(self, order: Order, *, large: int = LARGE, loop_rows: int = LOOP_ROWS) -> JobResult:
        """Run a batch; problems that tasks met are raised."""
        context = self.spark.sparkContext
        group = f"{self.group}-{order.number}-{order.attempt}"
        context.setJobGroup(group, f"batch {order.number}")
        folder = self.folder / f"{LOOPS}{order.number:06d}-{order.attempt}"
        apart = Apart(str(folder), most_rows(self.kit, loop_rows))
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

    def _answers(self, order: Order, large: int) -> list[tuple[str, str]]:
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
                loop = loop_named(self.kit, name)
                given = (self.given, self.kit, self.sent, order, loop, inputs)
                ran.append(Offload(*given, with_runner).run())
            order = replace(order, apart=replace(order.apart, there=(*order.apart.there, *ran)))

    def _in_one_task(self, order: Order) -> list[tuple[str, str]]:
        """What the one task of a small batch says."""
        request = self.folder / f"{REQUEST}{order.number:06d}-{order.attempt}-{_token()}.json"
        create(request, json.dumps(order.as_json()).encode(), durable=False)
        try:
            self.spark.sparkContext.setLocalProperty(_REQUEST, str(request))
            return self.small.collect()
        finally:
            delete(request)

    def write_answers(self, order: Order, sign: int, kit: Kit | None = None) -> list[Part]:
        """Write all rows of answers to the targets of an order, as rows that come or go."""
        self._prepare()
        sent = self.sent if kit is None else replace(sent_kit(kit), probe=self.sent.probe)
        task = partial(_write_answers, sent, json.dumps(order.as_json()), sign)
        frame = self.spark.range(0, order.buckets, 1, order.buckets)
        rows = frame.mapInArrow(task, "kind string, text string").collect()
        self._check((row[0], row[1]) for row in rows)
        found = [json.loads(text) for kind, text in rows if kind == "parts"]
        return [Part(**part) for parts in found for part in parts]

    def compact(self, chore: Chore, runs: str) -> Run | None:
        """Merge the runs of a chore in a job of its own; may be called from another thread."""
        self._prepare()
        context = self.spark.sparkContext
        context.setJobGroup(f"{self.group}-merging", f"merging {chore.rows} rows")
        text = json.dumps(chore.as_json())
        task = partial(_merged, self.sent, text, runs, self.buckets)
        frame = self.spark.range(0, 1, 1, 1).mapInArrow(task, "kind string, text string")
        rows = [(row[0], row[1]) for row in frame.collect()]
        self._check(rows)
        made = json.loads(dict(rows)["merged"])
        return None if made is None else Run.of_json(made)

    def _in_stages(self, order: Order) -> DataFrame:
        """The plan of a large change: read by files, then meet by bucket, stage after stage."""
        width = max(2 * self.spark.sparkContext.defaultParallelism, 1)
        groups = balanced(order.files, width) or [[]]
        text = json.dumps(order.as_json())
        frame = self.spark.range(0, len(groups), 1, len(groups)).mapInArrow(
            partial(_take, self.sent, text, groups), _SENT_TYPE
        )
        for stage in range(1, self.route.last + 1):
            is_last = stage == self.route.last
            frame = frame.repartition(order.buckets, "bucket").mapInArrow(
                partial(_meet, self.sent, text, stage, is_last=is_last),
                "kind string, text string" if is_last else _SENT_TYPE,
            )
        return frame

    def _read(self, rows: list[tuple[str, str]], order: Order) -> tuple[Reading, Done]:
        """The results of all tasks as one; a refusal comes before what may follow from it."""
        reading = Reading()
        results: list[Done] = []
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
                    results.append(Done.of_json(found, self.kit.physical.forms, order.buckets))
                case "data-error":
                    problems.insert(0, DataError(**found))
                case "checkpoint-error":
                    problems.append(CheckpointError(found))
                case "negative":
                    problems.append(_trusted(self.kit, found))
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


def _trusted(kit: Kit, problem: str) -> Exception:
    """What is wrong where deletions are trusted: one of them was of a row that is not there."""
    names = [s.name for s in kit.program.streams if s.streaming and not s.ledger]
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


# --- inside tasks --------------------------------------------------------------------------


def whole_task(sent: SentKit, rows: Iterator[Any]) -> Iterator[tuple[str, str]]:
    """A whole batch in one task; the properties of the job name its request."""
    from pyspark import TaskContext

    for _ in rows:
        pass
    context = TaskContext.get()
    assert context is not None
    path = context.getLocalProperty(_REQUEST)
    assert path is not None

    def done() -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent)
        kit = kit_of(sent)
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        order = Order.of_json(found, kit.physical.forms)
        yield from _proofs(sent, order, order.files)
        reading, result = run_batch(kit, order)
        yield "reading", reading.as_json()
        yield "done", result.as_json()

    for kind, found in _guarded(done):
        yield kind, json.dumps(found)


def _merged(
    sent: SentKit, text: str, runs: str, buckets: int, rows: Iterator[Any]
) -> Iterator[Any]:
    """The runs of a chore, merged."""
    for _ in rows:
        pass

    def merged() -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent)
        chore = Chore.of_json(json.loads(text))
        form = dict(kit_of(sent).physical.forms)[chore.table]
        run = merge_runs(chore, Table(chore.table, form, buckets), Reader(Path(runs), Opened()))
        yield "merged", None if run is None else run.as_json()

    for kind, found in _unless_blind(merged):
        yield _answered(kind, json.dumps(found))


def _write_answers(sent: SentKit, text: str, sign: int, batches: Iterator[Any]) -> Iterator[Any]:
    """The rows of answers in some buckets, written to the targets of an order."""
    kit = kit_of(sent)
    order = Order.of_json(json.loads(text), kit.physical.forms)

    def written(buckets: list[int]) -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent, order)
        yield "parts", [asdict(part) for part in write_answers(kit, order, sign, buckets)]

    for batch in batches:
        for kind, found in _unless_blind(partial(written, batch.column(0).to_pylist())):
            yield _answered(kind, json.dumps(found))


def _take(
    sent: SentKit, text: str, groups: list[list[InputFile]], rows: Iterator[Any]
) -> Iterator[Any]:
    """Some files: what they bring to the steps above, cut by bucket."""
    kit = kit_of(sent)
    order = Order.of_json(json.loads(text), kit.physical.forms)

    def taken(number: int) -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent, order, groups[number])
        for found in read_stage(kit, order, groups[number], is_one=number == 0):
            yield ("reading", found.as_json()) if isinstance(found, Reading) else ("", found)

    for batch in rows:
        for number in batch.column(0).to_pylist():
            for kind, found in _guarded(partial(taken, number)):
                yield _message(kind, found)


def _meet(
    sent: SentKit, text: str, stage: int, rows: Iterator[Any], *, is_last: bool
) -> Iterator[Any]:
    """What has met by bucket, bucket by bucket; what is for a later stage is passed on."""
    kit = kit_of(sent)
    order = Order.of_json(json.loads(text), kit.physical.forms)
    route = Route(kit.physical)
    waiting: dict[int, list[Sent]] = {}
    for batch in rows:
        for bucket, name, data in zip(*[c.to_pylist() for c in batch.columns], strict=True):
            if bucket < 0:
                yield _answered(name, data.decode()) if is_last else _row(-1, name, data)
                continue
            kind, number, slot = name.split(" ")
            whom = (kind, int(number), int(slot))
            if route.stage(whom) > stage:
                yield _row(bucket, name, data)
            else:
                content = content_of_bytes(data, route.form(whom))
                waiting.setdefault(bucket, []).append(Sent(bucket, whom, content))

    def met(bucket: int) -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent, order)
        for found in meet_stage(kit, order, stage, bucket, waiting.pop(bucket)):
            yield ("done", found.as_json()) if isinstance(found, Done) else ("", found)

    for bucket in sorted(waiting):
        for kind, found in _guarded(partial(met, bucket)):
            if is_last:
                yield _answered(kind, json.dumps(found))
            else:
                yield _message(kind, found)


class _Blind(Exception):
    """A process that does not see the checkpoint or an output; its proofs say which."""


def _proofs(
    sent: SentKit, order: Order | None = None, files: Iterable[InputFile] = ()
) -> Iterator[tuple[str, Any]]:
    """What this process proves before it reads and writes, if it has not proved it."""
    if sent.probe is None:
        return
    # the changes that are kept for the driver itself are in the checkpoint, as are spools
    targets = [each.folder for each in order.targets if each.mode != "rows"] if order else []
    sources = [file for file in files if file.kind == "file"]
    for proof in prove(sent.probe, targets, sources):
        yield "proof", asdict(proof)
        if proof.problem and proof.kind != "source":
            raise _Blind


def _prove(sent: SentKit, rows: Iterator[Any]) -> Iterator[tuple[str, str]]:
    """What an executor sees of the checkpoint; slow enough for each executor to get a task."""
    for _ in rows:
        time.sleep(_SPREAD)
    for kind, found in _unless_blind(partial(_proofs, sent)):
        yield kind, json.dumps(found)


def _unless_blind(run: Callable[[], Iterator[tuple[str, Any]]]) -> Iterator[tuple[str, Any]]:
    """What a task makes, up to where it sees that its storage is not the driver's."""
    try:
        yield from run()
    except _Blind:
        return


def _message(kind: str, found: Any) -> Any:
    """What is sent on: a content to its bucket, or a result."""
    if isinstance(found, Sent):
        return _row(found.bucket, " ".join(map(str, found.name)), content_bytes(found.content))
    return _row(-1, kind, json.dumps(found).encode())


def _row(bucket: int, name: str, data: bytes) -> Any:
    return pa.record_batch([[bucket], [name], [data]], schema=_SENT)


def _answered(kind: str, text: str) -> Any:
    return pa.record_batch([[kind], [text]], schema=_RESULT)


def _guarded(run: Callable[[], Iterator[tuple[str, Any]]]) -> Iterator[tuple[str, Any]]:
    """What a task makes; problems of data and checkpoint as results too."""
    try:
        yield from _unless_blind(run)
    except DataError as problem:
        names = ("code", "message", "place", "hint")
        yield "data-error", {name: getattr(problem, name) for name in names}
    except CheckpointError as problem:
        yield "checkpoint-error", str(problem)
    except Negative as problem:
        yield "negative", str(problem)
    except TooLarge as request:
        yield "loop", request.args
