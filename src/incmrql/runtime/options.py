"""How a stream runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from incmrql.formats import ANYWHERE, Paths
from incmrql.incremental.looping import Iterate, Iteration
from incmrql.kernel.compaction import INLINE
from incmrql.kernel.orders import Format
from incmrql.runtime.arithmetic import OnArithmetic
from incmrql.runtime.changed import OnChange
from incmrql.runtime.feeds.archive import Keep
from incmrql.spark.loops_placement import LOOP_ROWS
from incmrql.spark.streaming import LARGE


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream runs; times are in seconds."""

    mode: Literal["changes", "snapshot"] | None = None
    """Of folders; None: as recorded in the checkpoint, changes in a new one."""
    format: Format | None = None
    """Of folders; None: as recorded in the checkpoint, Parquet in a new one."""
    detach_output: bool = False
    """End the output that is recorded in the checkpoint, if none is named now."""
    quarantine: Path | None = None
    """The folder for lines that are no rows, of sources that ask for it."""
    trigger: float = 1.0
    """Time from the start of a look at the sources to the next."""
    settle: float = 1.0
    """How long a file must not have changed."""
    available_now: bool = False
    """Take in what is there, then end."""
    max_batches: int | None = None
    max_files_per_batch: int | None = None
    keep_input: Keep | None = None
    """None: what was pushed, sent or registered, but not the user's own files."""
    keep_answer: bool = True
    """Whether the whole answer can be asked for where it does not follow from other state."""
    keep_changes: bool = False
    """Whether the change of the last batch can be asked for."""
    skip_batch: int | None = None
    """A batch that is not taken in: its files count as taken."""
    forget: tuple[str, ...] = ()
    """Ingested files that are no longer watched; their rows stay."""
    retract: tuple[str, ...] = ()
    """Ingested files whose rows leave the answer."""
    allow_empty: bool = False
    """Whether a watched folder whose files are replaced may lose all of them at once."""
    window: bool = False
    """Whether each batch is answered alone."""
    on_change: OnChange = "refuse"
    on_arithmetic: OnArithmetic = "report"
    """What becomes of rows for which arithmetic fails: not watched, reported, or refused."""
    iterate: Iterate = "default"
    """How loops are kept: exactly, by running them again, or by letting differences diffuse."""
    tolerance: float | None = None
    """Of loops that diffuse: the error from which on they are run again."""
    resync: int | None = None
    """Of loops that diffuse: after how many batches they are run again in any case."""
    buckets: int = 8
    """Of a new checkpoint; an old one keeps its number."""
    large: int = LARGE
    """Bytes from which on a change is read in many tasks."""
    loop_rows: int = LOOP_ROWS
    """Rows from which on a loop that is run again takes its steps on Spark, not in a task."""
    inline: int = INLINE
    """Old rows that a batch merges itself; larger merges are done beside the batches."""
    grace: float = 60.0
    """How long files that nobody names are left alone."""
    checkpoint_mode: int | None = None
    """Permissions of the folders of a new checkpoint; None: as the umask says."""
    check_runs: bool = True
    """Whether checksums of the state are compared at the start."""

    paths: Paths = ANYWHERE
    """Which files the sources and outputs may be in, beside the checkpoint."""
    reads_sources: bool = True
    """Whether sources are watched and connected to; without that nothing is ingested."""

    @property
    def iteration(self) -> Iteration:
        """How loops are kept."""
        return Iteration(self.iterate, self.tolerance, self.resync)
