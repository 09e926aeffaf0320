"""Run files: immutable sorted contents, packed several to a file, read through memory maps.

A file is a sequence of Arrow IPC files, each starting at a multiple of 64 bytes.  It is on disk
when `write_runs` returns, under a name that is never used again.  A `Run` says where in which
file a content lies, how many rows and which checksum it has, and which buckets of it count: those
that were merged into a newer run no longer do.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from incmrql.diagnostics import CheckpointError
from incmrql.kernel.content import Content, from_table, to_table
from incmrql.kernel.form import Form
from incmrql.storage import sync_folder

_ALIGNED: Final = 64
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """A sorted content in a run file, and the buckets of it that count."""

    file: str
    offset: int
    size: int
    checksum: int
    buckets: tuple[int, ...]
    counts: tuple[int, ...]
    """Rows of each of these buckets."""

    @property
    def rows(self) -> int:
        """Rows that count."""
        return sum(self.counts)

    def only(self, buckets: Container[int]) -> Run:
        """The run with fewer buckets that count."""
        pairs = [(b, n) for b, n in zip(self.buckets, self.counts, strict=True) if b in buckets]
        return replace(self, buckets=tuple(b for b, _ in pairs), counts=tuple(n for _, n in pairs))

    def joined(self, other: Run) -> Run:
        """The run with the buckets of both, which share none."""
        counts = dict(zip(self.buckets, self.counts, strict=True))
        counts.update(zip(other.buckets, other.counts, strict=True))
        buckets = tuple(sorted(counts))
        return replace(self, buckets=buckets, counts=tuple(counts[b] for b in buckets))

    def as_json(self) -> dict[str, Any]:
        """The fields for a manifest."""
        return asdict(self)

    @staticmethod
    def of_json(found: dict[str, Any]) -> Run:
        """The run that a manifest describes."""
        buckets, counts = tuple(found["buckets"]), tuple(found["counts"])
        return Run(**{**found, "buckets": buckets, "counts": counts})


def write_runs(
    folder: Path, file: str, contents: Sequence[tuple[Content, Mapping[int, int]]]
) -> list[Run]:
    """Write contents, with the rows of their buckets, to one new file that is then on disk."""
    runs: list[Run] = []
    path = folder / file
    with path.open("xb") as stream:
        for content, counts in contents:
            offset = stream.tell()
            data = _packed(content)
            stream.write(data)
            stream.write(b"\0" * (-len(data) % _ALIGNED))
            where = tuple(counts), tuple(counts.values())
            runs.append(Run(file, offset, len(data), zlib.crc32(data), *where))
        stream.flush()
        os.fsync(stream.fileno())
    sync_folder(folder)
    return runs


def write_run(folder: Path, file: str, table: Any, counts: Mapping[int, int]) -> Run:
    """Write a content that is an Arrow table of one piece, without holding it in memory."""
    path = folder / file
    try:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
            checksum = 0
            while block := stream.read(_BLOCK):
                checksum = zlib.crc32(block, checksum)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    sync_folder(folder)
    return Run(file, 0, path.stat().st_size, checksum, tuple(counts), tuple(counts.values()))


def _packed(content: Content) -> Any:
    table = to_table(content)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


class Opened:
    """Open maps of run files; nothing else is held between batches."""

    def __init__(self) -> None:
        self._files: dict[Path, Any] = {}
        self._contents: dict[tuple[Path, int], Content] = {}

    def content(self, folder: Path, run: Run, form: Form) -> Content:
        """The content of a run, as it lies on disk."""
        place = folder / run.file, run.offset
        if place not in self._contents:
            self._contents[place] = self._open(place[0], run, form)
        return self._contents[place]

    def keep(self, folder: Path, runs: Iterable[Run]) -> None:
        """Close all files of a folder but those of these runs."""
        wanted = {folder / run.file for run in runs}
        for path in [path for path in self._files if path.parent == folder and path not in wanted]:
            del self._files[path]
            for place in [place for place in self._contents if place[0] == path]:
                del self._contents[place]

    def _open(self, path: Path, run: Run, form: Form) -> Content:
        if path not in self._files:
            self._files[path] = _mapped(path)
        data = self._files[path]
        if data.size < run.offset + run.size:
            del self._files[path]  # a mended file is mapped anew
            raise CheckpointError(f"run file {path} was cut off")
        part = pa.BufferReader(data.slice(run.offset, run.size))
        with pa.ipc.open_file(part) as reader:
            return from_table(reader.read_all(), form)


def _mapped(path: Path) -> Any:
    try:
        with pa.memory_map(str(path)) as mapped:
            return mapped.read_buffer()
    except OSError as cause:
        raise CheckpointError(f"run file {path} cannot be read: {cause}") from cause


def check(folder: Path, run: Run) -> None:
    """Read a run and compare its checksum."""
    path = folder / run.file
    try:
        with path.open("rb") as stream:
            stream.seek(run.offset)
            data = stream.read(run.size)
    except OSError as cause:
        raise CheckpointError(f"run file {path} cannot be read: {cause}") from cause
    if len(data) != run.size or zlib.crc32(data) != run.checksum:
        raise CheckpointError(f"run file {path} is not what was written: its checksum differs")


def bounds(count: int) -> Any:
    """The least hash of each of `count` buckets but the first."""
    return np.array([-(-(b << 32) // count) << 32 for b in range(1, count)], np.uint64)
