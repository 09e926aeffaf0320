"""Watched folders: which files there are, which are new and at rest, which were tampered with.

The offset of a folder is the set of files taken in so far.  A file is taken in when it has not
changed for the settle time; what appears by rename has its old time and is taken at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from incmrql.diagnostics import DataError
from incmrql.formats import expand
from incmrql.incremental import Stream
from incmrql.kernel.reading import InputFile, changed, checksum

Consumed: TypeAlias = dict[str, tuple[InputFile, str]]
"""The files taken in, by path, with their checksums."""


def listing(stream: Stream) -> dict[str, InputFile]:
    """The files that are there now, by path."""
    found = list(_files(stream.path, deletes=False))
    if stream.deletes is not None:
        found += _files(stream.deletes, deletes=True)
    return {file.path: file for file in found}


def _files(path: str, *, deletes: bool) -> Iterable[InputFile]:
    for file in expand(path):
        try:
            stat = file.stat()
        except FileNotFoundError:
            continue  # gone since the folder was listed
        yield InputFile(str(file), stat.st_size, stat.st_mtime_ns, deletes)


@dataclass(frozen=True, slots=True)
class News:
    """New files that are at rest, oldest first, and how many are not at rest yet."""

    files: tuple[InputFile, ...]
    restless: int


def news(there: Mapping[str, InputFile], consumed: Consumed, now: float, settle: float) -> News:
    """What is new in a folder at a time (seconds since 1970)."""
    fresh = [file for path, file in there.items() if path not in consumed]
    latest = now - settle
    at_rest = [file for file in fresh if file.modified / 1e9 <= latest]
    at_rest.sort(key=lambda file: (file.modified, file.deletes, file.path))
    return News(tuple(at_rest), len(fresh) - len(at_rest))


def check_consumed(there: Mapping[str, InputFile], consumed: Consumed) -> Consumed:
    """Files that were only touched, as they are now; one that changed or vanished is refused."""
    touched: Consumed = {}
    for path, (before, digest) in consumed.items():
        after = there.get(path)
        if after is None:
            raise gone(before)
        if after == before:
            continue
        if after.size != before.size or checksum(after) != digest:
            raise changed(before, "its content is another")
        touched[path] = (replace(after, deletes=before.deletes), digest)
    return touched


def gone(file: InputFile) -> DataError:
    """A file that was taken in and is no longer there."""
    hint = "Put it back; to take rows away write them to the folder of deletes."
    message = f'"{Path(file.path).name}" was taken in and is no longer there'
    return DataError("R302", message, place=file.path, hint=hint)
