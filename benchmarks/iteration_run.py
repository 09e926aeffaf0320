"""A loop kept in one way, batch by batch, in a folder of its own; and the same by hand.

All lanes of a case get the same batches.  The way of the paper, `diffuse`, may be refused: then
its lane is left out, and it is said why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.batch_sides import act, by_hand
from benchmarks.incremental_data import Supply, history_of
from benchmarks.incremental_pairs import error_text
from benchmarks.incremental_run import Bench, Place, TooSlow, folder_in, program
from benchmarks.iteration_queries import Case, Way
from incmrql.errors import QueryError
from incmrql.runtime import BatchReport, Driver
from incmrql.values import Record

T = TypeVar("T")


class Refusal(Exception):
    """A way in which a loop is not kept."""


@dataclass(slots=True)
class Feed:
    """Batches of a case, in a folder of their own."""

    bench: Bench
    case: Case
    supply: Supply

    def add(self, number: int = 0) -> int:
        """The next batch, as large as those of a round are; its rows."""
        self.supply.size = self.case.size(self.bench.scale, number)
        self.supply.add()
        return self.supply.size.batch


@dataclass(slots=True)
class Lane:
    """A loop that is kept in one way."""

    feed: Feed
    way: Way
    driver: Driver
    loaded: BatchReport

    def step(self) -> BatchReport:
        """Take in what has been added."""
        report = self.feed.bench.with_patience(self.driver.step)
        assert report is not None, "there is nothing to take in"
        return report

    def answer(self, schema: pa.Schema) -> pa.Table:
        """The answer as a table."""
        rows = [
            dict(row) if isinstance(row, Record) else {schema.names[0]: row}
            for row in self.driver.answer(0)
        ]
        return pa.Table.from_pylist(rows, schema=schema)


def _diffuses(report: BatchReport) -> None:
    """Raise a refusal if no loop of a batch was diffused."""
    if not any(loop.way == "diffuse" for loop in report.loops):
        ways = ", ".join(f"{loop.way} ({loop.reason})" for loop in report.loops) or "not at all"
        raise Refusal(f"the loop is not diffused, but kept: {ways}")


@contextmanager
def fed(bench: Bench, case: Case) -> Iterator[tuple[Path, Feed]]:
    """A folder with the history of a case."""
    size = case.size(bench.scale)
    history = history_of(bench.data, case.name, (case.table,), size)
    with folder_in(bench.data) as folder:
        supply = Supply(folder / "data", history, (case.table,), size, case.deleted)
        yield folder, Feed(bench, case, supply)


@contextmanager
def open_lane(
    bench: Bench, case: Case, way: Way, options: Mapping[str, Any] | None = None
) -> Iterator[Lane]:
    """Open a case that has ingested its history and one batch; raises if the loop is refused."""
    with fed(bench, case) as (folder, feed), ExitStack() as stack:
        place = Place(folder, feed.supply, program(case.text_of(feed.supply.folder)))
        try:
            driver = stack.enter_context(
                place.driver(bench.spark, {"iterate": way, **(options or {})})
            )
            loaded = bench.with_patience(driver.step)
        except (QueryError, NotImplementedError) as error:
            if way != "diffuse":
                raise
            raise Refusal(error_text(error)) from error
        assert loaded is not None
        lane = Lane(feed, way, driver, loaded)
        feed.add()
        report = lane.step()
        if way == "diffuse":
            _diffuses(report)
        yield lane


@dataclass(slots=True)
class Lanes:
    """The lanes of a case, and why others are not there: refused, or too slow for the history."""

    by_way: dict[Way, Lane] = field(default_factory=dict)
    refused: dict[Way, str] = field(default_factory=dict)
    slow: dict[Way, str] = field(default_factory=dict)


@contextmanager
def all_laned(bench: Bench, case: Case) -> Iterator[Lanes]:
    """All ways of a case."""
    with ExitStack() as stack:
        lanes = Lanes()
        for way in case.ways:
            try:
                lanes.by_way[way] = stack.enter_context(open_lane(bench, case, way))
            except Refusal as refusal:
                lanes.refused[way] = str(refusal)
            except TooSlow as problem:
                lanes.slow[way] = str(problem)
        yield lanes


@dataclass(frozen=True, slots=True)
class Hand:
    """The code by hand, over batches in a folder of its own."""

    feed: Feed
    spark: SparkSession

    def run(self, expert: str) -> None:
        """All steps over all data so far; the answer is written nowhere."""
        self._use_hand(expert, lambda frame: act(frame, "noop"))

    def answer(self, expert: str) -> pa.Table:
        """The same as a table."""
        return self._use_hand(expert, DataFrame.toArrow)

    def _use_hand(self, expert: str, use: Callable[[DataFrame], T]) -> T:
        code, folder = self.feed.case.experts[expert], self.feed.supply.folder
        return self.feed.bench.with_patience(lambda: by_hand(self.spark, folder, code, use))


@contextmanager
def hand_code(bench: Bench, case: Case) -> Iterator[Hand]:
    """The code by hand, which has processed as many batches as the lanes.

    Steps are short, and adaptive execution would make several jobs of each: it is off, with which
    they are faster.
    """
    spark = bench.spark.newSession()
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    with fed(bench, case) as (_, feed):
        feed.add()
        yield Hand(feed, spark)
