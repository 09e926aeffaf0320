"""How much a test tries."""

from __future__ import annotations

from hypothesis import settings


def _fewer() -> settings:
    profile = settings.default
    assert profile is not None
    return settings(max_examples=max(10, profile.max_examples // 5))


fewer = _fewer()
"""For properties whose examples are dear: a fifth of what the profile asks for."""
