"""How much a test tries: the profile of Hypothesis decides (see `tests/conftest.py`).

`make check` and `make test` try a part of what is tried in full by `make test-all`, `make mutants`
and pytest without a profile.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")

_PART: Final = {"check": 0.08, "ci": 0.3}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 1.0)
"""The part of all examples and cases that is tried."""
_LEAST: Final = 3
"""The examples of a property that is tried at all."""


def is_full() -> bool:
    """Whether tests run at full size."""
    return _PART == 1.0


def scale(reduced: T, full: T) -> T:
    """The size of a test that has two."""
    return full if is_full() else reduced


def sample(cases: Iterable[T], part: int) -> list[T]:
    """One case in `part`, evenly spread and with the first; all of them at full size."""
    return list(cases)[:: scale(part, 1)]


def mostly_slow(cases: Iterable[T], part: int) -> list[Any]:
    """All cases, of which `make check` runs one in `part`, evenly spread and with the first."""
    marked: list[Any] = list(cases)
    for number, case in enumerate(marked):
        if number % part:
            values = case if isinstance(case, tuple) else (case,)
            marked[number] = pytest.param(*values, marks=pytest.mark.slow)
    return marked


def examples(full: int) -> settings:
    """Settings for a property that has a number of examples of its own: this many in full."""
    return settings(max_examples=max(_LEAST, round(full * _PART)))


def _one_in(part: int) -> settings:
    profile = settings.default
    assert profile is not None
    return settings(max_examples=max(_LEAST, round(10 * _PART), profile.max_examples // part))


half = _one_in(2)
fewer = _one_in(5)
"""For properties whose examples are dear: a fifth of what the profile asks for."""
fewest = _one_in(20)
"""For properties that are tried on each of many queries: a twentieth."""
