"""Folders of a checkpoint, which holds copies of data: others may not look into them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PRIVATE: Final = 0o700
"""Permissions of the folders of a checkpoint where all tasks run as the user."""


def create_folders(folder: Path, parts: tuple[str, ...], mode: int | None) -> None:
    """Create a folder and its parts with some permissions; None: as the umask says.

    A folder that is there keeps its permissions.
    """
    if not folder.parent.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
    for each in (folder, *(folder / part for part in parts)):
        if each.is_dir():
            continue
        if mode is None:
            each.mkdir(exist_ok=True)
        else:
            each.mkdir(PRIVATE, exist_ok=True)  # nobody looks in before it has its permissions
            each.chmod(mode)
