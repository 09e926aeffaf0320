"""Random programs over random streams on Spark, against the reference evaluator at every batch.

A program has several queries over the same streams, so that a batch of it tries all of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from incmrql.engine.inputs import InputFile
from incmrql.errors import QueryError
from incmrql.io.spools import write_spool
from incmrql.plan.assembly import program_of
from incmrql.plan.changes import Weighted
from incmrql.plan.program import Program
from incmrql.reference import Environment, evaluate, new_world
from incmrql.runtime import Driver, StreamOptions
from incmrql.types import typed
from incmrql.values import Value, identical, show
from tests.generators.stacked import over
from tests.plan.seeded import EVERY, Traits, history, some_tables
from tests.plan.stepping import ALL, EMPTY, Batch, Tables, typed_script, weighted_tables
from tests.plan.test_coverage import STREAMS, every_pair

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TOGETHER = 4
"""Queries of a program."""
OPTIONS = StreamOptions(buckets=2, keep_changes=True)


@dataclass(frozen=True, slots=True)
class Case:
    """Some queries, what they read, and how it changes; `large` says which batches are so."""

    name: str
    texts: tuple[str, ...]
    script: typed.Script
    tables: Tables
    batches: list[Batch]
    large: tuple[bool, bool]

    @property
    def streams(self) -> frozenset[str]:
        """The sources that change."""
        return frozenset(name for batch in self.batches for name in batch)


def case_of(seed: int) -> Case:
    """A random case."""
    chance = Random(f"streamed {seed}")
    streams = chance.choice(STREAMS)
    traits: Traits = chance.choice(EVERY)
    pairs = list(every_pair())
    texts: list[str] = []
    while len(texts) < TOGETHER:
        text = over(*chance.choice(pairs), chance.choice(("S", "N", "R")))
        if _is_allowed(text, streams):
            texts.append(text)
    script = typed_script("".join(f"{text};\n" for text in texts), streams)
    tables = {**EMPTY, **some_tables(chance, traits, ALL - streams)}
    large = ((False, False), (True, True), (False, True))[seed % 3]
    batches = history(chance, traits, streams)
    return Case(f"seed {seed}", tuple(texts), script, tables, batches, large)


def _is_allowed(text: str, streams: frozenset[str]) -> bool:
    try:
        script = typed_script(f"{text};", streams)
        program_of(script.items, script)
    except QueryError:
        return False
    return True


def check(case: Case, spark: SparkSession) -> int:
    """Run a case batch by batch; how many queries were tried."""
    with tempfile.TemporaryDirectory() as folder:
        program = program_of(case.script.items, case.script)
        fixed: Mapping[str, list[Value]] = {name: [] for name in case.tables}
        driver = Driver(program, Path(folder, "ck"), None, spark, OPTIONS, registered=fixed)
        data = weighted_tables(case.tables)
        names = count()
        seen = [Weighted() for _ in case.texts]
        with driver:
            for number, batch in enumerate(case.batches):
                files = _files(program, batch, Path(folder), names)
                if number == 0:
                    still = {n: [(row, 1) for row in rows] for n, rows in case.tables.items()}
                    files += _files(program, still, Path(folder), names, streaming=False)
                for name, rows in batch.items():
                    data[name].merge(Weighted(rows))
                large = 0 if case.large[number % 2] else 1 << 30
                driver.options = replace(OPTIONS, large=large)
                report = driver.run_batch(tuple(files))
                assert report.jobs == 1
                _compare(case, driver, {n: rows.bag() for n, rows in data.items()}, seen)
    return len(case.texts)


def _files(
    program: Program, batch: Batch, folder: Path, names: count[int], *, streaming: bool = True
) -> list[InputFile]:
    """The rows of a batch as files, two of each source."""
    files = []
    for stream in program.streams:
        rows = list(Weighted(batch.get(stream.source.name, ())))
        if stream.streaming == streaming:
            for half in (rows[::2], rows[1::2]):
                path = folder / f"{next(names)}.arrow"
                write_spool(path, stream.element, half)
                stat = path.stat()
                size, modified = stat.st_size, stat.st_mtime_ns
                files.append(InputFile(str(path), size, modified, stream.place, kind="spool"))
    return files


def _compare(case: Case, driver: Driver, data: Tables, seen: list[Weighted]) -> None:
    """The answers are right, and so is what changed."""
    env = Environment(new_world(case.script, registered=dict(data)))
    for number, (text, item) in enumerate(zip(case.texts, case.script.items, strict=True)):
        wanted, got = evaluate(item.expr, env), driver.answer(number)
        where = f"{case.name}, batch {driver.state.number}: {text}"
        assert identical(wanted, got), f"{where}\n{show(wanted)}\n{show(got)}"
        seen[number].merge(Weighted(driver.changes(number)))
        rows = [got] if driver.program.outputs[number].part is None else got
        assert seen[number] == Weighted((row, 1) for row in rows), where
