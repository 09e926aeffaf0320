"""The leaves of real plans: files, tables, streams of a session, local rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from incmrql.api.session import Session
from incmrql.api.streams import pushed_stream
from incmrql.catalyst.leaves import Leaves, leaf_key, leaves_of
from incmrql.catalyst.refusals import Refused
from incmrql.errors import DataError
from incmrql.spark.plans import SparkPlan, analyze_sql, read_plan
from incmrql.types import typed
from incmrql.types.model import INT, LONG, STRING, Collection, Tuple, bag
from incmrql.types.typed import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def users(spark: SparkSession) -> SparkSession:
    """A session as users have it: that of the tests has settings of its own."""
    return spark.newSession()


def inputs(plan: SparkPlan, leaves: Leaves | None = None) -> list[typed.Expr]:
    """The inputs of a plan, leaf by leaf."""
    leaves = leaves or Leaves(settings=plan.analyzed.settings)
    return [leaves.input_of(leaf) for leaf in leaves_of(plan.analyzed.plan)]


def source(frame: DataFrame, leaves: Leaves | None = None) -> Source:
    (read,) = inputs(read_plan(frame), leaves)
    assert isinstance(read, typed.Read)
    return read.source


def test_leaves_over_one_directory_are_one_source(users: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    users.range(3).selectExpr("cast(id as int) id", "'x' city").write.csv(path, header=True)
    users.sql(
        f"create temporary view orders (id int, city string) using csv "
        f"options (path '{path}', header true, deletes '{path}-gone')"
    )
    text = (
        "select o.id from orders o join orders p on o.id = p.id "
        "where o.id in (select id from orders)"
    )
    reads = inputs(analyze_sql(users, text))
    assert len(reads) == 3
    assert reads[0] == reads[1] == reads[2]
    assert isinstance(reads[0], typed.Read)
    stream = reads[0].source
    assert stream.row == Tuple((INT, STRING))
    assert dict(stream.options) == {"deletes": f"{path}-gone"}
    assert stream.reader is not None
    assert stream.reader.format == "csv"
    assert stream.reader.paths == (path,)
    assert stream.reader.options == (("header", "true"),)


def test_tables_of_a_catalog_are_inputs(users: SparkSession, tmp_path: Path) -> None:
    name = f"t{tmp_path.name}".replace("-", "_")
    try:
        users.sql(f"create table {name} (id int, city string) using parquet location '{tmp_path}'")
        stream = source(users.table(name), Leaves())
        assert stream.streaming
        assert stream.reader is not None
        assert stream.reader.format == "parquet"
        assert not source(users.table(name), Leaves(static_paths=frozenset({name}))).streaming
    finally:
        users.sql(f"drop table if exists {name}")
    try:
        users.sql(f"create table {name} (id int, k int) using parquet partitioned by (k) "
                  f"location '{tmp_path / 'p'}'")  # fmt: skip
        with pytest.raises(Refused, match="only the catalog knows"):
            source(users.table(name))
    finally:
        users.sql(f"drop table if exists {name}")


def test_local_rows_are_filled_by_their_leaves(users: SparkSession) -> None:
    frame = users.createDataFrame([(1, "a"), (2, None)], "id int, city string")
    plan, leaves = read_plan(frame.join(users.range(3), "id")), Leaves(label="q ")
    local, numbers = inputs(plan, leaves)
    assert isinstance(local, typed.Read)
    assert not local.source.streaming
    assert local.source.row == Tuple((INT, STRING))
    ((name, leaf),) = leaves.local_rows.items()
    assert name == local.source.name
    assert sorted(map(tuple, plan.leaf_frame(leaf).collect())) == [(1, "a"), (2, None)]
    assert isinstance(numbers, typed.MakeCollection)
    assert isinstance(numbers.type, Collection)
    assert numbers.type.element == Tuple((LONG,))
    assert leaves.notes == ["local rows: frozen when the DataFrame was built"]


def test_metadata_of_files_is_refused(users: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1\n")
    frame = users.read.schema("id int").csv(str(tmp_path)).select("id", "_metadata.file_path")
    with pytest.raises(Refused, match="_metadata"):
        inputs(read_plan(frame))


def test_a_stream_of_a_session_is_a_frame_that_only_runs_here(users: SparkSession) -> None:
    with Session(users) as session:
        points = session.stream("points", "< id: int, city: string >", insert_only=True)
        frame = points.df.where("id > 1").groupBy("city").count()
        source = typed.Source("registered", True, None, points.row, name="points")
        known = typed.Read(source, type=bag(points.row))
        (read,) = inputs(read_plan(frame), Leaves(named={"points": known}))
        assert read == known
        points.df.createOrReplaceTempView("points")
        again = analyze_sql(users, "select * from points p join points q on p.id = q.id")
        assert inputs(again, Leaves(named={"points": known})) == [read, read]
        with pytest.raises(PySparkException, match="is a stream of incmrql"):
            frame.collect()
    with pytest.raises(DataError, match="no stream of a session"):
        _ = pushed_stream("points", "< id: int >", {}, keep=False).df


def test_equal_frames_have_equal_keys(users: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1\n")

    def key(frame: DataFrame) -> str:
        (leaf,) = leaves_of(read_plan(frame).analyzed.plan)
        return leaf_key(leaf)

    read = users.read.schema("id int")
    assert key(read.csv(str(tmp_path))) == key(read.csv(f"file://{tmp_path}").where("id > 1"))
    assert key(read.csv(str(tmp_path))) != key(read.csv(str(tmp_path), header=True))
