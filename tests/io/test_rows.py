"""What happens to bad rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from incmrql.errors import DataError
from incmrql.io.rows import BadRow, Quarantine, Read, Row, collect

BAD = [BadRow("s.csv", n, f"x{n}", f"reason {n}") for n in range(1, 8)]


def rows(bad: int) -> Iterator[Read]:
    yield Row(1)
    yield from BAD[:bad]
    yield Row(2, -1)


def test_fail_names_the_line() -> None:
    with pytest.raises(DataError) as caught:
        collect(rows(1), "fail")
    assert (caught.value.code, caught.value.message) == ("R110", "reason 1")
    assert caught.value.place == "s.csv:1"
    assert "on_error" in caught.value.hint


def test_drop_counts(tmp_path: Path) -> None:
    collection = collect(rows(7), "drop", Quarantine(tmp_path))
    assert collection.values == [1, 2]
    assert collection.rows == [Row(1), Row(2, -1)]
    assert (collection.report.rows, collection.report.bad) == (2, 7)
    assert collection.report.files == (("s.csv", 7),)
    assert list(tmp_path.iterdir()) == []
    assert collection.report.sentences("drop") == [
        "7 lines of s.csv were dropped: line 1: reason 1; line 2: reason 2; line 3: reason 3; "
        "line 4: reason 4; line 5: reason 5; ..."
    ]


def test_quarantine_keeps_the_text(tmp_path: Path) -> None:
    folder = tmp_path / "quarantine"
    collection = collect(rows(1), quarantine=Quarantine(folder, "batch-3.jsonl"))
    assert collection.report.sentences("quarantine") == [
        "1 line of s.csv was quarantined: line 1: reason 1"
    ]
    (file,) = folder.iterdir()
    assert file.name == "batch-3.jsonl"
    assert json.loads(file.read_text()) == {
        "file": "s.csv", "line": 1, "reason": "reason 1", "text": "x1",
    }  # fmt: skip


def test_a_quarantine_can_be_used_again(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path)
    collect(rows(3), quarantine=quarantine)
    collect(rows(1), quarantine=quarantine)
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 1


def test_a_file_goes_when_its_lines_are_mended(tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text("{}")
    collect(rows(3), quarantine=Quarantine(tmp_path))
    collect(rows(0), quarantine=Quarantine(tmp_path))
    assert list(tmp_path.iterdir()) == [other]


def test_a_file_stays_while_its_source_cannot_be_read(tmp_path: Path) -> None:
    def broken_file() -> Iterator[Read]:
        yield Row(1)
        raise DataError("R103", "cut off")

    collect(rows(3), quarantine=Quarantine(tmp_path))
    with pytest.raises(DataError, match="cut off"):
        collect(broken_file(), quarantine=Quarantine(tmp_path))
    assert len(list(tmp_path.iterdir())) == 1


def test_a_row_without_a_line(tmp_path: Path) -> None:
    bad = BadRow("w.txt", 0, "x", "no number")
    assert bad.place == "w.txt"
    report = collect([bad], quarantine=Quarantine(tmp_path)).report
    assert report.sentences("quarantine") == ["1 row of w.txt was quarantined: no number"]
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text())["line"] is None


def test_no_bad_row_no_file(tmp_path: Path) -> None:
    assert collect(rows(0), quarantine=Quarantine(tmp_path)).report.bad == 0
    assert list(tmp_path.iterdir()) == []


def test_half_a_quarantine_is_none(tmp_path: Path) -> None:
    def broken_file() -> Iterator[Read]:
        yield BAD[0]
        raise DataError("R103", "cut off")

    with pytest.raises(DataError, match="cut off"):
        collect(broken_file(), quarantine=Quarantine(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_quarantine_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="R130"):
        collect(rows(1), quarantine=Quarantine(tmp_path / "file"))
