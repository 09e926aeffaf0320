"""State tables: a list of immutable runs, looked up and merged by adding.

A table has *levels*, runs over all buckets of which each newer one is much smaller than the one
before, and at most one *base* run for each bucket, to which a bucket's part of the levels is
merged when it has grown to a fraction of the base.  So a row is rewritten O(log) times, a look-up
is a binary search in O(log) runs, and only buckets whose turn it is cost more than the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from incmrql.engine.columns.accumulators import tidy
from incmrql.engine.columns.layouts import values_of
from incmrql.engine.store.content import SortedRows, concat, consolidated, empty, merge
from incmrql.engine.store.segments import Opened, Segment, SegmentRows, bounds
from incmrql.engine.store.sorting import TableSchema
from incmrql.values import Value

RATIO: Final = 4
"""A level is merged with a newer one that has more than 1/RATIO of its rows; so is a base."""
LEAST_BASE: Final = 8192
"""A bucket gets a base when its levels have this many rows."""
BUDGET: Final = 8
"""Rows of bases rewritten in a batch, per row of the change; one bucket's turn is always done."""


@dataclass(frozen=True, slots=True)
class StateTable:
    """The runs that make up a state table, oldest first."""

    name: str
    schema: TableSchema
    buckets: int
    levels: tuple[Segment, ...] = ()
    bases: tuple[Segment, ...] = ()

    @property
    def runs(self) -> tuple[Segment, ...]:
        """All runs."""
        return self.bases + self.levels

    @property
    def rows(self) -> int:
        """Rows in all runs; a key counts once for each run that holds it."""
        return sum(run.rows for run in self.runs)

    @property
    def size(self) -> int:
        """Bytes of all runs."""
        return sum(run.size for run in self.runs)

    def with_runs(self, levels: Iterable[Segment], bases: Iterable[Segment]) -> StateTable:
        """The table with newer runs."""
        return replace(self, levels=(*self.levels, *levels), bases=(*self.bases, *bases))

    def as_json(self) -> dict[str, Any]:
        """The runs for a manifest."""
        return {
            "levels": [run.as_json() for run in self.levels],
            "bases": [run.as_json() for run in self.bases],
        }

    def of_json(self, found: dict[str, Any]) -> StateTable:
        """The table with the runs that a manifest lists."""
        levels, bases = (tuple(map(Segment.of_json, found[kind])) for kind in ("levels", "bases"))
        return replace(self, levels=levels, bases=bases)

    def only(self, buckets: Iterable[int]) -> StateTable:
        """The part of the table in some buckets."""
        wanted = frozenset(buckets)
        return replace(
            self, levels=_restricted(self.levels, wanted), bases=_restricted(self.bases, wanted)
        )


@dataclass(slots=True)
class Tally:
    """How many rows of state were looked at as values; steps of a search do not count."""

    rows: int = 0


@dataclass(frozen=True, slots=True)
class Reader:
    """Where runs lie, the maps that are open, and a count of what is read."""

    folder: Path
    opened: Opened
    tally: Tally = field(default_factory=Tally, compare=False)

    def read(self, table: StateTable, run: Segment) -> SortedRows:
        """The live rows of a run."""
        whole = self.whole(table, run)
        if len(run.buckets) == table.buckets:
            return whole.content()
        cuts = whole.cuts(bounds(table.buckets))
        parts = [whole.slice(cuts[b], cuts[b + 1]).content() for b in sorted(run.buckets)]
        return parts[0] if len(parts) == 1 else concat(parts)

    def bucket(self, table: StateTable, run: Segment, bucket: int) -> SortedRows:
        """The rows of one bucket of a run."""
        return self.bucket_rows(table, run, bucket).content()

    def bucket_rows(self, table: StateTable, run: Segment, bucket: int) -> SegmentRows:
        """The rows of one bucket of a run, read when they are needed."""
        whole = self.whole(table, run)
        cuts = whole.cuts(bounds(table.buckets))
        return whole.slice(cuts[bucket], cuts[bucket + 1])

    def whole(self, table: StateTable, run: Segment) -> SegmentRows:
        """All rows of a run, those of buckets that do not count too."""
        return self.opened.rows(self.folder, run, table.schema)


@dataclass(frozen=True, slots=True)
class Written:
    """A content that is to be written, the rows of its buckets, and whether it is their base."""

    content: SortedRows
    counts: dict[int, int]
    base: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs that stay, what is written, and how many old rows that rewrites."""

    kept: StateTable
    written: tuple[Written, ...]
    rewritten: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What a batch leaves to others: merges of more old rows than `inline`, and locked runs."""

    inline: int = 1 << 62
    locked: frozenset[tuple[str, int]] = frozenset()

    def leaves(self, run: Segment) -> bool:
        """Whether a run is not to be merged now."""
        return run.rows > self.inline or (run.file, run.offset) in self.locked


NO_LIMITS: Final = Limits()


def plan(
    table: StateTable,
    reader: Reader,
    delta: SortedRows,
    turn: int,
    mine: Sequence[int],
    limits: Limits = NO_LIMITS,
) -> Plan:
    """The table after a change: what is merged with what.  `mine` are the buckets at hand.

    Of the buckets whose base is due, as many as the budget allows have their turn now.
    """
    levels = list(table.levels)
    absorbed = [delta]
    size = len(delta)
    while levels and (rows := levels[-1].rows) < RATIO * size and not limits.leaves(levels[-1]):
        absorbed.insert(0, reader.read(table, levels.pop()))
        size += rows
    newest = merge(absorbed)
    chosen = _due(replace(table, levels=tuple(levels)), newest, turn, mine, len(delta), limits)
    cuts = cuts_of(newest, table.buckets)
    written: list[Written] = []
    rewritten = size - len(delta)
    for bucket in chosen:
        older = [reader.bucket(table, run, bucket) for run in table.bases if bucket in run.buckets]
        older += [reader.bucket(table, run, bucket) for run in levels if bucket in run.buckets]
        whole = merge([*older, newest.slice(cuts[bucket], cuts[bucket + 1])])
        rewritten += sum(map(len, older))
        if len(whole):
            written.append(Written(whole, {bucket: len(whole)}, base=True))
    rest = tuple(bucket for bucket in mine if bucket not in chosen)
    remaining = [newest.slice(cuts[b], cuts[b + 1]) for b in rest]
    small = newest if not chosen else concat(remaining) if remaining else empty(table.schema)
    if len(small):
        counts = {bucket: int(cuts[bucket + 1] - cuts[bucket]) for bucket in rest}
        written.append(Written(small, counts, base=False))
    left = frozenset(range(table.buckets)) - chosen
    kept = replace(table, levels=_restricted(levels, left), bases=_restricted(table.bases, left))
    return Plan(kept, tuple(written), rewritten)


def _due(
    table: StateTable,
    newest: SortedRows,
    turn: int,
    mine: Sequence[int],
    change: int,
    limits: Limits,
) -> frozenset[int]:
    """The buckets whose levels are merged into their base now."""
    old, large = (np.zeros(table.buckets, np.int64) for _ in range(2))
    free = np.ones(table.buckets, np.bool_)
    for runs, counted in ((table.levels, old), (table.bases, large)):
        for run in runs:
            counted[list(run.buckets)] += run.counts
            if (run.file, run.offset) in limits.locked:
                free[list(run.buckets)] = False
    small = old + np.diff(cuts_of(newest, table.buckets))
    due = small >= np.maximum(LEAST_BASE, large // RATIO)
    due &= free & (old + large <= limits.inline)
    chosen: set[int] = set()
    spent = 0
    for bucket in sorted(mine, key=lambda b: (b - turn) % table.buckets):
        if not due[bucket]:
            continue
        cost = int(large[bucket] + small[bucket])
        if chosen and spent + cost > BUDGET * change:
            break
        chosen.add(bucket)
        spent += cost
    return frozenset(chosen)


def scan(table: StateTable, reader: Reader, bucket: int) -> SortedRows:
    """All keys of a bucket, each with what all runs add up to."""
    parts = [reader.bucket(table, run, bucket) for run in table.runs if bucket in run.buckets]
    return consolidated(concat(parts)) if parts else empty(table.schema)


def by_bucket(content: SortedRows, buckets: int) -> Iterator[tuple[int, SortedRows]]:
    """A content cut into its buckets, without those that have no rows."""
    cuts = cuts_of(content, buckets)
    for bucket in range(buckets):
        if cuts[bucket] < cuts[bucket + 1]:
            yield bucket, content.slice(cuts[bucket], cuts[bucket + 1])


def combined(tables: Sequence[StateTable]) -> StateTable:
    """One table from the parts that several tasks have of it, each with buckets of its own."""
    return replace(
        tables[0],
        levels=_united([run for table in tables for run in table.levels]),
        bases=_united([run for table in tables for run in table.bases]),
    )


def _united(runs: Iterable[Segment]) -> tuple[Segment, ...]:
    together: dict[tuple[str, int], Segment] = {}
    for run in runs:
        place = run.file, run.offset
        together[place] = together[place].joined(run) if place in together else run
    return tuple(together[place] for place in sorted(together))  # names start with the batch


def _restricted(runs: Iterable[Segment], buckets: frozenset[int]) -> tuple[Segment, ...]:
    cut = [run.only(buckets) for run in runs]
    return tuple(run for run in cut if run.buckets)


def cuts_of(content: SortedRows, buckets: int) -> Any:
    """Where each bucket starts, and where the last one ends."""
    inner = np.searchsorted(content.hashes, bounds(buckets))
    return np.concatenate([[0], inner, [len(content)]]).astype(np.int64)


# --- Differences of tables ---
#
# Tables only add up, so that the difference of two is the sum of one and of the other turned
# round.


def difference(
    one: tuple[StateTable, Reader], other: tuple[StateTable, Reader], bucket: int
) -> SortedRows:
    """The rows of a bucket in which two tables differ, with how much they differ."""
    mine, yours = (_unlimited(scan(table, reader, bucket)) for table, reader in (one, other))
    parts = {name: -column for name, column in yours.parts.items()}
    return consolidated(concat([mine, replace(yours, weights=-yours.weights, parts=parts)]))


def _unlimited(content: SortedRows) -> SortedRows:
    """The same rows in a form that keeps all of them."""
    schema = replace(content.schema, most=None)
    return replace(content, schema=schema, parts=tidy(content.parts), before=None)


def rows_of(content: SortedRows, most: int) -> list[tuple[Value, ...]]:
    """The first rows of a content: the values of their columns."""
    first = content.slice(0, most)
    types = (*first.schema.keys, *first.schema.rest)
    columns = [values_of(c, t) for c, t in zip(first.columns, types, strict=True)]
    return list(zip(*columns, strict=True)) if columns else [() for _ in range(len(first))]
