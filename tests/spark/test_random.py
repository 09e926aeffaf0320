"""Random queries and scripts over random tables: Spark gives the reference evaluator's answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from incmrql.values import Bag
from tests.algebra.shapes import shaped
from tests.generators.queries import queries, scripts
from tests.generators.tables import tables
from tests.spark.answers import agree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

SMALL = settings(
    max_examples=25,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
"""A sample that is the same every time; `fuzz` goes on looking."""


@SMALL
@given(text=st.one_of(queries(), queries(), scripts(), shaped()), data=tables())
def test_a_query_on_spark_means_what_it_says(
    text: str, data: dict[str, Bag], spark: SparkSession
) -> None:
    agree(text, data, spark)
