"""Names of files for tasks and users, and the check that tasks have written what they say.

A worker whose checkpoint path is a folder of its own machine writes its state there and succeeds.
Only a look from the driver shows that nobody else can read it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from incmrql.engine.inputs import InputFile
from incmrql.engine.messages import BatchRequest, BatchResult, Part, Reading
from incmrql.engine.store.blocks import MAGIC
from incmrql.errors import CheckpointError

# --- Names ---


def absolute(files: Iterable[InputFile]) -> tuple[InputFile, ...]:
    """Files by their full names: the current folder of a task is another one."""
    return tuple(replace(file, path=os.path.abspath(file.path)) for file in files)


def names_of(files: Iterable[InputFile]) -> dict[str, str]:
    """The user's names of files by their full names, where these differ."""
    names = {os.path.abspath(file.path): file.path for file in files}
    return {path: name for path, name in names.items() if path != name}


def as_named(reading: Reading, files: Iterable[InputFile]) -> Reading:
    """What tasks have read of files, these being called as they were before."""
    names = {os.path.abspath(file.path): file.path for file in files}
    bad: Counter[str] = Counter()
    for path, count in reading.bad.items():
        bad[names.get(path, path)] += count
    return replace(
        reading,
        bad=bad,
        first_bad=[replace(row, path=names.get(row.path, row.path)) for row in reading.first_bad],
        checksums={names.get(path, path): each for path, each in reading.checksums.items()},
        noticed={
            place: replace(
                noticed,
                first=[replace(row, path=names.get(row.path, row.path)) for row in noticed.first],
            )
            for place, noticed in reading.noticed.items()
        },
    )


# --- Before a commit ---


_ENDINGS: Final = {".run": MAGIC, ".parquet": b"PAR1"}
"""The last bytes of files whose format has a footer."""


def check_written(order: BatchRequest, done: BatchResult) -> None:
    """Refuse a batch some of whose new state files or parts are not there as a whole."""
    known = {run.file for table in order.tables.values() for run in table.segments}
    ends: dict[str, int] = {}
    for table in done.tables.values():
        for run in table.segments:
            if run.file not in known:
                ends[run.file] = max(ends.get(run.file, 0), run.offset + run.size)
    for file, end in ends.items():
        _check(Path(order.runs) / file, end, is_padded=True)
    check_parts(order, done.parts)


def check_parts(order: BatchRequest, parts: Iterable[Part]) -> None:
    """Refuse a batch of whose output a part is not there as a whole."""
    for part in parts:
        _check(Path(order.targets[part.target].folder) / part.file, part.size)


def check_quarantine(folder: str, reading: Reading) -> None:
    """Refuse a batch whose bad rows are not there as a whole."""
    for name, size in reading.quarantined:
        _check(Path(folder) / name, size)


def _check(path: Path, size: int, *, is_padded: bool = False) -> None:
    """A file of a size, with the ending of its format; one that is padded may be larger."""
    ending = _ENDINGS.get(path.suffix, b"")
    try:
        with path.open("rb") as stream:
            there = stream.seek(0, 2)
            stream.seek(max(size - len(ending), 0))
            last = stream.read(len(ending))
    except OSError as cause:
        raise _unseen(path, (cause.strerror or str(cause)).lower()) from None
    if there < size or (there > size and not is_padded):
        raise _unseen(path, f"it has {there} bytes here, and {size} where it was written")
    if last != ending:
        raise _unseen(path, "its end is not what was written")


def _unseen(path: Path, why: str) -> CheckpointError:
    message = f"a task wrote {path}, and the driver cannot find it so: {why}"
    hint = (
        "Checkpoint and output must be on storage that driver and executors share under the same "
        "path. Nothing was committed; run again when that is so."
    )
    return CheckpointError(f"error: {message}\n = hint: {hint}")


# --- The files of the next batch ---


def portion(
    files: tuple[InputFile, ...], most: int | None, is_streaming: Callable[[InputFile], bool]
) -> tuple[InputFile, ...]:
    """As many files as a batch takes; those of sources that do not change all at once."""
    if most is None:
        return files
    once = [file for file in files if not is_streaming(file)]
    others = sorted(
        filter(is_streaming, files), key=lambda file: (file.modified, file.deletes, file.path)
    )
    return (*once, *others[:most])
