"""Aggregate functions of Spark: equal to plain Spark over edge values, and followed in batches."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from incmrql.plan.nodes import Groups
from tests.catalyst.judging import (
    Tables,
    agree,
    assert_follows,
    plan_of_script,
    plans_of,
    random_tables,
    reference_answer,
    script_of_plan,
)
from tests.catalyst.texts import tables, texts
from tests.effort import mostly_slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SET = "aggregates"
QUERIES = tuple(texts(SET))
BY_CHOICE = (
    "first",
    "first_total",
    "last",
    "any_value",
    "mode",
    "listagg",
    "listagg_total",
    "arrays",
)
"""What Spark leaves open: only keys are compared, and lists without their order."""
INFINITE = float("inf")
ROWS: Tables = {
    "r": [
        (1, 5, 3, 2, "b", Decimal("1.10"), 0.1, 1.0, True),
        (1, 2, -7, 3, "a", Decimal("2.25"), 0.2, 3.0, False),
        (1, 5, None, None, None, None, 0.7, None, None),
        (1, None, 4, 1, "b", Decimal("-3.00"), None, 2.0, True),
        (1, 9, 2, 7, "zz", Decimal("0.05"), -1.5, 2.5, None),
        (2, 7, 1, 1, "x", Decimal("9.99"), 4.0, 4.0, False),
        (3, None, None, None, None, None, None, None, None),
        (3, None, None, None, None, None, None, None, None),
        (4, 3, 2, 2, "q", Decimal("1.00"), 2.0, 1.0, True),
        (4, 3, 2, 2, "q", Decimal("1.00"), 2.5, 5.0, True),
        (4, 1, 2, 2, "r", Decimal("1.00"), 2.75, 9.5, True),
        (5, 2**40, 100, -5, "a", Decimal("1.00"), INFINITE, 1.0, True),
        (5, -(2**40), 100, 5, "a", Decimal("1.00"), 1.0, 2.0, True),
        (6, 1, 1, 1, "m", Decimal("1.00"), 1.0, 2.0, True),
        (6, 2, 1, 1, "n", Decimal("1.00"), 5.0, None, True),
        (6, 3, 1, 1, "o", Decimal("1.00"), 7.0, 3.0, True),
    ],
    "q": [(1, 1.0), (1, 2.5), (4, 1.0), (4, 3.0), (None, 2.0)],
}


@pytest.mark.parametrize("query", mostly_slow(QUERIES, 6))
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
        frame = session.createDataFrame(list(ROWS[table]), columns)
        frame.coalesce(1).createOrReplaceTempView(table)
    differences = []
    for query, text in texts(SET).items():
        rows = [tuple(row) for row in session.sql(text).collect()]
        answer = list(reference_answer(script_of_plan(plans_of(SET)[query]).script, ROWS))
        exact = "percentile" in query or "median" in query
        if query in BY_CHOICE:
            rows, answer = _without_choice(rows), _without_choice(answer)
        if not (sorted(rows, key=str) == sorted(answer, key=str) if exact else agree(rows, answer)):
            differences.append(f"{query}\n{sorted(rows, key=str)}\n{sorted(answer, key=str)}")
    assert not differences, "\n".join(differences)


def _without_choice(rows: list[Any]) -> list[Any]:
    """The keys of rows, and their lists without order."""
    return [
        (
            row[0] if isinstance(row[0], int) and len(rows) > 1 else None,
            *(sorted(value) for value in row if isinstance(value, list)),
        )
        for row in rows
    ]


def test_values_of_one_query_are_of_one_row() -> None:
    answer = list(reference_answer(script_of_plan(plans_of(SET)["first"]).script, ROWS))
    pairs = {(row[0], row[1], row[4]) for row in ROWS["r"]}
    assert all((k, a, s) in pairs for k, a, s, _ in answer)
    tied: Tables = {**ROWS, "r": [(1, 1, 1, 1, "a", None, 9.0, None, None),
                                  (1, 1, 1, 1, "b", None, 2.0, None, None)]}  # fmt: skip
    ((_, s, e, least_s, least_e),) = reference_answer(
        script_of_plan(plans_of(SET)["max_by_pairs"]).script, tied
    )
    assert (s, e) == ("b", 2.0)
    assert (least_s, least_e) == ("a", 9.0)


@pytest.mark.parametrize("query", ["covariance", "line", "moments", "regression", "spreads"])
def test_moments_are_kept_as_sums(query: str) -> None:
    plan = plan_of_script(script_of_plan(plans_of(SET)[query]).script)
    (node,) = [node for node in plan.nodes if isinstance(node, Groups)]
    assert node.accumulators
    assert all(request.accumulators for request in node.requests)
    assert not node.tables or query == "covariance"  # which has a DISTINCT


@pytest.mark.parametrize("query", ["percentile", "median", "percentile_disc"])
def test_percentiles_read_few_values(query: str) -> None:
    plan = plan_of_script(script_of_plan(plans_of(SET)[query]).script)
    (node,) = [node for node in plan.nodes if isinstance(node, Groups)]
    assert {request.reading.how for request in node.requests if request.reading} == {"between"}
    assert all(request.reading for request in node.requests)


def test_a_correlation_of_what_does_not_vary_fails() -> None:
    from incmrql.algebra.translate.queries import views_of
    from incmrql.plan.assembly import watches_of

    script = script_of_plan(plans_of(SET)["correlation"]).script
    (watches,) = watches_of(script.items, script, views_of([script.items[0].expr], script))
    assert any("do not vary" in site.fault for site in watches.sites)
