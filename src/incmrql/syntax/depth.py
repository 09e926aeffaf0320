"""How deep trees may be, and room on Python's stack for walking them.

The parser refuses deeper trees, so that a function over trees that recurs with a few calls per
level is safe inside `room`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

DEEPEST = 1000
"""An expression tree may be nested this deep."""

_CALLS_PER_LEVEL = 20


@contextmanager
def room(calls: int = DEEPEST * _CALLS_PER_LEVEL) -> Iterator[None]:
    """Let calls nest this far; by default, as far as walking the deepest tree needs."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, calls))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
