"""What is known of the rows of sources, to refuse a batch before anything is done with it.

a stream that only grows     has no deletions
a stream with a ledger       deletes what is there, and as often as it is
a source with a key          has no two rows of the same key at the end of a batch
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from incmrql.errors import DataError
from incmrql.plan.changes import Weighted
from incmrql.plan.nodes import Input, Plan
from incmrql.reference.sources import missing_rows_error
from incmrql.values import Record, Value, encode, show


@dataclass(slots=True)
class Ledgers:
    """The rows of streams that can delete; of those with a key, by that key."""

    plan: Plan
    rows: dict[int, Weighted] = field(default_factory=dict)
    keys: dict[int, dict[bytes, Weighted]] = field(default_factory=dict)

    def check(self, given: Mapping[int, Weighted]) -> None:
        """Raise if changes of inputs cannot be; nothing is remembered."""
        for place, change in given.items():
            node = self._input(place)
            deleted = [(row, -weight) for row, weight in change if weight < 0]
            if node.insert_only and deleted:
                message = f"rows are deleted from a stream that only grows: {show(deleted[0][0])}"
                raise DataError("R205", message, place=node.name)
            if node.ledger:
                missing = [row for row, times in deleted if self._weight(place, row) < times]
                if missing:
                    raise missing_rows_error(missing, node.name)
            check_key(node, self._by_key(place, change).values())

    def commit(self, given: Mapping[int, Weighted]) -> None:
        """Remember changes of streams."""
        for place, change in given.items():
            node = self._input(place)
            if node.ledger and not node.unique:
                self.rows.setdefault(place, Weighted()).merge(change)
            if node.unique:
                touched = self._by_key(place, change)
                known = self.keys.setdefault(place, {})
                known.update(touched)
                for key in [key for key, rows in touched.items() if not rows]:
                    del known[key]

    def _weight(self, place: int, row: Value) -> int:
        """How often a row is there."""
        node = self._input(place)
        if not node.unique:
            return self.rows.get(place, Weighted()).weight(encode(row))
        known = self.keys.get(place, {}).get(encode(_key(node, row)), Weighted())
        return known.weight(encode(row))

    def _by_key(self, place: int, change: Weighted) -> dict[bytes, Weighted]:
        """The rows that the touched keys have after a change."""
        groups = rows_by_key(self._input(place), change)
        for key, rows in groups.items():
            known = self.keys.get(place, {}).get(key)
            if known is not None:
                rows.merge(known)
        return groups

    def _input(self, place: int) -> Input:
        node = self.plan.nodes[place]
        assert isinstance(node, Input)
        return node

    def value(self, place: int) -> tuple[Weighted, ...]:
        """What is remembered of an input."""
        keys = Weighted(pair for rows in self.keys.get(place, {}).values() for pair in rows)
        return (self.rows.get(place, Weighted()), keys)


def rows_by_key(node: Input, rows: Weighted) -> dict[bytes, Weighted]:
    """Rows by the declared key; without one there are none."""
    groups: dict[bytes, Weighted] = {}
    if node.unique:
        for row, weight in rows:
            groups.setdefault(encode(_key(node, row)), Weighted()).add(row, weight)
    return groups


def _key(node: Input, row: Record) -> Value:
    values = tuple([row[name] for name in node.unique])
    return values[0] if len(values) == 1 else values


def check_key(node: Input, groups: Iterable[Weighted]) -> None:
    """Raise if rows with one key are more than one."""
    for rows in groups:
        if rows.total > 1:
            first = next(iter(rows))[0]
            shown = ", ".join([show(row, 10) for row, weight in rows for _ in range(weight)][:3])
            key = f"{', '.join(node.unique)}: {show(_key(node, first))}"
            raise DataError(
                "R304",
                f"{rows.total} rows have the same key, {key}: {shown}",
                place=node.name,
                hint="Delete the old row in the batch that brings the new one, or declare no key.",
            )
