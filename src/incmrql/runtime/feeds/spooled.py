"""Folders of the checkpoint in which what arrived waits until it is taken in.

A file is in such a folder, whole, from its arrival until its batch is committed; the archive keeps
it from then on.  Names are never used twice, so that a file whose batch was committed before a
crash is told by its name.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from incmrql.kernel.inputs import InputFile
from incmrql.runtime.feeds.feed import News


class SpoolFolder:
    """The files of one source that wait; the common part of its feeds.

    `consumed` are the files of the last committed batches, which a crash may have left here.
    """

    def __init__(
        self,
        place: int,
        folder: Path,
        consumed: Iterable[str],
        kind: Literal["spool", "received"] = "spool",
    ) -> None:
        self.place, self.folder = place, folder.absolute()
        self._kind = kind
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.glob(".*.tmp"):
            path.unlink()
        for name in {Path(path).name for path in consumed}:
            (self.folder / name).unlink(missing_ok=True)

    def new_path(self, ending: str) -> Path:
        """A path that was never used, in the order of time."""
        return self.folder / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}{ending}"

    def waiting(self, ending: str) -> News:
        """The files with an ending, oldest first."""
        found = []
        for path in sorted(self.folder.glob(f"[!.]*{ending}")):
            stat = path.stat()
            size, modified = stat.st_size, stat.st_mtime_ns
            found.append(InputFile(str(path), size, modified, self.place, kind=self._kind))
        return News(tuple(found))

    def verify_taken(self) -> None:
        """Nobody but us writes here: there is nothing to verify."""

    def taken(self, files: Sequence[tuple[InputFile, str]]) -> None:
        """Remove files that are committed."""
        for file, _ in files:
            (self.folder / Path(file.path).name).unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing is open."""
