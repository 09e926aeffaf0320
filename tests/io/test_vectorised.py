"""Chunks of text files: whatever a file holds, rows, weights and bad rows are the reference's."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from incmrql.errors import DataError
from incmrql.io import FileSplit, ReadSpec, element_of, read_chunks, vector_reader
from incmrql.io.arrow.columns import column_values
from incmrql.io.arrow.types import arrow_type
from incmrql.io.by_row import by_row_count
from incmrql.io.files import line_of
from incmrql.io.rows import BadRow, Row
from incmrql.io.vectorised import blocks
from incmrql.spark.sources import splits
from incmrql.spark.sources.scan import ScanPlan
from incmrql.types import model as t
from incmrql.types import typed
from incmrql.values import encode
from tests.effort import examples
from tests.io.reading import read

P = ParamSpec("P")
NAMES = [*t.BASIC_NAMES]
TYPES: list[t.Type] = [*map(t.Basic, NAMES), t.Decimal(6, 2), t.Decimal(3, 3), t.Decimal(5, 0)]
WORDS = """
0 -0 1 -1 007 +1 99 100 127 128 -129 999 32767 32768 1999999999 2147483647 2147483648 20000000000
999999999999999999 9223372036854775807 9223372036854775808 1.5 -0.0 .5 5. 1e5 1E-3 1e400 1e99
0.1 0.10 123456.789 3.4028235e38 3.5e38 1e-50 0.30000000000000004 9007199254740993 16777217
16777217.0000001 NaN inf -inf nan true false TRUE 0x1F 1_000 abc null NA
2026-01-31 2026-02-29 2024-02-29 2026-02-30 2026-04-31 2026-13-01 0000-01-01 0001-01-01 9999-12-31
2026-1-1 2026-01-01T10:00:00 2026-01-01T10:00:00Z 2026-01-01T10:00:00.123456Z
2026-01-01T10:00:00.1234567 2026-01-01T24:00:00 2026-01-01T10:00:00+02:00 2026-01-01T10:00 1.234567
"""
TEXTS = [
    *WORDS.split(),
    "", " ", " 1", "1 ", "a b", "2026-01-01 10:00:00", "ä", "\u2028", "\x00", "\r", "\x0b", "a\rb",
    "\ufeff", '"', '""', '"a"', '"a""b"', '"a,b"', '"a', 'a"b', '"a"b', '"1"', "'x'", "😀", "#x",
]  # fmt: skip
FIELDS = st.sampled_from(TEXTS) | st.text('",;\r\n ab1-.é', max_size=4)
SIGNS = st.lists(
    st.sampled_from(["+", "-", "1", "-1", "+1", "insert", "Delete", "?", ""]), max_size=1
)
ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", ""])


def spec_of(source: typed.Source) -> ReadSpec:
    return ReadSpec(source, element_of(source), dict(source.options))


def plan_of(source: typed.Source) -> ScanPlan:
    return ScanPlan(spec_of(source), (), packed=False, weighted=False)


def whole(path: Path) -> FileSplit:
    return FileSplit(0, str(path), str(path), path.stat().st_size)


Outcome = tuple[list[tuple[bytes, int]], list[BadRow], int]
"""Rows with weights, in order; bad rows; how many lines have columns beyond the declared ones."""


def by_reference(source: typed.Source, path: Path) -> Outcome:
    settings = {"delimiter": source.delimiter, "options": source.options}
    items = list(read(source.format, path, source.row, **settings))
    rows = [(encode(row.value), row.weight) for row in items if isinstance(row, Row)]
    beyond = sum(row.beyond for row in items if isinstance(row, Row))
    return rows, [row for row in items if isinstance(row, BadRow)], beyond


def in_chunks(spec: ReadSpec, parts: Sequence[FileSplit]) -> Outcome:
    chunks = [chunk for part in parts for chunk in read_chunks(spec, part)]
    rows: list[tuple[bytes, int]] = []
    for chunk in chunks:
        chunk.values.validate(full=True)
        assert chunk.values.type == arrow_type(spec.element)
        values = map(encode, column_values(chunk.values, spec.element))
        rows += zip(values, chunk.weights.to_pylist(), strict=True)
        assert (chunk.facts.rows, chunk.facts.bad) == (len(chunk.values), len(chunk.bad))
    bad = [row for chunk in chunks for row in chunk.bad]
    return rows, bad, sum(chunk.facts.beyond for chunk in chunks)


def outcome(read_source: Callable[P, Outcome], *args: P.args, **kwargs: P.kwargs) -> Outcome | str:
    try:
        return read_source(*args, **kwargs)
    except DataError as problem:
        return str(problem)


def agree(source: typed.Source, path: Path, *parts: FileSplit) -> int:
    """Compare; how many rows were bad, or -1 if the file is read row by row."""
    spec = spec_of(source)
    given = parts or (whole(path),)
    wanted, actual = outcome(by_reference, source, path), outcome(in_chunks, spec, given)
    assert actual == wanted
    if isinstance(actual, str) or vector_reader(spec, given[0]) is None:
        return -1
    return len(actual[1])


def agree_in_pieces(source: typed.Source, path: Path) -> None:
    """The same, where the file can be cut."""
    plan = plan_of(source)
    pieces = splits.splits_of(whole(path), 4)
    counts = [splits.count_lines(plan, piece, quick=False) for piece in pieces]
    for piece, count in zip(pieces, counts, strict=True):
        clear = splits.count_lines(plan, piece, quick=True)
        assert clear in (None, count)
    if pieces and None not in counts:
        agree(source, path, *splits.with_first_lines(pieces, counts))


@st.composite
def line_files(draw: st.DrawFn) -> tuple[typed.Source, bytes]:
    some = st.lists(st.sampled_from([*TYPES, t.STRING, t.ANY]), min_size=1, max_size=3)
    types = draw(some.filter(lambda types: set(types) != {t.ANY}))  # no script reads no column
    names = ["A", "B", "C"]
    record = t.Record(tuple(zip(names, types, strict=False)))
    row = draw(st.sampled_from([record, t.Tuple(tuple(types)) if len(types) > 1 else types[0]]))
    delimiter = draw(st.sampled_from(",,;|\t~^#&!"))
    options: list[tuple[str, Any]] = []
    if draw(st.booleans()):
        options.append(("quote", draw(st.sampled_from(["", "'", '"']))))
    if draw(st.integers(0, 3)) == 0:
        options.append(("max_line", draw(st.sampled_from([2, 5, 9]))))
    if draw(st.integers(0, 3)) == 0:
        options.append(("null", draw(st.sampled_from(["NA", "", "1", "-", "null", "ä"]))))
    if draw(st.integers(0, 3)) == 0:
        options.append(("sign", draw(st.sampled_from(["D", "A"]))))
    lines = draw(st.lists(st.lists(FIELDS, min_size=1, max_size=4), max_size=8))
    most = len(types) + draw(st.integers(0, 2))
    last = draw(st.sampled_from(["", "", delimiter]))
    text = "".join(
        delimiter.join([*fields[:most], *draw(SIGNS)]) + last + draw(ENDS) for fields in lines
    )
    if draw(st.booleans()):
        options.append(("header", True))
        header = draw(st.permutations([*names, "D"]))
        text = draw(st.sampled_from(["", "\n", "\ufeff"])) + delimiter.join(header) + "\n" + text
        text = text if isinstance(row, t.Record) else text.split("\n", 1)[1]
        options = options if isinstance(row, t.Record) else options[:-1]
    data = text.encode()
    if draw(st.integers(0, 5)) == 0:
        data = data.replace(b"1", b"\xff", 1)
    return typed.Source("line", False, None, row, delimiter, options=tuple(options)), data


STRING_AND_BOOL = typed.Source("line", False, None, t.Record((("A", t.STRING), ("B", t.BOOL))))
BOOLS = typed.Source("line", False, None, t.Record((("A", t.BOOL),)))


@examples(150)
@example((BOOLS, b"0\n\r\n"), 8)
@example((BOOLS, b"0\n\r"), 8)
@example((STRING_AND_BOOL, b"0\n\xef\xbb\xbf,\n"), 1 << 20)
@given(line_files(), st.sampled_from([8, 32, 1 << 20]))
def test_lines(tmp_path_factory: pytest.TempPathFactory, sample: Any, block: int) -> None:
    source, data = sample
    path = tmp_path_factory.mktemp("lines") / "x.csv"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", block)
        agree(source, path)
        patch.setattr(splits, "SMALLEST_FILE", 16)
        agree_in_pieces(source, path)


@pytest.mark.parametrize("type_", [*TYPES, t.STRING], ids=str)
def test_every_text_of_every_type(tmp_path: Path, type_: t.Type) -> None:
    path = tmp_path / "x.csv"
    row = t.Record((("A", type_), ("B", t.INT)))
    path.write_text("".join(f"{text},1\n" for text in TEXTS if "\n" not in text), newline="")
    agree(typed.Source("line", False, None, row, options=(("quote", ""),)), path)
    agree(typed.Source("line", False, None, row, options=()), path)
    lines = [f'{{"A": {text}}}\n{{"A": "{text}"}}\n' for text in TEXTS]
    path.write_text("".join(lines), newline="")
    agree(typed.Source("json", False, None, row), path)


MEMBERS = st.sampled_from(
    ['"a"', '"b"', '"c"', '"c"', '"d"', '"e"', '"f"', '"x"', '"\\u0061"', '"é"']
)
VALUES = st.sampled_from(
    [*TEXTS, '"x"', '"\\n"', '"\\ud800"', '"\\u00e9"', "[]", "[1]", "[1, null]", '[{"p": 1}]', "{}",
     '{"p": 2}', '{"p": 1, "q": "z"}', '{"q": 1, "p": 3}', '{"p": [1]}', "[[1]]", "null", "[1.5]",
     '"2026-01-31"', '"2026-01-31T10:00:00Z"', "1e2", "12", "1.25", '"\x7f"', '"\t"',
     '[{"p": 1}, {}]'],
)  # fmt: skip
JSON_ROW = t.Record(
    (
        ("a", t.INT),
        ("b", t.list_of(t.INT)),
        ("c", t.Record((("p", t.LONG), ("q", t.STRING)))),
        ("d", t.list_of(t.Record((("p", t.DOUBLE),)))),
        ("e", t.STRING),
        ("f", t.FLOAT),
        ("g", t.TIMESTAMP),
        ("h", t.DATE),
        ("i", t.BOOL),
        ("j", t.Decimal(5, 2)),
        ("x", t.bag(t.STRING)),
    )
)
GOOD = '{"a": 1, "b": [1, null], "c": {"p": 2, "q": "z"}, "d": [{"p": 1}], "e": "x", "f": 1.5}'


@st.composite
def documents(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        return GOOD if draw(st.booleans()) else GOOD.replace("1", draw(st.sampled_from(TEXTS)), 1)
    members = draw(st.lists(st.tuples(MEMBERS, VALUES), max_size=4))
    inner = draw(st.sampled_from([", ", ",", ",\n"])).join(
        [f"{name}{draw(st.sampled_from([': ', ':', ' : ']))}{value}" for name, value in members]
    )
    return (
        draw(st.sampled_from(["{%s}"] * 6 + ["{%s", "[{%s}]", " {%s}", "{%s} {}", "{%s},", "%s"]))
        % inner
    )


@examples(150)
@example([('{"a": 0, "a": 0, "a": NaN}', "\n\n")], 8)
@given(st.lists(st.tuples(documents(), ENDS), max_size=8), st.sampled_from([8, 64, 1 << 20]))
def test_json(tmp_path_factory: pytest.TempPathFactory, documents: Any, block: int) -> None:
    path = tmp_path_factory.mktemp("json") / "x.json"
    path.write_bytes("".join(document + end for document, end in documents).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", block)
        agree(typed.Source("json", False, None, JSON_ROW), path)
        patch.setattr(splits, "SMALLEST_FILE", 32)
        agree_in_pieces(typed.Source("json", False, None, JSON_ROW), path)


SIGN_TEXTS = st.sampled_from(["1", "-1", '"+"', '"-"', '"delete"', "2", "null", "true", '"x"'])


@examples(60)
@given(st.lists(st.tuples(st.sampled_from(["1", "null", '"x"']), SIGN_TEXTS), max_size=8))
def test_json_with_signs(tmp_path_factory: pytest.TempPathFactory, made: Any) -> None:
    path = tmp_path_factory.mktemp("json") / "x.json"
    path.write_text("".join(f'{{"a": {value}, "s": {sign}}}\n' for value, sign in made))
    agree(typed.Source("json", False, None, JSON_ROW, options=(("sign", "s"),)), path)


@pytest.mark.parametrize("sign", ["1", '"+"'])
def test_signs_are_read_at_once(tmp_path: Path, sign: str) -> None:
    path = tmp_path / "x"
    row = t.Record((("a", t.DATE), ("b", t.Decimal(5, 2)), ("c", t.bag(t.LONG))))
    document = f'{{"a": "1969-12-31", "s": {sign}, "b": -0.05, "c": [3, 1, null]}}\n'
    path.write_text(document * 50)
    before = by_row_count()
    source = typed.Source("json", False, None, row, options=(("sign", "s"),))
    assert sum(len(chunk.values) for chunk in read_chunks(spec_of(source), whole(path))) == 50
    path.write_text("1969-12-31,NA,-0.05,+\n" * 50)
    row = t.Record((("a", t.DATE), ("n", t.INT), ("b", t.Decimal(5, 2))))
    options = (("sign", "s"), ("null", "NA"))
    source = typed.Source("line", False, None, row, options=options)
    (chunk,) = read_chunks(spec_of(source), whole(path))
    assert chunk.values.field("n").null_count == len(chunk.values) == 50
    assert by_row_count() == before


@given(st.lists(st.tuples(FIELDS, ENDS)))
def test_text(tmp_path_factory: pytest.TempPathFactory, texts: Any) -> None:
    path = tmp_path_factory.mktemp("text") / "x.txt"
    path.write_bytes("".join(text + end for text, end in texts).encode())
    agree(typed.Source("text", False, None, t.STRING), path)


def test_blocks_are_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 5)
    cut = blocks.blocks(io.BytesIO(b"\xef\xbb\xbfab\n\ncd\r\nef"), 1)
    assert [(block.data, block.first, block.has_last_newline) for block in cut] == [
        (b"ab\n", 1, True),
        (b"\ncd\r\n", 2, True),
        (b"ef\n", 4, False),
    ]


def test_what_is_plain_is_native(tmp_path: Path) -> None:
    """Not by the reference reader, or it would be slow."""
    path = tmp_path / "x.csv"
    path.write_text('1,"a ""b"", c"\n-2,\n,d\n')
    row = t.Record((("A", t.INT), ("B", t.STRING)))
    source = typed.Source("line", False, None, row)
    reader = vector_reader(spec_of(source), whole(path))
    assert reader is not None
    (block,) = reader.blocks()
    parsed, _, others = reader.parser.split_block(block).parse(reader.parser)
    assert parsed is not None
    assert parsed.values.to_pylist() == [
        {"A": 1, "B": 'a "b", c'}, {"A": -2, "B": ""}, {"A": None, "B": "d"},
    ]  # fmt: skip
    assert list(others) == []


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("longest", [3, 4, 40])
@pytest.mark.parametrize("kind", ["line", "text", "json"])
def test_lines_that_are_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, longest: int, end: bytes
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 8)
    path = tmp_path / "x.txt"
    long, short = (b'{"A":1}', b'{"A":') if kind == "json" else (b"1" * 50, b"11")
    path.write_bytes(b"\n".join([long, b"", short, long, long, b"", b"", short, b"1", long]) + end)
    row = t.Record((("A", t.LONG),)) if kind != "text" else t.STRING
    source = typed.Source(kind, False, None, row, options=(("max_line", longest),))
    assert agree(source, path) >= 2
    monkeypatch.setattr(splits, "SMALLEST_FILE", 16)
    agree_in_pieces(source, path)


@pytest.mark.parametrize("kind", ["line", "json"])
def test_empty_lines_are_left_out_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / "x.txt"
    row = t.Record((("A", t.LONG),))
    path.write_bytes(b"\n" * 100_000 + (b'{"A":1}' if kind == "json" else b"1") + b"\n" * 100_000)
    source = typed.Source(kind, False, None, row)
    read_one_by_one = []

    def counting_line_of(number: int, raw: bytes) -> Any:
        read_one_by_one.append(number)
        return line_of(number, raw)

    monkeypatch.setattr(blocks, "line_of", counting_line_of)
    assert agree(source, path) == 0
    assert len(read_one_by_one) <= 1
