"""Failing arithmetic, such as division by zero: what batches report, and when one is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from incmrql.engine.batch import CompiledProgram, bag_rows, rows_behind, summarize_bag
from incmrql.engine.messages import BagChange, BagSummary
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


_FEW_ROWS: Final = 10_000
"""Rows of state behind bags that the driver reads by itself; more are read by tasks."""

Summarize: TypeAlias = Callable[[Mapping[str, StateTable], Sequence[int]], list[BagSummary]]
"""Summarizes some answers, which are bags, from state tables, in tasks."""


class Watched:
    """The sizes and least rows of all watches of a program.

    They follow from the changes of each batch.  The state is read where they do not: in the first
    batch after a restart, and when the least row went.
    """

    def __init__(self, compiled: CompiledProgram, runs: Path, summarize: Summarize) -> None:
        self._compiled, self._runs, self._summarize = compiled, runs, summarize
        self._known: list[BagSummary] = []
        self._number: int | None = None
        """The batch that the known summaries belong to."""

    def after(
        self, changes: Sequence[BagChange], tables: Mapping[str, StateTable], before: int | None
    ) -> list[BagSummary]:
        """The summaries after a batch that leaves these tables and follows batch `before`.

        None: nothing was there before.  `remember` keeps them, once the batch is committed.
        """
        known: list[BagSummary] | list[None]
        if before is None:
            known = [BagSummary()] * len(self._compiled.program.watches)
        elif before == self._number:
            known = self._known
        else:
            known = [None] * len(self._compiled.program.watches)
        summaries = [
            summary.after(change) if summary is not None else None
            for summary, change in zip(known, changes, strict=True)
        ]
        unknown = [watch for watch, summary in enumerate(summaries) if summary is None]
        read = dict(zip(unknown, self._from_state(unknown, tables), strict=True))
        return [summary or read[watch] for watch, summary in enumerate(summaries)]

    def remember(self, summaries: list[BagSummary], number: int) -> None:
        """Remember the summaries of a committed batch, for the next one to start from."""
        self._known, self._number = summaries, number

    def _from_state(
        self, watches: Sequence[int], tables: Mapping[str, StateTable]
    ) -> list[BagSummary]:
        """The summaries of some watches; of bags that may be large, by tasks."""
        answers = self._compiled.physical.answers
        numbers = [len(self._compiled.program.outputs) + watch for watch in watches]
        if not numbers:
            return []
        if sum(rows_behind(answers[number], tables) for number in numbers) > _FEW_ROWS:
            return self._summarize(tables, numbers)
        return [summarize_bag(self._compiled, n, tables, self._runs) for n in numbers]

    def report(self, summaries: Sequence[BagSummary]) -> Failures:
        """The failures of all watches together."""
        leasts = [(bag.least, watch) for watch, bag in enumerate(summaries) if bag.least]
        if not leasts:
            return Failures()
        code, watch = min(leasts)
        first = _failure(self._compiled, watch, decode(bytes.fromhex(code)))
        return Failures(sum(bag.count for bag in summaries), first)


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
