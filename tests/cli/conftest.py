"""Commands in this process, on the one Spark of the test run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def on_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of commands use the Spark that is there, and leave it running."""
    monkeypatch.setenv("INCMRQL_ENGINE", "spark")
    monkeypatch.setattr("incmrql.spark.session.start", lambda *_: spark)
    monkeypatch.setattr("incmrql.api.session.Session.stop", lambda _: None)
