"""Files that are on disk as a whole or not at all, and small JSON files with a checksum."""

from __future__ import annotations

import json
import os
import signal
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from incmrql.errors import CheckpointError, DataError
from incmrql.storage import create, read, sync_directory

DAMAGED: Final = "R361"
"""The code for a file of a checkpoint that is missing or damaged."""


def write_new(path: Path, content: dict[str, Any], *, durable: bool = True) -> None:
    """Create a file; `FileExistsError` if there is one of that name.

    After any other `OSError` the file may be there: `load` tells.
    """
    create(path, _encoded(content), durable=durable)


def write_over(path: Path, content: dict[str, Any]) -> None:
    """Put a file in the place of whatever is there; for files that only one process writes."""
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("xb") as stream:
            stream.write(_encoded(content))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def load(path: Path) -> dict[str, Any]:
    """The content of a file that was written by the functions above."""
    try:
        data = read(path)
    except OSError as cause:
        raise read_error(path, cause) from cause
    if data is None:
        raise read_error(path, FileNotFoundError())
    try:
        content = json.loads(data)
    except ValueError:
        what = "it is cut off or overwritten" if data else "it is empty"
        raise damage_error(f"{path} is damaged and cannot be read: {what}") from None
    if not isinstance(content, dict) or "checksum" not in content:
        raise damage_error(f"{path} is damaged: it has no checksum")
    if content.pop("checksum") != _checksum(content):
        raise damage_error(f"{path} is damaged: its checksum is not the one it was written with")
    return content


def read_error(path: Path, cause: OSError) -> CheckpointError:
    """The error for a file of a checkpoint that is missing or cannot be opened."""
    is_missing = isinstance(cause, FileNotFoundError)
    return damage_error(
        f"{path} cannot be read: {'it is missing' if is_missing else cause.strerror}"
    )


def damage_error(message: str) -> CheckpointError:
    """The error for a file of a checkpoint that is missing or not what was written."""
    hint = (
        "Nothing was computed from it. Restore the file from a backup, or start with a new "
        "checkpoint: the answer is then computed again from the input."
    )
    return CheckpointError(f"error[{DAMAGED}]: {message}\n = hint: {hint}")


def _encoded(content: dict[str, Any]) -> bytes:
    return json.dumps({**content, "checksum": _checksum(content)}).encode()


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


# --- Replacing a file ---
#
# with replacing(path) as temporary: ...        # write to `temporary`
#
# What is written to the temporary file is on disk before it takes the place of `path`.  If
# anything goes wrong, `path` is as it was.  The temporary name starts with a dot, so that no
# reader of a folder takes it for data.


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that becomes `path` at the end."""
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        if path.is_dir():
            raise IsADirectoryError(None, "it is a folder, expected a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    except OSError as cause:
        raise write_error(path, cause.strerror or str(cause)) from cause
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_error(path: Path, why: str) -> DataError:
    """The problem of writing to a path."""
    hint = "Name a file in a folder that you may write to."
    return DataError(
        "R130", f'"{path.name}" cannot be written: {why.lower()}', place=str(path), hint=hint
    )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- Crash points of tests ---
#
# A process is killed as if by the system, where a test asks for it.


CRASH: Final = "INCMRQL_CRASH_AT"
"""The environment variable that names where a test wants this process to be killed.

`point:batch`, several of them with commas; `point:batch:file` only until there is such a file.
"""


def crash_here(point: str, number: int) -> None:
    """Where a test may kill the process; does nothing otherwise."""
    wanted = os.environ.get(CRASH)
    if not wanted:
        return
    for each in wanted.split(","):
        name, batch, *mark = each.split(":", 2)
        if (name, batch) == (point, str(number)) and all(map(_is_first, mark)):
            os.kill(os.getpid(), signal.SIGKILL)


def _is_first(path: str) -> bool:
    """Whether a file was not there yet; it is afterwards."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
