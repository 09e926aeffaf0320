"""Random queries over random streams on Spark: every batch has the evaluator's answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from incmrql.syntax.depth import deep_recursion
from tests.effort import scale
from tests.spark.streamed import case_of, check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.slow]
SEEDS, FEWEST_CASES = scale((6, 20), (18, 60))


def test_streams_on_spark_mean_what_they_say(spark: SparkSession) -> None:
    """`python -m tests.runtime.soak --cases 1000` goes on looking."""
    with deep_recursion():
        tried = sum(check(case_of(seed), spark) for seed in range(SEEDS))
    assert tried >= FEWEST_CASES
