"""Failing arithmetic, such as division by zero: what batches report, and when one is refused."""

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
"""null: failures are not tracked; report: batches report them; fail: such a batch is refused."""

_SHOWN = 10
"""The number of elements that an error shows of a collection in a row."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An operation that has no result for a row."""

    expression: str
    place: str
    """Its position in the query text."""
    fault: str
    row: Value

    def __str__(self) -> str:
        return f"{self.expression} ({self.place}): {self.fault} for {show(self.row, _SHOWN)}"


@dataclass(frozen=True, slots=True)
class Failures:
    """The number of rows for which arithmetic fails, and the first of them in canonical order."""

    count: int = 0
    first: Failure | None = None

    def __str__(self) -> str:
        rows = "1 row" if self.count == 1 else f"{self.count:,} rows"
        return f"arithmetic without a result in {rows}, counted as null; the first: {self.first}"


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of rows of one watch, and the least row as hexadecimal canonical bytes."""

    count: int
    least: str | None

    def after(self, change: BagChange) -> Tally | None:
        """The tally after a batch; None if the least row was deleted, so that a scan is needed."""
        # Tasks do not see each other's rows: one bucket may insert a row that another deletes.
        # So `came` is a candidate only if nothing at or below it was deleted anywhere.
        known = [row for row in (self.least, change.came) if row is not None]
        least = min(known, default=None)
        if change.went is not None and (least is None or change.went <= least):
            return None
        return Tally(self.count + change.net, least)


class Tallies:
    """The tallies of all watches: computed from the state once, then kept up by each batch."""

    def __init__(self, compiled: CompiledProgram, runs: Path) -> None:
        self._compiled, self._runs = compiled, runs
        self._known: list[Tally] = []
        self._number: int | None = None
        """The batch that the known tallies belong to."""

    def after(
        self, changes: Sequence[BagChange], tables: Mapping[str, StateTable], before: int | None
    ) -> list[Tally]:
        """The tallies after the batch that follows `before` and produces these tables.

        Call `remember` once that batch is committed.
        """
        if before is None or before != self._number:
            return [
                self._scan(watch, tables) for watch in range(len(self._compiled.program.watches))
            ]
        return [
            tally.after(change) or self._scan(watch, tables)
            for watch, (tally, change) in enumerate(zip(self._known, changes, strict=True))
        ]

    def remember(self, tallies: list[Tally], number: int) -> None:
        """Remember the tallies of a committed batch, for the next one to start from."""
        self._known, self._number = tallies, number

    def _scan(self, watch: int, tables: Mapping[str, StateTable]) -> Tally:
        """The tally of a watch, from all of its rows."""
        count, least = 0, None
        number = len(self._compiled.program.outputs) + watch
        for value, weight in bag_rows(self._compiled, number, tables, self._runs):
            code = encode(value).hex()
            count += weight
            least = code if least is None else min(least, code)
        return Tally(count, least)

    def report(self, tallies: Sequence[Tally]) -> Failures:
        """The failures of all watches together."""
        leasts = [(tally.least, watch) for watch, tally in enumerate(tallies) if tally.least]
        if not leasts:
            return Failures()
        code, watch = min(leasts)
        first = _failure(self._compiled, watch, decode(bytes.fromhex(code)))
        return Failures(sum(tally.count for tally in tallies), first)


def failures(
    compiled: CompiledProgram, tables: Mapping[str, StateTable], runs: Path
) -> list[Failure]:
    """All rows for which arithmetic fails, in canonical order; they have to fit into memory."""
    outputs = len(compiled.program.outputs)
    failing = [
        (encode(value), watch, value)
        for watch in range(len(compiled.program.watches))
        for value, weight in bag_rows(compiled, outputs + watch, tables, runs)
        for _ in range(weight)
    ]
    failing.sort(key=lambda row: row[:2])
    return [_failure(compiled, watch, value) for _, watch, value in failing]


def _failure(compiled: CompiledProgram, watch: int, pair: Value) -> Failure:
    """The failure that a row of a watch stands for: a pair of a site's number and the row."""
    number, row = pair
    site = compiled.program.watches[watch].sites[number]
    return Failure(site.text, str(site.span), site.fault, row)


def refuse_failures(failures: Failures, number: int) -> None:
    """Refuse a batch after which arithmetic fails for some row."""
    if failures.first is None:
        return
    rows = "1 row" if failures.count == 1 else f"{failures.count:,} rows"
    first = failures.first
    message = (
        f"after batch {number} arithmetic has no result in {rows}: {first.expression}, "
        f"{first.fault}, for {show(first.row, _SHOWN)}"
    )
    hint = "Without `--on-arithmetic fail` the result is null, and batches report how many."
    raise DataError("R201", message, place=first.place, hint=hint)
