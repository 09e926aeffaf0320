"""Functions that Spark evaluates for us: once for each inserted row, whatever they answer later."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import incmrql
from incmrql.errors import CheckpointError, DataError, DifferenceFound
from incmrql.runtime import driver as driving

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Place:
    """A directory of rows, one of deletions, and the queries over them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.data, self.deletes = folder / "data", folder / "deletes"
        self.checkpoint, self.calls = folder / "checkpoint", folder / "calls"
        self.data.mkdir()
        self.deletes.mkdir()
        self.calls.touch()
        read = spark.newSession().read.schema("k int, s string")
        self.rows = read.option("deletes", str(self.deletes)).csv(str(self.data))

    def put(self, name: str, *lines: str, deletes: bool = False) -> None:
        """Write a file."""
        folder = self.deletes if deletes else self.data
        (folder / name).write_text("".join(f"{line}\n" for line in lines))

    def counting(self, function: Callable[[Any], Any], type_: str) -> Any:
        """A function of Spark that notes each call."""
        from pyspark.sql import functions

        calls = str(self.calls)

        def count_and_call(value: Any) -> Any:
            with open(calls, "a") as file:
                file.write("x")
            return function(value)

        return functions.udf(count_and_call, type_, useArrow=False)

    def start(self, query: DataFrame) -> incmrql.Run:
        """The query as it runs."""
        return incmrql.materialize(query, checkpoint=str(self.checkpoint))


def _random_number(_value: Any) -> int:
    import random

    return random.randrange(10**9)


def _slow_upper(value: Any) -> Any:
    import time

    time.sleep(0.2)
    return None if value is None else value.upper()


def test_a_function_that_lies_about_being_deterministic_cancels_exactly(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql import functions

    place = Place(spark, tmp_path)
    lying, slow = place.counting(_random_number, "int"), place.counting(_slow_upper, "string")
    sound = functions.expr("soundex(s)").alias("sound")
    query = (
        place.rows.where("k > 0")
        .select("k", slow("s").alias("u"), lying("k").alias("v"), sound)
        .groupBy("k", "u", "sound")
        .agg(functions.sum("v").alias("v"), functions.count("*").alias("n"))
    )
    assert "_slow_upper" not in incmrql.explain(query)
    assert "is opaque: Spark evaluates it once for each inserted row" in incmrql.explain(query)
    with place.start(query) as run:
        place.put("1.csv", "1,x", "1,x", "2,", "1,x")
        run.step()
        before = {tuple(row)[:3]: tuple(row)[3:] for row in run.answer()}
        assert {key: n for key, (_, n) in before.items()} == {
            (1, "X", "X000"): 3,
            (2, None, None): 1,
        }
        assert len(place.calls.read_text()) == 8
        place.put("1.csv", "1,x", "2,", deletes=True)
        run.step()
        assert len(place.calls.read_text()) == 8
        ((_, _, _, total, count),) = run.answer()
        assert count == 2
        assert total < before[1, "X", "X000"][0]
        assert run.verify().rows == 1
        with pytest.raises(
            DifferenceFound, match=r'count_and_call\(k\) gave .* when the row \(1,"x"\)'
        ):
            run.verify(against="spark")
        calls = place.calls.read_text()
        place.put("2.csv", "1,x", "1,x", deletes=True)
        run.step()
        assert place.calls.read_text() == calls
        assert list(run.answer()) == []
        place.put("3.csv", "1,x", deletes=True)
        with pytest.raises(DataError, match=r'rows are deleted that are not there: \(1,"x"\)\n'):
            run.step()


def test_a_row_that_comes_and_goes_in_one_batch(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(spark, tmp_path)
    lying = place.counting(_random_number, "int")
    with place.start(place.rows.select("s", lying("k").alias("v"))) as run:
        place.put("1.csv", "1,x", "2,y")
        place.put("1.csv", "2,y", deletes=True)
        run.step()
        ((s, _),) = run.answer()
        assert s == "x"


def _inverse(value: Any) -> Any:
    return 100 // value


def _needs(value: Any) -> Any:
    import package_that_workers_lack  # type: ignore[import-not-found]

    return package_that_workers_lack.of(value)


def test_a_function_that_fails_is_named_with_the_row_and_nothing_is_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql import functions

    place = Place(spark, tmp_path)
    inverse = functions.udf(_inverse, "int", useArrow=False)
    query = place.rows.select("s", inverse("k").alias("v")).where("v > 1")
    with place.start(query) as run:
        place.put("1.csv", "5,a")
        run.step()
        place.put("2.csv", "2,b", "0,c", "4,d")
        with pytest.raises(DataError) as caught:
            run.step()
        assert caught.value.code == "R327"
        assert "_inverse(k) failed for the row (0, 'c'): ZeroDivisionError" in caught.value.message
        assert [tuple(row) for row in run.answer()] == [("a", 20)]
        place.put("2.csv", "2,b", "4,d")
        run.step()
        assert sorted(map(tuple, run.answer())) == [("a", 20), ("b", 50), ("d", 25)]
    lacking = place.rows.select(functions.udf(_needs, "string", useArrow=False)("s").alias("v"))
    with (
        incmrql.materialize(lacking, checkpoint=str(tmp_path / "other")) as run,
        pytest.raises(DataError, match=r"_needs\(s\) failed .*package_that_workers_lack"),
    ):
        run.step()


def test_a_crash_before_the_intent_and_a_changed_function(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import functions

    place = Place(spark, tmp_path)
    inverse = functions.udf(_inverse, "int", useArrow=False)
    query = place.rows.select("s", inverse("k").alias("v"))
    place.put("1.csv", "5,a")

    class CrashError(BaseException):
        pass

    def crash(*_arguments: Any) -> Any:
        raise CrashError

    with place.start(query) as run, monkeypatch.context() as patch:
        patch.setattr(driving, "with_kept_values", crash)
        with pytest.raises(CrashError):
            run.step()
    with place.start(query) as run:
        run.step()
        assert [tuple(row) for row in run.answer()] == [("a", 20)]
    other = functions.udf(lambda value: 200 // value, "int", useArrow=False)
    with pytest.raises(CheckpointError, match="was written by a different query"):
        place.start(place.rows.select("s", other("k").alias("v")))


def _double(value: Any) -> Any:
    return None if value is None else 2 * value


def test_functions_over_parquet_never_make_spark_wait(spark: SparkSession, tmp_path: Path) -> None:
    """In 4.2 they get columns, and the task and its worker may wait for each other."""
    from pyspark.sql import functions

    users = spark.newSession()
    users.conf.set("spark.sql.execution.arrow.pythonUDF.columnarInput.enabled", "true")
    (tmp_path / "data").mkdir()
    rows = pa.table({"k": pa.array([1, 2, None], pa.int32()), "s": ["a", "b", "c"]})
    pq.write_table(rows, tmp_path / "data/1.parquet")
    double = functions.udf(_double, "int", useArrow=True)
    query = users.read.parquet(str(tmp_path / "data")).select("s", double("k").alias("v"))
    expected = [("a", 2), ("b", 4), ("c", None)]

    def answers() -> list[list[tuple[Any, ...]]]:
        with incmrql.Session(spark=users) as session:
            result = session.query(query)
            with result.start(settle=0) as run:
                run.step()
                assert run.verify(against="spark").rows == 3
                return [sorted(map(tuple, rows)) for rows in (run.answer(), result.collect())]

    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(answers)
        try:
            assert answer.result(timeout=300) == [expected, expected]
        except TimeoutError:
            users.sparkContext.cancelAllJobs()
            raise
