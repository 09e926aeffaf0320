"""The costs of a small batch in all ways: each is a way of its own, with the same answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.experiments.base import Options
from benchmarks.experiments.costs import BEFORE, compare_ways
from benchmarks.experiments.profile import CASES
from benchmarks.incremental_run import Bench
from incmrql.api.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_batch_is_right_in_all_ways(spark: SparkSession, tmp_path: Path) -> None:
    options = Options(quick=True, rounds=1, data=tmp_path, seed=1, master="local[2]")
    with Session(spark=spark) as session:
        bench = Bench(session, session.private_spark(), tmp_path, scale=0.0002)
        finding = compare_ways(bench, CASES[1], options)
    assert finding.verdict == "right", finding.note
    assert all(float(finding.figures[f"{way.name} ms"]) > 0 for way in BEFORE)
