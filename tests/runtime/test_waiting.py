"""Which files a batch ingests, within its limits, and how far sources lag."""

from __future__ import annotations

import gzip
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import incmrql
from incmrql.engine.inputs import InputFile, Origin
from incmrql.errors import DataError
from incmrql.io.spools import write_spool
from incmrql.plan.program import Stream
from incmrql.runtime.user_options import size
from incmrql.runtime.waiting import BatchLimits, SourceLag, lags_of, next_files, row_counter
from incmrql.types import model as t
from incmrql.types import typed

SIZES = {"a": 10, "b": 30, "c": 10, "d": 50}


def file_at(name: str, size: int, place: int = 0, **fields: Any) -> InputFile:
    return InputFile(name, size, ord(name[-1]) * 10**9, place, **fields)


FILES = tuple(file_at(name, size) for name, size in SIZES.items())


@pytest.mark.parametrize(
    ("limits", "taken"),
    [
        (BatchLimits(), "abcd"),
        (BatchLimits(files=2), "ab"),
        (BatchLimits(bytes=9), "a"),  # a file is never divided
        (BatchLimits(bytes=40), "ab"),
        (BatchLimits(bytes=49), "ab"),
        (BatchLimits(bytes=50), "abc"),
        (BatchLimits(rows=5), "ab"),
        (BatchLimits(rows=4), "a"),
        (BatchLimits(files=3, bytes=45, rows=100), "ab"),
    ],
)
def test_the_oldest_files_within_the_limits(limits: BatchLimits, taken: str) -> None:
    rows = {"a": 1, "b": 4, "c": 1, "d": 9}
    chosen = next_files(FILES, limits, lambda _: True, lambda file: rows[file.path])
    assert "".join(file.path for file in chosen) == taken


def test_all_files_that_do_not_change_come_at_once() -> None:
    fixed = [file_at(name, 99, place=1) for name in "xyz"]
    chosen = next_files((*FILES, *fixed), BatchLimits(bytes=10), lambda file: file.place == 0)
    assert sorted(file.path for file in chosen) == ["a", "x", "y", "z"]


def test_a_change_of_a_file_stays_in_one_batch() -> None:
    old = file_at("archive-b", 30, retracts="b")
    chosen = next_files((*FILES[1:], old), BatchLimits(bytes=1), lambda _: True)
    assert [(file.path, file.retracts) for file in chosen] == [("archive-b", "b"), ("b", "")]


def stream_of(kind: str, place: int = 0) -> Stream:
    row = t.Record((("a", t.LONG),))
    return Stream(place, f"stream {kind}", typed.Source(kind, True, None, row), row, True, True)


def test_rows_are_counted_without_reading_them(tmp_path: Path) -> None:
    def rows(format_: str, name: str, **fields: Any) -> int:
        file = InputFile(str(tmp_path / name), 1, 1, 0, **fields)
        return row_counter([stream_of(format_)], 77)(file)

    (tmp_path / "x.csv").write_text("1\n2\n3")
    (tmp_path / "y.json").write_text('{"a": 1}\n')
    (tmp_path / "z.csv.gz").write_bytes(gzip.compress(b"1\n2\n"))
    (tmp_path / "e.csv").write_text("")
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "p.parquet")
    spool = tmp_path / "s.arrow"
    write_spool(spool, t.LONG, ((n, 1) for n in range(5)))
    assert rows("line", "x.csv") == 3
    assert rows("json", "y.json") == 1
    assert rows("line", "z.csv.gz") == 2
    assert rows("line", "e.csv") == 0
    assert rows("binary", "p.parquet") == 2
    assert rows("registered", "s.arrow", kind="spool") == 5
    assert rows("line", "x.csv", kind="received") == 3
    assert rows("xml", "x.csv") == 77
    assert rows("line", "gone.csv") == 77
    assert rows("binary", "x.csv") == 77


def test_sources_lag_by_what_was_ingested_and_what_waits() -> None:
    kinds = enumerate(("line", "json", "text", "xml"))
    streams = [stream_of(kind, place) for place, kind in kinds]
    now = (ord("c") + 5) * 1.0
    spool = file_at("x", 7, place=3, origin=Origin("b", 9, ord("b") * 10**9, ""))
    ingested = [file_at("b", 50), file_at("c", 2, place=2), spool]
    waiting = [file_at("c", 10), file_at("a", 5), file_at("b", 1, place=2)]
    assert lags_of(streams, ingested, waiting, now) == (
        SourceLag("stream line", 7.0, 2, 15), SourceLag("stream text", 6.0, 1, 1),
        SourceLag("stream xml", 6.0, 0, 0),
    )  # fmt: skip
    assert lags_of(streams, [file_at("z", 1)], [], now) == (SourceLag("stream line", 0.0, 0, 0),)


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("1", 1),
        ("500MB", 500_000_000),
        ("2GiB", 2 << 30),
        ("1.5k", 1500),
        (7, 7),
        ("1 TiB", 1 << 40),
    ],
)
def test_a_size_is_read(text: Any, bytes_: int) -> None:
    assert size(text) == bytes_


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "5 PB", True, "1MBB", 0])
def test_what_is_no_size_is_refused(text: Any) -> None:
    with pytest.raises(DataError, match="is not a size"):
        size(text)


@pytest.mark.parametrize(
    "limit", [{"max_rows_per_batch": 2}, {"max_bytes_per_batch": "4B"}, {"max_files_per_batch": 2}]
)
def test_batches_within_limits_say_what_is_left(limit: dict[str, Any], tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    written = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
    for number in range(5):
        (data / f"{number}.csv").write_text(f"{number}\n")
        os.utime(data / f"{number}.csv", (written + number, written + number))
    query = (
        f'select sum(x.a) from x in stream(line, "{data}", ",", type(< a: long >)) group by k: 0'
    )
    with incmrql.Session(engine="local") as session:
        run = session.query(query).start(settle=0, **limit)
        told = []
        while (batch := run.step()) is not None:
            told.append((batch.files, [(lag.source, lag.files, lag.bytes) for lag in batch.lags]))
            assert all(lag.seconds > 1e6 for lag in batch.lags)
            assert batch.lag == (batch.lags[0].seconds if batch.number else None)
        place = str(data)
        assert told == [(2, [(place, 3, 6)]), (2, [(place, 1, 2)]), (1, [(place, 0, 0)])]
        assert list(run.answer()) == [10]
