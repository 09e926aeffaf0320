"""Lines of a real peer over TCP."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from incmrql.errors import DataError
from incmrql.plan.program import Stream
from incmrql.runtime.feeds import SocketFeed, sockets
from incmrql.values import Record
from tests.runtime.feeding import content, ingest, rows, stream_of


@dataclass
class Peer:
    """A server that sends a list of pieces to each of its clients, one after the other."""

    clients: list[list[bytes]]
    stays: bool = False
    """Whether the last connection is left open."""
    port: int = 0
    served: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, listener: socket.socket) -> None:
        listener.settimeout(0.05)
        while not self.stop.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                if self.served < len(self.clients):
                    for piece in self.clients[self.served]:
                        connection.sendall(piece)
                        time.sleep(0.01)
                    self.served += 1
                    if self.stays and self.served == len(self.clients):
                        self.stop.wait()


@contextmanager
def serving(*clients: list[bytes], stays: bool = False, port: int = 0) -> Iterator[Peer]:
    peer = Peer(list(clients), stays)
    with socket.create_server(("127.0.0.1", port)) as listener:
        peer.port = listener.getsockname()[1]
        thread = threading.Thread(target=peer.run, args=(listener,))
        thread.start()
        try:
            yield peer
        finally:
            peer.stop.set()
            thread.join()


@contextmanager
def reading(stream: Stream, folder: Path, every: float = 1.0) -> Iterator[SocketFeed]:
    feed = SocketFeed(stream, folder, every=every)
    try:
        yield feed
    finally:
        feed.close()


def until(done: Callable[[], bool]) -> None:
    patience = time.monotonic() + 60
    while not done():
        assert time.monotonic() < patience, "nothing happened"
        time.sleep(0.01)


def source(peer: Peer, format_: str, more: str = "") -> Stream:
    return stream_of(f'stream({format_}, "127.0.0.1", {peer.port}{more})')


LINE = ', ",", type((int, string))'


def test_lines_arrive_whole_however_they_are_cut(tmp_path: Path) -> None:
    with serving([b"1,a\n2,", b"b\r\n3", b",c\n4,cut"], stays=True) as peer:
        stream = source(peer, "line", LINE)
        with reading(stream, tmp_path) as feed:
            total: Counter[bytes] = Counter()
            until(lambda: (total.update(ingest(feed, stream)), total.total() == 3)[1])
            before = feed.status
        assert (before.connected, before.lines, before.cut_off) == (True, 3, 0)
        after = feed.status
        assert (after.connected, after.lines, after.cut_off) == (False, 3, 1)
    assert total == rows((1, "a"), (2, "b"), (3, "c"))
    assert list(tmp_path.iterdir()) == []


def test_the_connection_is_made_again_when_the_peer_closes_it(tmp_path: Path) -> None:
    with serving([b"1,a\n2,cut"], [], [b"3,c\n"], stays=True) as peer:
        stream = source(peer, "line", LINE)
        with reading(stream, tmp_path) as feed:
            until(lambda: feed.status.lines == 2)
            assert feed.status.connections == 3
            assert feed.status.cut_off == 1
            assert ingest(feed, stream) == rows((1, "a"), (3, "c"))


def test_a_peer_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    with serving() as peer:
        stream = source(peer, "text")
    with reading(stream, tmp_path) as feed:
        until(lambda: "refused" in feed.status.problem.lower())
        assert feed.poll(0).files == ()
        with serving([b"hello\n"], stays=True, port=peer.port):
            until(lambda: feed.status.lines == 1)
            assert feed.status.problem == ""
            assert ingest(feed, stream) == rows("hello")


def test_json_and_bad_lines(tmp_path: Path) -> None:
    with serving([b'{"a": 1}\n{"a": \n{"a": 2}\n'], stays=True) as peer:
        stream = source(peer, "json", ", type(< a: int >)")
        with reading(stream, tmp_path) as feed:
            until(lambda: feed.status.lines == 3)
            assert ingest(feed, stream) == rows(Record({"a": 1}), Record({"a": 2}))


def test_a_header_is_of_the_connection(tmp_path: Path) -> None:
    texts = [b"B,A\nx,1\n", b"y,2\n"], [b"A,B\n", b"3,z\n"]
    with serving(*texts, stays=True) as peer:
        stream = source(peer, "csv", ', ",", type(< A: int, B: string >), header: true')
        with reading(stream, tmp_path, every=0) as feed:
            until(lambda: feed.status.lines == 3)
            files = feed.poll(0).files
            assert len(files) >= 2
            records = [Record({"A": a, "B": b}) for a, b in [(1, "x"), (2, "y"), (3, "z")]]
            assert content(stream, files) == rows(*records)


def test_a_document_is_what_comes_over_a_connection(tmp_path: Path) -> None:
    with serving([b"<r><p><n>1</n></p>", b"<p><n>2</n></p></r>"], [b"<r><p>"], stays=True) as peer:
        stream = source(peer, "xml", ', {"p"}, type(< n: int >)')
        with reading(stream, tmp_path) as feed:
            until(lambda: bool(feed.poll(0).files))
            assert ingest(feed, stream) == rows(Record({"n": 1}), Record({"n": 2}))
            until(lambda: feed.status.connections == 2)
            assert feed.poll(0).files == ()


def test_lines_are_on_disk_after_a_while_without_a_look(tmp_path: Path) -> None:
    with serving([b"one\n"], stays=True) as peer:
        stream = source(peer, "text")
        with reading(stream, tmp_path, every=0.1) as feed:
            until(lambda: bool(list(tmp_path.glob("*.received"))))
            assert feed.status.connected


def test_complete_lines_that_a_crash_left_are_taken(tmp_path: Path) -> None:
    with serving() as peer:
        stream = source(peer, "text")
    (tmp_path / "1-a.open").write_bytes(b"one\ntwo\nthr")
    (tmp_path / "2-b.open").write_bytes(b"piece")
    (tmp_path / "0-c.received").write_bytes(b"zero\n")
    (tmp_path / "0-d.received").write_bytes(b"committed\n")
    feed = SocketFeed(stream, tmp_path, ["elsewhere/0-d.received"])
    assert ingest(feed, stream) == rows("zero", "one", "two")
    feed.close()
    assert list(tmp_path.iterdir()) == []


def test_a_line_without_end_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "LONGEST_LINE", 100)
    with serving([b"x" * 500], stays=True) as peer, reading(source(peer, "text"), tmp_path) as feed:
        until(lambda: "longer than max_line (100 bytes)" in feed.status.problem)
        until(lambda: feed.status.cut_off > 0)
        notices = feed.poll(0).notices
        assert f":{peer.port}: " in notices[0]
        assert notices[0].endswith("dropped: longer than max_line (100 bytes)")


def test_a_full_disk_is_told_by_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with serving([b"one\n"], stays=True) as peer, reading(source(peer, "text"), tmp_path) as feed:
        until(lambda: feed.status.lines == 1)
        with monkeypatch.context() as patched:
            patched.setattr("os.fsync", full)
            with pytest.raises(DataError, match="no space left") as caught:
                feed.poll(0)
        assert caught.value.code == "R130"


@pytest.mark.parametrize("address", ['"", 80', '"host", 0', '"host", 70000', '"host", -1'])
def test_an_address_that_is_none_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        SocketFeed(stream_of(f"stream(text, {address})"), tmp_path)
    assert caught.value.code == "R310"


def test_a_host_that_is_none_is_told(tmp_path: Path) -> None:
    name = "x" * 70 + ".example"
    with reading(stream_of(f'stream(text, "{name}", 80)'), tmp_path) as feed:
        until(lambda: bool(feed.status.problem))
