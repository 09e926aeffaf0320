"""State tables: look-up, merge, compaction, whatever the order of changes."""

from __future__ import annotations

import math
import os
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.engine.columns.keys import Keys
from incmrql.engine.store import content as contents
from incmrql.engine.store import tables
from incmrql.engine.store.content import SortedRows, aggregate_rows
from incmrql.engine.store.lookup import look_up
from incmrql.engine.store.segments import OpenSegments, write_segments
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import Reader, StateTable, plan_writes, scan
from incmrql.types.model import INT
from incmrql.values.hashing.columns import Hashes
from tests.effort import fewer

BUCKETS = 4
FORM = TableSchema((INT,))


def change(numbers: dict[int, int]) -> SortedRows:
    """Weights by key."""
    keys = [pa.array(list(numbers), pa.int32())]
    return aggregate_rows(FORM, keys, np.array(list(numbers.values()), np.int64))


@dataclass
class Kept:
    """A table that takes changes one by one."""

    reader: Reader
    table: StateTable = field(default_factory=lambda: StateTable("t", FORM, BUCKETS))
    rewritten: int = 0
    turn: int = 0

    def add(self, numbers: dict[int, int]) -> None:
        writes = plan_writes(self.table, self.reader, change(numbers), self.turn, range(BUCKETS))
        parts = [(written.content, written.counts) for written in writes.written]
        runs = write_segments(self.reader.folder, f"{uuid.uuid4().hex}.run", parts) if parts else []
        pairs = list(zip(runs, writes.written, strict=True))
        self.table = writes.kept.with_segments(
            [run for run, written in pairs if not written.base],
            [run for run, written in pairs if written.base],
        )
        self.rewritten += writes.rewritten
        self.turn += 1

    def weights(self, keys: list[int]) -> list[int]:
        touched = change(dict.fromkeys(keys, 1))
        weights, _ = look_up(self.table, self.reader, touched)
        by_key = dict(zip(touched.keys.columns[0].to_pylist(), weights.tolist(), strict=True))
        return [by_key[key] for key in keys]

    def everything(self) -> list[tuple[int, int, int]]:
        """Hash, key and weight of all rows, as they lie in the table once it is merged."""
        rows: list[tuple[int, int, int]] = []
        for bucket in range(BUCKETS):
            merged = scan(self.table, self.reader, bucket)
            keys = merged.keys.columns[0].to_pylist()
            rows += zip(merged.hashes.tolist(), keys, merged.weights.tolist(), strict=True)
        return rows


@pytest.fixture(autouse=True)
def nobody_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def small_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LEAST_BASE", 5)


@pytest.fixture(params=["hash", "weak hash"])
def any_hash(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The hash, or one that maps all keys to three values."""

    def weak(keys: Keys) -> Hashes:
        return (keys.key_bytes().hashes() % np.uint64(3)) << np.uint64(62)

    if request.param == "weak hash":
        monkeypatch.setattr(contents, "hash_keys", weak)
    return str(request.param)


CHANGES = st.lists(
    st.dictionaries(st.integers(0, 30), st.sampled_from([1, 2, -1, -2]), max_size=12), max_size=12
)


@pytest.mark.usefixtures("small_bases", "any_hash")
def test_a_table_holds_the_sum_of_its_changes(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("runs")

    @fewer
    @given(CHANGES)
    def holds(changes: list[dict[int, int]]) -> None:
        kept = Kept(Reader(folder, OpenSegments()))
        total: Counter[int] = Counter()
        for numbers in changes:
            kept.add(numbers)
            total.update(numbers)
            keys = list(range(31))
            assert kept.weights(keys) == [total[key] for key in keys]
            held = [len(kept.reader.read(kept.table, run)) for run in kept.table.segments]
            assert held == [run.rows for run in kept.table.segments]
        there = {key: weight for _, key, weight in kept.everything()}
        assert there == {key: weight for key, weight in total.items() if weight}
        together = Kept(Reader(folder, OpenSegments()))
        together.add({key: weight for key, weight in total.items() if weight})
        assert together.everything() == kept.everything()

    holds()


def test_compaction_is_geometric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is rewritten O(log) times, and there are O(log) runs to look into."""
    monkeypatch.setattr(tables, "LEAST_BASE", 100)
    kept = Kept(Reader(tmp_path, OpenSegments()))
    batches, size = 300, 40
    most = 0
    for batch in range(batches):
        kept.add(dict.fromkeys(range(batch * size, (batch + 1) * size), 1))
        most = max(most, len(kept.table.levels))
    rows = batches * size
    assert len(kept.everything()) == rows
    # a level grows by at most a factor of 4 for a rewrite; then 4 more for the base
    assert kept.rewritten <= rows * 2 * math.log2(batches)
    assert most <= 2 * math.log2(batches)
    assert len(kept.table.bases) <= BUCKETS


def test_a_large_table_is_not_rewritten_for_a_small_change(tmp_path: Path) -> None:
    kept = Kept(Reader(tmp_path, OpenSegments()))
    kept.add(dict.fromkeys(range(100_000), 1))
    assert len(kept.table.bases) == BUCKETS
    before = kept.rewritten
    for batch in range(10):
        kept.add(dict.fromkeys(range(batch * 10, batch * 10 + 10), 1))
    assert kept.rewritten - before < 1000


def test_a_bucket_that_is_due_is_merged_in_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "LEAST_BASE", 1000)
    kept = Kept(Reader(tmp_path, OpenSegments()))
    kept.add(dict.fromkeys(range(20_000), 1))
    costs = []
    for batch in range(40):
        before = kept.rewritten
        start = 20_000 + batch * 300
        kept.add(dict.fromkeys(range(start, start + 300), 1))
        costs.append(kept.rewritten - before)
    assert max(costs) < 20_000, "never all buckets at once"
    assert len(kept.everything()) == 20_000 + 40 * 300


def test_no_rows_make_no_runs(tmp_path: Path) -> None:
    kept = Kept(Reader(tmp_path, OpenSegments()))
    kept.add({})
    assert kept.table.segments == ()
    assert kept.everything() == []
