"""SIGKILL of real processes; what goes on afterwards cannot be told from what was never killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from incmrql.kernel.crashing import CRASH
from incmrql.values import Bag
from tests.kernel.programs import reference_answers
from tests.runtime.streaming import MIXED, Place, answer, fill, kept, state, strays

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parent.parent.parent
CRASHES = {
    "intent": 1,
    "runs": 2,
    "archive": 3,
    "manifest": 4,
    "committed": 5,
    "parts": 6,
    "publish": 7,
    "after": 8,
}
"""After which of its writes the driver is killed, in which batch; each second one is large."""
PUBLISHED = ("publish", "after")
FAILING = {9: "task-sent", 10: "task-runs", 11: "task-runs", 12: "task-parts", 13: "task-parts"}
"""Where a worker is killed when Spark does not try tasks again."""
RETRIED = {14: "task-read", 15: "task-runs", 16: "task-parts", 17: "task-parts"}
"""Where a worker is killed when Spark tries again."""
BATCHES = 18
BRIEF = "-XX:TieredStopAtLevel=1"
"""For a Java that lives for two batches."""


def run(place: Place, crash: str, master: str = "local[2]") -> subprocess.CompletedProcess[str]:
    """The stream in a process that is killed, or whose workers are."""
    return subprocess.run(
        [sys.executable, "-m", "tests.runtime.streaming", master, str(place.folder)],
        cwd=ROOT,
        env={**os.environ, CRASH: crash, "JAVA_TOOL_OPTIONS": BRIEF},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def in_workers(place: Place, points: dict[int, str]) -> str:
    """A worker is killed once at each point."""
    marks = [(f"{point}:{number}", place.folder / f"{number}") for number, point in points.items()]
    return ",".join(f"{point}:{mark}" for point, mark in marks)


def test_a_killed_stream_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, spark: SparkSession
) -> None:
    """The driver is killed after each of its writes, then workers in the middle of tasks."""
    killed, quiet = Place(tmp_path / "killed"), Place(tmp_path / "quiet")
    for place in (killed, quiet):
        fill(place, BATCHES, large=400)
    wanted = quiet.run(spark, MIXED)
    for point, number in CRASHES.items():
        done = run(killed, f"{point}:{number}")
        assert done.returncode == -signal.SIGKILL, done.stderr
        last = killed.outputs()[-1] / f"batch={number:06d}"
        assert last.exists() == (point in PUBLISHED), point
    before_last = [f"batch {number}" for number in range(9, 14)]
    _stop_after(killed, 14)
    failed = run(killed, in_workers(killed, FAILING))
    _go_on(killed)
    assert failed.returncode == 0, failed.stderr
    told = [line for batch in before_last for line in (batch.replace("batch", "failed"), batch)]
    assert failed.stdout.splitlines() == ["started", *told], failed.stderr
    retried = run(killed, in_workers(killed, RETRIED), "local[2,4]")
    assert retried.returncode == 0, retried.stderr
    assert retried.stdout.splitlines() == ["started", *[f"batch {n}" for n in RETRIED]]
    assert killed.published() == quiet.published()
    assert kept(killed) == kept(quiet)
    answers = reference_answers(quiet.text)
    for output, value in zip(killed.outputs(), answers, strict=True):
        assert answer(output) == (value if isinstance(value, Bag) else Bag([value]))
        assert [path.name for path in output.glob(".*")] == []
    with killed.driver(spark, MIXED) as driver:
        assert driver.intended() is None
        assert driver.step() is None
        assert state(driver) == wanted
    assert strays(killed.checkpoint) == set(), "what killed attempts wrote is removed"


def _stop_after(place: Place, batches: int) -> None:
    """Hide the files of later batches."""
    for path in _files(place, "[0-9]*.csv"):
        if int(path.stem) >= batches:
            path.rename(path.with_name(f".{path.name}"))


def _go_on(place: Place) -> None:
    for path in _files(place, ".*.csv"):
        path.rename(path.with_name(path.name[1:]))


def _files(place: Place, pattern: str) -> list[Path]:
    folders = (place.data, place.deletes, place.names)
    return [path for folder in folders for path in folder.glob(pattern)]
