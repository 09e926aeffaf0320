"""What the tasks of a stream do: a whole batch, its stages, merges, answers.

The functions run in Spark's Python workers, which import this module and little else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from incmrql.engine.batch import run_batch, write_answers
from incmrql.engine.inputs import InputFile
from incmrql.engine.loops.offload import TooLarge, content_bytes, content_of_bytes
from incmrql.engine.messages import BatchRequest, BatchResult, Reading
from incmrql.engine.stages import Route, Sent, meet_stage, read_stage
from incmrql.engine.store.compaction import CompactionTask, merge_runs
from incmrql.engine.store.segments import Opened
from incmrql.engine.store.tables import Reader, StateTable
from incmrql.errors import CheckpointError, DataError
from incmrql.plan.changes import NegativeWeight
from incmrql.spark.packing import SentProgram, read_compiled
from incmrql.spark.probe import prove

if TYPE_CHECKING:
    pass


REQUEST_PROPERTY: Final = "incmrql.request"
"""The property of a job that names its request."""


_SPREAD: Final = 0.3
"""Seconds that the first task of an executor waits, so that the others get one too."""


_RESULT: Final = pa.schema([("kind", pa.string()), ("text", pa.string())])


_SENT: Final = pa.schema(
    [("bucket", pa.int32()), ("name", pa.string()), ("data", pa.large_binary())]
)


def batch_task(sent: SentProgram, rows: Iterator[Any]) -> Iterator[tuple[str, str]]:
    """A whole batch in one task; the properties of the job name its request."""
    from pyspark import TaskContext

    for _ in rows:
        pass
    context = TaskContext.get()
    assert context is not None
    path = context.getLocalProperty(REQUEST_PROPERTY)
    assert path is not None

    def done() -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent)
        compiled = read_compiled(sent)
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        order = BatchRequest.of_json(found, compiled.physical.schemas)
        yield from _proofs(sent, order, order.files)
        reading, result = run_batch(compiled, order)
        yield "reading", reading.as_json()
        yield "done", result.as_json()

    for kind, found in _guarded(done):
        yield kind, json.dumps(found)


def merge_task(
    sent: SentProgram, text: str, runs: str, buckets: int, rows: Iterator[Any]
) -> Iterator[Any]:
    """The runs of a chore, merged."""
    for _ in rows:
        pass

    def merged() -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent)
        chore = CompactionTask.of_json(json.loads(text))
        schema = dict(read_compiled(sent).physical.schemas)[chore.table]
        run = merge_runs(
            chore, StateTable(chore.table, schema, buckets), Reader(Path(runs), Opened())
        )
        yield "merged", None if run is None else run.as_json()

    for kind, found in _unless_blind(merged):
        yield _answered(kind, json.dumps(found))


def write_answers_task(
    sent: SentProgram, text: str, sign: int, batches: Iterator[Any]
) -> Iterator[Any]:
    """The rows of answers in some buckets, written to the targets of an order."""
    compiled = read_compiled(sent)
    order = BatchRequest.of_json(json.loads(text), compiled.physical.schemas)

    def written(buckets: list[int]) -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent, order)
        yield "parts", [asdict(part) for part in write_answers(compiled, order, sign, buckets)]

    for batch in batches:
        for kind, found in _unless_blind(partial(written, batch.column(0).to_pylist())):
            yield _answered(kind, json.dumps(found))


def read_task(
    sent: SentProgram, text: str, groups: list[list[InputFile]], rows: Iterator[Any]
) -> Iterator[Any]:
    """Some files: what they bring to the steps above, cut by bucket."""
    compiled = read_compiled(sent)
    order = BatchRequest.of_json(json.loads(text), compiled.physical.schemas)

    def taken(number: int) -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent, order, groups[number])
        for found in read_stage(compiled, order, groups[number], is_one=number == 0):
            yield ("reading", found.as_json()) if isinstance(found, Reading) else ("", found)

    for batch in rows:
        for number in batch.column(0).to_pylist():
            for kind, found in _guarded(partial(taken, number)):
                yield _message(kind, found)


def meet_task(
    sent: SentProgram, text: str, stage: int, rows: Iterator[Any], *, is_last: bool
) -> Iterator[Any]:
    """What has met by bucket, bucket by bucket; what is for a later stage is passed on."""
    compiled = read_compiled(sent)
    order = BatchRequest.of_json(json.loads(text), compiled.physical.schemas)
    route = Route(compiled.physical)
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
                content = content_of_bytes(data, route.schema(whom))
                waiting.setdefault(bucket, []).append(Sent(bucket, whom, content))

    def met(bucket: int) -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent, order)
        for found in meet_stage(compiled, order, stage, bucket, waiting.pop(bucket)):
            yield ("done", found.as_json()) if isinstance(found, BatchResult) else ("", found)

    for bucket in sorted(waiting):
        for kind, found in _guarded(partial(met, bucket)):
            if is_last:
                yield _answered(kind, json.dumps(found))
            else:
                yield _message(kind, found)


class _Blind(Exception):
    """A process that does not see the checkpoint or an output; its proofs say which."""


def _proofs(
    sent: SentProgram, order: BatchRequest | None = None, files: Iterable[InputFile] = ()
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


def prove_task(sent: SentProgram, rows: Iterator[Any]) -> Iterator[tuple[str, str]]:
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
    except NegativeWeight as problem:
        yield "negative", str(problem)
    except TooLarge as request:
        yield "loop", request.args
