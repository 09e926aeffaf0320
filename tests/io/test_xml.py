"""XML: text to trees, files to fragments, paths, typed elements."""

from __future__ import annotations

import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.errors import SourceText
from incmrql.io.rows import BadRow, Read, Row
from incmrql.io.scalars import Unparsable
from incmrql.io.xml.files import select, typed_xml
from incmrql.io.xml.values import (
    attribute,
    cdata,
    children,
    node,
    parse_xml,
    tag_of,
    text_of,
    xml_text,
)
from incmrql.syntax.ast import Step, XPath
from incmrql.syntax.parser.scripts import parse_query
from incmrql.types import model as t
from incmrql.types.model import Type
from incmrql.values import Bag, Data, Record, Value, encode, identical
from tests.io.reading import read
from tests.io.trees import xml_trees


def steps(text: str) -> tuple[Step, ...]:
    path = parse_query(SourceText(f"xpath({text})"))
    assert isinstance(path, XPath)
    return path.steps


def element(tag: str, *inner: Data | str, **attributes: str) -> Data:
    content = [cdata(item) if isinstance(item, str) else item for item in inner]
    return node(tag, Bag(attributes.items()), content)


TREES: list[tuple[str, Data]] = [
    ("<a/>", element("a")),
    ("<a></a>", element("a")),
    ('<?xml version="1.0" encoding="utf-8"?>\n<a x="1" y="&lt;"/>', element("a", x="1", y="<")),
    ("<a>b &amp; c</a>", element("a", "b & c")),
    ("<a>b<c/>d <e>f</e></a>", element("a", "b", element("c"), "d ", element("e", "f"))),
    ("<a>\n  <b/>\n  <c/>\n</a>", element("a", element("b"), element("c"))),
    ("<a> </a>", element("a", " ")),
    ("<a>\u00a0<b/></a>", element("a", "\u00a0", element("b"))),
    ("<a>x<!-- no -->y<?no no?>z<![CDATA[<&]]></a>", element("a", "xyz<&")),
    ("<a>1\r\n2&#13;</a>", element("a", "1\n2\r")),
    ("<dc:a xmlns:dc='u' dc:b='1'/>",
     node("dc:a", Bag([("xmlns:dc", "u"), ("dc:b", "1")]), [])),
    ("<p:a/>", element("p:a")),
    ("<!DOCTYPE a SYSTEM 'nowhere.dtd'><a>M&uuml;ller &what;</a>", element("a", "Müller &what;")),
    ("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>", element("a", "&e;")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "tree"), TREES)
def test_parse(text: str, tree: Data) -> None:
    assert identical(parse_xml(text), tree)


LAUGHS = (
    '<!DOCTYPE a [<!ENTITY b0 "ha">'
    + "".join(f'<!ENTITY b{i} "{f"&b{i - 1};" * 10}">' for i in range(1, 12))
    + "]>"
)


def test_declared_entities_are_harmless(tmp_path: Path) -> None:
    assert text_of(parse_xml(f"{LAUGHS}<a>&b11;</a>")) == "&b11;"
    with pytest.raises(Unparsable, match="amplification"):
        parse_xml(f'{LAUGHS}<a x="&b11;"/>')
    secret = tmp_path / "secret"
    secret.write_text("secret")
    fetched = f'<!DOCTYPE a [<!ENTITY s SYSTEM "{secret.as_uri()}">]><a>&s;</a>'
    assert text_of(parse_xml(fetched)) == "&s;"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not XML at line 1, column 1: no element found"),
        ("<a>", "not XML at line 1, column 4: no element found"),
        ("<a>\n<b></a>", "not XML at line 2, column 6: mismatched tag"),
        ("<a/><b/>", "junk after document element"),
        ("<a>&nbsp;</a>", "undefined entity"),
        ("<a x=1/>", "not well-formed"),
        ("<a x='1' x='2'/>", "duplicate attribute"),
        ("<a>\ud800</a>", "half of a surrogate pair"),
        ("<a>" * 101 + "</a>" * 101, "nested deeper than 100 levels"),
    ],
)
def test_not_xml(text: str, reason: str) -> None:
    with pytest.raises(Unparsable) as caught:
        parse_xml(text)
    assert reason in caught.value.reason


def test_as_deep_as_allowed() -> None:
    tree = parse_xml("<a>" * 100 + "</a>" * 100)
    assert encode(tree)
    assert identical(parse_xml(xml_text(tree)), tree)


def test_navigation() -> None:
    tree = parse_xml('<a x="1"><b>1</b>t<c/><b>2</b></a>')
    assert [text_of(child) for child in children(tree, "b")] == ["1", "2"]
    assert [tag_of(child) for child in children(tree)] == ["b", "c", "b"]
    assert (attribute(tree, "x"), attribute(tree, "y")) == ("1", None)
    assert text_of(tree) == "1t2"
    assert (tag_of(cdata("x")), children(cdata("x")), attribute(cdata("x"), "y")) == (
        None,
        [],
        None,
    )


# --- files -------------------------------------------------------------------------------


def rows(
    tmp_path: Path, data: str | bytes, *tags: str, path: str = "", row: Type = t.XML
) -> list[Read]:
    file = tmp_path / "x.xml"
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return list(read("xml", file, row, keys=tags, steps=steps(path) if path else ()))


def values_and_reasons(items: list[Read]) -> list[Any]:
    return [_readable(r.value) if isinstance(r, Row) else (r.line, r.reason) for r in items]


def _readable(value: Value) -> Any:
    return xml_text(value) if isinstance(value, Data) else value


FILES: list[tuple[str | bytes, tuple[str, ...], list[Any]]] = [
    ("", ("a",), []),
    ("<r><a>1</a><b/><a>2</a></r>", ("a",), ["<a>1</a>", "<a>2</a>"]),
    ("<r><a/><x><a y='1'/></x></r>", ("a",), ["<a/>", '<a y="1"/>']),
    ("<r><a>1<a>2<a/></a></a><a>3</a></r>", ("a",), [
        "<a>1<a>2<a/></a></a>", "<a>2<a/></a>", "<a/>", "<a>3</a>"]),
    ("<r><b><a/></b><a><b/></a></r>", ("a", "b"), [
        "<b><a/></b>", "<a/>", "<a><b/></a>", "<b/>"]),
    ("<r>x<a/></r>", ("r",), ["<r>x<a/></r>"]),
    ("<r>x<a/></r>", (), ["<r>x<a/></r>"]),
    ("\ufeff<r><a/></r>", ("a",), ["<a/>"]),
    ('<?xml version="1.0" encoding="iso-8859-1"?><r><a>é</a></r>'.encode("latin-1"), ("a",),
     ["<a>é</a>"]),
    ("<r>\n<a>1</a>\n<a>\n<b></a></r>", ("a", "b"), [
        "<a>1</a>", (4, "not XML at line 4, column 6: mismatched tag")]),
    ("<r><a><a>1</a></b></r>", ("a",), [
        "<a>1</a>", (1, "not XML at line 1, column 17: mismatched tag")]),
    ("<r><a>1</a>", ("a",), ["<a>1</a>", (1, "not XML at line 1, column 12: no element found")]),
    (b"<r><a>1</a><a>\xff</a></r>", ("a",), [
        "<a>1</a>", (1, "not XML at line 1, column 15: not well-formed (invalid token)")]),
    ('<?xml version="1.0" encoding="klingon"?><r/>', ("r",), [
        (1, "not XML: unknown encoding: klingon")]),
]  # fmt: skip


@pytest.mark.parametrize(("data", "tags", "values"), FILES)
def test_files(tmp_path: Path, data: str | bytes, tags: tuple[str, ...], values: list[Any]) -> None:
    assert values_and_reasons(rows(tmp_path, data, *tags)) == values


def test_a_document_of_many_pieces(tmp_path: Path) -> None:
    inner = "".join(f"<a n='{i}'><b>{'x' * 50}</b></a>\n" for i in range(5000))
    items = rows(tmp_path, f"<r>\n{inner}</x>", "a")
    assert len(items) == 5001
    bad = items[-1]
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.reason) == (5002, "not XML at line 5002, column 3: mismatched tag")
    assert bad.text.endswith("</x>")


def test_paths_give_the_elements(tmp_path: Path) -> None:
    data = "<r><a><b>1</b><b>2</b></a><a/><a><b>3</b></a></r>"
    assert values_and_reasons(rows(tmp_path, data, "a", path="b")) == [
        "<b>1</b>",
        "<b>2</b>",
        "<b>3</b>",
    ]
    data = "<r><a x='1'/><a/><a x='z'/></r>"
    assert values_and_reasons(rows(tmp_path, data, "a", path="@x", row=t.STRING)) == ["1", "z"]
    assert values_and_reasons(rows(tmp_path, data, "a", path="@x", row=t.INT)) == [
        1,
        (1, '@: "z" is not an int'),
    ]


# --- paths -------------------------------------------------------------------------------

BOOKS = parse_xml(
    """<lib>
  <book year="2020" id="a"><title>One</title><author>X</author><author>Y</author></book>
  <book year="2021.0" id="b"><title>Two</title><note><title>Inner</title></note></book>
  <shelf><book id="c"><title>Three</title></book></shelf>
</lib>"""
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("book/title", ["One", "Two"]),
        ("/book/title", ["One", "Two"]),
        ("//title", ["One", "Two", "Inner", "Three"]),
        (".//book//title", ["One", "Two", "Inner", "Three"]),
        ("*/title", ["One", "Two"]),
        ("//book[@year]/title", ["One", "Two"]),
        ("//book[@year = 2020]/title", ["One"]),
        ("//book[@year = 2021]/title", ["Two"]),
        ('//book[@year = "2021"]/title', []),
        ('//book[title = "Three"]/@id', ["c"]),
        ('//book[author = "Y"]/@id', ["a"]),
        ("//book[1]/@id", ["a", "c"]),
        ("book[2]/@id", ["b"]),
        ("book[3]", []),
        ("book/author[2]", ["Y"]),
        ("book[author][1]/@id", ["a"]),
        ("//@id", ["a", "b", "c"]),
        ("book/@*", ["2020", "a", "2021.0", "b"]),
        ('book/title[. = "Two"]', ["Two"]),
        ('//@id[. = "c"]', ["c"]),
        ("book[title/x]", []),
        ("book[title = 5]", []),
        ("//@id/x", []),
        ("none", []),
    ],
)
def test_select(path: str, expected: list[str]) -> None:
    items = select(BOOKS, steps(path))
    assert [text_of(item) if isinstance(item, Data) else item for item in items] == expected


def test_select_self_and_nested_once() -> None:
    assert select(BOOKS, steps(".")) == [BOOKS]
    nested = parse_xml("<r><a><a><b/></a></a></r>")
    assert len(select(nested, steps("//a//b"))) == 1


# --- typed -------------------------------------------------------------------------------

BOOK = t.Record(
    (
        ("title", t.STRING),
        ("year", t.INT),
        ("author", t.list_of(t.STRING)),
        ("sold", t.DATE),
        ("tree", t.XML),
    )
)


def test_typed_records() -> None:
    text = '<b year=" 2020 " title="no"><title>T<i>!</i></title><author>X</author><author/>'
    book = typed_xml(parse_xml(f"{text}<sold> </sold><tree>t</tree></b>"), BOOK)
    assert book == Record(
        {"title": "T!", "year": 2020, "author": ["X", ""], "sold": None,
         "tree": parse_xml("<tree>t</tree>")}
    )  # fmt: skip
    book = typed_xml(parse_xml('<b author="X" sold="2026-01-31"/>'), BOOK)
    expected = {"title": None, "year": None, "author": ["X"], "sold": date(2026, 1, 31)}
    assert book == Record({**expected, "tree": None})


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("<a>1</a>", t.INT, 1),
        ("<a/>", t.INT, None),
        ("<a/>", t.STRING, ""),
        ("<a><b>1</b><c>x</c></a>", t.Tuple((t.INT, t.STRING)), (1, "x")),
        ("<a><b>1</b><b>2</b></a>", t.bag(t.INT), Bag([2, 1])),
        ("<a>1</a>", t.ANY, parse_xml("<a>1</a>")),
        ("<a>[1]</a>", t.JSON, Data("JArray", 1, [Data("Jlong", 3, 1)])),
    ],
)
def test_typed(text: str, type_: Type, value: Value) -> None:
    assert identical(typed_xml(parse_xml(text), type_), value)


@pytest.mark.parametrize(
    ("text", "type_", "reason"),
    [
        ("<b><year>x</year></b>", BOOK, '/b/year: "x" is not an int'),
        ("<b><year>1</year><year>2</year></b>", BOOK, "/b/year: expected one element, found 2"),
        ("<a><b/></a>", t.Tuple((t.INT, t.INT)), "/a: expected 2 elements, found 1"),
        ("<a><b>x</b></a>", t.bag(t.INT), '/a/*[1]: "x" is not an int'),
        ("<a>[</a>", t.JSON, "/a: not JSON"),
        ("<a/>", t.Data("Tree"), "/a: expected Tree, found text"),
    ],
)
def test_not_of_the_type(text: str, type_: Type, reason: str) -> None:
    with pytest.raises(Unparsable) as caught:
        typed_xml(parse_xml(text), type_)
    assert reason in caught.value.reason


def test_typed_rows(tmp_path: Path) -> None:
    data = "<r><p><x>1</x></p>\n<p><x>z</x></p></r>"
    assert values_and_reasons(rows(tmp_path, data, "p", row=t.Record((("x", t.INT),)))) == [
        Record({"x": 1}),
        (2, '/p/x: "z" is not an int'),
    ]


# --- trees to text -----------------------------------------------------------------------


def test_text_is_escaped() -> None:
    tree = node("a", Bag([("y", "\n\t\"'"), ("x", "<&>")]), [cdata('<&>]]>\r\n\t"\0\ufffe')])
    assert xml_text(tree) == (
        '<a x="&lt;&amp;&gt;" y="&#10;&#9;&quot;\'">&lt;&amp;&gt;]]&gt;&#13;\n\t"\ufffd\ufffd</a>'
    )


@given(xml_trees())
def test_text_and_parse(tree: Data) -> None:
    assert identical(parse_xml(xml_text(tree)), tree)


@given(st.binary(max_size=30) | st.text("<>/a b='&;![]-?\n", max_size=30).map(str.encode))
def test_any_bytes_are_rows_or_one_bad_row(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        items = rows(Path(folder), b"<r><a/>" + data + b"</r>", "a")
    assert all(isinstance(row, Row) for row in items[:-1])
    assert items
