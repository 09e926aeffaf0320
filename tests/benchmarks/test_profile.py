"""The profile of a batch: its phases are those of the batch, and add up to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.experiments.profile import CASES, profile_workload
from benchmarks.incremental_run import Bench
from incmrql.api.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_the_phases_of_a_batch_add_up_to_it(spark: SparkSession, tmp_path: Path) -> None:
    with Session(spark=spark) as session:
        bench = Bench(session, session.private_spark(), tmp_path, scale=0.0002)
        finding = profile_workload(bench, CASES[0], 3)
    assert finding.verdict == "right"
    figures = {name: float(value) for name, value in finding.figures.items()}
    whole = figures.pop("batch ms")
    assert 0.3 * whole < sum(figures.values()) < 2 * whole
    assert figures["python ms"] > 0
