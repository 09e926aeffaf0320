"""The command line as a function: arguments in, exit code and both outputs out."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from incmrql.cli.main import status

LONGEST_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command leaves behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The data.  Only a line feed ends a line: strings are printed with U+2028 as it is."""
        return self.out.split("\n")[:-1]

    @property
    def answer(self) -> str:
        """The only line of data of a command that went well."""
        assert (self.code, self.err) == (0, "")
        (line,) = self.lines
        return line


def incmrql(*arguments: str | Path) -> Outcome:
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = status([str(argument) for argument in arguments])
    return Outcome(code, out.getvalue(), err.getvalue())


def run_query(query: str, *options: str) -> Outcome:
    return incmrql("run", "-e", query, *options)


CODE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from incmrql.cli import main; main()"
)
"""A command that can be interrupted, even where it is started by one that cannot."""


def start(arguments: Sequence[str | Path], folder: Path) -> subprocess.Popen[str]:
    """A command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        text=True,
    )


def in_process(arguments: Sequence[str | Path], folder: Path) -> Outcome:
    with start(arguments, folder) as process:
        out, err = process.communicate(timeout=LONGEST_WAIT)
    return Outcome(process.returncode, out, err)
