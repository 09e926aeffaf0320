"""What a feed is, and the folders of the checkpoint in which arrivals wait to be ingested.

A file is in such a folder, whole, from its arrival until its batch is committed; the archive keeps
it from then on.  Names are never used twice, so that a file whose batch was committed before a
crash is told by its name.

A file that holds rows which no batch can ingest is superseded: `X~1.arrow` is `X.arrow` without
these rows.  From the moment the new file is there the old one does not count; the rows that are in
the old one and not in the new one are written to the folder of rows set aside, and then the old
one is removed.  A crash between these steps is finished at the next start or look.
"""

from __future__ import annotations

import re
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from incmrql.engine.inputs import InputFile
from incmrql.io.spools import spool_rows, write_spool
from incmrql.storage import fsync
from incmrql.storage.files import crash_here
from incmrql.types.model import Type
from incmrql.values import Value, decode, encode

# --- Feeds ---


IngestedByPath: TypeAlias = dict[str, tuple[InputFile, str]]
"""The files of one source that were taken in, by path, with their checksums."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """New files that are at rest, oldest first, and how many are not at rest yet."""

    files: tuple[InputFile, ...] = ()
    unsettled: int = 0
    notices: tuple[str, ...] = ()
    """What the user should know, each said once."""


class Feed(Protocol):
    """A source at run time.  All but the pushing of rows is done by one thread."""

    @property
    def place(self) -> int:
        """The place of the source among the nodes of the program."""

    def poll(self, now: float) -> Arrivals:
        """What is new at a time (seconds since 1970), after a check of what was taken in."""

    def check_ingested(self) -> None:
        """Refuse a file that was taken in and has changed or vanished since."""

    def acknowledge(self, files: Sequence[tuple[InputFile, str]]) -> None:
        """Files of this source, with their checksums, are committed; called after every batch."""

    def close(self) -> None:
        """Let go of what is open; what is durable stays."""


# --- Folders ---


ASIDE: Final = "refused"
"""The folder, beside those of the sources, of rows that were set aside."""
_VERSION: Final = re.compile(r"(?P<stem>.*?)(?:~(?P<version>\d+))?(?P<ending>\.[^.]*)")


class SpoolFolder:
    """The files of one source that wait; the common part of its feeds.

    `ingested` are the files of the last committed batches, which a crash may have left here.
    """

    def __init__(
        self,
        place: int,
        folder: Path,
        ingested: Iterable[str],
        kind: Literal["spool", "received"] = "spool",
    ) -> None:
        self.place, self.folder = place, folder.absolute()
        self._kind = kind
        self.aside: Path | None = self.folder.parent / ASIDE
        """Where rows go that are set aside; None if nobody asks for them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.glob(".*.tmp"):
            path.unlink()
        self._ingested: set[str] = set()
        self._note_ingested({Path(path).name for path in ingested})

    def _note_ingested(self, names: Iterable[str]) -> None:
        """Remove files that are committed, and remember that their names count no more.

        A driver that was paused may yet write such a file again; then it is not ingested twice.
        """
        for name in names:
            for each in (name, original(name)):
                self._ingested.add(each)
                (self.folder / each).unlink(missing_ok=True)

    def new_path(self, ending: str) -> Path:
        """A path that was never used, in the order of time."""
        return self.folder / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}{ending}"

    def waiting(self, ending: str) -> Arrivals:
        """The files with an ending, oldest first."""
        found = []
        for path in self._newest(ending):
            stat = path.stat()
            size, modified = stat.st_size, stat.st_mtime_ns
            found.append(InputFile(str(path), size, modified, self.place, kind=self._kind))
        return Arrivals(tuple(found))

    def supersede(
        self,
        file: Path,
        rows: Sequence[tuple[Value, int]],
        element: Type,
        number: int = -1,
    ) -> None:
        """Let a file have these rows only; `number` is that of the batch that was refused."""
        if not rows:
            self._retire(file)
            return
        new = _next_version(file)
        write_spool(new, element, rows)
        crash_here("spool-new", number)
        _finish_superseding(file, new, element, self.aside, number)

    def _retire(self, file: Path) -> None:
        """Set a file aside as a whole."""
        if self.aside is None:
            file.unlink()
        else:
            self.aside.mkdir(exist_ok=True)
            file.replace(self.aside / file.name)
            fsync(self.aside)
        fsync(self.folder)

    def _newest(self, ending: str) -> list[Path]:
        """The newest versions of files, oldest file first."""
        versions: dict[str, Path] = {}
        for path in sorted(self.folder.glob(f"[!.]*{ending}"), key=_version):
            if path.name in self._ingested:
                path.unlink(missing_ok=True)
            else:
                versions[original(path.name)] = path
        return [versions[name] for name in sorted(versions)]

    def finish_superseding(self, element: Type) -> None:
        """Finish what a crash interrupted: remove files that a newer version stands for."""
        for new in sorted(self.folder.glob("[!.]*~*.arrow"), key=_version):
            for old in self.folder.glob(f"{_parts(new.name)[0]}*.arrow"):
                if original(old.name) == original(new.name) and _version(old) < _version(new):
                    _finish_superseding(old, new, element, self.aside)

    def check_ingested(self) -> None:
        """Nobody but us writes here: there is nothing to verify."""

    def acknowledge(self, files: Sequence[tuple[InputFile, str]]) -> None:
        """Remove files that are committed."""
        self._note_ingested([Path(file.path).name for file, _ in files])

    def close(self) -> None:
        """Nothing is open."""


def original(name: str) -> str:
    """The name of the first version of a file."""
    stem, _, ending = _parts(name)
    return f"{stem}{ending}"


def _parts(name: str) -> tuple[str, int, str]:
    found = _VERSION.fullmatch(name)
    if found is None:
        return name, 0, ""
    return found["stem"], int(found["version"] or 0), found["ending"]


def _version(path: Path) -> int:
    return _parts(path.name)[1]


def _next_version(path: Path) -> Path:
    stem, version, ending = _parts(path.name)
    return path.with_name(f"{stem}~{version + 1}{ending}")


def _finish_superseding(
    old: Path, new: Path, element: Type, aside: Path | None, number: int = -1
) -> None:
    """Keep the rows that only the old file has, and remove it."""
    if aside is not None and not (aside / new.name).exists():
        left = _counted(old, element)
        left.subtract(_counted(new, element))
        rows = [(decode(row), weight) for row, weight in left.items() if weight]
        write_spool(aside / new.name, element, rows)
    crash_here("spool-aside", number)
    old.unlink(missing_ok=True)
    fsync(old.parent)
    crash_here("spool-old", number)


def _counted(path: Path, element: Type) -> Counter[bytes]:
    """The rows of a spool with their weights added up."""
    total: Counter[bytes] = Counter()
    for row, weight in spool_rows(path, element):
        total[encode(row)] += weight
    return total
