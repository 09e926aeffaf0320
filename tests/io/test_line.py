"""Delimited lines to rows."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.errors import DataError
from incmrql.io import line as line_module
from incmrql.io.rows import BadRow, Read, Row
from incmrql.types import model as t
from incmrql.types.model import Type, element_type
from incmrql.values import Record, Value
from tests.io.reading import read

AB = t.Record((("A", t.INT), ("B", t.STRING)))
PAIR = t.Tuple((t.INT, t.STRING))


def rows(
    tmp_path: Path, data: str | bytes, row: Type = PAIR, delimiter: str = ",", **options: Any
) -> list[Read]:
    file = tmp_path / "x.csv"
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return list(read("line", file, row, delimiter=delimiter, options=options))


def values_and_reasons(items: list[Read]) -> list[Any]:
    """Values, and for bad rows their line and reason."""
    return [r.value if isinstance(r, Row) else (r.line, r.reason) for r in items]


@pytest.mark.parametrize(
    ("row", "element"),
    [
        (t.INT, t.INT),
        (PAIR, PAIR),
        (AB, AB),
        (t.Tuple((t.ANY, t.INT)), t.INT),
        (t.Tuple((t.INT, t.ANY, t.STRING)), PAIR),
        (t.Tuple((t.ANY, t.ANY)), t.UNIT),
        (t.Record((("A", t.INT), ("x", t.ANY))), t.Record((("A", t.INT),))),
    ],
)
def test_element_type(row: Type, element: Type) -> None:
    assert element_type(row) == element


GOOD: list[tuple[str, Type, str, Mapping[str, Any], list[Value]]] = [
    ("", PAIR, ",", {}, []),
    ("\n\n", PAIR, ",", {}, []),
    ("1,a\n2,b\n", PAIR, ",", {}, [(1, "a"), (2, "b")]),
    ("1,a\r\n2,b", PAIR, ",", {}, [(1, "a"), (2, "b")]),
    ("\ufeff1,a\n\n2,b\n\n", PAIR, ",", {}, [(1, "a"), (2, "b")]),
    ("1,a\n", AB, ",", {}, [Record({"A": 1, "B": "a"})]),
    ("1\n2\n", t.INT, ",", {}, [1, 2]),
    ("1\ta\n", PAIR, "\t", {}, [(1, "a")]),
    ("1||a|b\n", PAIR, "||", {}, [(1, "a|b")]),
    ("1||\"a||b\"\n", PAIR, "||", {}, [(1, "a||b")]),
    ("x,1,y,a\n", t.Tuple((t.ANY, t.INT, t.ANY, t.STRING)), ",", {}, [(1, "a")]),
    ("x,1\n", t.Tuple((t.ANY, t.INT)), ",", {}, [1]),
    (",\n", PAIR, ",", {}, [(None, "")]),
    ('"",""\n', PAIR, ",", {}, [(None, "")]),
    (",\n", PAIR, ",", {"null": ""}, [(None, None)]),
    ('"1",""\n', PAIR, ",", {"null": ""}, [(1, "")]),
    ('NA,NA\nNA,"NA"\n,x\n', PAIR, ",", {"null": "NA"}, [(None, None), (None, "NA"), (None, "x")]),
    ('1,"a,b"\n', PAIR, ",", {}, [(1, "a,b")]),
    ('1,"a""b"\n', PAIR, ",", {}, [(1, 'a"b')]),
    ('1,""""\n', PAIR, ",", {}, [(1, '"')]),
    ('1,"a\nb\r\nc"\n2,d\n', PAIR, ",", {}, [(1, "a\nb\r\nc"), (2, "d")]),
    ('1,5" disk\n', PAIR, ",", {}, [(1, '5" disk')]),
    ('1,"a\n2,b\n', PAIR, ",", {"quote": ""}, [(1, '"a'), (2, "b")]),
    ("1,'a,b'\n2,\"\n", PAIR, ",", {"quote": "'"}, [(1, "a,b"), (2, '"')]),
    ("# note\n1,a\n", PAIR, ",", {"comment": "#"}, [(1, "a")]),
    ("A,B\n1,a\n", PAIR, ",", {"header": True}, [(1, "a")]),
    ("B,x, A\na,?,1\n", AB, ",", {"header": True}, [Record({"A": 1, "B": "a"})]),
    ("", AB, ",", {"header": True}, []),
]  # fmt: skip


@pytest.mark.parametrize(("data", "row", "delimiter", "options", "values"), GOOD)
def test_rows(
    tmp_path: Path, data: str, row: Type, delimiter: str,
    options: Mapping[str, Any], values: list[Value],
) -> None:  # fmt: skip
    assert values_and_reasons(rows(tmp_path, data, row, delimiter, **options)) == values


BAD: list[tuple[str | bytes, list[Any]]] = [
    ("1\n2,b\n", [(1, "expected 2 columns, found 1"), (2, "b")]),
    ("1,a,x\n2,b\n", [(1, "a"), (2, "b")]),
    ("1,a,\n2,b\n", [(1, "a"), (2, "b")]),
    ("1,\n2,b\n", [(1, ""), (2, "b")]),
    ("z,a\n2,b\n", [(1, 'column 1: "z" is not an int'), (2, "b")]),
    (b"1,\xff\n2,b\n", [(1, "not UTF-8 at byte 3 of the line"), (2, "b")]),
    ('1,"a\nb"\nx,c\n', [(1, "a\nb"), (3, 'column 1: "x" is not an int')]),
    ('1,"a"b\n2,b\n', [(1, "text follows the closing quote of column 2"), (2, "b")]),
    ('1,"a\n2,b\n3,c', [
        (1, "a quoted field starts on this line and is never closed"), (2, "b"), (3, "c")]),
    ('1,"a\n2,"b"\n3,c', [
        (1, "text follows the closing quote of column 2"), (2, "b"), (3, "c")]),
    (b'1,"a\n\xff"\n3,c', [
        (1, "line 2 of a quoted field: not UTF-8 at byte 1 of the line"),
        (2, "not UTF-8 at byte 1 of the line"), (3, "c")]),
]  # fmt: skip


def test_columns_beyond_the_declared_ones_are_ignored_and_counted(tmp_path: Path) -> None:
    """One delimiter at the end, as in the files of TPC-H, is no further column."""
    items = rows(tmp_path, '1,a,\n2,b\n3,c,x\n4,d,,\n5,e,,x\n6,f,""\n')
    assert values_and_reasons(items) == [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"), (6, "f")]
    assert [row.beyond for row in items if isinstance(row, Row)] == [
        False, False, True, True, True, False,
    ]  # fmt: skip


def test_a_header_says_how_many_columns_there_are(tmp_path: Path) -> None:
    items = rows(tmp_path, "A,B\n1,a,\n2,b,x\n", AB, ",", header=True)
    assert values_and_reasons(items) == [
        Record({"A": 1, "B": "a"}),
        (3, "expected 2 columns, found 3"),
    ]


def test_a_single_value_is_not_cut_short(tmp_path: Path) -> None:
    assert values_and_reasons(rows(tmp_path, "a,\nb,c\n", t.STRING)) == [
        "a",
        (2, "expected 1 column, found 2"),
    ]


@pytest.mark.parametrize(("data", "values"), BAD)
def test_bad_rows(tmp_path: Path, data: str | bytes, values: list[Any]) -> None:
    assert values_and_reasons(rows(tmp_path, data)) == values


def test_a_bad_row_has_its_file_and_text(tmp_path: Path) -> None:
    (bad,) = rows(tmp_path, 'A,B\nx,"a\nb"\n', AB, header=True)
    reason = 'column 1 "A": "x" is not an int'
    assert bad == BadRow(str(tmp_path / "x.csv"), 2, 'x,"a\nb"', reason)


def test_a_quote_that_is_never_closed_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_module, "LONGEST_RECORD", 100)
    data = '1,"a\n' + "".join(f"{i},b\n" for i in range(2, 500)) + '500,"c"\n'
    values = values_and_reasons(rows(tmp_path, data))
    assert values[0][1] == "a quoted field starts on this line and is never closed"
    assert values[1:] == [*((i, "b") for i in range(2, 500)), (500, "c")]


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        ("a,C\n1,x\n", 'has no column "A", "B"', 'Did you mean "a"? The header has: a, C.'),
        ("A,B,A\n", 'has two columns "A"', "The header has: A, B, A."),
        (b"\xff\n1,a\n", "is not readable: not UTF-8", ""),
    ],
)
def test_headers_that_do_not_fit(
    tmp_path: Path, data: str | bytes, message: str, hint: str
) -> None:
    with pytest.raises(DataError) as caught:
        rows(tmp_path, data, AB, header=True)
    assert caught.value.code == "R111"
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_each_file_has_its_own_header(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("A,B\n1,a\n")
    (tmp_path / "2.csv").write_text("B,A\nb,2\n")
    items = list(read("line", tmp_path, AB, options={"header": True}))
    assert items == [Row(Record({"A": 1, "B": "a"})), Row(Record({"A": 2, "B": "b"}))]


SIGNED: list[tuple[str, Type, Mapping[str, Any], list[Any]]] = [
    ("1,a,+\n1,a,-\n", PAIR, {}, [((1, "a"), 1), ((1, "a"), -1)]),
    ("1,a,1\n1,a,-1\n", PAIR, {}, [((1, "a"), 1), ((1, "a"), -1)]),
    ("1,a,Insert\n1,a,delete\n", PAIR, {}, [((1, "a"), 1), ((1, "a"), -1)]),
    ("op,A,B\n-,1,a\n", PAIR, {"header": True}, [((1, "a"), -1)]),
    ("B,op,A\na,-,1\n", AB, {"header": True}, [(Record({"A": 1, "B": "a"}), -1)]),
    ("-,1\n", t.Record((("op", t.ANY), ("A", t.INT))), {}, [(Record({"A": 1}), -1)]),
    ("5,-\n", t.INT, {}, [(5, -1)]),
]


@pytest.mark.parametrize(("data", "row", "options", "values"), SIGNED)
def test_signs(
    tmp_path: Path, data: str, row: Type, options: Mapping[str, Any], values: list[Any]
) -> None:
    items = rows(tmp_path, data, row, sign="op", **options)
    assert [(r.value, r.weight) for r in items if isinstance(r, Row)] == values


def test_a_sign_that_is_none(tmp_path: Path) -> None:
    assert values_and_reasons(rows(tmp_path, "1,a,*\n", sign="op")) == [
        (1, 'sign column "op" holds "*", expected + or -, 1 or -1, insert or delete')
    ]
    with pytest.raises(DataError, match=r'R112.*no sign column "op"'):
        rows(tmp_path, "A,B\n", AB, header=True, sign="op")


@given(st.binary(max_size=30) | st.text('",\n\r1a', max_size=30).map(str.encode))
def test_every_line_is_in_a_row_or_a_bad_row(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        items = rows(Path(folder), data, t.Tuple((t.STRING, t.STRING)))
    lines = [row.line for row in items if isinstance(row, BadRow)]
    assert lines == sorted(set(lines))
    physical = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    filled = [line for line in physical[:-1] if line not in (b"", b"\r")] + [
        *filter(None, physical[-1:])
    ]
    assert len(items) <= len(filled)
    assert bool(items) == bool(filled)


def test_text_has_lines_and_no_sign(tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes(b"a b\r\n\n\xff\nc")
    items = list(read("text", file, t.STRING))
    assert values_and_reasons(items) == ["a b", "", (3, "not UTF-8 at byte 1 of the line"), "c"]
    with pytest.raises(DataError, match="R112"):
        read("text", file, t.STRING, options={"sign": "op"})
