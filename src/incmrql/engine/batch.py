"""One batch in one task: read files, run the operators, write segments and outputs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from incmrql.engine.columns.rows import Rows, from_table, of_values
from incmrql.engine.compile.physical import Physical, PhysicalOutput
from incmrql.engine.context import BatchContext, environment
from incmrql.engine.inputs import BadRowWriter, InputFile, check_unchanged, checksum, read_file
from incmrql.engine.messages import (
    BagChange,
    BagSummary,
    BatchRequest,
    BatchResult,
    Part,
    Reading,
    Seconds,
)
from incmrql.engine.operators.answers import bucket_rows, whole_answer
from incmrql.engine.outputs import shown_values, write_part, write_values
from incmrql.engine.program import StepWork, run_steps
from incmrql.engine.progress import ProgressFile
from incmrql.engine.store.segments import OpenSegments, Segment, write_segments
from incmrql.engine.store.tables import Reader, StateTable, WritePlan, plan_writes
from incmrql.io.by_row import by_row_count
from incmrql.io.files import ANYWHERE, Paths
from incmrql.plan.program import Program, Stream
from incmrql.reference import Environment
from incmrql.storage.files import crash_here
from incmrql.types.model import PREDEFINED
from incmrql.values import Value, encode

OPEN_SEGMENTS = OpenSegments()
"""The segment files that this process has mapped."""


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A program, ready to run in tasks."""

    program: Program
    physical: Physical
    paths: Paths = ANYWHERE
    """The paths that tasks may read, checked once more: a listed file may have become a link."""

    def env(self) -> Environment:
        """The environment in which its expressions are evaluated."""
        return environment(self.program)


def run_batch(compiled: CompiledProgram, request: BatchRequest) -> tuple[Reading, BatchResult]:
    """Run a whole batch in this task."""
    reading = Reading(attempt=request.attempt)
    inputs: dict[int, list[Rows]] = {}
    bad, progress = BadRowWriter(request.quarantine, request.names), ProgressFile(request.progress)
    for file in request.files:
        rows = read_rows(compiled, file, reading, bad, progress)
        inputs.setdefault(file.place, []).extend(rows)
    progress.close()
    reading.quarantined = bad.close()
    crash_here("task-read", request.number)
    start = time.perf_counter()
    context = batch_context(compiled, request, request.tables)
    answers, worked = run_steps(compiled.physical, inputs, context)
    seconds = Seconds(read=reading.seconds, kernel=time.perf_counter() - start)
    result = finish(compiled, request, context, dict(enumerate(answers)), range(request.buckets))
    result.worked, result.seconds = worked, result.seconds + seconds
    return reading, result


def read_rows(
    compiled: CompiledProgram,
    file: InputFile,
    reading: Reading,
    bad: BadRowWriter | None = None,
    progress: ProgressFile | None = None,
) -> Iterator[Rows]:
    """The rows of a file; counts and notices go to `reading`, bad rows to `bad`."""
    start, by_row = time.perf_counter(), by_row_count()
    progress = progress or ProgressFile("")
    compiled.paths.check(file.path)
    stream = stream_at(compiled.program, file.place)
    script = compiled.program.script
    reading.checksums[file.path] = checksum(file)
    parser = script.parsers.get(stream.source.parser)
    is_kept = dict(stream.source.options).get("on_error", "quarantine") == "quarantine"
    for chunk in read_file(stream, script.data or PREDEFINED, file, parser):
        rows = from_table(chunk.table)
        reading.note(rows.weights, chunk.bad)
        if is_kept and bad is not None:
            bad.add(chunk.bad)
        reading.notice(file.place, chunk.noticed)
        progress.note(len(rows), chunk.size, file.size)
        reading.seconds += time.perf_counter() - start
        reading.by_row += by_row_count() - by_row
        if len(rows):
            yield rows
        start, by_row = time.perf_counter(), by_row_count()
    check_unchanged(file)
    progress.end_file(file.size)
    reading.seconds += time.perf_counter() - start


def stream_at(program: Program, place: int) -> Stream:
    """The source whose input is the node with this index."""
    return next(stream for stream in program.streams if stream.place == place)


def batch_context(
    compiled: CompiledProgram, request: BatchRequest, tables: Mapping[str, StateTable]
) -> BatchContext:
    """The execution context of a batch, over the tables that it starts from."""
    reader = Reader(Path(request.runs), OPEN_SEGMENTS)
    OPEN_SEGMENTS.keep(
        reader.folder, (segment for table in request.tables.values() for segment in table.segments)
    )
    return BatchContext(
        tables, reader, compiled.env(), request.is_first, offloading=request.offloading
    )


def finish(
    compiled: CompiledProgram,
    request: BatchRequest,
    context: BatchContext,
    answers: Mapping[int, Rows],
    buckets: Sequence[int],
    single: Iterable[str] = (),
) -> BatchResult:
    """Write segments of changed tables, and outputs; this task has all rows of `single` tables."""
    start = time.perf_counter()
    all_buckets, single = range(request.buckets), frozenset(single)
    plans = {
        name: plan_writes(
            context.committed_table(name),
            context.reader,
            content,
            request.number,
            all_buckets if name in single else buckets,
            request.limits,
        )
        for name, content in context.deltas.items()
    }
    task = uuid.uuid4().hex[:8]
    tables = _write_tables(request, plans, task)
    crash_here("task-runs", request.number)
    changed = [0] * len(compiled.physical.answers)
    for number, rows in answers.items():
        changed[number] = len(rows)
    watched = [
        _bag_change(compiled.physical.answers[number], answers.get(number))
        for number in range(len(compiled.program.outputs), len(compiled.physical.answers))
    ]
    after = {**context.tables, **tables}
    parts = list(_write_outputs(compiled, request, context, after, answers, buckets, task))
    crash_here("task-parts", request.number)
    rewritten = sum(plan.rewritten for plan in plans.values())
    seconds = Seconds(write=time.perf_counter() - start)
    return BatchResult(
        tables,
        parts,
        changed,
        watched,
        rewritten,
        StepWork([], [], [], []),
        seconds,
        list(buckets),
        sorted(single & tables.keys()),
        attempt=request.attempt,
    )


def _bag_change(answer: PhysicalOutput, rows: Rows | None) -> BagChange:
    """How a change of an answer, which is a bag, changes its size and its least row."""
    if rows is None or not len(rows):
        return BagChange()
    values = shown_values(rows, answer)
    if answer.output.part is None:  # the values are the whole bags before and after
        values = [(row, weight) for bag, weight in values for row in bag]
    came = (encode(value).hex() for value, weight in values if weight > 0)
    went = (encode(value).hex() for value, weight in values if weight < 0)
    net = sum(weight for _, weight in values)
    return BagChange(net, min(came, default=None), min(went, default=None))


def _write_tables(
    request: BatchRequest, plans: Mapping[str, WritePlan], task: str
) -> dict[str, StateTable]:
    """Write the planned segments, all in one file; returns the tables with them."""
    contents = [(w.content, w.counts) for plan in plans.values() for w in plan.written]
    segments: list[Segment] = []
    if contents:
        file = f"{request.number:06d}-{request.attempt}-{task}.run"
        try:
            segments = write_segments(Path(request.runs), file, contents)
        except OSError:
            (Path(request.runs) / file).unlink(missing_ok=True)
            raise
    tables = {}
    for name, plan in plans.items():
        new, segments = segments[: len(plan.written)], segments[len(plan.written) :]
        bases = tuple(s for s, w in zip(new, plan.written, strict=True) if w.base)
        levels = tuple(s for s, w in zip(new, plan.written, strict=True) if not w.base)
        tables[name] = plan.kept.with_segments(levels, bases)
    return tables


def _write_outputs(  # noqa: PLR0913, PLR0917 (everything that a batch has computed)
    compiled: CompiledProgram,
    request: BatchRequest,
    context: BatchContext,
    tables: Mapping[str, StateTable],
    answers: Mapping[int, Rows],
    buckets: Sequence[int],
    task: str,
) -> Iterator[Part]:
    """Write the changes of answers, or their new rows, to the targets of a request."""
    after = BatchContext(tables, context.reader, context.env, is_first=False)
    for number, target in enumerate(request.targets):
        if target.answer not in answers:
            continue
        answer = compiled.physical.answers[target.answer]
        folder, name = Path(target.folder), f"part-{task}-{number}"
        rows = answers[target.answer]
        if target.mode == "snapshot":
            if answer.is_single:
                value = whole_answer(answer, after)
                yield Part(number, *write_values(folder, name, answer, value, target.format))
                continue
            for bucket in buckets:
                whole = bucket_rows(answer, bucket, after)
                if len(whole):
                    shown = output_rows(answer, whole, context.env)
                    file = write_part(folder, f"{name}-{bucket}", answer, shown, target)
                    yield Part(number, *file)
        elif len(rows):
            shown = rows if target.mode == "rows" else output_rows(answer, rows, context.env)
            yield Part(number, *write_part(folder, name, answer, shown, target))


def write_answers(
    compiled: CompiledProgram, request: BatchRequest, buckets: Sequence[int]
) -> list[Part]:
    """Write all rows of answers to targets: as snapshots, or as changes that insert them."""
    context = batch_context(compiled, request, request.tables)
    task = uuid.uuid4().hex[:8]
    parts = []
    for number, target in enumerate(request.targets):
        answer, folder = compiled.physical.answers[target.answer], Path(target.folder)
        for bucket in buckets:
            name = f"part-{task}-{number}-{bucket}"
            if answer.is_single and target.mode == "snapshot":
                if bucket == 0:
                    value = whole_answer(answer, context)
                    written = write_values(folder, name, answer, value, target.format)
                    parts.append(Part(number, *written))
                continue
            rows = answer_rows(answer, bucket, context)
            if len(rows):
                parts.append(Part(number, *write_part(folder, name, answer, rows, target)))
    return parts


def answer_rows(answer: PhysicalOutput, bucket: int, context: BatchContext) -> Rows:
    """The rows of an answer in a bucket as readers see them; a list with positions.

    An answer in one place is in bucket 0.
    """
    if not answer.is_single:
        return output_rows(answer, bucket_rows(answer, bucket, context), context.env)
    value = whole_answer(answer, context) if bucket == 0 else None
    if answer.output.part is None:
        rows = of_values([(value, 1)] if bucket == 0 else [], answer.layout)
    else:
        placed = list(_with_positions(value or []))
        rows = of_values([(row, weight) for _, row, weight in placed], answer.layout)
        if answer.is_placed:
            rows = rows.with_columns(pa.array([place for place, _, _ in placed], pa.int64()))
    return output_rows(answer, rows, context.env)


def _with_positions(values: Iterable[Value]) -> Iterator[tuple[int, Value, int]]:
    """The elements of a list: equal ones in a row once, with the place of the first and a count."""
    place = 0
    for _, same in groupby(values, encode):
        row, *others = same
        yield place, row, 1 + len(others)
        place += 1 + len(others)


def output_rows(answer: PhysicalOutput, rows: Rows, env: Environment) -> Rows:
    """Rows of an answer with a column for each field, and the position in a list."""
    if answer.shown is None:
        return rows
    if not answer.is_placed:
        return answer.shown.apply(rows, env)
    values = Rows(rows.columns[:-1], rows.weights)
    return answer.shown.apply(values, env).with_columns(rows.columns[-1])


def answer_value(
    compiled: CompiledProgram, number: int, tables: Mapping[str, StateTable], runs: Path
) -> Value:
    """The whole answer as a value, computed from the state; it has to fit into memory."""
    context = BatchContext(tables, Reader(runs, OPEN_SEGMENTS), compiled.env(), is_first=False)
    return whole_answer(compiled.physical.answers[number], context)


def bag_rows(
    compiled: CompiledProgram,
    number: int,
    tables: Mapping[str, StateTable],
    runs: Path,
    buckets: Iterable[int] | None = None,
) -> Iterator[tuple[Value, int]]:
    """The rows of an answer that is a bag, with their weights, bucket by bucket.

    Equal rows may come from several buckets.  An answer in one place is in bucket 0.
    """
    context = BatchContext(tables, Reader(runs, OPEN_SEGMENTS), compiled.env(), is_first=False)
    answer = compiled.physical.answers[number]
    if buckets is None:
        buckets = range(max((table.buckets for table in tables.values()), default=1))
    for bucket in buckets:
        if not answer.is_single:
            yield from shown_values(bucket_rows(answer, bucket, context), answer)
        elif bucket == 0:
            yield from ((row, 1) for row in whole_answer(answer, context))


def summarize_bag(
    compiled: CompiledProgram,
    number: int,
    tables: Mapping[str, StateTable],
    runs: Path,
    buckets: Iterable[int] | None = None,
) -> BagSummary:
    """How many rows of an answer, which is a bag, are in some buckets or in all, and the least."""
    count, least = 0, None
    for value, weight in bag_rows(compiled, number, tables, runs, buckets):
        code = encode(value).hex()
        count += weight
        least = code if least is None else min(least, code)
    return BagSummary(count, least)


def rows_behind(answer: PhysicalOutput, tables: Mapping[str, StateTable]) -> int:
    """How many rows of state are read to list an answer that is kept in tables of its own."""
    names = {part.table for part in answer.parts if part.table is not None}
    return sum(tables[name].rows for name in names)
