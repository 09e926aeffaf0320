"""Sources of tests are small, and small files are read in the driver: here they go to workers.

The commands of `tests/cli/test_spark.py`, in processes of their own, read them as users do.
"""

from __future__ import annotations

import pytest

from incmrql.spark.sources import context


@pytest.fixture(autouse=True)
def read_by_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is small."""
    monkeypatch.setattr(context, "_MOST_DRIVER_BYTES", -1)
