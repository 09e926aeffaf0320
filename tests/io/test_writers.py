"""Values to files: text and Parquet, replaced whole or not at all."""

from __future__ import annotations

import gzip
import math
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.errors import DataError
from incmrql.io.json.values import parse_json
from incmrql.io.parquet import schema_type
from incmrql.io.rows import Row
from incmrql.io.writers import dump, store
from incmrql.storage.files import replacing
from incmrql.types import model as t
from incmrql.types.model import Type
from incmrql.values import Bag, Record, Value, identical
from incmrql.values import read as read_value
from tests.io.reading import read
from tests.io.strategies import BASIC, records, tuples, typed_rows, types

AB = t.Record((("A", t.INT), ("B", t.STRING)))
PAIR = t.Tuple((t.INT, t.STRING))
MOMENT = datetime(2026, 1, 31, 10, tzinfo=UTC)
ROWS = Bag([Record({"A": 2, "B": 'x,"y"'}), Record({"A": 1, "B": None})])

TEXTS: list[tuple[str, Value, Type, str]] = [
    ("x.csv", ROWS, t.bag(AB), 'A,B\n1,\n2,"x,""y"""\n'),
    ("x.json", ROWS, t.bag(AB), '{"A": 1, "B": null}\n{"A": 2, "B": "x,\\"y\\""}\n'),
    ("x.jsonl", [(2, "a"), (1, "b")], t.list_of(PAIR), '[2, "a"]\n[1, "b"]\n'),
    ("x.txt", ROWS, t.bag(AB), '< A: 1, B: null >\n< A: 2, B: "x,\\"y\\"" >\n'),
    ("x", Bag([2, 1]), t.bag(t.INT), "1\n2\n"),
    ("x.csv", 5, t.INT, "5\n"),
    ("x.txt", Record({"A": Bag([1])}), t.Record((("A", t.bag(t.INT)),)), "< A: { 1 } >\n"),
    ("x.csv", Bag(), t.bag(AB), "A,B\n"),
    ("x.csv", [None, ""], t.list_of(t.STRING), '""\n""\n'),
    ("x.csv", [(1, Bag([2, 1]))], t.list_of(t.Tuple((t.INT, t.bag(t.INT)))), '1,"{ 1, 2 }"\n'),
    ("x.csv", [None], t.list_of(t.Tuple((t.INT, t.INT))), ",\n"),
    ("x.csv", [(True, 1e16, math.nan, Decimal("1.50"))], t.list_of(t.ANY),
     '"(true,1.0E16,NaN,decimal(""1.50""))"\n'),
    ("x.csv", (True, 1e16, Decimal("1.50"), date(2026, 1, 31), MOMENT),
     t.Tuple((t.BOOL, t.DOUBLE, t.DECIMAL, t.DATE, t.TIMESTAMP)),
     "true,1.0E16,1.50,2026-01-31,2026-01-31T10:00:00Z\n"),
    ("x.csv", None, t.bag(t.INT), '""\n'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "type_", "text"), TEXTS)
def test_dump(tmp_path: Path, name: str, value: Value, type_: Type, text: str) -> None:
    file = tmp_path / "deep" / name
    dump(file, value, type_)
    assert file.read_bytes().decode() == text
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_dump_compressed(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"x.csv{ending}"
    dump(file, ROWS, t.bag(AB))
    items = list(read("line", file, AB, options={"header": True, "null": ""}))
    assert [row.value for row in items if isinstance(row, Row)] == ROWS[::-1]
    first = file.read_bytes()
    dump(file, ROWS, t.bag(AB))
    assert file.read_bytes() == first


def test_gzip_is_gzip(tmp_path: Path) -> None:
    dump(tmp_path / "x.txt.gz", [1], t.list_of(t.INT))
    assert gzip.decompress((tmp_path / "x.txt.gz").read_bytes()) == b"1\n"


def test_store_replaces(tmp_path: Path) -> None:
    file = tmp_path / "x"
    store(file, ROWS, t.bag(AB))
    store(file, 5, t.INT)
    assert schema_type(file) == t.INT
    assert list(read("binary", file, t.INT)) == [Row(5)]


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    for place in (tmp_path, tmp_path / "file" / "x.csv"):
        for write in (dump, store):
            with pytest.raises(DataError) as caught:
                write(place, 5, t.INT)
            assert caught.value.code == "R130"
            assert caught.value.hint
    assert (tmp_path / "file").read_text() == "kept"


def write_half(file: Path) -> None:
    with replacing(file) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError


def test_a_failure_keeps_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    dump(file, "old", t.STRING)
    with pytest.raises(ZeroDivisionError):
        write_half(file)
    with pytest.raises(DataError, match=r"R130.*surrogate"):
        dump(tmp_path / "x.json", "\ud800", t.STRING)
    assert file.read_text() == '"old"\n'
    assert list(tmp_path.iterdir()) == [file]


@given(st.data())
def test_csv_and_back(data: st.DataObject) -> None:
    row = data.draw(st.one_of(records(BASIC), tuples(BASIC)))
    rows = data.draw(typed_rows(row))
    rows = [value for value in rows if value is not None]
    header = isinstance(row, t.Record)
    if header and [name.strip() for name in row.names] != list(row.names):  # type: ignore[union-attr]
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "x.csv")
        dump(file, rows, t.list_of(row))
        items = list(read("line", file, row, options={"header": header, "null": ""}))
    if row_is_one_string(row):
        items = [Row(Record({n: v or None for n, v in f.value.items()})) for f in items]  # type: ignore[union-attr]
        rows = [Record({n: v or None for n, v in value.items()}) for value in rows]
    assert identical([f.value for f in items if isinstance(f, Row)], rows)
    assert len(items) == len(rows)


def row_is_one_string(row: Type) -> bool:
    """Where null cannot be told from the empty string: a line with neither would be skipped."""
    return isinstance(row, t.Record) and [type_ for _, type_ in row.fields] == [t.STRING]


@given(st.data())
def test_notation_and_back(data: st.DataObject) -> None:
    element = data.draw(types())
    rows = data.draw(typed_rows(element))
    names = {"Node": 0, "CData": 1}
    names |= {constructor.name: constructor.position for constructor in t.PREDEFINED["JSON"]}
    with tempfile.TemporaryDirectory() as folder:
        dump(Path(folder, "x"), rows, t.list_of(element))
        lines = Path(folder, "x").read_text().split("\n")
    assert lines.pop() == ""
    assert identical([read_value(line, names) for line in lines], rows)


@given(st.data())
def test_json_and_back(data: st.DataObject) -> None:
    row = data.draw(st.one_of(records(BASIC), tuples(BASIC), BASIC))
    rows = data.draw(typed_rows(row))
    with tempfile.TemporaryDirectory() as folder:
        dump(Path(folder, "x.jsonl"), rows, t.list_of(row))
        items = list(read("json", Path(folder), row))
    assert identical([f.value for f in items if isinstance(f, Row)], rows)


def test_json_lines_are_documents(tmp_path: Path) -> None:
    dump(tmp_path / "x.json", [parse_json('{"a":\n1}')], t.list_of(t.JSON))
    assert (tmp_path / "x.json").read_text() == '{"a": 1}\n'
