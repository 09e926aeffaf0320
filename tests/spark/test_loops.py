"""Loops in steps: variables of few rows are in the text of a step, those of many are joined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from incmrql.spark.loops import placement, steps
from incmrql.spark.loops.steps import FEW_ROWS
from incmrql.types import typed
from tests.spark.answers import agree
from tests.spark.test_shapes import TABLES, r, s

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """No loop is small enough for a task."""
    monkeypatch.setattr(placement, "MOST_BYTES", -1)


NEAREST = (
    "repeat c = {0.0, 3.0} step select avg(x.C) from x in R where x.C < 100.0 "
    "group by k: (select v from v in c order by abs(v - x.C))[0] limit 3"
)
GROWING = (
    "repeat c = {1, 2} step (select v + x.B from x in R, v in c where x.B > 0) union c limit 3"
)
COUNTED = "repeat c = {1} step select v + count(R) + sum(S.D) from v in c limit 3"
NOTHING = (
    "repeat c = {1.0} step select v + count(W) + max(select y.D from y in S where y.A > 99) "
    "from v in c limit 2"
)
JOINED = (
    "repeat c = select (x.A, 1.0) from x in R step select (k, sum(w) / 2.0) from (a, w) in c, "
    "x in R, k = x.B where x.A = a group by k limit 3"
)


@pytest.mark.parametrize("text", [NEAREST, GROWING, COUNTED, NOTHING, JOINED])
def test_a_loop_ends_with_what_the_reference_ends_with(text: str, spark: SparkSession) -> None:
    agree(f"{text};", TABLES, spark)


def test_a_variable_that_outgrows_the_text_of_a_step_becomes_a_table(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int | None] = []
    few = steps._few_rows_as_expression

    def count_written(
        held: steps.CachedRows, variable: typed.Variable, runner: steps.Runner
    ) -> Any:
        expression: Any = few(held, variable, runner)
        written.append(None if expression is None else len(expression.items))
        return expression

    monkeypatch.setattr(steps, "_few_rows_as_expression", count_written)
    rows = {**TABLES, "R": [r(1, n, float(n), "") for n in range(1, 6)], "S": [s(1, 1.0, "")]}
    text = "repeat c = {1, 2} step select v * 7 + x.B from x in R, v in c limit 4;"
    agree(text, rows, spark)
    assert written[0] == 2
    assert written[-1] is None
    assert FEW_ROWS < 2 * 5**3
