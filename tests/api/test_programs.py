"""Queries of MRQL, SQL and DataFrames that are one program: one checkpoint, one job a batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as PySpark's documentation has it

import incmrql
from incmrql.errors import CheckpointError, DataError, QueryError
from incmrql.plan.nodes import Groups
from incmrql.runtime import driver as driving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ORDER = "< city: string, price: long >"
TOTALS = "select < city: c, total: sum(o.price), n: count(o) > from o in orders group by c: o.city"
LARGE = "SELECT city, total FROM totals WHERE n > 1"
ABOVE = "select (o.city, o.price) from o in orders, l in large where o.city = l.city"

Order = tuple[str, int]


@pytest.fixture
def users(spark: SparkSession) -> SparkSession:
    return spark.newSession()


class Mixed:
    """A session with a stream, and queries in three languages that read each other."""

    def __init__(self, users: SparkSession) -> None:
        self.session = incmrql.Session(spark=users)
        self.orders = self.session.stream("orders", ORDER)
        self.session.view("totals", TOTALS)
        large = self.session.view("large", self.session.sql(LARGE))
        self.best = self.session.query(large.df.groupBy().agg(F.max("total").alias("best")))
        self.above = self.session.query(ABOVE)

    def start(self, **options: Any) -> incmrql.Run:
        answers: dict[str, Any] = {**self.session.views, "best": self.best, "above": self.above}
        return self.session.start(answers, **options)


@pytest.fixture
def mixed(users: SparkSession) -> Iterator[Mixed]:
    mixed = Mixed(users)
    with mixed.session:
        yield mixed


def expected(orders: Sequence[Order]) -> dict[str, Counter[Any]]:
    """The answers over all orders, by Python alone."""
    count = Counter(city for city, _ in orders)
    totals = {city: sum(price for own, price in orders if own == city) for city in count}
    large = {city: total for city, total in totals.items() if count[city] > 1}
    return {
        "totals": Counter((city, total, count[city]) for city, total in totals.items()),
        "large": Counter(large.items()),
        "best": Counter([(max(large.values(), default=None),)]),
        "above": Counter(order for order in orders if order[0] in large),
    }


def answers(run: Any) -> dict[str, Counter[Any]]:
    """The answers of a run, or of a checkpoint, as plain tuples."""
    names = ("totals", "large", "best", "above")
    return {name: Counter(map(_plain, run.answer(name))) for name in names}


def _plain(row: Any) -> tuple[Any, ...]:
    return tuple(row.values()) if hasattr(row, "values") else tuple(row)


def test_answers_in_three_languages_follow_one_stream(mixed: Mixed, tmp_path: Path) -> None:
    chance, there = Random(26), list[Order]()
    with mixed.start(checkpoint=tmp_path / "ck", output=tmp_path / "out") as run:
        shown: dict[str, Counter[Any]] = {name: Counter() for name in expected([])}
        for _ in range(3):
            new = [(chance.choice("abc"), chance.randint(1, 9)) for _ in range(5)]
            gone = chance.sample(there, min(3, len(there)))
            mixed.orders.insert(new)
            mixed.orders.delete(gone)
            there = list((Counter(there) + Counter(new) - Counter(gone)).elements())
            batch = run.step()
            assert batch is not None
            assert batch.jobs == 1
            assert answers(run) == expected(there)
            for name, rows in shown.items():
                for row, weight in batch.changes(name):
                    rows[_plain(row)] += weight
        assert {name: +rows for name, rows in shown.items()} == expected(there)
        assert run.verify().rows == sum(each.total() for each in expected(there).values())
        assert {row.city for row in run.answer_df("large").collect()} == {
            city for city, _ in expected(there)["large"]
        }
        with pytest.raises(DataError, match='Spark has no plan of "totals", which is a query of'):
            run.verify(against="spark")
        with pytest.raises(DataError, match="The answers are: totals, large, best, above"):
            run.answer("worst")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(expected([]))
    saved = incmrql.open(tmp_path / "ck")
    assert answers(saved) == expected(there)
    assert saved.verify(mixed.session).batch == 2


def test_what_several_queries_read_is_kept_once(mixed: Mixed) -> None:
    with mixed.start() as run:
        nodes = run._driver.program.nodes
        assert len([node for node in nodes if isinstance(node, Groups)]) <= 3
    shown = mixed.above.explain("incremental")
    assert "groups by" in shown
    assert "stream orders" in shown


def test_a_program_resumes_after_a_crash(
    mixed: Mixed, users: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "ck"

    class CrashError(BaseException):
        pass

    def crash(place: str, _number: int) -> None:
        if place == "archive":  # the task has written its files, and nothing names them
            raise CrashError

    with mixed.start(checkpoint=checkpoint) as run:
        mixed.orders.insert([("a", 1), ("a", 2), ("b", 5)])
        run.step()
        mixed.orders.insert([("b", 7)])
        mixed.orders.delete([("a", 1)])
        with monkeypatch.context() as patch:
            patch.setattr(driving, "crash_here", crash)
            with pytest.raises(CrashError):
                run.step()
    again = Mixed(users)
    with again.session, again.start(checkpoint=checkpoint) as run:
        run.step()
        assert answers(run) == expected([("a", 2), ("b", 5), ("b", 7)])
        again.orders.insert([("a", 3)])
        run.step()
        assert answers(run) == expected([("a", 2), ("b", 5), ("b", 7), ("a", 3)])
    other = Mixed(users)
    with other.session, pytest.raises(CheckpointError, match="was written by a different query"):
        other.session.start({"above": other.above}, checkpoint=checkpoint)


def test_one_query_that_reads_views_needs_no_other_call(mixed: Mixed) -> None:
    mixed.orders.insert([("a", 1), ("a", 2), ("b", 5)])
    assert sorted(mixed.above.collect()) == [("a", 1), ("a", 2)]
    assert [tuple(row) for row in mixed.best.collect()] == [(3,)]
    with mixed.best.start() as run:
        run.step()
        assert [tuple(row) for row in run.answer()] == [(3,)]
        mixed.orders.insert([("b", 2)])
        batch = run.step()
        assert batch is not None
        assert sorted((*row, weight) for row, weight in batch.changes()) == [(3, -1), (7, 1)]


def test_several_data_frames_are_one_program(users: SparkSession, tmp_path: Path) -> None:
    orders = tmp_path / "orders"
    orders.mkdir()
    (orders / "1.csv").write_text("a,1\na,2\nb,5\n")
    rows = users.read.schema("city string, price int").csv(str(orders))
    by_city = rows.groupBy("city").agg(F.sum("price").alias("total"))
    frames = {"by_city": by_city, "best": by_city.agg(F.max("total").alias("best"))}
    with incmrql.materialize(frames, settle=0) as run:
        run.step()
        assert sorted(map(tuple, run.answer("by_city"))) == [("a", 3), ("b", 5)]
        (orders / "2.csv").write_text("a,4\n")
        run.step()
        assert list(map(tuple, run.answer("best"))) == [(7,)]
        assert run.answer_df("by_city").schema == by_city.schema
        assert run.verify(against="spark").rows == 3


def test_spark_judges_views_of_spark(users: SparkSession, tmp_path: Path) -> None:
    orders = tmp_path / "orders"
    orders.mkdir()
    (orders / "1.csv").write_text("a,1\na,2\nb,5\n")
    rows = users.read.schema("city string, price int").csv(str(orders))
    with incmrql.Session(spark=users) as session:
        session.view("totals", rows.groupBy("city").agg(F.sum("price").alias("total")))
        large = session.sql("SELECT city FROM totals WHERE total > 4")
        doubled = session.query("select (t.city, 2 * t.total) from t in totals")
        with session.start({"large": large, "doubled": doubled}, settle=0) as run:
            run.step()
            assert [tuple(row) for row in run.answer("large")] == [("b",)]
            assert sorted(run.answer("doubled")) == [("a", 6), ("b", 10)]
            assert run.verify().rows == 3
        with session.start({"large": large}, settle=0) as run:
            run.step()
            assert run.verify(against="spark").rows == 1


def test_what_no_program_can_have_is_refused_by_name(mixed: Mixed, users: SparkSession) -> None:
    session = mixed.session
    with pytest.raises(DataError, match=r'rows of the view "pairs" .* need names'):
        session.view("pairs", "select (o.city, o.price) from o in orders")
    with pytest.raises(DataError, match=r'the view "sorted" is of type .* views are bags'):
        session.view("sorted", "select o from o in orders order by o.city")
    with pytest.raises(DataError, match='the column "b" of the view "bytes" is of type binary'):
        session.view("bytes", users.range(1).selectExpr("cast('x' as binary) as b"))
    with pytest.raises(DataError, match='there is a source "orders" already'):
        session.view("orders", TOTALS)
    with pytest.raises(DataError, match='there is no view "nothing"'):
        session.start(["nothing"])
    with pytest.raises(DataError, match="start takes queries by name"):
        session.start("totals")
    why = session.query(f"lineage {ABOVE}")
    with pytest.raises(QueryError, match="lineage is no answer of a program"):
        session.start({"why": why})
    stored = session.query("store n := 1; select o.price + n from o in orders")
    with pytest.raises(QueryError, match="stores no values"):
        session.start({"stored": stored, "best": mixed.best})
    one, other = (
        session.query(
            f"function f(x: long): long {{ x + {n} }}; select f(o.price) from o in orders"
        )
        for n in (1, 2)
    )
    with pytest.raises(DataError, match='two queries of the program declare "f", and not alike'):
        session.start({"one": one, "other": other})
    with session.start({"one": one, "again": one}) as run:
        mixed.orders.insert([("a", 1)])
        run.step()
        assert list(run.answer("one")) == list(run.answer("again")) == [2]
    with incmrql.Session(spark=users) as stranger:
        stranger.stream("orders", ORDER)
        with pytest.raises(DataError, match='the query "best" is of another session'):
            stranger.start({"best": mixed.best})
