"""What all tests share: how many random examples, in which process, and the golden files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.cost import Cost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# `make check` runs in the profile `check`, `make test` in `ci`, and `make test-all` in `full`;
# `tests/effort.py` says what else a profile decides. No deadline and no watch on speed: the first
# example pays for imports and caches, and machines are noisy.
EXAMPLES = {"check": 8, "dev": 30, "ci": 30, "full": 100, "nightly": 5_000}
for name, examples in EXAMPLES.items():
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        derandomize=name
        in ("check", "ci", "full"),  # a gate gives one answer; others go on looking
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

# Tests that are not about Spark run commands without it, here and in processes they start.
os.environ.setdefault("INCMRQL_ENGINE", "reference")
# The key that marks checkpoints as one's own is one of the test run, here and in its processes.
_STATE = tempfile.TemporaryDirectory(prefix="incmrql-tests-")
os.environ["XDG_STATE_HOME"] = _STATE.name
# Every Java here is short-lived and small: its second compiler would take half its time, and a
# collector of garbage with threads of its own more than the simple one.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_configure(config: pytest.Config) -> None:
    """Check terms after every phase of every compile, also of those while tests are collected."""
    from tests.algebra.check import install

    install()
    config.pluginmanager.register(Cost())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the code says now into the golden files",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say what stays together where tests run side by side (`--dist loadgroup`), longest first.

    The tests on Spark share one Java, those of streams another, and others what their file has
    prepared; parts of a slow test go anywhere.
    """
    if not config.pluginmanager.has_plugin("xdist"):
        return
    shared = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    for item in items:
        if item.get_closest_marker("spark") and item.path in shared:
            java = "streams" if item.path.parent.name in ("runtime", "benchmarks") else "spark"
            item.add_marker(pytest.mark.xdist_group(java))
        elif not (item.get_closest_marker("slow") and hasattr(item, "callspec")):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _rank(item, shared))


def _rank(item: pytest.Item, shared: set[Path]) -> int:
    """The rank of a test in a run side by side, where what takes long must not come last."""
    if item.get_closest_marker("spark"):
        return 0 if item.path in shared else 1
    return 2 if item.get_closest_marker("slow") else 3


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
