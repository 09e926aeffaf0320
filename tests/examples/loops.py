"""What the scripts with loops should answer, by NumPy and networkx."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt
import pytest

from tests.examples.running import by_text, near, table

Matrix = npt.NDArray[np.float64]


def kmeans(answers: list[Any], data: Path) -> None:
    points = np.loadtxt(data / "points.csv", delimiter=",")
    centroids = np.array([[1.0, 1.0], [1.0, 9.0], [9.0, 1.0], [9.0, 9.0]])
    for _ in range(10):
        distances = np.linalg.norm(points[:, None, :] - centroids[None, :, :], axis=2)
        nearest = distances.argmin(axis=1)
        centroids = np.array([points[nearest == k].mean(axis=0) for k in np.unique(nearest)])
    centres = sorted((c["X"], c["Y"]) for c in answers[0])
    near(centres, sorted((float(x), float(y)) for x, y in centroids))


def pagerank(answers: list[Any], data: Path) -> None:
    flow = _flow(data)
    n = len(flow)
    ranks = np.full(n, 1 / n)
    for _ in range(10):
        ranks = 0.15 / n + 0.85 * flow @ ranks
    best = sorted(enumerate(ranks.tolist()), key=lambda pair: -pair[1])[:5]
    near(answers, [best, 1.0])


def pagerank_converge(answers: list[Any], data: Path) -> None:
    flow = _flow(data)
    n = len(flow)
    ranks = np.full(n, 1 / n)
    for _ in range(100):
        before, ranks = ranks, 0.15 / n + 0.85 * flow @ ranks
        if not (abs(ranks - before) > 0.001 * before).any():
            break
    else:
        pytest.fail("the data should let the loop end by its flags")
    pages = sorted((row["page"], row["rank"]) for row in answers[0])
    near(pages, list(enumerate(ranks.tolist())))


def matrix_multiply(answers: list[Any], data: Path) -> None:
    left, right = _cells(data / "left.csv"), _cells(data / "right.csv")
    product = _dense(left, (6, 5)) @ _dense(right, (5, 7))
    # A cell is there if a pair of cells was multiplied for it.
    there = {(i, j) for _, i, k in left for _, other, j in right if k == other}
    expected = [(float(product[i, j]), i, j) for i, j in sorted(there)]
    near(sorted(answers[0], key=lambda cell: cell[1:]), expected)
    assert answers[1] is True


def factorize(answers: list[Any], data: Path) -> None:
    ratings = _dense(_cells(data / "ratings.csv"), (8, 6))
    w = np.array([[0.5 + (3 * i + 5 * k) % 7 / 10 for k in range(2)] for i in range(8)])
    h = np.array([[0.5 + (2 * k + 3 * j) % 5 / 10 for j in range(6)] for k in range(2)])
    for _ in range(8):
        h = h * (w.T @ ratings) / (w.T @ w @ h)
        w = w * (ratings @ h.T) / (w @ (h @ h.T))
    for cells, factor in zip(answers[:2], (w, h), strict=True):
        expected = [(float(value), i, j) for (i, j), value in np.ndenumerate(factor)]
        near(sorted(cells, key=lambda cell: cell[1:]), expected)
    near(answers[2], float(np.sqrt(((ratings - w @ h) ** 2).mean())))


def reachability(answers: list[Any], data: Path) -> None:
    roads = _roads(data)
    near(answers[0], by_text({0} | nx.descendants(roads, 0)))
    closure = nx.transitive_closure(roads, reflexive=False)
    near(
        answers[1:],
        [closure.number_of_edges(), sorted(a for a in roads if (a, a) in closure.edges)],
    )


def shortest_paths(answers: list[Any], data: Path) -> None:
    roads = _roads(data)
    ways: dict[int, tuple[float, int]] = {0: (0, 0)}
    for junction in nx.descendants(roads, 0):
        paths = nx.all_shortest_paths(roads, 0, junction, "km")
        km = nx.shortest_path_length(roads, 0, junction, "km")
        ways[junction] = (km, min(len(path) - 1 for path in paths))
    near(
        answers[0], sorted([(j, *way) for j, way in ways.items()], key=lambda row: (row[1], row[0]))
    )


def components(answers: list[Any], data: Path) -> None:
    friends: nx.Graph[str] = nx.Graph(table(data / "friends.csv", str, str))
    circles = [sorted(circle) for circle in nx.connected_components(friends)]
    near(answers[0], sorted((circle[0], circle) for circle in circles))
    assert all(not nx.has_path(friends, a[0], b[0]) for a, b in combinations(circles, 2))


def _roads(data: Path) -> nx.DiGraph[int]:
    roads: nx.DiGraph[int] = nx.DiGraph()
    roads.add_weighted_edges_from(table(data / "roads.csv", int, int, int), "km")
    return roads


def _flow(data: Path) -> Matrix:
    """The share of its rank that each page (column) gives to each page (row)."""
    links = table(data / "links.csv", int, int)
    degrees = Counter(start for start, _ in links)
    flow = np.zeros((len(degrees), len(degrees)))
    for start, end in links:
        flow[end, start] += 1 / degrees[start]
    return flow


def _cells(path: Path) -> list[tuple[float, int, int]]:
    return [(value, i, j) for i, j, value in table(path, int, int, float)]


def _dense(cells: list[tuple[float, int, int]], shape: tuple[int, int]) -> Matrix:
    matrix = np.zeros(shape)
    for value, i, j in cells:
        matrix[i, j] = value
    return matrix


CHECKS: dict[str, Callable[[list[Any], Path], None]] = {
    check.__name__: check
    for check in (
        kmeans, pagerank, pagerank_converge, matrix_multiply, factorize, reachability,
        shortest_paths, components,
    )
}  # fmt: skip
