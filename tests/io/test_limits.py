"""Bombs: little text that would take much memory or time is refused or read in linear time."""

from __future__ import annotations

import gzip
import os
import socket
import time
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from incmrql.errors import DataError
from incmrql.io import FileSplit, ReadSpec, read_chunks
from incmrql.io import line as line_format
from incmrql.io.files import MAX_LINE, Line, open_bytes
from incmrql.io.rows import BadRow, Read, Row
from incmrql.io.vectorised import line as vectorised
from incmrql.types import model as t
from incmrql.types import typed
from incmrql.types.model import Type
from tests.io.reading import read

MEGABYTE = 1 << 20
PAIR = t.Tuple((t.STRING, t.STRING))
NAMED = t.Record((("name", t.STRING),))


def good_and_bad_rows(
    path: Path, kind: str, row: Type, **settings: Any
) -> tuple[list[Any], list[BadRow]]:
    rows = list(read(kind, path, row, **settings))
    good = [row.value for row in rows if isinstance(row, Row)]
    return good, [row for row in rows if isinstance(row, BadRow)]


def peak(rows: Iterator[Any]) -> tuple[int, int]:
    """How many rows there are, and how many bytes of memory reading them took at most."""
    tracemalloc.start()
    try:
        count = sum(1 for _ in rows)
        return count, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("kind", "row", "text"),
    [
        ("text", t.STRING, "short\n{}\nlast"),
        ("line", t.STRING, "short\n{}\nlast"),
        ("json", t.STRING, '"short"\n"{}"\n"last"'),
    ],
)
def test_a_line_over_the_limit_is_one_bad_row(
    tmp_path: Path, kind: str, row: Type, text: str
) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(text.format("x" * 10_000).encode()))
    good, (bad,) = good_and_bad_rows(path, kind, row, options={"max_line": 100})
    assert good == ["short", "last"]
    assert (bad.line, bad.reason) == (2, "the line is longer than max_line (100 bytes)")
    assert len(bad.text) < 300
    good, none = good_and_bad_rows(path, kind, row, options={"max_line": 10_002})
    assert (len(good), none) == (3, [])


def test_the_limit_counts_the_bytes_before_the_line_feed(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("é" * 5 + "\n" + "é" * 5 + "e\n" + "e" * 11)
    good, bad = good_and_bad_rows(path, "text", t.STRING, options={"max_line": 10})
    assert (good, [row.line for row in bad]) == (["é" * 5], [2, 3])


@pytest.mark.parametrize("kind", ["text", "line", "json"])
def test_a_bomb_of_one_line_takes_no_more_memory_than_the_limit(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"[" + b"1," * (20 * MEGABYTE)))
    rows = read(kind, path, t.JSON if kind == "json" else t.STRING, options={"max_line": MEGABYTE})
    count, memory = peak(rows)
    assert count == 1
    assert memory < 8 * MEGABYTE


@pytest.mark.parametrize(
    "text",
    ['<r><a b="{}"/></r>', "<r><a>{}</a></r>", "<r><!--{}--><a/></r>", "<r><a><{}/></a></r>"],
)
def test_a_bomb_of_xml_takes_no_more_memory_than_the_limit(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.xml.gz"
    start, end = text.split("{}")
    path.write_bytes(gzip.compress(f"{start}{'x' * 20 * MEGABYTE}{end}".encode()))
    rows = read("xml", path, t.XML, keys=("a",), options={"max_line": MEGABYTE})
    count, memory = peak(rows)
    assert count == 1
    assert memory < 8 * MEGABYTE
    (bad,) = good_and_bad_rows(path, "xml", t.XML, keys=("a",), options={"max_line": MEGABYTE})[1]
    assert bad.reason.endswith("is longer than max_line (1048576 bytes)")


def test_elements_of_xml_within_the_limit_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text("<r>" + "<a>text</a>" * 1000 + "</r>")
    good, bad = good_and_bad_rows(path, "xml", t.XML, keys=("a",), options={"max_line": 20})
    assert (len(good), bad) == (1000, [])


@pytest.mark.parametrize("start", ["[\n", '{"a":\n', '[\n{"a":\n'])
def test_json_that_is_never_closed_is_read_in_linear_time(tmp_path: Path, start: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(start * 10_000)  # of which 4 KB took 11 s
    begun = time.process_time()
    good, bad = good_and_bad_rows(path, "json", t.JSON)
    assert time.process_time() - begun < 5
    assert good == []
    assert bad[0].reason == "nested deeper than 100 levels"
    assert bad[-1].reason in ("nested deeper than 100 levels", NO_END)


NO_END = "the document that starts here has no end"


@pytest.mark.parametrize(("end", "reason"), [("", NO_END), ("x", "not JSON at line 20090, ")])
def test_a_document_is_refused_for_all_that_are_open_in_it(
    tmp_path: Path, end: str, reason: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text("[\n" * 90 + "1,\n" * 20_000 + end)
    begun = time.process_time()
    good, bad = good_and_bad_rows(path, "json", t.JSON)
    assert time.process_time() - begun < 5
    assert good == []
    assert [row.line for row in bad] == list(range(1, 91))
    assert bad[0].reason.startswith(reason if not end else "not JSON at line 20091, column 1")
    assert bad[89].reason.startswith(reason if not end else "not JSON at line 20002, column 1")


def test_documents_inside_a_broken_one_are_still_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('[\n{"a": 1}\n{"a": 2}\n[3,\n4]\n[5')
    good, bad = good_and_bad_rows(path, "json", t.Record((("a", t.INT),)), options={})
    assert [row["a"] for row in good] == [1, 2]
    assert [row.line for row in bad] == [1, 4, 5, 6]


def test_a_document_over_the_limit_is_one_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a": [\n' + "  1,\n" * 1000 + '  1]}\n{"a": 2}\n')
    good, (bad,) = good_and_bad_rows(
        path, "json", t.Record((("a", t.ANY),)), options={"max_line": 500}
    )
    assert len(good) == 1
    assert (bad.line, bad.reason) == (1, "the document is longer than max_line (500 bytes)")


def test_an_array_of_rows_over_the_limit_is_read_item_by_item(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    row = t.Record((("a", t.INT),))
    items = ",\n".join(f'{{"a":\n {n}}}' for n in range(5000))
    path.write_text(f'{{"a": -1}} [{items}\n] {{"a": -2}}\n{{"a": -3}}')
    for longest in (100, 10_000, MAX_LINE):
        good, bad = good_and_bad_rows(path, "json", row, options={"max_line": longest})
        assert [row["a"] for row in good] == [-1, *range(5000), -2, -3]
        assert bad == []
    count, memory = peak(read("json", path, row, options={"max_line": 10_000}))
    assert count == 5003
    assert memory < 4 * MEGABYTE


@pytest.mark.parametrize(
    ("end", "reason"), [("", NO_END), ("\n;", "expected a comma"), (",\n;", "not JSON")]
)
def test_an_array_over_the_limit_that_breaks_is_rows_and_one_bad_row(
    tmp_path: Path, end: str, reason: str
) -> None:
    path = tmp_path / "x.json"
    items = ",\n".join(f' {{"a": {n}}}' for n in range(1000))
    path.write_text(f"[\n{items}{end}")
    good, (bad,) = good_and_bad_rows(
        path, "json", t.Record((("a", t.INT),)), options={"max_line": 1000}
    )
    assert len(good) == 1000
    assert reason in bad.reason


def test_quotes_that_are_never_closed_are_read_in_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('x","z\n' * 20_000)  # each line leaves a quote open, and goes on with one
    begun = time.process_time()
    good, bad = good_and_bad_rows(path, "line", PAIR)
    assert time.process_time() - begun < 5
    assert (good, len(bad)) == ([], 20_000)
    assert {row.reason for row in bad} == {line_format._NEVER_CLOSED}


def test_a_quote_that_is_closed_later_is_read_after_one_that_is_not(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('a,"b\nx","y\nc,"d\ne"\nf,g\n')
    good, bad = good_and_bad_rows(path, "line", PAIR)
    assert good == [("c", "d\ne"), ("f", "g")]
    assert [row.line for row in bad] == [1, 2]


def test_a_quote_before_many_empty_lines_takes_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_format, "MOST_LINES", 1000)
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b'a,"b\n' + b"\n" * 200_000 + b"c,d\n"))
    count, memory = peak(read("line", path, PAIR))
    assert count == 2
    assert memory < 4 * MEGABYTE


@pytest.mark.parametrize(
    ("kind", "row", "rows"), [("text", t.STRING, 1_000_000), ("line", PAIR, 0), ("json", NAMED, 0)]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_million_empty_lines_are_read_block_by_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, row: Type, rows: int, end: str
) -> None:
    """Streams and Spark read them so; row by row they took 20 seconds."""

    def never(lines: Iterable[Line], *_: object) -> Iterator[Read]:
        for line in lines:
            raise AssertionError(f"line {line.number} is read by itself")
        return iter(())

    for module, name in ((vectorised, "read_text"), (vectorised, "read_lines")):
        monkeypatch.setattr(module, name, never)
    path = tmp_path / "x"
    path.write_text(end * 1_000_000, newline="")
    source = typed.Source(kind, streaming=False, path=None, row=row, delimiter=",")
    split = FileSplit(0, str(path), str(path), path.stat().st_size)
    chunks = list(read_chunks(ReadSpec(source, row, {}, {}), split))
    assert sum(len(chunk.values) for chunk in chunks) == rows
    assert not any(chunk.bad for chunk in chunks)


def test_a_fifo_is_refused_by_name(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe.csv"
    os.mkfifo(fifo)
    with pytest.raises(
        DataError, match=r'"pipe.csv" is a named pipe \(FIFO\), not a file'
    ) as raised:
        read("line", fifo, t.STRING)
    assert raised.value.code == "R102"
    with pytest.raises(DataError, match="named pipe"), open_bytes(fifo):
        pass
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        with pytest.raises(DataError, match="is a socket, not a file"):
            read("text", tmp_path / "s", t.STRING)
    with pytest.raises(DataError, match="is a device, not a file"):
        read("text", "/dev/zero", t.STRING)
