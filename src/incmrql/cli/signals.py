"""Signals during a run over streams.

Ctrl-C ends the run after the current batch, and a second one at once.  SIGTERM also reaches Java
and the Python workers when a service manager sends it, so the run ends without waiting for them:
the current batch is abandoned, as in a crash, and runs again at the next start.  Only a commit that
has begun is finished first.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn, Protocol

_NOTICE = b"stopped by SIGTERM; a batch that was not committed runs again at the next start\n"
_SHOW_CURSOR = b"\x1b[?25h\r\n"
"""What is drawn in place hides the cursor of a terminal, and does not get to show it again."""
_RECHECK = 0.3
"""Seconds after which a signal during a commit checks again whether the commit is done."""


class Commits(Protocol):
    """A run that commits batches."""

    @property
    def is_committing(self) -> bool:
        """Whether a commit has begun and its output is not published yet."""


@contextmanager
def ending_by_signal(driver: Commits, own: Path | None) -> Iterator[threading.Event]:
    """End the process at SIGTERM, but not during a commit; gives the event that stops the loop.

    `own` is a temporary checkpoint, removed at the end.
    """
    stop, is_asked = threading.Event(), threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        if not driver.is_committing and (not is_asked.is_set() or _number == signal.SIGALRM):
            end_now(own)
        is_asked.set()
        stop.set()
        # A commit needs only the disk and ends soon. What follows it may wait for Java, which may
        # be gone: the timer ends the process as soon as the commit is published.
        signal.setitimer(signal.ITIMER_REAL, _RECHECK)

    before = [(number, signal.signal(number, ask)) for number in (signal.SIGTERM, signal.SIGALRM)]
    try:
        yield stop
    except BaseException:
        if is_asked.is_set():
            end_now(own)  # Java may have received the signal too: errors now mean nothing
        raise
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    if is_asked.is_set():
        end_now(own)


def end_now(own: Path | None) -> NoReturn:
    """Exit with code 0 without waiting for Spark to stop.

    Java ends when its standard input is closed, and the workers end with it.
    """
    with suppress(OSError):
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)
        os.write(2, _NOTICE)
    if own is not None:
        shutil.rmtree(own, ignore_errors=True)
    os._exit(0)


@contextmanager
def stopping(on_first: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    """Let Ctrl-C set the stop event, so that the current batch is finished first.

    A second one raises `KeyboardInterrupt`.  `on_first` tells the user what the first one does.
    """

    def ask(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        on_first()
        stop.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
