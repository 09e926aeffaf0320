"""Queries of Spark that are refused: each with what to do, and with all reasons at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as PySpark's documentation has it

import incmrql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def users(spark: SparkSession) -> SparkSession:
    return spark.newSession()


@pytest.fixture
def orders(tmp_path: Path, users: SparkSession) -> DataFrame:
    folder = tmp_path / "orders"
    folder.mkdir()
    (folder / "a.csv").write_text("1,Oslo,10.5\n")
    return users.read.schema("id long, city string, price double").csv(str(folder))


def refusal(query: Any) -> incmrql.QueryError:
    with pytest.raises(incmrql.QueryError) as refused:
        incmrql.materialize(query)
    assert all(problem.hint for problem in refused.value.problems), str(refused.value)
    return refused.value


def test_a_frame_of_spark_connect() -> None:
    connect = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})
    assert "Spark Connect" in refusal(connect()).message
    assert "classic session" in refusal(connect()).hint


def test_a_text_where_a_frame_is_expected() -> None:
    with pytest.raises(incmrql.DataError, match="a DataFrame is expected") as refused:
        incmrql.materialize("SELECT 1")  # type: ignore[arg-type]
    assert "session" in refused.value.hint.lower()


def test_a_command_does_not_run(users: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(incmrql.QueryError, match="command") as refused:
        incmrql.Session(spark=users).sql(
            f"INSERT OVERWRITE DIRECTORY '{tmp_path / 'out'}' USING parquet SELECT 1"
        )
    assert "SELECT" in refused.value.hint
    assert not (tmp_path / "out").exists()


def test_a_name_that_spark_does_not_know(users: SparkSession) -> None:
    with pytest.raises(incmrql.QueryError, match="TABLE_OR_VIEW_NOT_FOUND") as refused:
        incmrql.Session(spark=users).sql("SELECT 1;\nSELECT *\nFROM nowhere")
    assert refused.value.place == "<query>:3:6"


@pytest.mark.parametrize("frame", [lambda s: s.range(3), lambda s: s.createDataFrame([(1,)])])
def test_a_plan_without_a_moving_input(
    users: SparkSession, frame: Callable[[SparkSession], DataFrame]
) -> None:
    with pytest.raises(incmrql.DataError, match="reads no stream") as refused:
        incmrql.materialize(frame(users))
    assert "spark.read" in refused.value.hint


def test_a_folder_that_is_overwritten(orders: DataFrame, tmp_path: Path) -> None:
    with incmrql.materialize(orders, settle=0) as run:
        run.step()
        orders.limit(0).write.mode("overwrite").parquet(str(tmp_path / "other"))
        orders.sparkSession.createDataFrame([(2, "Rome", 1.0)]).write.mode("overwrite").csv(
            str(tmp_path / "orders")
        )
        with pytest.raises(incmrql.DataError) as refused:
            run.step()
        assert refused.value.code in ("R301", "R302")
        assert refused.value.hint
    with incmrql.materialize(orders, settle=0, on_modified="replace") as run:
        run.step()
        assert run.answer() == [(2, "Rome", 1.0)]


def test_a_user_defined_function(orders: DataFrame) -> None:
    """Over groups Spark cannot evaluate it once for each row that comes."""
    double = F.udf(lambda x: 2 * x, "double")
    totals = orders.groupBy("city").agg(F.sum("price").alias("total"))
    assert (
        "PythonUDF: a function in another language"
        in refusal(totals.select(double("total"))).message
    )
    assert "Apply it to columns of one input" in refusal(totals.select(double("total"))).hint


def test_the_current_time(orders: DataFrame) -> None:
    assert "CurrentTimestamp" in refusal(orders.select(F.current_timestamp())).message


def test_a_streaming_frame(users: SparkSession) -> None:
    frame = users.readStream.format("rate").load()
    assert "Structured Streaming" in refusal(frame).message


def test_ten_reasons_at_once(orders: DataFrame) -> None:
    reasons = [
        F.rand(),
        F.randn(),
        F.uuid(),
        F.current_timestamp(),
        F.current_date(),
        F.monotonically_increasing_id(),
        F.spark_partition_id(),
        F.input_file_name(),
        F.current_user(),
        F.shuffle(F.array("id")),
    ]
    problems = refusal(orders.select(*reasons)).problems
    assert len({problem.message for problem in problems}) == len(reasons)
    assert incmrql.explain(orders.select(*reasons)).count("error[C10") == len(reasons)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_modified": "ignore"}, 'on_modified is "refuse" or "replace"'),
        ({"static": "orders"}, "static must be a list"),
        ({"inputs": {}, "no_option": 1}, 'no option "no_option"'),
    ],
)
def test_options_that_make_no_sense(
    orders: DataFrame, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(incmrql.DataError, match=message):
        incmrql.materialize(orders, **options)


def test_inputs_of_mrql_are_written_in_the_query(users: SparkSession) -> None:
    with pytest.raises(incmrql.DataError, match="options of the inputs of a DataFrame"):
        incmrql.Session(spark=users).query("1", static=["x"])
