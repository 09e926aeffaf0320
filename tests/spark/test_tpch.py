"""The questions of TPC-H follow changing tables, and answer as plain Spark after each batch.

`make show-spark` asks them all, with more rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import incmrql
from tests.effort import sample
from tests.spark.changing import rows_of
from tests.spark.tpch import QUESTIONS, SCHEMAS, tpch_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES = 3


@pytest.fixture(scope="module")
def users(spark: SparkSession) -> SparkSession:
    """A session with Spark's own settings, as users have it."""
    return spark.newSession()


@pytest.mark.parametrize("question", sample(QUESTIONS, 3))
def test_a_question_is_answered_as_by_spark(
    question: str, users: SparkSession, tmp_path: Path
) -> None:
    tables = tpch_tables(tmp_path, seed=int(question[1:]))
    for name in SCHEMAS:
        tables.frame(users, name).createOrReplaceTempView(name)
    with (
        incmrql.Session(spark=users) as session,
        session.sql(QUESTIONS[question]).start(settle=0) as run,
    ):
        for batch in range(BATCHES):
            tables.change()
            run.step()
            expected = rows_of(tables.plain_session(users).sql(QUESTIONS[question]))
            assert rows_of(run.answer_df()) == expected, batch
