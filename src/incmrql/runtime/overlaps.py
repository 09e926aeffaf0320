"""Folders that a run writes to and watches at once: each batch would be the input of the next."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from incmrql.diagnostics import DataError
from incmrql.incremental.streams import Program
from incmrql.runtime.sinks import Sink

_HIDDEN = (".", "_")
_OUTPUT = ("batch=0/part-0",)
_QUARANTINE = ("batch-000000.jsonl",)
_CHECKPOINT = ("lock", "runs/0.run", "manifests/0.json", "intents/0.json", "input/archive/0")
"""Files that stand for all that is written below a folder."""


def refuse_overlaps(
    program: Program, checkpoint: Path, sinks: tuple[Sink, ...], quarantine: Path | None
) -> None:
    """Refuse a run that would ingest what it writes."""
    written: list[tuple[str, Path, tuple[str, ...]]] = [("checkpoint", checkpoint, _CHECKPOINT)]
    written += [("output", sink.folder, _OUTPUT) for sink in sinks]
    if quarantine is not None:
        written.append(("quarantine", quarantine, _QUARANTINE))
    for watched in _watched(program):
        for what, folder, names in written:
            for name in names:
                if is_matched(watched, folder / name):
                    raise _overlap(what, folder, watched)


def _watched(program: Program) -> Iterator[str]:
    for stream in program.streams:
        if stream.streaming and stream.socket is None:
            yield from (path for path in (stream.path, stream.deletes) if path is not None)


def is_matched(
    watched: str, file: Path, real: Callable[[str | Path], str] = os.path.realpath
) -> bool:
    """Whether a file would be among those of a watched folder, pattern or file; links resolved."""
    text = watched.removeprefix("file://")
    own = Path(real(file)).parts
    if os.path.isdir(text) or os.path.exists(text) or not glob.has_magic(text):
        root = Path(real(text)).parts
        return own[: len(root)] == root and not any(map(_is_hidden, own[len(root) :]))
    parts = Path(os.path.abspath(text)).parts
    fixed = next(place for place, part in enumerate(parts) if glob.has_magic(part))
    root = Path(real(Path(*parts[:fixed]))).parts
    return own[: len(root)] == root and _fits(own[len(root) :], parts[fixed:])


def _fits(own: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether a pattern matches a path, or a folder that it is in."""
    if not pattern:
        return not any(map(_is_hidden, own))
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        if _fits(own, rest):
            return True
        return bool(own) and not _is_hidden(own[0]) and _fits(own[1:], pattern)
    if not own or (_is_hidden(own[0]) and own[0][0] != first[0]):
        return False
    return fnmatchcase(own[0], first) and _fits(own[1:], rest)


def _is_hidden(name: str) -> bool:
    return name.startswith(_HIDDEN)


def _overlap(what: str, folder: Path, watched: str) -> DataError:
    message = f'the {what} "{folder}" is inside "{watched}", which a stream watches'
    hint = (
        "Every batch would ingest what the one before has written. Choose a folder outside, "
        'or one whose name starts with "_".'
    )
    return DataError("R321", message, place=str(folder), hint=hint)
