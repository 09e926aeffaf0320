"""Experiments at a tiny size on Spark: answers are compared, and wrong ones are seen."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.batch_sides import Expert, Kept
from benchmarks.experiments import scale
from benchmarks.experiments.base import Finding, Options
from benchmarks.experiments.cost import measure_cost
from benchmarks.experiments.deletions import SHAPES
from benchmarks.experiments.deletions import measure_case as with_deletions
from benchmarks.experiments.paper import AGAIN, BATCH, QUICK_INCREMENTS, Question, Trial, asking
from benchmarks.experiments.paper_loops import question
from benchmarks.experiments.paper_queries import GROUPBY_QUESTION, JOIN_QUESTION
from benchmarks.experiments.scale import GROUPBY, JOIN, Case, measure_case
from benchmarks.experiments.scale_data import history
from benchmarks.experiments.sides import Shape, Stage, open_stage, sum_of
from benchmarks.incremental_data import Size
from benchmarks.incremental_run import Bench
from benchmarks.iteration_queries import HAND, MEANS
from tests.effort import sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


pytestmark = pytest.mark.spark
TINY = Size(rows=1_200, keys=50, batch=60)


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Iterator[Bench]:
    from incmrql.api.session import Session

    yield Bench(Session(spark), spark, tmp_path, order=random.Random(1))
    assert not list(tmp_path.glob("run-*")), "a run has left its folder behind"


def findings_of(bench: Bench, question: Question) -> list[Finding]:
    options = Options(quick=True, rounds=1, data=bench.data, seed=1, master="")
    small = replace(question, rows=TINY.rows, sizes=(TINY.batch,))
    return list(asking(Trial(bench, small), options, lambda _: None))


def test_the_group_by_of_the_paper(bench: Bench) -> None:
    (finding,) = findings_of(bench, GROUPBY_QUESTION)
    assert finding.verdict in ("faster", "slower", "even")
    assert finding.ratio is not None
    assert finding.case == "60 rows an increment"
    assert {name: len(seconds) for name, seconds in finding.series.items()} == dict.fromkeys(
        (BATCH, *AGAIN), 1 + QUICK_INCREMENTS
    )


def _with_fewer_rows(hand: Expert) -> Expert:
    def run(spark: SparkSession, data: Path, kept: Kept) -> DataFrame:
        return hand(spark, data, kept).where("K > 5000")

    return run


def test_a_wrong_answer_gets_the_verdict(bench: Bench) -> None:
    wrong = replace(GROUPBY_QUESTION, hand=_with_fewer_rows(GROUPBY_QUESTION.hand))
    (finding,) = findings_of(bench, wrong)
    assert finding.verdict == "wrong"
    assert finding.is_bad
    assert finding.note.startswith("batch 0 of 60: rows ")


@pytest.mark.slow
def test_the_join_of_the_paper(bench: Bench) -> None:
    (finding,) = findings_of(bench, JOIN_QUESTION)
    assert finding.verdict in ("faster", "slower", "even")


@pytest.mark.slow
def test_a_loop_is_asked_in_all_ways_and_a_diffused_one_has_an_error(bench: Bench) -> None:
    ways = ("default", "diffuse")
    exact, diffused = findings_of(bench, question("loop", "", MEANS, HAND, ways))  # type: ignore[arg-type]
    assert [finding.is_bad for finding in (exact, diffused)] == [False, False]
    assert (exact.figures["error"], exact.figures["stated error"]) == ("0", "")
    assert diffused.figures["stated error"]
    assert len([side for side in AGAIN if side in diffused.series]) == 1


@pytest.mark.parametrize("shape", [GROUPBY, JOIN], ids=lambda shape: shape.name)
def test_a_case_of_scale(bench: Bench, shape: Shape) -> None:
    findings = list(
        measure_case(bench, Case(shape, TINY.rows, TINY.keys), (20, 2_000), 1, lambda _: None)
    )
    *rows, whole = findings
    assert [row.figures["batch rows"] for row in rows] == [20, 2_000]
    assert all(row.verdict in ("faster", "slower", "even") for row in rows)
    assert whole.verdict == "right"
    assert "break-even" in whole.note
    assert all(row.figures["jobs"] == 1 for row in rows)
    arrived = 2 * sum(int(20 * table.share) for table in shape.tables)
    there = TINY.rows + (TINY.keys if shape is JOIN else 0)
    assert rows[0].figures["again rows read"] == there + arrived


def test_a_large_history_is_recomputed_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "LARGE", TINY.rows)
    asked: list[str] = []
    again = Stage.again

    def note_side(stage: Stage, side: str, use: Callable[[DataFrame], object]) -> object:
        asked.append(side)
        return again(stage, side, use)

    monkeypatch.setattr(Stage, "again", note_side)
    case = Case(GROUPBY, TINY.rows, TINY.keys)
    *rows, whole = measure_case(bench, case, (20, 200), 2, lambda _: None)
    assert sorted(asked) == sorted(AGAIN)
    assert whole.verdict == "right"
    assert len({(row.figures["engine ms"], row.figures["by hand ms"]) for row in rows}) == 1
    assert all(row.ratio and row.note.endswith("run once after all batches") for row in rows)


def test_another_answer_is_seen(bench: Bench) -> None:
    folder = history(bench.spark, bench.data, TINY)
    with open_stage(bench, GROUPBY, folder, TINY) as stage:
        assert stage.differences() == []
        stage.supply.add()
        assert len(stage.differences()) == 2


def test_a_history_is_made_once_and_has_its_rows(bench: Bench) -> None:
    folder = history(bench.spark, bench.data, TINY)
    times = {file: file.stat().st_mtime_ns for file in folder.rglob("*.parquet")}
    assert history(bench.spark, bench.data, TINY) == folder
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*.parquet")} == times
    facts = bench.spark.read.parquet(str(folder / "numbers"))
    assert facts.count() == TINY.rows
    assert 0 < facts.select("K").distinct().count() <= TINY.keys
    assert sorted(file.name for file in (folder / "groups").iterdir()) == ["history-00.parquet"]


@pytest.mark.slow
@pytest.mark.parametrize("shape", sample(SHAPES, 2), ids=lambda shape: shape.name)
def test_deletions(bench: Bench, shape: Shape) -> None:
    finding = with_deletions(bench, shape, TINY, 0.5, 1)
    assert finding.verdict in ("faster", "slower", "even")
    assert finding.figures["deleted %"] == 50


def test_sums_know_rows_from_each_other(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, 0.5), (2, 0.5), (2, 0.5)], "a int, b double")
    assert sum_of(rows) == sum_of(rows.orderBy("a", ascending=False))
    assert sum_of(rows)[0] == 3
    assert sum_of(rows) != sum_of(rows.distinct())
    assert sum_of(rows) != sum_of(rows.selectExpr("a", "b + 1e-16 * 4 as b"))
    assert sum_of(rows.where("a > 9")) == (0, 0, 0)


def test_costs_are_those_of_the_block(spark: SparkSession) -> None:
    rows = spark.range(0, 100, 1, 2)
    with measure_cost(spark) as cost:
        rows.repartition(2, "id").count()
    assert cost.jobs >= 1
    assert cost.shuffled > 0
    with measure_cost(spark) as nothing:
        pass
    assert (nothing.jobs, nothing.shuffled, nothing.read) == (0, 0, 0)
