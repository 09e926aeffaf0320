"""Sessions: queries over registered data, from Python."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import incmrql
from incmrql.io.rows import Policy, ReadReport
from incmrql.values import Bag, Record, Value, identical, show

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

ORDERS = [
    {"city": "Oslo", "price": 0.1},
    {"city": "Bergen", "price": 2.5},
    {"city": "Oslo", "price": 0.2},
]
BY_CITY = "select (o.city, sum(o.price)) from o in orders group by o.city"
ANSWER = Bag([("Oslo", 0.1 + 0.2), ("Bergen", 2.5)])


@pytest.fixture
def session(spark: SparkSession) -> incmrql.Session:
    return incmrql.Session(spark=spark)


def same(actual: Value, expected: Value) -> None:
    assert identical(actual, expected), f"{show(actual)} is not {show(expected)}"


def test_rows_in_a_list(session: incmrql.Session) -> None:
    session.register("orders", ORDERS)
    same(session.query(BY_CITY).collect(), ANSWER)


def test_an_arrow_table(session: incmrql.Session) -> None:
    session.register("orders", pa.Table.from_pylist(ORDERS))
    same(session.query(BY_CITY).collect(), ANSWER)


def test_a_pandas_frame(session: incmrql.Session) -> None:
    session.register("orders", pd.DataFrame(ORDERS))
    same(session.query(BY_CITY).collect(), ANSWER)


def test_a_spark_frame(session: incmrql.Session) -> None:
    session.register("orders", session.spark.createDataFrame(pd.DataFrame(ORDERS)))
    same(session.query(BY_CITY).collect(), ANSWER)


def test_tuples_and_nested_rows(session: incmrql.Session) -> None:
    day = datetime.date(2026, 1, 31)
    session.register("T", [(1, ["a", "b"], {"x": day}), (2, [], None)])
    same(
        session.query("select (n, count(words), r.x) from (n, words, r) in T").collect(),
        Bag([(1, 2, day), (2, 0, None)]),
    )


def test_a_declared_type(session: incmrql.Session) -> None:
    session.register("T", [], type="< A: int, B: string >")
    same(session.query("select x.B from x in T where x.A > 1").collect(), Bag())


def test_a_value_that_is_no_collection(session: incmrql.Session) -> None:
    session.register("orders", ORDERS)
    same(session.query("(count(orders), max(orders.price))").collect(), (3, 2.5))


def test_declarations_before_the_query(session: incmrql.Session) -> None:
    session.register("orders", ORDERS)
    text = "function twice(x: double): double { x * 2.0 }; n = count(orders); (n, twice(2.5));"
    same(session.query(text).collect(), (3, 5.0))


def test_records_have_attributes(session: incmrql.Session) -> None:
    session.register("orders", ORDERS)
    (row,) = session.query("select o from o in orders where o.price > 1.0").collect()
    assert (row.city, row["price"]) == ("Bergen", 2.5)


def test_as_a_data_frame(session: incmrql.Session) -> None:
    session.register("orders", ORDERS)
    result = session.query("select < town: o.city, n: count(o) > from o in orders group by o.city")
    assert result.to_df().columns == ["town", "n"]
    rows = result.to_pandas().sort_values("town").to_dict("records")
    assert rows == [{"town": "Bergen", "n": 1}, {"town": "Oslo", "n": 2}]


def test_a_data_frame_of_what_is_not_a_collection_of_rows(session: incmrql.Session) -> None:
    session.register("orders", ORDERS)
    assert session.query("count(orders)").to_pandas().to_dict("list") == {"value": [3]}
    assert session.query("{1, 2}").to_pandas()["value"].sort_values().tolist() == [1, 2]


def test_python_functions(session: incmrql.Session) -> None:
    @session.function
    def shout(text: str) -> str:
        return text.upper() + "!"

    session.register("orders", ORDERS)
    shouts = session.query("distinct(select shout(o.city) from o in orders)").collect()
    same(shouts, Bag(["OSLO!", "BERGEN!"]))


def test_a_python_function_that_raises(session: incmrql.Session) -> None:
    @session.function
    def always_fails(text: str) -> str:
        raise ValueError(f"no {text}")

    session.register("orders", ORDERS[:1])
    with pytest.raises(incmrql.DataError, match="no Oslo") as error:
        session.query("select always_fails(o.city) from o in orders").collect()
    assert error.value.code == "R204"


def test_a_python_function_is_not_called_where_a_condition_forbids_it(
    session: incmrql.Session,
) -> None:
    @session.function
    def inverse(x: float) -> float:
        return 1 / x

    session.register("T", [{"x": 0.0}, {"x": 2.0}])
    inverses = session.query("select if t.x = 0.0 then 0.0 else inverse(t.x) from t in T").collect()
    same(inverses, Bag([0.0, 0.5]))


def test_explain_names_the_places_that_run_in_python(session: incmrql.Session) -> None:
    @session.function
    def half(x: float) -> float:
        return x / 2

    session.register("orders", ORDERS)
    text = session.query("select half(o.price) from o in orders").explain()
    assert 'python_1 runs in Python (Python function "half")' in text
    assert "SELECT" in text
    assert "groupBy" in session.query(BY_CITY).explain("normal")


def test_fast_sums_are_sparks_own(spark: SparkSession) -> None:
    fast = incmrql.Session(spark=spark, float_sums="fast")
    fast.register("orders", ORDERS)
    assert "sums of doubles are Spark's own" in fast.query(BY_CITY).explain()
    same(fast.query(BY_CITY).collect(), ANSWER)


def test_sums_outside_the_window_are_exact_too(session: incmrql.Session) -> None:
    big = [{"k": 1, "x": x} for x in (1e300, 1.0, -1e300, 2.0**-1074)]
    session.register("T", big)
    query = session.query("select (k, sum(t.x), avg(t.x)) from t in T group by k: t.k")
    expected = Bag([(1, 1.0, 0.25)])
    same(query.collect(), expected)
    wide = query.to_df(wide_sums=True).collect()
    assert [tuple(row["value"]) for row in wide] == [(1, 1.0, 0.25)]
    with pytest.raises(PySparkException, match="outside the window"):
        query.to_df().collect()


def test_the_users_session_is_left_alone(spark: SparkSession) -> None:
    users = spark.newSession()
    users.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    with incmrql.Session(spark=users) as session:
        session.register("orders", ORDERS)
        session.query(BY_CITY).collect()
    assert users.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert users.catalog.listTables() == []
    assert users.range(3).count() == 3, "Spark still runs"


def test_bad_lines_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1,2\nbad\n3,4\n")
    reports: list[tuple[int, Policy]] = []

    def note(report: ReadReport, policy: Policy) -> None:
        reports.append((report.bad, policy))

    session = incmrql.Session(spark=spark, quarantine=tmp_path / "q", on_report=note)
    text = (
        f'sum(select x.A from x in source(line, "{tmp_path}/x.csv", ",", type(<A: int, B: int>)))'
    )
    same(session.query(text).collect(), 4)
    assert reports == [(1, "quarantine")]
    assert len(list((tmp_path / "q").iterdir())) == 1


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"A": 1}, {"A": "x"}], 'row 1 of "T" has type'),
        ([{"A": object()}], 'a value of "T" is a object'),
    ],
)
def test_rows_without_a_type(session: incmrql.Session, rows: list[object], said: str) -> None:
    with pytest.raises(incmrql.DataError, match=said):
        session.register("T", rows)


def test_wrong_use(session: incmrql.Session) -> None:
    with pytest.raises(incmrql.DataError, match="cannot be the name"):
        session.register("a b", [])
    with pytest.raises(incmrql.DataError, match="has no query"):
        session.query("x = 1;")
    with pytest.raises(incmrql.QueryError, match="orderz"):
        session.query("select x from x in orderz")
    with pytest.raises(incmrql.DataError, match="either a Spark session"):
        incmrql.Session(spark=session.spark, master="local[1]")


def test_records_are_values(session: incmrql.Session) -> None:
    session.register("T", [Record({"A": 1})])
    same(session.query("T").collect(), Bag([Record({"A": 1})]))
