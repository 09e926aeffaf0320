"""DataFrames of many shapes over the tables of `texts/shapes.tables`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql import types as T  # noqa: N812

Tables = Callable[[str], DataFrame]
"""The table of a name."""


FRAMES: Final[dict[str, Callable[[Tables], DataFrame]]] = {
    "select": lambda table: table("t").select("a", (F.col("b") * 2).alias("b2")),
    "where": lambda table: table("t").where("a > 1").filter(F.col("c").isin("x", "y")),
    "with_columns": lambda table: (
        table("t").withColumn("z", F.col("a") + 1).withColumnRenamed("c", "cc").drop("d")
    ),
    "group": lambda table: (
        table("t").groupBy("c").agg(F.count("*").alias("n"), F.avg("d").alias("mean"), F.sum("a"))
    ),
    "group_expression": lambda table: table("t").groupBy(F.col("a") % 2, F.upper("c")).count(),
    "rollup": lambda table: table("t").rollup("a", "c").agg(F.sum("b"), F.grouping_id()),
    "join": lambda table: table("t").join(table("u"), "a", "left").select("a", table("u")["c"]),
    "join_condition": lambda table: table("t").join(
        table("u"), table("t")["a"].eqNullSafe(table("u")["a"]), "full"
    ),
    "self_join": lambda table: (
        table("t")
        .alias("x")
        .join(table("t").alias("y"), F.col("x.a") == F.col("y.b"))
        .select("x.*")
    ),
    "semi": lambda table: table("t").join(table("u"), ["a", "c"], "left_semi"),
    "anti": lambda table: table("t").join(table("u"), ["a"], "left_anti"),
    "union_by_name": lambda table: (
        table("t").select("a", "b").unionByName(table("u").select("b", "a"))
    ),
    "set_operations": lambda table: (
        table("t").select("a").exceptAll(table("u").select("a")).intersect(table("u").select("a"))
    ),
    "distinct": lambda table: table("t").select("a", "c").distinct(),
    "drop_duplicates": lambda table: table("t").dropDuplicates(["a"]),
    "order_limit": lambda table: (
        table("t").orderBy(F.desc_nulls_last("a"), "c").offset(1).limit(5).select("a", "c")
    ),
    "explode": lambda table: table("v").select("id", F.explode("xs").alias("x")),
    "explode_outer": lambda table: table("v").select("id", F.posexplode_outer("ps")),
    "higher_order": lambda table: table("v").select(
        F.transform("xs", lambda x: x + 1), F.filter("xs", lambda x: x > 0), F.size("m")
    ),
    "nested": lambda table: table("v").select("s.x", F.col("m")["a"], F.struct("id", "s")),
    "pivot": lambda table: table("t").groupBy("a").pivot("c", ["x", "y"]).sum("b"),
    "unpivot": lambda table: table("u").unpivot("c", ["a", "b"], "name", "val"),
    "window": lambda table: table("t").withColumn(
        "r", F.row_number().over(Window.partitionBy("c").orderBy(F.desc("b"), "a"))
    ),
    "fill": lambda table: table("t").fillna({"a": 0, "c": "?"}).dropna(subset=["b"]),
    "replace": lambda table: table("u").replace({1: 10}, subset=["a"]),
    "range": lambda table: (
        table("t").sparkSession.range(1, 10, 3, 1).join(table("t"), F.col("id") == F.col("a"))
    ),
    "local": lambda table: table("t").join(
        table("t").sparkSession.createDataFrame(
            [(1, "x", None), (2, None, [1.5, None])], "a int, z string, zs array<double>"
        ),
        "a",
    ),
    "udf": lambda table: table("t").select(
        F.udf(lambda a: a, T.IntegerType(), useArrow=False)("a").alias("p")
    ),
    "hint": lambda table: table("t").join(F.broadcast(table("u")), "a").repartition(3),
    "sql_over_frame": lambda table: table("t").sparkSession.sql(
        "select c, sum(b) from {rows} group by c", rows=table("t")
    ),
}
