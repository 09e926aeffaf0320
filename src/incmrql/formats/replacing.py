"""Writing a file so that a reader sees all of it or nothing.

    with replacing(path) as temporary: ...        # write to `temporary`

What is written to the temporary file is on disk before it takes the place of `path`.  If
anything goes wrong, `path` is as it was.  The temporary name starts with a dot, so that no
reader of a folder takes it for data.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from incmrql.diagnostics import DataError


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
        raise unwritable(path, cause.strerror or str(cause)) from cause
    finally:
        with suppress(OSError):
            temporary.unlink()


def unwritable(path: Path, why: str) -> DataError:
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
