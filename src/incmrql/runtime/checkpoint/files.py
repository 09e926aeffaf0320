"""Paths of files for tasks and for users, and the check that tasks wrote what they reported.

A worker whose checkpoint path is a local directory writes its state there and succeeds.  Only the
driver, which reads the files once more, notices that nobody else can see them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from incmrql.engine.inputs import InputFile
from incmrql.engine.messages import BatchRequest, BatchResult, Part, Reading
from incmrql.engine.store.blocks import MAGIC
from incmrql.errors import CheckpointError

# --- Names ---


def absolute(files: Iterable[InputFile]) -> tuple[InputFile, ...]:
    """Files with absolute paths: a task has a different current directory."""
    return tuple(replace(file, path=os.path.abspath(file.path)) for file in files)


def names_of(files: Iterable[InputFile]) -> dict[str, str]:
    """The path as the user wrote it, by absolute path, where the two differ."""
    names = {os.path.abspath(file.path): file.path for file in files}
    return {path: name for path, name in names.items() if path != name}


def as_named(reading: Reading, files: Iterable[InputFile]) -> Reading:
    """The reading of a batch with the paths as the user wrote them."""
    names = {os.path.abspath(file.path): file.path for file in files}
    bad: Counter[str] = Counter()
    for path, count in reading.bad.items():
        bad[names.get(path, path)] += count
    return replace(
        reading,
        bad=bad,
        first_bad=[replace(row, path=names.get(row.path, row.path)) for row in reading.first_bad],
        checksums={names.get(path, path): digest for path, digest in reading.checksums.items()},
        noticed={
            place: replace(
                noticed,
                first=[replace(row, path=names.get(row.path, row.path)) for row in noticed.first],
            )
            for place, noticed in reading.noticed.items()
        },
    )


# --- Before a commit ---


_FOOTERS: Final = {".run": MAGIC, ".parquet": b"PAR1"}
"""The last bytes of the formats that have a footer."""


def check_written(request: BatchRequest, result: BatchResult) -> None:
    """Refuse a batch if a new state file or output part is missing or incomplete."""
    known = {segment.file for table in request.tables.values() for segment in table.segments}
    sizes: dict[str, int] = {}
    for table in result.tables.values():
        for segment in table.segments:
            if segment.file not in known:
                end = segment.offset + segment.size
                sizes[segment.file] = max(sizes.get(segment.file, 0), end)
    for file, size in sizes.items():
        _check(Path(request.runs) / file, size, is_padded=True)
    check_parts(request, result.parts)


def check_parts(request: BatchRequest, parts: Iterable[Part]) -> None:
    """Refuse a batch if an output part is missing or incomplete."""
    for part in parts:
        _check(Path(request.targets[part.target].folder) / part.file, part.size)


def check_quarantine(folder: str, reading: Reading) -> None:
    """Refuse a batch if a file of its bad rows is missing or incomplete."""
    for name, size in reading.quarantined:
        _check(Path(folder) / name, size)


def _check(path: Path, size: int, *, is_padded: bool = False) -> None:
    """Refuse a file of another size or without its footer; a padded file may be larger."""
    footer = _FOOTERS.get(path.suffix, b"")
    try:
        with path.open("rb") as stream:
            actual_size = stream.seek(0, 2)
            stream.seek(max(size - len(footer), 0))
            last = stream.read(len(footer))
    except OSError as cause:
        raise _not_visible(path, (cause.strerror or str(cause)).lower()) from None
    if actual_size < size or (actual_size > size and not is_padded):
        why = f"it has {actual_size} bytes here, and {size} where it was written"
        raise _not_visible(path, why)
    if last != footer:
        raise _not_visible(path, "its last bytes are not what was written")


def _not_visible(path: Path, why: str) -> CheckpointError:
    """The error for a file that the driver does not see as the task wrote it."""
    message = f"a task wrote {path}, but the driver does not see the same file: {why}"
    hint = (
        "Checkpoint and output must be on storage that driver and executors share under the same "
        "path. Nothing was committed; fix that and run again."
    )
    return CheckpointError(f"error: {message}\n = hint: {hint}")
