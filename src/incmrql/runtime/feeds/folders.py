"""Watched directories: which files are new and settled, and which changed after ingestion.

The offset of a directory is the set of files ingested so far.  A file is ingested once it has not
changed for the settle time; a file that appears by rename has its old time and is ingested at once.
A file whose time lies in the future has settled when it was seen unchanged for the settle time.

With `on_modified: replace`, a file that changed or vanished after it was ingested is retracted,
from its copy in the archive, and its new content is ingested as a new file.  A directory that loses
all of its files at once is more likely a disk that is not mounted: that is refused.

A forgotten file stays among the ingested ones, and is no longer checked.
"""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from incmrql.engine.inputs import InputFile, checksum
from incmrql.errors import DataError
from incmrql.io.files import expand, is_current_answer, unreadable
from incmrql.plan.program import Stream
from incmrql.runtime.feeds.archive import Archive
from incmrql.runtime.feeds.spooled import Arrivals, IngestedByPath

# --- Listing files ---
#
# Names that start with `.` or `_` are hidden, and names that end in `.tmp` are being written: both
# are skipped. A pattern that matches nothing yet stands for no file, like an empty directory.
# What is skipped for good (not names that end in `.tmp`) is reported by its kind.


Listed: TypeAlias = tuple[str, os.stat_result]

_HIDDEN: Final = (".", "_")
_TEMPORARY: Final = ".tmp"


HIDDEN: Final = 'files whose names start with "." or "_"'
LINKED: Final = "linked directories"
REPEATED: Final = "current answers of other runs, which their batches add up to"
SPECIAL: Final = "named pipes, sockets and devices"

Skipped: TypeAlias = Callable[[str, str], None]
"""Called with the kind and the path of what is skipped."""


def files_at(path: str, skipped: Skipped | None = None) -> Iterator[Listed]:
    """The files of a path, unordered; refused if there is no such file or directory."""
    text = path.removeprefix("file://")
    if os.path.isdir(text):
        return _below(str(Path(text)), skipped)
    if not os.path.exists(text) and glob.has_magic(text):
        return _matching(text, skipped)
    return _stats(expand(path))


def _below(folder: str, skipped: Skipped | None) -> Iterator[Listed]:
    pending = [folder]
    while pending:
        current = pending.pop()
        try:
            with os.scandir(current) as entries:
                for entry in entries:
                    if entry.name.endswith(_TEMPORARY):
                        continue
                    if entry.name.startswith(_HIDDEN):
                        if skipped is not None:
                            skipped(HIDDEN, entry.path)
                        continue
                    if is_current_answer(current, entry.name):
                        if skipped is not None:
                            skipped(REPEATED, entry.path)
                    elif entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif entry.is_file():
                        yield from _stat(entry)
                    elif entry.is_symlink() and not os.path.exists(entry.path):
                        expand(entry.path)
                    elif skipped is not None:
                        skipped(LINKED if entry.is_dir() else SPECIAL, entry.path)
        except OSError as cause:
            if isinstance(cause, FileNotFoundError) and current != folder:
                continue  # a subdirectory that was removed since it was listed
            raise unreadable(Path(current), cause) from cause


def _stat(entry: os.DirEntry[str]) -> Iterator[Listed]:
    try:
        yield entry.path, entry.stat()
    except FileNotFoundError:
        return  # removed since the directory was listed


def _matching(pattern: str, skipped: Skipped | None) -> Iterator[Listed]:
    parts = Path(pattern).parts
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    try:
        files = set(expand(pattern))
    except DataError as problem:
        if problem.message.startswith("no file matches") and Path(*parts[:fixed]).is_dir():
            return iter(())
        raise
    visible = [file for file in files if not file.name.endswith(_TEMPORARY)]
    for match in () if skipped is None else glob.iglob(pattern, recursive=True):
        assert skipped is not None
        if not os.path.isdir(match) and not os.path.isfile(match):
            skipped(SPECIAL, match)
        elif Path(match) not in files and os.path.isfile(match):
            skipped(HIDDEN, match)
    return _stats(visible)


def _stats(files: list[Path]) -> Iterator[Listed]:
    for file in files:
        try:
            yield str(file), file.stat()
        except FileNotFoundError:
            continue
        except OSError as cause:
            raise unreadable(file, cause) from cause


# --- The feed ---


class FolderFeed:
    """The files of a directory, pattern or single path, and of the stream's `deletes`."""

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
        """Files that are about to be forgotten or retracted: their changes are ignored."""
        self._allow_empty = allow_empty
        self._skipped: dict[str, str] = {}
        """The first path of each kind of skipped files."""
        self._reported: set[str] = set()
        self._stream, self._settle, self._archive = stream, settle, archive
        self._replaces = dict(stream.source.options).get("on_modified") == "replace"
        self._seen: dict[str, tuple[InputFile, float]] = {}
        """New files with a recent time, each with the time at which it was first seen like this."""
        self._unsettled = 0

    def poll(self, now: float) -> Arrivals:
        """The new files that have settled, preceded by retractions; one pass over the directory."""
        listing = self._listing()
        before, self._seen, self._unsettled = self._seen, {}, 0
        retractions: list[InputFile] = []
        new: list[InputFile] = []
        for path in self._altered_files(listing):
            file = listing.get(path)
            if file is None:
                retractions += self._retraction(path)
            elif self._is_settled(file, before, now):
                retractions += self._retraction(path)
                new.append(file)
        for path, file in listing.items():
            if path not in self.ingested and self._is_settled(file, before, now):
                new.append(file)
        new.sort(key=lambda file: (file.modified, file.deletes, file.path))
        return Arrivals((*retractions, *new), self._unsettled, self._notices())

    def _notices(self) -> tuple[str, ...]:
        """A notice for each kind of skipped files that was not reported yet."""
        new = {kind: path for kind, path in self._skipped.items() if kind not in self._reported}
        self._reported.update(new)
        return tuple(f'{kind} are skipped, such as "{path}"' for kind, path in new.items())

    def _skip(self, kind: str, path: str) -> None:
        self._skipped.setdefault(kind, path)

    def check_ingested(self) -> None:
        """Refuse a file that changed or vanished, unless such files are replaced."""
        for _ in self._altered_files(self._listing()):
            pass

    def acknowledge(self, files: Sequence[tuple[InputFile, str]]) -> None:
        """Remember the files of a committed batch, and drop those that it retracted."""
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
        listing = dict(self._files(self._stream.path, deletes=False))
        listing.update(self._files(self._stream.deletes, deletes=True))
        return listing

    def _files(self, path: str | None, *, deletes: bool) -> Iterator[tuple[str, InputFile]]:
        if path is None:
            return
        skipped = self._skip if os.path.isdir(path) or not self._reported else None
        try:
            for name, stat in files_at(path, skipped):
                size, modified = stat.st_size, stat.st_mtime_ns
                yield name, InputFile(name, size, modified, self.place, deletes)
        except DataError as problem:
            # A directory that is missing as a whole does not count as the deletion of its files.
            single = str(Path(path.removeprefix("file://")))
            if single not in self.ingested or not _is_gone(single):
                raise self._with_way_out(problem, single, deletes=deletes) from None

    def _with_way_out(self, problem: DataError, path: str, *, deletes: bool) -> DataError:
        """The error for a directory that cannot be listed; one that was never there can be made."""
        was_there = any(file.deletes == deletes for file, _ in self.ingested.values())
        is_missing = problem.code == "R101" and _is_gone(path) and not Path(path).suffix
        if not is_missing or was_there or not self._stream.streaming or glob.has_magic(path):
            return problem
        use = "the rows of files in it are deleted" if deletes else "files in it are ingested"
        hint = f"{problem.hint} To create it: mkdir -p {shlex.quote(path)} (empty is fine; {use})."
        return DataError(problem.code, problem.message, place=problem.place, hint=hint.strip())

    def _is_settled(
        self, file: InputFile, before: dict[str, tuple[InputFile, float]], now: float
    ) -> bool:
        """Whether a file has not changed for the settle time; `before` is what was seen so far."""
        if file.modified / 1e9 <= now - self._settle:
            return True
        known, since = before.get(file.path, (None, now))
        if known != file:
            since = now
        # One that has settled is remembered too: who polls need not take what is there.
        self._seen[file.path] = (file, since)
        is_settled = known == file and now - since >= self._settle
        self._unsettled += not is_settled
        return is_settled

    # --- ingested files ----------------------------------------------------------------------

    def _altered_files(self, listing: dict[str, InputFile]) -> list[str]:
        """The ingested files that changed or vanished; new times of equal content are recorded."""
        self._refuse_emptied(listing)
        altered_paths = []
        for path, (before, digest) in list(self.ingested.items()):
            after = listing.get(path)
            if after == before or before.forgotten or path in self.settled:
                continue
            if after is not None and self._is_same(before, after, digest):
                self.ingested[path] = (after, digest)
                continue
            if not self._replaces:
                raise self._problem(before, after)
            altered_paths.append(path)
        return altered_paths

    def _refuse_emptied(self, listing: dict[str, InputFile]) -> None:
        """Refuse to retract all files of a directory at once, unless the user allows it."""
        if not self._replaces or self._allow_empty:
            return
        for path, deletes in ((self._stream.path, False), (self._stream.deletes, True)):
            before = [
                file
                for name, (file, _) in self.ingested.items()
                if file.deletes == deletes and name not in self.settled and not file.forgotten
            ]
            is_named = path is not None and str(Path(path)) in self.ingested
            is_empty = all(file.deletes != deletes for file in listing.values())
            if before and not is_named and is_empty:
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
                return False  # the file is being written right now
            raise

    def _problem(self, before: InputFile, after: InputFile | None) -> DataError:
        """The error for a file that vanished or changed."""
        streaming = self._stream.streaming
        if after is None:
            return gone(before, streaming=streaming)
        return altered_error(before, streaming=streaming)

    def _retraction(self, path: str) -> Iterable[InputFile]:
        """The input that retracts an ingested file: its kept copy."""
        before, digest = self.ingested[path]
        copy = None if self._archive is None else self._archive.copy_of(before, digest)
        if copy is None:
            message = f'"{Path(path).name}" changed, and no copy of the ingested content was kept'
            hint = "Restore the file as it was; to replace files, run with --keep-input all."
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


def altered_error(file: InputFile, *, streaming: bool = True) -> DataError:
    """The error for an ingested file whose content changed."""
    message = f'"{Path(file.path).name}" changed after it was ingested'
    retract = f"or --retract {file.path} (its rows leave, and the changed file is new input)"
    hint = f"Restore it as it was. {_ways_out(file, retract, streaming=streaming)}"
    return DataError("R301", message, place=file.path, hint=hint)


def gone(file: InputFile, *, streaming: bool = True) -> DataError:
    """The error for an ingested file that vanished."""
    message = f'"{Path(file.path).name}" was ingested and no longer exists'
    retract = f"or --retract {file.path} (its rows leave)"
    hint = f"Restore it. {_ways_out(file, retract, streaming=streaming)}"
    return DataError("R302", message, place=file.path, hint=hint)


def _ways_out(file: InputFile, retract: str, *, streaming: bool) -> str:
    """How to resume without an ingested file; one of an invariant source is never read again."""
    forget = f"To resume without it, run with --forget {file.path} (its rows stay)"
    if streaming:
        return f"{forget} {retract}."
    return f"{forget}. Its source is read once: to read it again, start with a new checkpoint."
