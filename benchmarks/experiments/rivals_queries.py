"""The queries of the rivals' table: as MRQL, as data frames, and as SQL over the same tables.

DuckDB and Flink run the same SQL text over tables that are named `t_…`.  What is deleted is gone
from those tables before a query sees it.  The correlated sub-query is a join in SQL: Flink 2.3 does
not put small batches below a sub-query, but waits for them above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any as Arrow
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from benchmarks.batch_sides import Expert, Kept
from benchmarks.incremental_data import Draw, Size
from benchmarks.incremental_queries import FACTS, NUMBERS, WORKLOADS, Workload, frame, stream
from benchmarks.incremental_queries import Expert as Plain
from benchmarks.iteration_hand import pagerank
from benchmarks.iteration_queries import LARGE, STEPS

ROWS: Final = 1_000_000
QUICK_ROWS: Final = 50_000
BATCH: Final = 10_000
QUICK_BATCH: Final = 2_000
"""Small enough for a file of the history to have all rows that leave."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query that all sides are asked to keep up to date."""

    workload: Workload
    sql: str
    """For DuckDB and Flink; columns count by their places."""
    kinds: str
    """The columns of the answer, a letter each: `i` an integer, `d` a double."""
    rows_per_key: int
    hand: Expert | None = None
    """The code by hand where it keeps frames; that of the workload otherwise."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.workload.name

    def size(self, rows: int, batch: int = BATCH) -> Size:
        """The size with a given number of rows in the history of a table."""
        return Size(rows, max(rows // self.rows_per_key, 10), batch)

    @property
    def expert(self) -> Expert:
        """The code by hand."""
        return self.hand or _plain(self.workload.expert)


def _plain(expert: Plain) -> Expert:
    def run(spark: SparkSession, data: Path, _: Kept) -> DataFrame:
        return expert(spark, data)

    return run


def _rising(draw: Draw) -> dict[str, Arrow]:
    """Each batch has rows that are greater than all before: otherwise hardly one would matter."""
    return {"K": draw.any(draw.size.keys), "D": draw.doubles() + 10 * draw.number}


_RISING = replace(FACTS, make=_rising)


def _top(spark: SparkSession, data: Path) -> DataFrame:
    return frame(spark, data, FACTS).orderBy(sql.desc("D"), "K").limit(10)


def _distinct(spark: SparkSession, data: Path) -> DataFrame:
    return frame(spark, data, NUMBERS).select("K").distinct()


def _no_expert(spark: SparkSession, data: Path) -> DataFrame:
    raise NotImplementedError(f"{spark} over {data}: loops are run by code that keeps frames")


def _pagerank_sql() -> str:
    """The steps one after the other: both engines lack a loop that groups."""
    parts = [
        "degrees as (select src, count(*) as degree from t_edges group by src)",
        "links as (select e.src, e.dst, d.degree from t_edges e"
        " join degrees d on e.src = d.src)",
        "r0 as (select src as page, cast(1 as double) as score from degrees)",
    ]  # fmt: skip
    parts += [
        f"r{step + 1} as (select l.dst as page, 0.15 + 0.85 * sum(r.score / l.degree) as score"
        f" from links l join r{step} r on l.src = r.page group by l.dst)"
        for step in range(STEPS)
    ]
    return f"with {', '.join(parts)} select page, score from r{STEPS}"


_BY_NAME: Final[Mapping[str, Workload]] = {workload.name: workload for workload in WORKLOADS}
_TOP = Workload(
    "top",
    "top-10",
    f"incr select < K: x.K, D: x.D > from x in {stream(_RISING)} order by x.D desc limit 10;",
    (_RISING,),
    _top,
    rows=ROWS,
)
_DISTINCT = Workload(
    "distinct",
    "distinct",
    f"incr select distinct < K: x.K > from x in {stream(NUMBERS)};",
    (NUMBERS,),
    _distinct,
    rows=ROWS,
)
_PAGERANK = Workload(
    "pagerank",
    f"PageRank, {STEPS} steps",
    LARGE.text,
    (LARGE.table,),
    _no_expert,
    rows=ROWS,
    floats=True,
)


def _workload(name: str, about: str) -> Workload:
    return replace(_BY_NAME[name], about=about)


QUERIES: Final = (
    Query(
        _workload("average", "group-by avg"),
        "select K, avg(D) as m from t_facts group by K",
        "id",
        10,
    ),
    Query(
        _workload("join", "join + group-by"),
        "select l.A, avg(r.D) as m from t_left l join t_right r on l.B = r.C group by l.A",
        "id",
        1,
    ),
    Query(
        _workload("histogram", "group-by over group-by"),
        "select n, count(*) as keys from"
        " (select K, count(*) as n from t_numbers group by K) as counts group by n",
        "ii",
        10,
    ),
    Query(
        _workload("filter", "correlated sub-query filter"),
        "select x.A, x.B, x.D from t_outer x left join"
        " (select K, sum(C) as s from t_inner group by K) y on y.K = x.B"
        " where x.D > coalesce(y.s, 0)",
        "iii",
        1,
    ),
    Query(
        _workload("extremes", "min/max with deletions"),
        "select K, min(V) as low, max(V) as high from t_numbers group by K",
        "iii",
        100,
    ),
    Query(_TOP, "select K, D from t_facts order by D desc, K limit 10", "id", 10),
    Query(_DISTINCT, "select distinct K from t_numbers", "i", 2),
    Query(_PAGERANK, _pagerank_sql(), "id", 20, pagerank(STEPS)),
)
