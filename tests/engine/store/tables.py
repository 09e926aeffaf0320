"""State tables of any form beside a model: a dictionary from canonical bytes to weights."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from incmrql.engine.columns.keys import Keys
from incmrql.engine.store.content import SortedRows, aggregate_rows, distinct_keys
from incmrql.engine.store.segments import write_segments
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import Reader, StateTable, plan_writes, scan
from incmrql.io.arrow.columns import column_values
from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import to_arrow
from incmrql.types.model import DOUBLE, Type
from incmrql.values import encode
from incmrql.values.hashing.columns import Hashes

BUCKETS = 3
Row: TypeAlias = tuple[Any, ...]
Bytes: TypeAlias = tuple[bytes, ...]
"""A row or the key of one: the canonical bytes of its columns."""


class Falling(bytes):
    """Bytes in the reverse order."""

    def __lt__(self, other: bytes) -> bool:
        return bytes.__gt__(self, other)


def weak(keys: Keys) -> Hashes:
    """A hash that maps all keys to three values."""
    return (keys.key_bytes().hashes() % np.uint64(3)) << np.uint64(62)


def arrow(rows: Sequence[Row], types: Sequence[Type]) -> list[Any]:
    """Rows as columns; doubles as they are, so that there are two zeros."""
    return [
        pa.array(
            [row[i] if type_ == DOUBLE else to_arrow(row[i], type_) for row in rows],
            arrow_type(type_),
        )
        for i, type_ in enumerate(types)
    ]


def change(schema: TableSchema, rows: Sequence[tuple[Row, int]]) -> SortedRows:
    """Rows with weights as a content."""
    columns = arrow([row for row, _ in rows], (*schema.keys, *schema.rest))
    return aggregate_rows(schema, columns, np.array([weight for _, weight in rows], np.int64))


def as_bytes(row: Row) -> Bytes:
    return tuple(encode(value) for value in row)


def in_bytes(columns: Iterable[Any], types: Iterable[Type], count: int) -> list[Bytes]:
    """The canonical bytes of the values of columns, row by row."""
    encoded = [
        [encode(value) for value in column_values(column, type_)]
        for column, type_ in zip(columns, types, strict=True)
    ]
    return [tuple(column[i] for column in encoded) for i in range(count)]


def rows_of_content(content: SortedRows) -> list[tuple[Bytes, int]]:
    """The rows of a content with their weights."""
    schema = content.schema
    rows = in_bytes(content.columns, (*schema.keys, *schema.rest), len(content))
    return list(zip(rows, content.weights.tolist(), strict=True))


@dataclass
class Model:
    """The weights of rows, and what a table of a form makes of them."""

    schema: TableSchema
    weights: dict[Bytes, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, rows: Iterable[tuple[Row, int]]) -> None:
        for row, weight in rows:
            self.weights[as_bytes(row)] += weight

    def of_key(self, key: Bytes) -> list[tuple[Bytes, int]]:
        """The rows of a key in order."""
        width = len(self.schema.keys)
        falls = self.schema.descending or [False] * len(self.schema.rest)

        def rank(row: Bytes) -> list[bytes]:
            return [Falling(b) if f else b for b, f in zip(row[width:], falls, strict=True)]

        rows = [row for row, weight in self.weights.items() if weight and row[:width] == key]
        rows_of_key = [(row, self.weights[row]) for row in sorted(rows, key=rank)]
        most = self.schema.most
        if most is None:
            return rows_of_key
        total = sum(weight for _, weight in rows_of_key)
        return (
            rows_between_ranks(rows_of_key, total - most, total)
            if self.schema.last
            else rows_between_ranks(rows_of_key, 0, most)
        )

    def present(self) -> list[Bytes]:
        """The keys that have rows."""
        width = len(self.schema.keys)
        return sorted({row[:width] for row, weight in self.weights.items() if weight})


def rows_between_ranks(
    rows: list[tuple[Bytes, int]], start: int, stop: int
) -> list[tuple[Bytes, int]]:
    """The rows between two ranks, each with the number of its ranks between them."""
    selected, before = [], 0
    for row, weight in rows:
        here = min(before + weight, stop) - max(before, start, 0)
        before += weight
        if here > 0:
            selected.append((row, here))
    return selected


@dataclass
class Asked:
    """Keys to look up in a table, and their bytes."""

    hashes: Hashes
    keys: Keys
    in_bytes: list[Bytes]

    @staticmethod
    def of(schema: TableSchema, keys: Sequence[Row]) -> Asked:
        given = Keys(tuple(arrow(keys, schema.keys)), schema.keys, None, len(keys))
        hashes, distinct, _ = distinct_keys(given)
        return Asked(hashes, distinct, in_bytes(distinct.columns, schema.keys, len(distinct)))

    def by_place(self, places: Any, content: SortedRows) -> list[list[tuple[Bytes, int]]]:
        """The rows of each asked key, in the order in which they come."""
        assert (np.diff(places) >= 0).all()
        groups: list[list[tuple[Bytes, int]]] = [[] for _ in self.in_bytes]
        for place, row in zip(places.tolist(), rows_of_content(content), strict=True):
            assert row[0][: len(content.schema.keys)] == self.in_bytes[place]
            groups[place].append(row)
        return groups


@dataclass
class Kept:
    """A table that takes changes one by one, and its model."""

    reader: Reader
    schema: TableSchema
    table: StateTable = field(init=False)
    model: Model = field(init=False)
    turn: int = 0

    def __post_init__(self) -> None:
        self.table = StateTable("t", self.schema, BUCKETS)
        self.model = Model(self.schema)

    def add(self, rows: Sequence[tuple[Row, int]]) -> None:
        """Take in a change."""
        delta = change(self.schema, rows)
        writes = plan_writes(self.table, self.reader, delta, self.turn, range(BUCKETS))
        parts = [(written.content, written.counts) for written in writes.written]
        runs = write_segments(self.reader.folder, f"{uuid.uuid4().hex}.run", parts) if parts else []
        pairs = list(zip(runs, writes.written, strict=True))
        self.table = writes.kept.with_segments(
            [run for run, written in pairs if not written.base],
            [run for run, written in pairs if written.base],
        )
        self.turn += 1
        self.model.add(rows)

    def everything(self) -> list[tuple[Bytes, int]]:
        """All rows as they lie in the table once it is merged."""
        return [
            row for b in range(BUCKETS) for row in rows_of_content(scan(self.table, self.reader, b))
        ]
