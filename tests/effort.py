"""How much a test tries."""

from __future__ import annotations

from hypothesis import settings


def _one_in(part: int) -> settings:
    profile = settings.default
    assert profile is not None
    return settings(max_examples=max(10, profile.max_examples // part))


half = _one_in(2)
fewer = _one_in(5)
"""For properties whose examples are dear: a fifth of what the profile asks for."""
fewest = _one_in(20)
"""For properties that are tried on each of many queries: a twentieth."""
