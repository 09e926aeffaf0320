"""Messages between driver and tasks: the request of a batch, and what tasks report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from incmrql.engine.inputs import InputFile, QuarantineFile
from incmrql.engine.loops.offload import NO_OFFLOADING, Offloading
from incmrql.engine.program import StepWork
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import NO_LIMITS, Limits, StateTable, combine_tables
from incmrql.io.notices import SourceFacts
from incmrql.io.rows import MOST_REMEMBERED, BadRow

Mode: TypeAlias = Literal["changes", "snapshot", "rows"]
"""What is written: changes, the whole answer, or changes in the engine's own columns (`rows`)."""
Format: TypeAlias = Literal["parquet", "json", "csv"]


@dataclass(frozen=True, slots=True)
class Target:
    """The directory, mode and format in which an answer is written."""

    answer: int
    folder: str
    mode: Mode
    format: Format = "parquet"


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """What a task needs to run a batch: its files, the state before it, and where results go.

    `attempt` is part of the name of every file that is written; no two attempts share one.
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
    """The directory for unreadable lines of sources with `on_error: quarantine`."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The paths as the user wrote them, by absolute path, where the two differ."""
    progress: str = ""
    """The directory in which tasks note what they have read; "" if nobody asks."""

    def as_json(self) -> dict[str, Any]:
        """The request as JSON data."""
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
            "progress": self.progress,
        }

    @staticmethod
    def of_json(data: dict[str, Any], schemas: Iterable[tuple[str, TableSchema]]) -> BatchRequest:
        """The inverse of `as_json`, for tables of these schemas."""
        limits = data["limits"]
        return BatchRequest(**{
            **data,
            "files": tuple(map(InputFile.of_json, data["files"])),
            "tables": tables_of_json(data["tables"], schemas, data["buckets"]),
            "targets": tuple(Target(**target) for target in data["targets"]),
            "limits": Limits(limits["inline"], frozenset(map(tuple, limits["locked"]))),
            "offloading": Offloading.of_json(data["offloading"]),
        })  # fmt: skip


def tables_of_json(
    data: Mapping[str, Any], schemas: Iterable[tuple[str, TableSchema]], buckets: int
) -> dict[str, StateTable]:
    """A table for each schema: as the JSON data list it, else empty."""
    tables = {name: StateTable(name, schema, buckets) for name, schema in schemas}
    return {n: t.of_json(data[n]) if n in data else t for n, t in tables.items()}


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
    """What a task has read: counts of rows, unreadable lines, and checksums of files."""

    inserted: int = 0
    deleted: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    first_bad: list[BadRow] = field(default_factory=list)
    checksums: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    by_row: int = 0
    """Rows that were read one by one."""
    shuffled: int = 0
    """Rows that were sent to other tasks."""
    quarantined: list[QuarantineFile] = field(default_factory=list)
    """Files of bad rows that the task has written."""
    attempt: str = ""
    noticed: dict[str, SourceFacts] = field(default_factory=dict)
    """Facts about the rows, by the index of the source as a string."""

    def note(self, weights: Any, bad: Sequence[BadRow]) -> None:
        """Count rows by their weights, and unreadable lines."""
        self.inserted += int(weights[weights > 0].sum())
        self.deleted -= int(weights[weights < 0].sum())
        self.bad.update(row.path for row in bad)
        self.first_bad += bad[: MOST_REMEMBERED - len(self.first_bad)]

    def notice(self, place: int, noticed: SourceFacts) -> None:
        """Add facts about the rows of the source with this index."""
        self.noticed.setdefault(str(place), SourceFacts()).add(noticed)

    def add(self, other: Reading) -> None:
        """Add what another task has read."""
        self.inserted += other.inserted
        self.deleted += other.deleted
        self.bad.update(other.bad)
        self.first_bad += other.first_bad[: MOST_REMEMBERED - len(self.first_bad)]
        self.checksums.update(other.checksums)
        for place, noticed in other.noticed.items():
            self.notice(int(place), noticed)
        self.seconds += other.seconds
        self.by_row += other.by_row
        self.shuffled += other.shuffled
        self.quarantined += other.quarantined

    def as_json(self) -> dict[str, Any]:
        """The same as JSON data."""
        return {
            **{name: getattr(self, name) for name in ("inserted", "deleted", "checksums")},
            "bad": dict(self.bad),
            "first_bad": [asdict(row) for row in self.first_bad],
            "seconds": self.seconds,
            "by_row": self.by_row,
            "shuffled": self.shuffled,
            "quarantined": self.quarantined,
            "attempt": self.attempt,
            "noticed": {place: noticed.as_json() for place, noticed in self.noticed.items()},
        }

    @staticmethod
    def of_json(data: dict[str, Any]) -> Reading:
        """The inverse of `as_json`."""
        bad = [BadRow(**row) for row in data["first_bad"]]
        files = [(name, size) for name, size in data["quarantined"]]
        noticed = {place: SourceFacts.of_json(facts) for place, facts in data["noticed"].items()}
        fields = {"bad": Counter(data["bad"]), "first_bad": bad, "quarantined": files}
        return Reading(**{**data, **fields, "noticed": noticed})


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a batch's output."""

    target: int
    file: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class BagChange:
    """How a bag changed: by how many rows, and the least row that came and that went.

    Rows are hexadecimal canonical bytes, which sort like the values.
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
    """What a task reports of a batch: changed state tables, output parts and counts.

    A task that had only some buckets reports the tables with these buckets.
    """

    tables: dict[str, StateTable] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    """Rows of the change of each answer."""
    watched: list[BagChange] = field(default_factory=list)
    """What happened to the rows for which arithmetic fails, for each watch of the program."""
    rewritten: int = 0
    """Rows of older runs that were merged into new ones."""
    worked: StepWork = field(default_factory=lambda: StepWork([], [], [], []))
    seconds: Seconds = field(default_factory=Seconds)
    buckets: list[int] = field(default_factory=list)
    """The buckets that the task had."""
    whole: list[str] = field(default_factory=list)
    """The tables of which the task had all buckets."""
    shuffled: int = 0
    """Rows that were sent to other tasks."""
    attempt: str = ""

    def as_json(self) -> dict[str, Any]:
        """The same as JSON data."""
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
        data: dict[str, Any], schemas: Iterable[tuple[str, TableSchema]], buckets: int
    ) -> BatchResult:
        """The inverse of `as_json`, for tables of these schemas."""
        named = [(name, schema) for name, schema in schemas if name in data["tables"]]
        return BatchResult(**{
            **data,
            "tables": tables_of_json(data["tables"], named, buckets),
            "parts": [Part(**part) for part in data["parts"]],
            "watched": [BagChange(**change) for change in data["watched"]],
            "worked": StepWork(**data["worked"]),
            "seconds": Seconds(**data["seconds"]),
        })  # fmt: skip


def combine_results(request: BatchRequest, results: Sequence[BatchResult]) -> BatchResult:
    """The result of a whole batch, with all tables, from those of tasks with separate buckets."""
    all_buckets = frozenset(range(request.buckets))
    total = BatchResult(dict(request.tables), buckets=sorted(all_buckets))
    pieces: dict[str, list[tuple[StateTable, frozenset[int]]]] = {}
    for result in results:
        for name, table in result.tables.items():
            own = all_buckets if name in result.whole else frozenset(result.buckets)
            pieces.setdefault(name, []).append((table, own))
        total.parts += result.parts
        total.changed = _sums(total.changed, result.changed)
        total.watched = _sums(total.watched, result.watched)
        total.rewritten += result.rewritten
        total.shuffled += result.shuffled
        total.seconds = total.seconds + result.seconds
        if not total.worked.sent:
            total.worked = result.worked
        elif result.worked.sent:
            total.worked.add(result.worked)
    for name, tables in pieces.items():
        # Buckets that no task had keep the segments they had before the batch.
        rest = request.tables[name].only(all_buckets.difference(*[own for _, own in tables]))
        total.tables[name] = combine_tables([rest, *[table for table, _ in tables]])
    return total


def _sums(one: list[Any], two: list[Any]) -> list[Any]:
    if not one or not two:
        return one or two
    return [a + b for a, b in zip(one, two, strict=True)]
