"""JSON: text to trees, files to rows, documents to typed values."""

from __future__ import annotations

import math
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.io.json.files import to_typed
from incmrql.io.json.values import dump_json, parse_json, to_json
from incmrql.io.rows import BadRow, Read, Row
from incmrql.io.scalars import Unparsable
from incmrql.io.xml.values import parse_xml
from incmrql.types import model as t
from incmrql.types.model import Type
from incmrql.values import Bag, Data, Record, Value, encode, identical
from tests.io.reading import read
from tests.io.trees import JSON_TREES, json_tree


def long(number: int) -> Data:
    return json_tree("Jlong", number)


TREES: list[tuple[str, Data]] = [
    ("null", json_tree("Jnull", ())),
    ("true", json_tree("Jbool", True)),
    ("12", long(12)),
    ("-0", long(0)),
    ("9223372036854775807", long(2**63 - 1)),
    ("9223372036854775808", json_tree("Jdouble", 2.0**63)),
    ("1" + "0" * 308, json_tree("Jdouble", 1e308)),
    ("1.0", json_tree("Jdouble", 1.0)),
    ("-0.0", json_tree("Jdouble", 0.0)),
    ("1e2", json_tree("Jdouble", 100.0)),
    (' "a\\u00e9\\ud83d\\ude00" ', json_tree("Jstring", "aé😀")),
    ("[]", json_tree("JArray", [])),
    ("[1, [2]]", json_tree("JArray", [long(1), json_tree("JArray", [long(2)])])),
    ('{"a": 1, "b": 2}', json_tree("JObject", Bag([("b", long(2)), ("a", long(1))]))),
    ('{"a": 1, "a": 2}', json_tree("JObject", Bag([("a", long(2))]))),
]


@pytest.mark.parametrize(("text", "tree"), TREES, ids=lambda x: str(x)[:20])
def test_parse(text: str, tree: Data) -> None:
    assert identical(parse_json(text), tree)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON at column 1: expecting value"),
        ("NaN", "not JSON: NaN is not a number of JSON"),
        ("[-Infinity]", "not JSON: -Infinity is not a number of JSON"),
        ("[1,]", "not JSON at column"),
        ('{"a" 1}', "not JSON at column 6: expecting ':' delimiter"),
        ("{'a': 1}", "not JSON at column 2"),
        ('"a\nb"', "not JSON at column 3: invalid control character"),
        ("1e400", "1e400 does not fit a double"),
        ("[-1e400]", "-1e400 does not fit a double"),
        ("1" * 6000, "1111111111...1111111111 does not fit a double"),
        ("01", 'text follows the document: "1"'),
        ("1 // one", "text follows the document"),
        ('"\\ud800"', "a string holds \\ud800, half of a surrogate pair"),
        ('{"\\udc00": 1}', "a string holds \\udc00, half of a surrogate pair"),
        ("[" * 101 + "]" * 101, "nested deeper than 100 levels"),
        ("[" * 200_000, "nested deeper than 100 levels"),
    ],
    ids=lambda x: str(x)[:20],
)
def test_not_json(text: str, reason: str) -> None:
    with pytest.raises(Unparsable) as caught:
        parse_json(text)
    assert reason in caught.value.reason


def test_as_deep_as_allowed() -> None:
    """Encoding is what needs the most of Python's stack."""
    for start, end in (("[", "]"), ('{"a":', "}")):
        tree = parse_json(start * 100 + "1" + end * 100)
        assert encode(tree)
        assert identical(parse_json(dump_json(tree)), tree)


# --- files -------------------------------------------------------------------------------


def rows(tmp_path: Path, data: str | bytes, row: Type = t.JSON, **more: Any) -> list[Read]:
    file = tmp_path / "x.json"
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return list(read("json", file, row, **more))


def values_and_reasons(items: list[Read]) -> list[Any]:
    """Values, JSON trees as text; and for bad rows their line and reason."""
    return [_readable(r.value) if isinstance(r, Row) else (r.line, r.reason) for r in items]


def _readable(value: Value) -> Any:
    return dump_json(value) if isinstance(value, Data) else value


NO_END = "the document that starts here has no end"
FILES: list[tuple[str | bytes, list[Any]]] = [
    ("", []),
    (" \n\n", []),
    ("1\n2", ["1", "2"]),
    ('{"a": 1}\r\n{"a": 2}\r\n', ['{"a": 1}', '{"a": 2}']),
    ('\ufeff{"a": 1}\n\n{"a": 2}', ['{"a": 1}', '{"a": 2}']),
    ('{"a": 1}{"a": 2} {"a": 3}\n', ['{"a": 1}', '{"a": 2}', '{"a": 3}']),
    ('[{"a": 1}, {"a": 2}]', ['{"a": 1}', '{"a": 2}']),
    ('[\n  {"a": 1},\n  {"a": 2}\n]\n', ['{"a": 1}', '{"a": 2}']),
    ("[1, 2]\n[3, [4]]\n", ["1", "2", "3", "[4]"]),
    ('{\n  "a": [\n    1,\n    2\n  ]\n}\n{\n  "a": 3\n}\n', ['{"a": [1, 2]}', '{"a": 3}']),
    ('{"a": 1} {\n"a": 2}\n', ['{"a": 1}', '{"a": 2}']),
    ('{"a": 1}\n{"a": }\n{"a": 3}\n', [
        '{"a": 1}', (2, "not JSON at column 7: expecting value"), '{"a": 3}']),
    ('{"a": 1}\n{"a": [2\n{"a": 3}\n{"a": 4}\n', [
        '{"a": 1}', (2, "not JSON at line 2, column 1: expecting ',' delimiter"),
        '{"a": 3}', '{"a": 4}']),
    ('{"a": 1}\n{"a": "x\n{"a": 3}\n', [
        '{"a": 1}', (2, "not JSON at column 7: unterminated string starting at"), '{"a": 3}']),
    ('{\n  "a": [\n    1\n    2\n  ],\n  "b": 1,\n  "c": 1\n}\n{\n  "a": 3\n}\n', [
        (1, "not JSON at line 4, column 5: expecting ',' delimiter"), '{"a": 3}']),
    ('{"a": 1}\n{"a": [1,', ['{"a": 1}', (2, NO_END)]),
    ('{"a": 1}\n{\n "a": 1,\n "b": 2\n', ['{"a": 1}', (2, NO_END)]),
    ('{"a": 1} nul {"a": 2}\n3', ['{"a": 1}', (1, "not JSON at column 10: expecting value"), "3"]),
    (b'{"a": 1}\n{"a": "\xff"}\n{"a": 3}\n', [
        '{"a": 1}', (2, "not UTF-8 at byte 8 of the line"), '{"a": 3}']),
    ('1\nNaN\n2\n', ["1", (2, "not JSON: NaN is not a number of JSON"), "2"]),
]  # fmt: skip


@pytest.mark.parametrize(("data", "values"), FILES)
def test_files(tmp_path: Path, data: str | bytes, values: list[Any]) -> None:
    assert values_and_reasons(rows(tmp_path, data)) == values


def test_a_long_indented_array_is_parsed_few_times(tmp_path: Path) -> None:
    data = "[\n" + ",\n".join(f'  {{\n    "a": {i}\n  }}' for i in range(20_000)) + "\n]\n"
    assert len(rows(tmp_path, data)) == 20_000


def test_many_documents_on_one_line(tmp_path: Path) -> None:
    assert len(rows(tmp_path, '{"a": 1}' * 20_000)) == 20_000


def test_members_at_any_depth(tmp_path: Path) -> None:
    data = '{"k": 1, "x": [{"k": {"k": 2}}, {"l": [3]}]}\n{"y": {"k": null}}\n[{"k": 4}]\n'
    values = values_and_reasons(rows(tmp_path, data, keys=("k", "l")))
    assert values == ["1", '{"k": 2}', "2", "[3]", "null", "4"]
    assert values_and_reasons(rows(tmp_path, '{"k": 1, "x": {"k": 2}}', t.INT, keys=("k",))) == [
        1,
        2,
    ]


AB = t.Record((("A", t.INT), ("B", t.STRING)))


def test_typed_rows(tmp_path: Path) -> None:
    data = '{"B": "x", "A": 1, "C": 0}\n{"A": "1"}\n{}\n[{"A": 2}]'
    assert values_and_reasons(rows(tmp_path, data, AB)) == [
        Record({"A": 1, "B": "x"}),
        (2, '$.A: expected int, found "1"'),
        Record({"A": None, "B": None}),
        Record({"A": 2, "B": None}),
    ]


PAIR = t.Tuple((t.INT, t.STRING))


@pytest.mark.parametrize(
    ("data", "row", "values"),
    [
        ('[1, "a"]\n[2, "b"]\n', PAIR, [(1, "a"), (2, "b")]),
        ('[[1, "a"], [2, "b"]]', PAIR, [(1, "a"), (2, "b")]),
        ("[]\n[1]\n", t.list_of(t.INT), [[], [1]]),
        ("[[1], [2]]", t.list_of(t.INT), [[1], [2]]),
        ("[1, 2, 3]", t.INT, [1, 2, 3]),
        ("[1, 2, 3]", PAIR, [(1, "$: expected (int, string), found an array of 3")]),
    ],
)
def test_arrays_are_rows_or_hold_rows(
    tmp_path: Path, data: str, row: Type, values: list[Any]
) -> None:
    assert values_and_reasons(rows(tmp_path, data, row)) == values


def test_signs(tmp_path: Path) -> None:
    data = '{"A": 1, "op": "-"}\n{"A": 2, "op": 1}\n{"A": 3}\n4\n'
    items = rows(tmp_path, data, AB, options={"sign": "op"})
    assert [r.weight for r in items if isinstance(r, Row)] == [-1, 1]
    assert [r.reason for r in items if not isinstance(r, Row)] == [
        'sign column "op" holds null, expected + or -, 1 or -1, insert or delete',
        'expected an object with a sign in "op"',
    ]
    (row,) = rows(tmp_path, '{"A": 1, "op": "-"}', options=(("sign", "op"),))
    assert isinstance(row, Row)
    assert (dump_json(row.value), row.weight) == ('{"A": 1}', -1)


# --- typed -------------------------------------------------------------------------------

TYPED: list[tuple[str, Type, Value]] = [
    ("1", t.INT, 1),
    ("1", t.DOUBLE, 1.0),
    ("1.5", t.FLOAT, 1.5),
    ('"NaN"', t.DOUBLE, math.nan),
    ("null", t.INT, None),
    ("null", t.JSON, json_tree("Jnull", ())),
    ("null", t.ANY, None),
    ("1", t.ANY, long(1)),
    ("true", t.BOOL, True),
    ("0.12345678901234567890", t.Decimal(38, 20), Decimal("0.12345678901234567890")),
    ('"1.50"', t.Decimal(5, 2), Decimal("1.50")),
    ('"2026-01-31"', t.DATE, date(2026, 1, 31)),
    ('"2026-01-31T10:00:00Z"', t.TIMESTAMP, datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ('[1, "a"]', PAIR, (1, "a")),
    ("[]", t.UNIT, ()),
    ("[1, null, 1]", t.bag(t.INT), Bag([1, 1, None])),
    ("[[1], []]", t.list_of(t.list_of(t.INT)), [[1], []]),
    ('{"A": [{"B": 1}]}', t.Record((("A", t.bag(t.Record((("B", t.LONG),)))),)),
     Record({"A": Bag([Record({"B": 1})])})),
    ('"<a/>"', t.XML, parse_xml("<a/>")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "type_", "value"), TYPED)
def test_typed(text: str, type_: Type, value: Value) -> None:
    parsed = to_typed(text, type_)
    assert identical(parsed, value)
    if not isinstance(type_, t.Decimal):
        assert identical(to_typed(parse_json(text), type_), value)


NESTED = t.Record((("a", t.list_of(t.Record((("b", t.INT),)))),))


@pytest.mark.parametrize(
    ("text", "type_", "reason"),
    [
        ('{"a": [{}, {"b": 1}, {"b": 1.5}]}', NESTED, "$.a[2].b: expected int, found 1.5"),
        ('{"a": {}}', NESTED, "$.a: expected [< b: int >], found an object"),
        ("1.0", t.INT, "$: expected int, found 1.0"),
        ("3000000000", t.INT, '$: "3000000000" does not fit int'),
        ('"5"', t.INT, '$: expected int, found "5"'),
        ("5", t.STRING, "$: expected string, found 5"),
        ("1", t.BOOL, "$: expected bool, found 1"),
        ("true", t.INT, "$: expected int, found true"),
        ("[1]", PAIR, "$: expected (int, string), found an array of 1"),
        ('"x"', t.DATE, '$: "x" is not a date (YYYY-MM-DD)'),
        ("5", t.DATE, "$: expected date, found 5"),
        ('"<a>"', t.XML, "$: not XML"),
        ("[1, 2]", t.NOTHING, "$: expected null, found an array"),
    ],
)
def test_not_of_the_type(text: str, type_: Type, reason: str) -> None:
    with pytest.raises(Unparsable) as caught:
        to_typed(text, type_)
    assert reason in caught.value.reason


def test_user_data_types() -> None:
    catalog = {"Tree": t.constructors("Tree", ("Leaf", t.INT), ("Fork", t.list_of(t.Data("Tree"))))}
    value = Data("Fork", 1, [Data("Leaf", 0, 1), Data("Fork", 1, [])])
    assert dump_json(value) == '{"Fork": [{"Leaf": 1}, {"Fork": []}]}'
    assert to_typed(dump_json(value), t.Data("Tree"), catalog) == value
    with pytest.raises(Unparsable, match="expected Tree, found an object"):
        to_typed('{"Twig": 1}', t.Data("Tree"), catalog)


# --- values to text ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1, "1"),
        (1.0, "1.0"),
        (-0.0, "0.0"),
        (math.nan, '"NaN"'),
        (-math.inf, '"-Infinity"'),
        (Decimal("1.50"), '"1.50"'),
        (date(2026, 1, 31), '"2026-01-31"'),
        (datetime(2026, 1, 31, 10, 0, 0, 500000, UTC), '"2026-01-31T10:00:00.5Z"'),
        ("é\n", '"é\\n"'),
        ((1, "a"), '[1, "a"]'),
        ((), "[]"),
        (Bag([2, 1]), "[1, 2]"),
        ([2, 1], "[2, 1]"),
        (Record({"B": 1, "A": None}), '{"B": 1, "A": null}'),
        (parse_json('{"b": 1, "a": [null]}'), '{"a": [null], "b": 1}'),
        (json_tree("Jdouble", math.inf), '"Infinity"'),
        (Record({"x": parse_xml("<a>1</a>")}), '{"x": "<a>1</a>"}'),
        (Data("Node", 0, 5), '{"Node": 5}'),
    ],
)
def test_dump(value: Value, text: str) -> None:
    assert dump_json(value) == text
    assert identical(to_json(value), parse_json(text)) or value == json_tree("Jdouble", math.inf)


@given(JSON_TREES)
def test_dump_and_parse(tree: Data) -> None:
    assert identical(parse_json(dump_json(tree)), tree)


@given(st.lists(JSON_TREES.filter(lambda x: x.constructor != "JArray"), max_size=4), st.data())
def test_documents_however_they_are_laid_out(trees: list[Data], data: st.DataObject) -> None:
    texts = [dump_json(tree) for tree in trees]
    layout = data.draw(st.sampled_from(["\n", " ", "\n\n", "array", "\r\n"]))
    text = f"[{','.join(texts)}]" if layout == "array" else layout.join(texts)
    with tempfile.TemporaryDirectory() as folder:
        items = rows(Path(folder), text)
    assert [r.value for r in items if isinstance(r, Row)] == trees
    assert len(items) == len(trees)


@given(st.binary(max_size=40) | st.text('[]{}",:1 \n\\u', max_size=30).map(str.encode))
def test_any_bytes_are_rows_or_bad_rows(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(Path(folder), data):
            assert isinstance(row, Row) or row.reason


def test_a_number_too_large_for_its_type_is_a_bad_row(tmp_path: Path) -> None:
    assert values_and_reasons(rows(tmp_path, '1e400\n"Infinity"\n2\n', t.DOUBLE)) == [
        (1, "$: 1e400 does not fit a double"), math.inf, 2.0,
    ]  # fmt: skip
    assert values_and_reasons(rows(tmp_path, "1e39\n", t.FLOAT)) == [
        (1, "$: 1e39 does not fit a float")
    ]
    assert values_and_reasons(rows(tmp_path, '{"a": 1e400}\n')) == [
        (1, "1e400 does not fit a double")
    ]


def test_bad_items_of_an_array_are_named_by_their_lines(tmp_path: Path) -> None:
    text = '\n[\n  1, "a",\n  2,\n\n  {"b":\n 1},\n  "c"]\n"d"\n["e", 3]\n'
    lines = [row.line for row in rows(tmp_path, text, t.INT) if isinstance(row, BadRow)]
    assert lines == [3, 6, 8, 9, 10]
    assert [row.value for row in rows(tmp_path, text, t.INT) if isinstance(row, Row)] == [1, 2, 3]
