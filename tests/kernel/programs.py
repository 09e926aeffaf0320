"""Programs over folders, and a stepper of kernel batches for tests."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from incmrql.diagnostics import Source
from incmrql.incremental import Program
from incmrql.incremental import program_of as derive_item
from incmrql.kernel.batch import OPENED, ledger_types, run_batch, whole_answer
from incmrql.kernel.form import Form
from incmrql.kernel.order import Applied, Order, Taken
from incmrql.kernel.output import read_part
from incmrql.kernel.reading import InputFile
from incmrql.kernel.table import Reader, Table, scan
from incmrql.loading import catalog_for, read_include
from incmrql.pipeline import compile_script
from incmrql.reference import Environment, evaluate, new_world
from incmrql.types import typed
from incmrql.values import Bag, Value

AVERAGE = (
    'incr select (k, avg(x.V)) from x in stream(line, "{data}", ",", '
    'type(< K: int, V: double >), deletes: "{deletes}") group by k: x.K;'
)
"""The query of the walking skeleton."""


@lru_cache
def compiled(text: str, arguments: tuple[str, ...] = ()) -> typed.Script:
    """The typed form of a script."""
    source = Source(text)
    return compile_script(source, catalog_for(source, arguments), read_include).typed


@lru_cache
def program_of(text: str, arguments: tuple[str, ...] = ()) -> Program:
    """The program of the last item of a script."""
    script = compiled(text, arguments)
    return derive_item(script.items[-1], script, arguments)


def reference_answer(text: str) -> Bag:
    """What the query answers over all the data that are there."""
    script = compiled(text)
    found = evaluate(script.items[-1].expr, Environment(new_world(script)))
    assert isinstance(found, Bag)
    return found


def input_file(path: Path, *, deletes: bool = False) -> InputFile:
    found = path.stat()
    return InputFile(str(path), found.st_size, found.st_mtime_ns, deletes)


@dataclass
class Stepper:
    """The kernel, batch by batch, in one folder."""

    program: Program
    folder: Path
    buckets: int = 4
    number: int = 0
    node: Table = field(init=False)
    ledger: Table | None = field(init=False)
    rewritten: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.node = Table("fold", Form(self.program.fold.keys), self.buckets)
        form = Form(ledger_types(self.program))
        self.ledger = Table("ledger", form, self.buckets) if self.program.stream.ledger else None

    def step(self, files: list[InputFile], **settings: Any) -> tuple[Taken, Applied]:
        """One batch; the state changes unless it is refused."""
        attempt = uuid.uuid4().hex[:8]
        order = Order(
            self.number, attempt, tuple(files), self.node, self.ledger, str(self.folder), **settings
        )
        taken, applied = run_batch(self.program, order)
        if applied.refused is None:
            self.node, self.ledger = applied.node, applied.ledger
            self.number += 1
            self.rewritten += applied.rewritten
        return taken, applied

    @property
    def reader(self) -> Reader:
        return Reader(self.folder, OPENED)

    def changes(self, applied: Applied, folder: Path) -> list[tuple[Value, int]]:
        """What a batch said that it did to the answer."""
        element = self.program.answer.element
        return [row for part in applied.parts for row in read_part(folder / part.file, element)]

    def state(self) -> list[Any]:
        """The content of all tables, merged, bucket by bucket."""
        tables = [self.node] if self.ledger is None else [self.node, self.ledger]
        contents = [scan(table, self.reader, b) for table in tables for b in range(self.buckets)]
        return [
            (
                content.hashes.tolist(),
                content.keys.encoded().bytes_at(np.arange(len(content))),
                content.weights.tolist(),
                {name: column.tolist() for name, column in content.parts.items()},
            )
            for content in contents
        ]

    def answer(self) -> Bag:
        """The whole answer, from the state."""
        return whole_answer(self.program, self.node, self.folder)
