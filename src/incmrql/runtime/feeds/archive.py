"""The input archive of a checkpoint: what was taken in, kept to be read again.

    000012-0f3a….arrow      a file of batch 12, named by the checksum of its bytes

What was pushed, sent or registered exists nowhere else and is kept: of all batches, of the last
ones, or not at all.  The user's own files are copied only if asked for.  (A hard link would not do:
it changes with a file that is written to in its place.)
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from incmrql.engine.inputs import InputFile, changed, check_unchanged, checksum
from incmrql.errors import DataError
from incmrql.io.files import ANYWHERE
from incmrql.storage import fsync
from incmrql.storage.files import replacing

if TYPE_CHECKING:
    from incmrql.runtime.reach import Reach


Keep: TypeAlias = Literal["all", "none"] | int
"""Of how many batches the input is kept."""

_NAME: Final = re.compile(r"\d{6,}-(?P<digest>[0-9a-f]+)")


class Archive:
    """A folder of files that were taken in."""

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
            elif found := _NAME.match(path.name):
                self._names.setdefault(found["digest"], set()).add(path.name)

    def add(self, number: int, files: Sequence[tuple[InputFile, str]]) -> None:
        """Keep the files of a batch, with their checksums; to be called before its commit."""
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
                found = path.stat()
                size, modified = found.st_size, found.st_mtime_ns
                return replace(file, path=str(path), size=size, modified=modified)
        return None

    def replay(
        self,
        batches: Iterable[Sequence[tuple[InputFile, str]]],
        reach: Reach = ANYWHERE,
        *,
        verify: bool = False,
    ) -> Iterator[InputFile]:
        """The files of batches, each as a kept copy or as it still is; refused if one is missing.

        A file without a copy must be within `reach`.  With `verify`, the checksums of kept copies
        and of files of the same size and time are compared as well.
        """
        found: list[InputFile] = []
        missing: list[InputFile] = []
        outside: list[str] = []
        for files in batches:
            for file, digest in files:
                is_read = self.copy_of(file, digest) is None and os.path.lexists(file.path)
                if is_read and not reach.holds(file.path):
                    outside.append(file.path)
                    continue
                there = self._there(file, digest, verify=verify)
                if there is None:
                    missing.append(file)
                else:
                    found.append(there)
        if outside:
            raise reach.refusal(outside)
        if missing:
            raise _missing(missing)
        return iter(found)

    def clean(self, number: int) -> None:
        """Remove what is older than the last batches that are kept; `number` is the newest."""
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
                raise changed(file, "no such file or directory") from cause
            shutil.copystat(file.path, temporary)
            check_unchanged(file)
            if checksum(_at(file, temporary)) != digest:
                raise changed(file, "its content is another")

    def _there(self, file: InputFile, digest: str, *, verify: bool) -> InputFile | None:
        there = self.copy_of(file, digest) or _as_it_is(file)
        if there is None:
            return None
        sure = there.path != file.path or there == file
        if (verify or not sure) and checksum(there) != digest:
            return None
        return there


def _as_it_is(file: InputFile) -> InputFile | None:
    path = Path(file.path)
    try:
        return _at(file, path) if path.stat().st_size == file.size else None
    except OSError:
        return None


def _at(file: InputFile, path: Path) -> InputFile:
    found = path.stat()
    return replace(file, path=str(path), size=found.st_size, modified=found.st_mtime_ns)


def _missing(files: list[InputFile]) -> DataError:
    first = files[0]
    more = f", and so are {len(files) - 1} more" if len(files) > 1 else ""
    what = "changed or is gone" if first.kind == "file" else "was not kept"
    message = f'the input is needed again, and "{Path(first.path).name}" {what}{more}'
    hint = "Put the files back as they were; next time run with --keep-input all."
    return DataError("R305", message, place=first.path, hint=hint)
