"""The plans below `tests/catalyst/plans` are what this version of Spark gives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from incmrql.catalyst import analyzed_from_json
from tests.catalyst.dumps import VERSION, plans_of_frames, plans_of_texts
from tests.catalyst.pool import MAIN, read_plans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(VERSION != MAIN, reason="the plans of the main version are complete"),
]


@pytest.mark.parametrize("name", ["tpch", "shapes"])
def test_plans_of_texts(spark: SparkSession, tmp_path: Path, name: str) -> None:
    plans = plans_of_texts(spark.newSession(), name, tmp_path)
    assert {key: analyzed_from_json(plan) for key, plan in plans.items()} == read_plans(name)


def test_plans_of_frames(spark: SparkSession, tmp_path: Path) -> None:
    plans = plans_of_frames(spark.newSession(), tmp_path)
    assert {key: analyzed_from_json(plan) for key, plan in plans.items()} == read_plans("frames")
