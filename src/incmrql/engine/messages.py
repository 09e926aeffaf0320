"""What a batch is told to do and what it says it did, as data that travel to tasks and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from incmrql.engine.inputs import InputFile, QuarantineFile
from incmrql.engine.loops.offload import NO_OFFLOADING, Offloading
from incmrql.engine.program import Worked
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import NO_LIMITS, Limits, StateTable, combine_tables
from incmrql.io.notices import SourceFacts
from incmrql.io.rows import MOST_REMEMBERED, BadRow

Mode: TypeAlias = Literal["changes", "snapshot", "rows"]
"""What is written: what a batch did to an answer, the whole of it, or the former for ourselves."""
Format: TypeAlias = Literal["parquet", "json", "csv"]


@dataclass(frozen=True, slots=True)
class Target:
    """Where an answer is written, and how."""

    answer: int
    folder: str
    mode: Mode
    format: Format = "parquet"


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A batch: its files, the state before it, and where new runs and answers go.

    `attempt` is in the name of everything that is written, and no two attempts share one.
    """

    number: int
    attempt: str
    files: tuple[InputFile, ...]
    tables: Mapping[str, StateTable]
    buckets: int
    runs: str
    targets: tuple[Target, ...] = ()
    is_first: bool = False
    limits: Limits = NO_LIMITS
    offloading: Offloading = NO_OFFLOADING
    quarantine: str = ""
    """The folder for lines that are no rows, of sources that ask for it."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The user's names of files, by their full names, where these differ."""

    def as_json(self) -> dict[str, Any]:
        """The order as text can hold it."""
        return {
            "number": self.number,
            "attempt": self.attempt,
            "files": [file.as_json() for file in self.files],
            "tables": {name: table.as_json() for name, table in self.tables.items()},
            "buckets": self.buckets,
            "runs": self.runs,
            "targets": [asdict(target) for target in self.targets],
            "is_first": self.is_first,
            "limits": {"inline": self.limits.inline, "locked": sorted(self.limits.locked)},
            "offloading": self.offloading.as_json(),
            "quarantine": self.quarantine,
            "names": dict(self.names),
        }

    @staticmethod
    def of_json(found: dict[str, Any], schemas: Iterable[tuple[str, TableSchema]]) -> BatchRequest:
        """The order that a text holds, for tables of the given forms."""
        limits = found["limits"]
        return BatchRequest(**{
            **found,
            "files": tuple(map(InputFile.of_json, found["files"])),
            "tables": tables_of_json(found["tables"], schemas, found["buckets"]),
            "targets": tuple(Target(**each) for each in found["targets"]),
            "limits": Limits(limits["inline"], frozenset(map(tuple, limits["locked"]))),
            "offloading": Offloading.of_json(found["offloading"]),
        })  # fmt: skip


def tables_of_json(
    found: Mapping[str, Any], schemas: Iterable[tuple[str, TableSchema]], buckets: int
) -> dict[str, StateTable]:
    """The tables that a text lists; one that it does not is empty."""
    tables = {name: StateTable(name, schema, buckets) for name, schema in schemas}
    return {n: t.of_json(found[n]) if n in found else t for n, t in tables.items()}


@dataclass(slots=True)
class Seconds:
    """Seconds by phase."""

    read: float = 0.0
    kernel: float = 0.0
    write: float = 0.0

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.read + other.read, self.kernel + other.kernel, self.write + other.write)


@dataclass(slots=True)
class Reading:
    """What was read: rows, lines that are none, and the checksums of the files."""

    inserted: int = 0
    deleted: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    first_bad: list[BadRow] = field(default_factory=list)
    checksums: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    shuffled: int = 0
    """Rows of contents that were sent to buckets."""
    quarantined: list[QuarantineFile] = field(default_factory=list)
    """Files of bad rows that the task has written."""
    attempt: str = ""
    noticed: dict[str, SourceFacts] = field(default_factory=dict)
    """By the place of the source, as a text."""

    def note(self, weights: Any, bad: Sequence[BadRow]) -> None:
        """Count rows by their weights, and the lines that are none."""
        self.inserted += int(weights[weights > 0].sum())
        self.deleted -= int(weights[weights < 0].sum())
        self.bad.update(row.path for row in bad)
        self.first_bad += bad[: MOST_REMEMBERED - len(self.first_bad)]

    def notice(self, place: int, noticed: SourceFacts) -> None:
        """Put in what was noticed of the rows of the source at a place."""
        self.noticed.setdefault(str(place), SourceFacts()).add(noticed)

    def add(self, other: Reading) -> None:
        """Put in what another task has read."""
        self.inserted += other.inserted
        self.deleted += other.deleted
        self.bad.update(other.bad)
        self.first_bad += other.first_bad[: MOST_REMEMBERED - len(self.first_bad)]
        self.checksums.update(other.checksums)
        for place, noticed in other.noticed.items():
            self.notice(int(place), noticed)
        self.seconds += other.seconds
        self.shuffled += other.shuffled
        self.quarantined += other.quarantined

    def as_json(self) -> dict[str, Any]:
        """What was read, as text can hold it."""
        return {
            **{name: getattr(self, name) for name in ("inserted", "deleted", "checksums")},
            "bad": dict(self.bad),
            "first_bad": [asdict(row) for row in self.first_bad],
            "seconds": self.seconds,
            "shuffled": self.shuffled,
            "quarantined": self.quarantined,
            "attempt": self.attempt,
            "noticed": {place: noticed.as_json() for place, noticed in self.noticed.items()},
        }

    @staticmethod
    def of_json(found: dict[str, Any]) -> Reading:
        """What a text says was read."""
        bad = [BadRow(**row) for row in found["first_bad"]]
        files = [(name, size) for name, size in found["quarantined"]]
        noticed = {place: SourceFacts.of_json(one) for place, one in found["noticed"].items()}
        whole = {"bad": Counter(found["bad"]), "first_bad": bad, "quarantined": files}
        return Reading(**{**found, **whole, "noticed": noticed})


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a batch's output."""

    target: int
    file: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class BagChange:
    """How the size of a bag changed, and the least of the rows that came and of those that went.

    Rows are hexadecimal canonical bytes, whose order is that of the values.
    """

    net: int = 0
    came: str | None = None
    went: str | None = None

    def __add__(self, other: BagChange) -> BagChange:
        came = [row for row in (self.came, other.came) if row is not None]
        went = [row for row in (self.went, other.went) if row is not None]
        return BagChange(self.net + other.net, min(came, default=None), min(went, default=None))


@dataclass(frozen=True, slots=True)
class BagSummary:
    """The size of a bag, and its least row as hexadecimal canonical bytes."""

    count: int = 0
    least: str | None = None

    def after(self, change: BagChange) -> BagSummary | None:
        """The summary after a batch; None if the least row went, so that the next one is unknown.

        Tasks do not see each other's rows: what came in one bucket may have gone from another.
        """
        known = [row for row in (self.least, change.came) if row is not None]
        least = min(known, default=None)
        if change.went is not None and (least is None or change.went <= least):
            return None
        return BagSummary(self.count + change.net, least)

    def __add__(self, other: BagSummary) -> BagSummary:
        """The summary of the rows of both."""
        leasts = [row for row in (self.least, other.least) if row is not None]
        return BagSummary(self.count + other.count, min(leasts, default=None))


@dataclass(slots=True)
class BatchResult:
    """The state tables that changed, the parts of outputs, and some counts.

    A task that had only some buckets has the tables of these.
    """

    tables: dict[str, StateTable] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    """Rows of the change of each answer."""
    watched: list[BagChange] = field(default_factory=list)
    """What happened to the rows for which arithmetic fails, for each watch of the program."""
    rewritten: int = 0
    """Rows of older runs that were merged into new ones."""
    worked: Worked = field(default_factory=lambda: Worked([], [], []))
    seconds: Seconds = field(default_factory=Seconds)
    buckets: list[int] = field(default_factory=list)
    """The buckets that the task had."""
    whole: list[str] = field(default_factory=list)
    """The tables of which it had all buckets."""
    shuffled: int = 0
    """Rows of contents that were sent to buckets."""
    attempt: str = ""

    def as_json(self) -> dict[str, Any]:
        """What was done, as text can hold it."""
        return {
            "tables": {name: table.as_json() for name, table in self.tables.items()},
            "parts": [asdict(part) for part in self.parts],
            "changed": self.changed,
            "watched": [asdict(change) for change in self.watched],
            "rewritten": self.rewritten,
            "worked": self.worked.as_json(),
            "seconds": asdict(self.seconds),
            "buckets": self.buckets,
            "whole": self.whole,
            "shuffled": self.shuffled,
            "attempt": self.attempt,
        }

    @staticmethod
    def of_json(
        found: dict[str, Any], schemas: Iterable[tuple[str, TableSchema]], buckets: int
    ) -> BatchResult:
        """What a text says was done, for tables of the given forms."""
        named = [(name, schema) for name, schema in schemas if name in found["tables"]]
        return BatchResult(**{
            **found,
            "tables": tables_of_json(found["tables"], named, buckets),
            "parts": [Part(**part) for part in found["parts"]],
            "watched": [BagChange(**change) for change in found["watched"]],
            "worked": Worked(**found["worked"]),
            "seconds": Seconds(**found["seconds"]),
        })  # fmt: skip


def together(order: BatchRequest, results: Sequence[BatchResult]) -> BatchResult:
    """What several tasks have done, each with buckets of its own: all tables after the batch."""
    everything = frozenset(range(order.buckets))
    all_ = BatchResult(dict(order.tables), buckets=sorted(everything))
    pieces: dict[str, list[tuple[StateTable, frozenset[int]]]] = {}
    for done in results:
        for name, table in done.tables.items():
            mine = everything if name in done.whole else frozenset(done.buckets)
            pieces.setdefault(name, []).append((table, mine))
        all_.parts += done.parts
        all_.changed = _sums(all_.changed, done.changed)
        all_.watched = _sums(all_.watched, done.watched)
        all_.rewritten += done.rewritten
        all_.shuffled += done.shuffled
        all_.seconds = all_.seconds + done.seconds
        if not all_.worked.sent:
            all_.worked = done.worked
        elif done.worked.sent:
            all_.worked.add(done.worked)
    for name, found in pieces.items():
        rest = order.tables[name].only(everything.difference(*[mine for _, mine in found]))
        all_.tables[name] = combine_tables([rest, *[table for table, _ in found]])
    return all_


def _sums(one: list[Any], two: list[Any]) -> list[Any]:
    if not one or not two:
        return one or two
    return [a + b for a, b in zip(one, two, strict=True)]
