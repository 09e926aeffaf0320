"""Deletions of rows with computed columns: they take the values that were kept with the rows.

What computed a column is never called again for a deletion: it may answer differently, and then the
row that leaves would not be the one that came.  The ledger finds the rows by the columns that are
in files; the rows that the same batch inserts count too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from incmrql.engine.batch import OPEN_SEGMENTS, CompiledProgram
from incmrql.engine.columns.rows import Rows, of_values, to_values
from incmrql.engine.context import BatchContext, sorted_rows_of
from incmrql.engine.inputs import InputFile
from incmrql.engine.operators.source import SourceOp
from incmrql.engine.store.content import keys_of_rows
from incmrql.engine.store.lookup import grouped_rows
from incmrql.engine.store.tables import Reader, StateTable
from incmrql.io.spools import spool_rows, write_spool
from incmrql.values import Value, encode

Weighted: TypeAlias = list[tuple[Value, int]]


def with_kept_values(
    compiled: CompiledProgram,
    place: int,
    files: Sequence[InputFile],
    tables: Mapping[str, StateTable],
    runs: Path,
) -> list[InputFile]:
    """The files of a batch of a source, where deletions have the values that are kept.

    Rows that are not there stay as they are; the batch refuses them.
    """
    step = compiled.physical.source(place)
    reader = step.stream.source.reader
    deletes = [file for file in files if file.deletes and file.kind == "spool"]
    if reader is None or not reader.computed or not deletes:
        return list(files)
    width, element = len(reader.columns), step.stream.element
    rows = {file.path: list(spool_rows(Path(file.path), element)) for file in deletes}
    wanted = {encode(row[:width]) for some in rows.values() for row, _ in some}
    known = _Known(width)
    for row, weight in _in_ledger(compiled, step, rows.values(), tables, runs):
        known.add(row, weight)
    for file in files:
        if not file.deletes and file.kind == "spool":
            for row, weight in spool_rows(Path(file.path), element):
                if encode(row[:width]) in wanted:
                    known.add(row, -weight if file.retracts else weight)
    changed = []
    for file in files:
        if file.path in rows:
            taken = [(known.take(row), weight) for row, weight in _single(rows[file.path])]
            write_spool(Path(file.path), element, taken)
            there = Path(file.path).stat()
            file = replace(file, size=there.st_size, modified=there.st_mtime_ns)
        changed.append(file)
    return changed


def _single(rows: Weighted) -> Iterator[tuple[Value, int]]:
    """Each row as often as it is there."""
    for row, weight in rows:
        for _ in range(weight):
            yield row, 1


class _Known:
    """The rows that a batch may delete, by the columns that are in files."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._counts: dict[bytes, dict[bytes, int]] = defaultdict(lambda: defaultdict(int))
        self._rows: dict[bytes, Value] = {}

    def add(self, row: Value, weight: int) -> None:
        """Count a row."""
        code = encode(row)
        self._counts[encode(row[: self._width])][code] += weight
        self._rows[code] = row

    def take(self, row: Value) -> Value:
        """A row with the same columns in files that is there, the first in order; it leaves."""
        counts = self._counts.get(encode(row[: self._width]), {})
        for code in sorted(counts):
            if counts[code] > 0:
                counts[code] -= 1
                return self._rows[code]
        return row


def _in_ledger(
    compiled: CompiledProgram,
    step: SourceOp,
    deleted: Iterable[Weighted],
    tables: Mapping[str, StateTable],
    runs: Path,
) -> Weighted:
    """The committed rows that agree with deleted ones in the columns that are in files."""
    if step.ledger is None or step.key is None or step.ledger[0] not in tables:
        return []
    name, schema = step.ledger
    rows = [row for some in deleted for row in some]
    context = BatchContext(tables, Reader(runs, OPEN_SEGMENTS), compiled.env(), is_first=False)
    keyed = step.key.apply(of_values(rows, step.layout), context.env)
    hashes, keys, _ = keys_of_rows(sorted_rows_of(schema, keyed))
    _, kept = grouped_rows(context.table(name, schema), context.reader, hashes, keys)
    return to_values(Rows(kept.rest.columns, kept.weights), step.layout)
