"""What a batch is told to do and what it says it did, as data that travel to tasks and back."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from incmrql.formats import BadRow
from incmrql.formats.rows import MOST_REMEMBERED
from incmrql.kernel.columns import weights_of
from incmrql.kernel.content import Content
from incmrql.kernel.ledger import MOST_NAMED, Missing
from incmrql.kernel.output import Format, Mode, Part
from incmrql.kernel.reading import InputFile
from incmrql.kernel.table import Table, combined


@dataclass(frozen=True, slots=True)
class Order:
    """A batch: its files, the state before it, and where new runs and answers go.

    `attempt` is in the name of everything that is written, and no two attempts share one.
    """

    number: int
    attempt: str
    files: tuple[InputFile, ...]
    node: Table
    ledger: Table | None
    runs: str
    output: str = ""
    mode: Mode = "changes"
    format: Format = "parquet"

    @property
    def buckets(self) -> int:
        """The number of buckets."""
        return self.node.buckets

    @property
    def tables(self) -> tuple[Table, ...]:
        """All state tables."""
        return (self.node,) if self.ledger is None else (self.node, self.ledger)

    def as_json(self) -> dict[str, Any]:
        """The order as text can hold it."""
        return {
            "number": self.number,
            "attempt": self.attempt,
            "files": [file.as_json() for file in self.files],
            "node": self.node.as_json(),
            "ledger": None if self.ledger is None else self.ledger.as_json(),
            "runs": self.runs,
            "output": self.output,
            "mode": self.mode,
            "format": self.format,
        }

    @staticmethod
    def of_json(found: dict[str, Any], node: Table, ledger: Table | None) -> Order:
        """The order that a text holds, for tables of the given shapes."""
        return Order(**{
            **found,
            "files": tuple(map(InputFile.of_json, found["files"])),
            "node": node.of_json(found["node"]),
            "ledger": None if ledger is None else ledger.of_json(found["ledger"]),
        })  # fmt: skip


@dataclass(frozen=True, slots=True)
class Deltas:
    """What a change adds to the node's table and to the ledger, if there is one."""

    node: Content
    ledger: Content | None


@dataclass(frozen=True, slots=True)
class Share:
    """A task's part of a batch: a name that no other task or attempt has, and its buckets."""

    task: str
    buckets: tuple[int, ...]

    @staticmethod
    def of(buckets: Iterable[int]) -> Share:
        """A share of these buckets, for one execution of a task."""
        return Share(uuid.uuid4().hex[:8], tuple(buckets))


@dataclass(slots=True)
class Timing:
    """Seconds by phase."""

    read: float = 0.0
    kernel: float = 0.0
    write: float = 0.0

    def __add__(self, other: Timing) -> Timing:
        return Timing(self.read + other.read, self.kernel + other.kernel, self.write + other.write)


@dataclass(slots=True)
class Taken:
    """What was read: rows, lines that are none, and the checksums of the files."""

    inserted: int = 0
    deleted: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    first_bad: list[BadRow] = field(default_factory=list)
    checksums: dict[str, str] = field(default_factory=dict)
    seconds: Timing = field(default_factory=Timing)

    def note(self, table: Any, bad: Sequence[BadRow]) -> None:
        """Count the rows of a table and the lines that are none."""
        weights = weights_of(table)
        self.inserted += int(weights[weights > 0].sum())
        self.deleted -= int(weights[weights < 0].sum())
        self.bad.update(row.path for row in bad)
        self.first_bad += bad[: MOST_REMEMBERED - len(self.first_bad)]

    def add(self, other: Taken) -> None:
        """Put in what another task has read."""
        self.inserted += other.inserted
        self.deleted += other.deleted
        self.bad.update(other.bad)
        self.first_bad += other.first_bad[: MOST_REMEMBERED - len(self.first_bad)]
        self.checksums.update(other.checksums)
        self.seconds = self.seconds + other.seconds

    def as_json(self) -> dict[str, Any]:
        """What was read, as text can hold it."""
        return {
            "inserted": self.inserted,
            "deleted": self.deleted,
            "bad": dict(self.bad),
            "first_bad": [asdict(row) for row in self.first_bad],
            "checksums": self.checksums,
            "seconds": asdict(self.seconds),
        }

    @staticmethod
    def of_json(found: dict[str, Any]) -> Taken:
        """What a text says was read."""
        return Taken(**{
            **found,
            "bad": Counter(found["bad"]),
            "first_bad": [BadRow(**row) for row in found["first_bad"]],
            "seconds": Timing(**found["seconds"]),
        })  # fmt: skip


@dataclass(frozen=True, slots=True)
class Applied:
    """The state tables after a batch, the parts of its output, and some counts."""

    node: Table
    ledger: Table | None
    parts: tuple[Part, ...] = ()
    touched: int = 0
    changed: int = 0
    """Rows of the change of the answer."""
    rewritten: int = 0
    """Rows of older runs that were merged into new ones."""
    seconds: Timing = field(default_factory=Timing)
    refused: Missing | None = None
    buckets: tuple[int, ...] = ()
    """The buckets that the task had."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """All state tables."""
        return (self.node,) if self.ledger is None else (self.node, self.ledger)

    def as_json(self) -> dict[str, Any]:
        """What was done, as text can hold it."""
        return {
            "node": self.node.as_json(),
            "ledger": None if self.ledger is None else self.ledger.as_json(),
            "parts": [asdict(part) for part in self.parts],
            "touched": self.touched,
            "changed": self.changed,
            "rewritten": self.rewritten,
            "seconds": asdict(self.seconds),
            "refused": None if self.refused is None else asdict(self.refused),
            "buckets": self.buckets,
        }

    @staticmethod
    def of_json(found: dict[str, Any], node: Table, ledger: Table | None) -> Applied:
        """What a text says was done, for tables of the given shapes."""
        refused = found["refused"]
        return Applied(**{
            **found,
            "node": node.of_json(found["node"]),
            "ledger": None if ledger is None else ledger.of_json(found["ledger"]),
            "parts": tuple(Part(**part) for part in found["parts"]),
            "seconds": Timing(**found["seconds"]),
            "refused": refused and Missing(tuple(refused["shown"]), refused["count"]),
            "buckets": tuple(found["buckets"]),
        })  # fmt: skip


def together(results: Sequence[Applied]) -> Applied:
    """What several tasks have done, each with buckets of its own."""
    ledgers = [result.ledger for result in results if result.ledger is not None]
    refused = [result.refused for result in results if result.refused is not None]
    shown = tuple(text for each in refused for text in each.shown)[:MOST_NAMED]
    whole = Missing(shown, sum(each.count for each in refused)) if refused else None
    return replace(
        results[0],
        refused=whole,
        node=combined([result.node for result in results]),
        ledger=combined(ledgers) if ledgers else None,
        parts=tuple(part for result in results for part in result.parts),
        touched=sum(result.touched for result in results),
        changed=sum(result.changed for result in results),
        rewritten=sum(result.rewritten for result in results),
        seconds=sum((result.seconds for result in results), Timing()),
        buckets=tuple(sorted(bucket for result in results for bucket in result.buckets)),
    )
