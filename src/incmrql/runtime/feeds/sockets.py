"""Lines that a peer sends over TCP, written to files that batches ingest.

TCP does not acknowledge that data are stored: lines that have arrived but are not in a file on disk
yet (at most those of the last second) are lost in a crash of the machine, and while nobody is
connected the peer has to keep its lines.  A line is complete when its end arrives; an incomplete
line at the end of a connection is dropped and counted.  Each line is a row or a JSON document; with
`header`, the first line of a connection names the columns.  XML has no lines: everything that comes
over one connection is one document.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from incmrql.errors import DataError, InternalError
from incmrql.plan.program import Stream
from incmrql.runtime.feeds.spooled import Arrivals, SpoolFolder
from incmrql.storage import fsync
from incmrql.storage.files import write_error

LONGEST_LINE: Final = 1 << 26
_PIECE: Final = 1 << 16
_WAIT: Final = 0.2
"""Seconds that a read waits before it checks whether to stop or to close a file."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 30.0
_LARGEST: Final = 1 << 26
"""A file is closed when it has this many bytes."""
_OPEN: Final = ".open"
_READY: Final = ".received"


@dataclass(frozen=True, slots=True)
class SocketStatus:
    """The state of a connection, with counters."""

    connected: bool = False
    connections: int = 0
    lines: int = 0
    cut_off: int = 0
    """Lines whose end never came."""
    too_long: int = 0
    """Those of them that were longer than a line may be."""
    problem: str = ""


class SocketFeed(SpoolFolder):
    """A client of a peer that sends lines; it reconnects when the connection ends.

    A file has the lines of at most `every` seconds.
    """

    def __init__(
        self, stream: Stream, folder: Path, ingested: Iterable[str] = (), *, every: float = 1.0
    ) -> None:
        if stream.socket is None:
            raise InternalError(f"{stream.name} is not a socket")
        _check(*stream.socket, stream.name)
        super().__init__(stream.place, folder, ingested, "received")
        self._address, self._every = stream.socket, every
        self._whole = stream.source.format == "xml"
        options = dict(stream.source.options)
        self._headed = bool(options.get("header"))
        self._longest = options.get("max_line", LONGEST_LINE)
        self._header = b""
        self._rest = bytearray()
        self._file: BinaryIO | None = None
        self._begun = 0.0
        self._failure: DataError | None = None
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._status = self._polled = SocketStatus()
        self._salvage()
        self._thread = threading.Thread(target=self._run, name=f"feed {stream.name}", daemon=True)
        self._thread.start()

    @property
    def status(self) -> SocketStatus:
        """The current state of the connection."""
        return self._status

    def poll(self, now: float) -> Arrivals:  # noqa: ARG002 - closed files do not change
        """The files of all complete lines that have arrived."""
        with self._lock:
            if not self._whole:
                self._end_file()
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
        return replace(self.waiting(_READY), notices=self._notices())

    def _notices(self) -> tuple[str, ...]:
        """Notices of lines that were dropped since the last poll."""
        before, now = self._polled, self._status
        self._polled = now
        host, port = self._address
        too_long = now.too_long - before.too_long
        cut_off = now.cut_off - before.cut_off - too_long
        notices = []
        if too_long:
            notices.append(
                f"{host}:{port}: {_count(too_long)} longer than max_line ({self._longest} bytes)"
            )
        if cut_off:
            notices.append(f"{host}:{port}: {_count(cut_off)} cut off, as the connection ended")
        return tuple(notices)

    def close(self) -> None:
        """End the connection; lines that have arrived stay."""
        self._stop.set()
        self._thread.join()
        with self._lock:
            self._end_file()

    # --- the connection ------------------------------------------------------------------------

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stop.is_set():
            before = self._status.lines
            problem = ""
            try:
                with socket.create_connection(self._address, timeout=5.0) as connection:
                    connections = self._status.connections + 1
                    self._say(connected=True, connections=connections, problem="")
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                    connection.settimeout(_WAIT)
                    problem = self._receive(connection)
            except OSError as cause:
                problem = cause.strerror or str(cause)
            except UnicodeError as cause:  # not a valid host name
                problem = str(cause)
            self._say(connected=False, problem=problem)
            self._end_connection()
            pause = _FIRST_PAUSE if self._status.lines > before else pause
            self._stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _receive(self, connection: socket.socket) -> str:
        """Receive until the connection ends; returns the reason."""
        self._rest.clear()
        self._header = b""
        while not self._stop.is_set():
            try:
                piece = connection.recv(_PIECE)
            except TimeoutError:
                piece = None
            with self._lock:
                if piece:
                    self._take(piece)
                if self._file is not None and self._is_due():
                    self._end_file()
            if piece == b"":
                return "the peer closed the connection"
            if len(self._rest) > self._longest:
                self._say(too_long=self._status.too_long + 1)
                return f"a line is longer than max_line ({self._longest} bytes)"
        return ""

    def _is_due(self) -> bool:
        if self._whole or self._file is None:
            return False
        return time.monotonic() - self._begun >= self._every or self._file.tell() >= _LARGEST

    def _take(self, piece: bytes) -> None:
        if self._whole:
            self._write(piece)
            return
        self._rest += piece
        end = self._rest.rfind(b"\n", max(0, len(self._rest) - len(piece))) + 1
        if not end:
            return
        lines = bytes(self._rest[:end])
        del self._rest[:end]
        if self._headed and not self._header:
            first = lines.index(b"\n") + 1
            self._header, lines = lines[:first], lines[first:]
        if lines:
            self._write(lines)

    def _end_connection(self) -> None:
        with self._lock:
            if self._rest:
                self._say(cut_off=self._status.cut_off + 1)
                self._rest.clear()
            self._end_file()

    def _say(self, **now: object) -> None:
        self._status = replace(self._status, **now)  # type: ignore[arg-type]

    # --- files ---------------------------------------------------------------------------------

    def _write(self, content: bytes) -> None:
        try:
            if self._file is None:
                self._file = self.new_path(_OPEN).open("xb")
                self._begun = time.monotonic()
                self._file.write(self._header)
            self._file.write(content)
            self._say(lines=self._status.lines + content.count(b"\n"))
        except OSError as cause:
            self._fail(cause)

    def _end_file(self) -> None:
        """Close the current file, so that its lines can be ingested."""
        if self._file is None:
            return
        file, self._file = self._file, None
        path = Path(file.name)
        try:
            with file:
                file.flush()
                os.fsync(file.fileno())
            path.rename(path.with_suffix(_READY))
            fsync(self.folder)
        except OSError as cause:
            self._fail(cause)

    def _fail(self, cause: OSError) -> None:
        """Keep a write error until the next poll raises it."""
        self._failure = write_error(self.folder, cause.strerror or str(cause))
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _salvage(self) -> None:
        """Recover the complete lines of files that a crash left open."""
        for path in self.folder.glob(f"*{_OPEN}"):
            if self._whole:
                path.rename(path.with_suffix(_READY))
                continue
            with path.open("r+b") as file:
                content = file.read()
                end = content.rfind(b"\n") + 1
                file.truncate(end)
                os.fsync(file.fileno())
            if end:
                path.rename(path.with_suffix(_READY))
            else:
                path.unlink()
        fsync(self.folder)


def _count(lines: int) -> str:
    return f"{lines} lines were dropped:" if lines > 1 else "1 line was dropped:"


def _check(host: str | None, port: int | None, name: str) -> None:
    """Refuse an address that is not valid."""
    if host and port is not None and 0 < port < 1 << 16:
        return
    hint = "Give the name of a host and a port from 1 to 65535."
    shown = f"{host or 'null'}:{'null' if port is None else port}"
    raise DataError("R310", f"{shown} is not a valid address", place=name, hint=hint)
