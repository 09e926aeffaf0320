"""What a checkpoint needs of a disk: create exclusively, read, list, delete.

Manifests, intents and requests use only these calls.  No visible file is ever overwritten or
renamed.  Hence two drivers cannot replace each other's files, and an object store with conditional
creation could take the place of the disk.

`files` adds small JSON files with a checksum, and files that replace others as a whole.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

__all__ = ["create", "delete", "fsync", "names", "read"]


def create(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Create a file that appears with all of its content; `FileExistsError` if the name is taken.

    After any other `OSError` the file may or may not exist; only reading it back can tell.
    """
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        # A link, not a rename: a rename would silently replace a file that has the name already.
        os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        fsync(path.parent)


def read(path: Path) -> bytes | None:
    """The content of a file; None if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def names(directory: Path) -> list[str]:
    """The names in a directory, sorted, without temporary files; empty if it does not exist."""
    try:
        return sorted(name for name in os.listdir(directory) if not name.startswith("."))
    except FileNotFoundError:
        return []


def delete(path: Path) -> None:
    """Delete a file, if it exists."""
    path.unlink(missing_ok=True)


def fsync(path: Path) -> None:
    """Wait until the names in a directory are on disk, or the content of a file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
