"""What Spark stores and dumps is what the reference writers write."""

from __future__ import annotations

import gzip
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import incmrql
from incmrql.errors import DataError
from incmrql.io import writers
from incmrql.io.parquet import schema_type
from incmrql.io.rows import Row
from incmrql.spark.batch.outputs import dump, store
from incmrql.spark.sources.context import SourceContext
from incmrql.spark.sources.frames import read as read_source
from incmrql.spark.values import dataframe, values
from incmrql.types import model as t
from incmrql.types import typed
from incmrql.values import Bag, Data, Record, Value, show
from tests.io.reading import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

ROW = t.Record(
    (
        ("a", t.INT),
        ("b", t.bag(t.STRING)),
        ("c", t.NOTHING),
        ("d", t.JSON),
        ("e", t.UNIT),
        ("f", t.TIMESTAMP),
        ("g", t.Decimal(10, 2)),
        ("h", t.Tuple((t.DOUBLE, t.list_of(t.FLOAT)))),
        ("i", t.DATE),
        ("j,k", t.ANY),
    )
)


def row(number: int) -> Value:
    values = [
        number, Bag(["x", "a"]), None, Data("Jlong", 3, number), (),
        datetime(2020, 1, 1, 0, 0, number % 60, tzinfo=UTC), Decimal("1.50"),
        (float(-number), [0.5]), date(2020, 1, 1), f'"{number}",\n',
    ]  # fmt: skip
    return Record(zip(ROW.names, values, strict=True))


ROWS = [row(number * 7 % 11) for number in range(20)]
PAIRS = t.Tuple((t.STRING, t.INT))
CASES: list[tuple[t.Type, list[Value]]] = [
    (ROW, ROWS),
    (PAIRS, [("b", 1), ("a", None), (None, 2), None]),
    (t.INT, [3, 1, None, 2, 1]),
    (t.INT, []),
    (t.Record((("a", t.INT),)), []),
    (t.Record((("a", t.INT),)), [Record([("a", 1)]), None]),
    (t.UNIT, [(), None]),
    (t.NOTHING, [None, None]),
]


def content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def rows_of_file(path: Path) -> list[str]:
    items = read("binary", path, schema_type(path))
    return sorted(show(row.value) for row in items if isinstance(row, Row))


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_store(spark: SparkSession, tmp_path: Path, case: Any) -> None:
    element, rows = case
    path = tmp_path / "spark.parquet"
    parts = 1 if element == t.INT else 3
    for _ in range(2):  # a second time over the first
        store(dataframe(spark, rows, element).repartition(parts), path, t.bag(element))
    writers.store(tmp_path / "own.parquet", Bag(rows), t.bag(element))
    assert schema_type(path) == schema_type(tmp_path / "own.parquet") == element
    assert rows_of_file(path) == rows_of_file(tmp_path / "own.parquet") == sorted(map(show, rows))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["own.parquet", "spark.parquet"]
    with SourceContext() as context:
        source = typed.Source("binary", False, None, element)
        back = read_source(spark, source, str(path), context, packed=True)
        assert sorted(map(show, values(back, element))) == sorted(map(show, rows))


@pytest.mark.parametrize(
    ("name", "case"),
    [*[("x.csv", case) for case in CASES], ("x.json", CASES[0]), ("x.txt.gz", CASES[1])],
    ids=range(len(CASES) + 2),
)
def test_dump(spark: SparkSession, tmp_path: Path, case: Any, name: str) -> None:
    element, rows = case
    frame = dataframe(spark, rows, element).repartition(2 if name == "x.csv" else 1)
    dump(frame, tmp_path / "spark" / name, t.bag(element))
    writers.dump(tmp_path / "own" / name, Bag(rows), t.bag(element))
    assert content(tmp_path / "spark" / name) == content(tmp_path / "own" / name)
    assert [file.name for file in (tmp_path / "spark").iterdir()] == [name]


def test_a_value_that_is_no_collection(spark: SparkSession, tmp_path: Path) -> None:
    frame = dataframe(spark, [(1, "x")], t.Tuple((t.INT, t.STRING)))
    dump(frame, tmp_path / "x.csv", t.Tuple((t.INT, t.STRING)))
    assert (tmp_path / "x.csv").read_text() == "1,x\n"
    rows = dataframe(spark, [3, 1, 2], t.INT).coalesce(1)
    dump(rows, tmp_path / "x.json", t.list_of(t.INT))
    assert (tmp_path / "x.json").read_text() == "3\n1\n2\n"


def test_what_is_computed_from_several_queries_is_stored_and_dumped(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = incmrql.Session(spark=spark)
    session.register("A", [1, 2, 3])
    either = "if count(A) > sum(A) then [3] else [1, 2]"
    stored, dumped = tmp_path / "s.parquet", tmp_path / "d.txt"
    session.run(f'store "{stored}" from {either}; dump "{dumped}" from {either};')
    assert rows_of_file(stored) == ["1", "2"]
    assert dumped.read_text() == "1\n2\n"


def test_nothing_remains_of_a_failure(spark: SparkSession, tmp_path: Path) -> None:
    def refuse() -> None:
        raise DataError("R110", "no")

    frame = dataframe(spark, [1, 2], t.INT)
    (tmp_path / "old.csv").write_text("old")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").write_text("x")
    for write, name in [(dump, "old.csv"), (store, "old.csv"), (store, "new"), (dump, "a/b.csv")]:
        with pytest.raises(DataError, match="R110"):
            write(frame, tmp_path / name, t.bag(t.INT), refuse)
    for write, own in [(dump, writers.dump), (store, writers.store)]:
        with pytest.raises(DataError) as caught:
            write(frame, tmp_path / "folder", t.bag(t.INT))
        with pytest.raises(DataError) as expected:
            own(tmp_path / "folder", Bag([1, 2]), t.bag(t.INT))
        assert str(caught.value) == str(expected.value)
    assert (tmp_path / "old.csv").read_text() == "old"
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["a", "folder", "old.csv", "x"]
    with pytest.raises(DataError, match="R130"):
        store(frame, tmp_path / "old.csv" / "x", t.bag(t.INT))
