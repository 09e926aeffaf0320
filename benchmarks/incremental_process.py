"""Memory of processes, read from /proc: this one, Java's, and the Python workers below it."""

from __future__ import annotations

import os
import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_GONE = (FileNotFoundError, ProcessLookupError)


def memory_of(process: int, what: str = "VmRSS") -> int:
    """Bytes of a process, 0 if it is gone; `VmRSS`, `RssAnon` (without files) or `VmData`."""
    with suppress(*_GONE):
        for line in (_PROC / str(process) / "status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == what:
                return int(rest.split()[0]) * 1024
    return 0


def below(process: int) -> tuple[int, ...]:
    """All processes that a process has started, and theirs."""
    children: dict[int, list[int]] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with suppress(*_GONE):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    descendants, waiting = [], [process]
    while waiting:
        next_ = children.get(waiting.pop(), [])
        descendants += next_
        waiting += next_
    return tuple(descendants)


def workers() -> tuple[int, ...]:
    """The Python workers of Spark: daemons, and what they have forked."""
    return tuple(process for process in below(os.getpid()) if _is_worker(process))


def java() -> tuple[int, ...]:
    """The Java processes of this one."""
    return tuple(process for process in below(os.getpid()) if _name(process) == "java")


def _name(process: int) -> str:
    with suppress(*_GONE):
        return (_PROC / str(process) / "comm").read_text().strip()
    return ""


def _is_worker(process: int) -> bool:
    with suppress(*_GONE):
        return b"daemon" in (_PROC / str(process) / "cmdline").read_bytes()
    return False


@dataclass(slots=True)
class Peak:
    """The most memory that was seen, in bytes."""

    one: int = 0
    """Of one worker."""
    together: int = 0
    """Of all workers at a time."""


@contextmanager
def watch_memory(
    what: str = "VmRSS", every: float = 0.02, but: Container[int] = ()
) -> Iterator[Peak]:
    """Sample the memory of the workers, except some, while the block runs."""
    peak, done = Peak(), threading.Event()

    def look() -> None:
        while not done.wait(every):
            sizes = [memory_of(process, what) for process in workers() if process not in but]
            peak.one = max(peak.one, *sizes, 0)
            peak.together = max(peak.together, sum(sizes))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def slope(points: list[tuple[float, float]]) -> float:
    """The slope of the line nearest to some points; 0 for fewer than two of them."""
    if len(points) < 2:
        return 0.0
    middle = [sum(axis) / len(points) for axis in zip(*points, strict=True)]
    spread = sum((x - middle[0]) ** 2 for x, _ in points)
    return sum((x - middle[0]) * (y - middle[1]) for x, y in points) / spread if spread else 0.0
