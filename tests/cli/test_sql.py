"""Scripts of Spark SQL on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.cli.commands import Outcome, incmrql
from tests.spark.folders import spark_directory

pytestmark = pytest.mark.spark

SCRIPT = """\
CREATE TEMPORARY VIEW orders (id LONG, city STRING, price DECIMAL(12,2))
  USING csv OPTIONS (path 'orders', deletes 'returns');
CREATE TEMPORARY VIEW large AS SELECT * FROM orders WHERE price > 5;
CREATE MATERIALIZED VIEW by_city AS
  SELECT city, count(*) AS n, sum(price) AS total FROM large GROUP BY city;
CREATE MATERIALIZED VIEW best (best) AS SELECT max(total) FROM by_city;
"""
FIRST = [
    '{ ("Oslo",2,decimal("30.50")), ("Rome",1,decimal("6.00")) }',
    '{ (decimal("30.50")) }',
]
SECOND = [
    '{ ("Oslo",1,decimal("10.50")), ("Rome",2,decimal("13.00")) }',
    '{ (decimal("13.00")) }',
]


@pytest.fixture
def folder(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The script and its first files; commands use the Spark of the tests."""
    monkeypatch.setattr("incmrql.spark.session.start", lambda *_: spark.newSession())
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    monkeypatch.chdir(tmp_path)
    for name in ("orders", "returns"):
        (tmp_path / name).mkdir()
    (tmp_path / "orders/a.csv").write_text("1,Oslo,10.50\n2,Rome,6.00\n3,Oslo,20.00\n")
    (tmp_path / "q.sql").write_text(SCRIPT)
    with spark_directory(spark, tmp_path):
        yield tmp_path


def run(*options: str) -> Outcome:
    return incmrql("run", "q.sql", "--available-now", "--settle", "0ms", *options)


def answers(outcome: Outcome) -> Sequence[str]:
    assert outcome.code == 0, outcome.err
    return outcome.lines


def test_a_script_runs_resumes_and_is_verified(folder: Path) -> None:
    assert answers(run("--checkpoint", "state")) == FIRST
    (folder / "orders/b.csv").write_text("4,Rome,7.00\n")
    (folder / "returns/a.csv").write_text("3,Oslo,20.00\n")
    assert answers(run("--checkpoint", "state")) == SECOND
    for against in ((), ("--against", "reference"), ("--against", "spark")):
        verified = incmrql("verify", "state", *against)
        assert verified.code == 0, verified.err
        assert "verified after batch 1: 3 rows as over all data" in verified.err
    assert incmrql("state", "state").code == 0


def test_each_view_has_a_folder_of_its_name(folder: Path) -> None:
    assert answers(run("--output", "out")) == []
    table = pq.read_table(folder / "out/by_city/batch=000000")
    assert table.column_names == ["city", "n", "total", "_weight"]
    assert pq.read_table(folder / "out/best/batch=000000").column_names == ["best", "_weight"]


@pytest.mark.usefixtures("folder")
def test_explain_plans_a_view_once() -> None:
    explained = incmrql("explain", "q.sql")
    assert explained.code == 0, explained.err
    assert "SELECT city, count(*)" in explained.out
    best = explained.out[explained.out.index("SELECT max(total)") :]
    assert "by_city" in best, "a view that two answers use is one"
    lines = incmrql("explain", "q.sql", "--json").lines
    assert [json.loads(line)["changes"] for line in lines] == [True, True]
    assert "Aggregate" in incmrql("explain", "q.sql", "--stage", "tree").out


def test_check_reports_all_problems_at_their_places(folder: Path) -> None:
    checked = incmrql("check", "q.sql")
    assert (checked.code, checked.lines) == (0, []), checked.err
    (folder / "bad.sql").write_text(
        SCRIPT + "CREATE MATERIALIZED VIEW now AS\n  SELECT current_timestamp(), rand() FROM large;"
    )
    bad = incmrql("check", "bad.sql", "--json")
    problems = [json.loads(line) for line in bad.lines]
    assert bad.code == 1
    assert [(problem["file"], problem["line"], problem["column"]) for problem in problems] == [
        ("bad.sql", 8, 10),
        ("bad.sql", 8, 31),
    ]
    assert all(problem["hint"] for problem in problems)


def test_a_query_that_spark_refuses_keeps_sparks_words(folder: Path) -> None:
    (folder / "bad.sql").write_text(SCRIPT + "SELECT prize FROM orders;\n")
    refused = incmrql("run", "bad.sql")
    assert refused.code == 1
    assert "UNRESOLVED_COLUMN" in refused.err
    assert "bad.sql:7:8" in refused.err


@pytest.mark.usefixtures("folder")
def test_the_reference_engine_is_for_mrql() -> None:
    refused = incmrql("run", "q.sql", "--engine", "reference")
    assert refused.code == 2
    assert "--engine reference" in refused.err


@pytest.mark.usefixtures("folder")
def test_a_checkpoint_of_mrql_has_no_plan_of_spark() -> None:
    query = "incr count(stream(text, 'orders'))"
    outcome = incmrql(
        "run", "-e", query, "--engine", "spark", "--checkpoint", "state", "--available-now",
        "--settle", "0ms",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    refused = incmrql("verify", "state", "--against", "spark")
    assert refused.code == 1
    assert "for Spark plans" in refused.err
