"""Streams on Spark: every batch is one job, and its answer is that of all data so far."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from incmrql.diagnostics import CheckpointError, DataError
from incmrql.kernel import table as tables
from incmrql.runtime import BatchReport, Driver, StreamOptions, run_stream
from incmrql.values import Bag
from tests.kernel.programs import AVERAGE, program_of, reference_answer
from tests.runtime.streaming import OPTIONS, answer, changes, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
QUICK = StreamOptions(settle=0.0, trigger=0.0)


@dataclass
class Place:
    """Folders of a stream."""

    folder: Path

    def __post_init__(self) -> None:
        self.data, self.deletes = self.folder / "data", self.folder / "deletes"
        self.checkpoint, self.output = self.folder / "ck", self.folder / "out"
        self.data.mkdir(parents=True)
        self.deletes.mkdir()
        self.text = AVERAGE.format(data=self.data, deletes=self.deletes)
        self.program = program_of(self.text)

    def driver(self, spark: SparkSession, options: StreamOptions = QUICK) -> Driver:
        return Driver(self.program, self.checkpoint, self.output, spark, options)

    def put(self, name: str, text: str, *, deletes: bool = False) -> Path:
        path = (self.deletes if deletes else self.data) / name
        path.write_text(text)
        os.utime(path, (1_000_000, 1_000_000))
        return path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def next_job(spark: SparkSession) -> int:
    """How many jobs the context has run."""
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    return int(scheduler.numTotalJobs())


def test_thirty_batches_are_thirty_jobs_with_the_answers_of_all_data_so_far(
    place: Place, spark: SparkSession
) -> None:
    everything = Place(place.folder / "all")
    fill(everything.data, everything.deletes, 30)
    before = next_job(spark)
    with place.driver(spark) as driver:
        for batch in range(30):
            for source, target in (
                (everything.data, place.data),
                (everything.deletes, place.deletes),
            ):
                os.rename(source / f"{batch:03d}.csv", target / f"{batch:03d}.csv")
            report = driver.step()
            assert report is not None
            assert (report.number, report.jobs, report.stages, report.tasks) == (batch, 1, 1, 1)
            assert (report.inserted, report.deleted) == (60, 12)
            assert answer(place.output) == reference_answer(place.text)
            assert driver.answer() == reference_answer(place.text)
            told = dict(driver.changes(report))
            assert told == changes(place.output)[f"batch={batch:06d}"]
        assert driver.step() is None
    assert next_job(spark) - before == 30


def test_a_large_change_goes_through_many_tasks_to_the_same_answer(
    place: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "LEAST_BASE", 8)
    fill(place.data, place.deletes, 8)
    options = replace(OPTIONS, large=1, buckets=4)
    before = next_job(spark)
    reports: list[BatchReport] = []
    sometimes = Place(place.folder / "sometimes")
    fill(sometimes.data, sometimes.deletes, 8)
    with place.driver(spark, options) as driver:
        while (report := driver.step()) is not None:
            reports.append(report)
    assert [report.jobs for report in reports] == [1] * 8
    assert all(report.tasks > 2 for report in reports)
    assert next_job(spark) - before == 8
    assert answer(place.output) == reference_answer(place.text)
    for batch in range(8):
        chosen = replace(options, large=1 if batch % 2 else 1 << 20)
        with sometimes.driver(spark, chosen) as driver:
            driver.step()
    assert changes(sometimes.output) == changes(place.output)


def test_a_refused_batch_leaves_everything_as_it_was(place: Place, spark: SparkSession) -> None:
    place.put("1.csv", "7,3.0\n7,0.0\n")
    with place.driver(spark) as driver:
        driver.step()
        place.put("2.csv", "8,1.0\n")
        bad = place.put("1.csv", "7,1.0\n", deletes=True)
        for large in (1 << 20, 1):
            driver.options = replace(QUICK, large=large)
            with pytest.raises(DataError, match=r"< K: 7, V: 1\.0 >") as caught:
                driver.step()
            assert caught.value.code == "R205"
            assert driver.state.number == 0
            assert sorted(path.name for path in place.output.iterdir()) == ["batch=000000"]
        bad.write_text("7,3.0\n")
        report = driver.step()
        assert report is not None
        assert report.number == 1
    assert answer(place.output) == Bag([(7, 0.0), (8, 1.0)])


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
        driver.checkpoint.intend(0, driver.look().files)
    place.put("2.csv", "7,5.0\n")
    with place.driver(spark) as driver:
        first = driver.step()
        assert first is not None
        assert (first.number, first.files) == (0, 1)
        assert answer(place.output) == Bag([(7, 3.0)])
        driver.step()
    assert answer(place.output) == Bag([(7, 4.0)])


def test_a_second_driver_is_refused(place: Place, spark: SparkSession) -> None:
    with place.driver(spark), pytest.raises(CheckpointError, match="in use"):
        place.driver(spark)


def test_an_empty_folder_has_an_empty_first_batch(place: Place, spark: SparkSession) -> None:
    with place.driver(spark) as driver:
        report = driver.step()
        assert report is not None
        assert (report.number, report.rows_in, report.changed) == (0, 0, 0)
        assert driver.step() is None
    assert list((place.output / "batch=000000").iterdir()) == []


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


def test_a_snapshot_holds_the_whole_answer(place: Place, spark: SparkSession) -> None:
    fill(place.data, place.deletes, 3)
    with place.driver(spark, replace(OPTIONS, mode="snapshot", format="csv")) as driver:
        while driver.step() is not None:
            pass
    found: Counter[str] = Counter()
    for part in (place.output / "batch=000002").iterdir():
        found.update(part.read_text().splitlines()[1:])
    wanted = reference_answer(place.text)
    assert {int(line.split(",")[0]): float(line.split(",")[1]) for line in found} == dict(wanted)
    assert found.total() == len(wanted)


def test_lines_that_are_no_rows_are_counted(place: Place, spark: SparkSession) -> None:
    place.put("1.csv", "7,3.0\nx,y\n")
    with place.driver(spark) as driver:
        report = driver.step()
    assert report is not None
    assert (report.rows_in, report.bad.bad) == (1, 1)
    assert "line 2" in report.bad.sentences("quarantine")[0]


def test_a_stream_runs_until_there_is_nothing_left(place: Place, spark: SparkSession) -> None:
    fill(place.data, place.deletes, 3)
    numbers: list[int] = []

    def note(_driver: Driver, report: BatchReport) -> None:
        numbers.append(report.number)

    run_stream(place.program, place.checkpoint, place.output, spark, OPTIONS, on_batch=note)
    assert numbers == [0, 1, 2]
    most = replace(OPTIONS, max_batches=1, available_now=False)
    place.put("next.csv", "1,1.0\n")
    run_stream(place.program, place.checkpoint, place.output, spark, most, on_batch=note)
    assert numbers == [0, 1, 2, 3]
    stop = threading.Event()
    stop.set()
    run_stream(place.program, place.checkpoint, place.output, spark, QUICK, stop=stop)
    assert answer(place.output) == reference_answer(place.text)
