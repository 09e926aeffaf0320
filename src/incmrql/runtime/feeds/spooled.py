"""The protocol of feeds, and the directories of a checkpoint in which arrivals wait for a batch.

A complete file is in such a directory from its arrival until its batch is committed; the archive
keeps it from then on.  Names are never reused, so after a crash a name shows whether the batch of
its file was committed.

A file with rows that no batch can ingest is superseded: `X~1.arrow` is `X.arrow` without these
rows.  As soon as the new file exists, the old one is ignored.  The rows that only the old file has
are then written to the directory of rows set aside, and the old file is removed.  The next start
or poll finishes these steps after a crash.
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
"""The ingested files of one source, by path, with their checksums."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """New files that have settled, oldest first, and the number of files that have not."""

    files: tuple[InputFile, ...] = ()
    unsettled: int = 0
    notices: tuple[str, ...] = ()
    """Messages for the user; each is given once."""


class Feed(Protocol):
    """A source at run time.  One thread calls everything except the pushing of rows."""

    @property
    def place(self) -> int:
        """The index of the source among the nodes of the program."""

    def poll(self, now: float) -> Arrivals:
        """The new files at a time (seconds since 1970), after a check of the ingested ones."""

    def check_ingested(self) -> None:
        """Refuse an ingested file that has changed or vanished since."""

    def acknowledge(self, files: Sequence[tuple[InputFile, str]]) -> None:
        """Remember committed files of this source, with checksums; called after each batch."""

    def close(self) -> None:
        """Close files, connections and threads; durable files stay."""


# --- Directories ---


ASIDE: Final = "refused"
"""The directory of rows that were set aside, beside those of the sources."""
_VERSION: Final = re.compile(r"(?P<stem>.*?)(?:~(?P<version>\d+))?(?P<ending>\.[^.]*)")


class SpoolFolder:
    """The waiting files of one source; the common part of feeds that write files.

    `ingested` are files of committed batches, which a crash may have left here.
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
        """The directory for rows that are set aside; None to drop them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.glob(".*.tmp"):
            path.unlink()
        self._ingested: set[str] = set()
        self._note_ingested({Path(path).name for path in ingested})

    def _note_ingested(self, names: Iterable[str]) -> None:
        """Remove committed files, and remember their names as ingested.

        A driver that was paused may write such a file once more; it is not ingested twice.
        """
        for name in names:
            for version in (name, original(name)):
                self._ingested.add(version)
                (self.folder / version).unlink(missing_ok=True)

    def new_path(self, ending: str) -> Path:
        """A path that was never used; paths sort by time."""
        return self.folder / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}{ending}"

    def waiting(self, ending: str) -> Arrivals:
        """The files with an ending, oldest first."""
        files = []
        for path in self._newest(ending):
            stat = path.stat()
            size, modified = stat.st_size, stat.st_mtime_ns
            files.append(InputFile(str(path), size, modified, self.place, kind=self._kind))
        return Arrivals(tuple(files))

    def supersede(
        self,
        file: Path,
        rows: Sequence[tuple[Value, int]],
        element: Type,
        number: int = -1,
    ) -> None:
        """Replace a file by one with these rows; `number` is that of the refused batch."""
        if not rows:
            self._set_aside(file)
            return
        new = _next_version(file)
        write_spool(new, element, rows)
        crash_here("spool-new", number)
        _finish_superseding(file, new, element, self.aside, number)

    def _set_aside(self, file: Path) -> None:
        """Set a whole file aside."""
        if self.aside is None:
            file.unlink()
        else:
            self.aside.mkdir(exist_ok=True)
            file.replace(self.aside / file.name)
            fsync(self.aside)
        fsync(self.folder)

    def _newest(self, ending: str) -> list[Path]:
        """The newest version of each file, oldest file first."""
        versions: dict[str, Path] = {}
        for path in sorted(self.folder.glob(f"[!.]*{ending}"), key=_version):
            if path.name in self._ingested:
                path.unlink(missing_ok=True)
            else:
                versions[original(path.name)] = path
        return [versions[name] for name in sorted(versions)]

    def finish_superseding(self, element: Type) -> None:
        """Finish what a crash interrupted: remove files that have a newer version."""
        for new in sorted(self.folder.glob("[!.]*~*.arrow"), key=_version):
            for old in self.folder.glob(f"{_parts(new.name)[0]}*.arrow"):
                if original(old.name) == original(new.name) and _version(old) < _version(new):
                    _finish_superseding(old, new, element, self.aside)

    def check_ingested(self) -> None:
        """Do nothing: only this feed writes here."""

    def acknowledge(self, files: Sequence[tuple[InputFile, str]]) -> None:
        """Remove committed files."""
        self._note_ingested([Path(file.path).name for file, _ in files])

    def close(self) -> None:
        """Nothing is open."""


def original(name: str) -> str:
    """The name of the first version of a file."""
    stem, _, ending = _parts(name)
    return f"{stem}{ending}"


def _parts(name: str) -> tuple[str, int, str]:
    match = _VERSION.fullmatch(name)
    if match is None:
        return name, 0, ""
    return match["stem"], int(match["version"] or 0), match["ending"]


def _version(path: Path) -> int:
    return _parts(path.name)[1]


def _next_version(path: Path) -> Path:
    stem, version, ending = _parts(path.name)
    return path.with_name(f"{stem}~{version + 1}{ending}")


def _finish_superseding(
    old: Path, new: Path, element: Type, aside: Path | None, number: int = -1
) -> None:
    """Set aside the rows that only the old file has, and remove it."""
    if aside is not None and not (aside / new.name).exists():
        left = _weights(old, element)
        left.subtract(_weights(new, element))
        rows = [(decode(row), weight) for row, weight in left.items() if weight]
        write_spool(aside / new.name, element, rows)
    crash_here("spool-aside", number)
    old.unlink(missing_ok=True)
    fsync(old.parent)
    crash_here("spool-old", number)


def _weights(path: Path, element: Type) -> Counter[bytes]:
    """The total weight of each distinct row of a spool."""
    total: Counter[bytes] = Counter()
    for row, weight in spool_rows(path, element):
        total[encode(row)] += weight
    return total
