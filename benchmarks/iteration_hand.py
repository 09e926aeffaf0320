"""The loops over all data so far as an expert would write them, as steps of data frames.

An expert keeps what a step reads and does not change, and cuts the lineage at each step with
`localCheckpoint`, so that plans do not grow; a few centroids go through the driver.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from benchmarks.batch_loops import _cut, _nearest
from benchmarks.batch_sides import Expert, Kept
from benchmarks.incremental_data import GONE

STARTS: Final = ((7.0, 7.0), (7.5, 7.0), (7.0, 7.5), (6.5, 6.5))
"""The first centroids, all in one square: they come to rest after six steps."""
_EDGES: Final = "src int, dst int"


def pagerank(steps: int) -> Expert:
    """PageRank: the links with their degrees are kept, and the ranks broadcast."""

    def run(spark: SparkSession, data: Path, kept: Kept) -> DataFrame:
        links = spark.read.schema(_EDGES).parquet(str(data / "edges"))
        degrees = links.groupBy("src").agg(sql.count("*").alias("degree"))
        outgoing = links.join(sql.broadcast(degrees), "src").persist()
        kept.append(outgoing.unpersist)
        first = degrees.select(sql.col("src").alias("page"), sql.lit(1.0).alias("rank"))
        ranks = _cut(first, kept)
        for _ in range(steps):
            share = (sql.col("rank") / sql.col("degree")).alias("share")
            shares = outgoing.join(sql.broadcast(ranks), outgoing.src == ranks.page)
            summed = shares.select("dst", share).groupBy("dst").agg(sql.sum("share").alias("s"))
            rank = sql.lit(0.15) + sql.lit(0.85) * sql.col("s")
            ranks = _cut(summed.select(sql.col("dst").alias("page"), rank.alias("rank")), kept)
            kept.pop(-2)()
        return ranks

    return run


def kmeans(steps: int, at_rest: float | None = None) -> Expert:
    """k-means: the points are kept; maybe it ends before when no centroid moves further."""

    def run(spark: SparkSession, data: Path, kept: Kept) -> DataFrame:
        points = spark.read.schema("X double, Y double").parquet(str(data / "points")).persist()
        kept.append(points.unpersist)
        centroids = list(STARTS)
        for _ in range(steps):
            before = sorted(centroids)
            means = points.groupBy(_nearest(centroids)).agg(
                sql.avg("X").alias("X"), sql.avg("Y").alias("Y")
            )
            centroids = [(row.X, row.Y) for row in means.collect()]
            if at_rest is not None and _greatest_move(before, sorted(centroids)) <= at_rest:
                break
        return spark.createDataFrame(centroids, "X double, Y double")

    return run


def _greatest_move(before: list[tuple[float, float]], after: list[tuple[float, float]]) -> float:
    """The greatest distance that a centroid has moved."""
    if len(before) != len(after):
        return float("inf")
    return max(
        abs(a - b)
        for one, other in zip(before, after, strict=True)
        for a, b in zip(one, other, strict=True)
    )


def reachability(spark: SparkSession, data: Path, kept: Kept) -> DataFrame:
    """Reachability: the edges are kept by their beginnings, and only new nodes go on.

    Deletions are few: only edges that equal one of them have to be counted.
    """
    there = spark.read.schema(_EDGES).parquet(str(data / "forest"))
    gone = spark.read.schema(_EDGES).parquet(str(data / GONE))
    few = sql.broadcast(gone.groupBy("src", "dst").agg(sql.count("*").alias("gone")))
    counted = there.join(few, ["src", "dst"]).groupBy("src", "dst").agg(
        sql.count("*").alias("n"), sql.first("gone").alias("gone")
    )  # fmt: skip
    left = there.join(few, ["src", "dst"], "left_anti")
    edges = left.unionAll(counted.where("n > gone").select("src", "dst")).repartition("src")
    edges = edges.persist()
    kept.append(edges.unpersist)
    nodes = new = _cache_rows(spark.createDataFrame([(0,)], "node int"), kept)
    while True:
        reached = edges.join(sql.broadcast(new), edges.src == new.node).select("dst").distinct()
        fresh = reached.join(sql.broadcast(nodes), reached.dst == nodes.node, "left_anti")
        new = _cache_rows(fresh.select(sql.col("dst").alias("node")), kept)
        if not new.count():
            return nodes
        nodes = _cache_rows(nodes.unionAll(new), kept)


def _cache_rows(frame: DataFrame, kept: Kept) -> DataFrame:
    """Cache the rows of a frame, without its plan, when they are first used."""
    done = frame.localCheckpoint(eager=False)
    kept.append(lambda: done._jdf.queryExecution().analyzed().rdd().unpersist(False))
    return done
