"""Files of every format give the kernel the rows, weights and bad rows of the shared reader."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import struct
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.compiler.compiled import compile_script
from incmrql.compiler.load import catalog_for, read_include
from incmrql.engine import inputs
from incmrql.engine.columns.layouts import of_rows
from incmrql.engine.columns.rows import from_table, to_values
from incmrql.engine.inputs import InputFile, checksum, read_file
from incmrql.errors import DataError, SourceText
from incmrql.io import spools
from incmrql.io.parquet import write_parquet
from incmrql.io.rows import BadRow, Read, Row
from incmrql.io.spools import read_spool, spooling, write_spool
from incmrql.io.vectorised import blocks
from incmrql.plan.assembly import program_of
from incmrql.plan.program import Stream
from incmrql.reference import Environment, new_world, read_source
from incmrql.reference.sources import parser_rows
from incmrql.types import typed
from incmrql.types.infer.scripts import type_from_text
from incmrql.types.model import Type
from incmrql.values import Bag, Record, Value, encode
from tests.effort import examples
from tests.io.reading import read

PARSER = """
class Pairs:
    type = "< K: int, V: string >"

    def parse(self, text):
        for line in text.splitlines():
            if line == "fail":
                raise ValueError("no more")
            key, value = line.split("=")
            if value == "half":
                value = chr(0xD800)
            yield None if key == "null" else {"K": int(key) if key != "x" else "x", "V": value}
"""


@lru_cache
def typed_script(text: str) -> typed.Script:
    source = SourceText(text)
    return compile_script(source, catalog_for(source, ()), read_include).typed


def stream_of(source: str, before: str = "") -> tuple[Stream, typed.Script]:
    """The stream of a source, as `stream(…)` or `source(…)` describe it."""
    script = typed_script(f"{before} incr select x from x in {source};")
    (stream,) = program_of(script.items, script).streams
    return stream, script


def input_file(path: Path, **fields: Any) -> InputFile:
    status = path.stat()
    return InputFile(str(path), status.st_size, status.st_mtime_ns, **{"place": 0, **fields})


def rows_of(stream: Stream, table: Any) -> list[tuple[bytes, int]]:
    layout = of_rows(stream.element, packed=stream.packed)
    return [(encode(value), weight) for value, weight in to_values(from_table(table), layout)]


def items_of_shared_reader(
    stream: Stream, script: typed.Script, path: Path, *, deletes: bool
) -> list[Read]:
    """The items that the shared reader returns for a file."""
    source, options = stream.source, dict(stream.source.options)
    if deletes:
        options.pop("sign", None)
    if source.format == "python":
        policy = options.get("on_error", "quarantine")
        return list(parser_rows(script.parsers[source.parser], source, str(path), policy))
    return list(
        read(source.format, path, source.row, delimiter=source.delimiter, keys=source.keys,
             steps=source.steps, options=options, data=script.data)
    )  # fmt: skip


def check(stream: Stream, script: typed.Script, path: Path, *, deletes: bool = False) -> int:
    """Compare a file read in both ways, and say how many rows it has."""
    wanted = items_of_shared_reader(stream, script, path, deletes=deletes)
    parser = script.parsers.get(stream.source.parser)
    chunks = list(read_file(stream, script.data, input_file(path, deletes=deletes), parser))
    sign = -1 if deletes else 1
    rows = [row for row in wanted if isinstance(row, Row)]
    read = [row for chunk in chunks for row in rows_of(stream, chunk.table)]
    assert read == [(encode(row.value), sign * row.weight) for row in rows]
    bad = [bad for chunk in chunks for bad in chunk.bad]
    assert bad == [row for row in wanted if isinstance(row, BadRow)]
    assert sum(chunk.noticed.rows for chunk in chunks) == len(rows)
    assert sum(chunk.noticed.beyond for chunk in chunks) == sum(row.beyond for row in rows)
    return len(rows)


LINES = b"1,2.5,a\nx,1,b\n-3,,c\n\n4,1e3\n5,nan,\xff\n6,-0,d\n"
SIGNED = b"1,2.5,a,+\n1,2.5,a,-\n2,1,b,?\n3,0.5,c,delete\n"
HEADED = b"S;V;K\na;2.5;1\n'b;b';?;2\n#no;1;1\nc;x;3\n"
JSON_LINES = b'{"a": 1, "b": [1, 2]}\nnull\n{"a": \n{"a": "x"}\n[1, 2]\n[{"a": 5}, {"a": null}]\n'
JSON_KEYS = b'{"r": {"a": 1}, "s": [{"r": {"a": 2}}]}\n{"r": null}\n{"r": {"a": "z"}}'
XML_TEXT = (
    b"<root><p id='1'><n>1</n><p id='2'/></p><p><n>x</n></p><q/><p id='3'><n>7</n></p></root>"
)
CASES: dict[str, tuple[str, bytes]] = {
    "line": ('line, "{}", ",", type(< K: int, V: double, S: string >)', LINES),
    "line long": (
        'line, "{}", ",", type(< K: int, V: double, S: string >), max_line: 6',
        b"1,2.5,a\n1,2,aaa\n1,2,aa\n1,2,a",
    ),
    "text long": ('text, "{}", max_line: 3', b"abc\nabcd\n\nab"),
    "json long": ('json, "{}", type(< a: int >), max_line: 8', b'{"a": 1}\n{"a": 10}\n{"a": 3}\n'),
    "line tuple": ('line, "{}", ",", type((int, double, any))', LINES),
    "line one": ('line, "{}", ",", type(long)', b"1\n\n2\nx\n3"),
    "csv options": (
        'csv, "{}", ";", type(< K: int, V: double, S: string >), header: true, quote: "\'", '
        'null: "?", comment: "#"',
        HEADED,
    ),
    "line sign": ('line, "{}", ",", type(< K: int, V: double, S: string >), sign: "s"', SIGNED),
    "line types": (
        'line, "{}", "|", type((date, timestamp, decimal, bool, float, short, byte))',
        b"2020-01-31|2020-01-31T10:00:00Z|1.50|true|0.1|3|4\n2020-13-01||||||\n||||||\n1|2\n",
    ),
    "json": ('json, "{}"', JSON_LINES),
    "json typed": ('json, "{}", type(< a: int >)', JSON_LINES),
    "json tuple": ('json, "{}", type((int, int))', b"[1, 2]\n[[3, 4], null, [5]]\nnull\n"),
    "json keys": ('json, "{}", {{"r"}}', JSON_KEYS),
    "json keys typed": ('json, "{}", {{"r"}}, type(< a: int >)', JSON_KEYS),
    "json sign": (
        'json, "{}", type(< a: int >), sign: "s"',
        b'{"a": 1, "s": "+"}\n{"a": 1, "s": -1}\n{"a": 2}\n',
    ),
    "json nested": (
        'json, "{}", type(< a: {{ < b: [double], c: any > }} >)',
        b'{"a": [{"b": [2, -0.0], "c": {"z": [1]}}, {"b": null, "c": "t"}]}\n{"a": []}\n{"a": 1}',
    ),
    "xml": ('xml, "{}", {{"p"}}', XML_TEXT),
    "xml cut": ('xml, "{}", {{"p"}}', XML_TEXT[:-20]),
    "xml path": ('xml, "{}", {{"p"}}, xpath(./n)', XML_TEXT),
    "xml typed": ('xml, "{}", {{"p"}}, type(< n: int >)', XML_TEXT),
    "text": ('text, "{}"', b"one\n\ntwo \xff\nthr\xc3\xa9e\r\nlast"),
}
"""The arguments of a source of each format, and the content of a file with bad parts."""
PACKING: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: bytes(pa.compress(content, "zstd", asbytes=True)),
}


@pytest.mark.parametrize(
    ("name", "word"),
    [
        *((name, "stream") for name in CASES),
        *((name, "source") for name in CASES if "sign" not in name),
    ],
)
def test_all_formats_are_read_as_the_reference_reads_them(
    name: str, word: str, tmp_path: Path
) -> None:
    arguments, content = CASES[name]
    path = tmp_path / "file"
    path.write_bytes(content)
    stream, script = stream_of(f"{word}({arguments.format(path)})")
    assert check(stream, script, path)
    path.write_bytes(b"")
    assert check(stream, script, path) == 0
    for ending, packed in PACKING.items():
        small = tmp_path / f"file{ending}"
        small.write_bytes(packed(content))
        assert check(stream, script, small)
        if ending != ".zst":
            small.write_bytes(packed(content)[:-9])
            with pytest.raises(DataError) as caught:
                list(read_file(stream, script.data, input_file(small)))
            assert caught.value.code == "R103"


@pytest.mark.parametrize("name", [name for name in CASES if "sign" not in name])
def test_deletes_have_negative_weights_and_need_no_sign(name: str, tmp_path: Path) -> None:
    arguments, content = CASES[name]
    path = tmp_path / "file"
    path.write_bytes(content)
    stream, script = stream_of(f'stream({arguments.format(path)}, deletes: "{tmp_path}")')
    assert check(stream, script, path, deletes=True)


def test_a_sign_column_is_of_the_inserts_only(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(LINES)
    arguments = CASES["line sign"][0].format(path)
    stream, script = stream_of(f'stream({arguments}, deletes: "{tmp_path}")')
    assert check(stream, script, path, deletes=True) == 3


def test_a_retracted_file_takes_back_what_it_gave_and_tells_no_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(SIGNED)
    stream, script = stream_of(
        f'stream({CASES["line sign"][0].format(path)}, deletes: "{tmp_path}")'
    )
    for deletes in (False, True):
        path.write_bytes(LINES if deletes else SIGNED)
        total: Counter[bytes] = Counter()
        bad = []
        for retracts in ("", str(path)):
            file = input_file(path, deletes=deletes, retracts=retracts)
            for chunk in read_file(stream, script.data, file):
                bad.append((retracts, len(chunk.bad)))
                for row, weight in rows_of(stream, chunk.table):
                    total[row] += weight
        assert set(total.values()) == {0}
        assert [number for retracts, number in bad if retracts] == [0]
        assert all(number for retracts, number in bad if not retracts)


@pytest.mark.parametrize("name", ["line", "json typed", "xml typed", "text"])
def test_a_bad_row_is_refused_where_that_is_asked_for(name: str, tmp_path: Path) -> None:
    arguments, content = CASES[name]
    path = tmp_path / "file"
    path.write_bytes(content)
    stream, script = stream_of(f"stream({arguments.format(path)}, on_error: fail)")
    with pytest.raises(DataError) as caught:
        list(read_file(stream, script.data, input_file(path)))
    assert caught.value.code == "R110"
    bad = next(
        row
        for row in items_of_shared_reader(stream, script, path, deletes=False)
        if isinstance(row, BadRow)
    )
    assert caught.value.place == bad.place


@pytest.mark.parametrize(
    "content", ["1=a\n2=b\n", "1=a\nnull=b\nx=c\n", "1=a\nfail\n", "", "1=\xff"]
)
def test_python_parsers_are_read_alike(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs_of_inputs.py").write_text(PARSER)
    path = tmp_path / "file.txt"
    path.write_bytes(content.encode("latin-1"))
    before = 'parser pairs = "pairs_of_inputs.Pairs";'
    stream, script = stream_of(f'stream(pairs, "{path}")', before)
    assert stream.packed
    check(stream, script, path)


def test_a_row_that_is_no_text_is_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs_of_inputs.py").write_text(PARSER)
    path = tmp_path / "file.txt"
    path.write_text("1=a\n2=half\n3=c\n")
    before = 'parser pairs = "pairs_of_inputs.Pairs";'
    stream, script = stream_of(f'stream(pairs, "{path}")', before)
    (chunk,) = read_file(stream, script.data, input_file(path), script.parsers["pairs"])
    wanted = [Record({"K": 1, "V": "a"}), Record({"K": 3, "V": "c"})]
    assert rows_of(stream, chunk.table) == [(encode(value), 1) for value in wanted]
    assert [bad.reason for bad in chunk.bad] == ["a string holds half of a surrogate pair"]


def test_reading_in_small_chunks_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "CHUNK", 2)
    monkeypatch.setattr(blocks, "BLOCK", 10)
    for number, (arguments, content) in enumerate(CASES.values()):
        path = tmp_path / str(number)
        path.write_bytes(content)
        stream, script = stream_of(f"stream({arguments.format(path)})")
        assert check(stream, script, path)


FIELDS = st.sampled_from(
    ["1", "-2", "+3", " 4", "007", "2147483648", "", "1.5", "-0", "1e3", "1e400", ".5", "nan",
     "x", "ä", "\ufeff", "2020-01-31", '"', '"a"', '"a,b"', '"a""b"', '"\n"', "\r", "+", "-",
     "\x00"]
)  # fmt: skip
GOOD = st.sampled_from(["1,0.5,a,+", "-2,,b,-", "3,1e3,,insert", ""])
ANY = st.lists(FIELDS, min_size=3, max_size=6).map(",".join)
WIDE = st.sampled_from(["1,0.5,a,+,", "-2,,b,-,", "3,1e3,,insert,x", "4,2.5,c,delete,", ""])
CONTENT = st.tuples(
    st.lists(GOOD, max_size=8) | st.lists(WIDE, max_size=8),
    st.lists(GOOD | ANY, max_size=6),
    st.sampled_from(["", "\n"]),
).map(lambda parts: "\n".join([*parts[0], *parts[1]]) + parts[2])


@pytest.mark.parametrize("options", ["", ', sign: "s"', ', null: "1"', ', quote: ""'])
def test_lines_are_read_alike(
    options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 20)
    path = tmp_path / "file.csv"
    type_ = (
        "< K: int, V: double, S: string >"
        if options == ', sign: "s"'
        else ("< K: int, V: double, S: string, T: any >")
    )
    stream, script = stream_of(f'stream(line, "{path}", ",", type({type_}){options})')

    @examples(60)
    @given(CONTENT)
    def alike(content: str) -> None:
        path.write_text(content, encoding="utf-8", newline="")
        check(stream, script, path)

    alike()


# --- Parquet -----------------------------------------------------------------------------


@pytest.mark.parametrize("key", [pa.int32(), pa.int16()])
@pytest.mark.parametrize("text", [b"ok", b"\xff"])
def test_parquet_is_read_alike(
    key: Any, text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incmrql.io.vectorised.parquet._ROWS", 2)
    path = tmp_path / "file.parquet"
    texts = pa.array([b"a", None, b"b", b"c", text, b"d"]).view(pa.string())
    columns = {
        "K": pa.array([1, None, 3, 4, 5, 6], key),
        "V": pa.array([-0.0, math.nan, None, 1.5, 2.0, math.inf]),
        "S": texts,
    }
    pq.write_table(pa.table(columns), path)
    stream, script = stream_of(f'stream(binary, "{path}", type(< K: int, V: double, S: string >))')
    assert check(stream, script, path) == (6 if text == b"ok" else 5)
    pq.write_table(pa.table(columns).slice(0, 0), path)
    assert check(stream, script, path) == 0


def test_parquet_with_signs_and_nested_types_is_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    nested = [{"a": [1, 2]}, None, {"a": None}]
    columns = {"K": [1, 2, 2], "N": nested, "D": [date(2020, 1, 31), None, None], "s": [1, -1, 5]}
    pq.write_table(pa.table(columns), path)
    stream, script = stream_of(f'stream(parquet, "{path}", sign: "s")')
    assert check(stream, script, path) == 2


def test_a_null_row_of_a_file_that_holds_rows_in_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    element = type_from_text("< K: int >")
    write_parquet(path, [Record({"K": 1}), None], element)
    stream, script = stream_of(f'stream(binary, "{path}", type(< K: int >))')
    with pytest.raises(DataError) as caught:
        list(read_file(stream, script.data, input_file(path)))
    assert caught.value.code == "R303"


# --- files that are not what they should be ------------------------------------------------


def refusal_code(stream: Stream, script: typed.Script, file: InputFile) -> str:
    with pytest.raises(DataError) as caught:
        list(read_file(stream, script.data, file))
    assert caught.value.hint
    assert Path(file.path).name in caught.value.place
    return caught.value.code


def test_files_that_cannot_be_read_are_refused_with_a_code(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    rows = pa.table({"K": pa.array(range(50_000), pa.int32())})
    pq.write_table(rows, path, row_group_size=10_000, compression="zstd", use_dictionary=False)
    stream, script = stream_of(f'stream(binary, "{path}", type(< K: int >))')
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    assert refusal_code(stream, script, input_file(path)) == "R103"
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + b"\0" * 3000 + whole[middle + 3000 :])
    assert refusal_code(stream, script, input_file(path)) == "R103"
    path.write_bytes(b"K\n1\n")
    assert refusal_code(stream, script, input_file(path)) == "R123"
    pq.write_table(pa.table({"K": ["a"]}), path)
    assert refusal_code(stream, script, input_file(path)) == "R121"


@pytest.mark.parametrize("name", ["line", "json", "xml", "text"])
def test_a_file_that_may_not_be_read_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, content = CASES[name]
    path = tmp_path / "file"
    path.write_bytes(content)
    stream, script = stream_of(f"stream({arguments.format(path)})")
    file = input_file(path)

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", deny)
    assert refusal_code(stream, script, file) == "R102"
    monkeypatch.setattr("builtins.open", deny)
    with pytest.raises(DataError) as caught:
        checksum(file)
    assert caught.value.code == "R102"


@pytest.mark.parametrize("name", ["line", "json", "xml", "text"])
def test_a_file_that_is_not_as_planned_is_refused(name: str, tmp_path: Path) -> None:
    arguments, content = CASES[name]
    path = tmp_path / "file"
    path.write_bytes(content)
    stream, script = stream_of(f"stream({arguments.format(path)})")
    planned = input_file(path)
    assert checksum(planned) == checksum(planned)
    path.write_bytes(content + b"\n")
    assert refusal_code(stream, script, planned) == "R301"
    with pytest.raises(DataError, match="changed while it was being ingested"):
        checksum(planned)
    path.unlink()
    assert refusal_code(stream, script, planned) == "R301"
    with pytest.raises(DataError, match="no such file"):
        checksum(planned)


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "CHUNK", 1)
    path = tmp_path / "file"
    path.write_text("a\nb\n")
    stream, script = stream_of(f'stream(text, "{path}")')
    chunks = read_file(stream, script.data, input_file(path))
    next(chunks)
    path.write_text("a\nc\nd\n")
    with pytest.raises(DataError) as caught:
        list(chunks)
    assert caught.value.code == "R301"


def test_input_files_go_through_json() -> None:
    file = InputFile("a/b", 1, 2, 3, True, "spool", "a/c")
    assert InputFile.of_json(file.as_json()) == file


# --- spool files -----------------------------------------------------------------------------

ELEMENTS: dict[str, list[Value]] = {
    "< a: int, b: string >": [Record({"a": 1, "b": "x"}), Record({"a": None, "b": None}), None],
    "(double, float)": [(-0.0, 0.5), (math.nan, None), (math.inf, -1.0)],
    "long": [1, None, -(2**63)],
    "any": [1, "a", Record({"z": [1, None]}), None],
    "{ (int, [string]) }": [Bag([(2, ["b"]), (1, [])]), Bag([]), None],
    "< d: date, t: timestamp, e: decimal >": [
        Record({"d": date(1, 1, 1), "t": datetime(9999, 12, 31, tzinfo=UTC), "e": Decimal("1.5")})
    ],
}


def packed_stream(element: Type) -> Stream:
    """A stream whose rows may be null."""
    source = typed.Source("python", True, None, element, name="rows")
    return Stream(0, "rows", source, element, True, True)


@pytest.mark.parametrize("text", ELEMENTS)
def test_what_is_spooled_comes_back(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spools, "BATCH", 2)
    element, path = type_from_text(text), tmp_path / "rows.arrow"
    rows = [(value, weight) for value in ELEMENTS[text] for weight in (1, -1, 5)]
    write_spool(path, element, rows)
    stream = packed_stream(element)
    read = [
        row
        for chunk in read_file(stream, {}, input_file(path, kind="spool"))
        for row in rows_of(stream, chunk.table)
    ]
    assert read == [(encode(value), weight) for value, weight in rows]
    assert all(batch.num_rows <= 2 for batch in read_spool(path, element))
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows.arrow"]


def test_spooled_rows_are_spread_where_the_source_has_columns(tmp_path: Path) -> None:
    stream, script = stream_of(f'stream(line, "{tmp_path}", ",", type(< a: int, b: string >))')
    path, row = tmp_path / "rows.arrow", Record({"a": 1, "b": "x"})
    write_spool(path, stream.element, [(row, 2)])
    (chunk,) = read_file(stream, script.data, input_file(path, kind="spool"))
    assert chunk.table.column_names == ["c0", "c1", "_weight"]
    assert rows_of(stream, chunk.table) == [(encode(row), 2)]
    write_spool(path, stream.element, [(None, 1)])
    assert refused_spool(stream, path) == "R303"


def refused_spool(stream: Stream, path: Path) -> str:
    with pytest.raises(DataError) as caught:
        list(read_file(stream, {}, input_file(path, kind="spool")))
    return caught.value.code


def test_damaged_spool_files_are_refused(tmp_path: Path) -> None:
    element, path = type_from_text("< a: int, b: string >"), tmp_path / "rows.arrow"
    write_spool(path, element, [(Record({"a": i, "b": str(i)}), 1) for i in range(1000)])
    stream, whole = packed_stream(element), path.read_bytes()
    for content in (b"", whole[:-20], whole[: len(whole) // 2]):
        path.write_bytes(content)
        assert refused_spool(stream, path) == "R103"
    write_spool(path, type_from_text("< a: long, b: string >"), [])
    assert refused_spool(stream, path) == "R307"


@examples(150)
@given(st.data(), st.integers(1, 5))
def test_no_damage_of_a_spool_file_goes_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, count: int
) -> None:
    element = type_from_text("< a: int, b: string, c: [double] >")
    path, stream = tmp_path_factory.getbasetemp() / "damaged.arrow", packed_stream(element)
    values = [Record({"a": i, "b": "x" * (i % 7), "c": [i / 2] * (i % 3)}) for i in range(50)]
    write_spool(path, element, [(value, 1) for value in values])
    content = bytearray(path.read_bytes())
    for _ in range(count):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    code, rows = "", []
    try:
        for chunk in read_file(stream, {}, input_file(path, kind="spool")):
            rows += rows_of(stream, chunk.table)
    except DataError as problem:
        code = problem.code
    # Some bytes are of no account.
    assert code in ("R103", "R307") or rows == [(encode(value), 1) for value in values]


NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
TABLES: list[tuple[str, dict[str, Any], list[Value]]] = [
    ("< a: int, b: double >",
     {"b": [NAN, -0.0], "a": pa.array([1, None], pa.int16()), "z": ["", ""]},
     [Record({"a": 1, "b": math.nan}), Record({"a": None, "b": 0.0})]),
    ("(long, string)", {"_1": [1, 2], "_2": ["a", None]}, [(1, "a"), (2, None)]),
    ("double", {"value": pa.array([2**53 + 1, 3])}, [float(2**53), 3.0]),
    ("< a: float >", {"a": pa.array([0.5], pa.float32())}, [Record({"a": 0.5})]),
    ("< a: {(string, int)} >", {"a": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32()))},
     [Record({"a": Bag([("k", 1)])})]),
    ("< t: timestamp, d: date >", {"t": pa.array([0], pa.timestamp("us", "Europe/Berlin")),
                                   "d": pa.array([0], pa.date32())},
     [Record({"t": datetime(1970, 1, 1, tzinfo=UTC), "d": date(1970, 1, 1)})]),
    ("< t: timestamp >", {"t": pa.array([1500], pa.timestamp("ns"))},
     [Record({"t": datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)})]),
    ("< r: < a: long, b: string > >", {"r": [{"b": "x", "a": 1}, None]},
     [Record({"r": Record({"a": 1, "b": "x"})}), Record({"r": None})]),
    ("< value: int >", {"value": pa.array([1], pa.int32())}, [Record({"value": 1})]),
]  # fmt: skip


def spool_table(path: Path, element: Type, table: Any, weights: Any = None) -> None:
    with spooling(path, element) as spool:
        spool.table(table, weights)


@pytest.mark.parametrize(("text", "columns", "wanted"), TABLES)
def test_tables_are_spooled_in_the_form_of_the_element(
    text: str, columns: dict[str, Any], wanted: list[Value], tmp_path: Path
) -> None:
    element, path = type_from_text(text), tmp_path / "rows.arrow"
    weights = [(-1) ** i * (i + 1) for i in range(len(wanted))]
    spool_table(path, element, pa.table(columns), weights)
    by_rows = tmp_path / "by rows.arrow"
    write_spool(by_rows, element, list(zip(wanted, weights, strict=True)))
    ((table,), (plain,)) = read_spool(path, element), read_spool(by_rows, element)
    assert table.schema == plain.schema
    assert repr(table.to_pylist()) == repr(plain.to_pylist())
    stream = packed_stream(element)
    (chunk,) = read_file(stream, {}, input_file(path, kind="spool"))
    assert rows_of(stream, chunk.table) == [
        (encode(value), weight) for value, weight in zip(wanted, weights, strict=True)
    ]


def test_a_spooled_table_has_one_nan(tmp_path: Path) -> None:
    path, element = tmp_path / "rows.arrow", type_from_text("< b: double >")
    spool_table(path, element, pa.table({"b": [NAN, math.nan, -0.0]}))
    (batch,) = read_spool(path, element)
    bits = batch.column(0).field(0).to_numpy().view("uint64").tolist()
    assert bits == [0x7FF8000000000000] * 2 + [0]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"b": [1.5]}, 'no column "a"'),
        ({"a": ["x"], "b": [1.5]}, "expected < a: int, b: double >"),
        ({"a": pa.array([2**40]), "b": [1.5]}, "expected < a: int, b: double >"),
        ({"a": [pa.scalar(1).as_py()], "b": pa.array([None], pa.duration("s"))}, "no MRQL type"),
    ],
)
def test_tables_of_another_type_are_refused(
    columns: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.arrow"
    with pytest.raises(DataError, match=words) as caught:
        spool_table(path, type_from_text("< a: int, b: double >"), pa.table(columns))
    assert caught.value.code == "R306"
    assert list(tmp_path.iterdir()) == []


def test_days_and_texts_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    days = pa.table({"d": pa.array([0, 10**8], pa.int32()).cast(pa.date32())})
    with pytest.raises(DataError, match="row 2: day 100000000"):
        spool_table(path, type_from_text("< d: date >"), days)
    texts = pa.table({"s": pa.array([b"\xff"]).view(pa.string())})
    with pytest.raises(DataError, match="not UTF-8"):
        spool_table(path, type_from_text("< s: string >"), texts)


def test_the_whole_source_has_the_rows_of_the_reference(tmp_path: Path) -> None:
    data, deletes = tmp_path / "data", tmp_path / "deletes"
    for folder, texts in ((data, ["1,a\n2,b\n", "1,a\nx,y\n"]), (deletes, ["1,a\n"])):
        folder.mkdir()
        for number, text in enumerate(texts):
            (folder / f"{number}.csv").write_text(text)
    stream, script = stream_of(
        f'stream(line, "{data}", ",", type((int, string)), deletes: "{deletes}")'
    )
    total: Counter[bytes] = Counter()
    for folder in (data, deletes):
        for path in folder.iterdir():
            file = input_file(path, deletes=folder == deletes)
            for chunk in read_file(stream, script.data, file):
                for row, weight in rows_of(stream, chunk.table):
                    total[row] += weight
    wanted = read_source(stream.source, Environment(new_world(script)))
    assert +total == Counter(map(encode, wanted))
    assert min(total.values()) >= 0
