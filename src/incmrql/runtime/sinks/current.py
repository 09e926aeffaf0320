"""`current.parquet`: the whole answer in one file of an output directory, for readers of any kind.

The file is replaced by rename, so whoever opens it gets one whole answer. Its metadata names the
checkpoint and the batch. It is written after a batch is published. An answer that takes long to
write is not written after every batch: writing takes at most a tenth of the time, and what is due
is written when the run waits for input, when it ends, or at the next start.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from incmrql.engine.batch import CompiledProgram
from incmrql.engine.snapshots import answer_tables
from incmrql.errors import CheckpointError
from incmrql.io.files import CURRENT
from incmrql.runtime.checkpoint.manifests import Checkpoint, State
from incmrql.runtime.sinks.folders import Sink
from incmrql.storage.files import crash_here, replacing

_CHECKPOINT: Final = b"incmrql.checkpoint"
_BATCH: Final = b"incmrql.batch"
_PAUSE: Final = 10
"""After a write, the next one waits this many times as long as the write took."""


class CurrentAnswers:
    """Keeps `current.parquet` in output directories; none for sinks that an item names."""

    def __init__(self, checkpoint: Checkpoint, compiled: CompiledProgram) -> None:
        self._checkpoint, self._compiled = checkpoint, compiled
        self._folders: dict[Path, int] = {}
        """The answer of each directory."""
        self._written: dict[Path, int] = {}
        """The batch whose answer is in each directory, as far as this driver knows."""
        self._next = 0.0

    def bind(self, sinks: Sequence[Sink]) -> None:
        """Take the directories to write to; refused if one has such a file of somebody else."""
        self._folders = {sink.folder: sink.answer for sink in sinks if not sink.named}
        for folder in self._folders:
            self._batch_in(folder)
            for temporary in folder.glob(f".{CURRENT}.*.tmp"):  # of a driver that was killed
                temporary.unlink(missing_ok=True)

    def write(self, state: State, *, now: bool = False) -> None:
        """Write the answers after a batch, unless that is done; if not `now`, only if it is due."""
        if state.number < 0 or not (now or time.monotonic() >= self._next):
            return
        due = [folder for folder in self._folders if self._written.get(folder) != state.number]
        if not due:
            return
        start = time.monotonic()
        for folder in due:
            if self._batch_in(folder) != state.number:
                self._write(folder, state)
            self._written[folder] = state.number
        self._next = time.monotonic() + _PAUSE * (time.monotonic() - start)

    def _write(self, folder: Path, state: State) -> None:
        tables = answer_tables(
            self._compiled, self._folders[folder], state.tables, self._checkpoint.runs.absolute()
        )
        with replacing(folder / CURRENT) as temporary:
            with _writer(temporary, self._metadata(state.number)) as write:
                for table in tables:
                    write(table)
            crash_here("current", state.number)
            self._checkpoint.check_newest()  # a driver that was replaced must not bring old rows

    def _metadata(self, number: int) -> dict[bytes, bytes]:
        return {_CHECKPOINT: self._checkpoint.id.encode(), _BATCH: str(number).encode()}

    def _batch_in(self, folder: Path) -> int | None:
        """The batch whose answer is in a directory; refused if the file is not ours."""
        path = folder / CURRENT
        if not path.exists():
            return None
        try:
            metadata = pq.read_schema(path).metadata or {}
        except pa.ArrowException:
            metadata = {}
        if metadata.get(_CHECKPOINT) != self._checkpoint.id.encode():
            message = f"{path} was not written by this checkpoint"
            hint = "Move it away, or use a new directory (--output)."
            raise CheckpointError(f"error: {message}\n = hint: {hint}")
        return int(metadata[_BATCH])


@contextmanager
def _writer(path: Path, metadata: dict[bytes, bytes]) -> Iterator[Any]:
    """A function that adds tables to a Parquet file; the first one gives its columns."""
    writer: pq.ParquetWriter | None = None

    def write(table: Any) -> None:
        nonlocal writer
        schema = table.schema.with_metadata({**(table.schema.metadata or {}), **metadata})
        if writer is None:
            writer = pq.ParquetWriter(path, schema)
        writer.write_table(table.replace_schema_metadata(schema.metadata))

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


__all__ = ["CurrentAnswers"]
