"""Random queries and scripts over random tables: Spark gives the reference evaluator's answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from incmrql.values import Bag, Record
from tests.algebra.shapes import shape_queries
from tests.effort import examples
from tests.generators.queries import queries, scripts
from tests.generators.tables import tables
from tests.spark.answers import agree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

SMALL = settings(
    examples(25),
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
"""A sample that is the same every time; `fuzz` goes on looking."""


@SMALL
@given(text=st.one_of(queries(), queries(), scripts(), shape_queries()), data=tables())
def test_a_query_on_spark_means_what_it_says(
    text: str, data: dict[str, Bag], spark: SparkSession
) -> None:
    agree(text, data, spark)


VIEWS = (
    "v = select < A: k, B: count(x) as int > from x in R group by k: x.A; "
    "w = select < A: x.A, B: x.B + y.B > from x in v, y in v where x.A = y.B; "
    "(count(w), (select (x.A, y.B) from x in w, y in w, z in v where x.A = z.A and z.B = y.B))",
    "v = (select distinct x.A from x in R) union S.A; "
    "(select (a, b) from a in v, b in v where a = b) union (select (a, count(v)) from a in v)",
    "e = select distinct (x.A, x.B) from x in R; (count(e), repeat v = (select a from (a, b) in e) "
    "step distinct(v union (select b from (a, b) in e, c in v where a = c)) limit 4)",
)
"""Named queries with several uses, which are common table expressions on Spark."""


@pytest.mark.parametrize("text", VIEWS)
def test_a_view_on_spark_means_what_it_says(text: str, spark: SparkSession) -> None:
    rows = [(1, 2), (2, 1), (2, 3), (None, 1), (3, None), (3, 3)]
    data = {
        "R": Bag([Record({"A": a, "B": b, "C": 0.5, "S": "s"}) for a, b in rows]),
        "S": Bag([Record({"A": a, "D": 0.5, "T": "t"}) for a, _ in rows[2:]]),
        "N": Bag(),
        "W": Bag(),
    }
    agree(text, data, spark)
