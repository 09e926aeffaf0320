"""Large merges beside the batches: one at a time, in a job of its own, swapped in by a commit."""

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
    """Merges that are due, in a thread; `done` counts them, `failed` has the last problem."""

    def __init__(
        self, merge: Merge, inline: int = INLINE, attempt: Callable[[], str] = lambda: ""
    ) -> None:
        self._merge, self._inline, self._attempt = merge, inline, attempt
        self._threads = ThreadPoolExecutor(1, "incmrql-merging")
        self._chore: CompactionTask | None = None
        self._future: Future[Segment | None] | None = None
        self.done = 0
        self.failed: Exception | None = None

    @property
    def limits(self) -> Limits:
        """What batches leave alone."""
        if self.failed is not None:
            return NO_LIMITS
        return Limits(self._inline, frozenset() if self._chore is None else self._chore.segment_ids)

    def is_open(self, attempt: str) -> bool:
        """Whether what an attempt writes may still be swapped in."""
        return self._chore is not None and self._chore.attempt == attempt

    def with_merged_segment(self, tables: Mapping[str, StateTable]) -> dict[str, StateTable]:
        """The tables of a batch with the merged run, if one is ready; to be committed."""
        found = dict(tables)
        if self._chore is None or self._future is None or not self._future.done():
            return found
        chore, future = self._chore, self._future
        self._chore = self._future = None
        problem = future.exception()
        if problem is not None:
            self.failed = problem if isinstance(problem, Exception) else RuntimeError(str(problem))
            return found
        after = with_merged_segment(found[chore.table], chore, future.result())
        if after is not None:
            found[chore.table] = after
            self.done += 1
        return found

    def start(self, tables: Mapping[str, StateTable]) -> None:
        """Begin with the next merge that is due, unless one is under way."""
        if self._chore is not None or self.failed is not None:
            return
        due = next_compaction(tables.values(), self._inline)
        if due is not None:
            self._chore = replace(due, attempt=self._attempt())
            self._future = self._threads.submit(self._merge, self._chore)

    def close(self) -> None:
        """Wait for what is under way; it is not swapped in."""
        self._threads.shutdown(wait=True, cancel_futures=True)
