"""Feeds of rows that exist nowhere else: pushed, registered, or of a streaming data frame."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter, namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import incmrql
from incmrql.errors import DataError
from incmrql.io import spools
from incmrql.io.arrow.types import arrow_type
from incmrql.runtime.feeds import Archive, FrameFeed, PushFeed, RegisteredFeed, push
from incmrql.values import Record, encode
from tests.effort import examples
from tests.runtime.feeding import content, ingest, push_stream, rows, take, with_checksums

ROW = "< X: int, Y: string >"
STREAM = push_stream(ROW)
MARK = 16
"""Bytes of the mark after a call."""
FIXTURES = Path(__file__).parents[1] / "fixtures"


def record(x: int | None, y: str | None = "a") -> Record:
    return Record({"X": x, "Y": y})


# --- push ------------------------------------------------------------------------------------


@dataclass
class Point:
    X: int
    Y: str


Pair = namedtuple("Pair", ["X", "Y"])


@pytest.mark.parametrize(
    "given_rows",
    [
        [{"X": 1, "Y": "a"}],
        [{"Y": "a", "X": 1}],
        [(1, "a")],
        (Point(1, "a"),),
        iter([Pair(1, "a")]),
        [record(1)],
        pd.DataFrame({"X": [1], "Y": ["a"]}),
        pa.table({"Y": ["a"], "X": [1]}),
    ],
)
def test_rows_may_be_any_python_objects(given_rows: Any, tmp_path: Path) -> None:
    feed = PushFeed(STREAM, tmp_path)
    assert feed.insert(given_rows) == 1
    assert content(STREAM, feed.poll(0).files) == rows(record(1))


def test_pushes_are_taken_once_by_the_next_batch(tmp_path: Path) -> None:
    feed = PushFeed(STREAM, tmp_path)
    feed.insert([record(1), record(None)])
    feed.insert([record(1)])
    feed.delete([record(2)])
    feed.insert([])
    (file,) = feed.poll(0).files
    assert (file.kind, file.place) == ("spool", STREAM.place)
    assert content(STREAM, [file]) == Counter(
        {encode(record(1)): 2, encode(record(None)): 1, encode(record(2)): -1}
    )
    assert feed.poll(0).files == (file,)
    feed.insert([record(3)])
    (first, second) = feed.poll(0).files
    assert first == file
    feed.acknowledge(with_checksums([first]))
    assert take(feed) == (second,)
    assert feed.poll(0).files == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"X": "z", "Y": "a"}, "row 2, field \"X\": 'z' is not a value of type int"),
        ({"X": 1}, 'row 2: .* has no "Y"'),
        ((1, 5), 'row 2, field "Y": 5 is not'),
        (Point(2**40, "a"), 'row 2, field "X": 1099511627776 is not'),
        (5, "row 2: 5 is not a value of type <"),
        ({"X": 1, "Y": "\ud800"}, "row 2: a string holds half"),
        ({"X": True, "Y": "y" * 1000}, 'row 2, field "X": True'),
    ],
)
def test_a_call_with_a_bad_row_is_refused_whole(bad: Any, words: str, tmp_path: Path) -> None:
    feed = PushFeed(STREAM, tmp_path)
    with pytest.raises(DataError, match=words) as caught:
        feed.insert([record(1), record(2), bad])
    assert caught.value.code == "R306"
    assert len(caught.value.message) < 300
    assert feed.poll(0).files == ()


@pytest.mark.parametrize("wrong", [{"X": 1, "Y": "a"}, "ab", record(1), 5])
def test_one_row_is_not_taken_for_many(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rows must be a list") as caught:
        PushFeed(STREAM, tmp_path).insert(wrong)
    assert caught.value.code == "R306"


def test_a_null_row_is_refused_where_rows_are_in_columns(tmp_path: Path) -> None:
    feed = PushFeed(STREAM, tmp_path / "a")
    assert not STREAM.packed
    with pytest.raises(DataError, match="row 1 is null") as caught:
        feed.insert([record(1), None])
    assert caught.value.code == "R303"
    assert feed.poll(0).files == ()
    numbers = push_stream("int")
    other = PushFeed(numbers, tmp_path / "b")
    other.insert([1, None])
    assert content(numbers, other.poll(0).files) == rows(1, None)


def test_fields_inside_fields_are_named(tmp_path: Path) -> None:
    stream = push_stream("< P: (int, < Q: double >) >")
    with pytest.raises(DataError, match=r'row 0, field "P._2.Q"'):
        PushFeed(stream, tmp_path).insert([{"P": (1, {"Q": "x"})}])


@pytest.mark.parametrize("as_table", [pa.Table.from_pylist, pd.DataFrame, list])
def test_a_field_that_the_stream_does_not_have_is_named(as_table: Any, tmp_path: Path) -> None:
    feed = PushFeed(push_stream("< X: int, Y: int >"), tmp_path)
    for call in (feed.insert, feed.delete):
        with pytest.raises(DataError, match=r'row 0: there is no field "Z" in < X') as caught:
            call(as_table([{"X": 1, "Y": 2, "Z": 3}]))
        assert caught.value.code == "R306"
    assert feed.poll(0).files == ()
    inside = PushFeed(push_stream("< P: bag(< Q: int >) >"), tmp_path / "inside")
    with pytest.raises(DataError, match=r'row 0, field "P": there is no field "R"'):
        inside.insert(as_table([{"P": [{"Q": 1, "R": 2}]}]))


def test_nothing_is_deleted_from_a_stream_that_only_grows(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        PushFeed(push_stream(ROW, insert_only=True), tmp_path).delete([record(1)])
    assert caught.value.code == "R309"


def test_a_stream_that_is_closed_takes_no_rows(tmp_path: Path) -> None:
    feed = PushFeed(STREAM, tmp_path)
    feed.insert([record(1)])
    feed.close()
    with pytest.raises(DataError) as caught:
        feed.insert([record(1)])
    assert caught.value.code == "R308"
    assert content(STREAM, PushFeed(STREAM, tmp_path).poll(0).files) == rows(record(1))


def test_rows_survive_a_crash_from_the_call_on(tmp_path: Path) -> None:
    lost = PushFeed(STREAM, tmp_path)
    lost.insert([record(1)])
    lost.insert([record(2)])
    assert content(STREAM, PushFeed(STREAM, tmp_path).poll(0).files) == rows(record(1), record(2))
    lost.close()


KILLED = """
import sys
from pathlib import Path
from incmrql.runtime.feeds import PushFeed
from tests.runtime.feeding import push_stream

feed = PushFeed(push_stream("< X: int, Y: string >"), Path(sys.argv[1]))
for number in range(1000000):
    feed.insert([(number, "a")] * 3)
    print(number, flush=True)
    if number % 5 == 4:
        feed.poll(0)
"""


def test_what_was_confirmed_before_a_kill_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(23):
            process.stdout.readline()
        process.kill()
        last = max([22, *map(int, process.stdout.read().split())])
    rows = content(STREAM, PushFeed(STREAM, tmp_path).poll(0).files)
    assert set(rows.values()) == {3}
    assert len(rows) in (last + 1, last + 2)
    assert all(encode(record(number)) in rows for number in range(last + 1))


@examples(60)
@given(st.data(), st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), max_size=4))
def test_a_call_that_was_cut_off_is_not_taken(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, calls: list[list[int]]
) -> None:
    folder = tmp_path_factory.mktemp("push")
    feed = PushFeed(STREAM, folder)
    ends = [0]
    for call in calls:
        feed.insert([record(x) for x in call])
        ends += [log.stat().st_size for log in folder.glob("*.pushed")]
    feed.close()
    whole = 0
    if calls:
        cut = data.draw(st.integers(0, ends[-1]))
        whole = sum(end - MARK * bool(end) <= cut for end in ends) - 1
        # Zeros after a whole call are what a disk may show; inside one they may be what was there.
        tails = [b"", b"\0" * 50, b"\xff" * 5] if cut in ends else [b""]
        (log,) = folder.glob("*.pushed")
        log.write_bytes(log.read_bytes()[:cut] + data.draw(st.sampled_from(tails)))
    content_read = content(STREAM, PushFeed(STREAM, folder).poll(0).files)
    assert content_read == rows(*(record(x) for call in calls[:whole] for x in call))
    assert [path.suffix for path in folder.iterdir()] == [".arrow"] * bool(whole)


def three_calls(folder: Path) -> tuple[Path, bytes, list[int]]:
    """A log of three calls that nobody has read, its bytes, and where its records end."""
    feed = PushFeed(STREAM, folder)
    feed.insert([record(0)])
    (log,) = folder.glob("*.pushed")
    ends = [log.stat().st_size]
    for x in (1, 2):
        feed.insert([record(x)])
        ends.append(log.stat().st_size)
    feed.close()
    return log, log.read_bytes(), ends


def read_again(folder: Path, log: Path, content_before: bytes) -> Counter[bytes] | None:
    """The rows of a log with these bytes; None if they are refused as damaged, and kept."""
    for path in folder.iterdir():
        path.unlink()
    log.write_bytes(content_before)
    feed = PushFeed(STREAM, folder)
    try:
        return content(STREAM, feed.poll(0).files)
    except DataError:
        with pytest.raises(DataError, match="is damaged: its checksum differs"):
            feed.poll(0)
        assert log.read_bytes() == content_before
        return None


@pytest.mark.parametrize(
    "place",
    ["length", "checksum", "content", "last length", "last checksum", "last content", "last byte"],
)
def test_a_log_in_which_a_bit_flipped_is_refused(place: str, tmp_path: Path) -> None:
    """Also in the last record, and in a length that then reaches beyond the end of the log."""
    log, data, ends = three_calls(tmp_path)
    start = ends[1] if place.startswith("last") else 0
    at = {"length": start + 6, "checksum": start + 8, "content": start + 40, "byte": ends[2] - 17}
    flipped = bytearray(data)
    flipped[at[place.split()[-1]]] ^= 0x20
    assert read_again(tmp_path, log, bytes(flipped)) is None


@given(data=st.data())
def test_no_flipped_bit_drops_rows_that_were_confirmed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("push")
    log, whole, ends = three_calls(folder)
    flipped = bytearray(whole)
    flipped[data.draw(st.integers(0, ends[-1] - 1))] ^= 1 << data.draw(st.integers(0, 7))
    after = read_again(folder, log, bytes(flipped))
    assert after in (None, rows(record(0), record(1), record(2)))


def test_a_call_that_was_cut_off_is_reported(tmp_path: Path) -> None:
    log, whole, ends = three_calls(tmp_path)
    log.write_bytes(whole[: ends[1] + 100])
    feed = PushFeed(STREAM, tmp_path)
    first = feed.poll(0)
    assert content(STREAM, first.files) == rows(record(0), record(1))
    (notice,) = first.notices
    assert notice.startswith(
        '"rows": a call that pushed rows was cut off by a crash; its 100 bytes'
    )
    assert feed.poll(0).notices == ()


def test_a_log_of_an_older_version_is_read(tmp_path: Path) -> None:
    """It has no marks; a damaged last record is dropped, but not silently any more."""
    (kept,) = (FIXTURES / "pushed-1").iterdir()
    log = tmp_path / kept.name
    assert read_again(tmp_path, log, kept.read_bytes()) == rows(record(2, "b"), record(3, "c"))
    for path in tmp_path.iterdir():
        path.unlink()
    log.write_bytes(kept.read_bytes()[:-20])
    arrived = PushFeed(STREAM, tmp_path).poll(0)
    assert content(STREAM, arrived.files) == rows(record(1), record(2, "b"), record(3, "c"))
    assert len(arrived.notices) == 1


def test_a_crash_between_spool_and_log_doubles_nothing(tmp_path: Path) -> None:
    feed = PushFeed(STREAM, tmp_path)
    feed.insert([record(1)])
    (log,) = tmp_path.glob("*.pushed")
    kept = log.read_bytes()
    (file,) = feed.poll(0).files
    log.write_bytes(kept)
    (tmp_path / f".{Path(file.path).name}.123.tmp").write_bytes(b"half")
    again = PushFeed(STREAM, tmp_path)
    assert content(STREAM, again.poll(0).files) == rows(record(1))
    log.write_bytes(kept)
    done = PushFeed(STREAM, tmp_path, [file.path])
    assert done.poll(0).files == ()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_and_leaves_no_half_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = PushFeed(STREAM, tmp_path)
    feed.insert([record(1)])

    def full(log: Any, content: bytes) -> None:
        log.write(content[:20])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(push, "_write_all", full)
        with pytest.raises(DataError, match="no space left") as caught:
            feed.insert([record(2)])
    assert caught.value.code == "R130"
    feed.insert([record(3)])
    assert content(STREAM, feed.poll(0).files) == rows(record(1), record(3))


def test_what_the_disk_did_not_confirm_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = PushFeed(STREAM, tmp_path)
    feed.insert([record(1)])

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fail)
        with pytest.raises(DataError, match="input/output error"):
            feed.insert([record(2)])
    assert content(STREAM, feed.poll(0).files) == rows(record(1))


class Busy:
    """A lock of a feed on which another thread waits: it inserts as soon as the lock is free."""

    def __init__(self, feed: PushFeed) -> None:
        self.feed, self.lock, self.waits = feed, threading.Lock(), True

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()
        if self.waits:
            self.waits = False
            self.feed.insert([record(2)])


def test_rows_that_are_pushed_during_a_look_are_not_lost(tmp_path: Path) -> None:
    feed = PushFeed(STREAM, tmp_path)
    feed.insert([record(1)])
    feed._lock = Busy(feed)  # type: ignore[assignment]
    assert ingest(feed, STREAM) == rows(record(1))
    feed.insert([record(3)])
    assert ingest(feed, STREAM) == rows(record(2), record(3))


@pytest.mark.parametrize(
    "given_rows",
    [pa.table({"X": [1, 2**40], "Y": ["a", "b"]}), pd.DataFrame({"X": [1, 2**40], "Y": "a"})],
)
def test_the_row_of_a_table_that_is_at_fault_is_named(given_rows: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match='row 1, field "X"') as caught:
        PushFeed(STREAM, tmp_path).insert(given_rows)
    assert caught.value.code == "R306"


def test_tables_are_pushed_as_their_rows_are(tmp_path: Path) -> None:
    table = pa.table({"Y": ["a", None, "c"], "X": pa.array([1, 2, None], pa.int32())})
    fast, slow = PushFeed(STREAM, tmp_path / "a"), PushFeed(STREAM, tmp_path / "b")
    assert fast.delete(table) == slow.delete(table.to_pylist()) == 3
    assert fast.insert(table.slice(0, 0)) == 0
    assert content(STREAM, fast.poll(0).files) == content(STREAM, slow.poll(0).files)
    structs = pa.array([{"X": 1, "Y": "a"}, None], arrow_type(STREAM.element))
    with pytest.raises(DataError):
        fast.insert(pa.table({"value": structs}))
    assert fast.insert(pa.table({"value": structs.drop_null()})) == 1
    fast.close()


def test_threads_push_at_once(tmp_path: Path) -> None:
    feed = PushFeed(STREAM, tmp_path)
    total: Counter[bytes] = Counter()
    done = threading.Event()

    def work(x: int) -> None:
        for _ in range(20):
            feed.insert([record(x)])

    def take_in() -> None:
        while not done.is_set():
            total.update(ingest(feed, STREAM))

    workers = [threading.Thread(target=work, args=(x,)) for x in range(4)]
    taker = threading.Thread(target=take_in)
    for thread in (*workers, taker):
        thread.start()
    for thread in workers:
        thread.join()
    done.set()
    taker.join()
    total.update(ingest(feed, STREAM))
    assert total == Counter({encode(record(x)): 20 for x in range(4)})


def test_large_pushes_are_read_in_small_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "BATCH", 4)
    monkeypatch.setattr(spools, "BATCH", 4)
    feed = PushFeed(STREAM, tmp_path)
    feed.insert([record(x) for x in range(10)])
    for x in range(10, 16):
        feed.insert([record(x)])
    (file,) = feed.poll(0).files
    sizes = [batch.num_rows for batch in spools.read_spool(Path(file.path), STREAM.element)]
    assert sizes == [4, 4, 4, 4]
    assert content(STREAM, [file]) == rows(*map(record, range(16)))


# --- registered data -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        [{"X": 1, "Y": "a"}, (None, None)],
        pa.table({"X": pa.array([1, None], pa.int64()), "Y": ["a", None]}),
        pa.table({"X": pa.array([1, None], pa.int32()), "Y": ["a", None], "Z": [1, 2]}),
        pd.DataFrame({"X": pd.array([1, None], "Int32"), "Y": ["a", None]}),
        iter([pa.table({"X": pa.array([1], pa.int16()), "Y": ["a"]}),
              pa.table({"X": pa.array([None], pa.int16()), "Y": pa.array([None], pa.string())})]),
    ],
)  # fmt: skip
def test_registered_data_are_taken_once(data: Any, tmp_path: Path) -> None:
    feed = RegisteredFeed(STREAM, tmp_path, data, begun=False)
    assert feed.poll(0) == feed.poll(0)
    files = feed.poll(0).files
    assert content(STREAM, files) == rows(record(1), record(None, None))
    feed.acknowledge(with_checksums(files))
    assert feed.poll(0).files == ()
    assert RegisteredFeed(STREAM, tmp_path, [], begun=True).poll(0).files == ()


def test_data_of_a_run_that_took_in_nothing_are_not_used(tmp_path: Path) -> None:
    RegisteredFeed(STREAM, tmp_path, [record(1)], begun=False).poll(0)
    feed = RegisteredFeed(STREAM, tmp_path, [record(2)], begun=False)
    assert content(STREAM, feed.poll(0).files) == rows(record(2))


OBJECTS = pd.DataFrame({"X": [1, 2], "Y": ["a", object()]})


def test_a_pandas_column_of_objects_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match='column "Y" of "rows" has objects that no type') as caught:
        RegisteredFeed(STREAM, tmp_path / "a", OBJECTS, begun=False).poll(0)
    assert caught.value.code == "R208"
    with pytest.raises(DataError, match='column "Y" of "rows" has objects that no type') as caught:
        PushFeed(STREAM, tmp_path / "b").insert(OBJECTS)
    assert caught.value.code == "R306"
    with pytest.raises(DataError, match=r'column "Y" of "t" .*\(object, str\)') as caught:
        incmrql.Session().register("t", OBJECTS)
    assert caught.value.code == "R208"


@pytest.mark.parametrize(
    "data", [[{"X": "z", "Y": "a"}], pa.table({"X": ["z"], "Y": ["a"]}), [(1,)]]
)
def test_registered_data_of_another_type_are_refused(data: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        RegisteredFeed(STREAM, tmp_path, data, begun=False).poll(0)
    assert caught.value.code == "R208"
    assert list(tmp_path.iterdir()) == []


# --- streaming data frames -----------------------------------------------------------------------


def table(*xs: int | None, **more: Any) -> Any:
    return pa.table({"X": pa.array(xs, pa.int32()), "Y": ["a"] * len(xs), **more})


def test_batches_of_a_frame_are_taken_once(tmp_path: Path) -> None:
    feed = FrameFeed(STREAM, tmp_path)
    assert feed.take([table(1), table(2)], "q", 0)
    assert not feed.take([table(1), table(2)], "q", 0)
    assert feed.take([table(1)], "other query/ü", 0)
    total = ingest(feed, STREAM)
    assert not feed.take([table(1), table(2)], "q", 0)
    feed = FrameFeed(STREAM, tmp_path)
    assert not feed.take([table(1), table(2)], "q", 0)
    assert not feed.take([table(1)], "other query/ü", 0)
    assert feed.take([table()], "q", 1)
    assert feed.poll(0).files == ()
    assert feed.take([table(3)], "q", 2)
    total += ingest(feed, STREAM)
    assert total == rows(record(1), record(1), record(2), record(3))


def test_a_batch_is_taken_once_whenever_the_crash_was(tmp_path: Path) -> None:
    FrameFeed(STREAM, tmp_path).take([table(1)], "q", 5)
    (tmp_path / "q.json").unlink()  # the crash came before it was written
    (tmp_path / ".q.000000000006.arrow.1.tmp").write_bytes(b"half")
    feed = FrameFeed(STREAM, tmp_path)
    assert ingest(feed, STREAM) == rows(record(1))
    assert not feed.take([table(1)], "q", 5)
    assert feed.take([table(2)], "q", 6)
    (file,) = feed.poll(0).files
    (tmp_path / "q.json").unlink()
    again = FrameFeed(STREAM, tmp_path, [file.path])  # committed, and not yet removed
    assert again.poll(0).files == ()
    assert not again.take([table(2)], "q", 6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["q.json"]


@pytest.mark.parametrize("signs", [[1, -1, 3, 0], ["+", "delete", "insert", "-"]])
def test_a_declared_sign_counts_rows(signs: list[Any], tmp_path: Path) -> None:
    stream = push_stream(ROW, sign="_weight")
    feed = FrameFeed(stream, tmp_path)
    feed.take([table(1, 2, 3, 4, _weight=signs)], "q", 0)
    weights = signs if signs[0] == 1 else [1, -1, 1, -1]
    wanted = {encode(record(x)): w for x, w in zip((1, 2, 3, 4), weights, strict=True) if w}
    (file,) = feed.poll(0).files
    assert content(stream, [file]) == Counter(wanted)
    (batch,) = spools.read_spool(Path(file.path), stream.element)
    assert batch.num_rows == len(wanted)


@pytest.mark.parametrize(
    ("given_table", "code"),
    [
        (table(1), "R112"),
        (table(1, _weight=["?"]), "R306"),
        (table(1, _weight=pa.array([None], pa.int32())), "R306"),
        (pa.table({"X": [1], "_weight": [1]}), "R306"),
        (pa.table({"X": [1], "Y": ["a"], "_weight": [1]}), "R306"),
    ],
)
def test_a_frame_of_another_shape_is_refused_whole(
    given_table: Any, code: str, tmp_path: Path
) -> None:
    feed = FrameFeed(push_stream(ROW, sign="_weight"), tmp_path)
    with pytest.raises(DataError) as caught:
        feed.take([table(1, _weight=[1]), given_table], "q", 0)
    assert caught.value.code == code
    assert feed.poll(0).files == ()
    assert feed.take([table(1, _weight=[1])], "q", 0)


def test_without_a_declared_sign_the_column_is_not_looked_at(tmp_path: Path) -> None:
    feed = FrameFeed(STREAM, tmp_path)
    feed.take([table(1, _weight=[5])], "q", 0)
    assert content(STREAM, feed.poll(0).files) == rows(record(1))


# --- archive -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keep", "kept"), [("all", 6), (2, 2), ("none", 0)])
def test_the_input_of_the_last_batches_is_kept(keep: Any, kept: int, tmp_path: Path) -> None:
    feed, archive = PushFeed(STREAM, tmp_path / "push"), Archive(tmp_path / "archive", keep)
    batches = []
    for number in range(6):
        feed.insert([record(number)])
        files = with_checksums(feed.poll(0).files)
        archive.add(number, files)
        archive.add(number, files)
        feed.acknowledge(files)
        archive.clean(number)
        batches.append(files)
    assert len(list((tmp_path / "archive").iterdir())) == kept
    (tmp_path / "archive" / ".left.tmp").write_bytes(b"half")
    again = Archive(tmp_path / "archive", keep)
    for copies in (archive, again):
        last = list(copies.replay(batches[6 - kept :]))
        assert content(STREAM, last) == rows(*map(record, range(6 - kept, 6)))
        if kept < 6:
            with pytest.raises(DataError, match="was not kept") as caught:
                copies.replay(batches)
            assert caught.value.code == "R305"
            assert f"{5 - kept} more" in str(caught.value) or kept == 5
    assert len(list((tmp_path / "archive").iterdir())) == kept
