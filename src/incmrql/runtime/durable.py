"""Small JSON files with a checksum, which are on disk as a whole or not at all."""

from __future__ import annotations

import json
import os
import uuid
import zlib
from pathlib import Path
from typing import Any

from incmrql.diagnostics import CheckpointError
from incmrql.storage import create, read, sync_folder


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
    sync_folder(path.parent)


def load(path: Path) -> dict[str, Any]:
    """The content of a file that was written by the functions above."""
    try:
        data = read(path)
        if data is None:
            raise FileNotFoundError("there is no such file")
        content: dict[str, Any] = json.loads(data)
        given = content.pop("checksum")
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as cause:
        raise CheckpointError(f"{path} cannot be read: {cause}") from cause
    if given != _checksum(content):
        raise CheckpointError(f"{path} is not what was written: its checksum differs")
    return content


def _encoded(content: dict[str, Any]) -> bytes:
    return json.dumps({**content, "checksum": _checksum(content)}).encode()


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
