"""Files that are on disk as a whole or not at all, and small JSON files with a checksum."""

from __future__ import annotations

import json
import os
import signal
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from incmrql.errors import CheckpointError, DataError
from incmrql.storage import create, fsync, read

DAMAGED: Final = "R361"
"""The code for a file of a checkpoint that is missing or damaged."""


def write_new(path: Path, content: dict[str, Any], *, durable: bool = True) -> None:
    """Create a file; `FileExistsError` if the name is taken.

    After any other `OSError` the file may or may not exist; only `load` can tell.
    """
    create(path, _encode(content), durable=durable)


def write_over(path: Path, content: dict[str, Any]) -> None:
    """Create or replace a file; only for files that a single process writes."""
    with _put_in_place(path) as temporary:
        temporary.write_bytes(_encode(content))


def load(path: Path) -> dict[str, Any]:
    """The content of a file that `write_new` or `write_over` wrote."""
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
        raise damage_error(f"{path} is damaged: its content does not match its checksum")
    return content


def read_error(path: Path, cause: OSError) -> CheckpointError:
    """The error for a file of a checkpoint that is missing or cannot be opened."""
    is_missing = isinstance(cause, FileNotFoundError)
    return damage_error(
        f"{path} cannot be read: {'it is missing' if is_missing else cause.strerror}"
    )


def damage_error(message: str) -> CheckpointError:
    """The error for a file of a checkpoint that is missing or not as it was written."""
    hint = (
        "Nothing was computed from it. Restore the file from a backup, or start with a new "
        "checkpoint: the answer is then computed again from the input."
    )
    return CheckpointError(f"error[{DAMAGED}]: {message}\n = hint: {hint}")


def _encode(content: dict[str, Any]) -> bytes:
    return json.dumps({**content, "checksum": _checksum(content)}).encode()


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


# --- Replacing a file ---


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary file to write to, which becomes `path` at the end of the block.

    If anything goes wrong, `path` stays as it was.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(None, "it is a folder, expected a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        with _put_in_place(path) as temporary:
            yield temporary
    except OSError as cause:
        raise write_error(path, cause.strerror or str(cause)) from cause


@contextmanager
def _put_in_place(path: Path) -> Iterator[Path]:
    # Readers of a directory skip names that start with a dot.
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        yield temporary
        # The content must be on disk before the name: else a crash could leave an empty file.
        fsync(temporary)
        temporary.replace(path)
        fsync(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_error(path: Path, why: str) -> DataError:
    """The error for a file that cannot be written."""
    hint = "Name a file in a folder that you may write to."
    return DataError(
        "R130", f'"{path.name}" cannot be written: {why.lower()}', place=str(path), hint=hint
    )


# --- Crash points of tests ---


CRASH: Final = "INCMRQL_CRASH_AT"
"""The environment variable with the points at which a test wants this process to be killed.

`point:batch`, separated by commas; `point:batch:file` only as long as this file does not exist.
"""


POINTS: Final = (
    "intent", "task-read", "task-runs", "task-parts", "runs", "archive", "manifest", "committed",
    "publish", "after",
)  # fmt: skip
"""The points that every batch passes, in order."""


class Crashed(BaseException):
    """Stands for the end of the process, where a test wants to go on in the same one."""


_ENDS_AT: ContextVar[str | None] = ContextVar("ends_at", default=None)


@contextmanager
def crash_at(point: str) -> Iterator[None]:
    """Raise `Crashed` where the batch that runs inside the block reaches a point."""
    token = _ENDS_AT.set(point)
    try:
        yield
    finally:
        _ENDS_AT.reset(token)


def crash_here(point: str, number: int) -> None:
    """End this process, as the system might, if a test asks for it at this point of this batch."""
    if _ENDS_AT.get() == point:
        raise Crashed(point)
    for request in filter(None, os.environ.get(CRASH, "").split(",")):
        name, batch, *mark = request.split(":", 2)
        if (name, batch) == (point, str(number)) and all(map(_mark_first_time, mark)):
            os.kill(os.getpid(), signal.SIGKILL)


def _mark_first_time(path: str) -> bool:
    """Whether a file does not exist yet; creates it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
