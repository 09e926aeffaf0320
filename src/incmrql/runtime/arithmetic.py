"""Arithmetic that fails where it is used: what a batch reports of it, and when it is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from incmrql.engine.batch import CompiledProgram, bag_rows
from incmrql.engine.messages import BagChange
from incmrql.engine.store.tables import StateTable
from incmrql.errors import DataError
from incmrql.values import Value, decode, encode, show

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


@dataclass(frozen=True, slots=True)
class Tally:
    """How many rows a watch of the program has, and the least one as hexadecimal bytes."""

    count: int
    least: str | None

    def after(self, change: BagChange) -> Tally | None:
        """The tally after a batch; None if the least row went, so that the next one is unknown.

        Tasks do not see each other's rows: what came in one bucket may have gone from another.
        """
        known = [row for row in (self.least, change.came) if row is not None]
        least = min(known, default=None)
        if change.went is not None and (least is None or change.went <= least):
            return None
        return Tally(self.count + change.net, least)


class Tallies:
    """The tallies of all watches: from the state once, then from the change of each batch."""

    def __init__(self, compiled: CompiledProgram, runs: Path) -> None:
        self._compiled, self._runs = compiled, runs
        self._known: list[Tally] = []
        self._number: int | None = None
        """The batch after which these are right."""

    def after(
        self, changes: Sequence[BagChange], tables: Mapping[str, StateTable], before: int | None
    ) -> list[Tally]:
        """The tallies after a batch that leaves these tables and follows batch `before`.

        They are remembered by `remember`, once the batch is committed.
        """
        if before is None or before != self._number:
            return [
                self._scan(place, tables) for place in range(len(self._compiled.program.watches))
            ]
        return [
            before.after(change) or self._scan(place, tables)
            for place, (before, change) in enumerate(zip(self._known, changes, strict=True))
        ]

    def remember(self, tallies: list[Tally], number: int) -> None:
        """Go on from the tallies of a batch that was committed."""
        self._known, self._number = tallies, number

    def _scan(self, place: int, tables: Mapping[str, StateTable]) -> Tally:
        count, least = 0, None
        number = len(self._compiled.program.outputs) + place
        for value, weight in bag_rows(self._compiled, number, tables, self._runs):
            code = encode(value).hex()
            count += weight
            least = code if least is None else min(least, code)
        return Tally(count, least)

    def report(self, tallies: Sequence[Tally]) -> Failures:
        """How many rows there are in all, and the first of them."""
        leasts = [(each.least, place) for place, each in enumerate(tallies) if each.least]
        if not leasts:
            return Failures()
        code, place = min(leasts)
        first = _failure(self._compiled, place, decode(bytes.fromhex(code)))
        return Failures(sum(each.count for each in tallies), first)


def failures(
    compiled: CompiledProgram, tables: Mapping[str, StateTable], runs: Path
) -> list[Failure]:
    """All rows for which arithmetic fails, in canonical order; they have to fit into memory."""
    outputs = len(compiled.program.outputs)
    found = [
        (encode(value), place, value)
        for place in range(len(compiled.program.watches))
        for value, weight in bag_rows(compiled, outputs + place, tables, runs)
        for _ in range(weight)
    ]
    found.sort(key=lambda each: each[:2])
    return [_failure(compiled, place, value) for _, place, value in found]


def _failure(compiled: CompiledProgram, place: int, pair: Value) -> Failure:
    site, row = pair
    known = compiled.program.watches[place].sites[site]
    return Failure(known.text, str(known.span), known.fault, row)


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
