"""The kernel, batch by batch, against the reference evaluator and the reference stepper."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path

from incmrql.diagnostics import DataError
from incmrql.incremental.changes import Weighted
from incmrql.incremental.streams import Program, program_of
from incmrql.kernel.answers import whole_answer
from incmrql.kernel.compile import compiled, environment
from incmrql.kernel.desk import Desk
from incmrql.kernel.engine import Worked, run_steps
from incmrql.kernel.physical import Taken
from incmrql.kernel.rows import of_values, to_values
from incmrql.kernel.runs import Opened, write_runs
from incmrql.kernel.table import Reader, Table, plan
from incmrql.types import typed
from incmrql.values import Value
from tests.incremental.stepping import ALL, Batch, Run


class KernelRun:
    """A query in the kernel, over state tables in a folder."""

    def __init__(self, program: Program, folder: Path, buckets: int = 2) -> None:
        self.program, self.folder, self.buckets = program, folder, buckets
        folder.mkdir(parents=True, exist_ok=True)
        self.physical = compiled(program)
        self.tables = {name: Table(name, form, buckets) for name, form in self.physical.forms}
        self.reader = Reader(folder, Opened())
        self.env = environment(program)
        self.number = 0
        self.worked: Worked | None = None
        self.streams = {
            step.stream.name: place
            for place, step in enumerate(self.physical.steps)
            if isinstance(step, Taken)
        }

    def step(self, batch: Batch, fixed: Mapping[str, Collection[Value]]) -> list[Weighted]:
        """One batch; the changes of the answers."""
        given = {}
        rows_by_name = {name: list(Weighted(rows)) for name, rows in batch.items()}
        if self.number == 0:
            rows_by_name.update({n: [(row, 1) for row in rows] for n, rows in fixed.items()})
        for name, rows in rows_by_name.items():
            if name in self.streams:
                step = self.physical.steps[self.streams[name]]
                assert isinstance(step, Taken)
                given[self.streams[name]] = [of_values(rows, step.layout)]
        desk = Desk(self.tables, self.reader, self.env, is_first=self.number == 0)
        changes, self.worked = run_steps(self.physical, given, desk)
        self._write(desk)
        self.number += 1
        return [
            Weighted(to_values(rows, answer.layout))
            for rows, answer in zip(changes, self.physical.answers, strict=True)
        ]

    def _write(self, desk: Desk) -> None:
        everything = range(self.buckets)
        for name, content in desk.changes.items():
            made = plan(self.tables[name], self.reader, content, self.number, everything)
            contents = [(each.content, each.counts) for each in made.written]
            runs = write_runs(self.folder, f"{uuid.uuid4().hex}.run", contents) if contents else []
            bases = [r for r, w in zip(runs, made.written, strict=True) if w.base]
            levels = [r for r, w in zip(runs, made.written, strict=True) if not w.base]
            self.tables[name] = made.kept.with_runs(levels, bases)

    def answer(self, number: int = 0) -> Value:
        """The whole answer, from the state."""
        desk = Desk(self.tables, self.reader, self.env, is_first=False)
        return whole_answer(self.physical.answers[number], self.physical.steps, desk)
