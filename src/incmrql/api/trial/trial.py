"""Tries a query on data that change: every batch is verified, and timed against recomputation.

Each batch runs twice, one after the other: incrementally, and as the whole query by plain Spark
over a snapshot of the rows that are there.  Both run in the same Spark session.  What is timed of
plain Spark is the computation of its answer, which goes nowhere; the same plan is asked once more
for the rows that are compared.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from incmrql.api.trial.cuts import History
from incmrql.api.trial.queries import TableUse, TriedQuery
from incmrql.errors import DataError, Diagnostic, DifferenceFound

if TYPE_CHECKING:
    from incmrql.api.runs import Run


LEAST_BATCHES: Final = 3
"""Batches after the first that are run, however long they take."""
OPEN_CHOICE: Final = "canonical order"
"""Words of a note on a choice that Spark leaves open, so that its rows may be others."""


@dataclass(frozen=True, slots=True)
class TriedBatch:
    """A batch of a trial: its size, both times, the state after it, and whether it was right."""

    number: int
    inserted: int
    deleted: int
    changed: int
    """Rows of the change of the answers."""
    seconds: float
    """The time of the incremental batch."""
    again: float
    """The time of plain Spark for the whole query over all rows."""
    input_rows: int
    """Rows of all changing tables after the batch."""
    answer_rows: int
    state_rows: int
    state_bytes: int
    read: Mapping[str, int]
    """Rows of state that were read, by the scope of the nodes that read them."""
    judge: str
    difference: str = ""
    """How the answer differs from that of the judge; empty if it does not."""


@dataclass(slots=True)
class Trial:
    """The result of a trial."""

    tables: Sequence[TableUse]
    judge: str
    warnings: Sequence[Diagnostic]
    notes: Sequence[str]
    batches: list[TriedBatch] = field(default_factory=list)
    rebuilt: Literal["equal", "different", "not compared"] = "not compared"
    """How the state compares with one that is built from all rows at once."""
    rebuilt_difference: str = ""
    out_of_time: bool = False
    """Whether there was no time for all batches."""

    @property
    def is_right(self) -> bool:
        """Whether no answer and no state was wrong."""
        is_equal = not any(batch.difference for batch in self.batches)
        return bool(self.batches) and is_equal and self.rebuilt != "different"

    @property
    def later(self) -> Sequence[TriedBatch]:
        """The batches after the first, which loads the data."""
        return self.batches[1:]

    @property
    def seconds(self) -> float:
        """The median time of a batch."""
        return median(batch.seconds for batch in self.later)

    @property
    def again(self) -> float:
        """The median time of plain Spark."""
        return median(batch.again for batch in self.later)

    def as_json(self) -> dict[str, Any]:
        """Everything as data."""
        return {
            "right": self.is_right,
            "judge": self.judge,
            "state": self.rebuilt,
            "state_difference": self.rebuilt_difference,
            "seconds": self.seconds if self.later else None,
            "spark_seconds": self.again if self.later else None,
            "out_of_time": self.out_of_time,
            "tables": [asdict(use) for use in self.tables],
            "warnings": [warning.as_json() for warning in self.warnings],
            "notes": list(self.notes),
            "batches": [asdict(batch) for batch in self.batches],
        }


class Progress(Protocol):
    """Receives the steps of a trial."""

    def doing(self, what: str) -> None:
        """Called with what begins now."""

    def batch(self, batch: TriedBatch) -> None:
        """Called after each batch."""


def run_trial(
    query: TriedQuery,
    history: History,
    progress: Progress,
    *,
    warnings: Sequence[Diagnostic] = (),
    longest: float = float("inf"),
) -> Trial:
    """Run all batches of a trial, verify and time each; stops after `longest` seconds."""
    trial = Trial(query.uses, query.judge, warnings, query.notes)
    begun = time.monotonic()
    there = 0
    with query.start() as run:
        for number in range(history.batches + 1):
            is_late = time.monotonic() - begun > longest
            if is_late and len(trial.later) >= min(LEAST_BATCHES, history.batches):
                trial.out_of_time = True
                break
            inserted, deleted = query.advance()
            there += inserted - deleted
            if not inserted + deleted:
                break  # all rows are there, and none is deleted
            which = f"batch {number} of {history.batches}"
            progress.doing(f"{which}: incrementally" if number else "the first load")
            batch = _batch(run, query, number, (inserted, deleted, there), progress, which)
            trial.batches.append(batch)
            progress.batch(batch)
        if not trial.out_of_time and trial.is_right:
            progress.doing("the state: built again from all rows")
            _compare_state(run, trial)
    return trial


def _batch(
    run: Run,
    query: TriedQuery,
    number: int,
    counts: tuple[int, int, int],
    progress: Progress,
    which: str,
) -> TriedBatch:
    begun = time.perf_counter()
    batch = run.step()
    seconds = time.perf_counter() - begun
    assert batch is not None, "the batch has rows"
    progress.doing(f"{which}: all of it again by plain Spark")
    recomputation = query.recomputation()
    if not number:
        recomputation.measure()  # the first time compiles code and reads files
    again = recomputation.measure()
    progress.doing(f"{which}: comparing the answers")
    judge, difference, rows = query.judge, "", 0
    for item in range(run.answers):
        try:
            rows += run.compare(recomputation.rows(item), item, may_round=query.may_round)
        except DifferenceFound as problem:
            if any(OPEN_CHOICE in note for note in query.notes):
                judge = "the reference evaluator, since Spark leaves a choice open"
                difference = _second_opinion(run)
            else:
                difference = problem.message
            break
    report = batch.report
    return TriedBatch(
        number,
        *counts[:2],
        report.changed,
        seconds,
        again,
        counts[2],
        rows,
        report.state_rows,
        report.state_bytes,
        {str(scope): count for scope, count in report.read_by_scope.items()},
        judge,
        difference,
    )


def _second_opinion(run: Run) -> str:
    """How the answers differ from those of the reference evaluator; empty if they do not."""
    try:
        run.verify(against="reference")
    except DifferenceFound as problem:
        return problem.message
    return ""


def _compare_state(run: Run, trial: Trial) -> None:
    """Compare the state with one that is built from all rows at once."""
    try:
        run.verify_state()
    except DifferenceFound as problem:
        trial.rebuilt, trial.rebuilt_difference = "different", problem.message
    else:
        trial.rebuilt = "equal"


@contextmanager
def trial_folder(keep: Path | None) -> Iterator[Path]:
    """A folder for the files of a trial, removed at the end unless it is to be kept.

    SIGTERM ends the process as Ctrl-C does, so that the folder is removed.
    """
    if keep is not None:
        if keep.exists() and any(keep.iterdir()):
            raise DataError("R315", f"{keep} is not empty", hint="Name a new folder.")
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.absolute()
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix="incmrql-try-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


__all__ = ["Progress", "Trial", "TriedBatch", "run_trial", "trial_folder"]
