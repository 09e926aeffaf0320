"""Entries of maps, of which no two may have the same key; null as a result is a failure."""

from __future__ import annotations

from collections.abc import Sequence

from incmrql.values import Record, Value, encode

_NAMES = ("key", "value")


def entries(pairs: Sequence[Record]) -> list[Record] | None:
    """The entries of a map; null if a key is null or there twice."""
    keys = {encode(pair["key"]) for pair in pairs}
    return None if len(keys) < len(pairs) or _has_null_key(pairs) else list(pairs)


def last_entries(pairs: Sequence[Record]) -> list[Record] | None:
    """The entries of a map, in which the last value of a key stands at the place of its first."""
    by_key = {encode(pair["key"]): pair for pair in pairs}
    return None if _has_null_key(pairs) else list(by_key.values())


def _has_null_key(pairs: Sequence[Record]) -> bool:
    return any(pair["key"] is None for pair in pairs)


def pair_up(keys: Sequence[Value], values: Sequence[Value]) -> list[Record] | None:
    """The pairs of two arrays; null if one of them is longer."""
    if len(keys) != len(values):
        return None
    return [Record.of(_NAMES, pair) for pair in zip(keys, values, strict=True)]


def split(text: str, between_pairs: str, after_key: str) -> list[Record]:
    """The keys and values in a text; a key without a delimiter after it has no value."""
    parts = [part.split(after_key, 1) for part in text.split(between_pairs)]
    return [Record.of(_NAMES, (part[0], part[1] if len(part) > 1 else None)) for part in parts]
