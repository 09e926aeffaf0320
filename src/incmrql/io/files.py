"""Paths to files, and files to bytes and lines.

`expand` turns a file, a folder or a glob into the files it stands for, always in one order.
`open_bytes` decompresses by the file's ending; `open_text` gives lines, of which one that is
not UTF-8 or too long carries the problem with it, so that the other lines of the file can still
be read.  A few compressed bytes may stand for gigabytes: no more of a line is kept in memory than
the longest line that is allowed.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final, NoReturn, cast

import pyarrow as pa

from incmrql.errors import OUTSIDE, DataError, nearest

BOM: Final = b"\xef\xbb\xbf"
_HIDDEN: Final = ("_", ".")
COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst")
_MOST_NAMED = 5
MAX_LINE: Final = 1 << 26
"""Bytes of the longest line, where a source has no option `max_line`."""
_EXCERPT: Final = 200
_PIECE: Final = 1 << 16
_SPECIAL: Final = (
    (stat.S_ISFIFO, "a named pipe (FIFO)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, counted from 1; `problem` says why it is not text, if it is not."""

    number: int
    text: str
    end: str
    problem: str = ""


def expand(path: str | Path) -> list[Path]:
    """The files that a path stands for.

    A folder stands for all files below it, but names that start with `_` or `.` are skipped
    and folders reached through a link are not entered.  An empty folder stands for no file.
    """
    text = str(path).removeprefix("file://")
    if not text:
        raise DataError("R101", "the path is empty", hint='Write "." for the current folder.')
    target = Path(text)
    if target.is_dir():
        return _below(target)
    if target.exists():
        refuse_special(target)
        return [target]
    if glob.has_magic(text):
        return _matching(text)
    raise _not_found_error(target)


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The content of a file, decompressed where its name ends in .gz, .bz2, .xz or .zst."""
    try:
        refuse_special(path)
        with _open_stream(path) as stream:
            yield stream
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as cause:
        raise damaged_error(path, str(cause)) from cause
    except OSError as cause:
        if cause.errno is None and path.suffix in COMPRESSED:
            raise damaged_error(path, str(cause)) from cause
        raise unreadable(path, cause) from cause


def open_text(path: Path, longest: int = MAX_LINE) -> Iterator[Line]:
    """The lines of a file; they end in a line feed, with or without a carriage return.

    A line of more than `longest` bytes before its line feed is a problem.
    """
    number = 0
    with open_bytes(path) as stream:
        while raw := stream.readline(longest + 1):
            number += 1
            if len(raw) > longest and not raw.endswith(b"\n"):
                skip_line(stream)
                yield too_long(number, raw, longest)
                continue
            line = raw.removeprefix(BOM) if number == 1 else raw
            if line:
                yield line_of(number, line)


def too_long(number: int, start: bytes, longest: int) -> Line:
    """A line that has more bytes than it may have; only its start is kept."""
    text = start[: min(longest, _EXCERPT)].decode(errors="backslashreplace")
    return Line(number, f"{text}...", "\n", f"the line is longer than max_line ({longest} bytes)")


def skip_line(stream: BinaryIO) -> int:
    """Read to the end of the current line without keeping it; the number of bytes read."""
    count = 0
    while piece := stream.readline(_PIECE):
        count += len(piece)
        if piece.endswith(b"\n"):
            break
    return count


def refuse_special(path: Path) -> None:
    """Refuse a named pipe, a socket or a device: reading one may block or never end."""
    mode = path.stat().st_mode
    for is_kind, kind in _SPECIAL:
        if is_kind(mode):
            hint = "Give a regular file, or a folder or pattern of such files."
            message = f'"{path.name}" is {kind}, not a file'
            raise DataError("R102", message, place=str(path), hint=hint)


def unreadable(path: Path, cause: OSError) -> DataError:
    """The problem that the operating system has with a file."""
    what = (cause.strerror or str(cause)).lower()
    hint = "Check that it is a file and that you may read it."
    return DataError("R102", f'"{path.name}" cannot be read: {what}', place=str(path), hint=hint)


def damaged_error(path: Path, why: str) -> DataError:
    """A file that is cut off or damaged."""
    return DataError(
        "R103", f'"{path.name}" is damaged or was cut off: {why.strip().rstrip(".").lower()}',
        place=str(path), hint="Write the file again; none of its rows were ingested.",
    )  # fmt: skip


def line_of(number: int, raw: bytes) -> Line:
    """A line from its bytes, with its end if it has one."""
    end = "\r\n" if raw.endswith(b"\r\n") else "\n" if raw.endswith(b"\n") else ""
    body = raw[: len(raw) - len(end)]
    try:
        return Line(number, body.decode(), end)
    except UnicodeDecodeError as cause:
        text = body.decode(errors="backslashreplace")
        return Line(number, text, end, f"not UTF-8 at byte {cause.start + 1} of the line")


def _open_stream(path: Path) -> BinaryIO:
    match path.suffix:
        case ".gz":
            return io.BufferedReader(cast(io.RawIOBase, gzip.open(path, "rb")))
        case ".bz2":
            return io.BufferedReader(cast(io.RawIOBase, bz2.open(path, "rb")))
        case ".xz":
            return io.BufferedReader(cast(io.RawIOBase, lzma.open(path, "rb")))
        case ".zst":
            return io.BufferedReader(pa.input_stream(str(path), compression="zstd"))
        case _:
            return path.open("rb")


CURRENT: Final = "current.parquet"
"""The file of an output directory that holds the whole answer, beside the batches that made it."""


def is_current_answer(folder: str | Path, name: str) -> bool:
    """Whether a file repeats the answer that the `batch=N` directories beside it add up to.

    Whoever reads the directory as data must not read it.
    """
    return name == CURRENT and any(other.startswith("batch=") for other in os.listdir(folder))


def _below(folder: Path) -> list[Path]:
    files: list[Path] = []
    for directory, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
        candidates = (
            Path(directory, name)
            for name in names
            if not (name.startswith(_HIDDEN) or is_current_answer(directory, name))
        )
        files.extend(file for file in candidates if _is_file(file))
    return sorted(files, key=lambda file: file.parts)


def _is_file(path: Path) -> bool:
    """Whether there is a file; a link to nothing is refused, as data would be missing."""
    if path.is_symlink() and not path.exists():
        raise _not_found_error(path)
    return path.is_file()


def _refuse(cause: OSError) -> NoReturn:
    raise unreadable(Path(cause.filename), cause) from cause


def _matching(pattern: str) -> list[Path]:
    """The files that a glob matches; a hidden name must be asked for by its first character."""
    parts = Path(pattern).parts
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    initials = {part[0] for part in parts[fixed:]}
    hidden = tuple(mark for mark in _HIDDEN if mark not in initials)
    files: dict[Path, None] = {}
    for match in map(Path, glob.glob(pattern, recursive=True)):
        if not any(part.startswith(hidden) for part in match.parts[fixed:]):
            inside = _below(match) if match.is_dir() else [match]
            files.update(dict.fromkeys(file for file in inside if _is_file(file)))
    if not files:
        raise DataError(
            "R101",
            f'no file matches "{pattern}"',
            hint=_contents_hint(Path(*parts[:fixed]), parts[-1]),
        )
    return sorted(files, key=lambda file: file.parts)


def _not_found_error(path: Path) -> DataError:
    if path.is_symlink():
        message = f'"{path}" is a link to "{path.readlink()}", which is not there'
        return DataError("R101", message, hint="Fix the link or remove it.")
    return DataError(
        "R101", f'there is no file or folder "{path}"', hint=_contents_hint(path.parent, path.name)
    )


def _contents_hint(folder: Path, name: str) -> str:
    """What there is instead, as near to the missing name as can be."""
    while not folder.is_dir() and folder != folder.parent:
        name, folder = folder.name, folder.parent
    try:
        names = sorted(e.name for e in folder.iterdir() if not e.name.startswith((".", "_")))
    except OSError:
        return ""
    if not names:
        return f'Folder "{folder}" is empty.'
    more = len(names) - _MOST_NAMED
    listing = ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f'{nearest(name, names)} Folder "{folder}" has: {listing}.'.strip()


# --- Allowed paths ---
#
# A path is where it leads: links are resolved before it is compared, those of a folder that does
# not exist yet as far as it does. So a link inside an allowed folder allows nothing outside of it.
# What a path stands for is checked when its files are listed, and each file again when it is
# opened.


@dataclass(frozen=True, slots=True)
class Paths:
    """Folders, with everything below them, and files that may be used; None: all of them."""

    allowed: tuple[str, ...] | None = None
    """Paths without links."""
    why: str = ""
    """Why there is a limit, if the user did not ask for it."""

    @staticmethod
    def of(paths: Iterable[str | Path]) -> Paths:
        """A limit to some paths; no limit if none is given."""
        allowed = tuple(os.path.realpath(path) for path in paths)
        return Paths(allowed) if allowed else ANYWHERE

    def also(self, *paths: str | Path | None) -> Paths:
        """The same limit with paths that the user has named elsewhere."""
        if self.allowed is None:
            return self
        more = (os.path.realpath(path) for path in paths if path is not None)
        return replace(self, allowed=(*self.allowed, *more))

    def holds(self, path: str | Path) -> bool:
        """Whether a path, or all that a pattern starts with, leads into an allowed one."""
        if self.allowed is None:
            return True
        real = _real(path)
        return real is not None and any(
            real == root or real.startswith(root.rstrip("/") + "/") for root in self.allowed
        )

    def check(self, path: str | Path, place: str = "") -> None:
        """Refuse a path that is not allowed; `place` says where it is named."""
        if not self.holds(path):
            raise self.refusal([path], place)

    def refusal(self, paths: Iterable[str | Path], place: str = "") -> DataError:
        """The error for paths that are not allowed, all of which it names."""
        names = list(dict.fromkeys(map(str, paths)))
        first, real = names[0], _real(names[0])
        leads = real is not None and real != os.path.abspath(_start(first))
        listing = ", ".join(f'"{name}"' for name in names)
        message = f"{listing} may not be used"
        message += f': it leads to "{real}"' if leads and len(names) == 1 else ""
        options = dict.fromkeys(f"--allow-path {_directory_to_allow(name)}" for name in names)
        hint = f"If that is all right, add {' '.join(options)} (in Python: allow_paths=[...])."
        hint = f"{self.why}. {hint}" if self.why else hint
        return DataError(OUTSIDE, message, place=place or first, hint=hint)

    def expand(self, path: str | Path, place: str = "") -> list[Path]:
        """The files that a path stands for, each of which must be allowed."""
        self.check(path, place)
        files = expand(path)
        for file in files if self.allowed is not None else ():
            self.check(file)
        return files


ANYWHERE: Final = Paths()
"""No limit."""


def _start(path: str | Path) -> str:
    """A path as the operating system has it; of a pattern, the folder that it starts with."""
    text = str(path).removeprefix("file://")
    if not glob.has_magic(text) or os.path.lexists(text):
        return text
    parts = Path(text).parts
    fixed = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    return str(Path(*parts[:fixed]))


def _real(path: str | Path) -> str | None:
    """Where a path leads; None for one that the operating system cannot have."""
    try:
        return os.path.realpath(_start(path))
    except ValueError:  # a zero byte, or half of a surrogate pair
        return None


def _directory_to_allow(path: str) -> str:
    """The folder to allow for a path."""
    real = _real(path)
    if real is None:
        return path
    return real if os.path.isdir(real) else os.path.dirname(real)
