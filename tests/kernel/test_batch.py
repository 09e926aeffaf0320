"""The promise: after every batch the kernel's answer is that of the query over all data so far."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incmrql.diagnostics import DataError
from incmrql.kernel import content as contents
from incmrql.kernel import table as tables
from incmrql.kernel.keys import Keys
from incmrql.values import Bag, encode
from incmrql.values.hash_columns import Hashes
from tests.kernel.programs import AVERAGE, Stepper, input_file, program_of, reference_answer

ROW = "< K: int, V: double, W: int, D: decimal(8,2), S: string >"
STREAM = f'stream(line, "{{data}}", ",", type({ROW}), deletes: "{{deletes}}")'
QUERIES = {
    "average": f"select (k, avg(x.V)) from x in {STREAM} group by k: x.K",
    "all aggregates": f"select (k, count(x), count(x.V), sum(x.W), avg(x.W), sum(x.V), avg(x.V)) "
    f"from x in {STREAM} group by k: x.K",
    "decimals": f"select < k: k, s: sum(x.D), a: avg(x.D) > from x in {STREAM} group by k: x.S",
    "tuples as keys": f"select (k, sum(x.V)) from x in {STREAM} where x.W > 0 "
    "group by k: (x.K, x.S)",
    "parts of tuples": f"select (k#0, k#1, sum(x.V)) from x in {STREAM} "
    "group by k: (x.S, x.K) having not (k#1 = 1)",
    "two keys": f"select (a, b, count(x)) from x in {STREAM} group by a: x.V, b: x.D",
    "having": f"select (k, sum(x.W)) from x in {STREAM} group by k: x.K having count(x) > 1",
    "having, by columns": f"select (k, sum(x.W)) from x in {STREAM} group by k: x.K "
    "having sum(x.W) > 1 and not (avg(x.V) < 0.0)",
    "answers without keys": f"select count(x) from x in {STREAM} group by k: x.K",
    "row by row": f"select (k, sum(select y.W * 2 from y in x where y.V > 0.5), avg(z)) "
    f'from x in {STREAM}, z = x.V + 1.0 where x.W < 5 or x.S = "a" group by k: x.W % 2',
    "several pairs a row": f"select (k, count(y)) from x in {STREAM}, y in {{{{x.K, x.W}}}} "
    "group by k: y",
}

KEYS = st.sampled_from(["1", "2", "3", "-7", ""])
NUMBERS = st.sampled_from(
    ["0.5", "-0.0", "1e16", "1.0", "-1e16", "1e308", "-1e308", "5e-324", "nan", "inf", "-inf", "",
     "0.1", "0.30000000000000004", "1e-300", "123456789.125"]
)  # fmt: skip
LINES = st.tuples(
    KEYS,
    NUMBERS,
    st.sampled_from(["1", "2", "3", "4", "2147483647", "-2147483648", "", "6"]),
    st.sampled_from(["1.50", "-0.01", "0.00", "999999.99", ""]),
    st.sampled_from(["a", "b", "", "ä\u0000", '"q,"', "c d"]),
).map(",".join)


@dataclass(frozen=True)
class Batch:
    inserted: list[str]
    deleted: list[str]


@st.composite
def histories(draw: st.DrawFn) -> list[Batch]:
    """Batches of lines that come, and of lines that are there and go."""
    there: Counter[str] = Counter()
    batches = []
    for _ in range(draw(st.integers(1, 5))):
        inserted = draw(st.lists(LINES, max_size=8))
        there.update(inserted)
        known = sorted(there.elements())
        deleted = draw(st.lists(st.sampled_from(known), max_size=6)) if known else []
        gone = Counter(deleted) & there
        there -= gone
        batches.append(Batch(inserted, sorted(gone.elements())))
    return batches


class World:
    """Two folders, a program over them, its kernel."""

    def __init__(self, folder: Path, query: str, buckets: int = 3) -> None:
        self.data, self.deletes = folder / "data", folder / "deletes"
        for each in (self.data, self.deletes, folder / "out"):
            each.mkdir(parents=True)
        self.text = f"incr {query.format(data=self.data, deletes=self.deletes)};"
        self.folder, self.number = folder, 0
        self.stepper = Stepper(program_of(self.text), folder / "runs", buckets)

    def step(self, batch: Batch) -> list[tuple[object, int]]:
        """Take in a batch; the change of the answer."""
        files = []
        for folder, lines in ((self.data, batch.inserted), (self.deletes, batch.deleted)):
            if lines:
                path = folder / f"{self.number:03d}.csv"
                path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
                files.append(input_file(path, deletes=folder == self.deletes))
        self.number += 1
        out = self.folder / "out" / str(self.number)
        out.mkdir()
        _, applied = self.stepper.step(files, output=str(out))
        assert applied.refused is None
        return self.stepper.changes(applied, out)


FEWER = settings(max_examples=max(settings().max_examples // 5, 6))
"""An example here is a whole history."""


@pytest.fixture
def small_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bases from a few rows on; and nobody waits for the disk."""
    monkeypatch.setattr(tables, "LEAST_BASE", 4)
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.mark.usefixtures("small_bases")
@pytest.mark.parametrize("name", QUERIES)
def test_every_answer_is_that_of_all_data_so_far(name: str, tmp_path: Path) -> None:
    @FEWER
    @given(histories())
    def holds(history: list[Batch]) -> None:
        folder = tmp_path / "world"
        shutil.rmtree(folder, ignore_errors=True)
        world = World(folder, QUERIES[name])
        known: Counter[bytes] = Counter()
        for batch in history:
            for value, weight in world.step(batch):
                known[encode(value)] += weight
                assert weight != 0
            wanted = reference_answer(world.text)
            assert world.stepper.answer() == wanted
            assert Counter(map(encode, wanted)) == +known
            assert not -known, "nothing is taken away that was not there"

    holds()


@pytest.mark.usefixtures("small_bases")
def test_keys_that_share_a_hash_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All keys, rows and answers have one of two hashes."""

    def weak(keys: Keys) -> Hashes:
        return (keys.encoded().hashes() % np.uint64(2)) << np.uint64(63)

    monkeypatch.setattr(contents, "hash_keys", weak)

    @FEWER
    @given(histories())
    def holds(history: list[Batch]) -> None:
        shutil.rmtree(tmp_path / "world", ignore_errors=True)
        world = World(tmp_path / "world", QUERIES["all aggregates"])
        for batch in history:
            world.step(batch)
            assert world.stepper.answer() == reference_answer(world.text)

    holds()


@pytest.mark.usefixtures("small_bases")
@pytest.mark.parametrize("name", ["all aggregates", "decimals"])
def test_any_way_to_cut_batches_gives_the_same_state(name: str, tmp_path: Path) -> None:
    @FEWER
    @given(histories())
    def holds(history: list[Batch]) -> None:
        folder = tmp_path / "worlds"
        shutil.rmtree(folder, ignore_errors=True)
        step_by_step = World(folder / "many", QUERIES[name])
        for batch in history:
            step_by_step.step(batch)
        at_once = World(folder / "one", QUERIES[name])
        at_once.step(
            Batch(
                [line for batch in history for line in batch.inserted],
                [line for batch in history for line in batch.deleted],
            )
        )
        assert step_by_step.stepper.state() == at_once.stepper.state()
        assert encode(step_by_step.stepper.answer()) == encode(at_once.stepper.answer())

    holds()


def test_a_group_leaves_exactly_with_its_last_row(tmp_path: Path) -> None:
    """The sum of {3, 0} without 3 is 0, and yet the group is there."""
    world = World(tmp_path, QUERIES["all aggregates"])
    world.step(Batch(["1,3.0,3,,a", "1,0.0,0,,a"], []))
    world.step(Batch([], ["1,3.0,3,,a"]))
    assert world.stepper.answer() == Bag([(1, 1, 1, 0, 0.0, 0.0, 0.0)])
    changes = world.step(Batch([], ["1,0.0,0,,a"]))
    assert changes == [((1, 1, 1, 0, 0.0, 0.0, 0.0), -1)]
    assert world.stepper.node.only(range(3)).runs == () or world.stepper.answer() == Bag()


def test_an_unchanged_answer_is_not_told(tmp_path: Path) -> None:
    world = World(tmp_path, QUERIES["average"])
    world.step(Batch(["1,2.0,0,,a", "2,5.0,0,,a"], []))
    changes = world.step(Batch(["1,2.0,0,,a", "2,6.0,0,,a"], []))
    assert dict(changes) == {(2, 5.0): -1, (2, 5.5): 1}


def test_answers_of_several_keys_cancel(tmp_path: Path) -> None:
    """One group grows from 1 to 2 rows, another shrinks from 2 to 1: the counts are the same."""
    world = World(tmp_path, QUERIES["answers without keys"])
    world.step(Batch(["1,,0,,a", "2,,0,,a", "2,,0,,b"], []))
    assert world.step(Batch(["1,,0,,a"], ["2,,0,,b"])) == []


def test_deleting_what_is_not_there_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """The average of {3, 0} without 1 would look right: the count goes from 2 to 1."""
    data, deletes = tmp_path / "data", tmp_path / "deletes"
    data.mkdir()
    deletes.mkdir()
    text = AVERAGE.format(data=data, deletes=deletes)
    stepper = Stepper(program_of(text), tmp_path / "runs")
    (data / "1.csv").write_text("7,3.0\n7,0.0\n")
    stepper.step([input_file(data / "1.csv")])
    before, answer = stepper.state(), stepper.answer()
    (deletes / "1.csv").write_text("7,1.0\n7,3.0\n7,3.0\n")
    (data / "2.csv").write_text("8,1.0\n")
    files = [input_file(data / "2.csv"), input_file(deletes / "1.csv", deletes=True)]
    _, applied = stepper.step(files)
    assert applied.refused is not None
    assert sorted(applied.refused.shown) == ["< K: 7, V: 1.0 >", "< K: 7, V: 3.0 >"]
    assert applied.refused.count == 2
    assert stepper.state() == before
    assert stepper.answer() == answer
    _, applied = stepper.step([input_file(data / "2.csv")])
    assert applied.refused is None


def test_trusted_deletes_keep_no_ledger(tmp_path: Path) -> None:
    query = QUERIES["average"].replace('"{deletes}"', '"{deletes}", trusted_deletes: true')
    world = World(tmp_path, query)
    world.step(Batch(["1,2.0,0,,a", "1,4.0,0,,a"], []))
    world.step(Batch([], ["1,2.0,0,,a"]))
    assert world.stepper.ledger is None
    assert world.stepper.answer() == Bag([(1, 4.0)])


def test_a_row_may_come_and_go_in_one_batch(tmp_path: Path) -> None:
    world = World(tmp_path, QUERIES["average"])
    assert world.step(Batch(["1,2.0,0,,a"], ["1,2.0,0,,a"])) == []
    assert world.stepper.state() == World(tmp_path / "other", QUERIES["average"]).stepper.state()


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('line, "{data}", ",", type(< K: int >)', ["1", "2", "1"]),
        ('line, "{data}", ",", type(< K: int, V: double >), sign: "sign"', ["1,1.5,+", "1,2.5,+"]),
        ('json, "{data}", type(< K: int, T: {{int}} >)', ['{"K": 1, "T": [2, 1]}', '{"K": 2}']),
        ('text, "{data}"', ["a", "b", "a"]),
    ],
)
def test_other_formats(source: str, lines: list[str], tmp_path: Path) -> None:
    key = "x" if source.startswith("text") else "x.K"
    query = f"select (k, count(x)) from x in stream({source}) group by k: {key}"
    world = World(tmp_path, query)
    world.step(Batch(lines, []))
    assert world.stepper.answer() == reference_answer(world.text)
    world.step(Batch(["1,1.5,-"] if "sign" in source else lines, []))
    assert world.stepper.answer() == reference_answer(world.text)


def test_null_rows_are_refused(tmp_path: Path) -> None:
    query = (
        'select (k, count(x)) from x in stream(json, "{data}", type(< K: int >)) group by k: x.K'
    )
    with pytest.raises(DataError, match="null"):
        World(tmp_path, query).step(Batch(["null"], []))
