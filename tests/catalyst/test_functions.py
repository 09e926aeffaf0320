"""Functions of Spark in whole queries: converted with their fields, equal to plain Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.catalyst.judging import (
    Tables,
    assert_follows,
    plans_of,
    random_tables,
    reference_answer,
    script_of_plan,
)
from tests.catalyst.texts import tables, texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SET = "functions"
ROWS: Tables = {
    "r": [
        (1, 5, 3, "axb", "a,b", Decimal("1.15"), 0.0, date(2024, 2, 29),
         datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)),
        (1, -9, -2, "", "x|y|", Decimal("-1.15"), 9.99, date(1969, 12, 31),
         datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        (2, 1_700_000_000, 1, "x", ", ,", Decimal("99.99"), 10.0, date(2025, 1, 1),
         datetime(2025, 11, 30, tzinfo=UTC)),
        (2, None, None, None, None, None, None, None, None),
        (3, 0, 0, "\u00e9x\U0001f600", "\u00e9", Decimal("0.00"), -1.0, date(2000, 12, 31),
         datetime(2000, 12, 31, tzinfo=UTC)),
    ]
}  # fmt: skip


@pytest.mark.parametrize("query", texts(SET))
def test_every_batch_is_followed(query: str, tmp_path: Path) -> None:
    chance = Random(query)
    script = script_of_plan(plans_of(SET)[query]).script
    assert_follows(script, random_tables(SET, chance), chance, tmp_path)


@pytest.mark.spark
@pytest.mark.slow
def test_the_answer_is_sparks(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")
    for table, columns in tables(SET).items():
        session.createDataFrame(list(ROWS[table]), columns).createOrReplaceTempView(table)
    differences = []
    for query, text in texts(SET).items():
        rows = [_plain(tuple(row)) for row in session.sql(text).collect()]
        answer = [
            _plain(row)
            for row in reference_answer(script_of_plan(plans_of(SET)[query]).script, ROWS)
        ]
        if sorted(rows, key=str) != sorted(answer, key=str):
            differences.append(f"{query}\n{sorted(rows, key=str)}\n{sorted(answer, key=str)}")
    assert not differences, "\n".join(differences)


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with times in UTC, without a zone."""
    return tuple(
        value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) else value
        for value in row
    )
