"""Streams on Spark: every batch is one job, and its answer is that of all data so far."""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from incmrql.engine.store.tables import LEAST_BASE
from incmrql.errors import CheckpointError, DataError
from incmrql.runtime import BatchReport, Driver
from incmrql.runtime.loop import run_driver
from incmrql.values import Bag, identical
from tests.engine.programs import reference_answer, reference_answers
from tests.runtime.streaming import (
    MIXED,
    OPTIONS,
    QUICK,
    Place,
    answer,
    average,
    changes,
    fill,
    state,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A stream with one answer."""
    return average(tmp_path)


def next_job(spark: SparkSession) -> int:
    """How many jobs the context has run."""
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    return int(scheduler.numTotalJobs())


def test_thirty_batches_are_thirty_jobs_with_the_answers_of_all_data_so_far(
    tmp_path: Path, spark: SparkSession
) -> None:
    place, everything = Place(tmp_path / "some"), Place(tmp_path / "all")
    fill(everything, 30)
    before = next_job(spark)
    with place.driver(spark, replace(QUICK, keep_changes=True)) as driver:
        for batch in range(30):
            for name in ("data", "deletes", "names"):
                file = f"{name}/{batch:03d}.csv"
                os.rename(everything.folder / file, place.folder / file)
            report = driver.step()
            assert report is not None
            assert (report.number, report.jobs, report.stages, report.tasks) == (batch, 1, 1, 1)
            assert (report.inserted, report.deleted) == (62, 12)
            wanted = reference_answers(place.text)
            for number, output in enumerate(place.outputs()):
                assert identical(driver.answer(number), wanted[number])
                rows = wanted[number] if isinstance(wanted[number], Bag) else Bag([wanted[number]])
                assert answer(output) == rows
                told = driver.changes(number)
                shown = Counter({row if isinstance(row, tuple) else (row,): w for row, w in told})
                assert shown == changes(output)[f"batch={batch:06d}"]
        assert driver.step() is None
    assert next_job(spark) - before == 30


def test_a_large_change_goes_through_many_tasks_to_the_same_answers_and_state(
    tmp_path: Path, spark: SparkSession
) -> None:
    small, large, mixed = (Place(tmp_path / name) for name in ("small", "large", "mixed"))
    for place in (small, large, mixed):
        fill(place, 6, large=400)
    before = next_job(spark)
    reports: list[BatchReport] = []
    with large.driver(spark, replace(MIXED, large=0)) as driver:
        while (report := driver.step()) is not None:
            reports.append(report)
        wanted_state = state(driver)
    assert [report.jobs for report in reports] == [1] * 6
    assert all(report.tasks > 2 and report.stages > 2 for report in reports)
    assert next_job(spark) - before == 6
    reports.clear()
    with mixed.driver(spark, MIXED) as driver:
        while (report := driver.step()) is not None:
            reports.append(report)
        assert state(driver) == wanted_state
    assert [report.tasks > 1 for report in reports] == [False, True] * 3
    assert small.run(spark, replace(MIXED, large=1 << 20)) == wanted_state
    assert small.published_rows() == large.published_rows() == mixed.published_rows()
    wanted = reference_answers(small.text)
    assert [answer(output) for output in small.outputs()[:2]] == wanted[:2]
    assert answer(small.outputs()[2]) == Bag([wanted[2]])


def test_bases_are_merged_to_the_same_state_in_one_task_and_in_many(
    tmp_path: Path, spark: SparkSession
) -> None:
    chance = random.Random(3)
    places = [average(tmp_path / how) for how in ("one", "many")]
    outcomes = []
    for batch in range(3):
        rows = [f"{chance.randrange(30_000)},{chance.random()!r}\n" for _ in range(3 * LEAST_BASE)]
        for place in places:
            place.put(f"{batch}.csv", "".join(rows))
    for place, large in zip(places, (1 << 30, 0), strict=True):
        options = replace(QUICK, buckets=2, large=large, max_files_per_batch=1)
        with place.driver(spark, options) as driver:
            reports = [driver.step() for _ in range(3)]
            assert all(report is not None and report.jobs == 1 for report in reports)
            assert sum(report.rewritten for report in reports if report) > LEAST_BASE
            assert any(table.bases for table in driver.state.tables.values())
            outcomes.append((state(driver), driver.answer()))
    assert outcomes[0] == outcomes[1]
    assert changes(places[0].output) == changes(places[1].output)
    assert outcomes[0][1] == reference_answer(places[0].text)


def test_a_refused_batch_leaves_everything_as_it_was(tmp_path: Path, spark: SparkSession) -> None:
    place = Place(tmp_path)
    place.put("1.csv", "7,3.0\n7,0.0\n")
    with place.driver(spark) as driver:
        driver.step()
        before, known = state(driver), driver.state
        place.put("2.csv", "8,1.0\n")
        bad = place.put("1.csv", "7,1.0\n", deletes=True)
        for large in (1 << 20, 0):
            driver.options = replace(QUICK, large=large)
            with pytest.raises(DataError, match=r"< K: 7, V: 1\.0 >") as caught:
                driver.step()
            assert caught.value.code == "R205"
            assert (driver.state, state(driver)) == (known, before)
            assert (driver.refused_batch, driver.intended_files()) == (1, None)
            for output in place.outputs():
                assert [path.name for path in output.glob("batch=*")] == ["batch=000000"]
        bad.write_text("7,3.0\n")
        report = driver.step()
        assert report is not None
        assert report.number == 1
    assert answer(place.outputs()[0]) == Bag([(7, 0.0), (8, 1.0)])
    assert answer(place.outputs()[2]) == Bag([1.0])


def test_a_file_that_changes_or_vanishes_is_noticed(place: Place, spark: SparkSession) -> None:
    path = place.put("1.csv", "7,3.0\n")
    with place.driver(spark) as driver:
        driver.step()
        path.write_text("7,4.0\n")
        with pytest.raises(DataError) as caught:
            driver.step()
        assert caught.value.code == "R301"
        path.unlink()
        with pytest.raises(DataError) as caught:
            driver.step()
        assert caught.value.code == "R302"
        place.put("1.csv", "7,3.0\n")
        assert driver.step() is None


def test_an_intent_is_run_again_with_the_same_files(place: Place, spark: SparkSession) -> None:
    place.put("1.csv", "7,3.0\n")
    with place.driver(spark) as driver:
        driver.checkpoint.intend(0, driver.poll().files)
    place.put("2.csv", "7,5.0\n")
    with place.driver(spark) as driver:
        first = driver.step()
        assert first is not None
        assert (first.number, first.files) == (0, 1)
        assert answer(place.output) == Bag([(7, 3.0)])
        driver.step()
    assert answer(place.output) == Bag([(7, 4.0)])


def test_a_second_driver_is_refused(place: Place, spark: SparkSession) -> None:
    with place.driver(spark) as driver:
        with pytest.raises(CheckpointError, match="in use"):
            place.driver(spark)
        driver.close()
        place.driver(spark).close()


def test_the_output_of_another_run_is_not_taken_for_ones_own(
    place: Place, spark: SparkSession
) -> None:
    place.put("1.csv", "7,3.0\n")
    (place.output / "batch=000000").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="has the output of another run"):
        place.driver(spark)
    (place.output / "batch=000000").rmdir()
    with place.driver(spark) as driver:
        assert driver.state.number == -1
        (place.output / "batch=000000").mkdir()
        with pytest.raises(CheckpointError, match="output of batch 0 of another run"):
            driver.step()
        (place.output / "batch=000000").rmdir()
        driver.step()
    assert answer(place.output) == Bag([(7, 3.0)])


def test_an_empty_folder_has_an_empty_first_batch(tmp_path: Path, spark: SparkSession) -> None:
    """Large or not; a total has its value over nothing."""
    for large in (1 << 20, 0):
        place = Place(tmp_path / str(large))
        with place.driver(spark, replace(QUICK, large=large)) as driver:
            report = driver.step()
            assert report is not None
            assert (report.number, report.rows_in, report.changed) == (0, 0, 1)
            assert driver.step() is None
            assert [driver.answer(n) for n in range(3)] == [Bag(), Bag(), None]
        assert list((place.outputs()[0] / "batch=000000").iterdir()) == []
        assert answer(place.outputs()[2]) == Bag([None])


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_answers_as_text(place: Place, spark: SparkSession, format_: str) -> None:
    place.put("1.csv", "7,3.0\n8,1.5\n")
    with place.driver(spark, replace(QUICK, format=format_)) as driver:  # type: ignore[arg-type]
        driver.step()
    (part,) = (place.output / "batch=000000").iterdir()
    lines = part.read_text().splitlines()
    if format_ == "csv":
        assert lines[0] == "_1,_2,_weight"
        assert sorted(lines[1:]) == ["7,3.0,1", "8,1.5,1"]
    else:
        rows = sorted(tuple(json.loads(line).values()) for line in lines)
        assert rows == [(7, 3.0, 1), (8, 1.5, 1)]


def test_a_snapshot_holds_the_whole_answer(tmp_path: Path, spark: SparkSession) -> None:
    place = Place(tmp_path)
    fill(place, 4, large=400)
    place.run(spark, replace(MIXED, mode="snapshot", format="csv"))
    wanted = reference_answers(place.text)
    pairs = [line.split(",") for line in _lines(place.outputs()[0] / "batch=000003")]
    assert Bag([(int(a), float(b)) for a, b in pairs]) == wanted[0]
    rows = [line.split(",") for line in _lines(place.outputs()[1] / "batch=000003")]
    assert Bag([(a, float(b), int(c)) for a, b, c in rows]) == wanted[1]
    (total,) = _lines(place.outputs()[2] / "batch=000003")
    assert float(total) == wanted[2]


def _lines(folder: Path) -> list[str]:
    return [line for part in folder.iterdir() for line in part.read_text().splitlines()[1:]]


def test_lines_that_are_no_rows_are_counted(place: Place, spark: SparkSession) -> None:
    place.put("1.csv", "7,3.0\nx,y\n")
    with place.driver(spark) as driver:
        report = driver.step()
    assert report is not None
    assert (report.rows_in, report.bad.bad) == (1, 1)
    assert "line 2" in report.bad.sentences("quarantine")[0]


def test_a_stream_runs_until_there_is_nothing_left(place: Place, spark: SparkSession) -> None:
    fill(place, 3)
    numbers: list[int] = []

    def note(_driver: Driver, report: BatchReport) -> None:
        numbers.append(report.number)

    options = replace(OPTIONS, max_files_per_batch=2)
    with place.driver(spark, options) as driver:
        run_driver(driver, on_batch=note)
    assert numbers == [0, 1, 2]
    most = replace(options, max_batches=1, available_now=False)
    place.put("next.csv", "1,1.0\n")
    with place.driver(spark, most) as driver:
        run_driver(driver, on_batch=note)
    assert numbers == [0, 1, 2, 3]
    stop = threading.Event()
    stop.set()
    with place.driver(spark) as driver:
        run_driver(driver, stop=stop)
    assert answer(place.output) == reference_answer(place.text)
