"""A run does not ingest what it writes, and a folder does not lose all its files by accident."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from incmrql.errors import DataError
from incmrql.runtime import Driver, StreamOptions
from incmrql.runtime.feeds import Archive, FolderFeed
from incmrql.runtime.reach import is_matched
from tests.runtime.feeding import put, stream_of, with_checksums
from tests.runtime.here import driver_here
from tests.runtime.streaming import OPTIONS, Place, average


def refusal(place: Place, output: Path, checkpoint: Path, options: StreamOptions) -> str:
    with pytest.raises(DataError) as caught:
        Driver(place.program, checkpoint, output, lambda: None, options)  # type: ignore[arg-type, return-value]
    assert caught.value.code == "R321"
    return caught.value.message


def test_an_output_inside_a_watched_folder_is_refused(tmp_path: Path) -> None:
    place = average(tmp_path)
    message = refusal(place, place.data / "out", place.checkpoint, OPTIONS)
    assert message.startswith(f'the output "{place.data / "out"}" is inside "{place.data}"')
    refusal(place, place.deletes / "a" / "out", place.checkpoint, OPTIONS)
    (tmp_path / "link").symlink_to(place.data)
    refusal(place, tmp_path / "link" / "out", place.checkpoint, OPTIONS)
    assert list(place.data.iterdir()) == []


def test_a_checkpoint_or_a_quarantine_inside_a_watched_folder_is_refused(tmp_path: Path) -> None:
    place = average(tmp_path)
    message = refusal(place, place.output, place.data / "ck", OPTIONS)
    assert message.startswith("the checkpoint ")
    kept = replace(OPTIONS, quarantine=place.data / "bad")
    assert refusal(place, place.output, place.checkpoint, kept).startswith("the quarantine ")


def test_hidden_folders_and_folders_outside_are_accepted(tmp_path: Path) -> None:
    place = average(tmp_path)
    place.output = place.data / "_out"
    place.put("1.csv", "1,10\n")
    with driver_here(place, replace(OPTIONS, quarantine=place.data / ".bad")) as driver:
        assert driver.step() is not None
        assert driver.step() is None


@pytest.mark.parametrize(
    ("watched", "folder", "expected"),
    [
        ("data/*", "data/out", True),
        ("data/*.csv", "data/out", False),
        ("data/**", "data/a/b", True),
        ("data/**/*.csv", "data/a/b", False),
        ("data/*/batch=*", "data/out", True),
        ("da*/out", "data/out", True),
        ("da*/other", "data/out", False),
        ("data/_*", "data/_out", True),
        ("data/*", "data/_out", False),
        ("data/[op]ut", "data/out", True),
        ("data/x.csv", "data/x.csv", True),
        ("data", "database", False),
    ],
)
def test_what_a_pattern_watches(tmp_path: Path, watched: str, folder: str, expected: bool) -> None:
    assert is_matched(f"{tmp_path}/{watched}", tmp_path / folder / "batch=0" / "part-0") == expected


# --- folders that become empty at once -------------------------------------------------------


def replacing(folder: Path, pattern: str, *, allow_empty: bool = False) -> FolderFeed:
    stream = stream_of(
        f'stream(line, "{folder}/{pattern}", ",", type((int, string)), on_modified: replace)'
    )
    for name in "ab":
        put(folder / f"{name}.csv", "1,a\n", 1)
    archive = Archive(folder.parent / "archive", "all", folders=True)
    feed = FolderFeed(stream, {}, 1, archive, allow_empty=allow_empty)
    files = with_checksums(feed.poll(10).files)
    archive.add(0, files)
    feed.acknowledge(files)
    return feed


@pytest.mark.parametrize("pattern", ["", "*.csv"])
def test_a_folder_that_lost_all_files_at_once_is_refused(tmp_path: Path, pattern: str) -> None:
    folder = tmp_path / "data"
    feed = replacing(folder, pattern)
    (folder / "a.csv").unlink()
    assert [bool(file.retracts) for file in feed.poll(10).files] == [True]
    (folder / "b.csv").unlink()
    with pytest.raises(DataError, match="all 2 files of") as caught:
        feed.poll(10)
    assert caught.value.code == "R322"
    assert "--allow-empty" in caught.value.hint
    put(folder / "c.csv", "1,a\n", 1)  # it is there again
    assert len(feed.poll(10).files) == 3


def test_a_folder_that_lost_its_only_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    feed = replacing(folder, "")
    (folder / "a.csv").unlink()
    feed.acknowledge(with_checksums(feed.poll(10).files))
    (folder / "b.csv").unlink()
    with pytest.raises(DataError) as caught:
        feed.poll(10)
    assert caught.value.message == f'the only file of "{folder}/" that was ingested is gone'


@pytest.mark.parametrize("pattern", ["", "*.csv"])
def test_a_folder_that_lost_all_files_on_purpose(tmp_path: Path, pattern: str) -> None:
    folder = tmp_path / "data"
    feed = replacing(folder, pattern, allow_empty=True)
    for name in "ab":
        (folder / f"{name}.csv").unlink()
    assert [bool(file.retracts) for file in feed.poll(10).files] == [True, True]


# --- what is skipped -------------------------------------------------------------------------


def test_skipped_files_are_mentioned_once(tmp_path: Path) -> None:
    place = average(tmp_path)
    place.put("1.csv", "1,10\n")
    place.put("_SUCCESS", "")
    place.put("x.tmp", "1,1\n")
    (tmp_path / "elsewhere").mkdir()
    (place.data / "linked").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(place.data / "pipe")
    said: list[str] = []
    with driver_here(place) as driver:
        driver.on_notice = said.append
        driver.poll()
        report = driver.step()
        place.put("_more", "")
        assert driver.step() is None
    assert report is not None
    assert sorted(said) == sorted(report.notices)
    data = place.data
    assert sorted(said) == [
        f'files whose names start with "." or "_" are skipped, such as "{data}/_SUCCESS"',
        f'linked directories are skipped, such as "{data}/linked"',
        f'named pipes, sockets and devices are skipped, such as "{data}/pipe"',
    ]


def test_skipped_matches_of_a_pattern_are_mentioned(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "1,a\n", 1)
    os.mkfifo(tmp_path / "b.csv")
    feed = FolderFeed(
        stream_of(f'stream(line, "{tmp_path}/*.csv", ",", type((int, string)))'), {}, 1
    )
    news = feed.poll(10)
    assert len(news.files) == 1
    assert news.notices == (
        f'named pipes, sockets and devices are skipped, such as "{tmp_path}/b.csv"',
    )
    assert feed.poll(10).notices == ()
