"""A pytest plugin that records which tests run which lines: `pytest -p tests.mutation.recording`.

`INCMRQL_RECORD` names the directory for the result.  Only tests that pass are recorded; a line
that runs in one of Spark's workers is not seen.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest

_SOURCES = ("engine", "runtime", "spark")


class Recorder:
    """Coverage with the running test as its context, and how long each test took."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        package = Path(__file__).parents[2] / "src" / "incmrql"
        self.coverage = coverage.Coverage(
            data_file=str(directory / "lines"),
            source=[str(package / name) for name in _SOURCES],
            config_file=False,
        )
        self.seconds: dict[str, float] = {}
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        self.coverage.switch_context(item.nodeid)
        result = yield
        self.coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.seconds[report.nodeid] = report.duration

    def pytest_unconfigure(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        path = self.directory / "seconds.json"
        path.write_text(json.dumps(self.seconds), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    directory = Path(os.environ["INCMRQL_RECORD"])
    directory.mkdir(parents=True, exist_ok=True)
    config.pluginmanager.register(Recorder(directory))
