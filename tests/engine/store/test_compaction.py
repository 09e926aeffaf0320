"""Merges beside batches: at any time, with any others, a table adds up to the same rows."""

from __future__ import annotations

import errno
import os
import uuid
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.engine.store import compaction, tables
from incmrql.engine.store.compaction import (
    CompactionTask,
    next_compaction,
    pieces,
    run_compaction,
    with_merged_segment,
)
from incmrql.engine.store.content import SortedRows, aggregate_rows, merge
from incmrql.engine.store.segments import OpenSegments, Segment, write_segments
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import Limits, Reader, StateTable, plan_writes, scan
from incmrql.types.model import INT
from tests.effort import fewest

FORM = TableSchema((INT,), (INT,))
BUCKETS = 3


def content_of(rows: list[tuple[int, int, int]]) -> SortedRows:
    columns = [pa.array([row[n] for row in rows], pa.int32()) for n in (0, 1)]
    return aggregate_rows(FORM, columns, np.array([row[2] for row in rows], np.int64))


class State:
    """A table that receives changes while merges are running."""

    def __init__(self, folder: Path, inline: int) -> None:
        self.reader, self.inline = Reader(folder, OpenSegments()), inline
        self.table = StateTable("t", FORM, BUCKETS)
        self.model: list[SortedRows] = []
        self.chore: CompactionTask | None = None
        self.merged: Segment | None = None
        self.turn = 0

    def change(self, rows: list[tuple[int, int, int]]) -> None:
        content = content_of(rows)
        self.model.append(content)
        if not len(content):
            return
        locked = frozenset[tuple[str, int]]() if self.chore is None else self.chore.segment_ids
        limits = Limits(self.inline, locked)
        writes = plan_writes(self.table, self.reader, content, self.turn, range(BUCKETS), limits)
        name = f"{self.turn:06d}-{uuid.uuid4().hex}.run"
        written = [(segment.content, segment.counts) for segment in writes.written]
        runs = write_segments(self.reader.folder, name, written) if written else []
        both = list(zip(runs, writes.written, strict=True))
        self.table = writes.kept.with_segments(
            [r for r, w in both if not w.base], [r for r, w in both if w.base]
        )
        self.turn += 1

    def begin(self) -> None:
        if self.chore is None:
            self.chore = next_compaction([self.table], self.inline)
            if self.chore is not None:
                told = CompactionTask.of_json(self.chore.as_json())
                assert told == self.chore
                self.merged = run_compaction(told, self.table, self.reader)

    def end(self) -> bool:
        if self.chore is None:
            return False
        after = with_merged_segment(self.table, self.chore, self.merged)
        assert after is not None, "locked runs stay"
        self.table, self.chore = after, None
        return True

    def check(self) -> None:
        whole = merge(self.model) if self.model else content_of([])
        parts = [scan(self.table, self.reader, bucket) for bucket in range(BUCKETS)]
        rows = {
            row: weight
            for part in parts
            for row, weight in zip(_rows(part), part.weights.tolist(), strict=True)
        }
        assert rows == dict(zip(_rows(whole), whole.weights.tolist(), strict=True))


def _rows(content: SortedRows) -> list[tuple[int, int]]:
    return list(zip(*[column.to_pylist() for column in content.columns], strict=True))


changes = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 2), st.sampled_from([1, 1, 1, -1])), max_size=12
)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LEAST_BASE", 3)
    monkeypatch.setattr(compaction, "LEAST_BASE", 3)
    monkeypatch.setattr(compaction, "pieces", partial(pieces, most=4))


@fewest
@given(
    st.lists(st.one_of(changes, st.sampled_from(["begin", "end"])), max_size=25), st.integers(0, 9)
)
def test_merges_and_batches_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[object], inline: int
) -> None:
    state = State(tmp_path_factory.mktemp("runs"), inline)
    for step in steps:
        if isinstance(step, list):
            state.change(step)
        elif step == "begin":
            state.begin()
        else:
            state.end()
        state.check()


def test_what_batches_leave_is_done_beside_them(tmp_path: Path) -> None:
    """With merges kept up, the number of runs stays small although batches merge nothing large."""
    state = State(tmp_path, 4)
    done = 0
    for turn in range(120):
        state.change([((7 * turn + i) % 97, turn % 3, 1) for i in range(9)])
        state.begin()
        done += state.end()
    state.check()
    assert done > 20
    assert len(state.table.segments) < 20


def test_a_merge_of_runs_that_are_gone_is_forgotten(tmp_path: Path) -> None:
    state = State(tmp_path, 0)
    for turn in range(6):
        state.change([(turn, 0, 1), (turn + 1, 0, 1), (turn + 9, 1, 1), (turn + 5, 1, 1)])
    state.begin()
    assert state.chore is not None
    gone = replace(state.table, levels=state.table.levels[:-1])
    assert with_merged_segment(gone, state.chore, state.merged) is None


def test_the_bucket_that_is_due_is_merged_into_its_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a small one whose levels have grown to more than its base."""
    state = State(tmp_path, 0)
    for turn in range(3):
        state.change([(i, turn, 1) for i in range(40)])
    small, large = np.array([2, 100, 1]), np.array([1, 300, 0])
    monkeypatch.setattr(compaction, "rows_by_bucket", lambda _: (small, large))
    tasks = [compaction._base_task(state.table, inline=0)]
    assert [task and task.buckets for task in tasks] == [(1,)]


def test_a_full_disk_is_an_error_of_a_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are allocated at once: writing to a sparse mapping would end the process."""

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    state = State(tmp_path, 4)
    for turn in range(20):
        state.change([((7 * turn + i) % 97, turn % 3, 1) for i in range(9)])
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="no space left"):
        state.begin()
