"""Columns of others at once: the values that are made one by one, or none at all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.io import FileSplit, ReadSpec, read_chunks
from incmrql.io.arrow.casting import cast_column
from incmrql.io.arrow.columns import column_values
from incmrql.io.arrow.tables import array_or_none
from incmrql.io.arrow.types import NoSuchType, arrow_type, model_type
from incmrql.io.arrow.values import plain_type, to_arrow, value_reader
from incmrql.io.by_row import by_row_count
from incmrql.io.parquet import read_parquet, write_parquet
from incmrql.io.rows import BadRow, Row
from incmrql.io.scalars import Unparsable
from incmrql.types import model as t
from incmrql.types import typed
from incmrql.types.model import Type
from incmrql.values import Record, Value, encode
from tests.effort import examples
from tests.io.strategies import typed_rows, types

NAN = float("nan")
COLUMNS: list[tuple[Any, Type]] = [
    (pa.array([1, None, 255], pa.uint8()), t.SHORT),
    (pa.array([2**32 - 1, None], pa.uint32()), t.LONG),
    (pa.array([2**64 - 1, None], pa.uint64()), t.Decimal(20, 0)),
    (pa.array([1, None, -1], pa.int32()), t.DOUBLE),
    (pa.array([-0.0, NAN, None, 1.5]), t.DOUBLE),
    (pa.array([-0.0, NAN, None, 1.5], pa.float32()), t.DOUBLE),
    (pa.array([-0.0, NAN, None], pa.float32()), t.FLOAT),
    (pa.array(["é", None, "", "a\0b"]), t.STRING),
    (pa.array(["a", None], pa.large_string()), t.STRING),
    (pa.array(["a", None, "a"]).dictionary_encode(), t.STRING),
    (pa.array([True, None]), t.BOOL),
    (pa.array([date(1, 1, 1), date(9999, 12, 31), None, date(1969, 12, 31)]), t.DATE),
    (pa.array([-1, 0, None], pa.int64()).cast(pa.date64()), t.DATE),
    (pa.array([-1, 1, None], pa.int64()).cast(pa.timestamp("s")), t.TIMESTAMP),
    (pa.array([-1, 1, None], pa.int64()).cast(pa.timestamp("ms", tz="UTC")), t.TIMESTAMP),
    (pa.array([-1, 1, None], pa.int64()).cast(pa.timestamp("us", tz="Asia/Tokyo")), t.TIMESTAMP),
    (pa.array([-1, -1001, 1, None], pa.int64()).cast(pa.timestamp("ns")), t.TIMESTAMP),
    (pa.array([Decimal("-1.50"), None], pa.decimal128(5, 2)), t.Decimal(5, 2)),
    (pa.array([Decimal("-1.50"), None], pa.decimal256(5, 2)), t.Decimal(5, 2)),
    (pa.array([[1, None], None, []]), t.list_of(t.LONG)),
    (pa.array([[1, 2], [0, 0]], pa.list_(pa.int32(), 2)), t.list_of(t.LONG)),
    (pa.array([[3, None, 1], None, [], [2]], pa.large_list(pa.int32())), t.bag(t.INT)),
    (pa.array([["b", None, "a", ""], ["z"]]), t.bag(t.STRING)),
    (pa.array([[Decimal("1.50"), Decimal("-1.00")]], pa.list_(pa.decimal128(5, 2))),
     t.bag(t.Decimal(5, 2))),
    (pa.array([{"x": 1, "y": [date(1969, 1, 1)]}, None, {"x": None, "y": None}]),
     t.Record((("y", t.list_of(t.DATE)), ("x", t.LONG)))),
    (pa.array([{"_1": 1, "_2": "a"}, None]), t.Tuple((t.LONG, t.STRING))),
    (pa.array([None, None]), t.DATE),
]  # fmt: skip
BY_VALUE: list[tuple[Any, Type]] = [
    (pa.array([[2.0, NAN, None, -0.0]]), t.bag(t.DOUBLE)),
    (pa.array([[("k", 1), ("a", 0)]], pa.map_(pa.string(), pa.int64())),
     t.bag(t.Tuple((t.STRING, t.LONG)))),
    (pa.array([[{"x": 2}, {"x": 1}]]), t.bag(t.Record((("x", t.LONG),)))),
    (pa.array([1.5], pa.float32()).cast(pa.float16()), t.FLOAT),
]  # fmt: skip
BAD: list[tuple[Any, Type]] = [
    (pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32()), t.DATE),
    (pa.array([0, 2**62], pa.int64()).cast(pa.timestamp("us")), t.TIMESTAMP),
    (pa.array([0, 2**62], pa.int64()).cast(pa.timestamp("s")), t.TIMESTAMP),
]


def by_value(column: Any, type_: Type) -> Any:
    """The column made value by value, as it always was."""
    read = value_reader(column.type, type_)
    values = [read(plain) for plain in column.cast(plain_type(column.type)).to_pylist()]
    return pa.array([to_arrow(value, type_) for value in values], arrow_type(type_))


def assert_same(found: Any, wanted: Any, type_: Type) -> None:
    found.validate(full=True)
    assert found.type == wanted.type == arrow_type(type_)
    values, others = column_values(found, type_), column_values(wanted, type_)
    assert list(map(encode, values)) == list(map(encode, others))
    assert repr(found.to_pylist()) == repr(wanted.to_pylist())


@pytest.mark.parametrize(("column", "type_"), COLUMNS, ids=lambda each: str(each)[:30])
def test_whole_columns_have_the_values_of_each(column: Any, type_: Type) -> None:
    found = cast_column(column, type_)
    assert found is not None
    assert_same(found, by_value(column, type_), type_)
    part = cast_column(column.slice(1), type_)
    assert_same(part, by_value(column.slice(1), type_), type_)


@pytest.mark.parametrize(("column", "type_"), BY_VALUE, ids=lambda each: str(each)[:30])
def test_one_by_one_where_arrow_has_no_way(column: Any, type_: Type) -> None:
    assert cast_column(column, type_) is None
    before = by_row_count()
    found = array_or_none(column, type_)
    assert by_row_count() - before == len(column)
    assert_same(found, by_value(column, type_), type_)


@pytest.mark.parametrize(("column", "type_"), BAD, ids=lambda each: str(each)[:30])
def test_a_bad_value_is_left_to_who_names_it(column: Any, type_: Type) -> None:
    assert cast_column(column, type_) is None
    assert array_or_none(column, type_) is None
    with pytest.raises(Unparsable):
        by_value(column, type_)


def test_one_column_one_by_one_leaves_the_others_alone() -> None:
    record = t.Record((("a", t.LONG), ("b", t.bag(t.DOUBLE))))
    column = pa.array([{"a": n, "b": [2.0, NAN]} for n in range(10)])
    before = by_row_count()
    found = array_or_none(column, record)
    assert by_row_count() - before == 10
    assert_same(found, by_value(column, record), record)


@examples(60)
@given(st.data())
def test_any_column_of_ours(data: st.DataObject) -> None:
    type_ = data.draw(types())
    values = data.draw(typed_rows(type_))
    column = pa.array([to_arrow(value, type_) for value in values], arrow_type(type_))
    found = cast_column(column, type_)
    if found is not None:
        assert_same(found, column, type_)


# --- Parquet files -------------------------------------------------------------------------


Outcome = tuple[list[bytes], list[int], list[BadRow]]
"""Rows, weights, bad rows."""


def chunks(path: Path, row: Type, **options: Any) -> Outcome:
    """What the vectorised reader makes of a file."""
    source = typed.Source("binary", False, None, row, options=tuple(options.items()))
    spec = ReadSpec(source, row, options)
    rows: list[Value] = []
    weights: list[int] = []
    bad: list[BadRow] = []
    for chunk in read_chunks(spec, FileSplit(0, str(path), str(path), path.stat().st_size)):
        chunk.values.validate(full=True)
        rows += column_values(chunk.values, row)
        weights += chunk.weights.to_pylist()
        bad += chunk.bad
    return list(map(encode, rows)), weights, bad


def one_by_one(path: Path, row: Type, sign: str = "") -> Outcome:
    """What the row-by-row reader makes of it."""
    found = list(read_parquet(path, row, sign))
    good = [item for item in found if isinstance(item, Row)]
    bad = [item for item in found if isinstance(item, BadRow)]
    return [encode(row.value) for row in good], [row.weight for row in good], bad


@examples(40)
@given(st.data())
def test_files_of_ours(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("parquet") / "x.parquet"
    type_ = data.draw(types())
    write_parquet(path, data.draw(typed_rows(type_)), type_)
    assert chunks(path, type_) == one_by_one(path, type_)


def file_of(path: Path, columns: Sequence[tuple[Any, Type]], rows: int = 5) -> t.Record:
    """A file with a column of each kind, some of which a row type asks for."""
    cycled = {
        f"c{n}": column.take(pa.array([row % len(column) for row in range(rows)]))
        for n, (column, _) in enumerate(columns)
    }
    pq.write_table(pa.table({**cycled, "sign": ["+", "-", "1", "delete", "-1"][:rows]}), path)
    return t.Record(tuple((f"c{n}", type_) for n, (_, type_) in enumerate(columns)))


def _is_stored(column: Any) -> bool:
    """Whether Parquet holds a column of this type, and gives it back as one."""
    try:
        model_type(column.type, "c")
    except NoSuchType:
        return False
    return not pa.types.is_dictionary(column.type)


FILES: list[tuple[Any, Type]] = [
    (column, type_) for column, type_ in [*COLUMNS, *BY_VALUE]
    if _is_stored(column) and model_type(column.type, "c") == type_
]  # fmt: skip


@pytest.mark.parametrize("batch", [2, 1 << 18])
@pytest.mark.parametrize("sign", ["", "sign"])
def test_files_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int, sign: str
) -> None:
    monkeypatch.setattr("incmrql.io.vectorised.parquet._ROWS", batch)
    assert len(FILES) > 10
    record = file_of(tmp_path / "x.parquet", FILES)
    if not sign:
        record = t.Record(record.fields[3:7])  # other columns are not even read
    options = {"sign": sign} if sign else {}
    wanted = one_by_one(tmp_path / "x.parquet", record, sign)
    assert chunks(tmp_path / "x.parquet", record, **options) == wanted


@pytest.mark.parametrize("batch", [2, 3, 1 << 18])
@pytest.mark.parametrize("bad", [0, 3, 4])
def test_a_bad_row_leaves_other_batches_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int, bad: int
) -> None:
    monkeypatch.setattr("incmrql.io.vectorised.parquet._ROWS", batch)
    path = tmp_path / "x.parquet"
    days = [0] * 5
    days[bad] = 2**31 - 1
    dates = pa.array(days, pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"d": dates, "other": ["a", "b", "c", "d", "e"]}), path)
    row = t.Record((("d", t.DATE),))
    wanted = one_by_one(path, row)
    assert len(wanted[2]) == 1
    assert "other" in wanted[2][0].text
    before = by_row_count()
    assert chunks(path, row) == wanted
    # The bad column and the bad row are tried, and then the batch is read row by row.
    assert by_row_count() - before <= 3 * min(batch, 5)


def test_plain_files_are_read_at_once(tmp_path: Path) -> None:
    columns: list[tuple[Any, Type]] = [
        (pa.array([date(1969, 12, 31)] * 3), t.DATE),
        (pa.array([Decimal("-0.05")] * 3, pa.decimal128(12, 2)), t.Decimal(12, 2)),
        (pa.array([datetime(1969, 1, 1, tzinfo=UTC)] * 3, pa.timestamp("us", tz="UTC")),
         t.TIMESTAMP),
        (pa.array([[1, None]] * 3), t.list_of(t.LONG)),
        (pa.array([{"x": True}] * 3), t.Record((("x", t.BOOL),))),
    ]  # fmt: skip
    record = file_of(tmp_path / "x.parquet", columns)
    before = by_row_count()
    rows, weights, bad = chunks(tmp_path / "x.parquet", record, sign="sign")
    assert (len(rows), weights, bad) == (5, [1, -1, 1, -1, -1], [])
    assert by_row_count() == before


def test_a_sign_that_is_none_spoils_its_row(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3], "s": [1, 7, None]}), path)
    row = t.Record((("a", t.LONG),))
    found = chunks(path, row, sign="s")
    assert found == one_by_one(path, row, "s")
    assert found[0] == [encode(Record({"a": 1}))]
    assert len(found[2]) == 2
