"""Functions of strings as Spark defines them; positions count code points, from 1."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_LARGEST_INT: Final = 2**31 - 1
_MOST_PATTERNS: Final = 1_024


def like(text: str, pattern: str, escape: str) -> bool | None:
    """Whether a pattern matches a whole text; null if an escape has nothing to escape."""
    compiled = like_pattern(pattern, escape)
    return None if compiled is None else compiled.fullmatch(text) is not None


@lru_cache(_MOST_PATTERNS)
def like_pattern(pattern: str, escape: str) -> re.Pattern[str] | None:
    """`_` is any character, `%` any text; None if the pattern is not valid."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("_", "%", escape):
                return None
            parts.append(re.escape(escaped))
        else:
            parts.append({"_": ".", "%": ".*"}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


def substring(text: str, position: int, length: int) -> str:
    """So many characters from a position, which counts from the end if it is negative."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    stop = min(start + length, _LARGEST_INT)
    return text[max(start, 0) : max(stop, 0)] if stop > start else ""


def trim(text: str, characters: str) -> str:
    """The text without any of these characters at both ends."""
    return text.strip(characters) if characters else text


def trim_left(text: str, characters: str) -> str:
    """The text without any of these characters at its start."""
    return text.lstrip(characters) if characters else text


def trim_right(text: str, characters: str) -> str:
    """The text without any of these characters at its end."""
    return text.rstrip(characters) if characters else text
