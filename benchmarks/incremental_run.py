"""How a workload runs on each side: batch by batch, by the batch engine again, and by hand again.

A `Stage` is a workload with its data and its driver in a folder of its own, which is removed at
the end.
"""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.batch_measure import TooSlow, _time_limit, differences
from benchmarks.batch_sides import act, by_incmrql
from benchmarks.incremental_data import Size, Supply, history_of
from benchmarks.incremental_queries import Workload, text_of
from incmrql.api.session import Session
from incmrql.compiler.compiled import compile_script
from incmrql.compiler.load import catalog_for, read_include
from incmrql.errors import SourceText
from incmrql.plan.assembly import program_of
from incmrql.plan.program import Program
from incmrql.runtime import BatchReport, Driver, StreamOptions

T = TypeVar("T")
SEED: Final = 5
_NUMBERS = itertools.count()

__all__ = [
    "Bench",
    "Place",
    "Stage",
    "TooSlow",
    "compare_bags",
    "folder_in",
    "open_stage",
    "prepare_place",
    "program",
    "time_call",
]


@dataclass(frozen=True, slots=True)
class Bench:
    """Where, how large and how often everything is run."""

    session: Session
    spark: SparkSession
    data: Path
    scale: float = 1.0
    rounds: int = 15
    warm_up: int = 6
    """Rounds that are not counted."""
    patience: float = 600.0
    """Seconds after which a run is given up."""
    order: random.Random = field(default_factory=lambda: random.Random(SEED))

    def with_patience(self, run: Callable[[], T]) -> T:
        """Run something and give up if it takes too long."""
        with _time_limit(self.spark, self.patience):
            return run()


@dataclass(frozen=True, slots=True)
class Stage:
    """A running workload: its data, and a driver that has ingested its history."""

    bench: Bench
    workload: Workload
    supply: Supply
    driver: Driver
    loaded: BatchReport

    def step(self) -> BatchReport:
        """The next batch, of the files that have been added."""
        report = self.bench.with_patience(self.driver.step)
        assert report is not None, "there is nothing to take in"
        return report

    def by_engine(self, use: Callable[[DataFrame], T]) -> T:
        """The whole answer again by the batch engine."""
        text = text_of(self.workload, self.supply.folder)
        return self.bench.with_patience(
            lambda: by_incmrql(self.bench.session, text, use, fast=False)
        )  # fmt: skip

    def by_hand(self, use: Callable[[DataFrame], T]) -> T:
        """The whole answer again by data frames."""
        spark, folder = self.bench.spark, self.supply.folder
        return self.bench.with_patience(lambda: use(self.workload.expert(spark, folder)))

    def recompute(self, side: str) -> None:
        """Recompute the whole answer and discard it."""
        run = self.by_engine if side == "engine" else self.by_hand
        run(lambda frame: act(frame, "noop"))

    def differences(self) -> list[str]:
        """What is not the same in the answers of the three sides, as of now."""
        engine, hand = self.by_engine(DataFrame.toArrow), self.by_hand(DataFrame.toArrow)
        kept = pa.Table.from_pylist(
            [dict(row) for row in self.driver.answer(0)], schema=engine.schema
        )
        problems = [
            f"engine: {difference}" for difference in compare_bags(kept, engine, close=False)
        ]
        close = self.workload.floats
        return problems + [
            f"by hand: {difference}" for difference in compare_bags(kept, hand, close=close)
        ]


def compare_bags(ours: pa.Table, theirs: pa.Table, *, close: bool) -> list[str]:
    """The differences between two answers, compared as bags."""
    return differences(ours, theirs, ordered=False, close=close)


def program(text: str) -> Program:
    """The program of changes of an MRQL text."""
    source = SourceText(text)
    script = compile_script(source, catalog_for(source, ()), read_include).typed
    return program_of(script.items, script)


@contextmanager
def folder_in(root: Path) -> Iterator[Path]:
    """A folder that is removed at the end."""
    root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"run-{next(_NUMBERS)}-", dir=root))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of a run: its data, and the program that reads them."""

    folder: Path
    supply: Supply
    program: Program

    def driver(self, spark: SparkSession, options: Mapping[str, Any]) -> Driver:
        """The program on the checkpoint of this folder, old or new."""
        settings = StreamOptions(**{"settle": 0.0, "grace": 2.0, **options})
        checkpoint, output = self.folder / "checkpoint", self.folder / "out"
        return Driver(self.program, checkpoint, output, spark, settings)


@contextmanager
def prepare_place(bench: Bench, workload: Workload, size: Size) -> Iterator[Place]:
    """Prepare a folder with the history of a workload, which is not ingested yet."""
    history = history_of(bench.data, workload.tables[0].name, workload.tables, size)
    with folder_in(bench.data) as folder:
        supply = Supply(folder / "data", history, workload.tables, size, workload.deleted)
        yield Place(folder, supply, program(text_of(workload, supply.folder)))


@contextmanager
def open_stage(bench: Bench, workload: Workload, size: Size | None = None) -> Iterator[Stage]:
    """Open a workload whose history is ingested."""
    size = size or workload.size(bench.scale)
    with (
        prepare_place(bench, workload, size) as place,
        place.driver(bench.spark, {}) as driver,
    ):
        loaded = bench.with_patience(driver.step)
        assert loaded is not None
        yield Stage(bench, workload, place.supply, driver, loaded)


def time_call(run: Callable[[], T]) -> tuple[T, float]:
    """Call a function; returns its result and the seconds that it took."""
    begun = time.perf_counter()
    result = run()
    return result, time.perf_counter() - begun
