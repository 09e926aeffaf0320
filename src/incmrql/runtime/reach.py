"""What a run may read and write outside of its checkpoint.

Paths of the script are checked at the start, files of a batch when the batch is planned and again
in the tasks that read them. A checkpoint names files and output folders too: they are checked as
well, since whoever can write to it could have put others there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from incmrql.diagnostics import OUTSIDE, DataError
from incmrql.formats import Paths
from incmrql.incremental.streams import Program
from incmrql.kernel.inputs import InputFile
from incmrql.reference.environment import place
from incmrql.runtime.checkpoint import Checkpoint
from incmrql.runtime.overlaps import is_matched
from incmrql.runtime.sinks import Sink


class Reach(Protocol):
    """Which of the files that a checkpoint names may be read."""

    def holds(self, path: str) -> bool:
        """Whether a file may be read."""
        ...

    def refusal(self, paths: Iterable[str]) -> DataError:
        """The error for files that may not."""
        ...


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """The files that the sources of a program stand for, and those of its checkpoint."""

    program: Program
    checkpoint: Path

    def holds(self, path: str) -> bool:
        """Whether the program could have ingested a file; links count as what they are called."""
        return any(is_matched(each, Path(path), os.path.abspath) for each in self._named())

    def _named(self) -> Iterable[str]:
        for stream in self.program.streams:
            yield from (each for each in (stream.path, stream.deletes) if each is not None)
        yield str(self.checkpoint)

    def refusal(self, paths: Iterable[str]) -> DataError:
        """The error for files that belong to no source."""
        named = ", ".join(f'"{path}"' for path in dict.fromkeys(paths))
        message = (
            f"the checkpoint {self.checkpoint} names files of no source of its script: {named}"
        )
        hint = "Somebody may have changed it. If these files may be read, name their folders: "
        folders = dict.fromkeys(os.path.dirname(os.path.abspath(path)) for path in paths)
        hint += " ".join(f"--allow-path {folder}" for folder in folders)
        return DataError(OUTSIDE, message, place=str(self.checkpoint), hint=hint)


def check_sources(program: Program, paths: Paths) -> None:
    """Refuse a source that is not where files may be read."""
    for stream in program.streams:
        named = "" if stream.source.path is None else place(stream.source.path.span)
        for path in (stream.path, stream.deletes):
            if path is not None and stream.socket is None:
                paths.check(path, named)


def check_files(files: Sequence[InputFile], paths: Paths) -> None:
    """Refuse a batch with a file that may not be read."""
    for file in files:
        if not file.forgotten:
            paths.check(file.path)


def check_outputs(checkpoint: Checkpoint, sinks: Sequence[Sink], paths: Paths) -> None:
    """Refuse folders that may not be written to: of the answers, and those yet to be published."""
    for folder in (*(str(sink.folder) for sink in sinks), *unpublished_folders(checkpoint)):
        paths.check(folder)


def unpublished_folders(checkpoint: Checkpoint) -> list[str]:
    """The folders of outputs that are committed and may not have appeared."""
    last = checkpoint.last() if checkpoint.exists else None
    if last is None or checkpoint.is_published(last["batch"]):
        return []
    return [each["folder"] for each in last["outputs"]]
