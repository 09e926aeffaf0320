"""A program of six stateful nodes against one of a single node, on changes of the same size."""

from __future__ import annotations

from pathlib import Path
from typing import Any as Arrow

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from benchmarks.incremental_data import Draw, Table
from benchmarks.incremental_queries import Workload, frame, stream


def _orders(draw: Draw) -> dict[str, Arrow]:
    rows = draw.size.rows
    return {"cust": draw.any(rows), "prod": draw.any(rows // 10), "qty": draw.any(10)}


def _customers(draw: Draw) -> dict[str, Arrow]:
    return {"cust": draw.each(draw.size.rows), "city": draw.any(draw.size.rows // 100)}


def _products(draw: Draw) -> dict[str, Arrow]:
    return {"prod": draw.each(draw.size.rows // 10), "price": draw.any(100)}


def _cities(draw: Draw) -> dict[str, Arrow]:
    return {"city": draw.each(draw.size.rows // 100), "region": draw.any(100)}


def _limits(draw: Draw) -> dict[str, Arrow]:
    return {"city": draw.each(draw.size.rows // 100), "least": draw.any(20_000)}


ORDERS = Table("orders", "cust int, prod int, qty int", _orders, share=0.6)
CUSTOMERS = Table("customers", "cust int, city int", _customers, share=0.2)
PRODUCTS = Table("products", "prod int, price int", _products, part=0.1, share=0.1)
CITIES = Table("cities", "city int, region int", _cities, part=0.01, share=0.0)
LIMITS = Table("limits", "city int, least int", _limits, part=0.01, share=0.1)


def _by_hand(spark: SparkSession, data: Path) -> DataFrame:
    orders, customers, products, cities, limits = (
        frame(spark, data, table) for table in (ORDERS, CUSTOMERS, PRODUCTS, CITIES, LIMITS)
    )
    totals = (
        orders.join(customers, "cust")
        .join(products, "prod")
        .groupBy("city")
        .agg(sql.sum(sql.col("qty") * sql.col("price")).alias("total"))
    )
    least = limits.groupBy("city").agg(sql.sum("least").alias("least"))
    large = totals.join(least, "city", "left").where("total > coalesce(least, 0)")
    regions = large.select("city", "total").join(cities, "city").groupBy("region")
    return regions.agg(sql.sum("total").alias("total"), sql.count("*").alias("cities"))


CHAIN = Workload(
    "chain",
    "three joins, two group-bys and a filter over an aggregate, 1M rows",
    "incr select < region: region, total: sum(t.total), cities: count(t) > from t in"
    " (select < city: city, total: sum(z) >"
    f" from o in {stream(ORDERS)}, c in {stream(CUSTOMERS)}, p in {stream(PRODUCTS)},"
    " z = o.qty * p.price where o.cust = c.cust and o.prod = p.prod group by city: c.city),"
    f" r in {stream(CITIES)} where t.city = r.city and t.total >"
    f" sum(select l.least from l in {stream(LIMITS)} where l.city = t.city)"
    " group by region: r.region;",
    (ORDERS, CUSTOMERS, PRODUCTS, CITIES, LIMITS),
    _by_hand,
    rows=1_000_000,
)
