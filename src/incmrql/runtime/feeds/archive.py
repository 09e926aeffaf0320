"""The input archive of a checkpoint: copies of ingested files, to be read again.

    000012-0f3a….arrow      a file of batch 12, named by the checksum of its bytes

Rows that were pushed, sent or registered exist nowhere else and are kept: for all batches, for the
last ones, or not at all.  The user's own files are copied only on request.  (A hard link would not
do: it changes with a file that is overwritten in place.)
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from incmrql.engine.inputs import InputFile, change_error, check_unchanged, checksum
from incmrql.errors import DataError
from incmrql.io.files import ANYWHERE
from incmrql.storage import fsync
from incmrql.storage.files import replacing

if TYPE_CHECKING:
    from incmrql.runtime.reach import Reach


Keep: TypeAlias = Literal["all", "none"] | int
"""The number of newest batches whose input is kept."""

_NAME: Final = re.compile(r"\d{6,}-(?P<digest>[0-9a-f]+)")


class Archive:
    """A directory with copies of ingested files."""

    def __init__(
        self, folder: Path, keep: Keep = "all", *, folders: bool = False, read_only: bool = False
    ) -> None:
        self._folder, self._keep, self._folders = folder.absolute(), keep, folders
        if not read_only:
            folder.mkdir(parents=True, exist_ok=True)
        self._names: dict[str, set[str]] = {}
        for path in folder.iterdir():
            if path.name.startswith("."):
                if not read_only:
                    path.unlink()
            elif match := _NAME.match(path.name):
                self._names.setdefault(match["digest"], set()).add(path.name)

    def add(self, number: int, files: Sequence[tuple[InputFile, str]]) -> None:
        """Keep the files of a batch, given with their checksums; called before its commit."""
        for file, digest in files:
            own = file.kind != "file"
            is_read = not (file.retracts or file.forgotten)
            if self._keep == "none" or not is_read or not (own or self._folders):
                continue
            name = f"{number:06d}-{digest}{Path(file.path).suffix}"
            if name not in self._names.get(digest, ()):
                self._put(file, digest, self._folder / name, link=own)
                self._names.setdefault(digest, set()).add(name)
        fsync(self._folder)

    def copy_of(self, file: InputFile, digest: str) -> InputFile | None:
        """The kept copy of a file, if there is one."""
        for name in sorted(self._names.get(digest, ())):
            path = self._folder / name
            if path.suffix == Path(file.path).suffix and path.exists():
                return _with_stat(file, path)
        return None

    def replay(
        self,
        batches: Iterable[Sequence[tuple[InputFile, str]]],
        reach: Reach = ANYWHERE,
        *,
        verify: bool = False,
    ) -> Iterator[InputFile]:
        """The files of batches, each as its kept copy or the unchanged original.

        Refused if a file is missing.  A file without a copy must be within `reach`.  With `verify`,
        the checksums of kept copies and of files of the same size and time are compared as well.
        """
        readable: list[InputFile] = []
        missing: list[InputFile] = []
        outside: list[str] = []
        for files in batches:
            for file, digest in files:
                is_read = self.copy_of(file, digest) is None and os.path.lexists(file.path)
                if is_read and not reach.holds(file.path):
                    outside.append(file.path)
                    continue
                source = self._find(file, digest, verify=verify)
                if source is None:
                    missing.append(file)
                else:
                    readable.append(source)
        if outside:
            raise reach.refusal(outside)
        if missing:
            raise _missing(missing)
        return iter(readable)

    def clean(self, number: int) -> None:
        """Remove files of batches that are no longer kept; `number` is the newest batch."""
        if self._keep == "all":
            return
        kept = 0 if self._keep == "none" else self._keep
        for digest, names in list(self._names.items()):
            for name in [name for name in names if int(name.split("-")[0]) <= number - kept]:
                (self._folder / name).unlink(missing_ok=True)
                names.discard(name)
            if not names:
                del self._names[digest]

    def _put(self, file: InputFile, digest: str, target: Path, *, link: bool) -> None:
        if link:
            try:
                os.link(file.path, target)
            except FileExistsError:
                return
            except OSError:
                pass  # another device, or one without links
            else:
                return
        with replacing(target) as temporary:
            try:
                shutil.copyfile(file.path, temporary)
            except FileNotFoundError as cause:
                raise change_error(file, "no such file or directory") from cause
            shutil.copystat(file.path, temporary)
            check_unchanged(file)
            if checksum(_with_stat(file, temporary)) != digest:
                raise change_error(file, "its content differs")

    def _find(self, file: InputFile, digest: str, *, verify: bool) -> InputFile | None:
        """The kept copy of a file, or the unchanged original; None if there is neither."""
        candidate = self.copy_of(file, digest) or _original(file)
        if candidate is None:
            return None
        is_trusted = candidate.path != file.path or candidate == file
        if (verify or not is_trusted) and checksum(candidate) != digest:
            return None
        return candidate


def _original(file: InputFile) -> InputFile | None:
    """The file as it is now, if it still has its size."""
    path = Path(file.path)
    try:
        return _with_stat(file, path) if path.stat().st_size == file.size else None
    except OSError:
        return None


def _with_stat(file: InputFile, path: Path) -> InputFile:
    """The same input at another path, with the size and time of what is there."""
    stat = path.stat()
    return replace(file, path=str(path), size=stat.st_size, modified=stat.st_mtime_ns)


def _missing(files: list[InputFile]) -> DataError:
    """The error for input that has to be read again and is not available."""
    first = files[0]
    others = len(files) - 1
    more = f", and {others} more file{'s' if others > 1 else ''} likewise" if others else ""
    what = "changed or is gone" if first.kind == "file" else "was not kept"
    message = f'the input is needed again, but "{Path(first.path).name}" {what}{more}'
    hint = "Restore the files as they were; next time run with --keep-input all."
    return DataError("R305", message, place=first.path, hint=hint)
