"""The loops of `incmrql demo`: k-means over points in four squares, PageRank over random links."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from incmrql.api.runs import LoopWork

QUERIES: Final = {
    "kmeans": """incr repeat centroids = {{ (1.0, 1.0), (1.0, 9.0), (9.0, 1.0), (9.0, 9.0) }}
  step select (avg(x), avg(y))
       from (x, y) in stream(line, "{folder}/points", ",", type((double, double)),
                             deletes: "{folder}/points-gone")
       group by k: (select c from c in centroids
                    order by (c#0 - x) * (c#0 - x) + (c#1 - y) * (c#1 - y))[0]
  limit 10""",
    "pagerank": """Links = stream(line, "{folder}/links", ",", type((int, int)),
               deletes: "{folder}/links-gone");
Degrees = select (page, count(to)) from (page, to) in Links group by page;
incr repeat ranks = select (page, 1.0) from (page, degree) in Degrees
  step select (to, 0.15 + 0.85 * sum(share))
       from (page, to) in Links, (page, rank) in ranks, (page, degree) in Degrees,
            share = rank / degree
       group by to
  limit 10""",
}
_SQUARES: Final = (2.0, 6.0)


@dataclass(slots=True)
class Lines:
    """A generated stream of lines: those that are there now, written batch by batch."""

    name: str
    folder: Path
    rng: random.Random
    line: Callable[[random.Random], str]
    lines: list[str] = field(default_factory=list)

    def step(self, number: int, inserts: int, deletes: int) -> None:
        """Write one batch of insertions and deletions."""
        self.rng.shuffle(self.lines)
        gone = [self.lines.pop() for _ in range(min(deletes, len(self.lines)))]
        new = [self.line(self.rng) for _ in range(inserts)]
        self.lines += new
        for suffix, some in (("", new), ("-gone", gone)):
            target = self.folder / f"{self.name}{suffix}"
            target.mkdir(parents=True, exist_ok=True)
            if some:
                (target / f"batch{number}.csv").write_text("".join(f"{each}\n" for each in some))


def lines_of(name: str, folder: Path, rng: random.Random, keys: int) -> Lines:
    """The stream of a loop; `keys` is how many pages there are."""
    if name == "kmeans":
        return Lines("points", folder, rng, _point)
    return Lines("links", folder, rng, lambda chance: _link(chance, keys))


def _point(rng: random.Random) -> str:
    return ",".join(f"{rng.choice(_SQUARES) + rng.randrange(200) / 100:.2f}" for _ in range(2))


def _link(rng: random.Random, pages: int) -> str:
    """A link; pages with small numbers have more of them."""
    return ",".join(str(min(rng.randrange(pages), rng.randrange(pages))) for _ in range(2))


def kept_by(loop: LoopWork) -> str:
    """How a loop was kept in a batch, and why so."""
    steps = "1 step" if loop.steps == 1 else f"{loop.steps} steps"
    return f"the loop: {loop.way}, {steps} ({loop.reason})"
