"""How many values Python has made or computed one by one, instead of a whole column at once.

Each thread counts for itself: a task takes the difference between its end and its start.  Reports
show the count (`rows_by_row`), and tests use it to show that a vectorised path was taken.
"""

from __future__ import annotations

import threading


class _Tally(threading.local):
    count = 0


_TALLY = _Tally()


def note_by_row(count: int) -> None:
    """Count values that Python handles one by one."""
    _TALLY.count += count


def by_row_count() -> int:
    """How many values this thread has handled one by one so far."""
    return _TALLY.count
