"""The command in a process of its own: pipes, signals, and data that could kill it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import LONGEST_WAIT, in_process, start

ENDLESS = "1; repeat x = 0 step x + 1 limit 1000000000;"


def test_the_installed_command(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("incmrql")
    if not command.exists():
        pytest.skip("not installed beside this Python")
    (tmp_path / "q.mrql").write_text("select x + 1 from x in { 1, 2 };")
    done = subprocess.run([command, "run", "q.mrql"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "{ 2, 3 }\n", "")


def test_exit_codes(tmp_path: Path) -> None:
    assert in_process(["run", "-e", "x"], tmp_path).code == 1
    assert in_process(["run", "none.mrql"], tmp_path).code == 2


@pytest.mark.parametrize("usual", [signal.default_int_handler, signal.SIG_IGN])
def test_interrupted(usual: signal.Handlers, tmp_path: Path) -> None:
    """Even where this process is not to be interrupted."""
    before = signal.signal(signal.SIGINT, usual)
    try:
        _interrupt(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(tmp_path: Path) -> None:
    with start(["run", "-e", ENDLESS], tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LONGEST_WAIT)
    assert (process.returncode, out, err.strip()) == (130, "", "stopped")


def test_the_reader_of_a_pipe_goes(tmp_path: Path) -> None:
    (tmp_path / "q.mrql").write_text("1...20000;\n" * 50)
    with start(["run", "q.mrql"], tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.read(10) == "{ 1, 2, 3,"
        process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read()
        process.wait(LONGEST_WAIT)
    assert (process.returncode, said) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_the_disk_is_full(tmp_path: Path) -> None:
    code = "from incmrql.cli import main; main()"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, "run", "-e", "1"],
            stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, "bug" in done.stderr) == (1, False)


def test_data_that_are_nested_very_deep(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000 + "]" * 100_000 + '\n{"a": 1}\n')
    done = in_process(["run", "-e", "source(json, 'deep.json');"], tmp_path)
    assert (done.code, done.out) == (0, '{ JObject({ ("a",Jlong(1)) }) }\n')
    assert "nested deeper than 100 levels" in done.err


def test_values_that_are_nested_very_deep(tmp_path: Path) -> None:
    query = (
        "data E = Leaf: int | Fork: (E, E); repeat x = Leaf(1) step Fork(x, Leaf(1)) limit 20000;"
    )
    done = in_process(["run", "-e", query], tmp_path)
    assert done.code in (0, 1)


def test_recursion_without_end(tmp_path: Path) -> None:
    query = "function f(n: int): long { 1 + sum(select f(x + 1) from x in { n }) }; f(0);"
    done = in_process(["run", "-e", query], tmp_path)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith('error[R203]: "f" calls itself more than 2,000 deep')
