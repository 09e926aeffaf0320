"""What a checkpoint needs of a disk: create exclusively, read, list, delete.

Manifests, intents and requests use these calls and no others. Nothing is overwritten or renamed
once it is visible, so two drivers cannot replace each other's files, and an object store that has
conditional creation can take the place of a local disk.  `files` has small JSON files with a
checksum, and files that replace others as a whole.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

__all__ = ["create", "delete", "names", "read", "sync_directory"]


def create(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Create a file that appears with all of its content; `FileExistsError` if the name is taken.

    After any other `OSError` the file may or may not exist: read it back to find out.
    """
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        os.link(temporary, path)  # fails where the name is taken, and shows the whole file
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        sync_directory(path.parent)


def read(path: Path) -> bytes | None:
    """The content of a file; None if there is none of that name."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def names(folder: Path) -> list[str]:
    """The names in a folder in order, without temporary files; none if there is no folder."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except FileNotFoundError:
        return []


def delete(path: Path) -> None:
    """Delete a file; one that is gone already is no error."""
    path.unlink(missing_ok=True)


def sync_directory(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
