"""Merges beside the batches: one at a time, none after a failure.  No Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from incmrql.engine.store.compaction import CompactionTask
from incmrql.engine.store.segments import Segment
from incmrql.engine.store.tables import NO_LIMITS
from incmrql.runtime import compacting
from incmrql.runtime.compacting import Compactor

PATIENCE = 20.0


class Merges:
    """Merges that take until they are let go; they are given up, or fail."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = threading.Event()
        self.problem: Exception | None = None

    def __call__(self, chore: CompactionTask) -> Segment | None:
        self.begun.append(chore.attempt)
        assert self.may_end.wait(PATIENCE)
        if self.problem is not None:
            raise self.problem
        return None


@pytest.fixture
def merges() -> Merges:
    return Merges()


@pytest.fixture
def compactor(merges: Merges, monkeypatch: pytest.MonkeyPatch) -> Iterator[Compactor]:
    """A compactor that always finds something due; attempts are numbered."""
    numbers = iter(range(10))
    compactor = Compactor(merges, attempt=lambda: f"attempt {next(numbers)}")

    def due(*_: Any) -> CompactionTask:
        return CompactionTask("t", (), (), base=False)

    monkeypatch.setattr(compacting, "next_compaction", due)
    monkeypatch.setattr(compacting, "with_merged_segment", lambda *_: None)
    yield compactor
    merges.may_end.set()
    compactor.close()


def await_merge(compactor: Compactor) -> None:
    future = compactor._future
    assert future is not None
    future.exception(PATIENCE)


def test_one_merge_at_a_time(compactor: Compactor, merges: Merges) -> None:
    compactor.start({})
    compactor.start({})
    assert compactor.is_open("attempt 0")
    assert not compactor.is_open("attempt 1")
    merges.may_end.set()
    await_merge(compactor)
    compactor.with_merged_segment({"t": None})  # type: ignore[dict-item]
    assert not compactor.is_open("attempt 0")
    compactor.start({})
    await_merge(compactor)
    assert merges.begun == ["attempt 0", "attempt 1"]


def test_no_merge_after_one_that_failed(compactor: Compactor, merges: Merges) -> None:
    """Batches then merge all by themselves."""
    merges.problem = OSError("no room")
    merges.may_end.set()
    compactor.start({})
    await_merge(compactor)
    compactor.with_merged_segment({})
    assert compactor.failed is merges.problem
    assert compactor.limits == NO_LIMITS
    compactor.start({})
    assert merges.begun == ["attempt 0"]
