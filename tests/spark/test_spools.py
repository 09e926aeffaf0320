"""Spark's own reading and listing against ours: the same rows and files, over nasty directories."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from incmrql.catalyst.leaves import Leaves, leaves_of
from incmrql.engine.inputs import InputFile
from incmrql.errors import DataError
from incmrql.io.arrow.tables import column_array
from incmrql.io.spark_files import list_files, local_path
from incmrql.io.spools import read_spool
from incmrql.io.vectorised.spark_parquet import is_read_alike, parquet_tuples
from incmrql.plan.program import Stream
from incmrql.spark.plans import read_plan
from incmrql.spark.sources.spools import reading_session, spool_files
from incmrql.types.model import Tuple
from incmrql.types.typed import Read, Source, SparkReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Read_ = Callable[["SparkSession", str], "DataFrame"]


@pytest.fixture
def spark(spark: SparkSession) -> SparkSession:
    """A session as users have it: that of the tests has settings of its own."""
    return spark.newSession()


def source_of(frame: DataFrame, leaves: Leaves | None = None) -> Source:
    """The source that the one leaf of a frame is."""
    plan = read_plan(frame)
    (leaf,) = leaves_of(plan.analyzed.plan)
    read = (leaves or Leaves(settings=plan.analyzed.settings)).input_of(leaf)
    assert isinstance(read, Read)
    return read.source


def reader_of(source: Source) -> SparkReader:
    assert source.reader is not None
    return source.reader


def stream_of(source: Source) -> Stream:
    return Stream(0, "input", source, source.row, True, False, "input")


def files_of(source: Source) -> list[InputFile]:
    return [
        InputFile(path, stat.st_size, stat.st_mtime_ns, 0)
        for path, stat in list_files(reader_of(source))
    ]


Rows = Counter[str]


def rows_of(values: Any) -> Rows:
    return Counter(map(repr, values.to_pylist()))


def rows_through_spools(spark: SparkSession, source: Source, folder: Path) -> Rows:
    """The rows of all listed files, read back from their spools."""
    folder.mkdir(exist_ok=True)
    stream, files = stream_of(source), files_of(source)
    spools = spool_files(reading_session(spark, reader_of(source)), stream, files, folder)
    assert {file.origin.path for file in spools if file.origin} == {file.path for file in files}
    assert {path.name for path in folder.iterdir()} == {Path(spool.path).name for spool in spools}
    total: Rows = Counter()
    for spool in spools:
        for batch in read_spool(Path(spool.path), stream.element):
            assert set(batch.column(1).to_pylist()) == {1}
            total += rows_of(batch.column(0))
    return total


def read(frame: DataFrame, source: Source) -> Rows:
    """The rows that Spark reads, by position."""
    assert isinstance(source.row, Tuple)
    table = cast("Any", frame).toArrow()
    total: Rows = Counter()
    for batch in table.to_batches():
        parts = [
            column_array(column, type_)
            for column, type_ in zip(batch.columns, source.row.items, strict=True)
        ]
        names = [f"_{place}" for place in range(1, len(parts) + 1)]
        total += rows_of(pa.StructArray.from_arrays(parts, names))
    return total


# --- reading -----------------------------------------------------------------------------

CSV = b'''id,name,price,day,at
1,"a, ""b""",1.50,2024-02-29,2024-01-01 10:00:00
2,"two
lines",-0.00,2024-02-30,2024-01-01T10:00:00+02:00
x,bad,1e3,,
3
4,many,1,2,3,4,5
,,,,
 5 , spaced ,NaN,0001-01-01,9999-12-31 23:59:59.999999

6,\xff\xfe,1.005,2024-1-5,
"7,open,1
'''
NAMES = ("plain.csv", "with space.csv", "per%20cent.csv", "hash#.csv", "qu?st.csv",
         "br[1]ac{k}et*.csv", "grüße.csv", "plus+.csv", "k=v.csv", "semi;colon,.csv")  # fmt: skip
SCHEMA = "id int, name string, price decimal(12,2), day date, at timestamp, _bad string"


def csv_folder(folder: Path) -> Path:
    folder.mkdir()
    for number, name in enumerate(NAMES):
        (folder / name).write_bytes(CSV.replace(b"plain", name.encode()) + b"%d,n,1,," % number)
    (folder / "more.csv.gz").write_bytes(gzip.compress(CSV))
    (folder / "bom.csv").write_bytes(b"\xef\xbb\xbf" + CSV.replace(b"\n", b"\r\n"))
    (folder / "_hidden.csv").write_bytes(CSV)
    (folder / "empty.csv").touch()
    return folder


CSV_READERS: dict[str, Read_] = {
    "permissive": lambda spark, path: spark.read.schema(SCHEMA).csv(
        path, header=True, columnNameOfCorruptRecord="_bad"
    ),
    "dropped": lambda spark, path: spark.read.schema(SCHEMA.removesuffix(", _bad string")).csv(
        path, mode="DROPMALFORMED"
    ),
    "lines": lambda spark, path: spark.read.schema(SCHEMA).csv(
        path, multiLine=True, header=True, ignoreLeadingWhiteSpace=True, nullValue="NaN"
    ),
    "inferred": lambda spark, path: spark.read.csv(path, header=True, inferSchema=True),
    "texts": lambda spark, path: spark.read.csv(path, sep=";", encoding="ISO-8859-1"),
    "formats": lambda spark, path: (
        spark.read.schema(SCHEMA)
        .option("timeZone", "Asia/Tokyo")
        .csv(path, dateFormat="yyyy-M-d", timestampFormat="yyyy-MM-dd HH:mm:ss")
    ),
}


@pytest.mark.parametrize("name", CSV_READERS)
def test_csv_is_spooled_as_spark_reads_it(name: str, spark: SparkSession, tmp_path: Path) -> None:
    folder = csv_folder(tmp_path / "csv")
    frame = CSV_READERS[name](spark, str(folder))
    source = source_of(frame)
    wanted = read(frame, source)
    assert wanted.total() > len(NAMES)
    assert rows_through_spools(spark, source, tmp_path / "spool") == wanted


JSON = b"""{"id": 1, "tags": ["a", null], "in": {"x": 1.5, "y": "z"}}
{"id": "two", "tags": [], "in": null}
not json
{"id": 3, "more": true, "in": {"x": "1"}}

{"id": 4, "tags": null}
"""


def test_other_texts_are_spooled_as_spark_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "json"
    folder.mkdir()
    (folder / "a b.json").write_bytes(JSON)
    (folder / "c.json").write_bytes(JSON * 3)
    frames = [
        spark.read.schema("id int, tags array<string>, in struct<x: double, y: string>").json(
            str(folder)
        ),
        spark.read.json(str(folder)),
        spark.read.text(str(folder)),
        spark.read.text(str(folder), wholetext=True),
    ]
    for number, frame in enumerate(frames):
        source = source_of(frame)
        assert rows_through_spools(spark, source, tmp_path / f"spool{number}") == read(
            frame, source
        )


def test_partitions_are_spooled_as_spark_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    rows = "1, 'Rome', date'2024-02-29'), (2, 'a/b=c %', null), (3, null, date'0001-01-01'"
    frame = spark.sql(f"select * from values ({rows}) as t(id, city, day)")
    for format_ in ("parquet", "orc", "json", "csv"):
        path = str(tmp_path / format_)
        frame.write.partitionBy("city", "day").format(format_).save(path)
        back = spark.read.format(format_).load(path)
        source = source_of(back)
        assert reader_of(source).partitions == ("city", "day")
        assert rows_through_spools(spark, source, tmp_path / f"{format_}-spool") == read(
            back, source
        )


def test_a_partition_value_of_another_type_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    spark.range(3).selectExpr("id", "id as k").write.partitionBy("k").parquet(str(data))
    source = source_of(spark.read.parquet(str(data)))
    (data / "k=one").mkdir()
    (next((data / "k=1").glob("*.parquet"))).rename(data / "k=one" / "x.parquet")
    with pytest.raises(DataError) as problem:
        rows_through_spools(spark, source, tmp_path / "spool")
    assert problem.value.code == "R325"
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_file_that_spark_refuses_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_text("1\n2\n")
    source = source_of(spark.read.schema("id int").csv(str(data), mode="FAILFAST"))
    (data / "b.csv").write_text("3\nx\n")
    with pytest.raises(DataError, match="Spark cannot read input") as problem:
        rows_through_spools(spark, source, tmp_path / "spool")
    assert problem.value.code == "R325"
    assert "b.csv" in problem.value.message
    assert list((tmp_path / "spool").iterdir()) == []


def test_the_settings_of_the_session_hold(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_text("2024-07-01 12:00:00\n")
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", "America/New_York")
    frame = own.read.schema("at timestamp").csv(str(data))
    source = source_of(frame)
    rows = rows_through_spools(spark, source, tmp_path / "spool")
    assert rows == read(frame, source)
    assert "2024, 7, 1, 16, 0" in next(iter(rows))


# --- listing -----------------------------------------------------------------------------


def test_files_are_listed_as_spark_lists_them(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a.csv", "_b.csv", "_c=1.csv", ".d.csv", "e._COPYING_", "in/f.csv", "in/_g/h.csv",
                 "_metadata_k/i.csv", "_metadata.csv", "sp ace/j.txt", "x[1]/y.csv"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("1\n")
    (tmp_path / "linked.csv").symlink_to(tmp_path / "in" / "f.csv")
    (tmp_path / "linked").symlink_to(tmp_path / "in")
    (tmp_path / "broken.csv").symlink_to(tmp_path / "nowhere")
    read_csv = spark.read.schema("id int")
    frames = [
        read_csv.csv(str(tmp_path)),
        read_csv.csv(f"file://{tmp_path}"),
        read_csv.option("recursiveFileLookup", True).csv(str(tmp_path)),
        read_csv.option("pathGlobFilter", "[a-b]*.{csv,txt}").csv(str(tmp_path)),
        read_csv.option("recursiveFileLookup", True)
        .option("pathGlobFilter", "?.csv")
        .csv(str(tmp_path)),
        read_csv.csv([str(tmp_path / "in"), str(tmp_path / "sp ace")]),
        read_csv.csv(str(tmp_path / "a.csv")),
        read_csv.csv(f"{tmp_path}/*/*.csv"),
        read_csv.format("csv").load(f"{tmp_path}/{{in,x\\[1\\]}}/*.csv"),
        read_csv.format("csv").load(f"{tmp_path}/*"),
    ]
    for number, frame in enumerate(frames):
        ours = {file.path for file in files_of(source_of(frame))}
        # Spark lists names that it does not read: files of Parquet's metadata, and empty ones.
        theirs = {
            path
            for path in map(_path, frame.inputFiles())
            if not Path(path).name.startswith("_metadata")
        }
        assert ours == theirs, number
        assert ours, number


def _path(uri: str) -> str:
    from urllib.parse import unquote

    return unquote(local_path(uri))


def test_a_pattern_of_load_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a1.csv", "a2.csv", "b.csv"):
        (tmp_path / name).write_text("1\n")
    by_load = source_of(spark.read.schema("id int").format("csv").load(f"{tmp_path}/a*.csv"))
    (tmp_path / "a3.csv").write_text("1\n")
    assert sorted(Path(file.path).name for file in files_of(by_load)) == [
        "a1.csv", "a2.csv", "a3.csv",
    ]  # fmt: skip


# --- Parquet without Spark ---------------------------------------------------------------


@contextmanager
def parquet(folder: Path, *tables: Any, **options: Any) -> Iterator[Path]:
    folder.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet", **options)
    yield folder


WIDE = (
    "b boolean, y tinyint, s smallint, i int, l bigint, f float, d double, t string, "
    "n decimal(12,2), m decimal(38,10), day date, at timestamp"
)


def wide(rows: int) -> Any:
    chance = random.Random(rows)

    def some(*values: Any) -> list[Any]:
        return [chance.choice([*values, None]) for _ in range(rows)]

    nan, inf = float("nan"), float("inf")
    return pa.table(
        {
            "at": pa.array(some(datetime(2024, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC),
                                datetime(1700, 5, 5, 5, 5, 5, 5, tzinfo=UTC)),
                           pa.timestamp("us", tz="UTC")),
            "B": pa.array(some(True, False), pa.bool_()),
            "y": pa.array(some(-128, 127), pa.int8()),
            "S": pa.array(some(-(2**15), 7), pa.int16()),
            "i": pa.array(some(-(2**31), 2**31 - 1), pa.int32()),
            "l": pa.array(some(-(2**63), 2**63 - 1), pa.int64()),
            "f": pa.array(some(1.1, nan, -0.0, inf), pa.float32()),
            "d": pa.array(some(1e-300, nan, -0.0, -inf), pa.float64()),
            "t": pa.array(some("", "ü😀", "\x00", "a" * 300), pa.string()).dictionary_encode(),
            "N": pa.array(some(Decimal("0.01"), Decimal("-9999999999.99")), pa.decimal128(12, 2)),
            "m": pa.array(some(Decimal("0.0000000001"), Decimal(10) ** 27),
                          pa.decimal128(38, 10)),
            "day": pa.array(some(date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31)),
                            pa.date32()),
            "extra": pa.array(some(1), pa.int8()),
        }
    )  # fmt: skip


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "none"])
def test_parquet_is_read_as_spark_reads_it(codec: str, spark: SparkSession, tmp_path: Path) -> None:
    narrow = wide(20).select(["i", "t"])
    with parquet(tmp_path / "in", wide(300), wide(0), narrow, compression=codec) as folder:
        millis = wide(50)
        at = millis.schema.get_field_index("at")
        column = millis.column("at").cast(pa.timestamp("ms", tz="UTC"), safe=False)
        pq.write_table(millis.set_column(at, "at", column), folder / "ms.parquet")
        pq.write_table(wide(60), folder / "96.parquet", use_deprecated_int96_timestamps=True)
        spark.read.schema(WIDE).parquet(str(folder / "0.parquet")).write.parquet(
            str(folder), mode="append"
        )
        frame = spark.read.schema(WIDE).parquet(str(folder))
        source = source_of(frame)
        reader, total = reader_of(source), Counter[str]()
        for file in files_of(source):
            assert is_read_alike(Path(file.path), reader, source.row), file.path
            for array in parquet_tuples(Path(file.path), reader, source.row):
                total += rows_of(array)
        assert total == read(frame, source)
        assert rows_through_spools(spark, source, tmp_path / "spool") == total


def test_parquet_that_spark_may_read_otherwise_is_spooled(
    spark: SparkSession, tmp_path: Path
) -> None:
    odd: dict[str, tuple[Any, dict[str, Any]]] = {
        "wider": (pa.table({"l": pa.array([1], pa.int32())}), {}),
        "unsigned": (pa.table({"i": pa.array([1], pa.uint32())}), {}),
        "binary": (pa.table({"t": pa.array([b"a"])}), {}),
        "no zone": (pa.table({"at": pa.array([datetime(2024, 1, 1)], pa.timestamp("us"))}), {}),
        "nanos": (pa.table({"at": pa.array([0], pa.timestamp("ns", tz="UTC"))}), {}),
        "twice": (pa.table({"i": [1], "I": [2]}), {}),
        "lz4": (pa.table({"i": pa.array([1], pa.int32())}), {"compression": "lz4"}),
    }
    with parquet(tmp_path / "in", wide(1)) as folder:
        source = source_of(spark.read.schema(WIDE).parquet(str(folder)))
    reader = reader_of(source)
    for name, (table, options) in odd.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(table, path, **options)
        assert not is_read_alike(path, reader, source.row), name
    (tmp_path / "no.parquet").write_text("no")
    assert not is_read_alike(tmp_path / "no.parquet", reader, source.row)
    legacy = replace(reader, settings=(("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"),))
    assert not is_read_alike(folder / "0.parquet", legacy, source.row)
    other = replace(reader, options=(("datetimeRebaseMode", "LEGACY"),))
    assert not is_read_alike(folder / "0.parquet", other, source.row)
