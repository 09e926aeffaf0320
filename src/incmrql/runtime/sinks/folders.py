"""Directory sinks: `batch=000012/` appears as a whole, by rename, when its batch is committed.

Tasks write parts to a hidden directory of their attempt. Publishing moves the parts that the
manifest names to a new hidden directory, and renames that. It may happen twice, or in two drivers
at once: whoever comes first moves a part, and a directory that has appeared is left alone. The
names of hidden directories contain the id of the checkpoint, so several runs can share an output
directory without touching each other's files.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from incmrql.engine.messages import Format, Part, Target
from incmrql.errors import CheckpointError
from incmrql.plan.program import Program
from incmrql.runtime.checkpoint.manifests import PublishedOutput
from incmrql.storage import fsync
from incmrql.storage.files import crash_here, write_error


@dataclass(frozen=True, slots=True)
class Sink:
    """A directory that gets an answer, batch by batch."""

    answer: int
    folder: Path
    mode: Literal["changes", "snapshot"]
    format: Format
    named: bool = False
    """Whether an item of the script names the directory."""


def sinks_of(
    program: Program,
    output: Path | None,
    mode: Literal["changes", "snapshot"],
    format_: Format,
) -> list[Sink]:
    """The sinks of a program's answers: those that items name, and `output` for the others.

    Several items without a name get the directories `1`, `2`, … in `output`.
    """
    sinks = []
    items = list(enumerate(program.outputs))
    unnamed = [number for number, item in items if item.kind not in ("store", "dump")]
    for number, item in items:
        if item.kind == "store":
            sinks.append(Sink(number, Path(item.target), mode, "parquet", named=True))
        elif item.kind == "dump":
            sinks.append(Sink(number, *_dump_target(item.target, mode, format_), named=True))
        elif output is not None:
            name = item.target or str(unnamed.index(number) + 1)
            own = output if len(unnamed) == 1 else output / name
            sinks.append(Sink(number, own, mode, format_))
    return sinks


def _dump_target(
    target: str, mode: Literal["changes", "snapshot"], format_: Format
) -> tuple[Path, Literal["changes", "snapshot"], Format]:
    """The directory, mode and format of a `dump`; the ending of its path decides the format."""
    ending = Path(target).suffix
    text: Format = "csv" if ending in (".csv", ".txt") or format_ == "csv" else "json"
    return Path(target), mode, "json" if ending == ".json" else text


def outputs_of(
    attempt: str, bound: Sequence[Sink], targets: Sequence[Target], parts: Sequence[Part]
) -> tuple[PublishedOutput, ...]:
    """The outputs to publish, with the parts that tasks wrote."""
    return tuple(
        PublishedOutput(
            str(sink.folder.absolute()),
            attempt,
            tuple(part.file for part in parts if part.target == index),
        )
        for index, (sink, _) in enumerate(zip(bound, targets, strict=False))
    )


def batch_folder(output: Path, number: int) -> Path:
    """The directory of a batch's output."""
    return output / f"batch={number:06d}"


def prepare(output: Path, owner: str, number: int, attempt: str) -> Path:
    """Create a hidden directory for the parts that an attempt writes."""
    if batch_folder(output, number).exists():
        message = f"{output} has the output of batch {number} of another run"
        hint = "Use a different directory or the checkpoint of that run, or remove that output."
        raise CheckpointError(f"error: {message}\n = hint: {hint}")
    folder = staging(output, owner, number, attempt)
    try:
        folder.mkdir(parents=True)
    except OSError as cause:
        raise write_error(output, (cause.strerror or str(cause)).lower()) from cause
    return folder


def publish(output: PublishedOutput, owner: str, number: int) -> Path:
    """Publish the output of a committed batch, unless that is done; returns its directory."""
    folder = Path(output.folder)
    final, parts = batch_folder(folder, number), staging(folder, owner, number, output.attempt)
    ready = folder / f".incmrql-{owner}-{number:06d}.ready"
    if not final.exists():
        ready.mkdir(parents=True, exist_ok=True)
        is_whole = all(_move(parts / part, ready / part) for part in output.parts)
        if not is_whole and not final.exists():
            raise _missing(output, number, parts)
        if is_whole:
            fsync(ready)
            crash_here("parts", number)
            try:
                ready.replace(final)
            except OSError:  # another driver was first
                if not final.exists():
                    raise
        with suppress(OSError):
            ready.rmdir()
        fsync(folder)
    shutil.rmtree(parts, ignore_errors=True)
    return final


def _move(part: Path, target: Path) -> bool:
    """Move a part, unless another publisher has; returns whether the target exists now."""
    try:
        part.replace(target)
    except FileNotFoundError:
        return target.exists()
    return True


def _missing(output: PublishedOutput, number: int, parts: Path) -> CheckpointError:
    message = f"batch {number} is committed, but its output is neither in {parts} nor published"
    hint = (
        f"Restore what was removed. If {batch_folder(Path(output.folder), number).name} was "
        "published and used already, create an empty directory of that name."
    )
    return CheckpointError(f"error: {message}\n = hint: {hint}")


def unpublished_error(number: int, why: str) -> CheckpointError:
    """The error for a committed batch whose output could not be published."""
    message = f"batch {number} is committed, but its output could not be published: {why}"
    hint = "It will be published before the next batch, or when the run is started again."
    return CheckpointError(f"error: {message}\n = hint: {hint}")


def leftovers(output: Path, owner: str) -> Iterator[Path]:
    """The hidden directories of this checkpoint's attempts."""
    return output.glob(f".incmrql-{owner}-*") if output.exists() else iter(())


def staging(output: Path, owner: str, number: int, attempt: str) -> Path:
    """The hidden directory of an attempt."""
    return output / f".incmrql-{owner}-{number:06d}-{attempt}"
