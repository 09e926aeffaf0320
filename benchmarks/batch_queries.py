"""The queries, each as MRQL and as an expert would write it with data frames."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from benchmarks.batch_loops import kmeans, kmeans_text, pagerank, pagerank_text
from benchmarks.batch_sides import Action, Expert, Kept

FACTS = "K int, V int, D double, C int, S string"
LEFT = "A int, K int, N int"
RIGHT = "K int, V int, D double"
MATRIX = "I int, J int, V double"
ORDERS = "id int, customer string, items array<struct<product: string, pieces: int, price: double>>"


@dataclass(frozen=True, slots=True)
class Case:
    """A query to be measured."""

    name: str
    about: str
    text: str
    """The MRQL text, with `{data}` for the folder."""
    expert: Expert
    action: Action = "noop"
    floats: bool = False
    """Whether it sums doubles, so that it is measured both ways."""
    loop: bool = False
    """Whether it is a loop: then jobs and stages are compared, not one plan."""


def _types(columns: str) -> str:
    """The columns of a Spark schema as an MRQL record type."""
    fields = [column.strip().split(" ") for column in columns.split(",")]
    return "< " + ", ".join(f"{name}: {type_}" for name, type_ in fields) + " >"


def _parquet(name: str, columns: str) -> str:
    return f'source(parquet, "{{data}}/{name}", type({_types(columns)}))'


def _table(spark: SparkSession, data: Path, name: str, columns: str) -> DataFrame:
    return spark.read.schema(columns).parquet(str(data / name))


# --- by hand -----------------------------------------------------------------------------


def _scan_filter(spark: SparkSession, data: Path, _: Kept) -> DataFrame:
    facts = _table(spark, data, "facts", FACTS)
    return facts.where("D < 100 and C = 7").select("K", "D")


def _average_int(spark: SparkSession, data: Path, _: Kept) -> DataFrame:
    return _table(spark, data, "facts", FACTS).groupBy("K").agg(sql.avg("V").alias("a"))


def _average_double(spark: SparkSession, data: Path, _: Kept) -> DataFrame:
    return _table(spark, data, "facts", FACTS).groupBy("K").agg(sql.avg("D").alias("a"))


def _join_group(spark: SparkSession, data: Path, _: Kept) -> DataFrame:
    """The sums of the right side first: a row for each key instead of a hundred."""
    left = _table(spark, data, "left", LEFT)
    right = _table(spark, data, "right", RIGHT)
    sums = right.groupBy("K").agg(sql.sum("V").alias("s"))
    return left.join(sql.broadcast(sums), "K").groupBy("A").agg(sql.sum("s").alias("s"))


def _nested(spark: SparkSession, data: Path, _: Kept) -> DataFrame:
    left = _table(spark, data, "left", LEFT)
    right = _table(spark, data, "right", RIGHT)
    aggregates = right.groupBy("K").agg(sql.count("*").alias("c"), sql.avg("V").alias("a"))
    joined = left.select("N").join(sql.broadcast(aggregates), sql.col("N") == aggregates.K, "left")
    return joined.select("N", sql.coalesce("c", sql.lit(0)).alias("c"), "a")


def _distinct(spark: SparkSession, data: Path, _: Kept) -> DataFrame:
    return _table(spark, data, "facts", FACTS).select("C", "S").distinct()


def _top(spark: SparkSession, data: Path, _: Kept) -> DataFrame:
    facts = _table(spark, data, "facts", FACTS)
    return facts.select("K", "V", "D").orderBy(sql.desc("D"), "K", "V").limit(10)


def _json(spark: SparkSession, data: Path, _: Kept) -> DataFrame:
    orders = spark.read.schema(ORDERS).json(str(data / "orders"))
    items = orders.select(sql.explode("items").alias("i"))
    return items.groupBy(sql.col("i.product").alias("p")).agg(
        sql.count("*").alias("n"), sql.sum("i.pieces").alias("s")
    )


def _matrix(spark: SparkSession, data: Path, _: Kept) -> DataFrame:
    a = _table(spark, data, "matrix_a", MATRIX).toDF("I", "K", "x")
    b = _table(spark, data, "matrix_b", MATRIX).toDF("K", "J", "y")
    return a.join(b, "K").groupBy("I", "J").agg(sql.sum(sql.col("x") * sql.col("y")).alias("v"))


# --- both --------------------------------------------------------------------------------

_ORDERS = (
    'source(json, "{data}/orders", type(< id: int, customer: string,'
    " items: [< product: string, pieces: int, price: double >] >))"
)

CASES = (
    Case(
        "scan-filter",
        "two of five columns, 1 row in 2,000",
        f"select < K: x.K, D: x.D > from x in {_parquet('facts', FACTS)}"
        " where x.D < 100.0 and x.C = 7;",
        _scan_filter,
    ),
    Case(
        "group-by avg (int)",
        "average of integers by key",
        f"select < K: k, a: avg(x.V) > from x in {_parquet('facts', FACTS)} group by k: x.K;",
        _average_int,
    ),
    Case(
        "group-by avg (double)",
        "average of doubles by key",
        f"select < K: k, a: avg(x.D) > from x in {_parquet('facts', FACTS)} group by k: x.K;",
        _average_double,
        floats=True,
    ),
    Case(
        "join + group-by",
        "1M by 1M rows, 100 matches a key, sum by group",
        f"select < A: a, s: sum(y.V) > from x in {_parquet('left', LEFT)},"
        f" y in {_parquet('right', RIGHT)} where x.K = y.K group by a: x.A;",
        _join_group,
    ),
    Case(
        "nested aggregate",
        "count and average of a correlated sub-query for each of 1M rows",
        f"Right = {_parquet('right', RIGHT)};"
        " select < N: x.N, c: count(select y from y in Right where y.K = x.N),"
        " a: avg(select y.V from y in Right where y.K = x.N) >"
        f" from x in {_parquet('left', LEFT)};",
        _nested,
    ),
    Case(
        "distinct",
        "100K pairs of 10M rows",
        f"select distinct < C: x.C, S: x.S > from x in {_parquet('facts', FACTS)};",
        _distinct,
    ),
    Case(
        "top-10",
        "of 10M rows by a double",
        f"select < K: x.K, V: x.V, D: x.D > from x in {_parquet('facts', FACTS)}"
        " order by x.D desc limit 10;",
        _top,
        action="collect",
    ),
    Case(
        "JSON explode + group-by",
        "orders as JSON lines with 0 to 9 items each",
        f"select < p: p, n: count(i), s: sum(i.pieces) > from o in {_ORDERS},"
        " i in o.items group by p: i.product;",
        _json,
    ),
    Case(
        "PageRank",
        "10 steps",
        pagerank_text(10),
        pagerank(10),
        floats=True,
        loop=True,
    ),
    Case(
        "k-means",
        "10 steps, 8 centroids",
        kmeans_text(10),
        kmeans(10),
        action="collect",
        floats=True,
        loop=True,
    ),
    Case(
        "matrix product",
        "two sparse matrices",
        f"select < I: i, J: j, v: sum(z) > from < I: i, J: k, V: x > in"
        f" {_parquet('matrix_a', MATRIX)}, < I: k, J: j, V: y > in"
        f" {_parquet('matrix_b', MATRIX)}, z = x * y group by (i, j);",
        _matrix,
        floats=True,
    ),
)
