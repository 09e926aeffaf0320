"""State tables: lists of immutable segments; a table is the sum of its segments.

A table has *levels*, segments over all buckets, each much smaller than the level before it.  It
has at most one *base* segment for each bucket.  When a bucket's rows in the levels reach a fraction
of its base, they are merged into it.  So a row is rewritten O(log) times, a lookup is a binary
search in O(log) segments, and only buckets that are merged cost more than the delta.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from incmrql.engine.columns.accumulators import normalize_parts
from incmrql.engine.columns.layouts import values_of
from incmrql.engine.store.content import SortedRows, concat, consolidate, empty, merge
from incmrql.engine.store.segments import OpenSegments, Segment, SegmentRows, bounds
from incmrql.engine.store.sorting import TableSchema
from incmrql.values import Value

RATIO: Final = 4
"""A level or base is merged with newer rows that are more than 1/RATIO of its own."""
LEAST_BASE: Final = 8192
"""A bucket gets a base once its levels have this many rows."""
BUDGET: Final = 8
"""Rows of bases that a batch rewrites for each row of its delta; at least one bucket is merged."""


@dataclass(frozen=True, slots=True)
class StateTable:
    """The segments of a state table, oldest first."""

    name: str
    schema: TableSchema
    buckets: int
    levels: tuple[Segment, ...] = ()
    bases: tuple[Segment, ...] = ()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments."""
        return self.bases + self.levels

    @property
    def rows(self) -> int:
        """Rows in all segments; a key counts once for each segment that holds it."""
        return sum(segment.rows for segment in self.segments)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def with_segments(self, levels: Iterable[Segment], bases: Iterable[Segment]) -> StateTable:
        """The table with newer segments added."""
        return replace(self, levels=(*self.levels, *levels), bases=(*self.bases, *bases))

    def as_json(self) -> dict[str, Any]:
        """The segments as JSON data, for a manifest."""
        return {
            "levels": [segment.as_json() for segment in self.levels],
            "bases": [segment.as_json() for segment in self.bases],
        }

    def of_json(self, data: dict[str, Any]) -> StateTable:
        """The table with the segments that a manifest lists."""
        levels, bases = (tuple(map(Segment.of_json, data[kind])) for kind in ("levels", "bases"))
        return replace(self, levels=levels, bases=bases)

    def only(self, buckets: Iterable[int]) -> StateTable:
        """The part of the table in some buckets."""
        chosen = frozenset(buckets)
        return replace(
            self, levels=_in_buckets(self.levels, chosen), bases=_in_buckets(self.bases, chosen)
        )


@dataclass(slots=True)
class Tally:
    """The number of rows of state that were read; the steps of a search do not count."""

    rows: int = 0


@dataclass(frozen=True, slots=True)
class Reader:
    """The directory of segments, the open files, and a count of the rows that are read."""

    folder: Path
    open_segments: OpenSegments
    tally: Tally = field(default_factory=Tally, compare=False)

    def read(self, table: StateTable, segment: Segment) -> SortedRows:
        """The live rows of a segment."""
        whole = self.whole(table, segment)
        if len(segment.buckets) == table.buckets:
            return whole.content()
        cuts = whole.cuts(bounds(table.buckets))
        parts = [whole.slice(cuts[b], cuts[b + 1]).content() for b in sorted(segment.buckets)]
        return parts[0] if len(parts) == 1 else concat(parts)

    def bucket(self, table: StateTable, segment: Segment, bucket: int) -> SortedRows:
        """The rows of one bucket of a segment."""
        return self.bucket_rows(table, segment, bucket).content()

    def bucket_rows(self, table: StateTable, segment: Segment, bucket: int) -> SegmentRows:
        """The rows of one bucket of a segment, read lazily."""
        whole = self.whole(table, segment)
        cuts = whole.cuts(bounds(table.buckets))
        return whole.slice(cuts[bucket], cuts[bucket + 1])

    def whole(self, table: StateTable, segment: Segment) -> SegmentRows:
        """All rows of a segment, including buckets that are no longer live."""
        return self.open_segments.rows(self.folder, segment, table.schema)


@dataclass(frozen=True, slots=True)
class NewSegment:
    """A segment to write: its rows, the number of rows by bucket, and whether it is a base."""

    content: SortedRows
    counts: dict[int, int]
    base: bool


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The segments that stay, those to write, and the number of old rows that this rewrites."""

    kept: StateTable
    written: tuple[NewSegment, ...]
    rewritten: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What a batch does not merge: more old rows than `inline`, and locked segments."""

    inline: int = 1 << 62
    locked: frozenset[tuple[str, int]] = frozenset()

    def leaves(self, segment: Segment) -> bool:
        """Whether a segment must not be merged now."""
        return segment.rows > self.inline or (segment.file, segment.offset) in self.locked


NO_LIMITS: Final = Limits()


def plan_writes(
    table: StateTable,
    reader: Reader,
    delta: SortedRows,
    turn: int,
    mine: Sequence[int],
    limits: Limits = NO_LIMITS,
) -> WritePlan:
    """The segments to write for a delta, and what they are merged with.

    `mine` are the buckets of this task.  Buckets whose base is due are merged up to a budget.
    """
    # First the newest levels that are not much larger than the delta are merged with it. Then the
    # buckets that are due move from all levels into their bases; `newest` is written without them.
    levels = list(table.levels)
    absorbed = [delta]
    size = len(delta)
    while levels and (rows := levels[-1].rows) < RATIO * size and not limits.leaves(levels[-1]):
        absorbed.insert(0, reader.read(table, levels.pop()))
        size += rows
    newest = merge(absorbed)
    chosen = _due(replace(table, levels=tuple(levels)), newest, turn, mine, len(delta), limits)
    cuts = cuts_of(newest, table.buckets)
    written: list[NewSegment] = []
    rewritten = size - len(delta)
    for bucket in chosen:
        older = [
            reader.bucket(table, segment, bucket)
            for segment in table.bases
            if bucket in segment.buckets
        ]
        older += [
            reader.bucket(table, segment, bucket) for segment in levels if bucket in segment.buckets
        ]
        whole = merge([*older, newest.slice(cuts[bucket], cuts[bucket + 1])])
        rewritten += sum(map(len, older))
        if len(whole):
            written.append(NewSegment(whole, {bucket: len(whole)}, base=True))
    rest = tuple(bucket for bucket in mine if bucket not in chosen)
    remaining = [newest.slice(cuts[b], cuts[b + 1]) for b in rest]
    small = newest if not chosen else concat(remaining) if remaining else empty(table.schema)
    if len(small):
        counts = {bucket: int(cuts[bucket + 1] - cuts[bucket]) for bucket in rest}
        written.append(NewSegment(small, counts, base=False))
    left = frozenset(range(table.buckets)) - chosen
    kept = replace(table, levels=_in_buckets(levels, left), bases=_in_buckets(table.bases, left))
    return WritePlan(kept, tuple(written), rewritten)


def _due(
    table: StateTable,
    newest: SortedRows,
    turn: int,
    mine: Sequence[int],
    change: int,
    limits: Limits,
) -> frozenset[int]:
    """The buckets whose levels are merged into their base in this batch."""
    # Buckets take turns, starting at the batch number: the budget would otherwise always go to the
    # first buckets, and the levels of the last ones would grow for ever.
    old, large = (np.zeros(table.buckets, np.int64) for _ in range(2))
    free = np.ones(table.buckets, np.bool_)
    for segments, counted in ((table.levels, old), (table.bases, large)):
        for segment in segments:
            counted[list(segment.buckets)] += segment.counts
            if (segment.file, segment.offset) in limits.locked:
                free[list(segment.buckets)] = False
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
    """All rows of a bucket, summed over all segments."""
    parts = [
        reader.bucket(table, segment, bucket)
        for segment in table.segments
        if bucket in segment.buckets
    ]
    return consolidate(concat(parts)) if parts else empty(table.schema)


def by_bucket(content: SortedRows, buckets: int) -> Iterator[tuple[int, SortedRows]]:
    """The rows of each bucket that has any."""
    cuts = cuts_of(content, buckets)
    for bucket in range(buckets):
        if cuts[bucket] < cuts[bucket + 1]:
            yield bucket, content.slice(cuts[bucket], cuts[bucket + 1])


def combine_tables(tables: Sequence[StateTable]) -> StateTable:
    """One table from the tables of several tasks, each with different buckets."""
    return replace(
        tables[0],
        levels=_union_segments([segment for table in tables for segment in table.levels]),
        bases=_union_segments([segment for table in tables for segment in table.bases]),
    )


def _union_segments(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    by_location: dict[tuple[str, int], Segment] = {}
    for segment in segments:
        location = segment.file, segment.offset
        by_location[location] = (
            by_location[location].union(segment) if location in by_location else segment
        )
    return tuple(
        by_location[location] for location in sorted(by_location)
    )  # names start with the batch


def _in_buckets(segments: Iterable[Segment], buckets: frozenset[int]) -> tuple[Segment, ...]:
    cut = [segment.only(buckets) for segment in segments]
    return tuple(segment for segment in cut if segment.buckets)


def cuts_of(content: SortedRows, buckets: int) -> Any:
    """The position at which each bucket starts, and the end of the last one."""
    inner = np.searchsorted(content.hashes, bounds(buckets))
    return np.concatenate([[0], inner, [len(content)]]).astype(np.int64)


# --- Differences of tables ---
#
# Tables are sums, so the difference of two tables is the sum of one and the negated other.


def difference(
    one: tuple[StateTable, Reader], other: tuple[StateTable, Reader], bucket: int
) -> SortedRows:
    """The rows of a bucket in which two tables differ, with the differences of their weights."""
    mine, yours = (_without_limit(scan(table, reader, bucket)) for table, reader in (one, other))
    parts = {name: -column for name, column in yours.parts.items()}
    return consolidate(concat([mine, replace(yours, weights=-yours.weights, parts=parts)]))


def _without_limit(content: SortedRows) -> SortedRows:
    """The same rows under a schema that keeps all rows of a key."""
    schema = replace(content.schema, most=None)
    return replace(content, schema=schema, parts=normalize_parts(content.parts), before=None)


def rows_of(content: SortedRows, most: int) -> list[tuple[Value, ...]]:
    """The first rows, as tuples of the values of their columns."""
    first = content.slice(0, most)
    types = (*first.schema.keys, *first.schema.rest)
    columns = [values_of(c, t) for c, t in zip(first.columns, types, strict=True)]
    return list(zip(*columns, strict=True)) if columns else [() for _ in range(len(first))]
