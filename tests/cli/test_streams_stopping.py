"""A stream in a process of its own: a second one beside it, and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import CODE
from tests.cli.streams import AVERAGE, shop_at

pytestmark = [pytest.mark.spark, pytest.mark.slow]
LONGEST_WAIT = 120.0


def started(folder: Path, *options: str) -> subprocess.Popen[str]:
    words = ["run", "-e", AVERAGE, "--checkpoint", "ck", "--trigger", "100ms", *options]
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        text=True,
        env={**os.environ, "INCMRQL_ENGINE": "spark"},
        start_new_session=True,
    )


def test_a_second_process_is_refused_and_a_signal_ends_the_first(tmp_path: Path) -> None:
    shop = shop_at(tmp_path)
    with started(tmp_path) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == '{ ("Oslo",2,15.0), ("Rome",1,4.0) }\n'
        with started(tmp_path) as second:
            out, err = second.communicate(timeout=LONGEST_WAIT)
        assert (second.returncode, out) == (1, "")
        assert err.startswith(f"checkpoint ck is in use by process {first.pid} on ")
        shop.sells("2.csv", "Rome,6\n")
        assert first.stdout.readline() == '{ ("Oslo",2,15.0), ("Rome",2,5.0) }\n'
        os.killpg(first.pid, signal.SIGINT)  # as a terminal does on Ctrl-C
        out, err = first.communicate(timeout=LONGEST_WAIT)
    assert (first.returncode, out) == (0, "")
    first_line, *others = [line.split(":")[0] for line in err.splitlines()]
    assert first_line == "batch 0"
    assert sorted(others) == ["batch 1", "stopping after this batch"]  # whichever comes first
