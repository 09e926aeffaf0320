"""A driver whose batches run in this process, so that faults can be planted; no Spark."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from incmrql.engine.batch import CompiledProgram, run_batch, write_answers
from incmrql.engine.messages import BatchRequest, Part, together
from incmrql.runtime import Driver, StreamOptions
from incmrql.spark.stream_job import JobResult, StreamJob
from tests.runtime.streaming import OPTIONS, Place


class Here:
    """What stands for the Spark job: one task in this process."""

    def __init__(self, compiled: CompiledProgram) -> None:
        self.compiled = compiled

    def run(self, order: BatchRequest, **_: int) -> JobResult:
        reading, done = run_batch(self.compiled, order)
        return JobResult(reading, together(order, [done]), 0, 0, 1)

    def write_answers(
        self, order: BatchRequest, sign: int, compiled: CompiledProgram | None = None
    ) -> list[Part]:
        return write_answers(compiled or self.compiled, order, sign, range(order.buckets))


def driver_here(place: Place, options: StreamOptions = OPTIONS) -> Driver:
    """A driver that needs no Spark."""

    def nobody() -> Any:
        raise AssertionError("no Spark here")

    driver = Driver(place.program, place.checkpoint, place.output, nobody, options)
    driver._job = cast("StreamJob", Here(driver.compiled))
    return driver


class Disk:
    """Counts writes, and is full at one of them."""

    def __init__(self) -> None:
        self.writes = 0
        self.full_at = -1
        self.where = ""

    def write(self, what: str) -> None:
        self.writes += 1
        if self.writes - 1 == self.full_at:
            self.where = what
            raise OSError(errno.ENOSPC, "No space left on device")


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch, full_at: int) -> Iterator[Disk]:
    """A disk on which the n-th write fails: of a file, a folder, a name, or what waits for one."""
    disk = Disk()
    disk.full_at = full_at

    def watch(module: Any, name: str) -> None:
        original = getattr(module, name)

        def patched(*given: Any, **named: Any) -> Any:
            disk.write(f"{name} {given[0]}")
            return original(*given, **named)

        patch.setattr(module, name, patched)

    opened = io.open

    def open_file(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        if set(mode) & set("wxa+"):
            disk.write(f"open {file}")
        return opened(file, mode, *given, **named)

    with monkeypatch.context() as patch:
        for module, name in ((os, "fsync"), (os, "link"), (os, "replace"), (os, "mkdir")):
            watch(module, name)
        watch(pq, "write_table")
        patch.setattr(io, "open", open_file)
        yield disk


def touched(path: Path) -> Path:
    """A file at rest."""
    os.utime(path, (1_000_000, 1_000_000))
    return path
