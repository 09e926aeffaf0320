"""What surprises in DataFrames and in a session of Spark: followed as Spark answers, or refused.

The numbers are those of `tests/catalyst/trap_numbers.py`; texts are judged there without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as PySpark's documentation has it

import incmrql
from tests.spark.changing import rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Build = Callable[["Table"], "DataFrame"]


class Table:
    """A folder of Parquet files that grows, as a frame and as the view `t`."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark, self.path, self.files = spark, path, 0
        path.mkdir()
        self.add((1, 2, "x"), (1, 5, "7"), (2, None, "ab"), (None, 3, None))

    def add(self, *rows: tuple[int | None, int | None, str | None], **more: Any) -> None:
        """A file more."""
        a, b, c = zip(*rows, strict=True)
        at = [datetime(2024, 1, 1) + timedelta(hours=number) for number in range(len(rows))]
        columns = {
            "a": pa.array(a, pa.int32()), "b": pa.array(b, pa.int64()), "c": pa.array(c),
            "at": pa.array(at, pa.timestamp("us", "UTC")), **more,
        }  # fmt: skip
        pq.write_table(pa.table(columns), self.path / f"{self.files}.parquet")
        self.files += 1

    def create(self, columns: str) -> None:
        """Make a table of the catalog over the files."""
        self.spark.sql(
            f"create table if not exists traps_table ({columns}) using parquet "
            f"location '{self.path}'"
        )
        self.spark.catalog.refreshTable("traps_table")

    @property
    def df(self) -> DataFrame:
        """The table as users read it."""
        return self.spark.read.schema("a int, b long, c string, at timestamp").parquet(
            str(self.path)
        )


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[Table]:
    users = spark.newSession()
    users.conf.set("spark.sql.session.timeZone", "UTC")
    table = Table(users, tmp_path / "t")
    table.df.createOrReplaceTempView("t")
    yield table
    users.sql("drop view if exists traps_view")
    users.sql("drop table if exists traps_table")


def _view_of_another_mode(table: Table) -> DataFrame:
    """A view keeps the settings under which it was created, also when others hold."""
    spark = table.spark
    table.create("a int, c string")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.sql("create or replace view traps_view as select a, cast(c as int) k from traps_table")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    return spark.sql("select k, count(*) n from traps_view group by k")


def _padded_strings(table: Table) -> DataFrame:
    table.create("a int, c char(4)")
    return table.spark.sql("select a, c, length(c) n, c = 'ab' e from traps_table where c <> 'x'")


def _view_of_a_frame(table: Table) -> DataFrame:
    base = table.df.where("a > 0")
    base.createOrReplaceTempView("kept")
    return base.join(table.spark.table("kept"), "a")


def _function_of_sql(table: Table) -> DataFrame:
    table.spark.sql(
        "create or replace temporary function plus(x int) returns bigint "
        "return x + (select max(b) from t)"
    )
    return table.spark.sql("select a, plus(a) p from t")


def _variable(table: Table) -> DataFrame:
    table.spark.sql("declare or replace variable wanted int default 1")
    return table.spark.sql("select b from t where a = wanted")


FOLLOWED: dict[str, Build] = {
    "1.5 a frame that was cut is a constant": lambda t: t.df.join(
        t.spark.createDataFrame([(1, "one")], "a int, n string").localCheckpoint(), "a"
    ),
    "1.8 a cached frame": lambda t: t.df.cache().groupBy("a").count(),
    "1.13 and 3.12 padded strings": _padded_strings,
    "2.2 and 2.3 a view of another mode": _view_of_another_mode,
    "2.4 a view of a frame": _view_of_a_frame,
    "2.9 a function of SQL": _function_of_sql,
    "2.12 SQL over a frame": lambda t: t.spark.sql(
        "select a, count(*) n from {rows} group by a", rows=t.df
    ),
    "2.14 and 6.14 hints": lambda t: (
        t.df.repartition(3).sortWithinPartitions("a").hint("broadcast")
    ),
    "3.1 a column twice": lambda t: t.df.select("a", "a"),
    "3.17 values that are missing": lambda t: t.df.dropna(thresh=2, subset=["a", "b"]).fillna(0),
    "4.17 all columns are keys": lambda t: t.df.select("a", "c").dropDuplicates(),
    "4.19 a pivot": lambda t: t.df.groupBy("c").pivot("a", [1, 2]).agg(F.sum("b")),
    "6.1 a semi join": lambda t: t.df.join(t.df.select("b"), "b", "left_semi"),
    "7.1 united by name": lambda t: t.df.select("a", "b").unionByName(
        t.df.select("c", "a"), allowMissingColumns=True
    ),
    "8.7 a watermark of a batch": lambda t: (
        t.df.withWatermark("at", "1 hour").groupBy(F.window("at", "2 hours").start).count()
    ),
}


@pytest.mark.parametrize("trap", FOLLOWED)
def test_a_trap_is_followed_as_spark_answers(trap: str, table: Table) -> None:
    build = FOLLOWED[trap]
    with incmrql.materialize(build(table), settle=0) as run:
        for _ in range(2):
            run.step()
            table.spark.catalog.clearCache()
            table.df.createOrReplaceTempView("t")  # a leaf lists its files when it is made
            assert rows_of(run.answer_df()) == rows_of(build(table)), trap
            table.add((2, 4, "x"), (1, None, "ab"))


def _shuffled_array(table: Table) -> DataFrame:
    return table.df.select("a", F.shuffle(F.array("a", "b")))


def _immediate(table: Table) -> DataFrame:
    """It is a command, though what it runs is a query."""
    with incmrql.Session(spark=table.spark) as session:
        session.sql("execute immediate 'select a from t'")
    raise AssertionError("not refused")


REFUSED: dict[str, tuple[Build, str]] = {
    "9.3 a text that is run at once": (_immediate, "begins no statement"),
    "2.10 a variable of the session": (_variable, "VariableReference"),
    "1.10 columns of files": (lambda t: t.df.select("a", "_metadata.file_name"), "_metadata"),
    "7.5 a sample": (lambda t: t.df.sample(0.5, seed=1), "Sample"),
    "7.5 a random split": (lambda t: t.df.randomSplit([0.5, 0.5], 1)[0], "Sample"),
    "7.6 a transposed frame": (lambda t: t.df.select("c", "a").limit(2).transpose(), "Transpose"),
    "8.6 numbers of rows": (
        lambda t: t.df.select(F.monotonically_increasing_id()),
        "MonotonicallyIncreasingID",
    ),
    "8.5 random numbers with a seed": (lambda t: t.df.select(F.rand(5)), "Rand"),
    "8.5 a shuffled array": (_shuffled_array, "Shuffle"),
    "10.7 a function of a partition": (
        lambda t: t.df.mapInPandas(lambda frames: frames, "a int, b long, c string, at timestamp"),
        "MapInPandas",
    ),
    "10.8 a function of a group": (
        lambda t: t.df.select("a", "b").groupBy("a").applyInPandas(lambda g: g, "a int, b long"),
        "FlatMapGroupsInPandas",
    ),
    "10.11 a program of the shell": (
        lambda t: t.spark.sql("select transform(a) using 'cat' as (x) from t"),
        "ScriptTransformation",
    ),
}  # fmt: skip


@pytest.mark.parametrize("trap", REFUSED)
def test_a_trap_is_refused_by_name(trap: str, table: Table) -> None:
    build, name = REFUSED[trap]
    with pytest.raises(incmrql.QueryError, match=name) as refused:
        incmrql.materialize(build(table))
    assert all(problem.hint for problem in refused.value.problems), str(refused.value)


def test_a_value_that_was_computed_before_is_frozen(table: Table) -> None:
    """9.2: what a call of Spark gave while the frame was built is a constant in it."""
    with incmrql.materialize(
        table.df.select(F.col("a") + F.lit(table.df.count())), settle=0
    ) as run:
        for expected in ([None, 5, 5, 6], [None, 5, 5, 5, 6]):
            run.step()
            values = [row[0] for row in run.answer()]
            assert sorted(values, key=lambda value: value or 0) == expected
            table.add((1, 1, "x"))


def test_columns_that_files_get_later_are_not_in_the_answer(table: Table) -> None:
    """1.12: the columns are those of the time of analysis."""
    with incmrql.materialize(table.df.select("*"), settle=0) as run:
        run.step()
        table.add((9, 9, "z"), late=pa.array([1]))
        run.step()
        assert run.answer_df().columns == ["a", "b", "c", "at"]
        assert len(run.answer()) == 5
