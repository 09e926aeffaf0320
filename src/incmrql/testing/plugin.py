"""Fixtures of pytest: add `pytest_plugins = ["incmrql.testing.plugin"]` to a `conftest.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from incmrql.api.session import Session


@pytest.fixture
def incmrql_session() -> Iterator[Session]:
    """A session on the local engine, which is stopped after the test."""
    from incmrql.api.session import Session  # not before a test asks for it

    with Session(engine="local") as session:
        yield session
