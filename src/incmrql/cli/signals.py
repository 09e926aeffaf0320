"""What signals do to a run that follows streams.

Ctrl-C ends it after the batch on its way, a second one at once.  SIGTERM, which a service manager
sends to Java and the Python workers too, ends it without waiting for them: the batch on its way is
abandoned, as in a crash, and runs again at the next start.  Only a commit is finished first.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn, Protocol

from incmrql.cli.terminal import Console

_NOTICE = b"stopped by SIGTERM; a batch that was not committed runs again at the next start\n"
_PATIENCE = 0.3
"""Seconds from a signal during a commit to a look whether the commit is done."""


class Commits(Protocol):
    """What commits batches."""

    @property
    def is_committing(self) -> bool:
        """Whether a commit has begun and is not published."""


@contextmanager
def ending_by_signal(driver: Commits, own: Path | None) -> Iterator[threading.Event]:
    """End the process at SIGTERM, after a commit that has begun; an event that then stops the loop.

    `own` is a folder that is removed at the end: a checkpoint for this run only.
    """
    stop, is_asked = threading.Event(), threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        if not driver.is_committing and (not is_asked.is_set() or _number == signal.SIGALRM):
            end_now(own)
        is_asked.set()
        stop.set()
        # A commit takes no time but that of the disk; what follows it may need Java.
        signal.setitimer(signal.ITIMER_REAL, _PATIENCE)

    before = [(number, signal.signal(number, ask)) for number in (signal.SIGTERM, signal.SIGALRM)]
    try:
        yield stop
    except BaseException:
        if is_asked.is_set():
            end_now(own)  # Java may have ended as well: what fails now is nobody's fault
        raise
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    if is_asked.is_set():
        end_now(own)


def end_now(own: Path | None) -> NoReturn:
    """End the process with 0, without the time that Spark takes to stop.

    Java ends when its input is closed, and its workers with it.
    """
    with suppress(OSError):
        os.write(2, _NOTICE)
    if own is not None:
        shutil.rmtree(own, ignore_errors=True)
    os._exit(0)


@contextmanager
def stopping(console: Console, stop: threading.Event) -> Iterator[None]:
    """Ctrl-C sets an event: the batch on its way is finished first."""

    def ask(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        console.say("stopping after this batch")
        stop.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
