"""SIGKILL of real processes; what goes on afterwards cannot be told from what was never killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from incmrql.runtime import Driver, run_stream
from incmrql.runtime.durable import CRASH
from tests.kernel.programs import AVERAGE, program_of, reference_answer
from tests.runtime.streaming import OPTIONS, answer, changes, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parent.parent.parent
CRASHES = ("intent:1", "runs:2", "manifest:3", "publish:4")


def run(folder: Path, crash: str) -> subprocess.CompletedProcess[str]:
    places = [str(folder / name) for name in ("data", "deletes", "ck", "out")]
    return subprocess.run(
        [sys.executable, "-m", "tests.runtime.streaming", *places],
        cwd=ROOT,
        env={**os.environ, CRASH: crash},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_killed_stream_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Killed after the intent, after the runs, after the manifest and after publishing."""
    killed, quiet = tmp_path / "killed", tmp_path / "quiet"
    for folder in (killed, quiet):
        fill(folder / "data", folder / "deletes", 6)
    text = AVERAGE.format(data=quiet / "data", deletes=quiet / "deletes")
    run_stream(program_of(text), quiet / "ck", quiet / "out", spark, OPTIONS)
    for crash in CRASHES:
        done = run(killed, crash)
        assert done.returncode == -signal.SIGKILL, done.stderr
        point, number = crash.split(":")
        published = killed / "out" / f"batch={int(number):06d}"
        assert published.exists() == (point == "publish")
    last = run(killed, "")
    assert last.returncode == 0, last.stderr
    assert last.stdout.split() == ["batch", "5"]
    assert changes(killed / "out") == changes(quiet / "out")
    assert answer(killed / "out") == reference_answer(text)
    program = program_of(text.replace(str(quiet), str(killed)))
    with Driver(program, killed / "ck", killed / "out", spark, OPTIONS) as driver:
        assert driver.intended() is None
    assert [path.name for path in (killed / "out").glob(".*")] == []
    strays = set(os.listdir(killed / "ck" / "runs")) - _named(killed / "ck")
    assert strays == set(), "what killed attempts wrote is removed"


def _named(checkpoint: Path) -> set[str]:
    """The run files that the last manifest names."""
    from incmrql.runtime.durable import load

    last = load(max((checkpoint / "manifests").iterdir()))
    tables = [last["node"], last["ledger"]]
    return {run["file"] for table in tables for kind in table.values() for run in kind}
