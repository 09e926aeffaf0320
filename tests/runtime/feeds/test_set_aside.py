"""Rows for which a batch is refused: only these are set aside, whatever is killed on the way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import incmrql
from incmrql.api.runs import Run
from incmrql.engine.jobs import JobResult, trusted_deletes_error
from incmrql.engine.messages import BatchRequest
from incmrql.io.spools import spool_rows
from incmrql.plan.changes import NegativeWeight
from incmrql.spark.stream_job import StreamJob
from incmrql.storage.files import CRASH
from incmrql.types.infer.scripts import type_from_text
from incmrql.values import Bag, Record, identical
from tests.effort import examples, sample
from tests.runtime.here import Here

ROOT = Path(__file__).parents[3]
ROW = "< K: int, V: int >"
SUM = "select (k, sum(r.V)) from r in rows group by k: r.K"


class Guarded(Here):
    """A job that tells of its problems as one on Spark does."""

    def run(self, order: BatchRequest, **options: int) -> JobResult:
        try:
            return super().run(order, **options)
        except NegativeWeight as problem:
            raise trusted_deletes_error(self.compiled, str(problem)) from None


def on_here(run: Run) -> Run:
    """A run whose batches need no Spark."""
    run._driver._job = cast("StreamJob", Guarded(run._driver.compiled))
    return run


def start_here(session: incmrql.Session, query: str = SUM, **options: Any) -> Run:
    return on_here(session.query(query).start(**options))


def aside(checkpoint: Path, row: str = ROW) -> Counter[tuple[Any, ...]]:
    """The rows in the folder of rows set aside."""
    total: Counter[tuple[Any, ...]] = Counter()
    for path in (checkpoint / "input" / "refused").glob("*.arrow"):
        for value, weight in spool_rows(path, type_from_text(row)):
            total[tuple(value.values_)] += weight
    return total


@pytest.fixture
def session() -> Iterator[incmrql.Session]:
    opened = incmrql.Session()
    yield opened
    for run in opened._runs:
        run.stop()


def test_one_mistaken_delete_costs_nobody_else_a_row(session: incmrql.Session) -> None:
    rows = session.stream("rows", ROW)
    run = start_here(session)
    rows.insert([(n % 7, n) for n in range(1000)])
    rows.delete([(99, 99)])
    rows.insert([(8, 1)])
    with pytest.raises(incmrql.DataError, match="not there: < K: 99, V: 99 >") as caught:
        run.step()
    (note,) = caught.value.__notes__
    assert note.startswith("1 deletion was set aside, in ")
    assert "< K: 99, V: 99 >" in note
    assert "The rows at fault were set aside" in str(caught.value)
    assert "the next batch, or step(), ingests all other rows" in caught.value.hint
    assert "remove what deletes" not in str(caught.value)
    assert run.events()[-1].problem is caught.value
    batch = run.step()
    assert batch is not None
    assert (batch.number, batch.inserted, batch.deleted) == (0, 1001, 0)
    wanted = Bag([(k, sum(range(k, 1000, 7))) for k in range(7)] + [(8, 1)])
    assert identical(run.answer(), wanted)
    assert aside(run.checkpoint) == {(99, 99): -1}
    assert rows.set_aside == [(Record({"K": 99, "V": 99}), -1)]
    assert len(rows.rows()) == 1001


def test_in_the_background_the_run_goes_on_and_the_caller_is_warned(
    session: incmrql.Session, recwarn: pytest.WarningsRecorder
) -> None:
    rows = session.stream("rows", ROW)
    rows.insert([(1, 5)])
    rows.delete([(2, 2)])
    arrived = threading.Event()
    original = Run._open

    def open_here(self: Run) -> Any:
        driver = original(self)
        driver._job = cast("StreamJob", Here(driver.compiled))
        return driver

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Run, "_open", open_here)
        run = session.query(SUM).start(trigger=0.0, on_batch=lambda _: arrived.set())
    assert arrived.wait(30)
    assert run.status.state == "running"
    assert run.answer() == Bag([(1, 5)])
    assert rows.set_aside == [(Record({"K": 2, "V": 2}), -1)]
    (told,) = [
        str(warning.message) for warning in recwarn if warning.category is incmrql.IncmrqlWarning
    ]
    assert "R205" in told
    assert "1 deletion was set aside" in told
    assert "the next batch, or step(), ingests all other rows" in told
    assert [type(event.problem).__name__ for event in run.events()] == ["DataError", "NoneType"]


def test_several_spools_and_rows_that_come_and_go_within_a_batch(
    session: incmrql.Session,
) -> None:
    """A deletion before its row is none that is mistaken; of three for one row two are."""
    rows = session.stream("rows", ROW)
    run = start_here(session)
    feed = run._driver.feeds[0]
    rows.delete([(1, 1)])
    feed.poll(0.0)
    rows.insert([(1, 1), (2, 2)])
    feed.poll(0.0)
    rows.delete([(2, 2)] * 3)
    rows.insert([(3, 3)])
    assert len(feed.poll(0.0).files) == 3
    with pytest.raises(incmrql.DataError, match="< K: 2, V: 2 >"):
        run.step()
    assert run.step() is not None
    assert run.answer() == Bag([(3, 3)])
    assert aside(run.checkpoint) == {(2, 2): -2}
    assert run.step() is None


def test_a_key_that_is_there_costs_only_the_row_that_repeats_it(session: incmrql.Session) -> None:
    rows = session.stream("rows", ROW, key="K")
    run = start_here(session)
    rows.insert([(1, 1)])
    assert run.step() is not None
    rows.insert([(n, n) for n in range(2, 50)])
    rows.insert([(1, 100), (60, 1), (60, 2)])
    with pytest.raises(incmrql.DataError) as caught:
        run.step()
    assert caught.value.code == "R304"
    assert run.step() is not None
    assert run.answer() == Bag([(n, n) for n in range(1, 50)] + [(60, 1)])
    assert aside(run.checkpoint) == {(1, 100): 1, (60, 2): 1}


def test_trusted_deletions_keep_what_was_inserted(session: incmrql.Session) -> None:
    rows = session.stream("rows", ROW, trusted_deletes=True)
    run = start_here(session)
    rows.insert([(1, 1)])
    assert run.step() is not None
    rows.insert([(2, 2)])
    rows.delete([(9, 9)])
    with pytest.raises(incmrql.DataError, match="deleted that is not there"):
        run.step()
    assert run.step() is not None
    assert run.answer() == Bag([(1, 1), (2, 2)])
    assert aside(run.checkpoint) == {(9, 9): -1}


def test_two_runs_set_the_same_row_aside_and_it_counts_once(session: incmrql.Session) -> None:
    rows = session.stream("rows", ROW)
    runs = [start_here(session), start_here(session)]
    rows.insert([(1, 1)])
    rows.delete([(1, 1), (1, 1)])
    for run in runs:
        with pytest.raises(incmrql.DataError):
            run.step()
        assert run.step() is not None
        assert run.answer() == Bag()
    assert rows.rows() == []
    rows.insert([(1, 1)])
    late = start_here(session)
    assert late.step() is not None
    assert late.answer() == Bag([(1, 1)])


OPS = st.lists(
    st.tuples(st.sampled_from([1, 1, -1]), st.integers(0, 3), st.booleans()), max_size=14
)


@examples(25)
@given(OPS)
def test_what_is_left_is_what_a_bag_would_be(ops: list[tuple[int, int, bool]]) -> None:
    """Of each batch the deletions of rows that are not there are dropped, and nothing else."""
    session = incmrql.Session()
    rows = session.stream("rows", "int")
    run = start_here(session, "select x from x in rows")
    there: Counter[int] = Counter()
    batch: Counter[int] = Counter()
    for weight, value, ends in [*ops, (1, 0, True)]:
        (rows.insert if weight > 0 else rows.delete)([value])
        batch[value] += weight
        if not ends:
            continue
        there = Counter({n: max(0, there[n] + batch[n]) for n in range(4)})
        batch.clear()
        try:
            run.step()
        except incmrql.DataError as problem:
            assert problem.code == "R205"  # noqa: PT017 - the law says which batches are refused
            run.step()
        assert Counter(run.answer()) == +there
    run.stop()


KILLED = """
import sys
from tests.runtime.feeds.test_set_aside import push_and_step
push_and_step(sys.argv[1])
"""


def push_and_step(checkpoint: str) -> None:
    """Three spools, two of them with a mistaken deletion; a process that is killed."""
    session = incmrql.Session()
    rows = session.stream("rows", ROW)
    run = start_here(session, checkpoint=checkpoint)
    for base in (0, 100, 200):
        rows.insert([(n, base) for n in range(10)])
        if base:
            rows.delete([(50, base)])
        run._driver.feeds[0].poll(0.0)
    for _ in range(2):
        try:
            run.step()
        except incmrql.DataError:
            continue


POINTS = ("spool-new:0", "spool-aside:0", "spool-old:0", "intent:0", "manifest:0", "after:0")


@pytest.mark.slow
@pytest.mark.parametrize("point", sample(POINTS, 2))
def test_a_kill_between_the_new_spool_and_the_new_intent_loses_nothing(
    point: str, tmp_path: Path
) -> None:
    place = tmp_path / "ck"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(place)],
        cwd=ROOT, env={**os.environ, CRASH: point}, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    session = incmrql.Session()
    session.stream("rows", ROW)
    run = start_here(session, checkpoint=place)
    for _ in range(3):
        try:
            if run.step() is None:
                break
        except incmrql.DataError as problem:
            assert problem.code == "R205"  # noqa: PT017 - only where it was killed early
    assert run.answer() == Bag([(n, 300) for n in range(10)])
    assert run.step() is None
    run.stop()
    assert aside(place) == {(50, 100): -1, (50, 200): -1}
    assert list((place / "input" / "source-0").glob("*.arrow")) == []


def test_a_failed_background_run_takes_no_rows_and_gives_no_answer(
    session: incmrql.Session, tmp_path: Path
) -> None:
    rows = session.stream("rows", ROW)
    rows.insert([(1, 1)])
    fail = [ZeroDivisionError("on purpose")]

    def on_batch(_batch: Any) -> None:
        if fail:
            raise fail[0]

    original = Run._open

    def open_here(self: Run) -> Any:
        driver = original(self)
        driver._job = cast("StreamJob", Here(driver.compiled))
        return driver

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Run, "_open", open_here)
        run = session.query(SUM).start(trigger=0.0, on_batch=on_batch, checkpoint=tmp_path / "ck")
        other = session.query(SUM).start()
    with pytest.raises(ZeroDivisionError):
        run.await_termination(timeout=30)
    calls: list[Any] = [
        lambda: rows.insert([(2, 2)]),
        lambda: rows.delete([(1, 1)]),
        run.answer,
        run.answer_df,
    ]
    for call in calls:
        with pytest.raises(incmrql.DataError, match="has failed") as caught:
            call()
        assert caught.value.code == "R374"
        assert caught.value.__cause__ is fail[0]
    fail.clear()
    assert run.step() is None
    assert run.status.state == "finished"
    assert rows.insert([(2, 2)]) == 1
    assert run.step() is not None
    assert run.answer() == Bag([(1, 1), (2, 2)])
    assert other.step() is not None
    assert other.answer() == run.answer()


def test_a_run_that_is_stopped_after_its_failure_holds_nobody_up(session: incmrql.Session) -> None:
    rows = session.stream("rows", ROW)
    run = start_here(session)
    run._fail(ZeroDivisionError())
    with pytest.raises(incmrql.DataError):
        rows.insert([(1, 1)])
    run.stop()
    assert rows.insert([(1, 1)]) == 1
    assert len(rows.rows()) == 1


def test_spools_in_any_order_of_kills_and_looks(tmp_path: Path) -> None:
    """A spool that is superseded twice: versions count in their order, up to the tenth."""
    session = incmrql.Session()
    rows = session.stream("rows", ROW)
    run = start_here(session, checkpoint=tmp_path / "ck")
    chance = random.Random(5)
    rows.insert([(n, n) for n in range(12)])
    for number in range(11):
        rows.delete([(100 + number, chance.randrange(9))])
    feed = run._driver.feeds[0]
    with warnings.catch_warnings():
        (file,) = feed.poll(0.0).files
        spooled = list(spool_rows(Path(file.path), type_from_text(ROW)))
        for number in range(11):
            (file,) = feed.poll(0.0).files
            left = [row for row in spooled if row[1] > 0 or 100 + number < row[0].K]
            feed.supersede(Path(file.path), left, type_from_text(ROW))  # type: ignore[attr-defined]
    (file,) = feed.poll(0.0).files
    assert Path(file.path).stem.endswith("~11")
    assert run.step() is not None
    assert run.answer() == Bag([(n, n) for n in range(12)])
    assert sum(aside(tmp_path / "ck").values()) == -11
    run.stop()
