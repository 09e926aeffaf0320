"""What stops a batch that is not about its data: full disks, lost executors; in our words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from incmrql.errors import CheckpointError, DataError

_SYSTEM = re.compile(
    r"^(?:\w*Error|OSError): \[Errno \d+\] (?P<why>[^\n:]+)(?:: '(?P<path>[^'\n]*)')?", re.MULTILINE
)
"""An error of the operating system, as a Python worker tells it."""


def unwritten(number: int, why: str) -> CheckpointError:
    """A batch whose files could not be written."""
    message = f"batch {number} could not be written: {why}"
    return CheckpointError(
        f"error: {message}\n"
        " = hint: What was committed before is as it was. "
        "When that is fixed, run again: the batch is done once more."
    )


def unstarted(checkpoint: Path, cause: OSError) -> CheckpointError:
    """A checkpoint in which something cannot be created, read or locked at the start of a run."""
    why = (cause.strerror or str(cause)).lower()
    hint = "What was committed before is as it was. Give a folder that you may write, with room."
    place = f"\n --> {cause.filename}" if cause.filename else ""
    message = f"checkpoint {checkpoint} could not be written: {why}"
    return CheckpointError(f"error: {message}{place}\n = hint: {hint}")


def _unfinished(number: int, why: str) -> CheckpointError:
    """A batch that needs more than there is."""
    return CheckpointError(
        f"error: batch {number} was not finished: {why}\n"
        " = hint: What was committed before is as it was. Run again with more memory for Spark "
        "(--conf spark.driver.memory=8g), or with fewer files in a batch (--max-files-per-batch)."
    )


@contextmanager
def spark_failures(number: int) -> Iterator[None]:
    """The job of a batch, whose failure is told in our words."""
    from pyspark.errors import PySparkException

    from incmrql.spark.clusters import error_of, is_out_of_memory

    try:
        yield
    except PySparkException as problem:
        if is_out_of_memory(str(problem)):
            raise _unfinished(number, "there was too little memory") from None
        causes = list(_SYSTEM.finditer(str(problem)))
        if causes:  # the last one is what the task ended with
            where = f" ({causes[-1]['path']})" if causes[-1]["path"] else ""
            raise unwritten(number, f"{causes[-1]['why'].lower()}{where}") from None
        raise error_of(problem) from None


@contextmanager
def unskippable(skip_batch: int | None) -> Iterator[None]:
    """Say of a file that changed or vanished why it cannot be left out by skipping a batch."""
    try:
        yield
    except DataError as problem:
        if skip_batch is None or problem.code not in ("R301", "R302"):
            raise
        why = (
            f"--skip-batch {skip_batch} does not help: it leaves out what batch {skip_batch} would "
            "ingest, and this file was ingested before."
        )
        hint = f"{problem.hint} {why}"
        raise DataError(problem.code, problem.message, place=problem.place, hint=hint) from None
