"""Cuts rows into a history of batches: which rows each of them inserts and deletes.

Rows arrive in the order in which they are given, as data do that grow by time; the first batch has
most of them.  Rows to delete are chosen at random among those that are there.  A deleted row may
come back once all others have arrived, so that small data last for all batches.  The same seed
gives the same history.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_FIRST: Final = 2
"""The first batch has at least the rows divided by this."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What a batch does to a table: the positions of the rows that it inserts and deletes."""

    inserted: tuple[int, ...]
    deleted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class History:
    """How a table is cut: batches after the first, changes of each, and deletions among these."""

    batches: int
    share: float
    """Changed rows of a batch as a share of all rows."""
    deletions: float
    """Deletions as a share of the changed rows."""
    seed: int

    def cuts(self, rows: int, table: str = "") -> Iterator[Cut]:
        """The first batch and those after it, for a table of so many rows.

        `table` is its name: tables of one size have different deletions.
        """
        chance = random.Random(f"{self.seed} {table}")
        changes = max(1, round(rows * self.share))
        inserts = [changes - self._deletes(changes, number) for number in range(self.batches)]
        # Deleted rows come back only after the batch that deletes them, so the pool holds one more.
        spare = max(inserts, default=0)
        wanted = min(sum(inserts), sum(inserts) - self._deleted_before_last(changes) + spare)
        first = rows - min(max(0, wanted), rows // _FIRST)
        if self.deletions == 0:  # nothing comes back: spread what there is
            inserts = _spread(rows - first, inserts)
        there, pool = list(range(first)), deque(range(first, rows))
        yield Cut(tuple(there), ())
        for number in range(self.batches):
            deletes = min(self._deletes(changes, number), len(there))
            gone = tuple(_pop_any(there, chance) for _ in range(deletes))
            new = tuple(pool.popleft() for _ in range(min(inserts[number], len(pool))))
            there += new
            pool += gone
            yield Cut(new, gone)

    def _deletes(self, changes: int, number: int) -> int:
        """The deletions of a batch; fractions add up over the batches."""
        share = changes * self.deletions
        return int(share * (number + 1) + 1e-9) - int(share * number + 1e-9)

    def _deleted_before_last(self, changes: int) -> int:
        return sum(self._deletes(changes, number) for number in range(self.batches - 1))


def _spread(rows: int, wanted: list[int]) -> list[int]:
    """The insertions of each batch if there are fewer rows than all of them want."""
    if sum(wanted) <= rows:
        return wanted
    share, more = divmod(rows, len(wanted))
    return [share + (number < more) for number in range(len(wanted))]


def _pop_any(there: list[int], chance: random.Random) -> int:
    """A random element, which is removed."""
    place = chance.randrange(len(there))
    there[place], there[-1] = there[-1], there[place]
    return there.pop()


__all__ = ["Cut", "History"]
