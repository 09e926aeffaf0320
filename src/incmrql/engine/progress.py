"""What a task has read so far, in a small file that the driver polls.

It is for display only: a task continues if it cannot write its file.
"""

from __future__ import annotations

import struct
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

LAYOUT: Final = struct.Struct("<QQ")
"""The content of a file: rows and bytes."""
_EVERY: Final = 0.2
"""Seconds between two writes of a task."""


class ProgressFile:
    """The file in which a task notes what it has read; without a folder nothing is noted."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, uuid.uuid4().hex) if folder else None
        self._rows = self._done = self._current = 0
        self._written = 0.0

    def note(self, rows: int, size: int, most: int) -> None:
        """Add rows, and the bytes that they had in a file of `most` bytes."""
        self._rows += rows
        self._current = min(self._current + size, most)  # a compressed file unpacks to more
        self._write()

    def end_file(self, size: int) -> None:
        """Note that a file was read to its end."""
        self._done, self._current = self._done + size, 0
        self._write()

    def close(self) -> None:
        """Note the final numbers."""
        self._written = 0.0
        self._write()

    def _write(self) -> None:
        now = time.monotonic()
        if self._path is None or now < self._written + _EVERY:
            return
        self._written = now
        with suppress(OSError):
            self._path.write_bytes(LAYOUT.pack(self._rows, self._done + self._current))


__all__ = ["LAYOUT", "ProgressFile"]
