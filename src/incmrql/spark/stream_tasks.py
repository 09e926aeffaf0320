"""The tasks of a stream: a whole batch, one stage of a batch, a compaction, writing answers.

These functions run in Spark's Python workers, which import this module and little else.  They
yield messages, each a kind with a text or JSON data, which `stream_job` reads.  Problems are
messages too: an exception would fail the job and lose its code and hint.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from incmrql.engine.batch import run_batch, summarize_bag, write_answers
from incmrql.engine.inputs import InputFile
from incmrql.engine.loops.offload import LoopTooLarge, rows_from_bytes, rows_to_bytes
from incmrql.engine.messages import BatchRequest, BatchResult, Reading
from incmrql.engine.replacement import cut_answers, shown_schema, write_differences
from incmrql.engine.stages import Message, Route, meet_stage, read_stage
from incmrql.engine.store.compaction import CompactionTask, run_compaction
from incmrql.engine.store.content import SortedRows
from incmrql.engine.store.segments import OpenSegments
from incmrql.engine.store.tables import Reader, StateTable
from incmrql.errors import CheckpointError, DataError
from incmrql.plan.changes import NegativeWeight
from incmrql.spark.packing import SentProgram, load_program
from incmrql.spark.probe import prove

REQUEST_PROPERTY: Final = "incmrql.request"
"""The property of a job that names its request file."""
_SPREAD: Final = 0.3
"""Seconds that each task of the first job sleeps, so that every executor gets one."""
_RESULT: Final = pa.schema([("kind", pa.string()), ("text", pa.string())])
_SENT: Final = pa.schema(
    [("bucket", pa.int32()), ("name", pa.string()), ("data", pa.large_binary())]
)


def batch_task(sent: SentProgram, rows: Iterator[Any]) -> Iterator[tuple[str, str]]:
    """Run a whole batch in one task."""
    from pyspark import TaskContext

    for _ in rows:
        pass
    context = TaskContext.get()
    assert context is not None
    path = context.getLocalProperty(REQUEST_PROPERTY)
    assert path is not None

    def batch() -> Iterator[tuple[str, Any]]:
        # Prove the checkpoint first: the request file lies in it.
        yield from _proofs(sent)
        compiled = load_program(sent)
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        request = BatchRequest.of_json(data, compiled.physical.schemas)
        yield from _proofs(sent, request, request.files)
        reading, result = run_batch(compiled, request)
        yield "reading", reading.as_json()
        yield "done", result.as_json()

    for kind, data in _report_problems(batch):
        yield kind, json.dumps(data)


def merge_task(
    sent: SentProgram, text: str, runs: str, buckets: int, rows: Iterator[Any]
) -> Iterator[Any]:
    """Merge the segments that a compaction names."""
    for _ in rows:
        pass

    def merge_segments() -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent)
        task = CompactionTask.of_json(json.loads(text))
        schema = dict(load_program(sent).physical.schemas)[task.table]
        segment = run_compaction(
            task, StateTable(task.table, schema, buckets), Reader(Path(runs), OpenSegments())
        )
        yield "merged", None if segment is None else segment.as_json()

    for kind, data in _until_not_shared(merge_segments):
        yield _result_row(kind, json.dumps(data))


def write_answers_task(sent: SentProgram, text: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Write the rows of answers in some buckets to the targets of a request."""
    compiled = load_program(sent)
    request = BatchRequest.of_json(json.loads(text), compiled.physical.schemas)

    def parts(buckets: list[int]) -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent, request)
        yield "parts", [asdict(part) for part in write_answers(compiled, request, buckets)]

    for batch in batches:
        for kind, data in _report_problems(partial(parts, batch.column(0).to_pylist())):
            yield _result_row(kind, json.dumps(data))


def cut_answers_task(
    sent: SentProgram, text: str, places: list[int], sign: int, batches: Iterator[Any]
) -> Iterator[Any]:
    """The rows of answers in some buckets, cut by their own hash; named by their target."""
    compiled = load_program(sent)
    request = BatchRequest.of_json(json.loads(text), compiled.physical.schemas)

    def cut(bucket: int) -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent)
        for place, new_bucket, content in cut_answers(compiled, request, places, sign, bucket):
            yield "", _row(new_bucket, str(place), rows_to_bytes(content))

    for batch in batches:
        for bucket in batch.column(0).to_pylist():
            for kind, output in _report_problems(partial(cut, bucket)):
                yield _row(-1, kind, json.dumps(output).encode()) if kind else output


def write_differences_task(sent: SentProgram, text: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Write what is left of the rows that were cut, when equal ones are added up."""
    compiled = load_program(sent)
    request = BatchRequest.of_json(json.loads(text), compiled.physical.schemas)
    contents: dict[tuple[int, int], list[SortedRows]] = {}
    for batch in batches:
        for bucket, name, data in zip(*[c.to_pylist() for c in batch.columns], strict=True):
            if bucket < 0:
                yield _result_row(name, data.decode())
                continue
            answer = compiled.physical.answers[request.targets[int(name)].answer]
            content = rows_from_bytes(data, shown_schema(answer))
            contents.setdefault((int(name), bucket), []).append(content)

    def parts() -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent, request)
        yield "parts", [asdict(part) for part in write_differences(compiled, request, contents)]

    for kind, data in _report_problems(parts) if contents else ():
        yield _result_row(kind, json.dumps(data))


def summarize_task(
    sent: SentProgram, text: str, numbers: list[int], batches: Iterator[Any]
) -> Iterator[Any]:
    """The sizes and least rows of some answers, which are bags, in some buckets."""
    compiled = load_program(sent)
    request = BatchRequest.of_json(json.loads(text), compiled.physical.schemas)

    def summaries(buckets: list[int]) -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent)
        for number in numbers:
            summary = summarize_bag(compiled, number, request.tables, Path(request.runs), buckets)
            yield "summary", {"number": number, **asdict(summary)}

    for batch in batches:
        for kind, data in _report_problems(partial(summaries, batch.column(0).to_pylist())):
            yield _result_row(kind, json.dumps(data))


def read_task(
    sent: SentProgram, text: str, groups: list[list[InputFile]], rows: Iterator[Any]
) -> Iterator[Any]:
    """Read some groups of files; yields what they bring to stateful operators, split by bucket."""
    compiled = load_program(sent)
    request = BatchRequest.of_json(json.loads(text), compiled.physical.schemas)

    def group(number: int) -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent, request, groups[number])
        for output in read_stage(compiled, request, groups[number], is_one=number == 0):
            yield ("reading", output.as_json()) if isinstance(output, Reading) else ("", output)

    for batch in rows:
        for number in batch.column(0).to_pylist():
            for kind, output in _report_problems(partial(group, number)):
                yield _sent_row(kind, output)


def meet_task(
    sent: SentProgram, text: str, stage: int, rows: Iterator[Any], *, is_last: bool
) -> Iterator[Any]:
    """Run one stage on the buckets of this task; forwards rows that belong to a later stage."""
    compiled = load_program(sent)
    request = BatchRequest.of_json(json.loads(text), compiled.physical.schemas)
    route = Route(compiled.physical)
    waiting: dict[int, list[Message]] = {}
    for batch in rows:
        for bucket, name, data in zip(*[c.to_pylist() for c in batch.columns], strict=True):
            if bucket < 0:
                yield _result_row(name, data.decode()) if is_last else _row(-1, name, data)
                continue
            kind, number, slot = name.split(" ")
            target = (kind, int(number), int(slot))
            if route.stage(target) > stage:
                yield _row(bucket, name, data)
            else:
                content = rows_from_bytes(data, route.schema(target))
                waiting.setdefault(bucket, []).append(Message(bucket, target, content))

    def meet(bucket: int) -> Iterator[tuple[str, Any]]:
        yield from _proofs(sent, request)
        for output in meet_stage(compiled, request, stage, bucket, waiting.pop(bucket)):
            yield ("done", output.as_json()) if isinstance(output, BatchResult) else ("", output)

    for bucket in sorted(waiting):
        for kind, output in _report_problems(partial(meet, bucket)):
            if is_last:
                yield _result_row(kind, json.dumps(output))
            else:
                yield _sent_row(kind, output)


class _StorageNotShared(Exception):
    """The checkpoint or an output is invisible to this process; its proofs say which."""


def _proofs(
    sent: SentProgram, request: BatchRequest | None = None, files: Iterable[InputFile] = ()
) -> Iterator[tuple[str, Any]]:
    """Proofs that this process sees what it reads and writes, each only once per process.

    Targets of mode `rows` and spooled files lie in the checkpoint, which has a proof of its own.
    """
    if sent.probe is None:
        return
    targets = [t.folder for t in request.targets if t.mode != "rows"] if request else []
    sources = [file for file in files if file.kind == "file"]
    for proof in prove(sent.probe, targets, sources):
        yield "proof", asdict(proof)
        if proof.problem and proof.kind != "source":
            raise _StorageNotShared


def prove_task(sent: SentProgram, rows: Iterator[Any]) -> Iterator[tuple[str, str]]:
    """Prove that this executor sees the checkpoint."""
    for _ in rows:
        time.sleep(_SPREAD)
    for kind, data in _until_not_shared(partial(_proofs, sent)):
        yield kind, json.dumps(data)


def _until_not_shared(run: Callable[[], Iterator[tuple[str, Any]]]) -> Iterator[tuple[str, Any]]:
    """The messages of a task, until a proof shows that its storage is not the driver's."""
    try:
        yield from run()
    except _StorageNotShared:
        return


def _sent_row(kind: str, output: Any) -> Any:
    """A message of a stage before the last: rows for a bucket, or with bucket -1 a result."""
    if isinstance(output, Message):
        return _row(output.bucket, " ".join(map(str, output.name)), rows_to_bytes(output.content))
    return _row(-1, kind, json.dumps(output).encode())


def _row(bucket: int, name: str, data: bytes) -> Any:
    return pa.record_batch([[bucket], [name], [data]], schema=_SENT)


def _result_row(kind: str, text: str) -> Any:
    return pa.record_batch([[kind], [text]], schema=_RESULT)


def _report_problems(run: Callable[[], Iterator[tuple[str, Any]]]) -> Iterator[tuple[str, Any]]:
    """The messages of a task, with problems of data and checkpoint turned into messages."""
    try:
        yield from _until_not_shared(run)
    except DataError as problem:
        names = ("code", "message", "place", "hint")
        yield "data-error", {name: getattr(problem, name) for name in names}
    except CheckpointError as problem:
        yield "checkpoint-error", str(problem)
    except NegativeWeight as problem:
        yield "negative", str(problem)
    except LoopTooLarge as problem:
        yield "loop", problem.args
