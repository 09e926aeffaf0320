"""The paper's group-by and join + group-by, over pairs of random integers below 10,000.

The paper's text gives each stream of the join its own increments: here both get as many rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any as Arrow
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from benchmarks.batch_sides import Kept
from benchmarks.experiments.paper import Question, experiment
from benchmarks.incremental_data import Draw, Table
from benchmarks.incremental_queries import frame, stream

BELOW: Final = 10_000
SIZES: Final = (10_000, 20_000, 30_000, 40_000)


def _pairs(name: str, first: str, second: str) -> Table:
    def make(draw: Draw) -> dict[str, Arrow]:
        return {first: draw.any(BELOW), second: draw.any(BELOW)}

    return Table(name, f"{first} int, {second} int", make)


PAIRS: Final = _pairs("pairs", "K", "V")
LEFT: Final = _pairs("one", "A", "B")
RIGHT: Final = _pairs("other", "C", "D")


def _text_of(text: str, tables: tuple[Table, ...], folder: Path) -> str:
    return text.format(**{table.name: folder / table.name for table in tables})


def _groupby(spark: SparkSession, data: Path, _kept: Kept) -> DataFrame:
    return frame(spark, data, PAIRS).groupBy("K").agg(sql.avg("V").alias("m"))


def _join(spark: SparkSession, data: Path, _kept: Kept) -> DataFrame:
    """Sum and count by the key of the join first: a row for each key instead of many."""
    left, right = frame(spark, data, LEFT), frame(spark, data, RIGHT)
    sums = right.groupBy("C").agg(sql.sum("D").alias("s"), sql.count("D").alias("n"))
    joined = left.join(sql.broadcast(sums), left.B == sums.C)
    return joined.groupBy("A").agg((sql.sum("s") / sql.sum("n")).alias("m"))


_GROUPBY = f"incr select < K: k, m: avg(x.V) > from x in {stream(PAIRS)} group by k: x.K;"
_JOIN = (
    f"incr select < A: a, m: avg(y.D) > from x in {stream(LEFT)}, y in {stream(RIGHT)}"
    " where x.B = y.C group by a: x.A;"
)

GROUPBY_QUESTION: Final = Question(
    "paper-groupby",
    "group-by avg over 1M pairs of integers below 10,000, 9 increments of 10K to 40K",
    lambda folder: _text_of(_GROUPBY, (PAIRS,), folder),
    (PAIRS,),
    _groupby,
    rows=1_000_000,
    keys=BELOW,
    sizes=SIZES,
    rounds=2,
)
JOIN_QUESTION: Final = Question(
    "paper-join",
    "join + group-by over 100K + 100K pairs of integers below 10,000, 9 increments of 10K to 40K"
    " on either side",
    lambda folder: _text_of(_JOIN, (LEFT, RIGHT), folder),
    (LEFT, RIGHT),
    _join,
    rows=100_000,
    keys=BELOW,
    sizes=SIZES,
)
GROUPBY: Final = experiment(GROUPBY_QUESTION)
JOIN: Final = experiment(JOIN_QUESTION)
