"""The reports of a run: the work of each batch in numbers, events, and the status."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from incmrql.engine.inputs import InputFile
from incmrql.engine.jobs import JobResult
from incmrql.engine.messages import Reading
from incmrql.io.notices import SourceFacts
from incmrql.io.rows import ReadReport
from incmrql.plan.access import SCOPES, Scope
from incmrql.runtime.arithmetic import Failures
from incmrql.runtime.checkpoint.manifests import State
from incmrql.runtime.waiting import SourceLag
from incmrql.values import Value


@dataclass(frozen=True, slots=True)
class NodeWork:
    """The work of a node in a batch: rows that it sent on and read from state, seconds, values."""

    sent: int
    read: int
    seconds: float
    by_row: int
    """Values that Python handled one by one."""
    scope: Scope
    """What the node may read: the change and its partners, whole groups, or tables."""


@dataclass(frozen=True, slots=True)
class LoopWork:
    """How a batch maintained a loop, and why in this way; its steps and the rows they produced."""

    way: Literal["exact", "recompute", "diffuse"]
    reason: str
    steps: int
    rows: int
    error: Mapping[str, Any] | None = None
    """For a loop that diffuses: the bound on its error."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The numbers of a batch; times are in seconds, by phase."""

    number: int
    files: int
    rows_in: int
    inserted: int
    deleted: int
    bad: ReadReport
    """The lines that could not be read as rows."""
    bad_places: tuple[tuple[str, int], ...]
    """The files with such lines, each with the index of its source."""
    changed: int
    """Rows of the changes of all answers."""
    rewritten: int
    """Rows of older segments that were merged."""
    jobs: int
    stages: int
    tasks: int
    rows_shuffled: int
    """Rows sent between tasks, after what a task could add up was added up."""
    state_rows: int
    state_bytes: int
    state_read: int
    """Rows of state that were read."""
    read_by_scope: Mapping[Scope, int]
    """The same, by the scope of the nodes that read them."""
    rows_by_row: int
    """Rows that Python read or computed one by one, instead of whole columns at once."""
    nodes: tuple[NodeWork, ...]
    loops: tuple[LoopWork, ...]
    """The loops that the batch changed."""
    read: float
    """Summed over tasks, like `kernel` and `write`."""
    kernel: float
    write: float
    job: float
    """The time that the driver waits for the Spark job."""
    commit: float
    publish: float
    seconds: float
    outputs: tuple[Path, ...]
    """The directories that were published."""
    notices: tuple[str, ...] = ()
    """Notices about the sources since the previous batch, such as lines that a socket dropped."""
    errors: Failures | None = None
    """The rows for which arithmetic fails after the batch; None if failures are not tracked."""
    lags: tuple[SourceLag, ...] = ()
    """How far each source lags of which the batch ingested files or left some waiting."""
    noticed: Mapping[int, SourceFacts] = field(default_factory=dict)
    """Facts about the rows that were read, by the index of their source."""

    @property
    def lag(self) -> float | None:
        """Seconds that the source lags that lags most.

        None without files, and for the first batch, which reads what was there before.
        """
        return max((lag.seconds for lag in self.lags), default=None) if self.number else None


def report_of(
    state: State,
    files: Sequence[InputFile],
    result: JobResult,
    times: tuple[float, float, float, float],
    outputs: Sequence[Path],
    scopes: Sequence[Scope],
) -> BatchReport:
    """The report of a batch; `times` are those of job, commit, publish and the whole batch."""
    reading, done = result.reading, result.done
    job, commit, publish, whole = times
    worked = done.worked
    # A batch that no task worked on has no numbers by node.
    known = scopes if worked.sent else ()
    by_node = zip(worked.sent, worked.read, worked.seconds, worked.by_row, known, strict=True)
    nodes = tuple(NodeWork(*work) for work in by_node)
    return BatchReport(
        number=state.number,
        files=len(files),
        rows_in=reading.inserted + reading.deleted,
        inserted=reading.inserted,
        deleted=reading.deleted,
        bad=_bad(reading),
        bad_places=tuple((file.path, file.place) for file in files if file.path in reading.bad),
        changed=sum(done.changed),
        rewritten=done.rewritten,
        jobs=result.jobs,
        stages=result.stages,
        tasks=result.tasks,
        rows_shuffled=reading.shuffled + done.shuffled,
        state_rows=state.rows,
        state_bytes=state.size,
        state_read=sum(worked.read),
        read_by_scope={
            scope: sum(node.read for node in nodes if node.scope == scope) for scope in SCOPES
        },
        rows_by_row=reading.by_row + sum(worked.by_row),
        nodes=nodes,
        loops=tuple(LoopWork(**note) for _, note in sorted(worked.notes.items())),
        read=reading.seconds,
        kernel=done.seconds.kernel,
        write=done.seconds.write,
        job=job,
        commit=commit,
        publish=publish,
        seconds=whole,
        outputs=tuple(outputs),
        noticed={int(place): noticed for place, noticed in reading.noticed.items()},
    )


def _bad(reading: Reading) -> ReadReport:
    rows = reading.inserted + reading.deleted
    bad, first = tuple(reading.bad.items()), tuple(reading.first_bad)
    return ReadReport(rows, reading.bad.total(), bad, first)


# --- For users ---


class Batch:
    """A finished batch: its number, the changes of the answer, and all numbers of its report."""

    def __init__(
        self,
        report: BatchReport,
        load: Callable[[int], list[tuple[Value, int]]],
        number_of: Callable[[int | str], int],
        show: Callable[[Batch], str] = repr,
    ) -> None:
        self.report = report
        self._load, self._number_of, self._show = load, number_of, show
        self._changes: dict[int, list[tuple[Value, int]]] = {}

    @property
    def number(self) -> int:
        """The number of the batch, from 0."""
        return self.report.number

    @property
    def seconds(self) -> float:
        """The time that the batch took."""
        return self.report.seconds

    @property
    def rows_in(self) -> int:
        """Rows that were inserted or deleted."""
        return self.report.rows_in

    @property
    def state_rows(self) -> int:
        """Rows of all state tables after the batch."""
        return self.report.state_rows

    def changes(self, item: int | str = 0) -> list[tuple[Value, int]]:
        """The changes of an item's answer: rows with their weights, negative for deletions."""
        number = self._number_of(item)
        if number not in self._changes:
            self._changes[number] = self._load(number)
        return list(self._changes[number])

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

    def _repr_html_(self) -> str:
        return self._show(self)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a run: a batch, or a problem."""

    time: float
    """Seconds since 1970."""
    report: BatchReport | None = None
    problem: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a run.

    `ready`: it waits for `step`; `running`: its background loop runs; `finished`: the loop has
    ended; `failed`: the loop has ended with a problem; `stopped`: `stop` was called.
    """

    state: Literal["ready", "running", "finished", "failed", "stopped"]
    batch: int
    """The last batch, -1 before the first."""
    state_rows: int
    state_bytes: int
    problem: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification that found no difference."""

    batch: int
    """The last batch that the answers include."""
    rows: int
    """Rows of all answers."""
    seconds: float

    def __str__(self) -> str:
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return f"verified after batch {self.batch}: {rows} as over all data, {self.seconds:.1f} s"
