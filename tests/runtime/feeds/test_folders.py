"""Feeds of files: what is new, at rest, changed, gone or replaced."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from incmrql.engine import inputs
from incmrql.errors import DataError
from incmrql.io.files import expand
from incmrql.plan.program import Stream
from incmrql.runtime.feeds import Archive, FolderFeed, IngestedByPath, OnceFeed, folders
from incmrql.runtime.feeds.folders import files_at
from incmrql.runtime.waiting import BatchLimits, next_files
from tests.effort import examples
from tests.runtime.feeding import content, names, put, rows, stream_of, take, with_checksums


def stream_of_folder(path: Path | str, more: str = "") -> Stream:
    return stream_of(f'stream(line, "{path}", ",", type((int, string)){more})')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    return directory


# --- listing ---------------------------------------------------------------------------------


def test_a_folder_is_listed_as_batch_queries_read_it(folder: Path, tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "sub/c.csv", "sub/deep/d", "sub/_x/e", ".f", "_g", "sub/.h"):
        put(folder / name, "1,a\n", 1)
    put(tmp_path / "other/l.csv", "1,a\n", 1)
    (folder / "link.csv").symlink_to(tmp_path / "other/l.csv")
    (folder / "linked").symlink_to(tmp_path / "other")
    os.mkfifo(folder / "pipe")
    sizes = {path: stat.st_size for path, stat in files_at(str(folder))}
    assert sizes == {str(path): 4 for path in expand(folder)}
    assert len(sizes) == 5


@pytest.mark.parametrize("name", ["x.tmp", "sub/x.csv.tmp", "sub.tmp/x.csv", ".x", "_x"])
def test_temporary_and_hidden_names_are_not_there(name: str, folder: Path) -> None:
    put(folder / name, "1,a\n", 1)
    assert list(files_at(str(folder))) == []
    assert list(files_at(f"{folder}/*.tmp")) == [] or name == "sub.tmp/x.csv"


def test_paths_may_be_files_patterns_and_addresses(folder: Path) -> None:
    for name in ("a.csv", "b.csv", "c.txt", "sub/d.csv"):
        put(folder / name, "1,a\n", 1)

    def names_at(path: str) -> list[str]:
        return sorted(Path(name).name for name, _ in files_at(path))

    assert names_at(f"{folder}/a.csv") == ["a.csv"]
    assert names_at(f"file://{folder}/a.csv") == ["a.csv"]
    assert names_at(f"file://{folder}") == ["a.csv", "b.csv", "c.txt", "d.csv"]
    assert names_at(f"{folder}/*.csv") == ["a.csv", "b.csv"]
    assert names_at(f"{folder}/**/*.csv") == ["a.csv", "b.csv", "d.csv"]
    assert names_at(f"{folder}/*.json") == []
    for wrong in (f"{folder}/no.csv", f"{folder}/no/*.csv", ""):
        with pytest.raises(DataError) as caught:
            list(files_at(wrong))
        assert caught.value.code == "R101"
    (folder / "broken").symlink_to(folder / "nothing")
    with pytest.raises(DataError, match="is a link to"):
        list(files_at(str(folder)))


def test_a_folder_that_may_not_be_read_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.scandir", deny)
    with pytest.raises(DataError, match="permission denied") as caught:
        FolderFeed(stream_of_folder(folder), {}, 1).poll(10)
    assert caught.value.code == "R102"


# --- new files -------------------------------------------------------------------------------


def test_files_are_taken_when_they_are_at_rest_oldest_first(folder: Path, tmp_path: Path) -> None:
    deletes = tmp_path / "deletes"
    put(folder / "b.csv", "1,a\n", 100)
    put(folder / "sub/a.csv", "2,a\n", 101)
    put(folder / "c.csv", "3,a\n", 109.5)
    put(deletes / "a.csv", "1,a\n", 100)
    stream = stream_of_folder(folder, f', deletes: "{deletes}"')
    feed = FolderFeed(stream, {}, 1)
    poll = feed.poll(110)
    assert [(*names([file]), file.deletes) for file in poll.files] == [
        ("b.csv", False),
        ("a.csv", True),
        ("a.csv", False),
    ]
    assert poll.unsettled == 1
    assert {file.place for file in poll.files} == {stream.place}
    feed.acknowledge(with_checksums(poll.files))
    assert names(feed.poll(110.5).files) == ["c.csv"]
    assert content(stream, poll.files) == rows((2, "a"))


def test_a_file_that_grows_is_not_at_rest(folder: Path) -> None:
    feed = FolderFeed(stream_of_folder(folder), {}, 1)
    for now in (100, 100.6, 101.2):
        put(folder / "a.csv", "1,a\n" * int(now), now)
        assert feed.poll(now).unsettled == 1
    assert feed.poll(102.3).unsettled == 0


def test_a_time_in_the_future_is_not_waited_for(folder: Path) -> None:
    feed = FolderFeed(stream_of_folder(folder), {}, 1)
    put(folder / "a.csv", "1,a\n", 9000)
    assert feed.poll(100) == feed.poll(100.5)
    put(folder / "a.csv", "1,a\n2,b\n", 9000)
    assert feed.poll(101).unsettled == 1
    assert feed.poll(101.9).unsettled == 1
    for now in (102, 102.1):  # whoever looks first need not take it in
        assert names(feed.poll(now).files) == ["a.csv"]
        assert feed.poll(now).unsettled == 0


def test_what_was_taken_in_is_no_news_after_a_restart(folder: Path) -> None:
    put(folder / "a.csv", "1,a\n", 1)
    ingested: IngestedByPath = {}
    take(FolderFeed(stream_of_folder(folder), ingested, 1))
    put(folder / "b.csv", "1,a\n", 1)
    assert names(FolderFeed(stream_of_folder(folder), dict(ingested), 1).poll(10).files) == [
        "b.csv"
    ]


def test_contents_are_not_read_unless_size_or_time_differ(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        put(folder / f"{number}.csv", "1,a\n", 1)
    feed = FolderFeed(stream_of_folder(folder), {}, 1)
    take(feed)
    read: list[str] = []

    def note_and_checksum(file: inputs.InputFile) -> str:
        read.append(Path(file.path).name)
        return inputs.checksum(file)

    monkeypatch.setattr(folders, "checksum", note_and_checksum)
    feed.poll(10)
    feed.check_ingested()
    assert read == []
    os.utime(folder / "3.csv", (5, 5))
    assert feed.poll(10).files == ()
    feed.check_ingested()
    assert read == ["3.csv"]


# --- files that were tampered with -----------------------------------------------------------


@pytest.mark.parametrize("text", ["1,b\n", "1,a\n2,b\n"])
def test_a_file_that_changed_is_refused(text: str, folder: Path) -> None:
    feed = FolderFeed(stream_of_folder(folder), {}, 1)
    put(folder / "a.csv", "1,a\n", 1)
    take(feed)
    put(folder / "a.csv", text, 2)
    for ask in (feed.check_ingested, lambda: feed.poll(10)):
        with pytest.raises(DataError, match="changed after it was ingested") as caught:
            ask()
        assert caught.value.code == "R301"


@pytest.mark.parametrize("alone", [False, True])
def test_a_file_that_vanished_is_refused(alone: bool, folder: Path) -> None:
    feed = FolderFeed(stream_of_folder(folder / "a.csv" if alone else folder), {}, 1)
    put(folder / "a.csv", "1,a\n", 1)
    take(feed)
    (folder / "a.csv").unlink()
    for ask in (feed.check_ingested, lambda: feed.poll(10)):
        with pytest.raises(DataError, match="no longer exists") as caught:
            ask()
        assert caught.value.code == "R302"


def replacing(folder: Path, pattern: str) -> FolderFeed:
    """A feed that replaces files and has taken one in."""
    stream = stream_of_folder(f"{folder}/{pattern}", ", on_modified: replace")
    put(folder / "a.csv", "1,a\n", 1)
    archive = Archive(folder.parent / "archive", "all", folders=True)
    feed = FolderFeed(stream, {}, 1, archive, allow_empty=True)
    files = with_checksums(feed.poll(10).files)
    archive.add(0, files)
    feed.acknowledge(files)
    return feed


@pytest.mark.parametrize("pattern", ["", "*.csv"])
def test_a_folder_that_vanished_as_a_whole_takes_nothing_back(pattern: str, folder: Path) -> None:
    feed = replacing(folder, pattern)
    folder.rename(folder.parent / "elsewhere")
    with pytest.raises(DataError) as caught:
        feed.poll(10)
    assert caught.value.code == "R101"


@pytest.mark.parametrize("pattern", ["", "*.csv"])
def test_a_listing_that_is_not_whole_takes_nothing_back(pattern: str, folder: Path) -> None:
    feed = replacing(folder, pattern)
    (folder / "b.csv").symlink_to(folder / "nothing")
    with pytest.raises(DataError, match="is a link to"):
        feed.poll(10)
    (folder / "b.csv").unlink()
    assert feed.poll(10).files == ()


@pytest.mark.parametrize("pattern", ["", "*.csv", "a.csv"])
def test_a_file_that_vanished_is_taken_back(pattern: str, folder: Path) -> None:
    feed = replacing(folder, pattern)
    (folder / "a.csv").unlink()
    (file,) = feed.poll(10).files
    assert file.retracts == str(folder / "a.csv")
    feed.acknowledge(with_checksums([file]))
    put(folder / "a.csv", "1,a\n", 1)
    assert [file.retracts for file in feed.poll(10).files] == [""]


def test_a_folder_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        FolderFeed(stream_of_folder(tmp_path / "no"), {}, 1).poll(10)
    assert caught.value.code == "R101"


def test_nothing_is_replaced_without_a_copy(folder: Path, tmp_path: Path) -> None:
    stream = stream_of_folder(folder, ", on_modified: replace")
    put(folder / "a.csv", "1,a\n", 1)
    archive = Archive(tmp_path / "archive", "all")
    feed = FolderFeed(stream, {}, 1, archive)
    files = feed.poll(10).files
    archive.add(0, with_checksums(files))
    feed.acknowledge(with_checksums(files))
    put(folder / "a.csv", "2,b\n", 2)
    with pytest.raises(DataError, match="no copy of") as caught:
        feed.poll(10)
    assert caught.value.code == "R305"


def test_a_file_that_is_replaced_waits_until_it_is_at_rest(folder: Path, tmp_path: Path) -> None:
    stream = stream_of_folder(folder, ", on_modified: replace")
    put(folder / "a.csv", "1,a\n", 1)
    archive = Archive(tmp_path / "archive", "all", folders=True)
    feed = FolderFeed(stream, {}, 1, archive)
    files = feed.poll(10).files
    archive.add(0, with_checksums(files))
    feed.acknowledge(with_checksums(files))
    put(folder / "a.csv", "2,b\n3,c\n", 99.5)
    poll = feed.poll(100)
    assert (poll.files, poll.unsettled) == ((), 1)
    poll = feed.poll(101)
    assert [bool(file.retracts) for file in poll.files] == [True, False]
    assert content(stream, (*files[:0], *poll.files)) == Counter(
        {**rows((2, "b"), (3, "c")), next(iter(rows((1, "a")))): -1}
    )


def test_a_file_that_is_replaced_by_an_older_one_is_replaced_in_one_batch(
    folder: Path, tmp_path: Path
) -> None:
    """By a backup that is put back, with as few files in a batch as there may be."""
    stream = stream_of_folder(folder, ", on_modified: replace")
    for name, seconds in (("a.csv", 5), ("b.csv", 6)):
        put(folder / name, "1,a\n", seconds)
    archive = Archive(tmp_path / "archive", "all", folders=True)
    feed = FolderFeed(stream, {}, 1, archive)
    files = with_checksums(feed.poll(10).files)
    archive.add(0, files)
    feed.acknowledge(files)
    total = content(stream, [file for file, _ in files])
    for name, seconds in (("a.csv", 2), ("b.csv", 1)):
        put(folder / name, "2,b\n", seconds)
    for left in (1, 0):
        chosen = with_checksums(next_files(feed.poll(10).files, BatchLimits(1), lambda _file: True))
        assert [bool(file.retracts) for file, _ in chosen] == [True, False]
        feed.acknowledge(chosen)
        total.update(content(stream, [file for file, _ in chosen]))
        assert +total == rows(*[(1, "a")] * left, *[(2, "b")] * (2 - left))
    assert feed.poll(10).files == ()


class Replacing(RuleBasedStateMachine):
    """Files are added, changed, touched and removed; the ingested rows follow them."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.folder, self.now, self.number = self.root / "data", 100.0, 0
        self.folder.mkdir()
        self.stream = stream_of_folder(self.folder, ", on_modified: replace")
        self.ingested: IngestedByPath = {}
        self.total: Counter[bytes] = Counter()
        self.batches: list[list[tuple[inputs.InputFile, str]]] = []
        self.restart()

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @rule()
    def restart(self) -> None:
        self.archive = Archive(self.root / "archive", "all", folders=True)
        ingested = dict(self.ingested)
        self.feed = FolderFeed(self.stream, ingested, 1, self.archive, allow_empty=True)

    @rule(
        name=st.sampled_from("abc"),
        lines=st.lists(st.sampled_from(["1,x\n", "2,y\n", "z\n"])),
        age=st.sampled_from([0, 0, 25]),
    )
    def write(self, name: str, lines: list[str], age: int) -> None:
        """A file with its time now, or an older one, as a backup that is put back has it."""
        self.now += 10
        put(self.folder / name, "".join(lines), self.now - age)

    @rule(name=st.sampled_from("abc"))
    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    @rule(name=st.sampled_from("abc"))
    def touch(self, name: str) -> None:
        if (self.folder / name).exists():
            os.utime(self.folder / name, (self.now + 1, self.now + 1))

    @rule(most=st.integers(1, 3), commits=st.booleans())
    def batch(self, most: int, commits: bool) -> None:
        self.now += 10
        files = with_checksums(
            next_files(self.feed.poll(self.now).files, BatchLimits(most), lambda _file: True)
        )
        self.archive.add(self.number, files)
        if not commits:
            return
        for row, weight in content(self.stream, [file for file, _ in files]).items():
            self.total[row] += weight
        self.number += 1
        self.feed.acknowledge(files)
        self.batches.append(files)
        self.ingested = dict(self.feed.ingested)

    @rule()
    def drain(self) -> None:
        """Two batches ingest everything: one retracts rows, both may add some."""
        for _ in range(2):
            self.batch(99, commits=True)
        assert self.feed.poll(self.now + 10).files == ()
        there = [
            inputs.InputFile(path, stat.st_size, stat.st_mtime_ns, 0)
            for path, stat in files_at(str(self.folder))
        ]
        held = {row: weight for row, weight in self.total.items() if weight}
        assert held == content(self.stream, there)
        assert held == content(self.stream, list(self.archive.replay(self.batches, verify=True)))


Replacing.TestCase.settings = settings(examples(40), stateful_step_count=15)
TestReplacing = Replacing.TestCase


# --- sources that do not change --------------------------------------------------------------


def once(path: Path) -> Stream:
    return stream_of(f'source(line, "{path}", ",", type((int, string)))')


def test_a_source_is_taken_once(folder: Path) -> None:
    put(folder / "a.csv", "1,a\n", 1e12)
    put(folder / "sub/b.csv", "2,b\n", 1)
    ingested: IngestedByPath = {}
    feed = OnceFeed(once(folder), ingested, begun=False)
    assert names(feed.poll(10).files) == names(feed.poll(10).files) == ["a.csv", "b.csv"]
    files = take(feed)
    assert content(once(folder), files) == rows((1, "a"), (2, "b"))
    put(folder / "c.csv", "3,c\n", 1)
    assert feed.poll(10).files == ()
    again = OnceFeed(once(folder), ingested, begun=True)
    assert again.poll(10).files == ()
    os.utime(folder / "a.csv", (3, 3))
    again.check_ingested()
    put(folder / "a.csv", "1,b\n", 4)
    with pytest.raises(DataError) as caught:
        again.poll(10)
    assert caught.value.code == "R301"
    (folder / "a.csv").unlink()
    with pytest.raises(DataError) as caught:
        again.poll(10)
    assert caught.value.code == "R302"


def test_an_empty_source_is_taken_once_as_well(folder: Path) -> None:
    feed = OnceFeed(once(folder), {}, begun=False)
    take(feed)
    put(folder / "c.csv", "3,c\n", 1)
    assert feed.poll(10).files == ()
    with pytest.raises(DataError) as caught:
        OnceFeed(once(folder / "no"), {}, begun=False).poll(10)
    assert caught.value.code == "R101"
