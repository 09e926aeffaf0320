"""All options of a run: what users choose, and what is decided for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from incmrql.engine.jobs import LARGE, LOOP_ROWS
from incmrql.engine.store.compaction import INLINE
from incmrql.io.files import ANYWHERE, Paths
from incmrql.plan.program import LoopSettings
from incmrql.runtime.user_options import UserOptions
from incmrql.runtime.waiting import BatchLimits


@dataclass(frozen=True, slots=True)
class StreamOptions(UserOptions):
    """The options of users, and the settings that are measured or that the interfaces decide."""

    keep_changes: bool = False
    """Whether the changes of the last batch are kept, so that they can be read."""
    show_progress: bool = False
    """Whether tasks note how much they have read, so that a front end can show it."""
    detach_output: bool = False
    """If no output is named now: end the recorded output instead of continuing it."""
    quarantine: Path | None = None
    """The directory for unreadable lines of sources with `on_error: quarantine`."""
    large: int = LARGE
    """A change of at least this many bytes is read in several tasks."""
    loop_rows: int = LOOP_ROWS
    """A loop that is rerun over at least this many rows takes its steps as Spark jobs."""
    inline: int = INLINE
    """The most old rows that a batch merges itself; larger merges run in the background."""
    grace: float = 60.0
    """Seconds before files that no manifest names are removed."""
    paths: Paths = ANYWHERE
    """Where sources and outputs may be, besides the checkpoint."""
    as_of: int | None = None
    """For whoever only reads: the batch whose state is read; None: the last one."""
    reads_sources: bool = True
    """Whether sources are opened; a command that only rewrites a checkpoint does not."""

    @property
    def limits(self) -> BatchLimits:
        """How much a batch may ingest."""
        rows = self.max_rows_per_batch
        return BatchLimits(self.max_files_per_batch, self.max_bytes_per_batch, rows)

    @property
    def iteration(self) -> LoopSettings:
        """How loops are maintained."""
        return LoopSettings(self.iterate, self.tolerance, self.resync)
