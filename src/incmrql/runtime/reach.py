"""The paths that a run may read and write outside of its checkpoint.

Paths of the script are checked at the start, files of a batch when the batch is planned and again
in the tasks that read them. The files and output directories that a checkpoint names are checked
as well, since whoever can write to the checkpoint could have changed them.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from incmrql.engine.inputs import InputFile
from incmrql.errors import OUTSIDE, DataError
from incmrql.io.files import Paths
from incmrql.plan.program import Program
from incmrql.reference.environment import place
from incmrql.runtime.checkpoint.manifests import Checkpoint
from incmrql.runtime.sinks.folders import Sink

# --- Overlaps of input and output ---
#
# What a run writes to a directory that it watches would be the input of its next batch.


_HIDDEN = (".", "_")
_OUTPUT = ("batch=0/part-0",)
_QUARANTINE = ("batch-000000.jsonl",)
_CHECKPOINT = ("lock", "runs/0.run", "manifests/0.json", "intents/0.json", "input/archive/0")
"""Examples of the files that are written below a directory, to be matched with watched paths."""


def refuse_overlaps(
    program: Program, checkpoint: Path, sinks: tuple[Sink, ...], quarantine: Path | None
) -> None:
    """Refuse a run that would ingest what it writes."""
    written: list[tuple[str, Path, tuple[str, ...]]] = [("checkpoint", checkpoint, _CHECKPOINT)]
    written += [("output", sink.folder, _OUTPUT) for sink in sinks]
    if quarantine is not None:
        written.append(("quarantine", quarantine, _QUARANTINE))
    for watched in _watched_paths(program):
        for what, folder, names in written:
            for name in names:
                if is_matched(watched, folder / name):
                    raise _overlap(what, folder, watched)


def _watched_paths(program: Program) -> Iterator[str]:
    for stream in program.streams:
        if stream.streaming:
            yield from stream.watched


def is_matched(
    watched: str, file: Path, real: Callable[[str | Path], str] = os.path.realpath
) -> bool:
    """Whether a watched directory, pattern or file would include a file; links are resolved."""
    text = watched.removeprefix("file://")
    own = Path(real(file)).parts
    if os.path.isdir(text) or os.path.exists(text) or not glob.has_magic(text):
        root = Path(real(text)).parts
        return own[: len(root)] == root and not any(map(_is_hidden, own[len(root) :]))
    parts = Path(os.path.abspath(text)).parts
    fixed = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    root = Path(real(Path(*parts[:fixed]))).parts
    return own[: len(root)] == root and _matches(own[len(root) :], parts[fixed:])


def _matches(own: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether a pattern matches a path or one of its parent directories."""
    if not pattern:
        return not any(map(_is_hidden, own))
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        if _matches(own, rest):
            return True
        return bool(own) and not _is_hidden(own[0]) and _matches(own[1:], pattern)
    if not own or (_is_hidden(own[0]) and own[0][0] != first[0]):
        return False
    return fnmatchcase(own[0], first) and _matches(own[1:], rest)


def _is_hidden(name: str) -> bool:
    return name.startswith(_HIDDEN)


def _overlap(what: str, folder: Path, watched: str) -> DataError:
    message = f'the {what} "{folder}" is inside "{watched}", which a stream watches'
    hint = (
        "Every batch would ingest what the previous one has written. Choose a directory outside, "
        'or one whose name starts with "_".'
    )
    return DataError("R321", message, place=str(folder), hint=hint)


# --- Allowed paths ---


class Reach(Protocol):
    """Decides which of the files that a checkpoint names may be read."""

    def holds(self, path: str) -> bool:
        """Whether a file may be read."""
        ...

    def refusal(self, paths: Iterable[str]) -> DataError:
        """The error for files that may not."""
        ...


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """Allows the files that the sources of a program name, and those of its checkpoint."""

    program: Program
    checkpoint: Path

    def holds(self, path: str) -> bool:
        """Whether the program could have ingested a file; links are not resolved."""
        return any(is_matched(root, Path(path), os.path.abspath) for root in self._roots())

    def _roots(self) -> Iterable[str]:
        """The paths of the script and the checkpoint."""
        for stream in self.program.streams:
            yield from stream.watched
        yield str(self.checkpoint)

    def refusal(self, paths: Iterable[str]) -> DataError:
        """The error for files that belong to no source."""
        named = ", ".join(f'"{path}"' for path in dict.fromkeys(paths))
        message = (
            f"the checkpoint {self.checkpoint} lists files of no source of its script: {named}"
        )
        hint = "Somebody may have changed it. If these files may be read, allow their directories: "
        folders = dict.fromkeys(os.path.dirname(os.path.abspath(path)) for path in paths)
        hint += " ".join(f"--allow-path {folder}" for folder in folders)
        return DataError(OUTSIDE, message, place=str(self.checkpoint), hint=hint)


def check_sources(program: Program, paths: Paths) -> None:
    """Refuse a source outside of the paths that may be read."""
    for stream in program.streams:
        named = "" if stream.source.path is None else place(stream.source.path.span)
        for path in stream.watched:
            paths.check(path, named)


def check_files(files: Sequence[InputFile], paths: Paths) -> None:
    """Refuse a batch with a file that may not be read."""
    for file in files:
        if not file.forgotten:
            paths.check(file.path)


def check_outputs(checkpoint: Checkpoint, sinks: Sequence[Sink], paths: Paths) -> None:
    """Refuse output directories, of sinks and of unpublished outputs, that may not be written."""
    for folder in (*(str(sink.folder) for sink in sinks), *unpublished_folders(checkpoint)):
        paths.check(folder)


def unpublished_folders(checkpoint: Checkpoint) -> list[str]:
    """The directories of outputs that are committed but perhaps not published."""
    last = checkpoint.last() if checkpoint.exists else None
    if last is None or checkpoint.is_published(last["batch"]):
        return []
    return [output["folder"] for output in last["outputs"]]
