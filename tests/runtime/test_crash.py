"""SIGKILL of real processes; what goes on afterwards cannot be told from what was never killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from incmrql.storage.files import CRASH
from incmrql.values import Bag
from tests.effort import scale
from tests.engine.programs import reference_answers
from tests.runtime.streaming import MIXED, Place, answer, archived_files, fill, state, strays

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parent.parent.parent
FAILING = {1: "task-sent", 2: "task-runs", 3: "task-runs", 4: "task-parts", 5: "task-parts"}
"""Where a worker is killed when Spark does not try tasks again; each second batch is large."""
WRITES = scale(
    ("publish", "intent"),
    ("runs", "archive", "manifest", "committed", "parts", "publish", "after", "intent"),
)
"""Those that are tried: `test_faults.py` lets each write fail, without a process for each."""
CRASHES = {name: number for number, name in enumerate(WRITES, 6)}
"""After which of its writes the driver is killed, in which batch."""
PUBLISHED = ("publish", "after")
LAST_CRASH = max(CRASHES.values())
RETRIED = dict(enumerate(("task-read", "task-runs", "task-parts", "task-parts"), LAST_CRASH + 1))
"""Where a worker is killed when Spark tries again."""
BATCHES = LAST_CRASH + 1 + len(RETRIED)


def run(place: Place, crash: str, master: str = "local[2]") -> subprocess.CompletedProcess[str]:
    """The stream in a process that is killed, or whose workers are."""
    return subprocess.run(
        [sys.executable, "-m", "tests.runtime.streaming", master, str(place.folder)],
        cwd=ROOT,
        env={**os.environ, CRASH: crash},
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
    """Workers are killed in the middle of tasks, and the driver after each of its writes."""
    killed, quiet = Place(tmp_path / "killed"), Place(tmp_path / "quiet")
    for place in (killed, quiet):
        fill(place, BATCHES, large=400)
    wanted = quiet.run(spark, MIXED)
    said: list[str] = []
    for point, number in CRASHES.items():
        done = run(killed, f"{in_workers(killed, FAILING)},{point}:{number}")
        assert done.returncode == -signal.SIGKILL, done.stderr
        last = killed.outputs()[-1] / f"batch={number:06d}"
        assert last.exists() == (point in PUBLISHED), point
        said += done.stdout.splitlines()
    again = [line for batch in FAILING for line in (f"failed {batch}", f"batch {batch}")]
    assert said[: len(again) + 2] == ["started", "batch 0", *again]
    assert [line for line in said if line.startswith("failed")] == again[::2]
    retried = run(killed, in_workers(killed, RETRIED), "local[2,4]")
    assert retried.returncode == 0, retried.stderr
    batches = [f"batch {number}" for number in (LAST_CRASH, *RETRIED)]
    assert retried.stdout.splitlines() == ["started", *batches]
    assert killed.published_rows() == quiet.published_rows()
    assert archived_files(killed) == archived_files(quiet)
    answers = reference_answers(quiet.text)
    for output, value in zip(killed.outputs(), answers, strict=True):
        assert answer(output) == (value if isinstance(value, Bag) else Bag([value]))
        assert [path.name for path in output.glob(".*")] == []
    with killed.driver(spark, MIXED) as driver:
        assert driver.intended_files() is None
        assert driver.step() is None
        assert state(driver) == wanted
    assert strays(killed.checkpoint) == set(), "what killed attempts wrote is removed"
