"""SIGTERM ends a process that has the signals of a run, and lets a commit finish."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import os, sys, time
from pathlib import Path
from incmrql.cli.signals import ending_by_signal

class Committing:
    is_committing = False

driver, own = Committing(), Path(sys.argv[2])
own.mkdir()
with ending_by_signal(driver, own) as stop:
    driver.is_committing = sys.argv[1] != "idle"
    print("ready", flush=True)
    if sys.argv[1] == "idle":
        time.sleep(100)
    begun = time.monotonic()
    while time.monotonic() - begun < 1.0:
        time.sleep(0.01)
    print("committed", stop.is_set(), flush=True)
    driver.is_committing = False
    if sys.argv[1] == "stuck":
        time.sleep(100)
    if sys.argv[1] == "gone":
        raise RuntimeError("Java is gone")
print("not reached")
"""


@pytest.mark.parametrize("how", ["idle", "commit", "stuck", "gone"])
def test_sigterm(tmp_path: Path, how: str) -> None:
    own = tmp_path / "own"
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, how, str(own)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=50)  # the process would sleep for longer
    assert process.returncode == 0
    assert out == ("" if how == "idle" else "committed True\n")
    assert err.startswith("stopped by SIGTERM; ")
    assert len(err.splitlines()) == 1
    assert not own.exists()
