"""The incremental benchmark at a tiny size: every workload runs, and its answers are compared."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.incremental import NAMES, facts, line, main, reads_line, run, write
from benchmarks.incremental_chain import CHAIN
from benchmarks.incremental_data import FILES, GONE, Supply, history_of
from benchmarks.incremental_flat import flat
from benchmarks.incremental_memory import _limit_seen, _loads, memory, memory_limit
from benchmarks.incremental_pairs import Pairs, error_text, measure
from benchmarks.incremental_process import below, memory_of, slope
from benchmarks.incremental_queries import WORKLOADS, Workload, text_of
from benchmarks.incremental_run import Bench, open_stage, program
from tests.effort import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


BY_NAME = {workload.name: workload for workload in (*WORKLOADS, CHAIN)}
TINY = 0.001


# --- without Spark -----------------------------------------------------------------------


@pytest.mark.parametrize("workload", BY_NAME.values(), ids=lambda workload: workload.name)
def test_every_text_is_a_program(workload: Workload, tmp_path: Path) -> None:
    compiled = program(text_of(workload, tmp_path))
    tables = {Path(stream.path or "").name for stream in compiled.streams}
    assert tables == {table.name for table in workload.tables}
    assert any(stream.deletes for stream in compiled.streams) == bool(workload.deleted)


def test_the_chain_has_three_joins_two_group_bys_and_a_filter(tmp_path: Path) -> None:
    kinds = [type(node).__name__ for node in program(text_of(CHAIN, tmp_path)).nodes]
    assert kinds.count("Join") == 3
    assert kinds.count("Groups") >= 3


def supply(workload: Workload, folder: Path, scale: float = TINY) -> Supply:
    size = workload.size(scale)
    history = history_of(folder, "some", workload.tables, size)
    return Supply(folder / "run", history, workload.tables, size, workload.deleted)


@pytest.mark.parametrize("workload", BY_NAME.values(), ids=lambda workload: workload.name)
def test_histories_and_batches_have_their_sizes(workload: Workload, tmp_path: Path) -> None:
    supplied = supply(workload, tmp_path)
    size = supplied.size
    for table in workload.tables:
        files = sorted((tmp_path / "run" / table.name).iterdir())
        assert len(files) == FILES
        assert sum(pq.read_metadata(file).num_rows for file in files) == int(size.rows * table.part)
    batch = [supplied.add() for _ in range(2)][-1]
    rows = sum(pq.read_metadata(file).num_rows for file in batch)
    assert rows == pytest.approx(size.batch, abs=len(workload.tables))


def test_each_key_of_a_join_has_as_many_matches_as_it_should(tmp_path: Path) -> None:
    for name, matches in (("join", 1), ("join-many", 100)):
        workload = BY_NAME[name]
        supplied = supply(workload, tmp_path / name)
        keys = pq.read_table(supplied.folder / "right").column("C").to_numpy()
        counts = np.unique(keys, return_counts=True)[1]
        assert set(counts.tolist()) == {matches}


def test_only_rows_that_are_there_are_deleted_and_once(tmp_path: Path) -> None:
    supplied = supply(BY_NAME["extremes"], tmp_path)
    there = pq.read_table(supplied.folder / "numbers").to_pylist()
    for _ in range(5):
        supplied.add()
    for row in pq.read_table(supplied.folder / GONE).to_pylist():
        there.remove(row)


def test_a_slope_is_found() -> None:
    assert slope([(0, 1), (1, 3), (2, 5)]) == pytest.approx(2)
    assert slope([(0, 1)]) == 0


def test_memory_is_read_from_the_system() -> None:
    assert memory_of(os.getpid()) > 1 << 20
    assert memory_of(2**30) == 0
    assert os.getpid() in below(os.getppid())


def test_the_median_of_pairs_decides() -> None:
    workload = BY_NAME["join"]
    pairs = Pairs(workload)
    pairs.seconds = {
        "incremental": [1.0, 2.0, 1.0],
        "engine": [9.0, 9.0, 9.0],
        "hand": [5.0, 4.0, 3.0],
    }
    assert pairs.best == "hand"
    assert pairs.ratio == 3.0
    assert pairs.verdict == "FAIL"
    pairs.seconds["hand"] = [5.0, 10.0, 4.0]
    assert pairs.verdict == "PASS"
    pairs.problems.append("engine: m differs")
    assert line(pairs).endswith("| FAIL: engine: m differs |")


def test_reads_that_were_not_counted_are_seen() -> None:
    assert reads_line("a", {"x1": [2, 2], "x10": [3, 3]}) == "| a | 2, 2 | 3, 3 | 1.50 |"
    assert "nothing was counted" in reads_line("a", {"x1": [0], "x10": [0]})


def test_errors_name_no_folders() -> None:
    error = ValueError("no file /home/someone/data/a.parquet: gone\nmore")
    assert error_text(error) == "failed: ValueError: no file a.parquet: gone"


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["averag"])
    assert "no such name: averag" in capsys.readouterr().err


def test_results_of_other_runs_stay(tmp_path: Path) -> None:
    path = tmp_path / "results" / "some.json"
    write(path, {"join": {"ratio": 1}})
    write(path, {"filter": {"ratio": 2}})
    assert json.loads(path.read_text()) == {"join": {"ratio": 1}, "filter": {"ratio": 2}}


# --- on Spark ----------------------------------------------------------------------------


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Iterator[Bench]:
    from incmrql.api.session import Session

    yield Bench(Session(spark), spark, tmp_path, scale=TINY, rounds=1, warm_up=1)
    assert not list(tmp_path.glob("run-*")), "a run has left its folder behind"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("workload", sample(WORKLOADS, 4), ids=lambda workload: workload.name)
def test_a_workload(bench: Bench, workload: Workload) -> None:
    measurement = measure(bench, workload)
    assert measurement.problems == []
    assert [report.jobs for report in measurement.reports] == [1]
    assert all(len(seconds) == 1 for seconds in measurement.seconds.values())
    assert str(bench.data) not in json.dumps(measurement.as_json())


@pytest.mark.spark
def test_an_answer_that_is_not_the_same_is_told(bench: Bench) -> None:
    with open_stage(bench, BY_NAME["histogram"]) as stage:
        assert stage.differences() == []
        stage.supply.add()
        assert len(stage.differences()) >= 2


@pytest.mark.spark
@pytest.mark.slow
def test_the_other_figures(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"chain", "floor", "load"}
    results = run(bench, names & set(NAMES))
    assert set(results) == names
    assert all("failed" not in result["verdict"] for result in results.values())
    assert "differs" not in results["chain"]["verdict"]
    shown = capsys.readouterr().out
    assert all(facts(name, results[name])[0] in shown for name in names)


@pytest.mark.spark
@pytest.mark.slow
def test_a_course_of_batches(bench: Bench) -> None:
    result = flat(bench, batches=20)
    assert result["jobs"] == [1]
    assert set(result["growth"]) == {"x1", "x10"}
    assert result["memory"]["workers"]["last_bytes"] > 0


@pytest.mark.spark
def test_a_limit_stops_a_task_that_needs_more(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "large"
    with file.open("wb") as stream:
        stream.truncate(1 << 29)
    with memory_limit(bench.spark, 400 << 20):
        assert _limit_seen(bench.spark) == 400 << 20
        assert not _loads(bench.spark, [file])
    assert _limit_seen(bench.spark) != 400 << 20
    assert _loads(bench.spark, [file])


@pytest.mark.spark
@pytest.mark.slow
def test_batches_under_a_limit(bench: Bench) -> None:
    result = memory(bench)
    assert "batch failed" not in result["verdict"]
    assert result["limited_peak_data_bytes"] <= result["limit_bytes"]
