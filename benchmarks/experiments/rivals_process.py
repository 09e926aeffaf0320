"""A rival in a process of its own, with an environment of its own under `.rivals`.

The process is told what to run as JSON lines, and answers on its standard output:

    {"ready": "a query"}      the query runs
    {"refused": "why"}        it does not, in the words of the engine
    + 1|2.5    - 1|2.0        a row of the answer comes or goes
    {"failed": "why"}         the query has ended

Files appear in folders that the engine watches.  It is up to date when the rows that it has
published are those of the answer.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.experiments.rivals_files import Form
from benchmarks.experiments.rivals_following import Follower
from benchmarks.experiments.rivals_sides import Answer, Late, Refused, Side, Skipped, Table

ENVIRONMENTS: Final = Path(__file__).parents[2] / ".rivals"
SCRIPTS: Final = Path(__file__).with_name("rival_scripts")
START: Final = 120.0
"""Seconds that a process may take until it runs a query."""
QUIET: Final = 5.0
"""Seconds without a change after which an answer that is not right is wrong; half of its patience
for the history."""


class Process:
    """A rival's process, and a thread that follows what it says."""

    def __init__(self, name: str, script: str) -> None:
        python = ENVIRONMENTS / name / "bin" / "python"
        if not python.exists():
            raise Skipped("not installed: make rivals")
        self.said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.follower, self.query = Follower(""), ""
        self.log = (ENVIRONMENTS / name / "last.log").open("w")
        self.process = subprocess.Popen(
            [python, SCRIPTS / script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def _follow(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.said.put(json.loads(line))
            elif change := change_of(line, self.query):
                self.follower.change(*change)
        self.said.put({"ended": True})

    def ask(self, message: dict[str, Any], follower: Follower) -> None:
        """Let it run a query; raises `Refused` with what it says if it does not."""
        assert self.process.stdin is not None
        self.follower, self.query = follower, message["query"]
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
            said = self.said.get(timeout=START)
        except queue.Empty:
            raise Late(f"not started after {START:.0f} s") from None
        except OSError as error:
            raise Late("its process has ended") from error
        if "refused" in said:
            raise Refused(str(said["refused"]))
        if "ended" in said:
            raise Late("its process has ended")

    def reason_of_end(self) -> str:
        """Why the process ended, or an empty text while it runs."""
        with suppress(queue.Empty):
            said = self.said.get_nowait()
            return str(said.get("failed", "its process has ended"))
        return ""

    def close(self) -> None:
        """End the process and all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.thread.join()
        for stream in (self.process.stdin, self.process.stdout, self.log):
            assert stream is not None
            with suppress(OSError):
                stream.close()


def change_of(line: str, query: str) -> tuple[list[str], int] | None:
    """The cells and the weight of a change of a query's answer.

    Flink prints it as `query:1> +U[1, 2.0]` or `query> …`, and may still do so for the one before.
    """
    if line.startswith(("+ ", "- ")):
        return line[2:].rstrip("\n").split("|"), 1 if line[0] == "+" else -1
    before, bracket, rest = line.partition("[")
    is_change = before.startswith((f"{query}:", f"{query}>")) and before[-2:] in (
        "+I",
        "+U",
        "-U",
        "-D",
    )
    if bracket and is_change:
        return rest.rstrip("\n").removesuffix("]").split(", "), 1 if before[-2] == "+" else -1
    return None


class Watched:
    """A query that runs in a process and watches its folders."""

    def __init__(self, table: Table, name: str, process: Process, form: Form) -> None:
        self.table, self.name, self.process, self.form = table, name, process, form
        self.follower = Follower(table.query.kinds)

    def ask(self, message: dict[str, Any]) -> None:
        """Start the query over its folders, which are empty."""
        self.process.ask(message, self.follower)

    def take(self, number: int, expected: Answer) -> float:
        """From the files to the last row that was missing."""
        self.follower.expect(expected)
        if number and not self.follower.off:
            raise Late("a batch that does not change the answer cannot be followed")
        patience = self.table.patience_for(number)
        quiet = QUIET if number else patience / 2
        self.table.files.reveal(number, self.name, self.form)
        begun = time.perf_counter()
        while not self.follower.wait(0.2):
            now = time.perf_counter()
            if said := self.process.reason_of_end():
                raise Late(said)
            if now - begun > patience:
                raise Late(f"given up after {patience:.0f} s, {len(self.follower.off):,} rows off")
            if now - self.follower.last > quiet and self.follower.last > begun:
                raise Late(f"wrong: at rest with {len(self.follower.off):,} rows off")
        return self.follower.last - begun

    def answer(self) -> None:
        """It has been compared each time."""

    def close(self) -> None:
        """Processes are ended by those who started them."""


def start_side(side: Watched, **more: Any) -> Side:
    """Send a side's process its query."""
    query, folder = side.table.query, side.table.files.open(side.name)
    tables = {table.name: table.columns for table in query.workload.tables}
    side.ask({"query": query.name, "folder": str(folder), "tables": tables, **more})
    return side
