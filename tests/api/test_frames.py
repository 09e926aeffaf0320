"""DataFrames whose answers are kept up to date, and what users see of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as PySpark's documentation has it

import incmrql
from incmrql.api.checkpoints import SavedRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def users(spark: SparkSession) -> SparkSession:
    """A session with Spark's own settings, as users have it."""
    return spark.newSession()


@pytest.fixture
def session(users: SparkSession) -> Iterator[incmrql.Session]:
    with incmrql.Session(spark=users) as session:
        yield session


class Orders:
    """A folder of orders that grows, and one that takes orders back."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder, self.spark, self.files = folder, spark, 0
        self.path.mkdir()
        self.deletes.mkdir()

    @property
    def path(self) -> Path:
        return self.folder / "orders"

    @property
    def deletes(self) -> Path:
        return self.folder / "returns"

    def add(self, *lines: str) -> None:
        self._write(self.path, lines)

    def remove(self, *lines: str) -> None:
        self._write(self.deletes, lines)

    def _write(self, folder: Path, lines: tuple[str, ...]) -> None:
        self.files += 1
        (folder / f"{self.files}.csv").write_text("".join(f"{line}\n" for line in lines))

    @property
    def df(self) -> DataFrame:
        schema = "id long, city string, price decimal(12,2)"
        return (
            self.spark.read.option("deletes", str(self.deletes)).schema(schema).csv(str(self.path))
        )

    def by_city(self) -> DataFrame:
        return self.df.groupBy("city").agg(F.count("*").alias("n"), F.avg("price").alias("mean"))


@pytest.fixture
def orders(tmp_path: Path, users: SparkSession) -> Orders:
    orders = Orders(tmp_path, users)
    orders.add("1,Oslo,10.50", "2,Rome,4.00", "3,Oslo,20.00")
    return orders


def test_the_answer_follows_files_and_deletions(orders: Orders) -> None:
    with incmrql.materialize(orders.by_city(), settle=0) as run:
        batch = run.step()
        assert batch is not None
        assert sorted(run.answer()) == [("Oslo", 2, Decimal("15.25")), ("Rome", 1, Decimal(4))]
        assert Counter(dict(batch.changes())) == dict.fromkeys(run.answer(), 1)
        orders.add("4,Bonn,7.00")
        orders.remove("3,Oslo,20.00")
        batch = run.step()
        assert batch is not None
        assert sorted(batch.changes()) == [
            (("Bonn", 1, Decimal(7)), 1),
            (("Oslo", 1, Decimal("10.5")), 1),
            (("Oslo", 2, Decimal("15.25")), -1),
        ]
        assert run.step() is None
        assert run.verify().rows == run.verify(against="spark").rows == 3


def test_rows_have_the_names_of_their_columns(orders: Orders) -> None:
    with incmrql.materialize(orders.by_city(), settle=0) as run:
        batch = run.step()
        assert batch is not None
        for row in (*run.answer(), *(row for row, _ in batch.changes())):
            assert (row.city, row["n"], row.mean) == tuple(row)
            assert row.asDict().keys() == {"city", "n", "mean"}


def test_the_frame_of_the_answer_has_the_schema_of_the_query(orders: Orders) -> None:
    query = orders.df.select(
        "city",
        F.col("price").cast("double").alias("price"),
        F.col("id").cast("int").alias("city"),
        F.array("id").alias("ids"),
    )
    with incmrql.materialize(query, settle=0) as run:
        run.step()
        frame = run.answer_df()
        assert frame.columns == query.columns
        assert [f.dataType for f in frame.schema] == [f.dataType for f in query.schema]
        assert sorted(map(tuple, frame.collect())) == sorted(map(tuple, run.answer()))


def test_values_that_are_never_null_are_read_back(orders: Orders) -> None:
    """Spark casts nothing to an array without nulls, or to a struct with a field without them."""
    query = orders.df.select(
        F.array(F.lit(1), F.lit(2)).alias("xs"), F.struct(F.lit("x").alias("y"), "id").alias("s")
    )
    with incmrql.materialize(query, settle=0) as run:
        run.step()
        frame = run.answer_df()
        assert frame.schema.simpleString() == query.schema.simpleString()
        assert sorted(frame.collect()) == sorted(query.collect())


def test_the_same_object_answers_at_once(session: incmrql.Session, orders: Orders) -> None:
    result = session.query(orders.by_city().orderBy(F.desc("city")))
    orders.remove("3,Oslo,20.00")
    assert [row.city for row in result.collect()] == ["Rome", "Oslo"]
    assert result.to_df().columns == ["city", "n", "mean"]
    assert result.to_pandas()["n"].tolist() == [1, 1]


def test_an_order_at_the_top_is_how_rows_are_shown(orders: Orders) -> None:
    with incmrql.materialize(orders.by_city().orderBy(F.desc("city")), settle=0) as run:
        run.step()
        orders.add("4,Sofia,7.00", "5,Bonn,1.00")
        run.step()
        assert [row.city for row in run.answer()] == ["Sofia", "Rome", "Oslo", "Bonn"]


def test_files_have_the_names_of_the_columns(orders: Orders, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with incmrql.materialize(orders.by_city(), output=out, settle=0) as run:
        run.step()
    table = pq.read_table(out / "batch=000000")
    assert table.column_names == ["city", "n", "mean", "_weight"]
    assert sorted(table.column("city").to_pylist()) == ["Oslo", "Rome"]


@pytest.mark.parametrize(
    ("names", "message"), [(("city", "City"), "two columns"), (("city", "_weight"), "of their own")]
)
def test_files_do_not_take_two_columns_of_one_name(
    orders: Orders, tmp_path: Path, names: tuple[str, str], message: str
) -> None:
    query = orders.df.select("city", "id").toDF(*names)
    with pytest.raises(incmrql.DataError, match=message) as refusal:
        incmrql.materialize(query, output=tmp_path / "out", settle=0)
    assert refusal.value.code == "R326"
    assert "toDF" in refusal.value.hint


def test_a_checkpoint_is_reopened_without_analysing_the_query(
    orders: Orders, tmp_path: Path, session: incmrql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "checkpoint"
    with incmrql.materialize(orders.by_city(), checkpoint=checkpoint, settle=0) as run:
        run.step()
    monkeypatch.setattr("incmrql.spark.plans.reader.walk_plan", None)
    saved = SavedRun(checkpoint)
    assert saved.facts()["batches"] == 1
    assert [name for table in saved.tables() for name in [table.name]]
    assert saved.verify(session).rows == 2


def test_starting_again_compares_what_the_query_means(orders: Orders, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with incmrql.materialize(orders.by_city(), checkpoint=checkpoint, settle=0) as run:
        run.step()
    orders.add("4,Bonn,7.00")
    renamed = orders.by_city().toDF("town", "orders", "price")  # analysed anew: other ids
    with incmrql.materialize(renamed, checkpoint=checkpoint, settle=0) as run:
        run.step()
        assert {row.town for row in run.answer()} == {"Oslo", "Rome", "Bonn"}
    other = orders.df.groupBy("city").agg(F.count("*"), F.max("price"))
    with pytest.raises(incmrql.CheckpointError, match="different query"):
        incmrql.materialize(other, checkpoint=checkpoint, settle=0)


def test_sums_of_doubles_are_compared_with_spark_up_to_rounding(
    session: incmrql.Session, tmp_path: Path, users: SparkSession
) -> None:
    folder = tmp_path / "numbers"
    folder.mkdir()
    (folder / "a.csv").write_text("".join(f"{n * 0.1}\n" for n in range(50)))
    frame = users.read.schema("x double").csv(str(folder))
    with session.query(frame.agg(F.sum("x").alias("total"))).start(settle=0) as run:
        run.step()
        run.verify(against="spark")
        run.verify(against="reference")


def test_a_pushed_stream_is_a_frame(session: incmrql.Session) -> None:
    points = session.stream("points", "< x: int, y: double >")
    query = points.df.groupBy("x").agg(F.sum("y").alias("total"))
    points.insert([{"x": 1, "y": 2.0}, {"x": 2, "y": 5.0}])
    with session.query(query).start() as run:
        run.step()
        points.delete([{"x": 2, "y": 5.0}])
        points.insert([(1, 3.0)])
        run.step()
        assert run.answer() == [(1, 5.0)]
        run.verify(against="spark")
    assert session.query(query).collect() == [(1, 5.0)]
    with pytest.raises(Exception, match=r".points. is a stream of incmrql"):
        points.df.collect()


def test_sql_sees_the_names_of_the_session(
    session: incmrql.Session, orders: Orders, users: SparkSession
) -> None:
    orders.df.createOrReplaceTempView("orders")
    session.register("countries", [{"city": "Oslo", "country": "Norway"}])
    sales = session.stream("sales", "< city: string, amount: int >")
    session.sql("CREATE TEMPORARY VIEW large AS SELECT * FROM orders WHERE price > 5; TABLE large")
    result = session.sql(
        "SELECT country, count(*) AS n, sum(amount) AS sold FROM large JOIN countries USING (city)"
        " JOIN sales USING (city) GROUP BY country"
    )
    sales.insert([("Oslo", 3)])
    assert result.collect() == [("Norway", 2, 6)]
    with result.start(settle=0) as run:
        run.step()
        assert [(row.country, row.sold) for row in run.answer()] == [("Norway", 6)]
    assert not users.catalog.tableExists("large"), "the user's session is as it was"


def test_a_frame_stands_for_a_stream(session: incmrql.Session, orders: Orders) -> None:
    feed = session.stream("feed", "< id: long, city: string, price: decimal(12,2) >")
    plain = orders.spark.read.schema(orders.df.schema).csv(str(orders.path))
    query = plain.groupBy("city").count()
    with session.query(query, inputs={plain: feed}).start() as run:
        feed.insert([(1, "Oslo", Decimal(1))])
        run.step()
        assert run.answer() == [("Oslo", 1)]


@pytest.mark.parametrize("by_path", [False, True])
def test_static_inputs_are_read_once(
    session: incmrql.Session, orders: Orders, by_path: bool
) -> None:
    cities = orders.spark.createDataFrame([("Oslo", "Norway")], "city string, country string")
    folder = orders.folder / "cities"
    cities.write.parquet(str(folder))
    known = orders.spark.read.parquet(str(folder))
    query = orders.df.join(known, "city").groupBy("country").count()
    with session.query(query, static=[str(folder) if by_path else known]).start(settle=0) as run:
        run.step()
        cities.write.mode("append").parquet(str(folder))
        assert run.step() is None
        assert run.answer() == [("Norway", 2)]


def test_rows_of_python_are_constants(session: incmrql.Session, orders: Orders) -> None:
    cities = orders.spark.createDataFrame([("Oslo", "Norway")], "city string, country string")
    query = orders.df.join(cities, "city").groupBy("country").count()
    with session.query(query).start(settle=0) as run:
        run.step()
        assert run.answer() == session.query(query).collect() == [("Norway", 2)]
        run.verify(against="spark")
    assert "frozen when the DataFrame was built" in incmrql.explain(query)


def test_views_over_different_rows_of_python_are_different(
    session: incmrql.Session, orders: Orders
) -> None:
    orders.df.createOrReplaceTempView("orders")
    for name, city in (("north", "Oslo"), ("south", "Rome")):
        frame = orders.spark.createDataFrame([(city,)], "city string")
        frame.groupBy("city").count().createOrReplaceTempView(name)
    query = session.sql(
        "SELECT id FROM orders JOIN north USING (city) UNION ALL"
        " SELECT -id FROM orders JOIN south USING (city)"
    )
    with query.start(settle=0) as run:
        run.step()
        assert sorted(row.id for row in run.answer()) == [-2, 1, 3]


def test_explain_says_what_is_kept(orders: Orders) -> None:
    text = incmrql.explain(orders.by_city())
    assert "groups by (string)" in text
    assert "costs the change and the touched keys" in text
