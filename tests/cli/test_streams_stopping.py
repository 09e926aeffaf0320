"""A stream in a process of its own: a second one beside it, and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.commands import CODE
from tests.cli.streams import AVERAGE, shop_at
from tests.effort import sample

pytestmark = [pytest.mark.spark, pytest.mark.slow]
LONGEST_WAIT = 120.0
SOON = 20.0
"""A second, as documented, on a machine that is busy with much else."""


def start_process(
    folder: Path, *options: str, query: str = AVERAGE, trigger: str = "100ms"
) -> subprocess.Popen[str]:
    words = ["run", "-e", query, "--checkpoint", "ck", "--trigger", trigger, *options]
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
    with start_process(tmp_path) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == '{ ("Oslo",2,15.0), ("Rome",1,4.0) }\n'
        with start_process(tmp_path) as second:
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


SLOW = """
class Slow:
    type = "< n: int >"

    def parse(self, text):
        import os, time
        while os.path.exists("SLOW"):
            open("SLOW.read", "w").close()
            time.sleep(0.05)
        return [{"n": int(line)} for line in text.split()]
"""
COUNT = 'parser slow = "slow.Slow"; incr sum(select x.n from x in stream(slow, "in"));'


@pytest.mark.parametrize("group", sample([True, False], 2))
def test_sigterm_abandons_the_batch_on_its_way(tmp_path: Path, group: bool) -> None:
    mark = tmp_path / "go-on"
    (tmp_path / "slow.py").write_text(SLOW.replace("SLOW", str(mark)))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1").write_text("1 2 3")
    os.utime(tmp_path / "in" / "1", (1_000_000, 1_000_000))
    mark.touch()
    with start_process(tmp_path, query=COUNT) as process:
        patience = time.monotonic() + LONGEST_WAIT
        while not Path(f"{mark}.read").exists() and process.poll() is None:
            assert time.monotonic() < patience
            time.sleep(0.05)
        assert process.poll() is None, process.communicate()
        os.killpg(process.pid, signal.SIGTERM) if group else process.terminate()
        process.wait(timeout=SOON)  # while the task goes on reading
        mark.unlink()
        out, err = process.communicate(timeout=LONGEST_WAIT)
    assert (process.returncode, out) == (0, "")
    assert err.splitlines()[-1].startswith("stopped by SIGTERM; ")
    assert "Error" not in err
    assert "Traceback" not in err
    with start_process(tmp_path, "--available-now", query=COUNT) as process:
        out, err = process.communicate(timeout=LONGEST_WAIT)
    assert (process.returncode, out) == (0, "6\n"), err


def test_sigterm_between_batches(tmp_path: Path) -> None:
    """The run does not wait for the time of its next batch."""
    shop_at(tmp_path)
    with start_process(tmp_path, trigger="1h") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == '{ ("Oslo",2,15.0), ("Rome",1,4.0) }\n'
        # The status line follows the answer: before it the batch is not over.
        assert process.stderr.readline().startswith("batch 0: ")
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=SOON)
        out, err = process.communicate(timeout=LONGEST_WAIT)
    assert (process.returncode, out) == (0, "")
    assert [line.split(";")[0] for line in err.splitlines()] == ["stopped by SIGTERM"]
