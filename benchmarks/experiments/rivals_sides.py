"""What a side of the rivals' table is, and how it says no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import pyarrow as pa

from benchmarks.experiments.base import Options, Tell
from benchmarks.experiments.rivals_files import Files, Form
from benchmarks.experiments.rivals_queries import Query
from incmrql.api.session import Session

Answer: TypeAlias = pa.Table
HISTORY: Final = 3
"""How many times as long a history may take as a batch."""


class Refused(Exception):
    """A side does not run a query; what it said is the message."""


class Skipped(Exception):
    """A side is not there at all; the message says why."""


class Late(Exception):
    """A side was given up, since it took too long or its answer came to rest and was wrong."""


@dataclass(frozen=True, slots=True)
class Table:
    """A row of the table that is being made: the query, its files, and how it is run."""

    query: Query
    files: Files
    options: Options
    session: Session
    patience: float
    """Seconds that a side may take for a batch."""
    tell: Tell

    def patience_for(self, number: int) -> float:
        """Seconds that a side may take for a batch, or for the history."""
        return self.patience if number else HISTORY * self.patience


class Side(Protocol):
    """An engine that has been asked to keep one query up to date."""

    form: Form

    def take(self, number: int, expected: Answer) -> float:
        """Take in a batch, whose files are ready, and say how many seconds that took.

        An engine that works on its own is done when what it has published is what is expected.
        """

    def answer(self) -> Answer | None:
        """The whole answer; None if it has been compared with what was expected each time."""

    def close(self) -> None:
        """End what runs."""


class Rival(Protocol):
    """An engine, ready to be asked."""

    name: str

    def open(self, table: Table) -> Side:
        """A side for a query; raises `Refused` or `Skipped`."""

    def close(self) -> None:
        """End what runs beside the sides."""
