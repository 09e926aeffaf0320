"""Small files that are on disk as a whole or not at all."""

from __future__ import annotations

import json
import os
import uuid
import zlib
from pathlib import Path
from typing import Any

from incmrql.diagnostics import CheckpointError
from incmrql.kernel.runs import sync_folder


def write_new(path: Path, content: dict[str, Any]) -> None:
    """Create a file with a checksum; `FileExistsError` if there is one of that name.

    If this fails there is no new file.
    """
    temporary = _written(path, content)
    try:
        os.link(temporary, path)  # fails where the name is taken, and shows the whole file
    finally:
        temporary.unlink()
    try:
        sync_folder(path.parent)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def write_over(path: Path, content: dict[str, Any]) -> None:
    """Put a file with a checksum in the place of whatever is there."""
    _written(path, content).replace(path)
    sync_folder(path.parent)


def load(path: Path) -> dict[str, Any]:
    """The content of a file that was written by the functions above."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        given = found.pop("checksum")
    except (OSError, ValueError, KeyError, AttributeError) as cause:
        raise CheckpointError(f"{path} cannot be read: {cause}") from cause
    if given != _checksum(found):
        raise CheckpointError(f"{path} is not what was written: its checksum differs")
    return found


def _written(path: Path, content: dict[str, Any]) -> Path:
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("x", encoding="utf-8") as stream:
            json.dump({**content, "checksum": _checksum(content)}, stream)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
