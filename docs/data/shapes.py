"""Python functions and a parser that examples of language.md use."""

from __future__ import annotations

import math
from collections.abc import Iterator


def distance(x: float, y: float) -> float:
    """How far a point is from the origin."""
    return math.hypot(x, y)


def words(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


def picky(x: int) -> int:
    """A function that fails for negative numbers."""
    if x < 0:
        raise ValueError("negative")
    return x


def untyped(x):  # type: ignore[no-untyped-def]
    """A function that cannot be imported: nothing says what it takes."""
    return x


class KeyValue:
    """A parser of `key=value` lines."""

    type = "< key: string, value: long >"

    def parse(self, text: str) -> Iterator[dict[str, object]]:
        """A row for each line."""
        for line in text.splitlines():
            key, _, value = line.partition("=")
            yield {"key": key, "value": int(value)}
