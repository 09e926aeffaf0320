"""The data of the batch benchmark: made once by NumPy with a fixed seed, and then found again.

Every table is a folder of Parquet files, the orders a folder of JSON lines.  A folder appears
whole: it is made under another name and renamed, so an interrupted run leaves nothing half done.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any as Arrow

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILES = 4
SEED = 20_240
VERSION = 1
"""Part of the folder's name: a change of what is generated must not find the data of before."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows each table has."""

    facts: int = 10_000_000
    keys: int = 10_000
    side: int = 1_000_000
    """Rows of each side of the join."""
    matches: int = 100
    """Rows of the other side that a row of the join meets."""
    orders: int = 500_000
    nodes: int = 50_000
    edges: int = 1_000_000
    points: int = 1_000_000
    entries: int = 1_000_000
    """Entries of each matrix; it has a tenth as many rows and columns."""

    @property
    def name(self) -> str:
        """The name of the folder that holds data of these sizes."""
        return f"{'full' if self == Sizes() else 'quick'}-{VERSION}"


QUICK = Sizes(
    facts=200_000,
    keys=500,
    side=20_000,
    matches=20,
    orders=5_000,
    nodes=1_000,
    edges=20_000,
    points=20_000,
    entries=20_000,
)


def folder_of(root: Path, sizes: Sizes) -> Path:
    """The folder with all tables, made where it is missing."""
    folder = root / sizes.name
    folder.mkdir(parents=True, exist_ok=True)
    tables: dict[str, Callable[[np.random.Generator, Sizes], pa.Table]] = {
        "facts": _facts,
        "left": _left,
        "right": _right,
        "edges": _edges,
        "points": _points,
        "matrix_a": _matrix,
        "matrix_b": _matrix,
    }
    for number, (name, make) in enumerate(tables.items()):
        chance = np.random.default_rng([SEED, number])
        _once(folder / name, partial(_table, make, chance, sizes))
    _once(folder / "orders", lambda at: _orders(np.random.default_rng([SEED, 99]), sizes, at))
    return folder


def _once(folder: Path, make: Callable[[Path], None]) -> None:
    if folder.exists():
        return
    making = folder.with_name(f".{folder.name}-{os.getpid()}")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    make(making)
    making.rename(folder)


def _table(
    make: Callable[[np.random.Generator, Sizes], pa.Table],
    chance: np.random.Generator,
    sizes: Sizes,
    folder: Path,
) -> None:
    table = make(chance, sizes)
    rows = -(-len(table) // FILES)
    for number in range(FILES):
        part = table.slice(number * rows, rows)
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=1_000_000)


def _facts(chance: np.random.Generator, sizes: Sizes) -> pa.Table:
    """Key, integer, double, code and name."""
    rows = sizes.facts
    names = np.array([f"name-{number:03d}" for number in range(500)])
    return pa.table({
        "K": _ints(chance, sizes.keys, rows),
        "V": _ints(chance, 1_000_000, rows),
        "D": chance.random(rows) * 1000,
        "C": _ints(chance, 200, rows),
        "S": pa.array(names[chance.integers(0, len(names), rows)]),
    })  # fmt: skip


def _left(chance: np.random.Generator, sizes: Sizes) -> pa.Table:
    """A group, the key of the join, and a number of the row."""
    return pa.table({
        "A": _ints(chance, 1_000, sizes.side),
        "K": chance.permutation(_keys(sizes)),
        "N": np.arange(sizes.side, dtype=np.int32),
    })  # fmt: skip


def _right(chance: np.random.Generator, sizes: Sizes) -> pa.Table:
    return pa.table({
        "K": chance.permutation(_keys(sizes)),
        "V": _ints(chance, 1_000, sizes.side),
        "D": chance.random(sizes.side) * 100,
    })  # fmt: skip


def _keys(sizes: Sizes) -> Arrow:
    return (np.arange(sizes.side) // sizes.matches).astype(np.int32)


def _edges(chance: np.random.Generator, sizes: Sizes) -> pa.Table:
    """A ring, so that every page has links out and in, and random links."""
    ring = np.arange(sizes.nodes)
    more = sizes.edges - sizes.nodes
    favoured = np.floor(chance.random(more) ** 2 * sizes.nodes).astype(np.int64)
    src = np.concatenate([ring, chance.integers(0, sizes.nodes, more)])
    dst = np.concatenate([(ring + 1) % sizes.nodes, favoured])
    order = chance.permutation(sizes.edges)
    return pa.table({"src": src[order].astype(np.int32), "dst": dst[order].astype(np.int32)})


def _points(chance: np.random.Generator, sizes: Sizes) -> pa.Table:
    centres = chance.random((8, 2)) * 100
    chosen = centres[chance.integers(0, len(centres), sizes.points)]
    spread = chance.normal(0, 6, (sizes.points, 2))
    return pa.table({"X": (chosen + spread)[:, 0], "Y": (chosen + spread)[:, 1]})


def _matrix(chance: np.random.Generator, sizes: Sizes) -> pa.Table:
    """Each cell at most once: cells are drawn with repetition, and repeated ones dropped."""
    side = sizes.entries // 10
    cells = np.unique(chance.integers(0, side * side, sizes.entries + sizes.entries // 50))
    cells = chance.permutation(cells)[: sizes.entries]
    return pa.table({
        "I": (cells // side).astype(np.int32),
        "J": (cells % side).astype(np.int32),
        "V": chance.random(len(cells)) * 2 - 1,
    })  # fmt: skip


def _orders(chance: np.random.Generator, sizes: Sizes, folder: Path) -> None:
    """Orders with zero to nine items each, an object a line."""
    lengths = chance.integers(0, 10, sizes.orders)
    number = int(lengths.sum())
    products = chance.integers(0, 1_000, number).tolist()
    pieces = chance.integers(1, 20, number).tolist()
    prices = np.round(chance.random(number) * 100, 2).tolist()
    ends = np.cumsum(lengths).tolist()
    rows = -(-sizes.orders // FILES)
    for part in range(FILES):
        with (folder / f"part-{part}.json").open("w") as file:
            for order in range(part * rows, min((part + 1) * rows, sizes.orders)):
                span = range(ends[order] - int(lengths[order]), ends[order])
                items = [
                    {"product": f"p{products[i]}", "pieces": pieces[i], "price": prices[i]}
                    for i in span
                ]
                whole = {"id": order, "customer": f"c{order % 977}", "items": items}
                file.write(json.dumps(whole, separators=(",", ":")) + "\n")


def _ints(chance: np.random.Generator, below: int, rows: int) -> Arrow:
    return chance.integers(0, below, rows, dtype=np.int32)
