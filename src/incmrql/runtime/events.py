"""What a run tells of itself: its batches, its problems, how it is doing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from incmrql.runtime.report import BatchReport
from incmrql.values import Value


class Batch:
    """A batch that is done: its number, what it changed, and all numbers of its report."""

    def __init__(self, report: BatchReport, load: Callable[[], list[tuple[Value, int]]]) -> None:
        self.report = report
        self._load = load
        self._changes: list[tuple[Value, int]] | None = None

    @property
    def number(self) -> int:
        """Its number, from 0."""
        return self.report.number

    @property
    def seconds(self) -> float:
        """The time it took."""
        return self.report.seconds

    @property
    def rows_in(self) -> int:
        """Rows that were inserted or deleted."""
        return self.report.rows_in

    @property
    def state_rows(self) -> int:
        """Rows of all state tables after it."""
        return self.report.state_rows

    def changes(self) -> list[tuple[Value, int]]:
        """What it did to the answer: rows with how many of them came, or, negative, went."""
        if self._changes is None:
            self._changes = self._load()
        return list(self._changes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "report":
            raise AttributeError(name)
        return getattr(self.report, name)

    def __repr__(self) -> str:
        report = self.report
        return (
            f"Batch(number={report.number}, rows_in={report.rows_in}, "
            f"changed={report.changed}, seconds={report.seconds:.3f})"
        )


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a run: a batch, or a problem."""

    time: float
    """Seconds since 1970."""
    report: BatchReport | None = None
    problem: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """How a run is doing.

    `ready`: it waits for `step`; `running`: its loop is on; `finished`: its loop is done;
    `failed`: its loop has met a problem; `stopped`.
    """

    state: Literal["ready", "running", "finished", "failed", "stopped"]
    batch: int
    """The last batch, -1 before the first."""
    state_rows: int
    state_bytes: int
    problem: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Verified:
    """What was compared and found to be the same."""

    batch: int
    """The last batch that the answers include."""
    rows: int
    """Rows of all answers."""
    seconds: float

    def __str__(self) -> str:
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return f"verified after batch {self.batch}: {rows} as over all data, {self.seconds:.1f} s"
