"""What goes wrong outside: bad input, full disks, damaged checkpoints.

Each time: a clear error, the state as it was, and the run goes on when the cause is gone.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from incmrql.engine import batch as batches
from incmrql.engine import inputs
from incmrql.errors import CheckpointError, DataError, IncmrqlError
from incmrql.plan.assembly import program_of
from incmrql.runtime import Driver
from incmrql.runtime.feeds.push import PushFeed
from incmrql.runtime.sinks import folders
from incmrql.values import Bag
from tests.engine.programs import reference_answer
from tests.plan.stepping import typed_script
from tests.runtime.here import driver_here, full_disk, settle
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


PARQUET = (
    'incr select (k, sum(x.V)) from x in stream(parquet, "{data}", type(< K: int, V: double >)) '
    "group by k: x.K;"
)
ENOUGH = 45
"""More writes than a batch has."""


# --- a full disk, at each write of a batch -----------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, True], ids=["going on", "started again"])
def test_a_full_disk_at_any_write_of_a_batch_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    quiet, place = Place(tmp_path / "quiet"), Place(tmp_path / "full")
    for stream in (quiet, place):
        fill(stream, ENOUGH, 5)
    with driver_here(quiet, MIXED) as driver:
        while driver.step() is not None:
            pass
        wanted = state(driver)
    driver = driver_here(place, MIXED)
    failed: list[str] = []
    at = batch = 0
    while True:
        before, committed = state(driver), driver.state.number
        with full_disk(monkeypatch, at) as disk:
            told = _error_of_next_batch(driver)
        if not disk.where:
            break  # a batch has no more writes than this
        if told:
            assert "no space left on device" in told
            assert f"batch {batch}" in told or "R130" in told
        failed.append(disk.where)
        assert driver.state.number in {committed, committed + 1}
        if driver.state.number == committed:
            assert state(driver) == before
        at += 1
        if restarted:
            driver.close()
            driver = driver_here(place, MIXED)
        if driver.state.number < batch:
            report = driver.step()
            assert report is not None
            assert report.number == batch
        batch += 1
    while driver.step() is not None:
        pass
    assert state(driver) == wanted
    assert place.published_rows() == quiet.published_rows()
    for output in place.outputs():
        assert [path.name for path in output.glob(".*")] == []
    driver.close()
    kinds = " ".join(failed)
    for needed in ("intents", "runs", "archive", "manifests", "out/1", "out/3"):
        assert needed in kinds, failed


@pytest.mark.parametrize("restarted", [False, True], ids=["going on", "started again"])
def test_what_is_committed_and_not_published_is_published_later_and_not_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    script = typed_script("select (k, count(x)) from x in R group by k: x.A;", frozenset("R"))
    place = Place(tmp_path, "1;")
    place.program = program_of(script.items, script)
    driver = driver_here(place, QUICK)
    feed = driver.feeds[0]
    assert isinstance(feed, PushFeed)
    feed.insert([{"A": 1, "B": 2, "C": 0.5, "S": "a"}] * 3)

    def full(_folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(folders, "fsync", full)
        for _ in range(2):
            with pytest.raises(CheckpointError, match="committed, but its output could not be"):
                driver.step()
            assert driver.state.number == 0
    assert changes(place.output) == {}
    if restarted:
        driver.close()
        driver = driver_here(place, QUICK)
    assert driver.step() is None
    assert changes(place.output) == {"batch=000000": {(1, 3): 1}}
    assert driver.answer() == Bag([(1, 3)])
    driver.close()


def _error_of_next_batch(driver: Driver) -> str:
    """The message of the next batch if it fails, else an empty text."""
    try:
        driver.step()
    except IncmrqlError as problem:
        return str(problem)
    return ""


# --- files that are not what they were ---------------------------------------------------


@pytest.fixture
def running_driver(tmp_path: Path) -> Iterator[tuple[Place, Driver, dict[str, Any]]]:
    """A stream after its first batch, in this process."""
    place = average(tmp_path)
    place.put("1.csv", "7,3.0\n")
    with driver_here(place, QUICK) as driver:
        driver.step()
        yield place, driver, state(driver)


def refuse_batch(driver: Driver, code: str, before: dict[str, Any]) -> DataError:
    """Check that the next batch is refused and changes nothing; returns the error."""
    number = driver.state.number
    with pytest.raises(DataError) as caught:
        driver.step()
    assert caught.value.code == code
    assert (driver.state.number, driver.intended_files(), driver.refused_batch) == (
        number,
        None,
        number + 1,
    )
    assert state(driver) == before
    return caught.value


def test_a_file_that_vanishes_between_listing_and_reading(
    running_driver: tuple[Place, Driver, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, driver, before = running_driver
    path = place.put("2.csv", "8,1.0\n")
    intend = driver.checkpoint.intend

    def intend_and_delete(*given: Any) -> None:
        intend(*given)
        path.unlink(missing_ok=True)

    monkeypatch.setattr(driver.checkpoint, "intend", intend_and_delete)
    assert "no such file" in str(refuse_batch(driver, "R301", before))
    assert driver.step() is None
    place.put("3.csv", "9,1.0\n")
    assert driver.step() is not None
    assert answer(place.output) == Bag([(7, 3.0), (9, 1.0)])


def test_a_file_that_grows_while_it_is_read(
    running_driver: tuple[Place, Driver, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, driver, before = running_driver
    path = place.put("2.csv", "8,1.0\n")
    read = inputs.read_file

    def growing(*given: Any) -> Iterator[Any]:
        yield from read(*given)
        with path.open("a") as stream:
            stream.write("8,2.0\n")

    with monkeypatch.context() as patched:
        patched.setattr(batches, "read_file", growing)
        assert "size or time" in str(refuse_batch(driver, "R301", before))
    assert driver.step() is not None
    assert answer(place.output) == Bag([(7, 3.0), (8, 1.5)])


def test_a_file_that_cannot_be_read(running_driver: tuple[Place, Driver, dict[str, Any]]) -> None:
    place, driver, before = running_driver
    place.put("2.csv", "8,1.0\n")
    bad = place.data / "3.csv"
    bad.symlink_to("/proc/self/mem")  # whoever reads it gets an error, the superuser too
    assert "3.csv" in str(refuse_batch(driver, "R102", before))
    bad.unlink()
    assert driver.step() is not None
    assert answer(place.output) == Bag([(7, 3.0), (8, 1.0)])


def test_rows_that_are_deleted_and_not_there(
    running_driver: tuple[Place, Driver, dict[str, Any]],
) -> None:
    place, driver, before = running_driver
    bad = place.put("1.csv", "7,3.0\n7,3.0\n", deletes=True)
    assert "< K: 7, V: 3.0 >" in str(refuse_batch(driver, "R205", before))
    bad.write_text("7,3.0\n")
    assert driver.step() is not None
    assert answer(place.output) == Bag()


@pytest.mark.parametrize(
    ("damage", "code"),
    [("cut", "R103"), ("flipped", "R103"), ("empty", "R103"), ("other rows", "R121")],
)
def test_a_parquet_file_that_is_damaged(tmp_path: Path, damage: str, code: str) -> None:
    place = Place(tmp_path, PARQUET)
    table = pa.table({"K": pa.array([1, 2], pa.int32()), "V": [1.0, 2.0]})
    pq.write_table(table, place.data / "1.parquet")
    with driver_here(place, QUICK) as driver:
        driver.step()
        before = state(driver)
        path = place.data / "2.parquet"
        many = pa.table({"K": pa.array(range(5_000), pa.int32()), "V": [0.5] * 5_000})
        pq.write_table(many, path)
        whole = bytearray(path.read_bytes())
        match damage:
            case "cut":
                path.write_bytes(whole[: len(whole) // 2])
            case "flipped":
                whole[4:2_000] = bytes(byte ^ 0x5A for byte in whole[4:2_000])
                path.write_bytes(whole)
            case "empty":
                path.write_bytes(b"")
            case _:
                pq.write_table(pa.table({"K": ["x"]}), path)
        settle(path)
        assert "2.parquet" in str(refuse_batch(driver, code, before))
        pq.write_table(table, path)
        assert driver.step() is not None
        assert driver.answer() == reference_answer(place.text)


# --- a checkpoint that is damaged --------------------------------------------------------


def last(folder: Path) -> Path:
    return max(folder.glob("[0-9]*"))


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
@pytest.mark.parametrize("what", ["runs", "manifests"])
def test_a_damaged_checkpoint_is_refused_and_goes_on_when_it_is_mended(
    tmp_path: Path, what: str, damage: str
) -> None:
    place = average(tmp_path)
    fill(place, 3)
    options = replace(OPTIONS, max_files_per_batch=2)
    with driver_here(place, options) as driver:
        driver.step()
        driver.step()
    path = place.checkpoint / what
    if path.is_dir():
        path = min(path.glob("[0-9]*")) if (what, damage) == ("manifests", "gone") else last(path)
    whole = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(whole[: len(whole) // 2])
        case "flipped":
            changed = bytearray(whole)
            changed[len(whole) // 2] ^= 1
            path.write_bytes(changed)
        case _:
            path.unlink()
    with pytest.raises(CheckpointError, match=str(place.checkpoint)):
        driver_here(place, options)
    path.write_bytes(whole)
    with driver_here(place, options) as driver:
        report = driver.step()
        assert report is not None
        assert report.number == 2
    assert answer(place.output) == reference_answer(place.text)


def test_a_damaged_intent_is_told(running_driver: tuple[Place, Driver, dict[str, Any]]) -> None:
    place, driver, before = running_driver
    place.put("2.csv", "8,1.0\n")
    driver.checkpoint.intend(1, driver.poll().files)
    path = last(driver.checkpoint.intents)
    whole = path.read_text()
    path.write_text(whole[:-5])
    with pytest.raises(CheckpointError, match="cannot be read"):
        driver.step()
    assert state(driver) == before
    path.write_text(whole)
    assert driver.step() is not None


# --- the same where tasks are Spark's ----------------------------------------------------


@pytest.mark.spark
def test_what_workers_cannot_write_or_read_is_told(tmp_path: Path, spark: SparkSession) -> None:
    """In one task and in stages: no folder for runs, a run that is cut, files of all kinds."""
    for large in (1 << 20, 0):
        place = average(tmp_path / str(large))
        place.put("1.csv", "7,3.0\n8,1.0\n")
        with place.driver(spark, replace(QUICK, large=large)) as driver:
            driver.step()
            before = state(driver)
            place.put("2.csv", "7,5.0\n")
            runs = driver.checkpoint.runs
            os.rename(runs, tmp_path / "away")
            with pytest.raises(CheckpointError, match=r"(cannot be read|could not be written)"):
                driver.step()
            os.rename(tmp_path / "away", runs)
            assert (driver.state.number, state(driver)) == (0, before)
            bad = place.data / "3.csv"
            bad.symlink_to("/proc/self/mem")
            driver.checkpoint.withdraw(1)
            assert "3.csv" in str(refuse_batch(driver, "R102", before))
            bad.unlink()
            gone = place.put("4.csv", "1,1.0\n")
            files = driver.poll().files
            gone.unlink()
            with pytest.raises(DataError) as caught:
                driver.run_batch(files)
            assert caught.value.code == "R301"
            assert state(driver) == before
            assert [path.name for path in place.output.glob("batch=*")] == ["batch=000000"]
            assert driver.step() is not None
        assert answer(place.output) == Bag([(7, 4.0), (8, 1.0)])


@pytest.mark.spark
def test_a_run_that_is_cut_while_the_stream_runs(tmp_path: Path, spark: SparkSession) -> None:
    place = average(tmp_path)
    place.put("1.csv", "".join(f"{key},3.0\n" for key in range(5_000)))
    with place.driver(spark) as driver:
        driver.step()
        place.put("2.csv", "7,5.0\n")
        path = last(driver.checkpoint.runs)
        whole = path.read_bytes()
        os.truncate(path, 100)
        for _ in range(2):  # whether a worker has mapped it already or not
            with pytest.raises(IncmrqlError):
                driver.step()
            assert driver.state.number == 0
    path.write_bytes(whole)
    with driver_here(place, QUICK) as driver:  # workers that have mapped the cut file stay with it
        assert driver.step() is not None
        assert dict(driver.answer())[7] == 4.0


# --- signals -------------------------------------------------------------------------------


def test_a_driver_says_that_it_commits_until_the_batch_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM waits for that, and for nothing else."""
    place = Place(tmp_path)
    fill(place, 2)
    said: list[tuple[str, bool]] = []
    with driver_here(place) as driver:
        commit, finish = driver.checkpoint.commit, driver._finish
        run = driver.job.run

        def noting(name: str, called: Callable[..., Any]) -> Callable[..., Any]:
            def call(*given: Any, **named: Any) -> Any:
                said.append((name, driver.is_committing))
                return called(*given, **named)

            return call

        monkeypatch.setattr(driver.checkpoint, "commit", noting("commit", commit))
        monkeypatch.setattr(driver, "_finish", noting("publish", finish))
        monkeypatch.setattr(driver.job, "run", noting("run", run))
        assert driver.step() is not None
        assert not driver.is_committing
    assert said[-3:] == [("run", False), ("commit", True), ("publish", True)]


def test_a_start_that_fails_lets_the_next_one_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While somebody still holds the error, and with it the driver."""
    place = Place(tmp_path)
    fill(place, 1)
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patched:
        patched.setattr(Driver, "_start", lambda *_: (_ for _ in ()).throw(full))
        with pytest.raises(IncmrqlError) as caught:
            driver_here(place)
    with driver_here(place) as driver:
        assert driver.step() is not None
        driver.lock.release()  # type: ignore[union-attr]
    assert caught.value.__cause__ is full  # closing the driver has released the lock once more
