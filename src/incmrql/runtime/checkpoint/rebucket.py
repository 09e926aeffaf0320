"""A checkpoint with another number of buckets: every table written anew, as a batch of its own."""

from __future__ import annotations

from pathlib import Path

from incmrql.engine.store.segments import Opened, Segment, write_runs
from incmrql.engine.store.tables import Reader, StateTable, by_bucket, scan
from incmrql.errors import CheckpointError
from incmrql.runtime.checkpoint.manifests import Commit
from incmrql.runtime.driver import Driver


def rebucket(driver: Driver, buckets: int) -> int:
    """Write all tables with another number of buckets; how many rows they have.

    The driver has the lock and has published what was committed.  Everything changes with the new
    manifest, and nothing before it.
    """
    checkpoint, state = driver.checkpoint, driver.state
    if state.number < 0:
        raise CheckpointError(
            f"checkpoint {checkpoint.folder} has no batch yet: nothing to rewrite"
        )
    if driver.intended() is not None:
        message = f"checkpoint {checkpoint.folder} has a batch that was begun and not finished"
        raise CheckpointError(f"{message}: run the script once before")
    number, attempt = state.number + 1, checkpoint.attempt()
    reader = Reader(checkpoint.runs.absolute(), Opened())
    tables = {}
    for name, table in state.tables.items():
        file = f"{number:06d}-{attempt}-{name}.run"
        tables[name] = _rewritten(table, reader, buckets, checkpoint.runs, file)
    checkpoint.buckets = buckets
    change = Commit(tables, counts={"rebucketed": buckets}, kind="rebucket", attempt=attempt)
    driver.state = checkpoint.commit(state, change)
    return driver.state.rows


def _rewritten(
    table: StateTable, reader: Reader, buckets: int, folder: Path, file: str
) -> StateTable:
    """A table of the same rows: a base for each bucket that has some.

    Buckets are ranges of hashes, so that the buckets of a table one after the other are in order.
    """
    runs: list[Segment] = []
    pieces = [
        (bucket, piece)
        for old in range(table.buckets)
        for bucket, piece in by_bucket(scan(table, reader, old), buckets)
    ]
    if pieces:
        contents = [(piece, {bucket: len(piece)}) for bucket, piece in pieces]
        runs = write_runs(folder, file, contents)
    return StateTable(table.name, table.schema, buckets, bases=tuple(runs))
