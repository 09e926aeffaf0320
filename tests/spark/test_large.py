"""Sums and means that leave the range of a long or of exact doubles on the way."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from incmrql import Session
from incmrql.values import Bag, identical

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

LARGEST = 2**31 - 1


def test_a_joined_sum_that_no_long_holds_is_null(spark: SparkSession) -> None:
    """10^10 pairs of the largest int: as longs their sum went around to a wrong number."""
    session = Session(spark)
    session.register("L", spark.range(100_000).selectExpr("1 AS A", "1 AS K"))
    session.register("M", spark.range(100_000).selectExpr("1 AS K", f"{LARGEST} AS V"))
    query = (
        "select (a, sum(y.V), avg(y.V), count(y)) from x in L, y in M "
        + "where x.K = y.K group by a: x.A"
    )
    assert session.query(query).collect() == Bag([(1, None, float(LARGEST), 10**10)])


@pytest.mark.parametrize("sign", [1, -1])
def test_the_mean_of_ints_is_rounded_once_where_their_sum_is_no_double(
    sign: int, spark: SparkSession
) -> None:
    """Above 2^53 a sum of ints is no double, and a mean of it would be rounded twice."""
    rows = 10_000_000
    session = Session(spark)
    table = spark.range(rows).selectExpr(
        "CAST(id % 2 AS INT) AS K", f"CAST({sign} * ({LARGEST} - id % 13) AS INT) AS V"
    )
    session.register("T", table)
    means = session.query("select (k, avg(x.V)) from x in T group by k: x.K").collect()
    expected = []
    for key in (0, 1):
        values = sign * (LARGEST - np.arange(key, rows, 2) % 13)
        total = int(values.sum())
        assert abs(total) > 2**53
        mean = Fraction(total, len(values))
        expected.append((key, mean.numerator / mean.denominator))
    assert identical(means, Bag(expected))


def test_the_mean_of_nothing_beside_an_outer_row_is_null(spark: SparkSession) -> None:
    session = Session(spark)
    session.register("L", spark.range(3).selectExpr("CAST(id AS INT) AS K"))
    session.register("M", spark.range(2).selectExpr("CAST(id AS INT) AS K", "CAST(7 AS INT) AS V"))
    query = "select (x.K, avg(select y.V from y in M where y.K = x.K)) from x in L"
    assert session.query(query).collect() == Bag([(0, 7.0), (1, 7.0), (2, None)])
