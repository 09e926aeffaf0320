"""Spark's private API: each use agrees with what stands in where it is missing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import incmrql
from incmrql.spark import internals
from incmrql.spark.session import private

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = Path(incmrql.__file__).parent


def test_private_names_are_used_in_one_module() -> None:
    private_names = re.compile(
        r"\._j(sc|df|sparkSession|rdd)\b|\._jvm\b|pyspark\.sql\.pandas|spark\.sql\.classic"
    )
    users = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if private_names.search(path.read_text(encoding="utf-8"))
    }
    assert users == {"spark/internals.py"}


@pytest.fixture
def both_ways(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], tuple[Any, Any]]:
    """The results of a call with Spark's private API, and without."""

    def call_both(what: Callable[[], Any]) -> tuple[Any, Any]:
        def only_private(private_way: Callable[[], Any], _: Callable[[], Any]) -> Any:
            return private_way()

        def only_public(_: Callable[[], Any], public_way: Callable[[], Any]) -> Any:
            return public_way()

        results = []
        for way in (only_private, only_public):
            monkeypatch.setattr(internals, "_first_that_works", way)
            results.append(what())
        return results[0], results[1]

    return call_both


Both = Callable[[Callable[[], Any]], tuple[Any, Any]]


@pytest.mark.spark
def test_a_text_over_frames(spark: SparkSession, both_ways: Both) -> None:
    own = private(spark)
    frames = [("a", own.range(5)), ("b", own.range(3, 9))]
    text = "select a.id, count(*) n from a join b on a.id < b.id group by a.id order by a.id"
    one, other = both_ways(lambda: internals.sql_over(own, text, frames).collect())
    assert one == other
    assert len(one) == 5
    assert not [view for view in own.catalog.listTables() if view.name in ("a", "b")]


@pytest.mark.spark
def test_the_same_name_for_other_rows(spark: SparkSession, both_ways: Both) -> None:
    """A frame that was made over a name keeps the rows that it had then."""
    own = private(spark)

    def sums() -> list[int]:
        frames = [
            internals.sql_over(own, "select sum(id) s from rows", [("rows", own.range(size))])
            for size in (3, 10)
        ]
        return [frame.collect()[0].s for frame in frames]

    assert both_ways(sums) == ([3, 45], [3, 45])


@pytest.mark.spark
def test_a_frame_of_another_session(spark: SparkSession, both_ways: Both) -> None:
    other, own = spark.newSession(), private(spark)
    frame = other.range(4).selectExpr("id", "id * 2 d")

    def adopt() -> tuple[bool, list[Any]]:
        moved = internals.in_session(own, frame)
        return moved.sparkSession is own, moved.orderBy("id").collect()

    one, two = both_ways(adopt)
    assert one == two == (True, frame.orderBy("id").collect())
    assert internals.in_session(other, frame) is frame


@pytest.mark.spark
def test_jobs_are_counted(spark: SparkSession, both_ways: Both) -> None:
    context = spark.sparkContext
    context.setJobGroup("counted", "")
    assert context.parallelize(range(6), 3).map(lambda x: (x % 2, x)).groupByKey().count() == 2
    context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    until = time.monotonic() + 20
    while internals.job_counts(context, "counted")[0] < 1 and time.monotonic() < until:
        time.sleep(0.05)
    one, other = both_ways(lambda: internals.job_counts(context, "counted"))
    assert one == other
    assert one[:2] == (1, 2)
    assert one[2] > 3


@pytest.mark.spark
def test_sizes(spark: SparkSession, both_ways: Both) -> None:
    frame = spark.range(1000).localCheckpoint()
    measured, unknown = both_ways(lambda: internals.blocks_size(frame))
    assert 0 < measured < 1 << 20
    assert unknown == internals.UNKNOWN_SIZE
    estimated, unknown = both_ways(lambda: internals.estimated_size(spark.range(1000)))
    assert estimated == 8000
    assert unknown is None
    both_ways(lambda: internals.free_blocks(frame))
    heap, configured = both_ways(lambda: internals.driver_memory(spark.sparkContext))
    assert heap > 1 << 26
    assert configured >= 1 << 20
    here, assumed = both_ways(lambda: internals.executor_count(spark.sparkContext))
    assert (here, assumed) == (0, 1)  # in local mode the driver runs the tasks


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512m", 512 << 20),
        ("2g", 2 << 30),
        ("1GB", 1 << 30),
        ("64", 64 << 20),
        ("100b", 100),
        ("lots", 1 << 30),
    ],
)
def test_a_setting_of_memory(text: str, size: int) -> None:
    assert internals.byte_size(text) == size


ROWS = (
    "(1, 0.1d, 1.10bd, 'ß', true, date'2026-01-31', timestamp'2026-10-25 01:30:00.000001 UTC',"
    " array(1, null), struct(timestamp'2026-10-25 01:30:00 UTC' as t, array('x') as s))",
    "(9007199254740993, double('NaN'), -0.01bd, '', false, date'0001-01-01',"
    " timestamp'1969-12-31 23:59:59.999999 UTC', array(), struct(null as t, null as s))",
    "(-1, -0.0d, 0.00bd, '\\u0000', null, null, null, array(null), null)",
    "(null, null, null, null, null, null, null, null, null)",
)


@pytest.mark.spark
@pytest.mark.parametrize("make_function", [internals.arrow_function, internals.row_function])
def test_values_pass_through_functions(
    spark: SparkSession, make_function: Callable[..., Any]
) -> None:
    """Whether Spark calls them with columns or, as 4.0 does, row by row."""
    own = private(spark)
    frame = own.sql(
        "select cast(a as bigint) a, b, c, d, e, f, g, h, i from values "
        + ", ".join(ROWS)
        + " as rows(a, b, c, d, e, f, g, h, i)"
    )

    def same(columns: list[Any]) -> Any:
        return columns[0]

    expressions = []
    for field in frame.schema.fields:
        own.udf.register(
            f"same_{field.name}", make_function(same, [field.dataType], field.dataType)
        )
        expressions.append(f"same_{field.name}({field.name}) as {field.name}")
    for field in frame.schema.fields:
        hashed = f"xxhash64({field.name}) as h"
        before = frame.selectExpr(hashed).collect()
        after = frame.selectExpr(*expressions).selectExpr(hashed).collect()
        assert sorted(before) == sorted(after), field


@pytest.mark.spark
def test_functions_of_several_columns(spark: SparkSession) -> None:
    own = private(spark)
    frame = own.createDataFrame(
        [("a", date(2026, 1, 31), Decimal("1.10"))], "a string, b date, c decimal(5,2)"
    )
    types = [field.dataType for field in frame.schema.fields]

    def join_columns(columns: list[Any]) -> Any:
        rows = zip(*[column.to_pylist() for column in columns], strict=True)
        return pa.array(["|".join(map(str, row)) for row in rows], pa.string())

    for name, make_function in (("col", internals.arrow_function), ("row", internals.row_function)):
        own.udf.register(f"joined_{name}", make_function(join_columns, types, types[0]))
    rows = frame.selectExpr("joined_col(a, b, c) c", "joined_row(a, b, c) r").collect()
    assert rows == [("a|2026-01-31|1.10", "a|2026-01-31|1.10")]
