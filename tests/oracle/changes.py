"""Weighted rows by key, and with some of their columns only."""

from __future__ import annotations

from collections.abc import Collection

from incmrql.plan.changes import Weighted
from incmrql.values import Record, Value, encode


def by_key(pairs: Weighted) -> dict[bytes, tuple[Value, Weighted]]:
    """Pairs (key, value) as the weighted values of each key."""
    groups: dict[bytes, tuple[Value, Weighted]] = {}
    for (key, value), weight in pairs:
        groups.setdefault(encode(key), (key, Weighted()))[1].add(value, weight)
    return groups


def narrow_rows(rows: Weighted, columns: Collection[int | str] | None) -> Weighted:
    """Rows with these components or fields only; None is the whole row."""
    if columns is None:
        return rows
    return Weighted((_narrow(row, columns), weight) for row, weight in rows)


def _narrow(row: Value, columns: Collection[int | str]) -> Value:
    """A tuple keeps its length, so that components keep their places."""
    match row:
        case Record():
            names = [name for name in row.names_ if name in columns]
            return Record.of(tuple(names), [row[name] for name in names])
        case tuple():
            return tuple([part if place in columns else None for place, part in enumerate(row)])
        case _:
            return row
