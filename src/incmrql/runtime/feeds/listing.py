"""Which files a path stands for now: one pass over the names, each with its size and time.

Names that start with `.` or `_` are hidden and names that end in `.tmp` are being written: neither
is there.  A pattern that matches nothing yet stands for no file, as an empty folder does.  What is
skipped for good (not names that end in `.tmp`) is reported by its kind.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from incmrql.diagnostics import DataError
from incmrql.formats import expand
from incmrql.formats.files import unreadable

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
