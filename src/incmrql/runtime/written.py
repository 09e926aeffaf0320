"""Before a batch is committed: the driver itself finds every file that tasks say they wrote.

A worker whose checkpoint path is a folder of its own machine writes its state there and succeeds.
Only a look from here shows that nobody else can read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from incmrql.diagnostics import CheckpointError
from incmrql.kernel.blocks import MAGIC
from incmrql.kernel.orders import Done, Order, Part, Reading

_ENDINGS: Final = {".run": MAGIC, ".parquet": b"PAR1"}
"""The last bytes of files whose format has a footer."""


def check_written(order: Order, done: Done) -> None:
    """Refuse a batch some of whose new state files or parts are not there as a whole."""
    known = {run.file for table in order.tables.values() for run in table.runs}
    ends: dict[str, int] = {}
    for table in done.tables.values():
        for run in table.runs:
            if run.file not in known:
                ends[run.file] = max(ends.get(run.file, 0), run.offset + run.size)
    for file, end in ends.items():
        _check(Path(order.runs) / file, end, is_padded=True)
    check_parts(order, done.parts)


def check_parts(order: Order, parts: Iterable[Part]) -> None:
    """Refuse a batch of whose output a part is not there as a whole."""
    for part in parts:
        _check(Path(order.targets[part.target].folder) / part.file, part.size)


def check_quarantine(folder: str, reading: Reading) -> None:
    """Refuse a batch whose bad rows are not there as a whole."""
    for name, size in reading.quarantined:
        _check(Path(folder) / name, size)


def _check(path: Path, size: int, *, is_padded: bool = False) -> None:
    """A file of a size, with the ending of its format; one that is padded may be larger."""
    ending = _ENDINGS.get(path.suffix, b"")
    try:
        with path.open("rb") as stream:
            there = stream.seek(0, 2)
            stream.seek(max(size - len(ending), 0))
            last = stream.read(len(ending))
    except OSError as cause:
        raise _unseen(path, (cause.strerror or str(cause)).lower()) from None
    if there < size or (there > size and not is_padded):
        raise _unseen(path, f"it has {there} bytes here, and {size} where it was written")
    if last != ending:
        raise _unseen(path, "its end is not what was written")


def _unseen(path: Path, why: str) -> CheckpointError:
    message = f"a task wrote {path}, and the driver cannot find it so: {why}"
    hint = (
        "Checkpoint and output must be on storage that driver and executors share under the same "
        "path. Nothing was committed; run again when that is so."
    )
    return CheckpointError(f"error: {message}\n = hint: {hint}")
