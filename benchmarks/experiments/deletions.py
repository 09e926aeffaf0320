"""Batches of which 0, 10 and 50 % are deletions, for aggregates with an inverse and without.

The stream is the same in all cases, with a folder of deletions that may stay empty.  An average
can take a row back; a least and a greatest value cannot, and keep all values.  In the join rows
are deleted on the side that has most of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from benchmarks.experiments import scale_data
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
from benchmarks.experiments.scale_data import FACTS, MANY
from benchmarks.experiments.sides import HAND, Rounds, Shape, open_stage, warm
from benchmarks.incremental_data import GONE, Size, history_of
from benchmarks.incremental_queries import WORKLOADS, frame, stream
from benchmarks.incremental_run import Bench

NAME: Final = "deletions"
SHARES: Final = (0.0, 0.1, 0.5)
QUICK_SHARES: Final = (0.0, 0.5)
FULL: Final = Size(rows=1_000_000, keys=100_000, batch=10_000)
QUICK: Final = Size(rows=20_000, keys=2_000, batch=200)
ROUNDS: Final = 5


def _facts_with_weights(spark: SparkSession, data: Path) -> DataFrame:
    """Facts with their weights: 1 for an inserted row, -1 for a deleted one."""
    parts = [
        frame(spark, data, FACTS, name).withColumn("w", sql.lit(weight))
        for name, weight in ((FACTS.name, 1), (GONE, -1))
    ]
    return parts[0].unionAll(parts[1])


def _sums(facts: DataFrame) -> DataFrame:
    """The weighted sum and count of each key."""
    weight = sql.col("w")
    total: Column = sql.sum(weight * sql.col("V")).alias("s")
    return facts.groupBy("K").agg(total, sql.sum(weight).alias("n")).where("n > 0")


def _groupby(spark: SparkSession, data: Path) -> DataFrame:
    return _sums(_facts_with_weights(spark, data)).select(
        "K", (sql.col("s") / sql.col("n")).alias("m")
    )


def _join(spark: SparkSession, data: Path) -> DataFrame:
    sums, groups = _sums(_facts_with_weights(spark, data)), frame(spark, data, FEW)
    joined = sums.join(groups, sums.K == groups.C)
    return joined.groupBy("A").agg((sql.sum("s") / sql.sum("n")).alias("m"))


_DELETES: Final = f', deletes: "{{{GONE}}}"'
FEW: Final = replace(scale_data.FEW, part=0.1)
EXTREMES: Final = next(workload for workload in WORKLOADS if workload.name == "extremes")
SHAPES: Final = (
    Shape(
        "group-by avg",
        f"incr select < K: k, m: avg(x.V) > from x in {stream(FACTS, _DELETES)} group by k: x.K;",
        (FACTS,),
        _groupby,
    ),
    Shape(
        "join + group-by avg",
        f"incr select < A: a, m: avg(x.V) > from x in {stream(MANY, _DELETES)}, y in {stream(FEW)}"
        " where x.K = y.C group by a: y.A;",
        (MANY, FEW),
        _join,
    ),
    Shape("min and max", EXTREMES.text, EXTREMES.tables, EXTREMES.expert),
)


def run(options: Options, tell: Tell) -> Iterator[Finding]:
    """Each query with each share of deletions."""
    with session_for(options) as session:
        order = random.Random(options.seed)
        bench = Bench(session, session.private_spark(), options.data, order=order)
        size, shares = (QUICK, QUICK_SHARES) if options.quick else (FULL, SHARES)
        for shape in SHAPES:
            for share in shares:
                tell(f"{shape.name}, {share:.0%} deletions")
                try:
                    yield measure_case(bench, shape, size, share, options.count(ROUNDS, 1))
                except Exception as error:  # whatever it is, the other cases are still wanted
                    yield failure(NAME, shape.name, error)


def measure_case(bench: Bench, shape: Shape, size: Size, share: float, rounds: int) -> Finding:
    """Measure one row of the table."""
    folder = history_of(bench.data, f"{NAME}-{len(shape.tables)}", shape.tables, size)
    with open_stage(bench, shape, folder, size, share) as stage:
        warm(stage, 1, (HAND,))
        results = Rounds()
        for _ in range(rounds):
            stage.round(results)
        problems = stage.differences()
    figures: dict[str, Figure] = {"deleted %": round(100 * share), **results.figures()}
    note = "; ".join(problems) or f"against {results.best}"
    return Finding(
        NAME, shape.name, figures, results.ratio, verdict_of(results.ratio, problems), note
    )


EXPERIMENT: Final = Experiment(
    NAME,
    "batches of 10,000 changes, of which 0, 10 and 50 % are deletions, on 1M rows",
    run,
)
