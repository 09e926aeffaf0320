"""Watched folders: which files are new and at rest, which were tampered with.

The offset of a folder is the set of files taken in so far.  A file is taken in when it has not
changed for the settle time; what appears by rename has its old time and is taken at once.  A file
whose time lies in the future is at rest when it was seen unchanged for the settle time.

With `on_modified: replace` a file that changed or vanished after it was taken in is taken back,
from the copy that the archive has of it, and what is there now is taken in as a new file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from incmrql.diagnostics import DataError
from incmrql.incremental.streams import Stream
from incmrql.kernel.inputs import InputFile, changed, checksum
from incmrql.runtime.feeds.archive import Archive
from incmrql.runtime.feeds.feed import Consumed, News
from incmrql.runtime.feeds.listing import files_at


class FolderFeed:
    """The files of a folder, of a pattern or of one name, and those of its deletes."""

    def __init__(
        self, stream: Stream, consumed: Consumed, settle: float, archive: Archive | None = None
    ) -> None:
        self.place, self.consumed = stream.place, consumed
        self._stream, self._settle, self._archive = stream, settle, archive
        self._replaces = dict(stream.source.options).get("on_modified") == "replace"
        self._seen: dict[str, tuple[InputFile, float]] = {}
        """Files that are not at rest, and when they were first seen like this."""

    def look(self, now: float) -> News:
        """Files that are new and at rest; one pass over the folder."""
        there = self._listing()
        before, self._seen = self._seen, {}
        back: list[InputFile] = []
        fresh: list[InputFile] = []
        for path in self._altered(there):
            file = there.get(path)
            if file is None:
                back.append(self._taken_back(path))
            elif self._at_rest(file, before, now):
                back.append(self._taken_back(path))
                fresh.append(file)
        for path, file in there.items():
            if path not in self.consumed and self._at_rest(file, before, now):
                fresh.append(file)
        fresh.sort(key=lambda file: (file.modified, file.deletes, file.path))
        return News((*back, *fresh), len(self._seen))

    def verify_taken(self) -> None:
        """Refuse a file that changed or vanished, unless such files are replaced."""
        for _ in self._altered(self._listing()):
            pass

    def taken(self, files: Sequence[tuple[InputFile, str]]) -> None:
        """Remember files that are committed, and forget those that were taken back."""
        for file, _ in files:
            if file.retracts:
                self.consumed.pop(file.retracts, None)
        for file, digest in files:
            if not file.retracts:
                self.consumed[file.path] = (file, digest)

    def close(self) -> None:
        """Nothing is open."""

    # --- what is there -----------------------------------------------------------------------

    def _listing(self) -> dict[str, InputFile]:
        found = dict(self._files(self._stream.path, deletes=False))
        found.update(self._files(self._stream.deletes, deletes=True))
        return found

    def _files(self, path: str | None, *, deletes: bool) -> Iterator[tuple[str, InputFile]]:
        if path is None:
            return
        try:
            for name, stat in files_at(path):
                size, modified = stat.st_size, stat.st_mtime_ns
                yield name, InputFile(name, size, modified, self.place, deletes)
        except DataError:
            # A folder that is missing as a whole is no deletion of its files.
            alone = str(Path(path.removeprefix("file://")))
            if alone not in self.consumed or not _is_gone(alone):
                raise

    def _at_rest(
        self, file: InputFile, before: dict[str, tuple[InputFile, float]], now: float
    ) -> bool:
        if file.modified / 1e9 <= now - self._settle:
            return True
        known, since = before.get(file.path, (None, now))
        if known != file:
            since = now
        elif now - since >= self._settle:
            return True
        self._seen[file.path] = (file, since)
        return False

    # --- what was taken in -------------------------------------------------------------------

    def _altered(self, there: dict[str, InputFile]) -> list[str]:
        """The files that changed or vanished; those that were only touched are noted."""
        found = []
        for path, (before, digest) in list(self.consumed.items()):
            after = there.get(path)
            if after == before:
                continue
            if after is not None and self._is_same(before, after, digest):
                self.consumed[path] = (after, digest)
                continue
            if not self._replaces:
                raise gone(before) if after is None else changed(before, "its content is another")
            found.append(path)
        return found

    def _is_same(self, before: InputFile, after: InputFile, digest: str) -> bool:
        if (after.size, after.deletes) != (before.size, before.deletes):
            return False
        try:
            return checksum(after) == digest
        except DataError as problem:
            if self._replaces and problem.code == "R301":
                return False  # it is changing right now
            raise

    def _taken_back(self, path: str) -> InputFile:
        before, digest = self.consumed[path]
        copy = None if self._archive is None else self._archive.copy_of(before, digest)
        if copy is None:
            message = f'"{Path(path).name}" is to be replaced, and what was taken in is not kept'
            hint = "Put the file back as it was; to replace files, run with --keep-input all."
            raise DataError("R305", message, place=path, hint=hint)
        return replace(copy, retracts=path)


def _is_gone(path: str) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def gone(file: InputFile) -> DataError:
    """A file that was taken in and is no longer there."""
    hint = "Put it back; to take rows away write them to the folder of deletes."
    message = f'"{Path(file.path).name}" was taken in and is no longer there'
    return DataError("R302", message, place=file.path, hint=hint)
