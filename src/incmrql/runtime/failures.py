"""Failures of a batch that its data did not cause, such as full disks and lost executors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from incmrql.errors import CheckpointError, DataError

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_SYSTEM = re.compile(
    r"^(?:\w*Error|OSError): \[Errno \d+\] (?P<why>[^\n:]+)(?:: '(?P<path>[^'\n]*)')?", re.MULTILINE
)
"""An error of the operating system, as a Python worker reports it."""


def write_failure(number: int, why: str) -> CheckpointError:
    """The error for a batch whose files could not be written."""
    message = f"batch {number} could not be written: {why}"
    return CheckpointError(
        f"error: {message}\n"
        " = hint: Everything committed before is unchanged. "
        "Fix the problem and run again: the batch is then repeated."
    )


def start_error(checkpoint: Path, cause: OSError) -> CheckpointError:
    """The error for a checkpoint that cannot be created, read or locked at the start of a run."""
    why = (cause.strerror or str(cause)).lower()
    hint = "Everything committed before is unchanged. Use a writable directory with enough space."
    place = f"\n --> {cause.filename}" if cause.filename else ""
    message = f"checkpoint {checkpoint} could not be written: {why}"
    return CheckpointError(f"error: {message}{place}\n = hint: {hint}")


def _resource_error(number: int, why: str) -> CheckpointError:
    """The error for a batch that ran out of a resource."""
    return CheckpointError(
        f"error: batch {number} was not finished: {why}\n"
        " = hint: Everything committed before is unchanged. Run again with more memory for Spark "
        "(--conf spark.driver.memory=8g), or with fewer files per batch (--max-files-per-batch)."
    )


@contextmanager
def spark_failures(number: int) -> Iterator[None]:
    """Turns failures of the Spark job of a batch into errors of incmrql."""
    try:
        yield
    except Exception as problem:
        if not type(problem).__module__.startswith("pyspark."):
            raise
        from incmrql.spark.clusters import error_of, is_out_of_memory

        if is_out_of_memory(str(problem)):
            raise _resource_error(number, "Spark ran out of memory") from None
        causes = list(_SYSTEM.finditer(str(problem)))
        if causes:  # the last error is the one that ended the task
            where = f" ({causes[-1]['path']})" if causes[-1]["path"] else ""
            raise write_failure(number, f"{causes[-1]['why'].lower()}{where}") from None
        raise error_of(cast("PySparkException", problem)) from None


@contextmanager
def unskippable(skip_batch: int | None) -> Iterator[None]:
    """Explains, for a file that changed or vanished, why skipping a batch does not help."""
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
