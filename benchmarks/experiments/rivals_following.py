"""What an engine has published so far, held against what is expected.

Changes come as text, a row and its weight at a time.  Doubles are compared by their first seven
digits: engines round sums as they like.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

DIGITS = 7


def comparable_row(cells: Iterable[str], kinds: str) -> tuple[str, ...]:
    """A row in the form in which rows are compared."""
    return tuple(
        f"{float(cell):.{DIGITS}g}" if kind == "d" and cell not in ("null", "None") else cell
        for cell, kind in zip(cells, kinds, strict=True)
    )


def rows_of(table: pa.Table, kinds: str) -> Iterator[tuple[str, ...]]:
    """The rows of an answer as they are compared."""
    columns = [column.to_pylist() for column in table.columns]
    for row in zip(*columns, strict=True):
        yield comparable_row(map(str, row), kinds)


@dataclass(slots=True)
class Follower:
    """Rows with their weights: those that are there, and by how much each is off."""

    kinds: str
    there: Counter[tuple[str, ...]] = field(default_factory=Counter)
    off: dict[tuple[str, ...], int] = field(default_factory=dict)
    last: float = 0.0
    """When the last change came."""
    wanted: threading.Condition = field(default_factory=threading.Condition)

    def expect(self, table: pa.Table) -> None:
        """What should be there from now on."""
        with self.wanted:
            off = Counter(self.there)
            off.subtract(rows_of(table, self.kinds))
            self.off = {row: count for row, count in off.items() if count}
            self.last = time.perf_counter()

    def change(self, cells: Iterable[str], weight: int) -> None:
        """A row comes or goes."""
        row = comparable_row(cells, self.kinds)
        with self.wanted:
            for counts in (self.there, self.off):
                left = counts.get(row, 0) + weight
                if left:
                    counts[row] = left
                else:
                    counts.pop(row, None)
            self.last = time.perf_counter()
            if not self.off:
                self.wanted.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until all is as expected, at most for some time; whether it is."""
        with self.wanted:
            return self.wanted.wait_for(lambda: not self.off, seconds)
