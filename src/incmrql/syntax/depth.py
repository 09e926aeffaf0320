"""The maximum depth of trees, and the recursion limit that functions over them need.

The parser refuses deeper trees, so that a function over trees that recurs with a few calls per
level is safe inside `deep_recursion`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

DEEPEST = 1000
"""An expression tree may be nested this deep."""

_CALLS_PER_LEVEL = 20


@contextmanager
def deep_recursion(calls: int = DEEPEST * _CALLS_PER_LEVEL) -> Iterator[None]:
    """Raise the recursion limit to `calls`; the default suffices for the deepest tree."""
    saved = sys.getrecursionlimit()
    sys.setrecursionlimit(max(saved, calls))
    try:
        yield
    finally:
        sys.setrecursionlimit(saved)
