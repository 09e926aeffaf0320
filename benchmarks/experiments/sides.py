"""A query that is kept up to date beside its two recomputations, with what each of them costs.

In a round a batch arrives; the batch and both recomputations then run in random order over the
same files.  A recomputation that takes long is run once for each kind of batch.  Answers are
compared by sums over all their rows, in Spark, since they may be large: bit for bit.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from benchmarks.batch_sides import act, by_incmrql
from benchmarks.experiments.base import Figure
from benchmarks.experiments.cost import Cost, measure_cost
from benchmarks.incremental_data import GONE, Size, Supply, Table
from benchmarks.incremental_queries import Expert
from benchmarks.incremental_run import Bench, Place, folder_in, program
from incmrql.runtime import BatchReport, Driver
from incmrql.runtime.replay import answer_rows, packed

T = TypeVar("T")
BATCH, ENGINE, HAND = "incremental", "engine", "by hand"
AGAIN: Final = (ENGINE, HAND)
SLOW: Final = 2.0
"""Seconds from which on a recomputation is run once for each kind of batch."""
Sum: TypeAlias = tuple[int, ...]
"""Of an answer: how many rows there are, and two sums over hashes of them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A query, with the code by hand.  Its answers must have no doubles that depend on order."""

    name: str
    text: str
    """The MRQL text, with `{name}` for the folder of each table."""
    tables: tuple[Table, ...]
    hand: Expert

    def text_of(self, folder: Path) -> str:
        """The MRQL text over a folder."""
        folders = {table.name: folder / table.name for table in self.tables}
        return self.text.format(**folders, **{GONE: folder / GONE})


@dataclass(slots=True)
class Rounds:
    """What was found about batches of one kind."""

    costs: dict[str, list[Cost]] = field(default_factory=dict)
    reports: list[BatchReport] = field(default_factory=list)

    def middle(self, side: str) -> Cost:
        """The run of a side that took the median of the seconds."""
        runs = sorted(self.costs[side], key=lambda cost: cost.seconds)
        return runs[len(runs) // 2]

    @property
    def best(self) -> str:
        """The faster way of doing it again."""
        there = (side for side in AGAIN if self.costs.get(side))
        return min(there, key=lambda side: self.middle(side).seconds)

    @property
    def ratio(self) -> float:
        """How many times faster a batch was: the median of pairs, or of medians without pairs."""
        again, batches = self.costs[self.best], self.costs[BATCH]
        if len(again) < len(batches):
            return self.middle(self.best).seconds / self.middle(BATCH).seconds
        pairs = zip(again, batches, strict=True)
        return statistics.median(one.seconds / other.seconds for one, other in pairs)

    def figures(self) -> dict[str, Figure]:
        """The figures of a row of the table."""
        batch, again, report = self.middle(BATCH), self.middle(self.best), self.reports[-1]
        sides = {
            f"{side} ms": round(1000 * self.middle(side).seconds)
            for side in AGAIN
            if self.costs.get(side)
        }
        return {
            "batch ms": round(1000 * batch.seconds),
            **sides,
            "rows read": report.rows_in + report.state_read,
            "again rows read": again.read,
            "shuffled bytes": batch.shuffled,
            "again shuffled bytes": again.shuffled,
            "state bytes": report.state_bytes,
            "jobs": batch.jobs,
            "again jobs": again.jobs,
        }


@dataclass(frozen=True, slots=True)
class Stage:
    """A running shape: its data, and a driver that has ingested the history."""

    bench: Bench
    shape: Shape
    supply: Supply
    driver: Driver
    load: Cost

    def round(self, results: Rounds, again: tuple[str, ...] = AGAIN) -> None:
        """A batch arrives, and all sides run."""
        self.supply.add()
        wanted = [side for side in again if not _is_known_to_be_slow(results.costs.get(side))]
        for side in self.bench.order.sample([BATCH, *wanted], 1 + len(wanted)):
            with measure_cost(self.bench.spark) as cost:
                if side == BATCH:
                    report = self.bench.with_patience(self.driver.step)
                    assert report is not None, "there is nothing to take in"
                    results.reports.append(report)
                else:
                    self.again(side, lambda frame: act(frame, "noop"))
            results.costs.setdefault(side, []).append(cost)

    def again(self, side: str, use: Callable[[DataFrame], T]) -> T:
        """The whole answer again."""
        bench, folder = self.bench, self.supply.folder
        if side == ENGINE:
            text = self.shape.text_of(folder)
            return bench.with_patience(lambda: by_incmrql(bench.session, text, use, fast=False))
        return bench.with_patience(lambda: use(self.shape.hand(bench.spark, folder)))

    def kept_sum(self) -> Sum:
        """The sum over the maintained answer."""
        driver = self.driver
        runs, sent = driver.checkpoint.runs.absolute(), packed(driver)
        rows = answer_rows(self.bench.spark, driver.compiled, sent, 0, driver.state.tables, runs)
        return self.bench.with_patience(lambda: sum_of(rows))

    def differences(self, costs: dict[str, Cost] | None = None) -> list[str]:
        """Which recomputations have another answer than the one that is kept, as of now.

        `costs` gets what they cost, with the sum in it.
        """
        kept, problems = self.kept_sum(), []
        for side in AGAIN:
            with measure_cost(self.bench.spark) as cost:
                recomputed = self.again(side, sum_of)
            if costs is not None:
                costs[side] = cost
            if recomputed != kept:
                problems.append(f"{side}: {recomputed[0]:,} rows, kept {kept[0]:,}; they differ")
        return problems


def _is_known_to_be_slow(costs: list[Cost] | None) -> bool:
    return bool(costs) and max(cost.seconds for cost in costs or ()) > SLOW


def sum_of(rows: DataFrame) -> Sum:
    """How many rows there are, and two sums over hashes of them."""
    code = sql.xxhash64(*(sql.col(f"`{name}`") for name in rows.columns)).alias("code")
    sums = rows.select(code).agg(
        sql.count("*"),
        sql.coalesce(sql.sum(sql.col("code").bitwiseAND(0xFFFF_FFFF)), sql.lit(0)),
        sql.coalesce(sql.bit_xor("code"), sql.lit(0)),
    )
    return tuple(sums.collect()[0])


@contextmanager
def open_stage(
    bench: Bench, shape: Shape, history: Path, size: Size, deleted: float = 0.0
) -> Iterator[Stage]:
    """Open a shape whose history is ingested; its files are removed at the end."""
    with folder_in(bench.data) as folder:
        supply = Supply(folder / "data", history, shape.tables, size, deleted)
        place = Place(folder, supply, program(shape.text_of(supply.folder)))
        with place.driver(bench.spark, {}) as driver:
            with measure_cost(bench.spark) as load:
                bench.with_patience(driver.step)
            yield Stage(bench, shape, supply, driver, load)


def warm(stage: Stage, rounds: int, again: tuple[str, ...] = AGAIN) -> None:
    """Some rounds that are not counted."""
    for _ in range(rounds):
        stage.round(Rounds(), again)
