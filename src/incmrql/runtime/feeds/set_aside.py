"""Rows for which a batch was refused: which ones they are, and the batch's spools without them.

A batch deletes rows that are not there, or brings several rows with one declared key.  The rows of
a batch add up, so that it makes no difference which of two equal deletions is at fault: the newest
ones are set aside, as many as are too many, and everything else stays for the next attempt.

Where deletions are trusted there is no ledger that could tell which row is at fault.  All waiting
deletions are set aside then; rows that were inserted stay.
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
"""Problems that are the fault of some rows of a batch."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Which rows of a batch are at fault: of each name, so many."""

    budget: Counter[bytes] = field(default_factory=Counter)
    name: Callable[[Value, int], bytes | None] = lambda _row, _weight: None
    """The name of a row with its weight; None for one that is not at fault."""


def set_aside(
    feed: SpoolFolder, element: Type, files: Sequence[InputFile], fault: Fault, number: int = -1
) -> Weighted:
    """Take the newest rows that are at fault out of spools."""
    found: Weighted = []
    for file in reversed(files):
        path = Path(file.path)
        kept, gone = _divided(list(spool_rows(path, element)), fault)
        if gone:
            feed.supersede(path, kept, element, number)
            found = [*gone, *found]
    return found


def _divided(rows: Weighted, fault: Fault) -> tuple[Weighted, Weighted]:
    """The rows that stay and those that go; the budget has then less."""
    kept: Weighted = []
    gone: Weighted = []
    for row, weight in reversed(rows):
        name = fault.name(row, weight)
        many = 0 if name is None else min(abs(weight), fault.budget[name])
        if name is not None and many:
            fault.budget[name] -= many
            gone.append((row, many if weight > 0 else -many))
        left = abs(weight) - many
        if left:
            kept.append((row, left if weight > 0 else -left))
    return kept[::-1], gone[::-1]


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
        found = to_values(Rows(columns, absent.weights), step.layout)
        deleted = Counter({encode(row): -weight for row, weight in found})
        return Fault(deleted, lambda row, weight: encode(row) if weight < 0 else None)
    if step.key is None:
        return Fault()
    fields = tuple(dict(stream.source.options)["key"])
    shared: Counter[bytes] = Counter()
    for group in step.crowded(change, context):
        shared[_key(group[0][0], fields)] = sum(weight for _, weight in group) - 1
    return Fault(shared, lambda row, weight: _key(row, fields) if weight > 0 else None)


def _key(row: Value, fields: Iterable[str]) -> bytes:
    return encode(tuple(row[name] for name in fields))


def same_rows(rows: Weighted) -> Fault:
    """Rows that were set aside, to take the same ones out of other spools."""

    def name(row: Value, weight: int) -> bytes:
        return encode((row, weight > 0))

    wanted: Counter[bytes] = Counter()
    for row, weight in rows:
        wanted[name(row, weight)] += abs(weight)
    return Fault(wanted, name)


def told(rows: Weighted, name: str, aside: Path | None) -> str:
    """How many rows of a stream were set aside, and the first of them."""
    count = sum(abs(weight) for _, weight in rows)
    first, weight = rows[0]
    what = "deletion" if weight < 0 else "row"
    many = f"1 {what} was" if count == 1 else f"{count} {what}s were"
    shown = show(first, 10)
    place = "" if aside is None else f", in {aside}"
    return f'{many} set aside{place}: {shown}; the other rows of "{name}" wait for the next batch.'
