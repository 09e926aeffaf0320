"""The loops, PageRank and k-means, as MRQL and as an expert would write them.

An expert keeps what a step reads and does not change, and cuts the lineage at each step with
`localCheckpoint`, so that plans do not grow.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from benchmarks.batch_sides import Expert, Kept

CENTROIDS = tuple((12.5 + 25.0 * (i % 4), 25.0 + 50.0 * (i // 4)) for i in range(8))


def pagerank_text(steps: int) -> str:
    """PageRank as in `examples/pagerank.mrql`, over records."""
    return f"""
    Links = source(parquet, "{{data}}/edges", type(< src: int, dst: int >));
    Degrees = select (page, count(to)) from < src: page, dst: to > in Links group by page;
    n = count(Degrees);
    repeat ranks = select < page: page, rank: 1.0 / n > from (page, d) in Degrees
      step select < page: to, rank: 0.15 / n + 0.85 * sum(share) >
           from < src: page, dst: to > in Links,
                < page: page, rank: rank > in ranks,
                (page, degree) in Degrees,
                share = rank / degree
           group by to
      limit {steps};"""


def pagerank(steps: int) -> Expert:
    """The same by hand: the links with their degrees are kept, and the few ranks broadcast."""

    def run(spark: SparkSession, data: Path, kept: Kept) -> DataFrame:
        links = spark.read.schema("src int, dst int").parquet(str(data / "edges"))
        degrees = links.groupBy("src").agg(sql.count("*").alias("degree"))
        outgoing = links.join(sql.broadcast(degrees), "src").persist()
        kept.append(outgoing.unpersist)
        n = degrees.count()
        ranks = degrees.select(sql.col("src").alias("page"), sql.lit(1.0 / n).alias("rank"))
        ranks = _cut(ranks, kept)
        for _ in range(steps):
            share = (sql.col("rank") / sql.col("degree")).alias("share")
            shares = outgoing.join(sql.broadcast(ranks), outgoing.src == ranks.page).select(
                "dst", share
            )
            summed = shares.groupBy("dst").agg(sql.sum("share").alias("s"))
            rank = sql.lit(0.15 / n) + sql.lit(0.85) * sql.col("s")
            fresh = _cut(summed.select(sql.col("dst").alias("page"), rank.alias("rank")), kept)
            kept.pop(-2)()
            ranks = fresh
        return ranks

    return run


def _cut(frame: DataFrame, kept: Kept) -> DataFrame:
    """Compute a frame now, and keep its rows without its plan."""
    done = frame.localCheckpoint(eager=True)
    kept.append(lambda: done._jdf.queryExecution().analyzed().rdd().unpersist(False))
    return done


def kmeans_text(steps: int) -> str:
    """k-means as in `examples/kmeans.mrql`."""
    given = ", ".join(f"< X: {x}, Y: {y} >" for x, y in CENTROIDS)
    return f"""
    type Point = < X: double, Y: double >;
    function distance (a: Point, b: Point): double {{{{
      sqrt(pow(a.X - b.X, 2) + pow(a.Y - b.Y, 2))
    }}}};
    Points = source(parquet, "{{data}}/points", type(Point));
    repeat centroids = {{{{ {given} }}}}
      step select < X: avg(s.X), Y: avg(s.Y) >
           from s in Points
           group by k: (select c from c in centroids order by distance(c, s))[0]
      limit {steps};"""


def kmeans(steps: int) -> Expert:
    """The same by hand: the few centroids go through the driver, into the text of the step."""

    def run(spark: SparkSession, data: Path, kept: Kept) -> DataFrame:
        points = spark.read.schema("X double, Y double").parquet(str(data / "points")).persist()
        kept.append(points.unpersist)
        centroids = list(CENTROIDS)
        for _ in range(steps):
            means = points.groupBy(_nearest(centroids)).agg(
                sql.avg("X").alias("X"), sql.avg("Y").alias("Y")
            )
            centroids = [(row.X, row.Y) for row in means.collect()]
        return spark.createDataFrame(centroids, "X double, Y double")

    return run


def _nearest(centroids: list[tuple[float, float]]) -> Column:
    """The number of the nearest centroid."""
    distances = [
        sql.struct(
            (sql.pow(sql.col("X") - x, sql.lit(2)) + sql.pow(sql.col("Y") - y, sql.lit(2))).alias(
                "d"
            ),
            sql.lit(number).alias("n"),
        )
        for number, (x, y) in enumerate(centroids)
    ]
    return sql.array_min(sql.array(*distances)).getField("n").alias("n")
