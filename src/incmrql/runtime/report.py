"""What a batch did, in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from incmrql.formats import ReadReport
from incmrql.formats.notices import Noticed
from incmrql.incremental.access import SCOPES, Scope
from incmrql.kernel.inputs import InputFile
from incmrql.kernel.orders import Reading
from incmrql.runtime.arithmetic import Failures
from incmrql.runtime.checkpoint import State
from incmrql.spark.streaming import JobResult


@dataclass(frozen=True, slots=True)
class NodeWork:
    """What a node did in a batch: rows that it sent on, rows of state that it read, seconds."""

    sent: int
    read: int
    seconds: float
    scope: Scope
    """What it may read: the change and its partners, whole groups, or tables."""


@dataclass(frozen=True, slots=True)
class LoopWork:
    """How a loop was kept up to date in a batch, and why so; its steps, and rows that they made."""

    way: Literal["exact", "recompute", "diffuse"]
    reason: str
    steps: int
    rows: int
    error: Mapping[str, Any] | None = None
    """Of a loop that diffuses: what is known of its error."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """A batch in numbers; seconds by phase."""

    number: int
    files: int
    rows_in: int
    inserted: int
    deleted: int
    bad: ReadReport
    """Lines that are no rows."""
    bad_places: tuple[tuple[str, int], ...]
    """Files with such lines, and the places of their sources."""
    changed: int
    """Rows of the changes of all answers."""
    rewritten: int
    """Rows of older runs that were merged."""
    jobs: int
    stages: int
    tasks: int
    rows_shuffled: int
    """Rows that were sent from task to task, added up as far as that went before."""
    state_rows: int
    state_bytes: int
    state_read: int
    """Rows of state that were looked at."""
    read_by_scope: Mapping[Scope, int]
    """The same, by what the nodes that read them may read."""
    nodes: tuple[NodeWork, ...]
    loops: tuple[LoopWork, ...]
    """Those that something reached."""
    read: float
    """In tasks, added up; so are `kernel` and `write`."""
    kernel: float
    write: float
    job: float
    """The Spark job, as the driver waits for it."""
    commit: float
    publish: float
    seconds: float
    outputs: tuple[Path, ...]
    """The folders that appeared."""
    notices: tuple[str, ...] = ()
    """What was said of the sources since the batch before, such as lines that a socket dropped."""
    errors: Failures | None = None
    """Rows for which arithmetic fails after the batch; None where nothing is watched."""
    noticed: Mapping[int, Noticed] = field(default_factory=dict)
    """Facts about the rows that were read, by the place of their source."""


def report_of(
    state: State,
    files: Sequence[InputFile],
    result: JobResult,
    times: tuple[float, float, float, float],
    outputs: Sequence[Path],
    scopes: Sequence[Scope],
) -> BatchReport:
    """The report of a batch; the times are those of job, commit, publish and all together."""
    reading, done = result.reading, result.done
    job, commit, publish, whole = times
    worked = done.worked
    # A batch that no task worked on has no numbers by node.
    known = scopes if worked.sent else ()
    each = zip(worked.sent, worked.read, worked.seconds, known, strict=True)
    nodes = tuple(NodeWork(*work) for work in each)
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
