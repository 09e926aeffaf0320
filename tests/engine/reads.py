"""Rows of state that the kernel reads for a change, at histories of different kinds and sizes.

`spread` histories have more and more keys.  In the others one key gets half of all rows of one
table, and the changes are about that key: `R.A`, `R.B`, `N.K`, `N.v`, `S.A`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from incmrql.engine.columns.rows import Rows, to_values
from incmrql.engine.compile.physical import Physical
from incmrql.engine.compile.program import compile_program
from incmrql.engine.context import BatchContext
from incmrql.engine.operators.joins import Sums
from incmrql.engine.program import StepWork
from incmrql.plan.program import LoopMode, LoopSettings, Program
from incmrql.syntax.depth import deep_recursion
from incmrql.values import Bag, Record, Value
from tests.engine.kernels import KernelRun
from tests.plan.stepping import ALL, Batch, Run, deletions, insertions, r, s

HISTORIES: Final = ("spread", "R.A", "R.B", "N.K", "N.v", "S.A")
KEY: Final = 3
"""The key that changes are about."""


def n(key: int, *items: tuple[int, float]) -> Record:
    """A row of N."""
    return Record({"K": key, "items": Bag([Record({"v": v, "w": w}) for v, w in items])})


def history(kind: str, size: int) -> Batch:
    """So many rows in each table; all values of a column differ, but for those of the one key."""

    def of(column: str, i: int) -> int:
        return KEY if kind == column and i % 2 else 10 + i

    few = range(size if kind == "spread" else 10)
    many = range(size)
    tables = {
        "R": [
            r(of("R.A", i), of("R.B", i), float(i % 1000), f"s{i}")
            for i in (many if kind.startswith(("R", "spread")) else few)
        ],
        "N": [
            n(of("N.K", i), (of("N.v", i), float(i % 1000)))
            for i in (many if kind.startswith(("N", "spread")) else few)
        ],
        "S": [
            s(of("S.A", i), float(i % 1000), f"t{i}")
            for i in (many if kind.startswith("S") or kind == "spread" else few)
        ],
    }
    tables["R"] += [r(KEY, KEY, 7.0, "own")]
    tables["N"] += [n(KEY, (KEY, 7.0))]
    tables["S"] += [s(KEY, 7.0, "own")]
    return insertions(**tables)


def changes() -> Iterator[Batch]:
    """Rows that come and go: one like others, one that is the greatest, the only partner."""
    for rows in (
        {"R": [r(KEY, KEY, 0.5, "new")]},
        {"R": [r(KEY, KEY, 9999.0, "~")]},
        {"N": [n(KEY, (KEY, 0.5))]},
        {"N": [n(KEY, (KEY, 9999.0))]},
        {"S": [s(KEY, 9999.0, "~")]},
    ):
        yield insertions(**rows)
        yield deletions(**rows)
    for rows in ({"R": [r(KEY, KEY, 7.0, "own")]}, {"N": [n(KEY, (KEY, 7.0))]},
                 {"S": [s(KEY, 7.0, "own")]}):  # fmt: skip
        yield deletions(**rows)
        yield insertions(**rows)


@dataclass(frozen=True)
class Work:
    """Of each step: rows of state that it read, the size of its input and of its output."""

    read: list[int]
    taken: list[int]
    sent: list[int]


def histories(program: Program) -> list[str]:
    """The kinds of history that say something about a program."""
    tables = {stream.name for stream in program.streams}
    return [kind for kind in HISTORIES if kind == "spread" or kind[0] in tables]


def works_of_changes(program: Program, physical: Physical, kind: str, size: int) -> list[Work]:
    """The work of a change of each stream of the program, after a history."""
    works = []
    streams = {stream.name for stream in program.streams if stream.streaming}
    with deep_recursion(), TemporaryDirectory() as folder, sizes_of(physical) as sizes:
        kernel = KernelRun(program, Path(folder), 2, physical)
        kernel.step(history(kind, size))
        for batch in changes():
            if not set(batch) <= streams:
                continue
            sizes.sent = [0] * len(physical.steps)
            kernel.step(batch)
            sent = sizes.sent
            for place, step in enumerate(physical.steps):
                if not step.inputs:  # what sources bring does not pass by
                    sent[place] = max(sent[place], kernel.worked.sent[place])
            taken = [sum(sent[place] for place in step.inputs) for step in physical.steps]
            works.append(Work(kernel.worked.read, taken, sent))
    return works


@dataclass
class sizes_of:  # noqa: N801 (used as a context)
    """Counts what each step sends on, rows and the elements of collections in them."""

    physical: Physical
    sent: list[int] = field(default_factory=list)

    def __enter__(self) -> sizes_of:
        self._patch = pytest.MonkeyPatch()
        counted = StepWork.count

        def count_and_size(
            worked: StepWork, place: int, chunks: Iterable[Rows], context: BatchContext
        ) -> Iterator[Rows]:
            for rows in counted(worked, place, chunks, context):
                if self.sent:
                    self.sent[place] += self._size(place, rows)
                yield rows

        self._patch.setattr(StepWork, "count", count_and_size)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def _size(self, place: int, rows: Rows) -> int:
        if isinstance(rows, Sums):
            return len(rows)
        return sum(size(value) for value, _ in to_values(rows, self.physical.layouts[place]))


def size(value: Value) -> int:
    """The elements of all collections in a value, and the value itself."""
    if isinstance(value, Record):
        return 1 + sum(size(item) - 1 for item in value.values_)
    if isinstance(value, tuple):
        return 1 + sum(size(item) - 1 for item in value)
    if isinstance(value, Bag | list):
        return 1 + sum(map(size, value))
    return 1


def compiled_program(
    text: str, streams: frozenset[str] = ALL, way: LoopMode = "default"
) -> tuple[Program, Physical]:
    """A query as the kernel runs it."""
    with deep_recursion():
        run = Run(text, streams)
        program = run.program(LoopSettings(way))
        return program, compile_program(program)
