"""Run files: immutable sorted contents, packed several to a file, read through memory maps.

A file is a sequence of sections, each starting at a multiple of 64 bytes: an Arrow IPC file and
the checksums of its blocks (`kernel.blocks`).  It is on disk when `write_runs` returns, under a
name that is never used again.  A `Run` says where in which file a content lies, how many rows it
has, which checksum its checksums have, and which buckets of it count: those that were merged into
a newer run no longer do.
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
from incmrql.kernel.blocks import Blocks, ChecksummedFile, Trailer, block_checksums, damaged
from incmrql.kernel.columns import flat
from incmrql.kernel.content import Content, from_table, to_table
from incmrql.kernel.form import Form
from incmrql.kernel.regions import body_of, regions_of
from incmrql.kernel.run_rows import Guard, RunRows
from incmrql.storage import sync_folder

_ALIGNED: Final = 64


@dataclass(frozen=True, slots=True)
class Run:
    """A sorted content in a run file, and the buckets of it that count."""

    file: str
    offset: int
    size: int
    """Bytes of its section."""
    checksum: int
    """Of the trailer of its section, which has the checksums of everything else."""
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
            checksums = np.array(block_checksums(data), np.uint32)
            trailer = Trailer(checksums, len(data), body_of(_table_in(data), data)).packed()
            stream.write(data)
            stream.write(trailer)
            size = len(data) + len(trailer)
            stream.write(b"\0" * (-size % _ALIGNED))
            where = tuple(counts), tuple(counts.values())
            runs.append(Run(file, offset, size, zlib.crc32(trailer), *where))
        stream.flush()
        os.fsync(stream.fileno())
    sync_folder(folder)
    return runs


def write_run(folder: Path, file: str, table: Any, counts: Mapping[int, int]) -> Run:
    """Write a content that is an Arrow table of one piece, without holding it in memory."""
    path = folder / file
    with path.open("xb") as stream:
        try:
            written = ChecksummedFile(stream)
            with pa.PythonFile(written, "w") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            stream.flush()
            data = _mapped(path)
            body = body_of(_table_in(data), data)
            checksums = np.array(written.checksums(), np.uint32)
            trailer = Trailer(checksums, data.size, body).packed()
            stream.write(trailer)
            stream.flush()
            os.fsync(stream.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise
    sync_folder(folder)
    where = tuple(counts), tuple(counts.values())
    return Run(file, 0, data.size + len(trailer), zlib.crc32(trailer), *where)


def _packed(content: Content) -> Any:
    table = to_table(content)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


def _table_in(data: Any) -> Any:
    """The Arrow table that a buffer holds; no column is read."""
    with pa.ipc.open_file(pa.BufferReader(data)) as reader:
        return reader.read_all()


class Opened:
    """Open maps of run files, and which of their blocks were verified."""

    def __init__(self) -> None:
        self._files: dict[Path, Any] = {}
        self._rows: dict[tuple[Path, int], tuple[RunRows, Blocks]] = {}

    def rows(self, folder: Path, run: Run, form: Form) -> RunRows:
        """The rows of a run, as they lie on disk; they are verified when they are read."""
        place = folder / run.file, run.offset
        if place not in self._rows:
            self._rows[place] = self._open(place[0], run, form)
        return self._rows[place][0]

    def blocks(self) -> tuple[int, int]:
        """How many blocks of the open runs were verified, and how many there are."""
        all_ = [blocks for _, blocks in self._rows.values()]
        return sum(b.verified for b in all_), sum(b.verified + b.left for b in all_)

    def keep(self, folder: Path, runs: Iterable[Run]) -> None:
        """Close all files of a folder but those of these runs."""
        wanted = {folder / run.file for run in runs}
        for path in [path for path in self._files if path.parent == folder and path not in wanted]:
            del self._files[path]
            for place in [place for place in self._rows if place[0] == path]:
                del self._rows[place]

    def _open(self, path: Path, run: Run, form: Form) -> tuple[RunRows, Blocks]:
        if path not in self._files:
            self._files[path] = _mapped(path)
        try:
            return _opened(path, self._files[path], run, form)
        except CheckpointError:
            del self._files[path]  # a restored file is mapped anew
            raise


def _opened(path: Path, file: Any, run: Run, form: Form) -> tuple[RunRows, Blocks]:
    if file.size < run.offset + run.size:
        raise damaged(path, "it has fewer bytes")
    section = file.slice(run.offset, run.size)
    trailer = Trailer.of_section(section, run.checksum)
    if trailer is None:
        raise damaged(path, "the checksums in it are others")
    data = section.slice(0, trailer.size)
    blocks = Blocks(path, data, trailer)
    start, stop = trailer.body
    blocks.verify_bytes(0, start)
    blocks.verify_bytes(stop, trailer.size)
    table = _table_in(data)
    if any(column.num_chunks != 1 for column in table.columns):
        blocks.verify_bytes(0, trailer.size)  # the chunks are copied into one
        table = table.combine_chunks()
    regions = {name: regions_of(flat(table.column(name)), data) for name in table.column_names}
    guard = Guard(blocks, regions, table.num_rows)
    return RunRows.of(from_table(table, form), guard), blocks


def _mapped(path: Path) -> Any:
    try:
        with pa.memory_map(str(path)) as mapped:
            return mapped.read_buffer()
    except OSError as cause:
        raise CheckpointError(f"state file {path} cannot be read: {cause}") from cause


def check(folder: Path, run: Run) -> None:
    """Read all of a run and compare its checksums."""
    path = folder / run.file
    try:
        with path.open("rb") as stream:
            stream.seek(run.offset)
            section = stream.read(run.size)
    except OSError as cause:
        raise CheckpointError(f"state file {path} cannot be read: {cause}") from cause
    if len(section) != run.size:
        raise damaged(path, "it has fewer bytes")
    trailer = Trailer.of_section(section, run.checksum)
    if trailer is None:
        raise damaged(path, "the checksums in it are others")
    data = memoryview(section)[: trailer.size]
    Blocks(path, data, trailer).verify_bytes(0, trailer.size)


def bounds(count: int) -> Any:
    """The least hash of each of `count` buckets but the first."""
    return np.array([-(-(b << 32) // count) << 32 for b in range(1, count)], np.uint64)
