"""Lines of a batch that are no rows, written by the task that meets them.

They are part of what the batch commits: the driver publishes the files that results name, and
nothing is read a second time for them.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TypeAlias

from incmrql.formats.rows import BadRow, quarantine_line

QuarantineFile: TypeAlias = tuple[str, int]
"""The name of a file and its size."""


class BadRowWriter:
    """A file of the task's own for bad rows, created when the first one comes.

    `names` has the user's names of files, by their full names. Without a folder nothing is kept.
    """

    def __init__(self, folder: str, names: Mapping[str, str]) -> None:
        self._folder, self._names = folder, names
        self._file: IO[str] | None = None

    def add(self, rows: Iterable[BadRow]) -> None:
        """Keep some rows."""
        if not self._folder:
            return
        for row in rows:
            if self._file is None:
                path = Path(self._folder) / f"rows-{uuid.uuid4().hex[:8]}.jsonl"
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("x", encoding="utf-8")
            self._file.write(quarantine_line(row, self._names.get(row.path, row.path)))

    def close(self) -> list[QuarantineFile]:
        """Wait until the file is on disk; its name and size, if there is one."""
        if self._file is None:
            return []
        file, self._file = self._file, None
        with file:
            file.flush()
            os.fsync(file.fileno())
        path = Path(file.name)
        return [(path.name, path.stat().st_size)]
