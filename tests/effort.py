"""How much a test tries."""

from __future__ import annotations

from hypothesis import settings

fewer = settings(max_examples=max(10, settings.default.max_examples // 5))
"""For properties whose examples are dear: a fifth of what the profile asks for."""
