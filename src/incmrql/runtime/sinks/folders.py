"""Folder sinks: `batch=000012/` appears whole, by rename, when its batch is committed.

Tasks write parts to a hidden folder of their attempt. Publishing moves the parts that the manifest
names to a folder of their own, and renames that. It may be done twice, or by two drivers at once:
a part is moved by whoever comes first, and a folder that has appeared is left alone. Hidden folders
carry the id of the checkpoint, so that several runs can share an output folder's parent, or even
the folder, without touching each other's.
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
from incmrql.runtime.checkpoint.manifests import Output
from incmrql.storage import fsync
from incmrql.storage.files import crash_here, write_error


@dataclass(frozen=True, slots=True)
class Sink:
    """A folder that gets an answer, batch by batch."""

    answer: int
    folder: Path
    mode: Literal["changes", "snapshot"]
    format: Format
    named: bool = False
    """Whether an item of the script names the folder."""


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
            found.append(Sink(number, Path(each.target), mode, "parquet", named=True))
        elif each.kind == "dump":
            found.append(Sink(number, *_dumped(each.target, mode, format_), named=True))
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


def outputs_of(
    attempt: str, bound: Sequence[Sink], targets: Sequence[Target], parts: Sequence[Part]
) -> tuple[Output, ...]:
    """The outputs that are published, with the parts that tasks have written."""
    return tuple(
        Output(
            str(sink.folder.absolute()),
            attempt,
            tuple(part.file for part in parts if part.target == place),
        )
        for place, (sink, _) in enumerate(zip(bound, targets, strict=False))
    )


def batch_folder(output: Path, number: int) -> Path:
    """The folder of a batch's output."""
    return output / f"batch={number:06d}"


def prepare(output: Path, owner: str, number: int, attempt: str) -> Path:
    """Create a hidden folder for the parts that an attempt writes."""
    if batch_folder(output, number).exists():
        message = f"{output} has the output of batch {number} of another run"
        hint = "Give another folder, or the checkpoint of that run; or remove what is there."
        raise CheckpointError(f"error: {message}\n = hint: {hint}")
    folder = staging(output, owner, number, attempt)
    try:
        folder.mkdir(parents=True)
    except OSError as cause:
        raise write_error(output, (cause.strerror or str(cause)).lower()) from cause
    return folder


def publish(output: Output, owner: str, number: int) -> Path:
    """Make the output of a committed batch appear; it may have appeared already."""
    folder = Path(output.folder)
    final, parts = batch_folder(folder, number), staging(folder, owner, number, output.attempt)
    ready = folder / f".incmrql-{owner}-{number:06d}.ready"
    if not final.exists():
        ready.mkdir(parents=True, exist_ok=True)
        is_whole = all(_moved(parts / part, ready / part) for part in output.parts)
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


def _moved(part: Path, target: Path) -> bool:
    """Move a part, unless another publisher has; whether it is where it should be."""
    try:
        part.replace(target)
    except FileNotFoundError:
        return target.exists()
    return True


def _missing(output: Output, number: int, parts: Path) -> CheckpointError:
    message = f"batch {number} is committed, but its output is neither in {parts} nor published"
    hint = (
        f"Restore what was removed; if {batch_folder(Path(output.folder), number).name} was "
        "published and ingested already, create an empty folder of that name."
    )
    return CheckpointError(f"error: {message}\n = hint: {hint}")


def unpublished(number: int, why: str) -> CheckpointError:
    """A batch that is committed, and whose output could not be moved to its place."""
    message = f"batch {number} is committed, but its output could not be published: {why}"
    hint = "It is published before the next batch, or when the run is started again."
    return CheckpointError(f"error: {message}\n = hint: {hint}")


def leftovers(output: Path, owner: str) -> Iterator[Path]:
    """Hidden folders of this checkpoint's own attempts."""
    return output.glob(f".incmrql-{owner}-*") if output.exists() else iter(())


def staging(output: Path, owner: str, number: int, attempt: str) -> Path:
    """The hidden folder of an attempt."""
    return output / f".incmrql-{owner}-{number:06d}-{attempt}"
