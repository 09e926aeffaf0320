"""The output of one batch: written to hidden directories, published once the batch is committed.

Answers go to sinks and bad rows to the quarantine.  The changes of the last batch stay in the
checkpoint, for whoever asks for them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from incmrql.engine.compile.physical import PhysicalOutput
from incmrql.engine.jobs import LOOPS, REQUEST, JobResult
from incmrql.engine.messages import Target
from incmrql.engine.outputs import read_rows
from incmrql.engine.snapshots import count_rows
from incmrql.runtime import quarantine
from incmrql.runtime.checkpoint.manifests import Checkpoint, PublishedOutput, State
from incmrql.runtime.progress import FOLDERS
from incmrql.runtime.sinks import folders
from incmrql.runtime.sinks.folders import Sink
from incmrql.values import Value

_CHANGES: Final = "changes-"


@dataclass(frozen=True, slots=True)
class BatchOutputs:
    """Where the batches of a checkpoint write their output, and how it is published."""

    checkpoint: Checkpoint
    answers: int
    """The number of answers of the program."""
    quarantine: Path | None
    """The directory for bad rows of sources that ask for it."""

    @contextmanager
    def stage(
        self, number: int, attempt: str, sinks: Sequence[Sink], *, keep_changes: bool = False
    ) -> Iterator[tuple[Target, ...]]:
        """Hidden directories for the answers of a batch; removed if it is not committed."""
        created: list[Path] = []
        try:
            targets = []
            for sink in sinks:
                created.append(folders.prepare(sink.folder, self.checkpoint.id, number, attempt))
                path = str(created[-1].absolute())
                targets.append(Target(sink.answer, path, sink.mode, sink.format))
            for answer in range(self.answers) if keep_changes else ():
                created.append(self.changes_folder(number, attempt, answer))
                created[-1].mkdir(parents=True)
                targets.append(Target(answer, str(created[-1].absolute()), "rows"))
            yield tuple(targets)
        except Exception:
            for directory in created:
                shutil.rmtree(directory, ignore_errors=True)
            raise

    @contextmanager
    def stage_quarantine(self, number: int, attempt: str) -> Iterator[str]:
        """A hidden directory for bad rows, "" if they are not kept; tasks create it."""
        if self.quarantine is None:
            yield ""
            return
        folder = folders.staging(self.quarantine, self.checkpoint.id, number, attempt)
        try:
            yield str(folder.absolute())
        except Exception:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def files_and_changes(
        self, attempt: str, sinks: Sequence[Sink], targets: Sequence[Target], result: JobResult
    ) -> tuple[tuple[PublishedOutput, ...], dict[str, Any]]:
        """For the manifest: the outputs to publish, and where the changes of the answers are."""
        outputs = folders.outputs_of(attempt, sinks, targets, result.done.parts)
        if result.reading.quarantined:
            assert self.quarantine is not None
            names = tuple(sorted(name for name, _ in result.reading.quarantined))
            directory = str(self.quarantine.absolute())
            outputs += (PublishedOutput(directory, attempt, names, "quarantine"),)
        if not any(target.mode == "rows" for target in targets):
            return outputs, {}
        first = len(targets) - self.answers
        parts = [
            [part.file for part in result.done.parts if part.target == first + answer]
            for answer in range(self.answers)
        ]
        return outputs, {"attempt": attempt, "parts": parts}

    def publish(self, state: State) -> list[Path]:
        """Publish the outputs of the last batch, unless that is noted as done."""
        outputs, number = state.outputs, state.number
        if not outputs or self.checkpoint.is_published(number):
            return []
        self.checkpoint.check_newest()
        owner = self.checkpoint.id
        published = []
        for output in outputs:
            if output.kind == "quarantine":
                quarantine.publish(output, owner, number)
            else:
                published.append(folders.publish(output, owner, number))
        self.checkpoint.note_published(number)
        return published

    def changes_folder(self, number: int, attempt: str, answer: int) -> Path:
        """Where a batch writes the changes of an answer."""
        return self.checkpoint.work / f"{_CHANGES}{number:06d}-{attempt}-{answer}"

    def changes(
        self, state: State, number: int, answer: PhysicalOutput, most: int | None = None
    ) -> list[tuple[Value, int]]:
        """The first changes, or all, of an answer by the last batch; empty if none are kept."""
        rows: list[tuple[Value, int]] = []
        for part in self._change_parts(state, number):
            if most is not None and len(rows) >= most:
                break
            rows += read_rows(part, answer, None if most is None else most - len(rows))
        return rows

    def change_size(self, state: State, number: int) -> tuple[int, int]:
        """How many rows the changes of an answer have, and the sum of their weights."""
        sizes = [count_rows(part) for part in self._change_parts(state, number)]
        return sum(rows for rows, _ in sizes), sum(weights for _, weights in sizes)

    def _change_parts(self, state: State, number: int) -> list[Path]:
        """The files with the changes of an answer by the last batch.

        Only the parts that the manifest names count: abandoned attempts of tasks may have left
        others beside them.
        """
        kept = state.changes
        if not kept:
            return []
        folder = self.changes_folder(state.number, kept["attempt"], number)
        return [folder / part for part in kept["parts"][number]]

    def remove_changes(self, before: State) -> None:
        """Remove the changes of a batch that has a successor."""
        for answer in range(self.answers) if before.changes else ():
            folder = self.changes_folder(before.number, before.changes["attempt"], answer)
            shutil.rmtree(folder, ignore_errors=True)

    def remove_leftovers(self, state: State, sinks: Sequence[Sink]) -> None:
        """Remove what killed attempts have left in output directories and in the checkpoint."""
        directories = {sink.folder for sink in sinks} | {Path(o.folder) for o in state.outputs}
        for directory in directories:
            for path in folders.leftovers(directory, self.checkpoint.id):
                shutil.rmtree(path, ignore_errors=True)
        kept = state.changes.get("attempt")
        for path in self.checkpoint.work.iterdir():
            is_ours = path.name.startswith((LOOPS, _CHANGES, REQUEST, FOLDERS))
            if is_ours and (kept is None or kept not in path.name):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
