"""Crashes for tests of a user's own queries: a batch that is cut off at one of its steps."""

from __future__ import annotations

from incmrql.storage.files import POINTS, Crashed, crash_at


def crash_points() -> tuple[str, ...]:
    """The steps of a batch at which it can be cut off, in order."""
    return POINTS


__all__ = ["Crashed", "crash_at", "crash_points"]
