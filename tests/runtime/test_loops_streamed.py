"""Loops over streams on Spark: each way, batch by batch, against the batch loop."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import incmrql
from incmrql.engine.jobs import LARGE, JobResult
from incmrql.engine.messages import BatchRequest
from incmrql.errors import IncmrqlError
from incmrql.plan.changes import Weighted
from incmrql.plan.program import LoopMode
from incmrql.spark.loops.placement import Offload
from incmrql.spark.stream_job import StreamJob
from incmrql.types.model import DOUBLE, Tuple, Type
from incmrql.values import Value, identical, show
from tests.effort import sample
from tests.plan import odd
from tests.plan.loops import EXACT, MEANS, REACHED, ROWS, Loops

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.slow]

NAMED = (
    "pagerank", "pagerank-until", "means", "factors", "reached", "shortest", "components",
)  # fmt: skip
BATCHES = 3


@pytest.fixture
def session(spark: SparkSession) -> Iterator[incmrql.Session]:
    with incmrql.Session(spark=spark) as opened:
        yield opened


def row(chance: random.Random, type_: Type) -> Value:
    if isinstance(type_, Tuple):
        return tuple(row(chance, item) for item in type_.items)
    return chance.choice([0.5, 1.25, 3.0, 4.0]) if type_ == DOUBLE else chance.randrange(8)


def changes(chance: random.Random, there: dict[str, list[Value]]) -> dict[str, list[Any]]:
    batch: dict[str, list[Any]] = {}
    for name, type_ in ROWS.items():
        chance.shuffle(there[name])
        gone = [there[name].pop() for _ in range(min(2, len(there[name]) // 3))]
        fresh = [row(chance, type_) for _ in range(9)]
        there[name] += fresh
        batch[name] = [*[(value, -1) for value in gone], *[(value, 1) for value in fresh]]
    return batch


@pytest.mark.parametrize("iterate", ["default", "exact"])
@pytest.mark.parametrize("name", sample(NAMED, 2))
def test_each_batch_answers_as_the_batch_loop_does(
    session: incmrql.Session, name: str, iterate: LoopMode
) -> None:
    known = Loops(EXACT[name], "recompute")
    streams = {stream: session.stream(stream, str(ROWS[stream])) for stream in known.names}
    run = session.query(EXACT[name]).start(iterate=iterate)
    chance, there = random.Random(name), dict[str, list[Value]]()
    there = {stream: [] for stream in ROWS}
    for number in range(BATCHES):
        for stream, rows in changes(chance, there).items():
            known.data[stream].merge(Weighted(rows))
            if stream in streams:
                streams[stream].insert([value for value, weight in rows if weight > 0])
                streams[stream].delete([value for value, weight in rows if weight < 0])
        batch = run.step()
        assert batch is not None
        assert (batch.number, batch.report.jobs) == (number, 1)
        assert batch.report.loops
        expected, got = known.evaluator_answer(), run.answer()
        assert identical(got, expected), f"{show(expected)}\n{show(got)}"
    if name in ("reached", "pagerank-until"):
        run.verify()
    run.stop()


@pytest.mark.parametrize(
    ("name", "changes_are"),
    sample([("pagerank-until", "small"), ("means", "small"), ("reached", "large")], 2),
)
def test_a_loop_too_large_for_a_task_takes_its_steps_on_spark(
    session: incmrql.Session, name: str, changes_are: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Loops(EXACT[name], "recompute")
    streams = {stream: session.stream(stream, str(ROWS[stream])) for stream in known.names}
    run = session.query(EXACT[name]).start(iterate="default")
    original, large = StreamJob.run, 0 if changes_are == "large" else LARGE

    def run_in_small_parts(job: StreamJob, order: BatchRequest, **_: int) -> JobResult:
        return original(job, order, large=large, loop_rows=8)

    monkeypatch.setattr(StreamJob, "run", run_in_small_parts)
    chance, there = random.Random(name), {stream: list[Value]() for stream in ROWS}
    for number in range(2):
        for stream, rows in changes(chance, there).items():
            known.data[stream].merge(Weighted(rows))
            if stream in streams:
                streams[stream].insert([value for value, weight in rows if weight > 0])
                streams[stream].delete([value for value, weight in rows if weight < 0])
        batch = run.step()
        assert batch is not None
        assert [loop.reason for loop in batch.report.loops] == [
            "too large for a task: as steps on Spark"
        ] * len(batch.report.loops)
        assert batch.report.jobs > 3
        expected, got = known.evaluator_answer(), run.answer()
        assert identical(got, expected), f"{number}: {show(expected)}\n{show(got)}"
    run.stop()


@pytest.mark.parametrize("name", sample(["products", "bounds", "settling", "named"], 2))
def test_odd_values_go_through_the_steps_on_spark(
    session: incmrql.Session, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = odd.odd_loop(name, "recompute")
    streams = {stream: session.stream(stream, str(odd.ROWS[stream])) for stream in known.names}
    run = session.query(odd.LOOPS[name]).start(iterate="recompute")
    original = StreamJob.run
    monkeypatch.setattr(StreamJob, "run", lambda j, o, **_: original(j, o, loop_rows=0))
    rows: dict[str, list[Value]] = {
        "M": [
            (1, 2, math.nan), (2, 1, -0.0), (1, 1, None), (None, 2, 4.0), (2, None, math.inf),
            (2, 2, 5e-324), (1, 2, -1.7e308), (1, 2, math.nan), (2**63 - 1, 1, 0.5),
        ],
        "S": [("", "a"), ("a\0", ""), (None, "a"), ("a", None), ("é", "e\u0301"), ("a", "é")],
    }  # fmt: skip
    for sign, chosen in ((1, slice(None)), (-1, slice(0, None, 2)), (-1, slice(1, None, 2))):
        for stream_name, stream in streams.items():
            some = rows[stream_name][chosen]
            changed = odd.canonical({stream_name: [(row, sign) for row in some]})[stream_name]
            known.data[stream_name].merge(Weighted(changed))
            (stream.insert if sign > 0 else stream.delete)(some)
        batch = run.step()
        assert batch is not None
        assert batch.report.loops[0].reason.startswith("too large for a task")
        expected, got = known.evaluator_answer(), run.answer()
        assert identical(got, expected), f"{show(expected)}\n{show(got)}"
    run.stop()


def test_a_batch_that_ends_while_its_loop_runs_apart_is_done_again(
    session: incmrql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Loops(REACHED, "recompute")
    edges = session.stream("E", str(ROWS["E"]))
    run = session.query(REACHED).start(iterate="recompute")
    original, stepped = StreamJob.run, Offload.run
    monkeypatch.setattr(StreamJob, "run", lambda j, o, **_: original(j, o, loop_rows=0))

    def failing(offload: Offload) -> None:
        stepped(offload)
        raise RuntimeError("killed")

    rows: list[Value] = [(0, 1), (1, 2), (2, 3), (5, 6)]
    edges.insert(rows)
    known.data["E"].merge(Weighted((row, 1) for row in rows))
    with monkeypatch.context() as patch:
        patch.setattr(Offload, "run", failing)
        with pytest.raises(RuntimeError, match="killed"):
            run.step()
    batch = run.step()
    assert batch is not None
    assert batch.report.rows_in == len(rows)
    assert identical(run.answer(), known.evaluator_answer())
    run.stop()


def test_centroids_diffuse_and_are_run_again(session: incmrql.Session) -> None:
    points = session.stream("P", str(ROWS["P"]))
    run = session.query(MEANS).start(iterate="diffuse", resync=3)
    chance = random.Random(5)
    kinds = []
    for _ in range(5):
        points.insert([(chance.random() + 3 * (n % 2), chance.random()) for n in range(30)])
        batch = run.step()
        assert batch is not None
        (loop,) = batch.report.loops
        assert loop.error is not None
        kinds.append(loop.error["kind"])
    assert kinds == ["resynchronised", "residual", "residual", "resynchronised", "residual"]
    run.stop()


def test_a_loop_that_supports_itself_is_not_diffused(session: incmrql.Session) -> None:
    session.stream("E", str(ROWS["E"]))
    with pytest.raises(IncmrqlError, match="A104") as caught:
        session.query(REACHED).start(iterate="diffuse")
    assert "r -> a" in str(caught.value)
