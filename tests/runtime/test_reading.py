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

from incmrql.errors import DataError, DifferenceFound
from incmrql.runtime.verify import verify
from incmrql.storage.files import CRASH
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


@pytest.mark.slow
def test_a_killed_stream_ingests_each_file_once(spark: SparkSession, tmp_path: Path) -> None:
    """The driver is killed between spool and intent, after the intent, and in the commit."""
    killed, quiet = Partitioned(tmp_path / "killed"), Partitioned(tmp_path / "quiet")
    for place in (killed, quiet):
        for number in range(5):
            place.put(number % 2, f"{number}.csv", f"{number},a", f"{number},", at=number)
        place.put(0, "gone.csv", "0,a", deletes=True, at=9)
    wanted = quiet.run(spark, ONE_BY_ONE)
    for point, number in {"spooled": 1, "intent": 2, "committed": 4}.items():
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
