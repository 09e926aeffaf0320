"""What all tests share: how many random examples, and how golden files are rewritten."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No deadline and no watch on speed: the first example pays for imports and caches, and machines
# are noisy.
for name, examples in {"dev": 30, "ci": 200, "nightly": 5_000}.items():
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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the code says now into the golden files",
    )


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
