"""Rows for which a batch was refused: which ones they are, and how spools get rid of them.

A batch may delete rows that do not exist, or insert several rows with one declared key.  The rows
of a batch add up, so it makes no difference which of two equal deletions is at fault: the newest
ones are set aside, only as many as necessary, and all others stay for the next attempt.

Where deletions are trusted there is no ledger that shows which row is at fault.  Then all waiting
deletions are set aside, and inserted rows stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from incmrql.engine.batch import OPEN_SEGMENTS, CompiledProgram
from incmrql.engine.columns.rows import Rows, of_values, to_values
from incmrql.engine.context import BatchContext
from incmrql.engine.inputs import InputFile
from incmrql.engine.store.tables import Reader, StateTable
from incmrql.io.spools import spool_rows
from incmrql.runtime.feeds.spooled import SpoolFolder
from incmrql.types.model import Type
from incmrql.values import Value, encode, show

Weighted: TypeAlias = list[tuple[Value, int]]
"""Rows with their weights, in the order in which they were pushed."""
CODES = ("R205", "R303", "R304")
"""The errors that single rows of a batch can cause."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The rows of a batch that are at fault: how many of each name."""

    budget: Counter[bytes] = field(default_factory=Counter)
    name: Callable[[Value, int], bytes | None] = lambda _row, _weight: None
    """The name of a row with its weight; None if it cannot be at fault."""


def set_aside(
    feed: SpoolFolder, element: Type, files: Sequence[InputFile], fault: Fault, number: int = -1
) -> Weighted:
    """Remove the newest rows that are at fault from spools; returns them."""
    removed: Weighted = []
    for file in reversed(files):
        path = Path(file.path)
        kept, faulty = _split(list(spool_rows(path, element)), fault)
        if faulty:
            feed.supersede(path, kept, element, number)
            removed = [*faulty, *removed]
    return removed


def _split(rows: Weighted, fault: Fault) -> tuple[Weighted, Weighted]:
    """The rows to keep and those at fault, newest first; the latter reduce the budget."""
    kept: Weighted = []
    faulty: Weighted = []
    for row, weight in reversed(rows):
        name = fault.name(row, weight)
        count = 0 if name is None else min(abs(weight), fault.budget[name])
        if name is not None and count:
            fault.budget[name] -= count
            faulty.append((row, count if weight > 0 else -count))
        left = abs(weight) - count
        if left:
            kept.append((row, left if weight > 0 else -left))
    return kept[::-1], faulty[::-1]


def rows_at_fault(
    compiled: CompiledProgram,
    place: int,
    files: Sequence[InputFile],
    tables: Mapping[str, StateTable],
    runs: Path,
) -> Fault:
    """The rows of a source for which a batch was refused."""
    step = compiled.physical.source(place)
    stream = step.stream
    rows = [row for file in files for row in spool_rows(Path(file.path), stream.element)]
    if any(row is None for row, _ in rows) and not stream.packed:
        count = sum(abs(weight) for _, weight in rows)
        return Fault(Counter({b"": count}), lambda row, _: b"" if row is None else None)
    if step.insert_only or step.ledger is None:
        every = sum(-weight for _, weight in rows if weight < 0)
        return Fault(Counter({b"": every}), lambda _, weight: b"" if weight < 0 else None)
    context = BatchContext(tables, Reader(runs, OPEN_SEGMENTS), compiled.env(), is_first=False)
    change = step.ledger_delta([of_values(rows, step.layout)], context)
    assert change is not None
    absent = step.missing(change, context)
    if len(absent):
        columns = absent.rest.columns if step.key is not None else absent.keys.columns
        missing = to_values(Rows(columns, absent.weights), step.layout)
        deleted = Counter({encode(row): -weight for row, weight in missing})
        return Fault(deleted, lambda row, weight: encode(row) if weight < 0 else None)
    if step.key is None:
        return Fault()
    fields = tuple(dict(stream.source.options)["key"])
    shared: Counter[bytes] = Counter()
    for group in step.rows_sharing_a_key(change, context):
        shared[_key(group[0][0], fields)] = sum(weight for _, weight in group) - 1
    return Fault(shared, lambda row, weight: _key(row, fields) if weight > 0 else None)


def _key(row: Value, fields: Iterable[str]) -> bytes:
    return encode(tuple(row[name] for name in fields))


def same_rows(rows: Weighted) -> Fault:
    """The fault that removes the same rows from other spools."""

    def name(row: Value, weight: int) -> bytes:
        return encode((row, weight > 0))

    budget: Counter[bytes] = Counter()
    for row, weight in rows:
        budget[name(row, weight)] += abs(weight)
    return Fault(budget, name)


def set_aside_note(rows: Weighted, name: str, aside: Path | None) -> str:
    """A sentence that says how many rows of a stream were set aside, with the first of them."""
    count = sum(abs(weight) for _, weight in rows)
    first, weight = rows[0]
    what = "deletion" if weight < 0 else "row"
    subject = f"1 {what} was" if count == 1 else f"{count} {what}s were"
    shown = show(first, 10)
    where = "" if aside is None else f", in {aside}"
    return (
        f'{subject} set aside{where}: {shown}; the other rows of "{name}" wait for the next batch.'
    )
