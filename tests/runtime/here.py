"""A driver whose batches run in this process, so that faults can be planted; no Spark."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from incmrql.engine.batch import CompiledProgram, run_batch, summarize_bag, write_answers
from incmrql.engine.jobs import JobResult
from incmrql.engine.messages import BagSummary, BatchRequest, Part, combine_results
from incmrql.engine.replacement import cut_answers, write_differences
from incmrql.engine.store.content import SortedRows
from incmrql.runtime import Driver, StreamOptions
from incmrql.runtime import driver as drivers
from incmrql.spark.stream_job import StreamJob
from tests.runtime.streaming import OPTIONS, Place


class Here:
    """What stands for the Spark job: one task in this process."""

    def __init__(self, compiled: CompiledProgram) -> None:
        self.compiled = compiled
        self.summarized = 0
        """How often bags were read from the state."""

    def run(self, order: BatchRequest, **_: int) -> JobResult:
        reading, done = run_batch(self.compiled, order)
        return JobResult(reading, combine_results(order, [done]), 0, 0, 1)

    def write_answers(self, order: BatchRequest) -> list[Part]:
        return write_answers(self.compiled, order, range(order.buckets))

    def write_differences(
        self, order: BatchRequest, old: BatchRequest, old_program: CompiledProgram,
        places: Sequence[int],
    ) -> list[Part]:  # fmt: skip
        new = replace(order, targets=tuple(order.targets[place] for place in places))
        contents: dict[tuple[int, int], list[SortedRows]] = {}
        for compiled, request, sign in ((self.compiled, new, 1), (old_program, old, -1)):
            for bucket in range(request.buckets):
                for place, at, content in cut_answers(compiled, request, places, sign, bucket):
                    contents.setdefault((place, at), []).append(content)
        return write_differences(self.compiled, order, contents)

    def summarize(self, order: BatchRequest, numbers: Sequence[int]) -> list[BagSummary]:
        self.summarized += 1
        buckets, runs = range(order.buckets), Path(order.runs)
        return [
            sum(
                (summarize_bag(self.compiled, n, order.tables, runs, [b]) for b in buckets),
                BagSummary(),
            )
            for n in numbers
        ]


def driver_here(place: Place, options: StreamOptions = OPTIONS) -> Driver:
    """A driver that needs no Spark."""

    def nobody() -> Any:
        raise AssertionError("no Spark here")

    driver = Driver(place.program, place.checkpoint, place.output, nobody, options)
    driver._job = cast("StreamJob", Here(driver.compiled))
    return driver


def jobs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let drivers start no Spark, also for jobs of their start."""

    def job(_spark: Any, program: CompiledProgram, *_: Any) -> Here:
        return Here(program)

    monkeypatch.setattr(drivers, "job_of", job)


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
def full_disk(monkeypatch: pytest.MonkeyPatch, full_at: int) -> Iterator[Disk]:
    """A disk on which the n-th write fails: of a file, a folder, a name, or what waits for one."""
    disk = Disk()
    disk.full_at = full_at

    def watch(module: Any, name: str) -> None:
        original = getattr(module, name)

        def write_first(*given: Any, **named: Any) -> Any:
            disk.write(f"{name} {given[0]}")
            return original(*given, **named)

        patch.setattr(module, name, write_first)

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


def settle(path: Path) -> Path:
    """A file at rest."""
    os.utime(path, (1_000_000, 1_000_000))
    return path
