"""One batch in one place: files are read, the steps run, runs and outputs are written."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from incmrql.engine.columns.rows import Rows, from_table, of_values
from incmrql.engine.compile.physical import Answer, Physical
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
from incmrql.engine.program import Worked, run_steps
from incmrql.engine.store.segments import OpenSegments, Segment, write_segments
from incmrql.engine.store.tables import Reader, StateTable, WritePlan, plan_writes
from incmrql.io.files import ANYWHERE, Paths
from incmrql.plan.program import Program, Stream
from incmrql.reference import Environment
from incmrql.storage.files import crash_here
from incmrql.types.model import PREDEFINED
from incmrql.values import Value, encode

OPEN_SEGMENTS = OpenSegments()
"""The open maps of this process."""


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A program, ready to run in tasks."""

    program: Program
    physical: Physical
    paths: Paths = ANYWHERE
    """Which files tasks may read: a file may have become a link since it was listed."""

    def env(self) -> Environment:
        """Where its expressions are evaluated."""
        return environment(self.program)


def run_batch(compiled: CompiledProgram, order: BatchRequest) -> tuple[Reading, BatchResult]:
    """A whole batch."""
    reading = Reading(attempt=order.attempt)
    given: dict[int, list[Rows]] = {}
    bad = BadRowWriter(order.quarantine, order.names)
    for file in order.files:
        given.setdefault(file.place, []).extend(read_rows(compiled, file, reading, bad))
    reading.quarantined = bad.close()
    crash_here("task-read", order.number)
    start = time.perf_counter()
    context = batch_context(compiled, order, order.tables)
    answers, worked = run_steps(compiled.physical, given, context)
    seconds = Seconds(read=reading.seconds, kernel=time.perf_counter() - start)
    done = finish(compiled, order, context, dict(enumerate(answers)), range(order.buckets))
    done.worked, done.seconds = worked, done.seconds + seconds
    return reading, done


def read_rows(
    compiled: CompiledProgram, file: InputFile, reading: Reading, bad: BadRowWriter | None = None
) -> Iterator[Rows]:
    """The rows of a file; what is noticed on the way goes to `reading`, bad rows to `bad`."""
    start = time.perf_counter()
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
        reading.seconds += time.perf_counter() - start
        if len(rows):
            yield rows
        start = time.perf_counter()
    check_unchanged(file)
    reading.seconds += time.perf_counter() - start


def stream_at(program: Program, place: int) -> Stream:
    """The source whose input stands at a place."""
    return next(stream for stream in program.streams if stream.place == place)


def batch_context(
    compiled: CompiledProgram, order: BatchRequest, tables: Mapping[str, StateTable]
) -> BatchContext:
    """The state before a batch, as steps see it."""
    reader = Reader(Path(order.runs), OPEN_SEGMENTS)
    OPEN_SEGMENTS.keep(
        reader.folder, (segment for table in order.tables.values() for segment in table.segments)
    )
    return BatchContext(tables, reader, compiled.env(), order.is_first, offloading=order.offloading)


def finish(
    compiled: CompiledProgram,
    order: BatchRequest,
    context: BatchContext,
    answers: Mapping[int, Rows],
    buckets: Sequence[int],
    single: Iterable[str] = (),
) -> BatchResult:
    """Write the runs of what changed, and the outputs; `single` tables are wholly here."""
    start = time.perf_counter()
    everything, alone = range(order.buckets), frozenset(single)
    plans = {
        name: plan_writes(
            context.committed(name),
            context.reader,
            content,
            order.number,
            everything if name in alone else buckets,
            order.limits,
        )
        for name, content in context.deltas.items()
    }
    task = uuid.uuid4().hex[:8]
    tables = _written(order, plans, task)
    crash_here("task-runs", order.number)
    changed = [0] * len(compiled.physical.answers)
    for number, rows in answers.items():
        changed[number] = len(rows)
    watched = [
        _bag_change(compiled.physical.answers[number], answers.get(number))
        for number in range(len(compiled.program.outputs), len(compiled.physical.answers))
    ]
    after = {**context.tables, **tables}
    parts = list(_outputs(compiled, order, context, after, answers, buckets, task))
    crash_here("task-parts", order.number)
    rewritten = sum(each.rewritten for each in plans.values())
    seconds = Seconds(write=time.perf_counter() - start)
    return BatchResult(
        tables,
        parts,
        changed,
        watched,
        rewritten,
        Worked([], [], []),
        seconds,
        list(buckets),
        sorted(alone & tables.keys()),
        attempt=order.attempt,
    )


def _bag_change(answer: Answer, rows: Rows | None) -> BagChange:
    """What a change of an answer, which is a bag, does to its size and to its least row."""
    if rows is None or not len(rows):
        return BagChange()
    values = shown_values(rows, answer)
    if answer.output.part is None:  # the whole bag as it was, and as it is
        values = [(row, weight) for bag, weight in values for row in bag]
    came = (encode(value).hex() for value, weight in values if weight > 0)
    went = (encode(value).hex() for value, weight in values if weight < 0)
    net = sum(weight for _, weight in values)
    return BagChange(net, min(came, default=None), min(went, default=None))


def _written(
    order: BatchRequest, plans: Mapping[str, WritePlan], task: str
) -> dict[str, StateTable]:
    """Write what the plans say, all in one file; the tables with the new runs."""
    contents = [(w.content, w.counts) for each in plans.values() for w in each.written]
    runs: list[Segment] = []
    if contents:
        file = f"{order.number:06d}-{order.attempt}-{task}.run"
        try:
            runs = write_segments(Path(order.runs), file, contents)
        except OSError:
            (Path(order.runs) / file).unlink(missing_ok=True)
            raise
    tables = {}
    for name, each in plans.items():
        new, runs = runs[: len(each.written)], runs[len(each.written) :]
        bases = tuple(r for r, w in zip(new, each.written, strict=True) if w.base)
        levels = tuple(r for r, w in zip(new, each.written, strict=True) if not w.base)
        tables[name] = each.kept.with_segments(levels, bases)
    return tables


def _outputs(  # noqa: PLR0913, PLR0917 (all that a batch has made)
    compiled: CompiledProgram,
    order: BatchRequest,
    context: BatchContext,
    tables: Mapping[str, StateTable],
    answers: Mapping[int, Rows],
    buckets: Sequence[int],
    task: str,
) -> Iterator[Part]:
    after = BatchContext(tables, context.reader, context.env, is_first=False)
    for number, target in enumerate(order.targets):
        if target.answer not in answers:
            continue
        answer = compiled.physical.answers[target.answer]
        folder, name = Path(target.folder), f"part-{task}-{number}"
        rows = answers[target.answer]
        if target.mode == "snapshot":
            if answer.is_single:
                value = whole_answer(answer, after)
                found = write_values(folder, name, answer, value, target.format)
                yield Part(number, *found)
                continue
            for bucket in buckets:
                whole = bucket_rows(answer, bucket, after)
                if len(whole):
                    shown = _shown(answer, whole, context.env)
                    how = f"{name}-{bucket}"
                    found = write_part(folder, how, answer, shown, target)
                    yield Part(number, *found)
        elif len(rows):
            shown = rows if target.mode == "rows" else _shown(answer, rows, context.env)
            yield Part(number, *write_part(folder, name, answer, shown, target))


def write_answers(
    compiled: CompiledProgram, order: BatchRequest, buckets: Sequence[int]
) -> list[Part]:
    """Write all rows of answers to targets: as they are, or as changes that insert them."""
    context = batch_context(compiled, order, order.tables)
    task = uuid.uuid4().hex[:8]
    parts = []
    for number, target in enumerate(order.targets):
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


def answer_rows(answer: Answer, bucket: int, context: BatchContext) -> Rows:
    """The rows of an answer in a bucket as readers see them; a list with positions.

    An answer in one place is in bucket 0.
    """
    if not answer.is_single:
        return _shown(answer, bucket_rows(answer, bucket, context), context.env)
    value = whole_answer(answer, context) if bucket == 0 else None
    if answer.output.part is None:
        rows = of_values([(value, 1)] if bucket == 0 else [], answer.layout)
    else:
        placed = list(_placed(value or []))
        rows = of_values([(row, weight) for _, row, weight in placed], answer.layout)
        if answer.is_placed:
            rows = rows.with_columns(pa.array([place for place, _, _ in placed], pa.int64()))
    return _shown(answer, rows, context.env)


def _placed(values: Iterable[Value]) -> Iterator[tuple[int, Value, int]]:
    """The elements of a list: equal ones in a row once, with the place of the first and a count."""
    place = 0
    for _, same in groupby(values, encode):
        row, *others = same
        yield place, row, 1 + len(others)
        place += 1 + len(others)


def _shown(answer: Answer, rows: Rows, env: Environment) -> Rows:
    if answer.shown is None:
        return rows
    if not answer.is_placed:
        return answer.shown.apply(rows, env)
    values = Rows(rows.columns[:-1], rows.weights)
    return answer.shown.apply(values, env).with_columns(rows.columns[-1])


def answer_value(
    compiled: CompiledProgram, number: int, tables: Mapping[str, StateTable], runs: Path
) -> Value:
    """The whole of an answer as a value, from the state; it has to fit into memory."""
    context = BatchContext(tables, Reader(runs, OPEN_SEGMENTS), compiled.env(), is_first=False)
    return whole_answer(compiled.physical.answers[number], context)


def bag_rows(
    compiled: CompiledProgram,
    number: int,
    tables: Mapping[str, StateTable],
    runs: Path,
    buckets: Iterable[int] | None = None,
) -> Iterator[tuple[Value, int]]:
    """The rows of an answer that is a bag, with how often each is there, bucket by bucket.

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


def rows_behind(answer: Answer, tables: Mapping[str, StateTable]) -> int:
    """How many rows of state are read to list an answer that is kept in tables of its own."""
    names = {part.table for part in answer.parts if part.table is not None}
    return sum(tables[name].rows for name in names)
