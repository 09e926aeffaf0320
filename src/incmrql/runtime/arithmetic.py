"""Arithmetic that fails where it is used: what a batch reports of it, and when it is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from incmrql.diagnostics import DataError
from incmrql.kernel.batches import Kit, answer_value
from incmrql.kernel.table import Table
from incmrql.values import Value, encode, show

OnArithmetic: TypeAlias = Literal["null", "report", "fail"]
"""Null: nothing is watched.  Report: batches say what failed.  Fail: such a batch is refused."""

_SHOWN = 10
"""Elements of a collection in a row that an error shows."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An operation without a result, and the row for which it has none."""

    expression: str
    place: str
    """Where the query has it."""
    fault: str
    row: Value

    def __str__(self) -> str:
        return f"{self.expression} ({self.place}): {self.fault} for {show(self.row, _SHOWN)}"


@dataclass(frozen=True, slots=True)
class Failures:
    """How many rows there are for which arithmetic fails, and the first in canonical order."""

    count: int = 0
    first: Failure | None = None

    def __str__(self) -> str:
        rows = "1 row" if self.count == 1 else f"{self.count:,} rows"
        return f"arithmetic without a result in {rows}, counted as null; the first: {self.first}"


def failures(kit: Kit, tables: Mapping[str, Table], runs: Path) -> list[Failure]:
    """All rows for which arithmetic fails, in canonical order; they have to fit into memory."""
    found = [(encode(pair), failure) for pair, failure in _rows(kit, tables, runs)]
    return [failure for _, failure in sorted(found, key=lambda each: each[0])]


def count_failures(kit: Kit, tables: Mapping[str, Table], runs: Path) -> Failures:
    """How many rows there are for which arithmetic fails, and the first."""
    count, least, first = 0, b"", None
    for pair, failure in _rows(kit, tables, runs):
        count += 1
        code = encode(pair)
        if first is None or code < least:
            least, first = code, failure
    return Failures(count, first)


def _rows(kit: Kit, tables: Mapping[str, Table], runs: Path) -> Iterator[tuple[Value, Failure]]:
    outputs = len(kit.program.outputs)
    for number, watch in enumerate(kit.program.watches, outputs):
        names = [part.table or "" for part in kit.physical.answers[number].parts]
        if not any(name in tables and tables[name].runs for name in names):
            continue
        for site, row in answer_value(kit, number, tables, runs):
            known = watch.sites[site]
            yield (site, row), Failure(known.text, str(known.span), known.fault, row)


def refuse_failures(found: Failures, number: int) -> None:
    """Refuse a batch after which arithmetic fails somewhere."""
    if found.first is None:
        return
    rows = "1 row" if found.count == 1 else f"{found.count:,} rows"
    first = found.first
    message = (
        f"after batch {number} arithmetic has no result in {rows}: {first.expression}, "
        f"{first.fault}, for {show(first.row, _SHOWN)}"
    )
    hint = "Without `--on-arithmetic fail` the result is null, and batches report how many."
    raise DataError("R201", message, place=first.place, hint=hint)
