"""Sources that do not change: all of their files, or their registered rows, in the first batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from incmrql.engine.inputs import InputFile, checksum
from incmrql.errors import DataError
from incmrql.io.files import expand
from incmrql.io.spools import SpoolWriter, spooling
from incmrql.plan.program import Stream
from incmrql.reference import arrow_table, from_python
from incmrql.runtime.feeds.folders import altered_error, gone
from incmrql.runtime.feeds.spooled import Arrivals, IngestedByPath, SpoolFolder
from incmrql.types.model import Type


class OnceFeed:
    """The files of a source that is not streaming.

    `begun` says whether the first batch is committed, and `ingested` has its files.
    """

    def __init__(self, stream: Stream, ingested: IngestedByPath, *, begun: bool) -> None:
        self.place, self.ingested = stream.place, ingested
        self._stream, self._begun = stream, begun
        self.settled: frozenset[str] = frozenset()
        """Files that are about to be forgotten."""

    def poll(self, now: float) -> Arrivals:  # noqa: ARG002 - nothing has to settle
        """All files before the first batch, nothing later; refused if one of them has changed."""
        if self._begun:
            self.check_ingested()
            return Arrivals()
        if self._stream.path is None:
            return Arrivals()
        files = [(str(path), path.stat()) for path in expand(self._stream.path)]
        return Arrivals(
            tuple(InputFile(p, stat.st_size, stat.st_mtime_ns, self.place) for p, stat in files)
        )

    def check_ingested(self) -> None:
        """Refuse a file that changed or vanished."""
        for path, (before, digest) in list(self.ingested.items()):
            if before.forgotten or path in self.settled:
                continue
            try:
                stat = Path(path).stat()
            except FileNotFoundError:
                raise gone(before, streaming=False) from None
            after = InputFile(path, stat.st_size, stat.st_mtime_ns, self.place)
            if after == before:
                continue
            if after.size != before.size or checksum(after) != digest:
                raise altered_error(before, streaming=False)
            self.ingested[path] = (after, digest)

    def acknowledge(self, files: Sequence[tuple[InputFile, str]]) -> None:
        """Remember the files of the first batch; there are none later."""
        self._begun = True
        self.ingested.update({file.path: (file, digest) for file, digest in files})

    def close(self) -> None:
        """Nothing is open."""


class RegisteredFeed(SpoolFolder):
    """Registered data: a list of rows, a pandas or Arrow table, or several Arrow tables."""

    def __init__(
        self, stream: Stream, folder: Path, data: Any, ingested: Iterable[str] = (), *, begun: bool
    ) -> None:
        super().__init__(stream.place, folder, ingested)
        self._stream, self._data, self._begun = stream, data, begun
        self._spooled = False

    def poll(self, now: float) -> Arrivals:  # noqa: ARG002 - nothing has to settle
        """All rows before the first batch, nothing later."""
        if self._begun:
            return Arrivals()
        if not self._spooled:
            for file in self.waiting(".arrow").files:
                Path(file.path).unlink()  # left by a start without a batch, perhaps with other data
            with spooling(self.new_path(".arrow"), self._stream.element) as spool:
                _fill(spool, self._data, self._stream)
            self._spooled = True
        return self.waiting(".arrow")

    def acknowledge(self, files: Sequence[tuple[InputFile, str]]) -> None:
        """Remove the rows, which are committed; there are none later."""
        self._begun = True
        super().acknowledge(files)


def _fill(spool: SpoolWriter, data: Any, stream: Stream) -> None:
    if isinstance(data, pd.DataFrame):
        data = arrow_table(data, stream.name)
    if isinstance(data, pa.Table):
        try:
            spool.table(data)
        except DataError:
            if spool.count:
                raise
            spool.rows(_rows(data.to_pylist(), stream.element, stream.name))
    elif isinstance(data, list):
        spool.rows(_rows(data, stream.element, stream.name))
    else:
        for table in data:
            spool.table(table)


def _rows(rows: list[Any], element: Type, name: str) -> Iterator[tuple[Any, int]]:
    for number, row in enumerate(rows):
        try:
            yield from_python(row, element), 1
        except ValueError as problem:
            raise DataError("R208", f"row {number}: {problem}", place=name) from None
