"""What all tests share: how many random examples, in which process, and the golden files."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter
    from pyspark.sql import SparkSession


# No deadline and no watch on speed: the first example pays for imports and caches, and machines
# are noisy.
for name, examples in {"dev": 30, "ci": 100, "nightly": 5_000}.items():
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        derandomize=name == "ci",  # a gate gives one answer; `dev` and `nightly` go on looking
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

# Tests that are not about Spark run commands without it, here and in processes they start.
os.environ.setdefault("INCMRQL_ENGINE", "reference")
# The key that marks checkpoints as one's own is one of the test run, here and in its processes.
_STATE = tempfile.TemporaryDirectory(prefix="incmrql-tests-")
os.environ["XDG_STATE_HOME"] = _STATE.name
# Every Java here is short-lived: with its second compiler it would spend half its time on that.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")


def pytest_configure() -> None:
    """Check terms after every phase of every compile, also of those while tests are collected."""
    from tests.algebra.check import install

    install()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the code says now into the golden files",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say what stays together where tests run side by side (`--dist loadgroup`).

    The tests on Spark share one Java, those of streams another, and others what their file has
    prepared; parts of a slow test go anywhere.
    """
    for item in items if config.pluginmanager.has_plugin("xdist") else ():
        if item.get_closest_marker("spark"):
            java = "streams" if item.path.parent.name in ("runtime", "benchmarks") else "spark"
            item.add_marker(pytest.mark.xdist_group(java))
        elif not (item.get_closest_marker("slow") and hasattr(item, "callspec")):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print where the time went: seconds of each folder of tests, with and without Spark."""
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = "/".join(report.nodeid.partition("::")[0].split("/")[:2])
                seconds[folder, "spark" if "spark" in report.keywords else "-"] += report.duration
    if sum(seconds.values()) > 60:
        terminalreporter.section("seconds by folder")
        for (folder, java), total in sorted(seconds.items(), key=lambda entry: -entry[1])[:20]:
            terminalreporter.write_line(f"{total:7.0f}  {java:5}  {folder}")


@pytest.fixture(scope="session", autouse=True)
def no_power_failure() -> Iterator[None]:
    """Files need not outlive one here: `os.fsync` refuses what is not open, and does not wait.

    Processes that tests start, to be killed or not, do wait.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark of a test run, small."""
    from incmrql.spark.session import private, start

    context = start("local[2]", {"spark.sql.shuffle.partitions": "2"})
    yield private(context)
    context.stop()
