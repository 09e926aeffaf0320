"""Going back to the state after an earlier batch, as a batch of its own.

Nothing is taken away from what was published: readers of an output get the rows in which the two
answers differ. The files of later batches are new input again, and so are rows that were pushed,
of which the archive has copies.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from incmrql.engine.inputs import InputFile
from incmrql.engine.local import LocalJob
from incmrql.engine.messages import BatchRequest, Part
from incmrql.errors import CheckpointError
from incmrql.runtime.checkpoint import files as batch_files
from incmrql.runtime.checkpoint.manifests import Checkpoint, Commit, Ingested, State
from incmrql.runtime.checkpoint.rewrite import Retraction
from incmrql.runtime.driver import Driver
from incmrql.runtime.feeds.archive import Archive
from incmrql.runtime.sinks import folders
from incmrql.storage import fsync


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The result of going back: which batch, as which one, and what is new input again."""

    to: int
    batch: int
    """The number of the batch that went back."""
    again: int
    """Files that the next batch ingests again, or rows that were pushed together."""
    gone: int
    """Files that no longer exist: their rows are in no answer any more."""


def roll_back(driver: Driver, to: int) -> RolledBack:
    """Commit a batch with the state after batch `to`, and publish how the answers differ.

    The caller is the writer of the checkpoint and has published its last batch.
    """
    checkpoint, now = driver.checkpoint, driver.state
    if driver.options.window:
        message = f"checkpoint {checkpoint.folder} answers each batch on its own"
        raise CheckpointError(f"{message}: there is no state to go back to")
    if not 0 <= to < now.number:
        message = f"checkpoint {checkpoint.folder} is at batch {now.number}"
        raise CheckpointError(f"{message}: it cannot be rolled back to batch {to}")
    old = checkpoint.committed_state(to)
    if driver.options.check_runs:
        checkpoint.check_runs(old)
    later = list(_later(now, old))
    restored, gone = _restore(checkpoint, driver.archive, later)
    number, attempt = now.number + 1, checkpoint.attempt()
    with driver.outputs.stage(number, attempt, driver.sinks) as targets:
        runs = str(checkpoint.runs.absolute())
        request = BatchRequest(
            number, attempt, (), old.tables, checkpoint.buckets, runs, tuple(targets)
        )
        modes = enumerate(driver.sinks)
        answers = {place: sink.answer for place, sink in modes if sink.mode == "changes"}
        parts: list[Part] = []
        if targets:
            here = LocalJob(driver.compiled, checkpoint.buckets)  # going back needs no Spark
            retraction = Retraction.of_state(driver.compiled, now.tables, answers)
            parts = retraction.write(here, request)
        for target in targets:
            fsync(Path(target.folder))
        batch_files.check_parts(request, parts)
        outputs = folders.outputs_of(attempt, driver.sinks, targets, parts)
        counts = {"rolled_back": to}
        change = Commit(old.tables, outputs, counts=counts, kind="rollback", attempt=attempt)
        driver.state = checkpoint.commit(replace(now, ingested=old.ingested), change)
    driver.outputs.publish(driver.state)
    return RolledBack(to, number, restored, gone)


def _later(now: State, old: State) -> Iterable[tuple[InputFile, str]]:
    """The files that were ingested since an older state, each with its checksum."""
    for place, by_path in now.ingested.items():
        before = old.ingested.get(place, {})
        for path, (file, digest) in by_path.items():
            if path not in before and not file.forgotten:
                yield file, digest


def _restore(checkpoint: Checkpoint, archive: Archive, files: Ingested) -> tuple[int, int]:
    """Put back rows that were pushed; returns how many files are there again, and how many not.

    A file that is put back and still counts as ingested, because of a crash, is removed again by
    the next start.
    """
    again = gone = 0
    for file, digest in files:
        if file.kind == "file" or file.origin is not None:
            is_there = os.path.exists(file.watched_path)
            again, gone = again + is_there, gone + (not is_there)
            continue
        copy = archive.copy_of(file, digest)
        if copy is None:
            what = "rows that were pushed or received since then were not kept"
            message = f"checkpoint {checkpoint.folder} cannot be rolled back: {what}"
            raise CheckpointError(f"{message} (--keep-input none)")
        path = Path(file.path)
        target = checkpoint.input.absolute() / path.parent.name / path.name
        if not target.exists():
            os.link(copy.path, target)
            fsync(target.parent)
        again += 1
    return again, gone


__all__ = ["RolledBack", "roll_back"]
