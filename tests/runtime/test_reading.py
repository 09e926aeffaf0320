"""Streams over directories that Spark reads, on Spark: batches, crashes, verification, rebuilds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from incmrql.catalyst.convert import Question, convert_script
from incmrql.catalyst.leaves import Leaves, OnModified
from incmrql.errors import DataError, DifferenceFound
from incmrql.plan.assembly import program_of
from incmrql.runtime import Driver
from incmrql.runtime.verify import verify
from incmrql.spark.plans import read_plan
from incmrql.storage.files import CRASH
from tests.effort import sample
from tests.runtime.reading import ONE_BY_ONE, Partitioned
from tests.runtime.streaming import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parent.parent.parent


def test_partitions_and_deletions_are_followed_and_verified(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Partitioned(tmp_path)
    place.put(1, "a.csv", '10,"two', 'lines"', "5,", "x,bad")
    place.put(2, "b.csv", "20,b")
    assert place.run(spark) == [(1, 15, 2), (2, 20, 1)]
    place.put(2, "c.csv", "1,c", at=2)
    place.put(1, "a.csv", "5,", deletes=True, at=2)
    with place.driver(spark) as driver:
        report = driver.step()
        assert report is not None
        assert sorted(driver.answer()) == [(1, 10, 2), (2, 21, 2)]
        (place.data / "k=2" / "b.csv").unlink()  # the spools have its rows
        assert verify(driver, spark).rows == 2
    assert place.spools() == {}


def test_a_program_is_rebuilt_from_spools(spark: SparkSession, tmp_path: Path) -> None:
    place = Partitioned(tmp_path)
    place.put(1, "a.csv", "10,a")
    place.put(2, "b.csv", "20,b")
    assert place.run(spark) == [(1, 10, 1), (2, 20, 1)]
    (place.data / "k=1" / "a.csv").unlink()
    with pytest.raises(DataError, match="no longer exists"):
        place.run(spark)
    place.options["on_modified"] = "replace"
    place.output = tmp_path / "rebuilt"
    assert place.run(spark, replace(QUICK, on_change="rebuild")) == [(2, 20, 1)]
    place.put(2, "b.csv", "7,b", "8,", at=3)
    with place.driver(spark) as driver:
        assert driver.step() is not None
        assert driver.answer() == [(2, 15, 1)]
        verify(driver, spark)


def test_a_spool_that_is_not_what_was_ingested_is_noticed(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Partitioned(tmp_path)
    place.put(1, "a.csv", "10,a")
    place.run(spark)
    with place.driver(spark) as driver:
        (spool,) = (place.checkpoint / "input" / "archive").glob("*.arrow")
        content = bytearray(spool.read_bytes())
        content[len(content) // 2] ^= 0xFF
        spool.unlink()
        spool.write_bytes(content)
        with pytest.raises((DataError, DifferenceFound)):
            verify(driver, spark)


@pytest.mark.parametrize(
    ("format_", "on_modified"), [("parquet", "refuse"), ("parquet", "replace"), ("csv", "replace")]
)
def test_a_frame_over_a_directory_that_spark_overwrites(
    spark: SparkSession, tmp_path: Path, format_: str, on_modified: OnModified
) -> None:
    users = spark.newSession()
    data = str(tmp_path / "data")

    def write(mode: str, *rows: tuple[int, int]) -> None:
        frame = users.createDataFrame(list(rows), "k int, v int").coalesce(1)
        frame.write.mode(mode).format(format_).save(data)

    write("append", (1, 10), (2, 20))
    plan = read_plan(
        users.read.schema("k int, v int").format(format_).load(data).groupBy("k").sum("v")
    )
    leaves = Leaves(on_modified=on_modified, settings=plan.analyzed.settings)
    script = convert_script([Question(plan.analyzed, leaves.input_of)]).script
    program = program_of(script.items, script)
    with Driver(program, tmp_path / "ck", tmp_path / "out", spark, QUICK) as driver:
        driver.step()
        write("append", (1, 1))
        driver.step()
        assert sorted(driver.answer()) == [(1, 11), (2, 20)]
        write("overwrite", (2, 2), (3, 3))
        if on_modified == "refuse":
            with pytest.raises(DataError, match="no longer exists") as problem:
                driver.step()
            assert "write.mode" in problem.value.hint
            return
        driver.step()
        assert sorted(driver.answer()) == [(2, 2), (3, 3)]
        verify(driver, spark)


@pytest.mark.slow
def test_a_killed_stream_ingests_each_file_once(spark: SparkSession, tmp_path: Path) -> None:
    """The driver is killed between spool and intent, after the intent, and in the commit."""
    killed, quiet = Partitioned(tmp_path / "killed"), Partitioned(tmp_path / "quiet")
    for place in (killed, quiet):
        for number in range(5):
            place.put(number % 2, f"{number}.csv", f"{number},a", f"{number},", at=number)
        place.put(0, "gone.csv", "0,a", deletes=True, at=9)
    wanted = quiet.run(spark, ONE_BY_ONE)
    for point, number in sample([("spooled", 1), ("intent", 2), ("committed", 4)], 3):
        done = subprocess.run(
            [sys.executable, "-m", "tests.runtime.reading", str(tmp_path / "killed")],
            cwd=ROOT,
            env={**os.environ, CRASH: f"{point}:{number}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert sum(killed.spools().values()) == 1
    assert killed.run(spark, ONE_BY_ONE) == wanted
    with killed.driver(spark) as driver:
        verify(driver, spark)
    assert killed.spools() == {}
