"""The data of the loops: R-MAT graphs, points in four squares, and a forest with some more edges.

Histories and batches are made and kept as those of the incremental benchmark are.
"""

from __future__ import annotations

from typing import Any as Arrow
from typing import Final

import numpy as np

from benchmarks.incremental_data import Draw, Table

RMAT: Final = (0.30, 0.25, 0.25, 0.20)
"""The chances of the four quarters of the matrix, at each level."""
LAYERS: Final = 20
"""How deep the forest is."""
_CORNERS: Final = (2.0, 6.0)
_WIDE: Final = 3.8
_DRIFT: Final = 1.0
_FRESH: Final = 1_000
"""How many times as many names new nodes have as old ones: they hardly ever meet."""


def rmat(chance: np.random.Generator, nodes: int, edges: int) -> tuple[Arrow, Arrow]:
    """Edges of an R-MAT graph: each falls into a quarter of the matrix, then into one of that."""
    levels = max(int(np.ceil(np.log2(nodes))), 1)
    edges_drawn = np.empty((2, 0), np.int32)
    while edges_drawn.shape[1] < edges:
        quarters = chance.choice(4, size=(edges, levels), p=RMAT)
        places = 1 << np.arange(levels)[::-1]
        both = np.stack([(quarters // 2) @ places, (quarters % 2) @ places]).astype(np.int32)
        edges_drawn = np.concatenate([edges_drawn, both[:, (both < nodes).all(axis=0)]], axis=1)
    return edges_drawn[0, :edges], edges_drawn[1, :edges]


def _edges(draw: Draw) -> dict[str, Arrow]:
    src, dst = rmat(draw.chance, draw.size.keys, draw.rows)
    return {"src": src, "dst": dst}


def squares(chance: np.random.Generator, points: int, side: float = 2.0) -> tuple[Arrow, Arrow]:
    """Points in four squares: both coordinates begin at 2 or at 6."""
    corners = chance.choice(_CORNERS, size=(2, points))
    x, y = corners + side * chance.random((2, points))
    return x, y


def _points(draw: Draw) -> dict[str, Arrow]:
    x, y = squares(draw.chance, draw.rows)
    return {"X": x, "Y": y}


def _drifting(draw: Draw) -> dict[str, Arrow]:
    """Points in squares that nearly touch, and batches in which these have moved.

    The centroids follow, so that points of the history come to lie nearer to others.
    """
    moved = 0.0 if draw.start is not None else _DRIFT
    x, y = squares(draw.chance, draw.rows, side=_WIDE)
    return {"X": x + moved, "Y": y + moved}


def _tree(draw: Draw) -> dict[str, Arrow]:
    """Node 0 above layers of nodes of one size; a node has its parent in the layer before its own.

    Half of the edges of a batch are such for nodes that are new, the others go from a layer to
    the next.  No path is longer than there are layers.
    """
    nodes = draw.size.keys
    layer = max(nodes // LAYERS, 1)
    if draw.start is not None:
        dst = draw.each(nodes).astype(np.int64) + 1
        return _as_edges(_parents(draw, (dst - 1) // layer, layer), dst)
    below = draw.chance.integers(1, LAYERS, draw.rows)
    known = 1 + below * layer + draw.chance.integers(0, layer, draw.rows)
    fresh = nodes + 1 + draw.chance.integers(0, nodes * _FRESH, draw.rows)
    is_new = np.arange(draw.rows) % 2 == 0
    return _as_edges(_parents(draw, below, layer), np.where(is_new, fresh, known))


def _parents(draw: Draw, layers: Arrow, layer: int) -> Arrow:
    some = 1 + (layers - 1) * layer + draw.chance.integers(0, layer, len(layers))
    return np.where(layers > 0, some, 0)


def _as_edges(src: Arrow, dst: Arrow) -> dict[str, Arrow]:
    return {"src": src.astype(np.int32), "dst": dst.astype(np.int32)}


EDGES: Final = Table("edges", "src int, dst int", _edges)
POINTS: Final = Table("points", "X double, Y double", _points)
DRIFTING: Final = Table("points", "X double, Y double", _drifting)
FOREST: Final = Table("forest", "src int, dst int", _tree)
