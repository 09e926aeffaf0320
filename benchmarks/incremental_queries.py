"""The workloads, each as MRQL over streams and as an expert recomputes it with data frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any as Arrow
from typing import Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from benchmarks.incremental_data import GONE, Draw, Size, Table

BATCH: Final = 10_000
Expert: TypeAlias = Callable[[SparkSession, Path], DataFrame]


@dataclass(frozen=True, slots=True)
class Workload:
    """A query to be kept up to date, and what that has to gain over doing it again."""

    name: str
    about: str
    text: str
    """The MRQL text, with `{name}` for the folder of each table."""
    tables: tuple[Table, ...]
    expert: Expert
    rows: int
    """Rows of the history of each table at full size."""
    keys: int | None = None
    """Keys at full size; without it their number follows the rows."""
    rows_per_key: int = 1
    floats: bool = False
    """Whether plain Spark may round otherwise."""
    deleted: float = 0.0
    """The share of a batch that deletes."""
    must: float = 1.0
    aim: float = 1.0

    def size(self, scale: float = 1.0, history: float = 1.0) -> Size:
        """The size at a scale, with another history than the usual one."""
        rows = max(int(self.rows * scale * history), 100)
        keys = rows // self.rows_per_key if self.keys is None else int(self.keys * scale)
        return Size(rows, max(keys, 10), max(int(BATCH * scale), 50))


def text_of(workload: Workload, data: Path) -> str:
    """The MRQL text over a folder."""
    folders = {table.name: data / table.name for table in workload.tables}
    return workload.text.format(**folders, **{GONE: data / GONE})


def _types(columns: str) -> str:
    """The columns of a Spark schema as an MRQL record type."""
    fields = [column.strip().split(" ") for column in columns.split(",")]
    return "< " + ", ".join(f"{name}: {type_}" for name, type_ in fields) + " >"


def stream(table: Table, more: str = "") -> str:
    """The MRQL text of a table as a stream, its folder left open."""
    return f'stream(parquet, "{{{table.name}}}", type({_types(table.columns)}){more})'


def frame(spark: SparkSession, data: Path, table: Table, name: str | None = None) -> DataFrame:
    """A table as plain Spark reads it."""
    return spark.read.schema(table.columns).parquet(str(data / (name or table.name)))


# --- tables ------------------------------------------------------------------------------


def _facts(draw: Draw) -> dict[str, Arrow]:
    return {"K": draw.any(draw.size.keys), "D": draw.doubles()}


def _numbers(draw: Draw) -> dict[str, Arrow]:
    return {"K": draw.any(draw.size.keys), "V": draw.any(1_000_000)}


def _left(draw: Draw) -> dict[str, Arrow]:
    return {"A": draw.any(draw.size.rows // 100), "B": draw.each(draw.size.keys)}


def _right(draw: Draw) -> dict[str, Arrow]:
    return {"C": draw.each(draw.size.keys), "D": draw.doubles()}


def _outer(draw: Draw) -> dict[str, Arrow]:
    return {"A": draw.any(1_000), "B": draw.each(draw.size.keys), "D": draw.any(1_000)}


def _inner(draw: Draw) -> dict[str, Arrow]:
    return {"K": draw.each(draw.size.keys), "C": draw.any(1_000)}


FACTS = Table("facts", "K int, D double", _facts)
NUMBERS = Table("numbers", "K int, V int", _numbers)
LEFT = Table("left", "A int, B int", _left, share=0.5)
RIGHT = Table("right", "C int, D double", _right, share=0.5)
OUTER = Table("outer", "A int, B int, D int", _outer, share=0.5)
INNER = Table("inner", "K int, C int", _inner, share=0.5)


# --- by hand -----------------------------------------------------------------------------


def average(spark: SparkSession, data: Path) -> DataFrame:
    """The average by key."""
    return frame(spark, data, FACTS).groupBy("K").agg(sql.avg("D").alias("m"))


def _join(spark: SparkSession, data: Path) -> DataFrame:
    left, right = frame(spark, data, LEFT), frame(spark, data, RIGHT)
    joined = left.join(right, left.B == right.C)
    return joined.groupBy("A").agg(sql.avg("D").alias("m"))


def _join_below(spark: SparkSession, data: Path) -> DataFrame:
    """Sum and count by key first: a row for each key instead of a hundred."""
    left, right = frame(spark, data, LEFT), frame(spark, data, RIGHT)
    sums = right.groupBy("C").agg(sql.sum("D").alias("s"), sql.count("D").alias("n"))
    joined = left.join(sql.broadcast(sums), left.B == sums.C)
    return joined.groupBy("A").agg((sql.sum("s") / sql.sum("n")).alias("m"))


def _histogram(spark: SparkSession, data: Path) -> DataFrame:
    counts = frame(spark, data, NUMBERS).groupBy("K").agg(sql.count("*").alias("n"))
    return counts.groupBy("n").agg(sql.count("*").alias("keys"))


def _filter(spark: SparkSession, data: Path) -> DataFrame:
    outer, inner = frame(spark, data, OUTER), frame(spark, data, INNER)
    sums = inner.groupBy("K").agg(sql.sum("C").alias("s"))
    joined = outer.join(sums, outer.B == sums.K, "left")
    return joined.where("D > coalesce(s, 0)").select("A", "B", "D")


def _extremes(spark: SparkSession, data: Path) -> DataFrame:
    """Deletions are few: only rows that equal one of them have to be counted."""
    there = frame(spark, data, NUMBERS)
    gone = frame(spark, data, NUMBERS, GONE).groupBy("K", "V").agg(sql.count("*").alias("gone"))
    small = sql.broadcast(gone)
    counted = there.join(small, ["K", "V"]).groupBy("K", "V").agg(
        sql.count("*").alias("n"), sql.first("gone").alias("gone")
    )  # fmt: skip
    left = there.join(small, ["K", "V"], "left_anti")
    rows = left.unionAll(counted.where("n > gone").select("K", "V"))
    return rows.groupBy("K").agg(sql.min("V").alias("low"), sql.max("V").alias("high"))


# --- both --------------------------------------------------------------------------------

_AVERAGE = f"incr select < K: k, m: avg(x.D) > from x in {stream(FACTS)} group by k: x.K;"
_JOIN = (
    f"incr select < A: a, m: avg(y.D) > from x in {stream(LEFT)}, y in {stream(RIGHT)}"
    " where x.B = y.C group by a: x.A;"
)

_DELETES = f', deletes: "{{{GONE}}}"'

AVERAGE = Workload(
    "average",
    "group-by avg, 10M rows, 1M keys",
    _AVERAGE,
    (FACTS,),
    average,
    rows=10_000_000,
    keys=1_000_000,
    floats=True,
    must=12,
    aim=18,
)

WORKLOADS = (
    AVERAGE,
    Workload(
        "average-few",
        "group-by avg, 10M rows, 10K keys",
        _AVERAGE,
        (FACTS,),
        average,
        rows=10_000_000,
        keys=10_000,
        floats=True,
        must=2.5,
        aim=4,
    ),
    Workload(
        "join",
        "join + group-by, 1M + 1M rows, one match a key",
        _JOIN,
        (LEFT, RIGHT),
        _join,
        rows=1_000_000,
        floats=True,
        must=4,
        aim=6,
    ),
    Workload(
        "join-many",
        "join + group-by, 1M + 1M rows, 100 matches a key",
        _JOIN,
        (LEFT, RIGHT),
        _join_below,
        rows=1_000_000,
        rows_per_key=100,
        floats=True,
        must=1.5,
        aim=2.5,
    ),
    Workload(
        "histogram",
        "group-by over group-by (histogram of counts), 10M rows, 1M keys",
        "incr select < n: n, keys: count(k) > from < k: k, n: n > in"
        f" (select < k: k, n: count(x) > from x in {stream(NUMBERS)} group by k: x.K)"
        " group by n;",
        (NUMBERS,),
        _histogram,
        rows=10_000_000,
        keys=1_000_000,
        must=8,
        aim=12,
    ),
    Workload(
        "filter",
        "correlated sub-query filter, 1M + 1M rows, one match a key",
        f"incr select < A: x.A, B: x.B, D: x.D > from x in {stream(OUTER)}"
        f" where x.D > sum(select y.C from y in {stream(INNER)} where y.K = x.B);",
        (OUTER, INNER),
        _filter,
        rows=1_000_000,
        must=4,
        aim=6,
    ),
    Workload(
        "extremes",
        "min/max with deletions, 10M rows, 100K keys",
        "incr select < K: k, low: min(x.V), high: max(x.V) > from x in"
        f" {stream(NUMBERS, _DELETES)} group by k: x.K;",
        (NUMBERS,),
        _extremes,
        rows=10_000_000,
        keys=100_000,
        deleted=0.2,
        must=3,
        aim=5,
    ),
)
