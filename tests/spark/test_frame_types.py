"""Columns of Spark's data frames: those that have a meaning are taken, others refused by name."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from incmrql import DataError, Session
from incmrql.values import Bag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


pytestmark = pytest.mark.spark

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
TAKEN = [
    ("timestamp'2026-01-31 12:00:00 UTC'", NOON),
    ("timestamp_ntz'2026-01-31 12:00:00'", NOON),
    ("array(timestamp'2026-01-31 12:00:00 UTC')", [NOON]),
    ("map('a', 1)", Bag([("a", 1)])),
    ("cast('ab' as char(3))", "ab"),
    ("cast('ab' as varchar(3))", "ab"),
    ("'Ab' collate UTF8_LCASE", "Ab"),
    ("cast(1.5 as decimal(38, 18))", Decimal("1.5")),
    ("cast(null as void)", None),
]
REFUSED = [
    ("X'00FF'", "binary"),
    ("interval '1' day", "interval day"),
    ("interval '1' year", "interval year"),
    ("make_interval(1, 2)", "interval"),
    ("""parse_json('{"a": 1}')""", "variant"),
    ("time'10:00:00'", "time(6)"),
]


def column(spark: SparkSession, text: str) -> DataFrame:
    return spark.sql(f"select 1 as id, {text} as x")


@pytest.mark.parametrize(("text", "value"), TAKEN)
def test_a_column_that_has_a_meaning(spark: SparkSession, text: str, value: object) -> None:
    session = Session(spark)
    session.register("rows", column(spark, text))
    assert session.query("select r.x from r in rows").collect() == Bag([value])
    pushed = session.stream("pushed", "< id: int >")
    query = "incr select r.x from r in rows, p in pushed where r.id = p.id"
    with session.query(query).start() as run:
        pushed.insert([{"id": 1}])
        run.step()
        assert run.answer() == Bag([value])


@pytest.mark.parametrize(("text", "type_"), REFUSED)
def test_a_column_that_has_none(spark: SparkSession, text: str, type_: str) -> None:
    frame = column(spark, text)
    with pytest.raises(DataError, match="R208") as caught:
        Session(spark).register("rows", frame)
    assert caught.value.message == (
        f'column "x" of data frame "rows" has type {type_}, which no MRQL type holds'
    )
    assert "df.drop('x')" in caught.value.hint
    inner = frame.selectExpr("id", "array(named_struct('y', x)) as x")
    with pytest.raises(DataError, match=r'column "x\[\]\.y" of data frame "rows"'):
        Session(spark).register("rows", inner)


def test_a_column_of_a_users_type(spark: SparkSession) -> None:
    from pyspark.ml.linalg import Vectors

    frame = spark.createDataFrame([(1, Vectors.dense([1.0]))], ["id", "x"])
    with pytest.raises(DataError, match='column "x" of data frame "rows" has type vector'):
        Session(spark).register("rows", frame)


def test_two_columns_of_one_name(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="several fields of one name"):
        Session(spark).register("rows", spark.sql("select 1 as x, 2 as x"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("timestamp_micros(9223372036854775807)", "outside the years 1 to 9999"),
        ("array(date_from_unix_date(2147483647))", "outside the years 1 to 9999"),
        ("cast(X'FF' as string)", "not UTF-8 at byte 1 of a string"),
    ],
)
def test_a_value_that_no_type_holds(spark: SparkSession, text: str, reason: str) -> None:
    session = Session(spark)
    session.register("rows", column(spark, text))
    with pytest.raises(DataError, match=reason):
        session.query("select r.x from r in rows").collect()
    session.register("inside", column(spark, f"map({text}, 1)"))
    with pytest.raises(DataError, match=reason):
        session.query("select r.x from r in inside").collect()
    pushed = session.stream("pushed", "< id: int >")
    query = "incr select r.x from r in rows, p in pushed where r.id = p.id"
    with session.query(query).start() as run:
        pushed.insert([{"id": 1}])
        with pytest.raises(DataError, match=reason):
            run.step()


def test_a_stream_of_the_rate_source(spark: SparkSession) -> None:
    """Its columns are a timestamp and a long."""
    session = Session(spark)
    rate = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    session.stream("ticks", rate)
    query = "incr select (k, count(t), max(t.timestamp)) from t in ticks group by k: t.value % 2"
    with session.query(query).start() as run:
        patience = time.monotonic() + 60
        while not run.answer() and time.monotonic() < patience:
            run.step()
        rows = sorted(run.answer())
    assert [odd for odd, _, _ in rows] == [0, 1]
    assert all(count >= 1 for _, count, _ in rows)
    assert all(abs(last - datetime.now(UTC)) < timedelta(hours=1) for _, _, last in rows)


def test_columns_as_kafka_has_them(spark: SparkSession, tmp_path: Path) -> None:
    """Bytes are refused with the cast that makes them text; after it they are taken."""
    columns = (
        "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
    )
    spark.sql(
        "select X'6B' as key, X'7631' as value, 't' as topic, 0 as partition, 7L as offset, "
        "timestamp'2026-01-31 12:00:00 UTC' as timestamp"
    ).write.parquet(str(tmp_path / "in"))
    frame = spark.readStream.schema(columns).parquet(str(tmp_path / "in"))
    session = Session(spark)
    with pytest.raises(DataError, match='column "key" of data frame "topic" has type binary') as it:
        session.stream("topic", frame)
    assert "df['key'].cast('string')" in it.value.hint
    for name in ("key", "value"):
        frame = frame.withColumn(name, frame[name].cast("string"))
    session.stream("topic", frame)
    query = "incr select (m.key, m.value, m.timestamp) from m in topic"
    with session.query(query).start() as run:
        run.step()
        assert run.answer() == Bag([("k", "v1", NOON)])
