"""Files by names that mean the same to tasks, wherever these run, and back to the user's names."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from incmrql.kernel.inputs import InputFile
from incmrql.kernel.orders import Reading


def absolute(files: Iterable[InputFile]) -> tuple[InputFile, ...]:
    """Files by their full names: the current folder of a task is another one."""
    return tuple(replace(file, path=os.path.abspath(file.path)) for file in files)


def names_of(files: Iterable[InputFile]) -> dict[str, str]:
    """The user's names of files by their full names, where these differ."""
    names = {os.path.abspath(file.path): file.path for file in files}
    return {path: name for path, name in names.items() if path != name}


def as_named(reading: Reading, files: Iterable[InputFile]) -> Reading:
    """What tasks have read of files, these being called as they were before."""
    names = {os.path.abspath(file.path): file.path for file in files}
    bad: Counter[str] = Counter()
    for path, count in reading.bad.items():
        bad[names.get(path, path)] += count
    return replace(
        reading,
        bad=bad,
        first_bad=[replace(row, path=names.get(row.path, row.path)) for row in reading.first_bad],
        checksums={names.get(path, path): each for path, each in reading.checksums.items()},
        noticed={
            place: replace(
                noticed,
                first=[replace(row, path=names.get(row.path, row.path)) for row in noticed.first],
            )
            for place, noticed in reading.noticed.items()
        },
    )
