"""What a batch did, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from incmrql.formats import ReadReport
from incmrql.kernel.order import Taken
from incmrql.runtime.checkpoint import State
from incmrql.spark.stream import JobResult


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
    touched: int
    """Keys that the batch has touched."""
    changed: int
    """Rows of the change of the answer."""
    rewritten: int
    """Rows of older runs that were merged."""
    jobs: int
    stages: int
    tasks: int
    state_rows: int
    state_bytes: int
    read: float
    """In tasks, added up; so are `kernel` and `write`."""
    kernel: float
    write: float
    job: float
    """The Spark job, as the driver waits for it."""
    commit: float
    publish: float
    seconds: float
    output: Path | None


def report_of(
    state: State,
    files: int,
    result: JobResult,
    times: tuple[float, float, float, float],
    output: Path | None,
) -> BatchReport:
    """The report of a batch; the times are those of job, commit, publish and all together."""
    taken, applied = result.taken, result.applied
    seconds = taken.seconds + applied.seconds
    job, commit, publish, whole = times
    return BatchReport(
        number=state.number,
        files=files,
        rows_in=taken.inserted + taken.deleted,
        inserted=taken.inserted,
        deleted=taken.deleted,
        bad=_bad(taken),
        touched=applied.touched,
        changed=applied.changed,
        rewritten=applied.rewritten,
        jobs=result.jobs,
        stages=result.stages,
        tasks=result.tasks,
        state_rows=sum(table.rows for table in state.tables),
        state_bytes=sum(table.size for table in state.tables),
        read=seconds.read,
        kernel=seconds.kernel,
        write=seconds.write,
        job=job,
        commit=commit,
        publish=publish,
        seconds=whole,
        output=output,
    )


def _bad(taken: Taken) -> ReadReport:
    rows = taken.inserted + taken.deleted
    return ReadReport(rows, taken.bad.total(), tuple(taken.bad.items()), tuple(taken.first_bad))
