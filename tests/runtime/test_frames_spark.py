"""Streaming data frames of Spark as streams of a session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import incmrql
from incmrql.api.runs import Run
from incmrql.runtime.report import Batch
from incmrql.values import Bag, identical

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: SparkSession) -> Iterator[incmrql.Session]:
    with incmrql.Session(spark=spark) as opened:
        yield opened


def frame(spark: SparkSession, folder: Path, schema: str = "who string, n int") -> DataFrame:
    folder.mkdir(exist_ok=True)
    return spark.readStream.schema(schema).json(str(folder))


def put(folder: Path, name: str, *rows: dict[str, object]) -> None:
    hidden = folder / f".{name}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(folder / name)


def step(run: Run) -> Batch:
    batch = run.step()
    assert batch is not None
    return batch


SUMS = "select (c.who, sum(c.n)) from c in clicks group by c.who"


def test_batches_of_a_streaming_frame(
    session: incmrql.Session, spark: SparkSession, tmp_path: Path
) -> None:
    clicks = session.stream("clicks", frame(spark, tmp_path / "in"))
    assert str(clicks.row) == "< who: string, n: int >"
    put(tmp_path / "in", "1.json", {"who": "a", "n": 1}, {"who": "b", "n": 2})
    run = session.query(SUMS).start(checkpoint=tmp_path / "ck")
    assert step(run).rows_in == 2
    put(tmp_path / "in", "2.json", {"who": "a", "n": 5})
    assert sorted(step(run).changes()) == [(("a", 1), -1), (("a", 6), 1)]
    assert run.step() is None
    assert run.verify().rows == 2
    run.stop()
    put(tmp_path / "in", "3.json", {"who": "c", "n": 7})
    with session.query(SUMS).start(checkpoint=tmp_path / "ck") as run:
        batch = step(run)
        assert (batch.number, batch.rows_in) == (2, 1)
        assert identical(run.answer(), Bag([("a", 6), ("b", 2), ("c", 7)]))
    with pytest.raises(incmrql.DataError, match="is a streaming DataFrame"):
        session.query(SUMS).collect()


def test_a_column_of_weights(session: incmrql.Session, spark: SparkSession, tmp_path: Path) -> None:
    schema = "who string, n int, _weight int"
    clicks = session.stream("clicks", frame(spark, tmp_path / "in", schema))
    assert str(clicks.row) == "< who: string, n: int >"
    put(tmp_path / "in", "1.json", {"who": "a", "n": 1, "_weight": 3})
    put(tmp_path / "in", "2.json", {"who": "a", "n": 1, "_weight": -1})
    with session.query(SUMS).start() as run:
        step(run)
        assert run.answer() == Bag([("a", 2)])
        put(tmp_path / "in", "3.json", {"who": "z", "n": 1, "_weight": -1})
        with pytest.raises(incmrql.DataError, match="not there"):
            run.step()
        put(tmp_path / "in", "4.json", {"who": "b", "n": 1, "_weight": 1})
        step(run)
        assert run.answer() == Bag([("a", 2), ("b", 1)])


def test_a_sign_that_is_none_ends_the_query(
    session: incmrql.Session, spark: SparkSession, tmp_path: Path
) -> None:
    source = frame(spark, tmp_path / "in", "n int, op string")
    session.stream("clicks", source, sign="op")
    put(tmp_path / "in", "1.json", {"n": 1, "op": "sideways"})
    with (
        session.query("sum(clicks.n)").start() as run,
        pytest.raises(incmrql.DataError, match="sideways"),
    ):
        run.step()


def test_a_loop_follows_a_frame_beside_pushed_rows(
    session: incmrql.Session, spark: SparkSession, tmp_path: Path
) -> None:
    session.stream("clicks", frame(spark, tmp_path / "in"))
    names = session.stream("names", "(string, string)")
    names.insert([("a", "Ann")])
    put(tmp_path / "in", "1.json", {"who": "a", "n": 1})
    text = "select (name, c.n) from c in clicks, (who, name) in names where c.who = who"
    with session.query(text).start(available_now=True) as run:
        assert run.await_termination(timeout=60)
        assert run.answer() == Bag([("Ann", 1)])


def test_frames_that_are_none(
    session: incmrql.Session, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(incmrql.DataError, match="not a streaming DataFrame"):
        session.stream("clicks", spark.range(3))
    with pytest.raises(incmrql.DataError, match="no sign column"):
        session.stream("clicks", frame(spark, tmp_path / "in"), sign="op")


def test_registered_frames_beside_a_stream(session: incmrql.Session, spark: SparkSession) -> None:
    session.register(
        "fixed", spark.createDataFrame([(1, "one"), (2, "two")], "id int, name string")
    )
    rows = session.stream("rows", "int")
    with session.query("select f.name from r in rows, f in fixed where f.id = r").start() as run:
        rows.insert([2])
        step(run)
        assert run.answer() == Bag(["two"])
        assert run.verify().rows == 1
