"""The execution context of a batch: state tables as of the last commit, plus the batch's deltas.

Operators never write to a table.  They add deltas to the context, and the end of the batch turns
these into new segments.  This is why a failed batch leaves no trace: dropping the context is the
rollback.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from incmrql.engine.columns.rows import Rows
from incmrql.engine.loops.offload import NO_OFFLOADING, Offloading
from incmrql.engine.store.content import SortedRows, aggregate_rows, empty, merge
from incmrql.engine.store.segments import Segment, SegmentRows
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import Reader, StateTable, cuts_of, scan
from incmrql.plan.program import Program
from incmrql.reference import Environment, new_world


@dataclass(slots=True)
class BatchContext:
    """State tables before the batch and the deltas that operators have added, by table name."""

    tables: Mapping[str, StateTable]
    reader: Reader
    env: Environment
    is_first: bool
    deltas: dict[str, SortedRows] = field(default_factory=dict)
    truncated: set[str] = field(default_factory=set)
    """Tables whose committed rows are ignored; loops start over this way."""
    offloading: Offloading = NO_OFFLOADING
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What operators report about themselves, by the name of one of their tables."""
    part_reads: Counter[int] = field(default_factory=Counter)
    """Rows that were read to compute whole answers, by the index of the operator."""

    def table(self, name: str | None, schema: TableSchema) -> StateTable:
        """A state table as the operators see it; empty if it is not kept."""
        if name is None or name not in self.tables:
            return StateTable(name or "", schema, 1)
        return self.committed_table(name)

    def committed_table(self, name: str) -> StateTable:
        """The committed rows of a table; empty if the batch truncated it."""
        table = self.tables[name]
        return replace(table, levels=(), bases=()) if name in self.truncated else table

    def add(self, name: str | None, content: SortedRows) -> None:
        """Add a delta to a table, if it is kept."""
        if name is not None and name in self.tables and len(content):
            known = self.deltas.get(name)
            self.deltas[name] = content if known is None else merge([known, content])

    def truncate(self, name: str, schema: TableSchema) -> None:
        """Empty a table: its committed rows and the deltas added so far."""
        if name in self.tables:
            self.truncated.add(name)
            self.deltas[name] = empty(schema)


def sorted_rows_of(schema: TableSchema, rows: Rows) -> SortedRows:
    """Rows as sorted rows of a table, consolidated."""
    if not len(rows):
        return empty(schema)
    return aggregate_rows(schema, rows.columns, rows.weights)


def rows_of(content: SortedRows) -> Rows:
    """Sorted rows as plain rows."""
    return Rows(content.columns, content.weights)


def merge_all(schema: TableSchema, parts: Sequence[SortedRows]) -> SortedRows:
    """The sum of several sorted rows."""
    return merge(parts) if parts else empty(schema)


def consolidate_rows(schema: TableSchema, rows: Rows) -> Rows:
    """The rows with equal ones added up, without those of weight 0."""
    return rows_of(sorted_rows_of(schema, rows))


def zeros(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """An array of `count` zeros."""
    return np.zeros(count, np.int64)


# --- Tables that include the deltas of the batch ---


_MEMORY = ""
"""The file name of segments that are only in memory."""


@dataclass(frozen=True, slots=True)
class MemoryReader(Reader):
    """A reader that also has segments in memory."""

    contents: list[SortedRows] = field(default_factory=list)

    def whole(self, table: StateTable, segment: Segment) -> SegmentRows:
        """All rows of a segment."""
        if segment.file == _MEMORY:
            return SegmentRows.of(self.contents[segment.offset])
        return self.open_segments.rows(self.folder, segment, table.schema)


@dataclass(slots=True)
class Overlay(BatchContext):
    """A context whose tables include its deltas; `names` maps its tables to those of `below`."""

    names: Mapping[str, str] = field(default_factory=dict)
    below: BatchContext | None = None
    added: dict[str, StateTable] = field(default_factory=dict)

    def table(self, name: str | None, schema: TableSchema) -> StateTable:
        """A state table with the deltas that were added to it."""
        if name is None or name not in self.names:
            return StateTable(name or "", schema, 1)
        table = self.added.get(name)
        if table is None:
            assert self.below is not None
            table = self.added[name] = self.below.table(self.names[name], schema)
        return table

    def add(self, name: str | None, content: SortedRows) -> None:
        """Add a delta to a table, here and below."""
        if name is None or name not in self.names or not len(content):
            return
        assert isinstance(self.reader, MemoryReader)
        table = self.table(name, content.schema)
        self.reader.contents.append(content)
        counts = np.diff(cuts_of(content, table.buckets))
        index = len(self.reader.contents) - 1
        segment = Segment(_MEMORY, index, 0, 0, tuple(range(table.buckets)), tuple(counts.tolist()))
        self.added[name] = replace(table, levels=(*table.levels, segment))
        assert self.below is not None
        self.below.add(self.names[name], content)


def overlay(below: BatchContext, names: Mapping[str, str]) -> Overlay:
    """An overlay over tables of a context; `names` maps its names to those of `below`."""
    reader = MemoryReader(below.reader.folder, below.reader.open_segments, below.reader.tally)
    return Overlay({}, reader, below.env, below.is_first, names=names, below=below)


# --- Counters of an operator ---


@dataclass(slots=True)
class Counters:
    """The counters of a loop, by name and number; a table stores them as weights."""

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
        """The counters with a name, by number."""
        return {n: count for (other, n), count in self.known.items() if other == name and count}


def counters_in(name: str, schema: TableSchema, context: BatchContext) -> Counters:
    """The counters that a table stores."""
    table = context.table(name, schema)
    known: dict[tuple[str, int], int] = {}
    for bucket in range(table.buckets):
        content = scan(table, context.reader, bucket)
        names, numbers = (column.to_pylist() for column in content.keys.columns)
        for counter, number, weight in zip(names, numbers, content.weights.tolist(), strict=True):
            known[counter, number] = weight
    return Counters(known, {})


def keep_counters(
    counters: Counters, name: str, schema: TableSchema, context: BatchContext
) -> None:
    """Add the changes of counters to the table that stores them."""
    changes = {at: change for at, change in counters.changed.items() if change}
    if changes:
        columns = (
            pa.array([counter for counter, _ in changes], pa.string()),
            pa.array([number for _, number in changes], pa.int64()),
        )
        weights = np.array(list(changes.values()), np.int64)
        context.add(name, sorted_rows_of(schema, Rows(columns, weights)))


def environment(program: Program) -> Environment:
    """The environment in which expressions of a program are evaluated."""
    stored = dict(program.stored)
    return Environment(new_world(program.script, arguments=list(program.arguments), stored=stored))
