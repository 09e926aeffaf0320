"""The data of the incremental benchmark: a history in some files, and a file for each batch.

A history is made once by NumPy with a fixed seed, file by file, and then found again.  A run gets
links to its files in a folder of its own, where batches appear beside them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any as Arrow
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILES: Final = 12
SEED: Final = 51_015
VERSION: Final = 1
"""Part of the name of a folder: a change of what is generated must not find data of before."""
GONE: Final = "gone"
"""The folder with the rows that are deleted."""
_STRIDE: Final = 7_368_787
"""A prime: steps of it visit every key before they visit one again."""


@dataclass(frozen=True, slots=True)
class Size:
    """Rows of the history, the keys in them, and rows of a batch."""

    rows: int
    keys: int
    batch: int


@dataclass(frozen=True, slots=True)
class Draw:
    """Rows that are wanted: those of the history from `start` on, or some of a batch."""

    chance: np.random.Generator
    size: Size
    rows: int
    start: int | None = None
    number: int = 0
    """That of the batch; 0 is the history."""

    def any(self, below: int) -> Arrow:
        """Random integers."""
        return self.chance.integers(0, max(below, 1), self.rows, dtype=np.int32)

    def each(self, below: int) -> Arrow:
        """Integers that all occur equally often in a history; random ones in a batch."""
        if self.start is None:
            return self.any(below)
        places = np.arange(self.start, self.start + self.rows, dtype=np.int64)
        return (places * _STRIDE % max(below, 1)).astype(np.int32)

    def doubles(self) -> Arrow:
        """Random doubles."""
        return self.chance.random(self.rows) * 1000


Make: TypeAlias = Callable[[Draw], dict[str, Arrow]]


@dataclass(frozen=True, slots=True)
class Table:
    """A folder of Parquet files; a history has `part` of its rows, a batch `share` of its own."""

    name: str
    columns: str
    make: Make
    part: float = 1.0
    share: float = 1.0


def history_of(root: Path, name: str, tables: tuple[Table, ...], size: Size) -> Path:
    """The folder with the history of some tables, made where it is missing."""
    folder = root / f"history-{VERSION}-{name}-{size.rows}-{size.keys}"
    if folder.exists():
        return folder
    making = folder.with_name(f".{folder.name}-{os.getpid()}")
    shutil.rmtree(making, ignore_errors=True)
    for number, table in enumerate(tables):
        (making / table.name).mkdir(parents=True)
        rows = max(int(size.rows * table.part), 1)
        starts = [rows * place // FILES for place in range(FILES + 1)]
        for place, (start, end) in enumerate(pairwise(starts)):
            chance = np.random.default_rng([SEED, number, place])
            content = pa.table(table.make(Draw(chance, size, end - start, start)))
            pq.write_table(content, making / table.name / f"history-{place:02d}.parquet")
    making.rename(folder)
    return folder


class Supply:
    """The folder that a run reads: a history, and batches that are added one by one."""

    def __init__(
        self,
        folder: Path,
        history: Path,
        tables: tuple[Table, ...],
        size: Size,
        deleted: float = 0.0,
    ) -> None:
        self.folder, self.tables, self.size, self.deleted = folder, tables, size, deleted
        self.number = 0
        for table in tables:
            (folder / table.name).mkdir(parents=True)
            for file in sorted((history / table.name).iterdir()):
                _link(file, folder / table.name / file.name)
        (folder / GONE).mkdir()
        first = folder / tables[0].name / "history-00.parquet"
        self._there = pq.read_table(first) if deleted else None

    def add(self) -> tuple[Path, ...]:
        """The files of the next batch."""
        self.number += 1
        chance = np.random.default_rng([SEED, 1_000_000, self.number])
        rows = self.size.batch - int(self.size.batch * self.deleted)
        files = []
        for table in self.tables:
            share = int(rows * table.share)
            if share:
                draw = Draw(chance, self.size, share, number=self.number)
                content = pa.table(table.make(draw))
                files.append(self._write(content, table.name))
        if self._there is not None:
            files.append(self._write(self._leaving(), GONE))
        return tuple(files)

    def _leaving(self) -> pa.Table:
        """Rows of the history, each of which leaves once."""
        assert self._there is not None
        count = int(self.size.batch * self.deleted)
        order = np.random.default_rng(SEED).permutation(len(self._there))
        chosen = order[(self.number - 1) * count :][:count]
        assert len(chosen) == count, "there are not enough rows in the history"
        return self._there.take(pa.array(chosen))

    def _write(self, table: pa.Table, name: str) -> Path:
        """A file that appears whole."""
        path = self.folder / name / f"batch-{self.number:04d}.parquet"
        hidden = path.with_name(f".{path.name}")
        pq.write_table(table, hidden)
        hidden.rename(path)
        return path


def _link(file: Path, place: Path) -> None:
    try:
        os.link(file, place)
    except OSError:
        shutil.copy(file, place)
