"""Warnings about sources that were read, and are hardly what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from incmrql import api
from incmrql.io.rows import Notice

LINES = 'source(line, "{}", "{}", type({}));'
PAIR = "< k: int, v: string >"


def notices_of(path: Path, script: str) -> list[Notice]:
    notices: list[Notice] = []
    api.run(script.replace("PATH", str(path)), on_report=lambda r, _: notices.extend(r.notices))
    return notices


@pytest.mark.parametrize(
    ("text", "delimiter", "fits"),
    [
        ("1|a\n2|b\n", ",", '"|"'),
        ("1|a|\n2|b|\n", ",", '"|"'),
        ("1;a\n2;b\n", ",", '";"'),
        ("1\ta\n2\tb\n", ",", "a tab"),
        ("1,a\n2,b\n", "|", '","'),
    ],
)
def test_a_delimiter_that_fits_is_named(
    tmp_path: Path, text: str, delimiter: str, fits: str
) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)
    (notice,) = notices_of(path, LINES.format("PATH", delimiter, PAIR))
    assert notice.code == "W201"
    assert notice.message == f"none of the 2 lines of {path} could be read: the source is empty"
    assert notice.place == f"{path}:1"
    assert notice.hint == f'The lines look delimited by {fits}, and the source says "{delimiter}".'


def test_without_one_the_first_reason_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("x,a\n")
    (notice,) = notices_of(path, LINES.format("PATH", ",", PAIR))
    assert notice.message == f"the only line of {path} could not be read: the source is empty"
    assert notice.hint == 'The first: line 1: column 1 "k": "x" is not an int.'


def test_nothing_is_said_where_a_line_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("x,a\n1,b\n2,c,\n")
    assert notices_of(path, LINES.format("PATH", ",", PAIR)) == []


def test_columns_beyond_are_mentioned_once(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("1,a,x\n2,b\n")
    (tmp_path / "2.csv").write_text("3,c,,y\n")
    (notice,) = notices_of(tmp_path, LINES.format("PATH", ",", PAIR))
    assert notice.code == "W202"
    message = f"2 lines of {tmp_path} have more than the 2 columns declared; the rest is ignored"
    assert notice.message == message


JSON = 'source(json, "PATH", type(< Amount: int, name: string >));'


def test_a_field_that_no_row_has(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text('{"amount": 1, "name": "x"}\n{"amount": 2, "n": 1}\n')
    (notice,) = notices_of(tmp_path, JSON)
    assert notice.code == "W203"
    assert notice.message == f'no row of {tmp_path} has the field "Amount": it is null everywhere'
    assert notice.hint == 'Did you mean "amount"? Rows have: amount, n, name.'


NESTED = 'source(json, "PATH", type(< p: < name: string, at: < x: int > >, age: int >));'


def test_a_field_inside_a_field_that_no_row_has(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text('{"p": {"nam": "x", "at": {"y": 1}}, "age": 1}\n{"age": 2}\n')
    one, other = notices_of(tmp_path, NESTED)
    assert one.message == f'no row of {tmp_path} has the field "p.name": it is null everywhere'
    assert one.hint == 'Did you mean "nam"? "p" has: at, nam.'
    assert '"p.at.x"' in other.message
    assert other.hint.endswith('"p.at" has: y.')


TYPED_XML = 'source(xml, "PATH", {"b"}, type(< id: int, p: < name: string >, tags: bag(string) >));'


def test_a_field_that_no_xml_element_has(tmp_path: Path) -> None:
    path = tmp_path / "1.xml"
    path.write_text('<a><b id="1"><p nam="x"/></b><b id="2"><p><name/></p></b></a>')
    assert notices_of(tmp_path, TYPED_XML) == []
    path.write_text('<a><b ID="1"><p nam="x"/></b><b><p><n>y</n></p></b></a>')
    one, other = notices_of(tmp_path, TYPED_XML)
    assert one.message == f'no row of {tmp_path} has the field "id": it is null everywhere'
    assert one.hint.endswith("Rows have: ID, p.")
    assert other.message == f'no row of {tmp_path} has the field "p.name": it is null everywhere'
    assert other.hint == 'Did you mean "nam"? "p" has: n, nam.'


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('{"q": {"name": "x"}, "age": 1}', ["p"]),
        ('{"p": {"name": null, "at": {"x": null}}, "age": 1}', []),
        ('{"p": {"name": "x", "at": {"x": 1}}, "age": 1}', []),
        ('{"p": {"name": "x", "a": 1}, "age": 1}', ["p.at"]),
        ('{"p": {}, "age": 1}', []),
    ],
)
def test_of_fields_inside_each_other_the_outermost_is_named(
    tmp_path: Path, text: str, fields: list[str]
) -> None:
    (tmp_path / "1.json").write_text(text)
    assert [notice.message.split('"')[1] for notice in notices_of(tmp_path, NESTED)] == fields


@pytest.mark.parametrize(
    "text",
    [
        '{"amount": 1}\n{"Amount": 2, "name": "y"}\n',
        '{"Amount": null, "name": null}\n',
        "",
        '[{"Amount": 1, "name": "x"}, {"name": "y"}]',
    ],
)
def test_a_field_that_some_row_has_or_that_is_null(tmp_path: Path, text: str) -> None:
    (tmp_path / "1.json").write_text(text)
    assert notices_of(tmp_path, JSON) == []


def test_a_field_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text('{"name": "x"}\n')
    (tmp_path / "2.json").write_text('{"Amount": 2, "name": "y"}\n')
    assert notices_of(tmp_path, JSON) == []
