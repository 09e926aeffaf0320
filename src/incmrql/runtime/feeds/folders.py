"""Watched folders: which files are new and at rest, which were tampered with.

The offset of a folder is the set of files taken in so far.  A file is taken in when it has not
changed for the settle time; what appears by rename has its old time and is taken at once.  A file
whose time lies in the future is at rest when it was seen unchanged for the settle time.

With `on_modified: replace` a file that changed or vanished after it was taken in is taken back,
from the copy that the archive has of it, and what is there now is taken in as a new file.  A folder
that loses all of its files at once is more likely a disk that is not mounted: that is refused.

A file that the user has forgotten stays among those that were taken in, and is not looked at again.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from incmrql.engine.inputs import InputFile, checksum
from incmrql.errors import DataError
from incmrql.io.files import expand, unreadable
from incmrql.plan.program import Stream
from incmrql.runtime.feeds.archive import Archive
from incmrql.runtime.feeds.spooled import Arrivals, IngestedByPath

# --- Which files there are ---
#
# Names that start with `.` or `_` are hidden and names that end in `.tmp` are being written:
# neither is there. A pattern that matches nothing yet stands for no file, as an empty folder does.
# What is skipped for good (not names that end in `.tmp`) is reported by its kind.


Found: TypeAlias = tuple[str, os.stat_result]

_HIDDEN: Final = (".", "_")
_TEMPORARY: Final = ".tmp"


HIDDEN: Final = 'files whose names start with "." or "_"'
LINKED: Final = "linked folders"
SPECIAL: Final = "named pipes, sockets and devices"

Skipped: TypeAlias = Callable[[str, str], None]
"""Called with the kind and the path of what is skipped."""


def files_at(path: str, skipped: Skipped | None = None) -> Iterator[Found]:
    """The files of a path, in no order; a path without a file or folder is refused."""
    text = path.removeprefix("file://")
    if os.path.isdir(text):
        return _below(str(Path(text)), skipped)
    if not os.path.exists(text) and glob.has_magic(text):
        return _matching(text, skipped)
    return _stats(expand(path))


def _below(folder: str, skipped: Skipped | None) -> Iterator[Found]:
    pending = [folder]
    while pending:
        place = pending.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.name.endswith(_TEMPORARY):
                        continue
                    if entry.name.startswith(_HIDDEN):
                        if skipped is not None:
                            skipped(HIDDEN, entry.path)
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif entry.is_file():
                        yield from _stat(entry)
                    elif entry.is_symlink() and not os.path.exists(entry.path):
                        expand(entry.path)
                    elif skipped is not None:
                        skipped(LINKED if entry.is_dir() else SPECIAL, entry.path)
        except OSError as cause:
            if isinstance(cause, FileNotFoundError) and place != folder:
                continue  # a folder inside that is gone since it was listed
            raise unreadable(Path(place), cause) from cause


def _stat(entry: os.DirEntry[str]) -> Iterator[Found]:
    try:
        yield entry.path, entry.stat()
    except FileNotFoundError:
        return  # gone since the folder was listed


def _matching(pattern: str, skipped: Skipped | None) -> Iterator[Found]:
    parts = Path(pattern).parts
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    try:
        found = set(expand(pattern))
    except DataError as problem:
        if problem.message.startswith("no file matches") and Path(*parts[:fixed]).is_dir():
            return iter(())
        raise
    shown = [file for file in found if not file.name.endswith(_TEMPORARY)]
    for match in () if skipped is None else glob.iglob(pattern, recursive=True):
        assert skipped is not None
        if not os.path.isdir(match) and not os.path.isfile(match):
            skipped(SPECIAL, match)
        elif Path(match) not in found and os.path.isfile(match):
            skipped(HIDDEN, match)
    return _stats(shown)


def _stats(files: list[Path]) -> Iterator[Found]:
    for file in files:
        try:
            yield str(file), file.stat()
        except FileNotFoundError:
            continue
        except OSError as cause:
            raise unreadable(file, cause) from cause


# --- The feed ---


class FolderFeed:
    """The files of a folder, of a pattern or of one name, and those of its deletes."""

    def __init__(
        self,
        stream: Stream,
        ingested: IngestedByPath,
        settle: float,
        archive: Archive | None = None,
        *,
        allow_empty: bool = False,
    ) -> None:
        self.place, self.ingested = stream.place, ingested
        self.settled: frozenset[str] = frozenset()
        """Files that are about to be forgotten or retracted: their changes are no problem."""
        self._allow_empty = allow_empty
        self._skipped: dict[str, str] = {}
        """What is skipped in folders, by its kind, and the first of each."""
        self._told: set[str] = set()
        self._stream, self._settle, self._archive = stream, settle, archive
        self._replaces = dict(stream.source.options).get("on_modified") == "replace"
        self._seen: dict[str, tuple[InputFile, float]] = {}
        """Files that are not at rest, and when they were first seen like this."""

    def poll(self, now: float) -> Arrivals:
        """Files that are new and at rest; one pass over the folder."""
        there = self._listing()
        before, self._seen = self._seen, {}
        back: list[InputFile] = []
        fresh: list[InputFile] = []
        for path in self._altered(there):
            file = there.get(path)
            if file is None:
                back += self._taken_back(path)
            elif self._at_rest(file, before, now):
                back += self._taken_back(path)
                fresh.append(file)
        for path, file in there.items():
            if path not in self.ingested and self._at_rest(file, before, now):
                fresh.append(file)
        fresh.sort(key=lambda file: (file.modified, file.deletes, file.path))
        return Arrivals((*back, *fresh), len(self._seen), self._notices())

    def _notices(self) -> tuple[str, ...]:
        """What is skipped, each kind once."""
        new = {kind: path for kind, path in self._skipped.items() if kind not in self._told}
        self._told.update(new)
        return tuple(f'{kind} are skipped, such as "{path}"' for kind, path in new.items())

    def _skip(self, kind: str, path: str) -> None:
        self._skipped.setdefault(kind, path)

    def check_ingested(self) -> None:
        """Refuse a file that changed or vanished, unless such files are replaced."""
        for _ in self._altered(self._listing()):
            pass

    def acknowledge(self, files: Sequence[tuple[InputFile, str]]) -> None:
        """Remember files that are committed, and forget those that were taken back."""
        for file, _ in files:
            if file.retracts:
                self.ingested.pop(file.retracts, None)
        for file, digest in files:
            if not file.retracts:
                self.ingested[file.path] = (file, digest)

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
        skipped = self._skip if os.path.isdir(path) or not self._told else None
        try:
            for name, stat in files_at(path, skipped):
                size, modified = stat.st_size, stat.st_mtime_ns
                yield name, InputFile(name, size, modified, self.place, deletes)
        except DataError:
            # A folder that is missing as a whole is no deletion of its files.
            alone = str(Path(path.removeprefix("file://")))
            if alone not in self.ingested or not _is_gone(alone):
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
        self._refuse_emptied(there)
        found = []
        for path, (before, digest) in list(self.ingested.items()):
            after = there.get(path)
            if after == before or before.forgotten or path in self.settled:
                continue
            if after is not None and self._is_same(before, after, digest):
                self.ingested[path] = (after, digest)
                continue
            if not self._replaces:
                raise self._problem(before, after)
            found.append(path)
        return found

    def _refuse_emptied(self, there: dict[str, InputFile]) -> None:
        """Refuse to take back all files of a folder at once, unless the user allows it."""
        if not self._replaces or self._allow_empty:
            return
        for path, deletes in ((self._stream.path, False), (self._stream.deletes, True)):
            before = [
                file
                for name, (file, _) in self.ingested.items()
                if file.deletes == deletes and name not in self.settled and not file.forgotten
            ]
            is_named = path is not None and str(Path(path)) in self.ingested
            if before and not is_named and all(file.deletes != deletes for file in there.values()):
                hint = (
                    "If its disk is not mounted, mount it and run again; if the files were removed "
                    "on purpose, run with --allow-empty."
                )
                message = f'the only file of "{path}" that was ingested is gone'
                if len(before) > 1:
                    what = f'all {len(before)} files of "{path}" that were ingested'
                    message = f"{what} are gone at once"
                raise DataError("R322", message, place=str(path), hint=hint)

    def _is_same(self, before: InputFile, after: InputFile, digest: str) -> bool:
        if (after.size, after.deletes) != (before.size, before.deletes):
            return False
        try:
            return checksum(after) == digest
        except DataError as problem:
            if self._replaces and problem.code == "R301":
                return False  # it is changing right now
            raise

    def _problem(self, before: InputFile, after: InputFile | None) -> DataError:
        """The error for a file that vanished or changed."""
        return gone(before) if after is None else altered(before)

    def _taken_back(self, path: str) -> Iterable[InputFile]:
        """What takes back the rows of a file."""
        before, digest = self.ingested[path]
        copy = None if self._archive is None else self._archive.copy_of(before, digest)
        if copy is None:
            message = f'"{Path(path).name}" is to be replaced, and what was taken in is not kept'
            hint = "Put the file back as it was; to replace files, run with --keep-input all."
            raise DataError("R305", message, place=path, hint=hint)
        return [replace(copy, retracts=path)]


def _is_gone(path: str) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def altered(file: InputFile) -> DataError:
    """A file that was taken in and has another content now."""
    message = f'"{Path(file.path).name}" is no longer what was taken in: its content is another'
    hint = (
        f"Put it back as it was. To resume without it, run with --forget {file.path} (its rows "
        f"stay) or --retract {file.path} (its rows leave, and the file as it is now is new input)."
    )
    return DataError("R301", message, place=file.path, hint=hint)


def gone(file: InputFile) -> DataError:
    """A file that was taken in and is no longer there."""
    hint = (
        f"Put it back. To resume without it, run with --forget {file.path} (its rows stay) "
        f"or --retract {file.path} (its rows leave)."
    )
    message = f'"{Path(file.path).name}" was taken in and is no longer there'
    return DataError("R302", message, place=file.path, hint=hint)
