"""A cluster of real processes: any placement of tasks, and an executor that dies in a batch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from tests.kernel.programs import reference_answers
from tests.runtime.cluster import Cluster, standalone
from tests.runtime.streaming import MIXED, Place, answer, fill, state, strays

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parent.parent.parent
LARGE, SMALL = "0\n", f"{1 << 30}\n"
QUIET = 3
"""Batches before anything is killed: small, large, small."""
BATCHES = 9


def test_a_cluster_gives_the_same_and_outlives_an_executor(
    tmp_path: Path, spark: SparkSession
) -> None:
    quiet, place = Place(tmp_path / "quiet"), Place(tmp_path / "cluster")
    for each in (quiet, place):
        fill(each, BATCHES)
    wanted = quiet.run(spark, MIXED)
    with standalone(tmp_path / "spark") as cluster, _stream(cluster, place) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(QUIET):
            size = LARGE if number % 2 else SMALL
            assert _batch(process.stdin, process.stdout, size) == (number, size == LARGE)
        assert len(cluster.executors()) == 2
        killed = 0
        for number in range(QUIET, BATCHES):
            process.stdin.write(SMALL if killed else LARGE)
            process.stdin.flush()
            killed += 0 if killed else _kill_in_batch(cluster, place, number)
            assert json.loads(process.stdout.readline())["number"] == number
        assert killed == 1, "an executor was to die in the middle of a batch"
        process.stdin.close()
        assert json.loads(process.stdout.readline())["state"] == repr(wanted)
        assert process.wait(60) == 0
    assert place.published() == quiet.published()
    assert [answer(output) for output in place.outputs()[:2]] == reference_answers(quiet.text)[:2]
    with place.driver(spark, MIXED) as driver:  # the checksums of all runs are compared
        assert state(driver) == wanted
        assert driver.step() is None
    assert strays(place.checkpoint) == set()


def _stream(cluster: Cluster, place: Place) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.runtime.on_cluster", cluster.url, str(place.folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )


def _batch(given: IO[str], told: IO[str], size: str) -> tuple[int, bool]:
    """The number of the next batch, and whether it ran in many tasks."""
    given.write(size)
    given.flush()
    found = json.loads(told.readline())
    assert found["jobs"] == 1
    return found["number"], found["tasks"] > 1


def _kill_in_batch(cluster: Cluster, place: Place, number: int) -> bool:
    """Kill an executor when the first run of a batch is written; whether it was in the middle."""
    # manifest 0 began the epoch
    runs = place.checkpoint / "runs"
    manifest = place.checkpoint / f"manifests/{number + 1:06d}.json"
    executors = cluster.executors()
    until = time.monotonic() + 60
    while not any(runs.glob(f"{number:06d}-*.run")) and not manifest.exists():
        assert time.monotonic() < until
        time.sleep(0.005)
    os.kill(executors[0], signal.SIGKILL)
    return not manifest.exists()
