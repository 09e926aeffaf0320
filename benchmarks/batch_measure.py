"""One row of the table: both sides checked against each other, then timed in turn."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any as Arrow
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.batch_plans import Plan, Work, count_jobs, run_plan
from benchmarks.batch_queries import Case
from benchmarks.batch_sides import act, by_hand, by_incmrql
from incmrql.api.session import Session
from incmrql.compiler.cache import CompileCache

T = TypeVar("T")
CLOSE = 1e-9
"""How far sums of doubles may differ, relatively, where an engine adds in any order."""
WARM_SECONDS = 5
"""Seconds of warm-up per round of warming up: Java compiles late."""
PLAIN_LIMIT, EXACT_LIMIT = 1.15, 2.5


@dataclass(frozen=True, slots=True)
class Bench:
    """Where and how often everything is run."""

    session: Session
    spark: SparkSession
    data: Path
    rounds: int
    warm_up: int
    patience: float
    """Seconds after which a run is given up."""
    anew: bool = False
    """Whether incmrql forgets each text before it is asked again."""

    def incmrql(self, case: Case, use: Callable[[DataFrame], T], *, fast: bool) -> T:
        """Run a query by incmrql."""
        text = case.text.format(data=self.data)
        if self.anew:
            self.session._compile_cache = CompileCache()
        with _time_limit(self.spark, self.patience):
            return by_incmrql(self.session, text, use, fast=fast)

    def hand(self, case: Case, use: Callable[[DataFrame], T]) -> T:
        """Run a query by the expert's code."""
        with _time_limit(self.spark, self.patience):
            return by_hand(self.spark, self.data, case.expert, use)


@dataclass(slots=True)
class Row:
    """What was found about a query."""

    case: Case
    fast: bool
    pairs: list[tuple[float, float]] = field(default_factory=list)
    """Seconds of incmrql and by hand, a pair for each round."""
    plans: tuple[Plan, Plan] | None = None
    work: tuple[Work, Work] | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name in the table."""
        sums = "" if not self.case.floats else ", fast sums" if self.fast else ", exact sums"
        return self.case.name + sums

    @property
    def limit(self) -> float:
        """The ratio that is allowed."""
        return EXACT_LIMIT if self.case.floats and not self.fast else PLAIN_LIMIT

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Quartiles of the ratios incmrql / by hand; the middle one is the median."""
        ratios = [ours / theirs for ours, theirs in self.pairs]
        if len(ratios) < 2:
            return (ratios[0],) * 3
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return low, middle, high


class TooSlow(Exception):
    """A run was given up since it took too long."""


@contextlib.contextmanager
def _time_limit(spark: SparkSession, seconds: float) -> Iterator[None]:
    """Cancel the jobs of this process if the block takes too long."""
    late = threading.Event()

    def give_up() -> None:
        late.set()
        spark.sparkContext.cancelAllJobs()

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if late.is_set():
            raise TooSlow(f"given up after {seconds:.0f} s") from error
        raise
    finally:
        timer.cancel()


def measure(bench: Bench, case: Case, *, fast: bool) -> Row:
    """Check a query, then time it; what goes wrong is noted and ends the row."""
    row = Row(case, fast)
    try:
        _check(bench, row)
        _time(bench, row)
    except TooSlow as problem:
        row.problems.append(str(problem))
    except Exception as error:  # whatever it is, the other rows are still wanted
        told = str(error).strip().split("\n")[0]
        row.problems.append(f"failed: {type(error).__name__}: {told[:120]}")
    return row


def _check(bench: Bench, row: Row) -> None:
    """Equal answers, exchanges and rows scanned; loops are seen by jobs and stages."""
    case, fast = row.case, row.fast
    with count_jobs(bench.spark) as ours_work:
        ours = bench.incmrql(case, DataFrame.toArrow, fast=fast)
    with count_jobs(bench.spark) as hand_work:
        theirs = bench.hand(case, DataFrame.toArrow)
    row.work = ours_work, hand_work
    row.problems += differences(ours, theirs, ordered=case.action == "collect" and not case.loop,
                                close=case.floats)  # fmt: skip
    if case.loop:
        return
    ours_plan = bench.incmrql(case, run_plan, fast=fast)
    row.plans = ours_plan, bench.hand(case, run_plan)
    for what in ("exchanges", "scanned"):
        one, other = (getattr(plan, what) for plan in row.plans)
        if one != other:
            row.problems.append(f"{what} {one:,} ≠ {other:,}")


def _time(bench: Bench, row: Row) -> None:
    def run(ours: bool) -> float:
        began = time.perf_counter()
        if ours:
            bench.incmrql(row.case, use, fast=row.fast)
        else:
            bench.hand(row.case, use)
        return time.perf_counter() - began

    def use(frame: DataFrame) -> None:
        act(frame, row.case.action)

    def pair(number: int) -> tuple[float, float]:
        if number % 2:
            return run(True), run(False)
        theirs, ours = run(False), run(True)
        return ours, theirs

    began, warm = time.perf_counter(), 0
    while warm < bench.warm_up or time.perf_counter() - began < bench.warm_up * WARM_SECONDS:
        pair(warm)
        warm += 1
    row.pairs += [pair(number) for number in range(bench.rounds)]
    if row.quartiles[1] > row.limit:
        row.problems.append("slower")


Column: TypeAlias = Arrow


def unpack_records(rows: pa.Table) -> pa.Table:
    """Unpack a single column of records, as loops return them, into columns."""
    if rows.num_columns == 1 and pa.types.is_struct(rows.schema.field(0).type):
        return pa.Table.from_struct_array(rows.column(0).combine_chunks())
    return rows


def differences(ours: pa.Table, theirs: pa.Table, *, ordered: bool, close: bool) -> list[str]:
    """What is not the same in two answers; bags are sorted first, by what is not a double."""
    ours = unpack_records(ours)
    if ours.column_names != theirs.column_names:
        return [f"columns {ours.column_names} ≠ {theirs.column_names}"]
    if len(ours) != len(theirs):
        return [f"rows {len(ours):,} ≠ {len(theirs):,}"]
    if not ordered:
        floats = [pa.types.is_floating(field.type) for field in theirs.schema]
        names = [name for _, name in sorted(zip(floats, theirs.column_names, strict=True))]
        ours, theirs = (
            table.sort_by([(name, "ascending") for name in names]) for table in (ours, theirs)
        )
    return [
        f"{name} differs"
        for name in theirs.column_names
        if not _same(ours.column(name), theirs.column(name), close=close)
    ]


def _same(one: Column, other: Column, *, close: bool) -> bool:
    if close and pa.types.is_floating(other.type):
        a, b = (column.to_numpy() for column in (one, other))
        return bool(np.allclose(a, b, rtol=CLOSE, atol=0, equal_nan=True))
    return bool(one.cast(other.type).equals(other))
