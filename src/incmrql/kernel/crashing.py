"""Places to crash for tests: where a process is killed as if by the system, if a test asks so."""

from __future__ import annotations

import os
import signal
from typing import Final

CRASH: Final = "INCMRQL_CRASH_AT"
"""The environment variable that names where a test wants this process to be killed.

`point:batch`, several of them with commas; `point:batch:file` only until there is such a file.
"""


def crash_here(point: str, number: int) -> None:
    """Where a test may kill the process; does nothing otherwise."""
    wanted = os.environ.get(CRASH)
    if not wanted:
        return
    for each in wanted.split(","):
        name, batch, *mark = each.split(":", 2)
        if (name, batch) == (point, str(number)) and all(map(_is_first, mark)):
            os.kill(os.getpid(), signal.SIGKILL)


def _is_first(path: str) -> bool:
    """Whether a file was not there yet; it is afterwards."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
