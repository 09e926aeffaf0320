"""Random numbers on Spark: one for each call and row, also where nothing of the row is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from incmrql import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 300


@pytest.fixture
def session(spark: SparkSession) -> Session:
    session = Session(spark)
    session.register("N", list(range(ROWS)), "long")
    return session


def test_a_constant_argument(session: Session) -> None:
    rows = session.query("select (n, random(3)) from n in N").collect()
    assert sorted(n for n, _ in rows) == list(range(ROWS))
    assert {chance for _, chance in rows} == {0, 1, 2}


@pytest.mark.parametrize("condition", ["true", "random(2) = 0"])
def test_each_call_has_its_own(session: Session, condition: str) -> None:
    text = f"select (random(1000000000), random(1000000000)) from n in N where {condition}"
    rows: list[Any] = session.query(text).collect()
    assert 0 < len(rows) <= ROWS
    assert (condition == "true") == (len(rows) == ROWS)
    assert len({value for row in rows for value in row}) > 2 * len(rows) - 3


def test_groups_by_chance(session: Session) -> None:
    rows = session.query("select (k, count(n)) from n in N group by k: random(2)").collect()
    assert sum(count for _, count in rows) == ROWS
    assert {k for k, _ in rows} == {0, 1}
