"""`current.parquet`: one whole answer, whenever somebody looks."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from incmrql.engine.batch import answer_value
from incmrql.errors import CheckpointError, DataError
from incmrql.io.files import CURRENT, expand
from incmrql.runtime import Driver
from incmrql.runtime.checkpoint.manifests import State
from incmrql.runtime.feeds import folders
from incmrql.runtime.sinks import current
from incmrql.values import Bag, Value
from tests.engine.programs import reference_answers
from tests.runtime.here import driver_here
from tests.runtime.streaming import OPTIONS, QUICK, Place, average, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing pauses after no write."""
    monkeypatch.setattr(current, "_PAUSE", 0)


def rows_in(folder: Path) -> Bag:
    """The rows of the file, as values of the language."""
    table = pq.ParquetFile(folder / CURRENT).read()
    rows = zip(*[column.to_pylist() for column in table.columns], strict=True)
    return Bag(row[0] if len(row) == 1 else row for row in rows)


def batch_of(folder: Path) -> int:
    return int(pq.read_schema(folder / CURRENT).metadata[b"incmrql.batch"])


def answers(driver: Driver) -> list[Bag]:
    """The answers after the last batch, each as a bag of rows."""
    runs = driver.checkpoint.runs.absolute()
    numbers = range(len(driver.program.outputs))
    values = [answer_value(driver.compiled, n, driver.state.tables, runs) for n in numbers]
    return [value if isinstance(value, Bag) else Bag([value]) for value in values]


@pytest.mark.usefixtures("always")
def test_after_each_batch_it_is_the_answer(tmp_path: Path) -> None:
    place = Place(tmp_path)
    fill(place, 4, 20)
    with driver_here(place, OPTIONS) as driver:
        while driver.step() is not None:
            assert [rows_in(folder) for folder in place.outputs()] == answers(driver)
            assert {batch_of(folder) for folder in place.outputs()} == {driver.state.number}
    expected: list[Value] = reference_answers(place.text)
    assert [rows_in(folder) for folder in place.outputs()] == [
        value if isinstance(value, Bag) else Bag([value]) for value in expected
    ]


@pytest.mark.usefixtures("always")
def test_an_empty_answer_is_a_file_without_rows_and_pandas_and_duckdb_read_it(
    tmp_path: Path,
) -> None:
    place = average(tmp_path)
    with driver_here(place, QUICK) as driver:
        driver.step()
        path = place.output / CURRENT
        assert pd.read_parquet(path).to_dict("list") == {"_1": [], "_2": []}
        place.put("1.csv", "1,2.0\n1,4.0\n2,5.0\n")
        driver.step()
        assert sorted(pd.read_parquet(path).itertuples(index=False)) == [(1, 3.0), (2, 5.0)]
        total = duckdb.execute(f"select count(*), sum(_2) from '{path}'").fetchall()
        assert total == [(2, 8.0)]


@pytest.mark.usefixtures("always")
def test_rows_that_an_answer_has_twice_are_there_twice(tmp_path: Path) -> None:
    text = 'incr select x.K from x in stream(line, "{data}", ",", type(< K: int, V: double >));'
    place = Place(tmp_path, text)
    place.put("1.csv", "1,2.0\n1,4.0\n2,5.0\n")
    with driver_here(place, QUICK) as driver:
        driver.step()
        assert rows_in(place.output) == Bag([1, 1, 2])


@pytest.mark.usefixtures("always")
def test_the_rows_of_a_list_stand_in_their_order(tmp_path: Path) -> None:
    text = (
        'incr select x.V from x in stream(line, "{data}", ",", type(< K: int, V: double >)) '
        "order by x.K desc;"
    )
    place = Place(tmp_path, text)
    place.put("1.csv", "1,2.0\n3,4.0\n2,5.0\n")
    with driver_here(place, QUICK) as driver:
        driver.step()
        assert list(rows_in(place.output)) == [4.0, 5.0, 2.0]


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("point", ["current", "publish", "manifest", "committed"])
def test_a_crash_leaves_a_whole_file_and_the_next_start_brings_it_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    from incmrql.runtime import driver as drivers
    from incmrql.runtime.checkpoint import manifests

    place = average(tmp_path)
    fill(place, 3, 10)
    with driver_here(place, OPTIONS) as driver:
        driver.step()
        before = rows_in(place.output)

    def crash(at: str, number: int) -> None:
        if (at, number) == (point, 1):
            raise Killed

    with monkeypatch.context() as patch:
        for module in (current, drivers, manifests):
            patch.setattr(module, "crash_here", crash)
        driver = driver_here(place, OPTIONS)
        with pytest.raises(Killed):
            driver.step()
        patch.setattr(current.CurrentAnswers, "write", lambda *_, **__: None)
        driver.close()  # the lock of a killed process is free
    assert rows_in(place.output) == before or batch_of(place.output) == 1
    with driver_here(place, OPTIONS) as driver:
        assert driver.state.number == 1
        assert [rows_in(place.output)] == answers(driver)
        assert batch_of(place.output) == 1
        assert [path.name for path in place.output.glob(".*")] == []


@pytest.mark.usefixtures("always")
def test_whoever_reads_while_batches_run_gets_the_answer_after_one_of_them(tmp_path: Path) -> None:
    place = average(tmp_path)
    fill(place, 12, 20)
    whole: list[Bag] = []
    seen: list[Bag] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            if (place.output / CURRENT).exists():
                seen.append(rows_in(place.output))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with driver_here(place, OPTIONS) as driver:
            while driver.step() is not None:
                whole += answers(driver)
    finally:
        ended.set()
        reader.join()
    assert len(whole) > 5
    assert seen
    assert all(rows in whole for rows in seen)


def test_an_answer_that_takes_long_is_not_written_after_every_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    written: list[int] = []
    write = current.CurrentAnswers._write

    def slow(self: current.CurrentAnswers, folder: Path, state: State) -> None:
        clock[0] += 1.0
        written.append(state.number)
        write(self, folder, state)

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(current.CurrentAnswers, "_write", slow)
    place = average(tmp_path)
    fill(place, 7, 10)  # five batches
    with driver_here(place, OPTIONS) as driver:
        for number in range(4):
            driver.step()
            clock[0] += 4.0
            assert batch_of(place.output) == (0 if number < 3 else 3)
        driver.step()
        assert written == [0, 3]
        assert driver.step() is None  # nothing to do but this
        assert written == [0, 3, 4]
        assert driver.step() is None
    assert written == [0, 3, 4]
    with driver_here(place, OPTIONS):
        assert written == [0, 3, 4]  # the start sees that nothing is due


def test_the_end_of_a_run_writes_what_is_due(tmp_path: Path) -> None:
    place = average(tmp_path)
    fill(place, 3, 10)
    with driver_here(place, OPTIONS) as driver:
        for _ in range(3):
            driver.step()
        expected = answers(driver)
    assert [rows_in(place.output)] == expected


def test_a_driver_that_was_replaced_does_not_bring_old_rows(tmp_path: Path) -> None:
    place = average(tmp_path)
    fill(place, 3, 10)
    first = driver_here(place, OPTIONS)
    first.step()
    assert first.lock is not None
    first.lock.release()
    with driver_here(place, OPTIONS) as second:
        while second.step() is not None:
            pass
        expected = answers(second)
    first.current._written.clear()
    (place.output / CURRENT).rename(tmp_path / "away")
    with pytest.raises(CheckpointError, match="another driver has taken over"):
        first.current.write(first.state, now=True)
    assert not (place.output / CURRENT).exists()
    (tmp_path / "away").rename(place.output / CURRENT)
    assert [rows_in(place.output)] == expected


@pytest.mark.parametrize("kind", ["text", "parquet"])
def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, kind: str) -> None:
    place = average(tmp_path)
    place.output.mkdir()
    if kind == "text":
        (place.output / CURRENT).write_text("mine")
    else:
        pq.write_table(pa.table({"a": [1]}), place.output / CURRENT)
    before = (place.output / CURRENT).read_bytes()
    with pytest.raises(CheckpointError, match="was not written by this checkpoint"):
        driver_here(place, QUICK)
    assert (place.output / CURRENT).read_bytes() == before


def test_a_file_that_cannot_be_written_stops_the_run_and_the_batch_stays(tmp_path: Path) -> None:
    place = average(tmp_path)
    place.put("1.csv", "1,2.0\n")
    with driver_here(place, QUICK) as driver:
        driver.step()
        (place.output / CURRENT).unlink()
        (place.output / CURRENT).mkdir()
        place.put("2.csv", "1,4.0\n")
        driver.current._next = 0.0
        with pytest.raises((DataError, CheckpointError, OSError)):
            driver.step()
        assert driver.state.number == 1
        (place.output / CURRENT).rmdir()
        assert driver.step() is None
        assert rows_in(place.output) == Bag([(1, 3.0)])


@pytest.mark.usefixtures("always")
def test_whoever_reads_the_folder_as_data_reads_the_batches_only(tmp_path: Path) -> None:
    place = average(tmp_path)
    place.put("1.csv", "1,2.0\n")
    with driver_here(place, QUICK) as driver:
        driver.step()
    (part,) = (place.output / "batch=000000").iterdir()
    assert expand(str(place.output)) == [part]
    skipped: list[tuple[str, str]] = []
    found = folders.files_at(str(place.output), lambda *pair: skipped.append(pair))
    assert [name for name, _ in found] == [str(part)]
    assert skipped == [(folders.REPEATED, str(place.output / CURRENT))]
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / CURRENT).write_bytes(part.read_bytes())
    assert expand(str(tmp_path / "own")) == [tmp_path / "own" / CURRENT]


@pytest.mark.spark
def test_spark_reads_the_batches_of_the_folder_only(spark: SparkSession, tmp_path: Path) -> None:
    place = average(tmp_path)
    place.put("1.csv", "1,2.0\n2,3.0\n")
    with driver_here(place, QUICK) as driver:
        driver.step()
    frame = spark.read.parquet(str(place.output))
    assert Counter(map(tuple, frame.select("_1", "_weight").collect())) == {(1, 1): 1, (2, 1): 1}
