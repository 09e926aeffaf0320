"""Parquet: types of columns, rows in and out."""

from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.errors import DataError
from incmrql.io.arrow.types import read_type, write_type
from incmrql.io.json.values import parse_json
from incmrql.io.parquet import read_parquet, schema_type, write_parquet
from incmrql.io.rows import BadRow, Row
from incmrql.io.writers import store
from incmrql.io.xml.values import parse_xml
from incmrql.types import model as t
from incmrql.types.model import Type
from incmrql.values import Bag, Data, Record, Value, canonical, identical
from tests.io.reading import read
from tests.io.strategies import typed_rows, types


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def values(path: Path, row: Type | None = None) -> list[Value]:
    items = list(read_parquet(path, row))
    assert all(isinstance(item, Row) for item in items), items
    return [item.value for item in items if isinstance(item, Row)]


# --- files of others ---------------------------------------------------------------------

FOREIGN: list[tuple[Any, Type, list[Value]]] = [
    (pa.array([1, None], pa.int8()), t.BYTE, [1, None]),
    (pa.array([1], pa.int16()), t.SHORT, [1]),
    (pa.array([1], pa.int32()), t.INT, [1]),
    (pa.array([1], pa.int64()), t.LONG, [1]),
    (pa.array([255], pa.uint8()), t.SHORT, [255]),
    (pa.array([65535], pa.uint16()), t.INT, [65535]),
    (pa.array([2**32 - 1], pa.uint32()), t.LONG, [2**32 - 1]),
    (pa.array([2**64 - 1, None], pa.uint64()), t.Decimal(20, 0), [Decimal(2**64 - 1), None]),
    (pa.array([1.5], pa.float32()).cast(pa.float16()), t.FLOAT, [1.5]),
    (pa.array([-0.0, float("nan")], pa.float32()), t.FLOAT, [0.0, float("nan")]),
    (pa.array([0.1]), t.DOUBLE, [0.1]),
    (pa.array(["é", None]), t.STRING, ["é", None]),
    (pa.array(["a"], pa.large_string()), t.STRING, ["a"]),
    (pa.array(["a", "a"]).dictionary_encode(), t.STRING, ["a", "a"]),
    (pa.array([True]), t.BOOL, [True]),
    (pa.array([date(2026, 1, 31)]), t.DATE, [date(2026, 1, 31)]),
    (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), t.Decimal(5, 2), [Decimal("1.50")]),
    (pa.array([Decimal("1.50")], pa.decimal256(5, 2)), t.Decimal(5, 2), [Decimal("1.50")]),
    (pa.array([1], pa.timestamp("ms")), t.TIMESTAMP, [datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)]),
    (pa.array([-1], pa.timestamp("ns")), t.TIMESTAMP,
     [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)]),
    (pa.array([0], pa.timestamp("us", tz="Europe/Paris")), t.TIMESTAMP,
     [datetime(1970, 1, 1, tzinfo=UTC)]),
    (pa.array([[1, 2], None, []]), t.list_of(t.LONG), [[1, 2], None, []]),
    (pa.array([[1]], pa.large_list(pa.int32())), t.list_of(t.INT), [[1]]),
    (pa.array([[1, 2]], pa.list_(pa.int32(), 2)), t.list_of(t.INT), [[1, 2]]),
    (pa.array([{"x": 1, "y": "a"}]), t.Record((("x", t.LONG), ("y", t.STRING))),
     [Record({"x": 1, "y": "a"})]),
    (pa.array([{"_1": 1, "_2": "a"}]), t.Tuple((t.LONG, t.STRING)), [(1, "a")]),
    (pa.array([[("k", 0)], None], pa.map_(pa.string(), pa.timestamp("s"))),
     t.bag(t.Tuple((t.STRING, t.TIMESTAMP))),
     [Bag([("k", datetime(1970, 1, 1, tzinfo=UTC))]), None]),
    (pa.array([None, None]), t.NOTHING, [None, None]),
    (pa.array([[None, None], [None]]), t.list_of(t.NOTHING), [[None, None], [None]]),
]  # fmt: skip


@pytest.mark.parametrize(("column", "type_", "expected"), FOREIGN, ids=lambda x: str(x)[:25])
def test_columns_of_others(tmp_path: Path, column: Any, type_: Type, expected: list[Value]) -> None:
    file = write(tmp_path / "x.parquet", c=column)
    assert schema_type(file) == t.Record((("c", type_),))
    rows = values(file)
    assert identical(rows, [Record({"c": value}) for value in expected])
    assert [type(row.c) for row in rows] == [type(value) for value in expected]


def test_minus_zero_is_zero(tmp_path: Path) -> None:
    (row,) = values(write(tmp_path / "x.parquet", c=pa.array([-0.0])))
    assert str(row.c) == "0.0"


def test_columns_called_1_2_are_a_tuple(tmp_path: Path) -> None:
    file = write(tmp_path / "x.parquet", _1=[1], _2=["a"])
    assert schema_type(file) == t.Tuple((t.LONG, t.STRING))
    assert values(file) == [(1, "a")]


@pytest.mark.parametrize(
    ("column", "named"),
    [
        (pa.array([b"x"]), 'column "c" has type binary'),
        (pa.array([[{"d": b"x"}]]), 'column "c[].d" has type binary'),
        (pa.array([1], pa.time32("s")), 'column "c" has type time32'),
        (pa.array([Decimal(1)], pa.decimal256(50, 0)), 'column "c" has type decimal256(50, 0)'),
    ],
)
def test_types_that_nothing_holds(tmp_path: Path, column: Any, named: str) -> None:
    with pytest.raises(DataError) as caught:
        schema_type(write(tmp_path / "x.parquet", c=column))
    assert caught.value.code == "R120"
    assert named in caught.value.message
    assert "which no MRQL type holds" in caught.value.message


def test_one_value_out_of_range_spoils_one_row(tmp_path: Path) -> None:
    ends = pa.array([2**62, 0], pa.timestamp("us"))
    days = pa.array([0, 2**31 - 1], pa.date32())
    (first, second) = read_parquet(write(tmp_path / "x.parquet", c=ends, d=days))
    assert isinstance(first, BadRow)
    assert isinstance(second, BadRow)
    assert (first.line, second.line) == (1, 2)
    assert "outside the years 1 to 9999" in first.reason
    assert "outside the years 1 to 9999" in second.reason


def test_text_that_is_not_utf8_spoils_one_row(tmp_path: Path) -> None:
    column = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.array([0, 1, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xffa")]
    )
    bad, good = read_parquet(write(tmp_path / "x.parquet", c=column))
    assert isinstance(bad, BadRow)
    assert bad.reason == "not UTF-8 at byte 1 of a string"
    assert good == Row(Record({"c": "a"}))


# --- many files, damaged files -----------------------------------------------------------


def test_files_of_one_source_widen(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", a=pa.array([1], pa.int64()), b=["x"])
    write(tmp_path / "2.parquet", b=pa.array([None], pa.null()), a=pa.array([2], pa.int8()), c=[0])
    row = schema_type(tmp_path)
    assert [r.value for r in read("binary", tmp_path, row) if isinstance(r, Row)] == [
        Record({"a": 1, "b": "x"}),
        Record({"a": 2, "b": None}),
    ]


def test_files_of_other_types_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "1.parquet", a=["x"])
    with pytest.raises(DataError) as caught:
        list(read("binary", file, t.Record((("a", t.INT),))))
    assert caught.value.code == "R121"
    assert caught.value.message == (
        '"1.parquet" has rows of type < a: string >, expected < a: int >'
    )


@pytest.mark.parametrize("keep", [0, 3, 200, -20])
def test_damaged_files(tmp_path: Path, keep: int) -> None:
    file = write(tmp_path / "x.parquet", a=list(range(1000)))
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(DataError, match=r'R103.*"x.parquet" is damaged'):
        schema_type(file)


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("a,b\n1,2\n" * 10)
    for read_it in (lambda: schema_type(file), lambda: list(read("binary", file, t.INT))):
        with pytest.raises(DataError, match=r'R123.*"x.csv" is not a Parquet file'):
            read_it()


def test_damaged_pages(tmp_path: Path) -> None:
    file = write(tmp_path / "x.parquet", a=[str(i) for i in range(1000)])
    data = bytearray(file.read_bytes())
    data[4:2000] = bytes(1996)
    file.write_bytes(data)
    with pytest.raises(DataError, match="R103"):
        list(read_parquet(file))


def test_an_empty_folder_has_no_type_but_reads(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="R122"):
        schema_type(tmp_path)
    assert list(read("binary", tmp_path, t.INT)) == []


@pytest.mark.parametrize("signs", [["+", "-"], [1, -1], ["insert", "DELETE"]])
def test_signs(tmp_path: Path, signs: list[Any]) -> None:
    file = write(tmp_path / "x.parquet", a=[1, 2], op=signs)
    row = schema_type(file, "op")
    assert row == t.Record((("a", t.LONG),))
    items = list(read("binary", file, row, options={"sign": "op"}))
    assert items == [Row(Record({"a": 1})), Row(Record({"a": 2}), -1)]
    with pytest.raises(DataError, match=r'R112.*no sign column "sign"'):
        schema_type(file, "sign")


# --- our own files -----------------------------------------------------------------------

OWN: list[tuple[Type, list[Value]]] = [
    (t.INT, [1, None]),
    (t.bag(t.INT), [Bag([2, 1]), Bag()]),
    (t.Record((("value", t.INT),)), [Record({"value": 1})]),
    (t.Record((("value", t.Record((("value", t.INT),))),)),
     [Record({"value": Record({"value": 1})}), None]),
    (t.Record((("a b", t.bag(t.DATE)), ("<", t.JSON))),
     [Record({"a b": Bag([date(1, 1, 1)]), "<": parse_json('{"x": [null]}')}), None]),
    (t.Tuple((t.XML, t.ANY)), [(parse_xml("<a/>"), (1, "a")), (None, None)]),
    (t.UNIT, [(), None]),
    (t.Record(()), [Record()]),
    (t.NOTHING, [None]),
    (t.Data("Tree"), [Data("Leaf", 0, 1)]),
    (t.TIMESTAMP, [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)]),
    (t.TIMESTAMP, [datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))]),
    (t.Decimal(38, 38), [Decimal("0." + "9" * 38), Decimal("-0.5")]),
]  # fmt: skip


@pytest.mark.parametrize(("element", "rows"), OWN, ids=lambda x: str(x)[:30])
def test_what_was_stored_comes_back(tmp_path: Path, element: Type, rows: list[Value]) -> None:
    file = tmp_path / "x.parquet"
    write_parquet(file, rows, element)
    assert schema_type(file) == element
    assert identical(values(file), rows)


@given(st.data())
def test_store_and_read(data: st.DataObject) -> None:
    element = data.draw(types())
    rows = data.draw(typed_rows(element))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "x.parquet")
        store(file, rows, t.list_of(element))
        assert schema_type(file) == element
        assert identical(values(file, element), canonical(rows))


def test_metadata_counts_only_while_it_fits(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    write_parquet(file, [(1, Bag([2]))], t.Tuple((t.INT, t.bag(t.INT))))
    pq.write_table(pq.read_table(file).drop_columns(["_1"]), file)
    assert schema_type(file) == t.Record((("_2", t.list_of(t.INT)),))
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({"incmrql.type": "< a"}), file)
    assert schema_type(file) == t.Record((("a", t.LONG),))


def test_values_that_cannot_be_stored(tmp_path: Path) -> None:
    for value, type_ in (("\ud800", t.STRING), (Decimal(1000), t.Decimal(2, 0)), (2**40, t.INT)):
        with pytest.raises(DataError, match="R130"):
            store(tmp_path / "x.parquet", [value], t.list_of(type_))
    assert list(tmp_path.iterdir()) == []


@given(types())
def test_types_as_text(type_: Type) -> None:
    assert read_type(write_type(type_)) == type_


@pytest.mark.parametrize(
    "text", ["", "<", "< a", "int int", "(int", "{int, int}", "< a int >", ","]
)
def test_text_that_is_no_type(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        read_type(text)
