"""The progress of the batch that runs, for front ends that show it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from incmrql.engine.messages import BatchRequest
from incmrql.engine.progress import LAYOUT

FOLDERS: Final = "progress-"
"""Prefix of the directories in which tasks note what they have read."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The input of a batch that runs, and how much of it was read so far."""

    batch: int
    files: int
    size: int
    """Bytes of all files."""
    rows: int
    """Rows that were read."""
    read: int
    """Bytes that were read."""


def read_progress(folder: Path) -> tuple[int, int]:
    """The rows and bytes that all tasks have read, as far as they have noted it."""
    rows = size = 0
    with suppress(OSError):
        for path in folder.iterdir():
            data = path.read_bytes()
            if len(data) == LAYOUT.size:  # else it is being written
                task_rows, task_size = LAYOUT.unpack(data)
                rows, size = rows + task_rows, size + task_size
    return rows, size


def _create_folder(folder: Path) -> str:
    """Create the folder for the files of a batch; "" if that fails: then nothing is noted."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""
    return str(folder.absolute())


class BatchProgress:
    """Follows the batch that runs; its tasks note nothing unless `is_shown`."""

    def __init__(self, work: Path, *, is_shown: bool) -> None:
        self._work, self._is_shown = work, is_shown
        self._current: tuple[BatchRequest, Path] | None = None

    @contextmanager
    def follow(self, request: BatchRequest) -> Iterator[BatchRequest]:
        """Give the request with a directory for the notes of its tasks, as long as it runs."""
        if not self._is_shown:
            yield request
            return
        folder = self._work / f"{FOLDERS}{request.number:06d}-{request.attempt}"
        self._current = request, folder
        try:
            yield replace(request, progress=_create_folder(folder))
        finally:
            self._current = None
            shutil.rmtree(folder, ignore_errors=True)

    def now(self) -> Progress | None:
        """How much of its input the batch has read; None if no batch runs."""
        current = self._current
        if current is None:
            return None
        request, folder = current
        rows, read = read_progress(folder)
        size = sum(file.size for file in request.files)
        return Progress(request.number, len(request.files), size, rows, min(read, size))


__all__ = ["FOLDERS", "BatchProgress", "Progress", "read_progress"]
