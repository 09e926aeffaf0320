"""The CPU time of a test run by folder of tests: a plugin of pytest.

Time on the clock depends on what else the machine does; CPU time hardly does.  It includes the
processes that tests start: Java, its Python workers, and commands.
"""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
_LEAST = 60.0
"""The CPU seconds of a run that is worth a table."""


def cpu_seconds() -> float:
    """The CPU seconds of this process and of all processes below it, running or ended."""
    own = os.times()
    return own.user + own.system + own.children_user + own.children_system + _running_children()


def _running_children() -> float:
    """The CPU seconds of the processes that run below this one, and of their ended children."""
    seconds: dict[int, float] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for process, fields in _processes():
        seconds[process] = sum(map(int, fields[11:15])) / _TICKS
        children[int(fields[1])].append(process)
    total, pending = 0.0, list(children[os.getpid()])
    while pending:
        process = pending.pop()
        total += seconds[process]
        pending += children[process]
    return total


def _processes() -> Iterator[tuple[int, list[str]]]:
    """All processes with the fields of `/proc/ID/stat` after the name; none outside Linux."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:  # the process has ended
            continue
        yield int(path.parent.name), text.rpartition(")")[2].split()


class Cost:
    """Counts the CPU seconds of each folder, in this process and in those of pytest-xdist."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._last = 0.0

    def _add(self, name: str) -> None:
        now = cpu_seconds()
        self.seconds[name] += max(0.0, now - self._last)
        self._last = now

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Count the imports, and exempt what they leave from the collection of garbage.

        Hypothesis is called back at each collection: with Python's thresholds they take a tenth of
        the time of most properties.
        """
        self._add("imports and collection")
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, Any, Any]:
        result = yield
        if nextitem is None or _name(nextitem) != _name(item):
            self._add(_name(item))
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        gc.unfreeze()  # or extension modules report at exit that objects were not freed
        if hasattr(session.config, "workerinput") or not self._has_workers(session.config):
            self._add("other")
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["cpu_seconds"] = dict(self.seconds)

    @staticmethod
    def _has_workers(config: pytest.Config) -> bool:
        """Whether other processes run the tests."""
        return bool(getattr(config.option, "numprocesses", None))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what a process of pytest-xdist has counted."""
        for name, seconds in getattr(node, "workeroutput", {}).get("cpu_seconds", {}).items():
            self.seconds[name] += seconds

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table; a Java that its process has left behind is in the sum of its folders."""
        if self._has_workers(terminalreporter.config):
            own = os.times()
            self.seconds["other"] += own.user + own.system
        total = sum(self.seconds.values())
        if total < _LEAST:
            return
        terminalreporter.section("CPU seconds by folder")
        for name, seconds in sorted(self.seconds.items(), key=lambda entry: -entry[1])[:24]:
            terminalreporter.write_line(f"{seconds:7.0f}  {name}")
        terminalreporter.write_line(f"{total:7.0f}  in all")


def _name(item: pytest.Item) -> str:
    """The folder of a test, with a mark where a JVM is part of it."""
    folder = "/".join(item.nodeid.partition("::")[0].split("/")[:2])
    return f"{folder} (Spark)" if item.get_closest_marker("spark") else folder
