"""A faster start of Spark: the classes that it loads, kept in a file that Java maps.

Java can write, when it ends, what it had to parse and check of its classes, and a later Java that
is given this archive starts in about half the time.  The first Spark of a machine writes the
archive in the background, after its work is done; whatever is wrong with it, Java starts as if it
were not there.  It can be removed at any time.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

_QUIET: Final = "-XX:+IgnoreUnrecognizedVMOptions -Xlog:disable"


def java_options(folder: Path, made_for: str, own: int) -> str:
    """The options of Java that use the archive in a folder, or write one where there is none.

    `made_for` says which Java and which Spark it is for, and `own` is the number of this process.
    """
    archive = folder / f"spark-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}.jsa"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pending = [path for path in folder.glob(f"{archive.name}.*") if not _adopted(path, archive)]
    except OSError:
        return ""
    if archive.exists():
        return f"{_QUIET} -XX:SharedArchiveFile={archive}"
    if pending or " " in str(folder):
        return ""
    return f"{_QUIET} -XX:ArchiveClassesAtExit={archive}.{own}"


def _adopted(path: Path, archive: Path) -> bool:
    """Give an archive its name if the process that it was written for has ended.

    Java may still be writing: then nobody can use it yet, and nobody is harmed.
    """
    number = path.suffix.removeprefix(".")
    if number.isdigit() and _is_running(int(number)):
        return False
    path.replace(archive)
    return True


def _is_running(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
