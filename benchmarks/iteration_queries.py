"""The loops, each as MRQL over streams, with what it has to gain over running it again by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from benchmarks.batch_sides import Expert
from benchmarks.incremental_data import GONE, Size, Table
from benchmarks.incremental_queries import stream
from benchmarks.iteration_data import DRIFTING, EDGES, FOREST, POINTS
from benchmarks.iteration_hand import STARTS, kmeans, pagerank, reachability

Way: TypeAlias = Literal["default", "exact", "recompute", "diffuse"]
STEPS: Final = 10
HAND: Final = "hand"
"""The code by hand that a ratio is against, among others that may be there."""


@dataclass(frozen=True, slots=True)
class Case:
    """A loop to be kept up to date."""

    name: str
    about: str
    text: str
    """The MRQL text, with `{name}` for the folder of each table."""
    table: Table
    experts: Mapping[str, Expert]
    rows: int
    """Rows of the history at full size."""
    keys: int
    """Nodes at full size; the points of k-means need none."""
    batches: tuple[int, ...]
    """Rows of the batches at full size, in turn."""
    ways: tuple[Way, ...]
    barred: Way
    """The way that must be so much faster than the code by hand."""
    must: float
    deleted: float = 0.0
    floats: bool = True

    def size(self, scale: float, number: int = 0) -> Size:
        """The size at a scale, with the rows of a batch as they are in a round."""
        rows, keys = (
            max(int(number_of_rows * scale), 100) for number_of_rows in (self.rows, self.keys)
        )
        batch = self.batches[number % len(self.batches)]
        return Size(rows, keys, max(int(batch * scale), 10))

    def text_of(self, data: Path) -> str:
        """The MRQL text over a folder."""
        return self.text.format(**{self.table.name: data / self.table.name, GONE: data / GONE})


def _pagerank() -> str:
    return f"""
    Links = {stream(EDGES)};
    Degrees = select (page, count(to)) from < src: page, dst: to > in Links group by page;
    incr repeat ranks = select distinct < page: link.src, rank: 1.0 > from link in Links
      step select < page: to, rank: 0.15 + 0.85 * sum(share) >
           from < src: page, dst: to > in Links,
                < page: page, rank: rank > in ranks,
                (page, degree) in Degrees,
                share = rank / degree
           group by to
      limit {STEPS};"""


def _kmeans() -> str:
    given = ", ".join(f"< X: {x}, Y: {y} >" for x, y in STARTS)
    return f"""
    Points = {stream(POINTS)};
    incr repeat centroids = {{{{ {given} }}}}
      step select < X: avg(s.X), Y: avg(s.Y) >
           from s in Points
           group by k: (select c from c in centroids
                        order by (c.X - s.X) * (c.X - s.X) + (c.Y - s.Y) * (c.Y - s.Y))[0]
      limit {STEPS};"""


def _reachability() -> str:
    deletes = f', deletes: "{{{GONE}}}"'
    return f"""
    Edges = {stream(FOREST, deletes)};
    incr repeat reached = {{{{ 0 }}}}
      step select distinct n
           from n in (reached union
                      (select e.dst from e in Edges, a in reached where e.src = a));"""


SMALL: Final = Case(
    "pagerank-small",
    "PageRank, 10 steps, 5K nodes, 50K edges, 100 to 400 a batch",
    _pagerank(),
    EDGES,
    {HAND: pagerank(STEPS)},
    rows=50_000,
    keys=5_000,
    batches=(100, 200, 300, 400),
    ways=("default", "recompute", "diffuse"),
    barred="default",
    must=5,
)
LARGE: Final = Case(
    "pagerank-large",
    "PageRank, 10 steps, 50K nodes, 1M edges, 1,000 a batch",
    _pagerank(),
    EDGES,
    {HAND: pagerank(STEPS)},
    rows=1_000_000,
    keys=50_000,
    batches=(1_000,),
    ways=("default", "recompute", "diffuse"),
    barred="default",
    must=5,
)
MEANS: Final = Case(
    "kmeans",
    "k-means, 10 steps, 4 centroids, 1M points, 10K to 40K a batch",
    _kmeans(),
    POINTS,
    {HAND: kmeans(STEPS), "hand-until-at-rest": kmeans(STEPS, at_rest=1e-9)},
    rows=1_000_000,
    keys=1,
    batches=(10_000, 20_000, 30_000, 40_000),
    ways=("default", "recompute", "diffuse"),
    barred="diffuse",
    must=10,
)
DRIFTED: Final = replace(
    MEANS,
    name="kmeans-drifting",
    about="k-means, 10 steps, 4 centroids, 1M points, 10K to 40K a batch, whose squares have moved",
    table=DRIFTING,
)
REACHED: Final = Case(
    "reachability",
    "reachability, a forest of 100K nodes, 20 layers, 100 edges a batch, a fifth deletions",
    _reachability(),
    FOREST,
    {HAND: reachability},
    rows=100_000,
    keys=100_000,
    batches=(100,),
    ways=("default", "exact", "recompute"),
    barred="exact",
    must=10,
    deleted=0.2,
    floats=False,
)
CASES: Final = (SMALL, LARGE, MEANS, REACHED)
