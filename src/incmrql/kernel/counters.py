"""Counters that a step keeps of itself, in a table of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from incmrql.kernel.desk import Desk, content_of
from incmrql.kernel.form import Form
from incmrql.kernel.rows import Rows
from incmrql.kernel.table import scan


@dataclass(slots=True)
class Counters:
    """What is known of a loop itself, by name and number."""

    known: dict[tuple[str, int], int]
    changed: dict[tuple[str, int], int]

    def __getitem__(self, name: str) -> int:
        return self.known.get((name, 0), 0)

    def __setitem__(self, name: str, value: int) -> None:
        self.add(name, 0, value - self[name])

    def add(self, name: str, number: int, more: int) -> None:
        """Add to a counter."""
        at = name, number
        self.known[at] = self.known.get(at, 0) + more
        self.changed[at] = self.changed.get(at, 0) + more

    def numbers(self, name: str) -> dict[int, int]:
        """The counters of a name."""
        return {n: count for (each, n), count in self.known.items() if each == name and count}


def counters_in(name: str, form: Form, desk: Desk) -> Counters:
    """The counters that a table has."""
    table = desk.table(name, form)
    known: dict[tuple[str, int], int] = {}
    for bucket in range(table.buckets):
        content = scan(table, desk.reader, bucket)
        names, numbers = (column.to_pylist() for column in content.keys.columns)
        for each, number, weight in zip(names, numbers, content.weights.tolist(), strict=True):
            known[each, number] = weight
    return Counters(known, {})


def keep_counters(counters: Counters, name: str, form: Form, desk: Desk) -> None:
    """Put what has changed of them into a table."""
    some = {at: count for at, count in counters.changed.items() if count}
    if some:
        columns = (
            pa.array([each for each, _ in some], pa.string()),
            pa.array([number for _, number in some], pa.int64()),
        )
        weights = np.array(list(some.values()), np.int64)
        desk.change(name, content_of(form, Rows(columns, weights)))
