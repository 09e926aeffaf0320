"""A copy of a checkpoint, which goes on by itself.

The copy has an identity of its own and no outputs: those of the original belong to the original,
and two runs that write to one directory would mix their answers. A run that names a new output
first gets the whole answer so far.
"""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path
from typing import Any, Final

from incmrql.errors import CheckpointError
from incmrql.runtime.checkpoint.manifests import Checkpoint, create_folders
from incmrql.runtime.checkpoint.ownership import SIGNATURES
from incmrql.storage import fsync
from incmrql.storage.files import write_new

_TRIES: Final = 10
"""How often the copy is begun again because the original has committed a batch meanwhile."""


def copy_checkpoint(source: Path, target: Path) -> int:
    """Copy a checkpoint to a new directory; returns the last batch.

    The original may be running. The manifest is written last: what is cut off by a crash is no
    checkpoint.
    """
    original = Checkpoint(source)
    original.description()  # refuses what is no checkpoint
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        message = f"{target} exists already"
        raise CheckpointError(f"error: {message}\n = hint: Name a new directory for the copy.")
    create_folders(target, (), source.stat().st_mode & 0o777)
    copy = Checkpoint(target)
    for _ in range(_TRIES):
        copy.prepare(source.stat().st_mode & 0o777)
        newest = original.last()
        try:
            _copy_files(original, copy, newest)
        except FileNotFoundError:  # the original has removed a file that it no longer needs
            pass
        else:
            if original.last()["sequence"] == newest["sequence"]:
                _begin(original, copy)
                return int(newest["batch"])
        shutil.rmtree(target)
        create_folders(target, (), source.stat().st_mode & 0o777)
    shutil.rmtree(target)
    message = f"checkpoint {source} commits batches faster than it can be copied"
    raise CheckpointError(f"error: {message}\n = hint: Stop its run, and copy it again.")


def _copy_files(original: Checkpoint, copy: Checkpoint, newest: dict[str, Any]) -> None:
    """Copy the state that a manifest names, and all input that is kept or waits."""
    for table in newest["tables"].values():
        for name in {segment["file"] for kind in table.values() for segment in kind}:
            if not (copy.runs / name).exists():
                shutil.copyfile(original.runs / name, copy.runs / name)
                fsync(copy.runs / name)
    shutil.copytree(original.input, copy.input, dirs_exist_ok=True)
    if (original.folder / SIGNATURES).exists():
        shutil.copyfile(original.folder / SIGNATURES, copy.folder / SIGNATURES)
    for folder, _, files in os.walk(copy.input):
        for name in files:
            fsync(Path(folder, name))
    fsync(copy.runs)


def _begin(original: Checkpoint, copy: Checkpoint) -> None:
    """Write the first manifest of the copy, with all that the original has ingested."""
    content = original.full_manifest()
    content |= {"sequence": 0, "epoch": 0, "kind": "start", "id": uuid.uuid4().hex}
    content |= {"sinks": [], "outputs": [], "changes": {}}
    write_new(copy.manifests / "000000.json", content)


__all__ = ["copy_checkpoint"]
