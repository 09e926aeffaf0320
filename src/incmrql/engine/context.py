"""The state that operators work with: tables before a batch, and what the batch adds to them."""

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
    """The state before a batch and its changes, by the names of tables."""

    tables: Mapping[str, StateTable]
    reader: Reader
    env: Environment
    is_first: bool
    deltas: dict[str, SortedRows] = field(default_factory=dict)
    truncated: set[str] = field(default_factory=set)
    """The tables of which nothing is kept but the changes."""
    offloading: Offloading = NO_OFFLOADING
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What steps say of themselves, by the name of a table of theirs."""
    part_reads: Counter[int] = field(default_factory=Counter)
    """Rows read of whole parts of answers, by the places of the steps that make them."""

    def table(self, name: str | None, schema: TableSchema) -> StateTable:
        """A state table; one that is not kept is empty."""
        if name is None or name not in self.tables:
            return StateTable(name or "", schema, 1)
        return self.committed(name)

    def committed(self, name: str) -> StateTable:
        """What is kept of a table beside its changes."""
        found = self.tables[name]
        return replace(found, levels=(), bases=()) if name in self.truncated else found

    def add(self, name: str | None, content: SortedRows) -> None:
        """Add to a table, if it is kept."""
        if name is not None and name in self.tables and len(content):
            known = self.deltas.get(name)
            self.deltas[name] = content if known is None else merge([known, content])

    def truncate(self, name: str, schema: TableSchema) -> None:
        """Forget all that a table has, its changes too."""
        if name in self.tables:
            self.truncated.add(name)
            self.deltas[name] = empty(schema)


def sorted_rows_of(schema: TableSchema, rows: Rows) -> SortedRows:
    """Rows as a content of a table."""
    if not len(rows):
        return empty(schema)
    return aggregate_rows(schema, rows.columns, rows.weights)


def rows_of(content: SortedRows) -> Rows:
    """The rows of a content."""
    return Rows(content.columns, content.weights)


def merge_all(schema: TableSchema, parts: Sequence[SortedRows]) -> SortedRows:
    """One content from several."""
    return merge(parts) if parts else empty(schema)


def consolidate_rows(schema: TableSchema, rows: Rows) -> Rows:
    """Equal rows added up, and those of weight 0 left out."""
    return rows_of(sorted_rows_of(schema, rows))


def zeros(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """So many zeros."""
    return np.zeros(count, np.int64)


# --- Tables with what the batch has added ---


_MEMORY = ""
"""The file name of contents that are in no file."""


@dataclass(frozen=True, slots=True)
class MemoryReader(Reader):
    """A reader that also knows contents in memory."""

    contents: list[SortedRows] = field(default_factory=list)

    def whole(self, table: StateTable, segment: Segment) -> SegmentRows:
        """All rows of a run."""
        if segment.file == _MEMORY:
            return SegmentRows.of(self.contents[segment.offset])
        return self.open_segments.rows(self.folder, segment, table.schema)


@dataclass(slots=True)
class Overlay(BatchContext):
    """A context whose tables grow with their changes; `names` are those of the tables below."""

    names: Mapping[str, str] = field(default_factory=dict)
    below: BatchContext | None = None
    added: dict[str, StateTable] = field(default_factory=dict)

    def table(self, name: str | None, schema: TableSchema) -> StateTable:
        """A state table with all that was added to it."""
        if name is None or name not in self.names:
            return StateTable(name or "", schema, 1)
        found = self.added.get(name)
        if found is None:
            assert self.below is not None
            found = self.added[name] = self.below.table(self.names[name], schema)
        return found

    def add(self, name: str | None, content: SortedRows) -> None:
        """Add to a table, here and below."""
        if name is None or name not in self.names or not len(content):
            return
        assert isinstance(self.reader, MemoryReader)
        table = self.table(name, content.schema)
        self.reader.contents.append(content)
        counts = np.diff(cuts_of(content, table.buckets))
        place = len(self.reader.contents) - 1
        segment = Segment(_MEMORY, place, 0, 0, tuple(range(table.buckets)), tuple(counts.tolist()))
        self.added[name] = replace(table, levels=(*table.levels, segment))
        assert self.below is not None
        self.below.add(self.names[name], content)


def overlay(below: BatchContext, names: Mapping[str, str]) -> Overlay:
    """A context over some tables of another one."""
    reader = MemoryReader(below.reader.folder, below.reader.open_segments, below.reader.tally)
    return Overlay({}, reader, below.env, below.is_first, names=names, below=below)


# --- Counters of an operator ---


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


def counters_in(name: str, schema: TableSchema, context: BatchContext) -> Counters:
    """The counters that a table has."""
    table = context.table(name, schema)
    known: dict[tuple[str, int], int] = {}
    for bucket in range(table.buckets):
        content = scan(table, context.reader, bucket)
        names, numbers = (column.to_pylist() for column in content.keys.columns)
        for each, number, weight in zip(names, numbers, content.weights.tolist(), strict=True):
            known[each, number] = weight
    return Counters(known, {})


def keep_counters(
    counters: Counters, name: str, schema: TableSchema, context: BatchContext
) -> None:
    """Put what has changed of them into a table."""
    some = {at: count for at, count in counters.changed.items() if count}
    if some:
        columns = (
            pa.array([each for each, _ in some], pa.string()),
            pa.array([number for _, number in some], pa.int64()),
        )
        weights = np.array(list(some.values()), np.int64)
        context.add(name, sorted_rows_of(schema, Rows(columns, weights)))


def environment(program: Program) -> Environment:
    """Where the expressions of a program are evaluated."""
    stored = dict(program.stored)
    return Environment(new_world(program.script, arguments=list(program.arguments), stored=stored))
