"""How batches of 100 to 1M rows do on histories of 1M to 100M rows, and where it is break-even.

Each history is ingested once.  Then batches come, the small ones first, since those hardly change
the history.  A large history is recomputed only once, after the last batch, and all ratios are
against that: by then it has grown by a few percent.  At the end the answers are compared.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from benchmarks.experiments.base import (
    Experiment,
    Figure,
    Finding,
    Options,
    Tell,
    failure,
    session_for,
    verdict_of,
)
from benchmarks.experiments.cost import Cost
from benchmarks.experiments.scale_data import FACTS, FEW, MANY, history
from benchmarks.experiments.sides import AGAIN, Rounds, Shape, Stage, open_stage, warm
from benchmarks.incremental_data import Size
from benchmarks.incremental_queries import frame, stream
from benchmarks.incremental_run import Bench

NAME: Final = "scale"
SIZES: Final = (100, 1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES: Final = (100, 10_000)
ROUNDS: Final = 3
PATIENCE: Final = 900.0
_MILLION: Final = 1_000_000
LARGE: Final = 50 * _MILLION
"""Rows of a history that is recomputed only once."""


def _groupby(spark: SparkSession, data: Path) -> DataFrame:
    return frame(spark, data, FACTS).groupBy("K").agg(sql.avg("V").alias("m"))


def _join(spark: SparkSession, data: Path) -> DataFrame:
    """Facts are added up by key before they meet the few rows of the other side."""
    facts, groups = frame(spark, data, MANY), frame(spark, data, FEW)
    sums = facts.groupBy("K").agg(sql.sum("V").alias("s"), sql.count("V").alias("n"))
    joined = sums.join(groups, sums.K == groups.C)
    return joined.groupBy("A").agg((sql.sum("s") / sql.sum("n")).alias("m"))


GROUPBY: Final = Shape(
    "group-by",
    f"incr select < K: k, m: avg(x.V) > from x in {stream(FACTS)} group by k: x.K;",
    (FACTS,),
    _groupby,
)
JOIN: Final = Shape(
    "join",
    f"incr select < A: a, m: avg(x.V) > from x in {stream(MANY)}, y in {stream(FEW)}"
    " where x.K = y.C group by a: y.A;",
    (MANY, FEW),
    _join,
)


@dataclass(frozen=True, slots=True)
class Case:
    """A shape over a history."""

    shape: Shape
    rows: int
    keys: int

    @property
    def name(self) -> str:
        """As in "join, 10M rows, 10K keys"."""
        return f"{self.shape.name}, {_short(self.rows)} rows, {_short(self.keys)} keys"

    @property
    def is_large(self) -> bool:
        """Whether it is recomputed only once."""
        return self.rows >= LARGE


def _short(count: int) -> str:
    return f"{count // _MILLION}M" if count >= _MILLION else f"{count // 1000}K"


CASES: Final = (
    *(
        Case(shape, rows * _MILLION, keys)
        for rows in (1, 10, 100)
        for shape in (GROUPBY, JOIN)
        for keys in (10_000, _MILLION)
    ),
    Case(GROUPBY, 100 * _MILLION, 10 * _MILLION),
)
QUICK_CASES: Final = (Case(GROUPBY, 200_000, 10_000), Case(JOIN, 200_000, 10_000))


def run(options: Options, tell: Tell) -> Iterator[Finding]:
    """All cases, the small ones first."""
    with session_for(options) as session:
        order = random.Random(options.seed)
        spark = session.private_spark()
        bench = Bench(session, spark, options.data, patience=PATIENCE, order=order)
        rounds = options.count(ROUNDS, 1)
        sizes = QUICK_SIZES if options.quick else SIZES
        for case in QUICK_CASES if options.quick else CASES:
            try:
                yield from measure_case(bench, case, sizes, rounds, tell)
            except Exception as error:  # whatever it is, the other cases are still wanted
                yield failure(NAME, case.name, error)


def measure_case(
    bench: Bench, case: Case, sizes: Sequence[int], rounds: int, tell: Tell
) -> Iterator[Finding]:
    """Measure a row for each batch size, and one about the whole case."""
    size = Size(case.rows, case.keys, sizes[0])
    tell(f"{case.name}: the history")
    folder = history(bench.spark, bench.data, size)
    tell(f"{case.name}: the first load")
    with open_stage(bench, case.shape, folder, size) as stage:
        again = () if case.is_large else AGAIN
        warm(stage, 1, again)
        results: dict[int, Rounds] = {}
        for rows in sizes:
            tell(f"{case.name}: batches of {rows:,}")
            stage.supply.size = Size(case.rows, case.keys, rows)
            results[rows] = Rounds()
            for _ in range(rounds):
                stage.round(results[rows], again)
        tell(f"{case.name}: comparing the answers")
        costs: dict[str, Cost] = {}
        problems = stage.differences(costs)
        if case.is_large:
            for of_size in results.values():
                of_size.costs |= {side: [cost] for side, cost in costs.items()}
        yield from _rows(case, results, problems)
        yield _whole(case, stage, results, problems)


def _rows(case: Case, results: Mapping[int, Rounds], problems: list[str]) -> Iterator[Finding]:
    for rows, rounds in results.items():
        figures: dict[str, Figure] = {"batch rows": rows, **rounds.figures()}
        once = ", run once after all batches" if case.is_large else ""
        note = "; ".join(problems) or f"against {rounds.best}{once}"
        yield Finding(
            NAME, case.name, figures, rounds.ratio, verdict_of(rounds.ratio, problems), note
        )


def _whole(case: Case, stage: Stage, results: Mapping[int, Rounds], problems: list[str]) -> Finding:
    """About the case as a whole: the first load, and where it is break-even."""
    last = results[max(results)].reports[-1]
    ratios = {rows: rounds.ratio for rows, rounds in results.items()}
    figures: dict[str, Figure] = {
        "load ms": round(1000 * stage.load.seconds),
        "state rows": last.state_rows,
        "state bytes": last.state_bytes,
    }
    note = "; ".join(problems) or f"break-even at {break_even(ratios)} rows a batch"
    return Finding(NAME, case.name, figures, None, verdict_of(None, problems), note)


def break_even(ratios: Mapping[int, float]) -> str:
    """The size of a batch with which the ratio is 1; between two sizes, both on a log scale."""
    points = sorted(ratios.items())
    if points[-1][1] > 1:
        return f"more than {points[-1][0]:,}"
    wins = [place for place, (_, ratio) in enumerate(points) if ratio > 1]
    if not wins:
        return f"fewer than {points[0][0]:,}"
    (low, above), (high, below) = points[wins[-1] : wins[-1] + 2]
    part = math.log(above) / (math.log(above) - math.log(below))
    rows = math.exp(math.log(low) + part * (math.log(high) - math.log(low)))
    return f"about {float(f'{rows:.1e}'):,.0f}"


EXPERIMENT: Final = Experiment(
    NAME,
    "batches of 100 to 1M rows on histories of 1M, 10M and 100M rows, and where it is break-even",
    run,
)
