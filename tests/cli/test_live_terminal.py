"""`incmrql run` on a real terminal: what is on its screen, and what Ctrl-C does."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.commands import CODE
from tests.cli.screens import screen, widest
from tests.cli.streams import AVERAGE, shop_at

pytestmark = [pytest.mark.spark, pytest.mark.slow]
LONGEST_WAIT = 180.0
WIDTH = 100
WAITING = "waiting for new input; Ctrl-C stops"


class Terminal:
    """A process whose terminal this is."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process, self._master = process, master
        self.written = ""

    def screen(self) -> list[str]:
        return screen(self.written)

    def wait_for(self, *lines: str) -> None:
        """Read what the process writes until these are the last lines of the screen."""
        self._read_until(lambda: self.screen()[-len(lines) :] == [*lines])

    def wait_until_written(self, text: str) -> None:
        """Read what the process writes until it has written a text."""
        self._read_until(lambda: text in self.written)

    def _read_until(self, is_reached: Callable[[], bool]) -> None:
        patience = time.monotonic() + LONGEST_WAIT
        while not is_reached():
            assert time.monotonic() < patience, self.written
            assert self._read(1.0) or self.process.poll() is None, self.written

    def press_ctrl_c(self) -> None:
        os.write(self._master, b"\x03")

    def wait(self) -> int:
        """Read to the end; returns the exit code."""
        patience = time.monotonic() + LONGEST_WAIT
        while self.process.poll() is None or self._read(0.1):
            assert time.monotonic() < patience, self.written
            self._read(0.2)
        return self.process.returncode

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other end is closed
            return False
        self.written += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)


@contextmanager
def on_terminal(folder: Path, *words: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, *words],
        stdin=slave, stdout=slave, stderr=slave, cwd=folder,
        env={**os.environ, "INCMRQL_ENGINE": "spark", "TERM": "xterm"},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)


def test_a_run_is_drawn_and_stops_in_words(tmp_path: Path) -> None:
    shop = shop_at(tmp_path)
    words = ("run", "-e", AVERAGE, "--checkpoint", "ck", "--trigger", "200ms")
    with on_terminal(tmp_path, *words) as terminal:
        terminal.wait_until_written("starting Spark ...")
        table = ["_1    _2    _3", "Oslo   2  15.0", "Rome   1   4.0"]
        terminal.wait_for(*table, WAITING)
        shown = terminal.screen()
        assert any(line.startswith("batch 0: 3 rows added, 0 removed; ") for line in shown)
        shop.sells("2.csv", "東京,6\n")
        terminal.wait_for(*table, "東京   1   6.0", WAITING)
        terminal.press_ctrl_c()
        assert terminal.wait() == 0
    lines = terminal.screen()
    assert any(line.startswith("batch 1: 1 row added, 0 removed; ") for line in lines)
    assert lines[-1] == "stopped after batch 1; run again with the same --checkpoint to continue"
    assert lines[-5:-1] == [*table, "東京   1   6.0"]
    assert widest(lines) <= WIDTH
    assert "Traceback" not in terminal.written


def test_ctrl_c_while_spark_starts_is_no_traceback(tmp_path: Path) -> None:
    shop_at(tmp_path)
    with on_terminal(tmp_path, "run", "-e", AVERAGE, "--checkpoint", "ck") as terminal:
        terminal.wait_until_written("starting Spark ...")
        time.sleep(1.0)
        terminal.press_ctrl_c()
        assert terminal.wait() in (0, 130)
    assert "Traceback" not in terminal.written
    assert "stopped" in terminal.screen()[-1]
