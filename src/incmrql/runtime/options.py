"""How a stream runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from incmrql.engine.store.compaction import INLINE
from incmrql.io.files import ANYWHERE, Paths
from incmrql.plan.program import LoopSettings
from incmrql.runtime.user_options import UserOptions
from incmrql.spark.loops.placement import LOOP_ROWS
from incmrql.spark.stream_job import LARGE


@dataclass(frozen=True, slots=True)
class StreamOptions(UserOptions):
    """How a stream runs: what users have chosen, and what is measured or decided for them."""

    keep_changes: bool = False
    """Whether the change of the last batch can be asked for."""
    detach_output: bool = False
    """End the output that is recorded in the checkpoint, if none is named now."""
    quarantine: Path | None = None
    """The folder for lines that are no rows, of sources that ask for it."""
    large: int = LARGE
    """Bytes from which on a change is read in many tasks."""
    loop_rows: int = LOOP_ROWS
    """Rows from which on a loop that is run again takes its steps on Spark, not in a task."""
    inline: int = INLINE
    """Old rows that a batch merges itself; larger merges are done beside the batches."""
    grace: float = 60.0
    """How long files that nobody names are left alone."""
    paths: Paths = ANYWHERE
    """Which files the sources and outputs may be in, beside the checkpoint."""
    reads_sources: bool = True
    """Whether sources are watched and connected to; without that nothing is ingested."""

    @property
    def iteration(self) -> LoopSettings:
        """How loops are kept."""
        return LoopSettings(self.iterate, self.tolerance, self.resync)
