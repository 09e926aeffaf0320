"""Watched folders: what is new, at rest, changed or gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from incmrql.diagnostics import DataError
from incmrql.incremental import Stream
from incmrql.kernel.reading import checksum
from incmrql.runtime.folder import Consumed, check_consumed, listing, news
from tests.kernel.programs import AVERAGE, program_of


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    (tmp_path / "data").mkdir()
    (tmp_path / "deletes").mkdir()
    text = AVERAGE.format(data=tmp_path / "data", deletes=tmp_path / "deletes")
    return program_of(text).stream


def put(path: Path, text: str, seconds: float) -> None:
    path.write_text(text)
    os.utime(path, (seconds, seconds))


def taken(stream: Stream) -> Consumed:
    return {path: (file, checksum(file)) for path, file in listing(stream).items()}


def test_files_are_taken_when_they_are_at_rest_oldest_first(stream: Stream) -> None:
    put(Path(stream.path, "b.csv"), "1,1.0\n", 100)
    put(Path(stream.path, "a.csv"), "2,1.0\n", 101)
    put(Path(stream.path, "c.csv"), "3,1.0\n", 109.5)
    put(Path(stream.deletes or "", "a.csv"), "1,1.0\n", 100)
    found = news(listing(stream), {}, now=110, settle=1)
    assert [(Path(file.path).name, file.deletes) for file in found.files] == [
        ("b.csv", False),
        ("a.csv", True),
        ("a.csv", False),
    ]
    assert found.restless == 1


def test_what_was_taken_in_is_not_new(stream: Stream) -> None:
    put(Path(stream.path, "a.csv"), "1,1.0\n", 100)
    consumed = taken(stream)
    put(Path(stream.path, "b.csv"), "1,1.0\n", 100)
    names = [Path(file.path).name for file in news(listing(stream), consumed, 110, 1).files]
    assert names == ["b.csv"]


def test_hidden_files_are_not_there(stream: Stream) -> None:
    put(Path(stream.path, ".a.csv.tmp"), "1,1.0\n", 100)
    put(Path(stream.path, "_b.csv"), "1,1.0\n", 100)
    assert listing(stream) == {}


def test_a_file_that_was_only_touched_is_no_news(stream: Stream) -> None:
    path = Path(stream.path, "a.csv")
    put(path, "1,1.0\n", 100)
    consumed = taken(stream)
    assert check_consumed(listing(stream), consumed) == {}
    put(path, "1,1.0\n", 105)
    touched = check_consumed(listing(stream), consumed)
    assert [file.modified for file, _ in touched.values()] == [105 * 10**9]


@pytest.mark.parametrize("text", ["1,2.0\n", "1,1.0\n2,1.0\n"])
def test_a_file_that_changed_is_noticed(stream: Stream, text: str) -> None:
    put(Path(stream.path, "a.csv"), "1,1.0\n", 100)
    consumed = taken(stream)
    put(Path(stream.path, "a.csv"), text, 105)
    with pytest.raises(DataError, match="no longer what was taken in") as caught:
        check_consumed(listing(stream), consumed)
    assert caught.value.code == "R301"


def test_a_file_that_vanished_is_noticed(stream: Stream) -> None:
    put(Path(stream.path, "a.csv"), "1,1.0\n", 100)
    consumed = taken(stream)
    Path(stream.path, "a.csv").unlink()
    with pytest.raises(DataError, match="no longer there") as caught:
        check_consumed(listing(stream), consumed)
    assert caught.value.code == "R302"
