"""Columns of types that only Spark has: against plain Spark, and from Parquet files to answers."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - as PySpark's documentation has it
from pyspark.sql import types as spark_types

import incmrql
from incmrql.catalyst.types import model_type
from incmrql.spark.forms import restore_column
from incmrql.spark.plans import analyze_sql
from incmrql.spark.values import packed_rows, values
from incmrql.types.model import Tuple
from incmrql.values import LocalTime, encode, show
from tests.catalyst.dumps import user_session
from tests.catalyst.judging import random_tables, reference_answer, script_of_plan
from tests.catalyst.texts import tables, texts
from tests.effort import sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = tables("types")["t"]
REFUSED = ("map_group", "map_errors", "map_collected")
"""Texts without an answer in Spark, or with one whose order Spark leaves open."""


def frame_of(spark: SparkSession, rows: list[Any]) -> DataFrame:
    """Rows in the form of the reference evaluator as a frame with the columns of the texts."""
    plain = [
        (
            k,
            w,
            None if n is None else datetime.combine(n.date(), n.time()),
            None if m is None else [tuple(entry.values_) for entry in m],
            None if y is None else int(y),
            None if d is None else d // timedelta(microseconds=1),
        )
        for k, w, n, m, y, d in rows
    ]
    kept = spark.createDataFrame(
        plain,
        "k int, w binary, n timestamp_ntz, m array<struct<key:string,value:int>>, y int, d bigint",
    )
    wanted = spark_types.DataType.fromDDL(COLUMNS)
    assert isinstance(wanted, spark_types.StructType)
    return kept.select(
        *(
            restore_column(kept[have.name], have.dataType, want.dataType).alias(want.name)
            for have, want in zip(kept.schema.fields, wanted.fields, strict=True)
        )
    )


@pytest.mark.parametrize("query", sample(sorted(set(texts("types")) - set(REFUSED)), 2))
def test_the_reference_agrees_with_spark(query: str, spark: SparkSession, tmp_path: Path) -> None:
    own = user_session(spark)
    rows = list(random_tables("types", Random(query))["t"])
    frame_of(own, rows).write.parquet(str(tmp_path / "t"))
    own.read.schema(COLUMNS).parquet(str(tmp_path / "t")).createOrReplaceTempView("t")
    plan = analyze_sql(own, texts("types")[query])
    answer = reference_answer(script_of_plan(plan.analyzed).script, {"t": rows})
    types = tuple(model_type(field["dataType"]) for field in plan.analyzed.schema["fields"])
    expected = values(packed_rows(plan.frame), Tuple(types))
    assert Counter(map(encode, answer)) == Counter(map(encode, expected)), (
        f"{show(answer)}\n{show(expected)}"
    )


def test_from_parquet_files_to_answers(spark: SparkSession, tmp_path: Path) -> None:
    own = user_session(spark)
    source, deletes = tmp_path / "source", tmp_path / "deletes"
    deletes.mkdir()
    chance = Random(7)
    first, second = (list(random_tables("types", chance, 12)["t"]) for _ in range(2))
    frame_of(own, first).write.parquet(str(source))
    frame = own.read.option("deletes", str(deletes)).schema(COLUMNS).parquet(str(source))
    frame.createOrReplaceTempView("t")
    query = own.sql("""
        select k, w, n, y, d, m, m['a'] as a, map_keys(m) as ks, n + d as later, hex(w) as h from t
    """)
    with incmrql.materialize(query, settle=0) as run:
        run.step()
        frame_of(own, second).write.mode("append").parquet(str(source))
        frame_of(own, first[:3]).write.mode("append").parquet(str(deletes))
        run.step()
        assert Counter(map(repr, run.answer())) == Counter(map(repr, _rows(first[3:] + second)))
        assert run.answer_df().schema.simpleString() == query.schema.simpleString()
        rows = run.answer_df().selectExpr("k", "w", "n", "cast(y as string)", "d", "m", "ks")
        kept = frame_of(own, first[3:] + second)
        wanted = kept.selectExpr("k", "w", "n", "cast(y as string)", "d", "m", "map_keys(m)")
        assert _sorted_rows(rows) == _sorted_rows(wanted)
        assert run.verify().rows == run.verify(against="spark").rows == len(first[3:] + second)


def _sorted_rows(frame: DataFrame) -> list[str]:
    return sorted(repr(tuple(row)) for row in frame.collect())


def _rows(rows: list[Any]) -> list[Any]:
    """What the query answers, in Python's own types."""
    row = Row("k", "w", "n", "y", "d", "m", "a", "ks", "later", "h")
    maps = [None if row[3] is None else {e["key"]: e["value"] for e in row[3]} for row in rows]
    return [
        row(
            k, w, n, y, d, m,
            None if m is None else m.get("a"),
            None if m is None else list(m),
            None if n is None or d is None else LocalTime.of(n + d),
            None if w is None else w.hex().upper(),
        )
        for (k, w, n, _, y, d), m in zip(rows, maps, strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("format_", "columns"), [("json", "k w n m y d"), ("csv", "k n y d"), ("orc", "k w n m y d")]
)
def test_other_files_are_read_as_spark_does(
    format_: str, columns: str, spark: SparkSession, tmp_path: Path
) -> None:
    own = user_session(spark)
    rows = list(random_tables("types", Random(format_), 12)["t"])
    names = columns.split()
    schema = ", ".join(column for column in COLUMNS.split(", ") if column.split(" ")[0] in names)
    frame_of(own, rows).select(names).write.format(format_).save(str(tmp_path / "source"))
    frame = own.read.schema(schema).format(format_).load(str(tmp_path / "source"))
    with incmrql.materialize(frame.groupBy("k").agg(*_firsts(names)), settle=0) as run:
        run.step()
        assert run.verify().rows == run.verify(against="spark").rows
        assert run.verify().rows == len({row[0] for row in rows})


def _firsts(names: list[str]) -> list[Any]:
    """Aggregates that read all columns."""
    return [F.sum(F.size(name)) if name == "m" else F.max(name) for name in names if name != "k"]
