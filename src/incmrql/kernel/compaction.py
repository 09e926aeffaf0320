"""Merging of large runs beside the batches: what is due, how it is done, how it is swapped in.

Runs only ever add up, so that some of them may be merged at any time.  While a chore is at work
its runs are locked: batches leave them alone, and a later manifest has the merged run in their
place.  A chore whose runs are no longer there is forgotten.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from incmrql.kernel.merging import Gathered, pieces
from incmrql.kernel.runs import Run, write_run
from incmrql.kernel.table import LEAST_BASE, RATIO, Reader, Table

INLINE: Final = 1 << 17
"""Old rows that a batch merges itself at the most, for each table and bucket."""

MERGED: Final = "-merged-"
"""Is in the names of files that chores have written."""

Place = tuple[str, int]
"""Where a run lies: its file and offset."""


@dataclass(frozen=True, slots=True)
class Chore:
    """Runs of a table, and their buckets, that are merged to one: the base of a bucket or not."""

    table: str
    buckets: tuple[int, ...]
    runs: tuple[Run, ...]
    base: bool
    attempt: str = ""
    """Epoch and attempt; it is in the names of all files that are written for this merge."""

    @property
    def rows(self) -> int:
        """How many rows are merged."""
        return sum(run.rows for run in self.runs)

    @property
    def places(self) -> frozenset[Place]:
        """Where its runs lie."""
        return frozenset((run.file, run.offset) for run in self.runs)

    def as_json(self) -> dict[str, Any]:
        """The chore as text can hold it."""
        runs = [run.as_json() for run in self.runs]
        return {
            "table": self.table,
            "buckets": self.buckets,
            "runs": runs,
            "base": self.base,
            "attempt": self.attempt,
        }

    @staticmethod
    def of_json(found: Mapping[str, Any]) -> Chore:
        """The chore that a text holds."""
        runs = tuple(map(Run.of_json, found["runs"]))
        buckets = tuple(found["buckets"])
        return Chore(found["table"], buckets, runs, found["base"], found["attempt"])


def chore_of(tables: Iterable[Table], inline: int = INLINE) -> Chore | None:
    """The largest merge that is due and that batches leave alone, if there is one."""
    found = [chore for table in tables for chore in (_base(table, inline), _levels(table, inline))]
    return max((chore for chore in found if chore is not None), key=lambda c: c.rows, default=None)


def _base(table: Table, inline: int) -> Chore | None:
    """Levels that have grown to a fraction of the base of their bucket."""
    small, large = rows_by_bucket(table)
    due = (small >= np.maximum(LEAST_BASE, large // RATIO)) & (small + large > inline)
    if not due.any():
        return None
    bucket = int(np.argmax(np.where(due, small / np.maximum(large, 1), 0)))
    runs = tuple(run.only((bucket,)) for run in table.runs if bucket in run.buckets)
    return Chore(table.name, (bucket,), runs, base=True)


def _levels(table: Table, inline: int) -> Chore | None:
    """Neighbours among the levels of which the older one is not much larger."""
    for older, newer in zip(table.levels, table.levels[1:], strict=False):
        if older.rows < RATIO * newer.rows and older.rows + newer.rows > inline:
            buckets = tuple(sorted({*older.buckets, *newer.buckets}))
            return Chore(table.name, buckets, (older, newer), base=False)
    return None


def rows_by_bucket(table: Table) -> tuple[Any, Any]:
    """The rows that the levels and the bases have in each bucket."""
    small, large = np.zeros(table.buckets, np.int64), np.zeros(table.buckets, np.int64)
    for run in table.levels:
        small[list(run.buckets)] += run.counts
    for run in table.bases:
        large[list(run.buckets)] += run.counts
    return small, large


def merge_runs(chore: Chore, table: Table, reader: Reader) -> Run | None:
    """Write the run that the runs of a chore come to; None if they come to nothing."""
    whole = Gathered(table.form, reader.folder, chore.rows)
    counts: dict[int, int] = {}
    for bucket in chore.buckets:
        runs = [run for run in chore.runs if bucket in run.buckets]
        mine = [reader.bucket_rows(table, run, bucket) for run in runs]
        before = whole.count
        for piece in pieces(mine) if mine else ():
            whole.add(piece)
        counts[bucket] = whole.count - before
    if not whole.count:
        return None
    newest = max(run.file for run in chore.runs).split("-")[0]
    file = f"{newest}-{chore.attempt}{MERGED}{uuid.uuid4().hex[:8]}.run"
    return write_run(reader.folder, file, whole.table(), counts)


def swapped(table: Table, chore: Chore, merged: Run | None) -> Table | None:
    """A table with a merged run in the place of those it was made of; None if one is gone."""
    there = {(run.file, run.offset): run for run in table.runs}
    for run in chore.runs:
        known = there.get((run.file, run.offset))
        if known is None or not set(run.buckets) <= set(known.buckets):
            return None
    gone = {(run.file, run.offset): frozenset(run.buckets) for run in chore.runs}

    def rest(runs: Iterable[Run]) -> list[Run]:
        cut = [run.only(frozenset(run.buckets) - gone.get((run.file, run.offset), frozenset()))
               for run in runs]  # fmt: skip
        return [run for run in cut if run.buckets]

    levels, bases = rest(table.levels), rest(table.bases)
    if merged is not None and chore.base:
        bases.append(merged)
    elif merged is not None:
        levels = sorted([*levels, merged], key=lambda run: run.file)
    return replace(table, levels=tuple(levels), bases=tuple(bases))
