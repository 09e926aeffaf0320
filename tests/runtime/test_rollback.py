"""Safety nets: answers after earlier batches, going back to one, and copies that go on alone."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from incmrql.engine.batch import answer_value
from incmrql.errors import CheckpointError
from incmrql.plan.assembly import program_of
from incmrql.runtime import Driver, StreamOptions
from incmrql.runtime.checkpoint import copy as copies
from incmrql.runtime.checkpoint.copy import copy_checkpoint
from incmrql.runtime.checkpoint.manifests import Checkpoint
from incmrql.runtime.checkpoint.rollback import RolledBack, roll_back
from incmrql.runtime.feeds.push import PushFeed
from incmrql.storage.files import CRASH
from incmrql.values import Bag, Value
from tests.effort import scale
from tests.engine.programs import reference_answers
from tests.plan.stepping import typed_script
from tests.runtime.here import jobs_here
from tests.runtime.streaming import OPTIONS, QUICK, Place, average, fill

pytestmark = pytest.mark.slow
KEPT = replace(OPTIONS, keep_batches=10)
REWRITING = replace(KEPT, reads_sources=False)


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs_here(monkeypatch)


def opened(place: Place, options: StreamOptions) -> Driver:
    return Driver(place.program, place.checkpoint, place.output, cast("Any", None), options)


def answers(driver: Driver) -> list[Value]:
    runs = driver.checkpoint.runs.absolute()
    numbers = range(len(driver.program.outputs))
    return [answer_value(driver.compiled, n, driver.state.tables, runs) for n in numbers]


def as_of(place: Place, batch: int) -> list[Value]:
    """The answers after an earlier batch, by whoever only reads."""
    options = StreamOptions(as_of=batch, reads_sources=False)
    nobody = cast("Any", None)
    with Driver(place.program, place.checkpoint, None, nobody, options, read_only=True) as driver:
        assert driver.state.number == batch
        return answers(driver)


def back(place: Place, to: int, options: StreamOptions = REWRITING) -> RolledBack:
    with opened(place, options) as driver:
        return roll_back(driver, to)


def all_batches(place: Place, options: StreamOptions = KEPT) -> list[list[Value]]:
    """The answers after each batch that there is to run."""
    after = []
    with opened(place, options) as driver:
        while driver.step() is not None:
            after.append(answers(driver))
    return after


def sums(place: Place) -> list[Counter[object]]:
    """What all published changes add up to, answer by answer."""
    totals = []
    for batches in place.published_rows():
        total: Counter[object] = Counter()
        for rows in batches.values():
            total.update(rows)
        totals.append(Counter({row: count for row, count in total.items() if count}))
    return totals


def as_sums(values: list[Value]) -> list[Counter[object]]:
    bags = [value if isinstance(value, Bag) else Bag([value]) for value in values]
    return [Counter(row if isinstance(row, tuple) else (row,) for row in bag) for bag in bags]


# --- answers after earlier batches -------------------------------------------------------


def test_answers_after_the_last_batches_can_be_read(tmp_path: Path) -> None:
    place = Place(tmp_path)
    fill(place, 4, 20)
    after = all_batches(place)
    assert [as_of(place, number) for number in range(4)] == after
    with pytest.raises(CheckpointError, match="the state after batch 7 is not in checkpoint"):
        as_of(place, 7)


def test_the_state_of_no_more_batches_than_asked_for_is_kept(tmp_path: Path) -> None:
    place = average(tmp_path)
    fill(place, 15, 5)
    options = replace(KEPT, keep_batches=2)
    after = all_batches(place, options)
    with opened(place, options) as driver:
        kept = sorted(driver.checkpoint.kept())
    assert kept[-3:] == [7, 8, 9]
    assert kept[0] > 3
    assert [as_of(place, number) for number in kept] == after[kept[0] :]
    with pytest.raises(CheckpointError, match=f"It has those after batches {kept[0]} to 9"):
        as_of(place, kept[0] - 1)
    with opened(place, replace(KEPT, keep_batches=0)) as driver:
        assert len(driver.checkpoint.kept()) < len(kept)


# --- going back --------------------------------------------------------------------------


def test_after_going_back_later_files_are_new_input_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    fill(place, 4, 20)
    after = all_batches(place)
    result = back(place, 1)
    assert (result.to, result.batch, result.again, result.gone) == (1, 4, 6, 0)
    assert as_of(place, 4) == after[1]
    assert sums(place) == as_sums(after[1])  # readers of an output went back too
    assert all_batches(place)[-1] == after[-1] == reference_answers(place.text)
    assert sums(place) == as_sums(after[-1])


def test_a_file_that_was_removed_does_not_come_again(tmp_path: Path) -> None:
    place = average(tmp_path)
    place.put("1.csv", "1,2.0\n")
    with opened(place, KEPT) as driver:
        driver.step()
        wrong = place.put("2.csv", "1,1000.0\n")
        driver.step()
    wrong.unlink()
    result = back(place, 0)
    assert (result.again, result.gone) == (0, 1)
    assert all_batches(place) == []
    assert as_of(place, 2) == [Bag([(1, 2.0)])]
    place.put("3.csv", "1,4.0\n")
    assert all_batches(place) == [[Bag([(1, 3.0)])]]


def test_going_back_can_be_undone(tmp_path: Path) -> None:
    place = average(tmp_path)
    fill(place, 4, 20)
    after = all_batches(place)
    last = len(after) - 1
    back(place, 0)
    back(place, last)
    assert as_of(place, last + 2) == after[-1]
    assert all_batches(place) == []
    assert sums(place) == as_sums(after[-1])


def test_going_back_at_random_never_loses_or_repeats_a_row(tmp_path: Path) -> None:
    place, chance = average(tmp_path), random.Random(5)
    fill(place, 10, 10)
    for _ in range(scale(4, 20)):
        with opened(place, KEPT) as driver:
            for _ in range(chance.randrange(1, 3)):
                driver.step()
            there = [batch for batch in driver.checkpoint.kept() if batch < driver.state.number]
        if there:
            to = chance.choice(there)
            expected = as_of(place, to)
            result = back(place, to)
            assert as_of(place, result.batch) == expected
            assert sums(place) == as_sums(expected)
    all_batches(place)
    final = reference_answers(place.text)
    assert sums(place) == as_sums(final)


def test_snapshots_get_the_earlier_answer(tmp_path: Path) -> None:
    place = average(tmp_path)
    fill(place, 3, 10)
    snapshots = replace(KEPT, mode="snapshot", format="csv")
    after = all_batches(place, snapshots)
    result = back(place, 0, replace(snapshots, reads_sources=False))
    rows = [
        line
        for part in (place.output / f"batch={result.batch:06d}").iterdir()
        for line in part.read_text().splitlines()[1:]
    ]
    pairs = [row.split(",") for row in rows]
    assert Bag((int(k), float(v)) for k, v in pairs) == after[0][0]


@pytest.mark.parametrize("keep", ["none", None])
def test_rows_that_were_pushed_come_again_if_they_are_kept(
    tmp_path: Path, keep: str | None
) -> None:
    script = typed_script("select (k, count(x)) from x in R group by k: x.A;", frozenset("R"))
    place = Place(tmp_path, "1;")
    place.program = program_of(script.items, script)
    options = replace(QUICK, keep_input=keep)  # type: ignore[arg-type]
    row = {"A": 1, "B": 2, "C": 0.5, "S": "a"}
    with opened(place, options) as driver:
        (feed,) = driver.feeds
        assert isinstance(feed, PushFeed)
        for _ in range(3):
            feed.insert([row])
            driver.step()
        assert answers(driver) == [Bag([(1, 3)])]
    if keep == "none":
        with pytest.raises(CheckpointError, match="were not kept"):
            back(place, 0, replace(options, reads_sources=False))
        assert as_of(place, 2) == [Bag([(1, 3)])]
        return
    assert back(place, 0, replace(options, reads_sources=False)).again == 2
    assert as_of(place, 3) == [Bag([(1, 1)])]
    with opened(place, options) as driver:
        driver.step()
        assert answers(driver) == [Bag([(1, 3)])]
        assert driver.step() is None


def test_what_cannot_be_gone_back_to_is_refused(tmp_path: Path) -> None:
    place = average(tmp_path)
    fill(place, 15, 5)
    all_batches(place)
    for to in (9, 11):
        with pytest.raises(CheckpointError, match=f"it cannot be rolled back to batch {to}"):
            back(place, to)
    with opened(place, replace(KEPT, keep_batches=0)):
        pass  # removes the state of earlier batches
    with pytest.raises(CheckpointError, match="the state after batch 0 is not in checkpoint"):
        back(place, 0)


def test_a_crash_while_going_back_changes_nothing_or_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from incmrql.runtime.checkpoint import manifests, rollback

    class Killed(BaseException):
        pass

    def crash(*_: object) -> None:
        raise Killed

    for point, number in ((("rollback", "fsync"), 1), (("manifests", "crash_here"), 2)):
        place = average(tmp_path / str(number))
        fill(place, 3, 10)
        after = all_batches(place)
        module = {"rollback": rollback, "manifests": manifests}[point[0]]
        driver = opened(place, REWRITING)
        with monkeypatch.context() as patch:
            patch.setattr(module, point[1], crash)
            with pytest.raises(Killed):
                roll_back(driver, 0)
            patch.setattr(driver.current, "write", lambda *_, **__: None)
            driver.close()
        with opened(place, REWRITING) as again:
            assert again.state.number == number
            assert answers(again) == after[1 if number == 1 else 0]
        assert sums(place) == as_sums(after[1 if number == 1 else 0])
        all_batches(place)
        assert sums(place) == as_sums(after[-1])
    assert CRASH


# --- copies ------------------------------------------------------------------------------


def copied(place: Place, folder: Path) -> Place:
    """The same stream on a copy of the checkpoint."""
    assert copy_checkpoint(place.checkpoint, folder / "ck") >= 0
    other = Place(folder, place.query)
    other.data, other.deletes, other.names = place.data, place.deletes, place.names
    other.text, other.program = place.text, place.program
    return other


def test_a_copy_goes_on_alone_and_its_output_begins_with_the_whole_answer(tmp_path: Path) -> None:
    place = average(tmp_path / "original")
    fill(place, 3, 10)
    all_batches(place)
    before = place.published_rows()
    other = copied(place, tmp_path / "copy")
    assert Checkpoint(other.checkpoint).last()["id"] != Checkpoint(place.checkpoint).last()["id"]
    place.put("more.csv", "1,2.0\n")
    after = all_batches(other)
    assert sums(other) == as_sums(after[-1]) == as_sums(reference_answers(place.text))
    assert place.published_rows() == before  # the original has not moved
    assert all_batches(place)[-1] == after[-1]
    shutil.rmtree(place.checkpoint)
    place.put("last.csv", "1,3.0\n")
    assert all_batches(other)[-1] == reference_answers(place.text)


def test_a_copy_has_rows_that_wait(tmp_path: Path) -> None:
    script = typed_script("select (k, count(x)) from x in R group by k: x.A;", frozenset("R"))
    place = Place(tmp_path / "original", "1;")
    place.program = program_of(script.items, script)
    row = {"A": 1, "B": 2, "C": 0.5, "S": "a"}
    with opened(place, QUICK) as driver:
        (feed,) = driver.feeds
        assert isinstance(feed, PushFeed)
        feed.insert([row])
        driver.step()
        feed.insert([row])
        other = copied(place, tmp_path / "copy")
        feed.insert([row])
        driver.step()
        assert answers(driver) == [Bag([(1, 3)])]
    assert all_batches(other, QUICK)[-1] == [Bag([(1, 2)])]


def test_a_copy_beside_a_run_is_of_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = average(tmp_path / "original")
    fill(place, 8, 10)
    after: list[list[Value]] = []
    with opened(place, replace(KEPT, keep_batches=0)) as driver:
        driver.step()
        after.append(answers(driver))
        copy_files = copies._copy_files

        def slowly(original: Checkpoint, copy: Checkpoint, newest: dict[str, object]) -> None:
            copy_files(original, copy, newest)
            if len(after) < 4:
                driver.step()
                after.append(answers(driver))
                driver._clean()

        monkeypatch.setattr(copies, "_copy_files", slowly)
        batch = copy_checkpoint(place.checkpoint, tmp_path / "ck")
    assert batch == 3
    other = replace(place)
    other.checkpoint = tmp_path / "ck"
    assert as_of(other, 3) == after[3]


def test_a_copy_to_a_directory_with_files_is_refused(tmp_path: Path) -> None:
    place = average(tmp_path / "original")
    fill(place, 2, 5)
    all_batches(place)
    with pytest.raises(CheckpointError, match="exists already"):
        copy_checkpoint(place.checkpoint, place.data)
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        copy_checkpoint(tmp_path / "nothing", tmp_path / "new")
    assert not (tmp_path / "new").exists()
