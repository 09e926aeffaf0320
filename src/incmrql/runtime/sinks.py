"""Folder sinks: `batch=000012/` appears whole, by rename, when its batch is committed.

Tasks write parts to a hidden folder of their attempt.  Publishing moves the parts that the
manifest names to a folder of their own, and renames that; doing it again does no harm.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from incmrql.diagnostics import CheckpointError
from incmrql.formats.replacing import unwritable
from incmrql.incremental.streams import Program
from incmrql.kernel.crashing import crash_here
from incmrql.kernel.orders import Format
from incmrql.kernel.runs import sync_folder


@dataclass(frozen=True, slots=True)
class Sink:
    """A folder that gets an answer, batch by batch."""

    answer: int
    folder: Path
    mode: Literal["changes", "snapshot"]
    format: Format


def sinks_of(
    program: Program,
    output: Path | None,
    mode: Literal["changes", "snapshot"],
    format_: Format,
) -> list[Sink]:
    """The folders of a program's answers: those that items name, and `output` for the others.

    Several items that name none have folders `1`, `2`, … in it.
    """
    found = []
    others = [n for n, each in enumerate(program.outputs) if each.kind not in ("store", "dump")]
    for number, each in enumerate(program.outputs):
        if each.kind == "store":
            found.append(Sink(number, Path(each.target), mode, "parquet"))
        elif each.kind == "dump":
            found.append(Sink(number, *_dumped(each.target, mode, format_)))
        elif output is not None:
            own = output if len(others) == 1 else output / str(others.index(number) + 1)
            found.append(Sink(number, own, mode, format_))
    return found


def _dumped(
    target: str, mode: Literal["changes", "snapshot"], format_: Format
) -> tuple[Path, Literal["changes", "snapshot"], Format]:
    """The folder of a `dump`, whose ending says what is in it."""
    ending = Path(target).suffix
    text: Format = "csv" if ending in (".csv", ".txt") or format_ == "csv" else "json"
    return Path(target), mode, "json" if ending == ".json" else text


def published(output: Path, number: int) -> Path:
    """The folder of a batch's output."""
    return output / f"batch={number:06d}"


def prepare(output: Path, number: int, attempt: str) -> Path:
    """A hidden folder for the parts that an attempt writes."""
    if published(output, number).exists():
        message = f"{output} has the output of batch {number} of another run"
        hint = "Give another folder, or the checkpoint of that run; or remove what is there."
        raise CheckpointError(f"error: {message}\n = hint: {hint}")
    folder = _staging(output, number, attempt)
    try:
        folder.mkdir(parents=True)
    except OSError as cause:
        raise unwritable(output, (cause.strerror or str(cause)).lower()) from cause
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
        crash_here("parts", number)
        ready.replace(final)
        sync_folder(output)
    shutil.rmtree(staging, ignore_errors=True)
    return final


def unpublished(number: int, why: str) -> CheckpointError:
    """A batch that is committed, and whose output could not be moved to its place."""
    message = f"batch {number} is committed, but its output could not be published: {why}"
    hint = "It is published before the next batch, or when the run is started again."
    return CheckpointError(f"error: {message}\n = hint: {hint}")


def leftovers(output: Path) -> Iterator[Path]:
    """Hidden folders of attempts."""
    return output.glob(".incmrql-*") if output.exists() else iter(())


def _staging(output: Path, number: int, attempt: str) -> Path:
    return output / f".incmrql-{number:06d}-{attempt}"
