"""Large merges, run in the background one at a time; a later commit swaps in the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from incmrql.engine.store.compaction import (
    INLINE,
    CompactionTask,
    next_compaction,
    with_merged_segment,
)
from incmrql.engine.store.segments import Segment
from incmrql.engine.store.tables import NO_LIMITS, Limits, StateTable

Merge = Callable[[CompactionTask], Segment | None]


class Compactor:
    """Runs merges that are due in a thread; `done` counts them, `failed` is the last problem."""

    def __init__(
        self, merge: Merge, inline: int = INLINE, attempt: Callable[[], str] = lambda: ""
    ) -> None:
        self._merge, self._inline, self._attempt = merge, inline, attempt
        self._threads = ThreadPoolExecutor(1, "incmrql-merging")
        self._task: CompactionTask | None = None
        self._future: Future[Segment | None] | None = None
        self.done = 0
        self.failed: Exception | None = None

    @property
    def limits(self) -> Limits:
        """What merges a batch leaves alone: large ones, and segments that are being merged."""
        if self.failed is not None:
            return NO_LIMITS
        return Limits(self._inline, frozenset() if self._task is None else self._task.segment_ids)

    def is_open(self, attempt: str) -> bool:
        """Whether the segment that an attempt writes may still be swapped in."""
        return self._task is not None and self._task.attempt == attempt

    def with_merged_segment(self, tables: Mapping[str, StateTable]) -> dict[str, StateTable]:
        """The tables of a batch with the merged segment, if one is ready; to be committed."""
        merged = dict(tables)
        if self._task is None or self._future is None or not self._future.done():
            return merged
        task, future = self._task, self._future
        self._task = self._future = None
        problem = future.exception()
        if problem is not None:
            self.failed = problem if isinstance(problem, Exception) else RuntimeError(str(problem))
            return merged
        after = with_merged_segment(merged[task.table], task, future.result())
        if after is not None:
            merged[task.table] = after
            self.done += 1
        return merged

    def start(self, tables: Mapping[str, StateTable]) -> None:
        """Start the next merge that is due, unless one is running or has failed."""
        if self._task is not None or self.failed is not None:
            return
        due = next_compaction(tables.values(), self._inline)
        if due is not None:
            self._task = replace(due, attempt=self._attempt())
            self._future = self._threads.submit(self._merge, self._task)

    def close(self) -> None:
        """Wait for the running merge; its result is not swapped in."""
        self._threads.shutdown(wait=True, cancel_futures=True)
