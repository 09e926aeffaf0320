"""The kernel, batch by batch over state tables in a folder: in one place, or in stages."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from incmrql.engine.batch import CompiledProgram, run_batch
from incmrql.engine.columns.rows import Rows, of_values
from incmrql.engine.compile.physical import Physical
from incmrql.engine.compile.program import compile_program
from incmrql.engine.context import BatchContext, environment
from incmrql.engine.inputs import InputFile
from incmrql.engine.loops.offload import rows_from_bytes, rows_to_bytes
from incmrql.engine.messages import BatchRequest, BatchResult, Reading, Target, combine_results
from incmrql.engine.operators.answers import whole_answer
from incmrql.engine.operators.source import SourceOp
from incmrql.engine.outputs import read_rows, shown_values
from incmrql.engine.program import StepWork, run_steps
from incmrql.engine.stages import Message, Route, meet_stage, read_stage
from incmrql.engine.store.segments import OpenSegments, write_segments
from incmrql.engine.store.tables import Reader, StateTable, plan_writes, scan
from incmrql.io.spools import write_spool
from incmrql.plan.changes import Weighted
from incmrql.plan.program import Program
from incmrql.values import Value
from tests.plan.stepping import Batch


class KernelRun:
    """A program in the kernel, in one place; rows are given as they are."""

    def __init__(
        self, program: Program, folder: Path, buckets: int = 2, physical: Physical | None = None
    ) -> None:
        self.program, self.folder, self.buckets = program, folder, buckets
        folder.mkdir(parents=True, exist_ok=True)
        self.physical = physical or compile_program(program)
        self.tables = {
            name: StateTable(name, schema, buckets) for name, schema in self.physical.schemas
        }
        self.reader = Reader(folder, OpenSegments())
        self.env = environment(program)
        self.number = 0
        self.worked = StepWork.of(0)
        self.streams = {
            step.stream.name: place
            for place, step in enumerate(self.physical.steps)
            if isinstance(step, SourceOp)
        }

    def step(
        self, batch: Batch, fixed: Mapping[str, Collection[Value]] | None = None
    ) -> list[Weighted]:
        """One batch, with the rows of sources that do not change in the first; what it changes."""
        given = {}
        for name, rows in self.rows(batch, fixed or {}).items():
            step = self.physical.steps[self.streams[name]]
            assert isinstance(step, SourceOp)
            given[self.streams[name]] = [of_values(rows, step.layout)]
        return self.weighted_answers(self.run(given))

    def rows(
        self, batch: Batch, fixed: Mapping[str, Collection[Value]]
    ) -> dict[str, list[tuple[Value, int]]]:
        """The changes of the sources that the program reads."""
        sources = {name: list(Weighted(rows)) for name, rows in batch.items()}
        if self.number == 0:
            sources.update({name: [(row, 1) for row in rows] for name, rows in fixed.items()})
        return {name: rows for name, rows in sources.items() if name in self.streams}

    def run(self, given: Mapping[int, Sequence[Rows]]) -> list[Rows]:
        """One batch of rows, by the places of the sources."""
        context = BatchContext(self.tables, self.reader, self.env, is_first=self.number == 0)
        changes, self.worked = run_steps(self.physical, given, context)
        self._write(context)
        self.number += 1
        return changes

    def weighted_answers(self, changes: Sequence[Rows]) -> list[Weighted]:
        answers = zip(changes, self.physical.answers, strict=True)
        return [Weighted(shown_values(rows, answer)) for rows, answer in answers]

    def _write(self, context: BatchContext) -> None:
        everything = range(self.buckets)
        for name, content in context.deltas.items():
            writes = plan_writes(
                context.committed_table(name), self.reader, content, self.number, everything
            )
            contents = [(segment.content, segment.counts) for segment in writes.written]
            runs = (
                write_segments(self.folder, f"{uuid.uuid4().hex}.run", contents) if contents else []
            )
            bases = [r for r, w in zip(runs, writes.written, strict=True) if w.base]
            levels = [r for r, w in zip(runs, writes.written, strict=True) if not w.base]
            self.tables[name] = writes.kept.with_segments(levels, bases)

    def answer(self, number: int = 0) -> Value:
        """The whole answer, from the state."""
        context = BatchContext(self.tables, self.reader, self.env, is_first=False)
        return whole_answer(self.physical.answers[number], context)

    def state(self) -> dict[str, list[Any]]:
        """The content of all tables, merged, bucket by bucket."""
        return {
            name: [_plain(scan(table, self.reader, b)) for b in range(self.buckets)]
            for name, table in self.tables.items()
        }


def _plain(content: Any) -> Any:
    places = np.arange(len(content))
    return (
        content.hashes.tolist(),
        content.keys.key_bytes().bytes_at(places),
        content.rest.key_bytes().bytes_at(places) if content.rest.columns else [],
        content.weights.tolist(),
        {name: column.tolist() for name, column in content.parts.items() if column.any()},
    )


class FileRun(KernelRun):
    """The same from files, in one place or in stages, as tasks do it."""

    def step(
        self, batch: Batch, fixed: Mapping[str, Collection[Value]] | None = None
    ) -> list[Weighted]:
        files = []
        for name, rows in self.rows(batch, fixed or {}).items():
            step = self.physical.steps[self.streams[name]]
            assert isinstance(step, SourceOp)
            for half in (rows[::2], rows[1::2]):
                path = self.folder / f"{uuid.uuid4().hex}.arrow"
                write_spool(path, step.stream.element, half)
                stat = path.stat()
                place = self.streams[name]
                file = InputFile(str(path), stat.st_size, stat.st_mtime_ns, place, kind="spool")
                files.append(file)
        targets = tuple(
            Target(n, str(self.folder), "rows") for n in range(len(self.physical.answers))
        )
        order = BatchRequest(
            self.number, uuid.uuid4().hex[:8], tuple(files), self.tables, self.buckets,
            str(self.folder), targets, is_first=self.number == 0,
        )  # fmt: skip
        _, done = self.execute(CompiledProgram(self.program, self.physical), order)
        self.tables = {**self.tables, **done.tables}
        self.worked = done.worked
        self.number += 1
        rows_of: Counter[int] = Counter()
        changes = [Weighted() for _ in targets]
        for part in done.parts:
            rows_of[part.target] += part.rows
            answer = self.physical.answers[part.target]
            changes[part.target].merge(Weighted(read_rows(self.folder / part.file, answer)))
        assert Counter(dict(enumerate(done.changed))) == rows_of, "rows that a batch says changed"
        return changes

    def execute(
        self, compiled: CompiledProgram, order: BatchRequest
    ) -> tuple[Reading, BatchResult]:
        """Run a batch."""
        return run_batch(compiled, order)


class StagedRun(FileRun):
    """The same in stages, each task with one file or one bucket, in this process."""

    staged = True
    """Whether the next batch is done in stages."""

    def execute(
        self, compiled: CompiledProgram, order: BatchRequest
    ) -> tuple[Reading, BatchResult]:
        if not self.staged:
            return run_batch(compiled, order)
        route = Route(compiled.physical)
        waiting: dict[int, list[Message]] = {}
        reading, results = Reading(), list[BatchResult]()
        for number, file in enumerate(order.files or (None,)):
            files = [] if file is None else [file]
            for read in read_stage(compiled, order, files, is_one=number == 0):
                if isinstance(read, Reading):
                    reading.add(read)
                else:
                    waiting.setdefault(read.bucket, []).append(_deliver(read, route))
        for stage in range(1, route.last + 1):
            given, waiting = waiting, {}
            for bucket, all_ in given.items():
                now = [sent for sent in all_ if route.stage(sent.name) <= stage]
                later = [sent for sent in all_ if route.stage(sent.name) > stage]
                waiting.setdefault(bucket, []).extend(later)
                for message in meet_stage(compiled, order, stage, bucket, now) if now else ():
                    if isinstance(message, BatchResult):
                        results.append(
                            BatchResult.of_json(
                                message.as_json(), compiled.physical.schemas, self.buckets
                            )
                        )
                    else:
                        waiting.setdefault(message.bucket, []).append(_deliver(message, route))
        return reading, combine_results(order, results)


def _deliver(sent: Message, route: Route) -> Message:
    """A message after it was serialized and read back."""
    return Message(
        sent.bucket,
        sent.name,
        rows_from_bytes(rows_to_bytes(sent.content), route.schema(sent.name)),
    )
