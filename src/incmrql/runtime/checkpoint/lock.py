"""One driver per checkpoint: a lock that ends with its process, and a heartbeat for other machines.

On one machine the file lock of the operating system decides; it is released when the process ends,
however it ends.  A driver on another machine sees the heartbeat, the time at which the file was
last touched.  Should both fail, the exclusive creation of manifests still keeps rivals apart.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from incmrql.errors import CheckpointError

BEAT: Final = 5.0
STALE: Final = 30.0
"""Seconds without a heartbeat after which a driver on another machine counts as gone."""


class Lock:
    """The right to write to a checkpoint, from `__init__` to `release`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _holder(path)
            self._stream.close()
            raise _in_use(path, holder) from None
        holder = _holder(path)
        other = holder.get("host") not in (None, socket.gethostname())
        if other and time.time() - path.stat().st_mtime < STALE:
            self._stream.close()
            raise _in_use(path, holder)
        self._sign()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Let other drivers in; does nothing if it was released before."""
        if self._stream.closed:
            return
        self._stop.set()
        self._thread.join()
        self._stream.truncate(0)
        self._stream.close()

    def _sign(self) -> None:
        self._stream.truncate(0)
        json.dump({"host": socket.gethostname(), "pid": os.getpid()}, self._stream)
        self._stream.flush()

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            with suppress(OSError):  # a driver without the file is stopped at its next manifest
                os.utime(self.path)


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that works on a checkpoint."""

    host: str
    pid: int


def holder_of(path: Path) -> Holder | None:
    """Who holds a lock, as far as its heartbeat shows; nothing is locked by looking."""
    content = _holder(path)
    try:
        is_fresh = time.time() - path.stat().st_mtime < STALE
        holder = Holder(str(content["host"]), int(content["pid"]))
    except (OSError, KeyError, ValueError, TypeError):
        return None
    if not is_fresh:
        return None
    return holder if holder.host != socket.gethostname() or _is_running(holder.pid) else None


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _holder(path: Path) -> dict[str, Any]:
    try:
        holder: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return holder


def _in_use(path: Path, holder: dict[str, Any]) -> CheckpointError:
    who = f"process {holder.get('pid', '?')} on {holder.get('host', 'some machine')}"
    return CheckpointError(f"checkpoint {path.parent} is in use by {who}")
