"""The archive of the input: copies of files, and reading everything again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from incmrql.engine.inputs import InputFile
from incmrql.errors import DataError
from incmrql.runtime.feeds import Archive, FolderFeed
from tests.runtime.feeding import content, put, rows, stream_of, with_checksums


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "data/a.csv", "1,a\n", 1)
    put(tmp_path / "data/b.csv", "2,b\n", 2)
    return tmp_path / "data"


def files_with_checksums(folder: Path) -> list[tuple[InputFile, str]]:
    stream = stream_of(f'stream(line, "{folder}", ",", type((int, string)))')
    return with_checksums(FolderFeed(stream, {}, 1).poll(10).files)


def test_files_of_the_user_are_read_again_where_they_are(folder: Path, tmp_path: Path) -> None:
    archive, files = Archive(tmp_path / "archive"), files_with_checksums(folder)
    archive.add(0, files)
    assert list((tmp_path / "archive").iterdir()) == []
    assert list(archive.replay([files])) == [file for file, _ in files]
    os.utime(folder / "a.csv", (5, 5))
    assert [file.modified for file in archive.replay([files])] == [5 * 10**9, 2 * 10**9]
    put(folder / "a.csv", "9,a\n", 1)  # the same size and time: only a checksum tells
    assert len(list(archive.replay([files]))) == 2
    for text, seconds, verify in [("9,a\n", 1, True), ("9,a\n", 7, False), ("", 1, False)]:
        put(folder / "a.csv", text, seconds)
        with pytest.raises(DataError, match=r'"a.csv" changed or is gone') as caught:
            archive.replay([files], verify=verify)
        assert caught.value.code == "R305"
    (folder / "a.csv").unlink()
    (folder / "b.csv").unlink()
    with pytest.raises(DataError, match="and 1 more file likewise"):
        archive.replay([files])


def test_copies_outlive_their_files(folder: Path, tmp_path: Path) -> None:
    archive, files = Archive(tmp_path / "archive", folders=True), files_with_checksums(folder)
    archive.add(0, files)
    put(folder / "a.csv", "9,z\n", 1)
    (folder / "b.csv").unlink()
    stream = stream_of(f'stream(line, "{folder}", ",", type((int, string)))')
    for reader in (archive, Archive(tmp_path / "archive")):
        assert content(stream, list(reader.replay([files], verify=True))) == rows(
            (1, "a"), (2, "b")
        )


def test_a_damaged_copy_is_noticed(folder: Path, tmp_path: Path) -> None:
    archive, files = Archive(tmp_path / "archive", folders=True), files_with_checksums(folder)
    archive.add(0, files)
    (folder / "a.csv").unlink()
    copy = archive.copy_of(*files[0])
    assert copy is not None
    Path(copy.path).write_text("8,a\n")
    with pytest.raises(DataError) as caught:
        archive.replay([files], verify=True)
    assert caught.value.code == "R305"


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_a_file_that_changes_before_it_is_copied_is_refused(
    how: str, folder: Path, tmp_path: Path
) -> None:
    archive, files = Archive(tmp_path / "archive", folders=True), files_with_checksums(folder)
    put(folder / "a.csv", "9,z\n", 1) if how == "changed" else (folder / "a.csv").unlink()
    with pytest.raises(DataError) as caught:
        archive.add(0, files)
    assert caught.value.code == "R301"
    assert list((tmp_path / "archive").iterdir()) == []


def test_copies_keep_what_their_names_say_of_packing(folder: Path, tmp_path: Path) -> None:
    long = folder / f"{'x' * 240}.gz"
    put(long, "x", 1)
    archive, files = Archive(tmp_path / "archive", folders=True), files_with_checksums(folder)
    archive.add(3, files)
    endings = sorted(path.suffix for path in (tmp_path / "archive").iterdir())
    assert endings == [".csv", ".csv", ".gz"]
    foreign = tmp_path / "archive" / "README"
    foreign.write_text("mine")
    again = Archive(tmp_path / "archive", 1)
    again.clean(4)
    assert list((tmp_path / "archive").iterdir()) == [foreign]
