"""Folder sinks: `batch=000012/` appears whole, by rename, when its batch is committed.

Tasks write parts to a hidden folder of their attempt.  Publishing moves the parts that the
manifest names to a folder of their own, and renames that; doing it again does no harm.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from incmrql.diagnostics import CheckpointError
from incmrql.kernel.runs import sync_folder


def published(output: Path, number: int) -> Path:
    """The folder of a batch's output."""
    return output / f"batch={number:06d}"


def prepare(output: Path, number: int, attempt: str) -> Path:
    """A hidden folder for the parts that an attempt writes."""
    folder = _staging(output, number, attempt)
    folder.mkdir(parents=True)
    return folder


def publish(output: Path, number: int, attempt: str, parts: tuple[str, ...]) -> Path:
    """Make the output of a committed batch appear; it may have appeared already."""
    final, staging = published(output, number), _staging(output, number, attempt)
    ready = output / f".incmrql-{number:06d}.ready"
    if not final.exists() and (staging.exists() or ready.exists()):
        ready.mkdir(exist_ok=True)
        for part in parts:
            if (staging / part).exists():
                (staging / part).replace(ready / part)
            elif not (ready / part).exists():
                raise CheckpointError(f"part {part} of batch {number} is missing in {staging}")
        sync_folder(ready)
        ready.replace(final)
        sync_folder(output)
    shutil.rmtree(staging, ignore_errors=True)
    return final


def leftovers(output: Path) -> Iterator[Path]:
    """Hidden folders of attempts."""
    return output.glob(".incmrql-*") if output.exists() else iter(())


def _staging(output: Path, number: int, attempt: str) -> Path:
    return output / f".incmrql-{number:06d}-{attempt}"
