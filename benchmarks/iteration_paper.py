"""The paper's own scheme for batches of a loop, by NumPy.

As it is published (its section on the approach, under "Iteration"; T is the state, h the part of
a step that is a homomorphism with the merge ⊗, a what makes X of a state, n the steps):

    ΔX ← g(ΔS);   n times:  ΔT ← T ⊗^ h(ΔX, ΔS),  ΔX ← a(ΔT);   T ← T ⊗ ΔT;   answer a(T)

⊗ is a full outer join that adds, and ⊗^ the same as a right outer join: it has the keys of
h(ΔX, ΔS) only, and to those the state is added.  Two readings are simulated of either loop:
`published`, to the letter, and `once`, the most generous one.

PageRank: T has the sum of shares of each page.

    published   ΔX starts with the pages of the batch, which share 1.0 over its links; what they
                reach shares over all links so far, one ring more at each step.  ΔT has T in it,
                and the last merge adds it again.
    once        The loop over the links of the batch alone; the sums of shares that it ends with
                are added to T.

k-means: T has sums and counts of each centroid; centroids are keys, equal up to a threshold.

    published   The points of the batch go to the nearest of ΔX.  From the second step on ΔT is T
                and these points, and the last merge makes of it 2 T and these points.
    once        The loop over the points of the batch alone; the sums and counts that it ends with
                are added to T.

Links are not doubled by the last merge, though bags of links would be.  At first T is that of the
loop over the history.
"""

from __future__ import annotations

from typing import Any as Arrow
from typing import Final, Literal, TypeAlias

import numpy as np

from benchmarks.iteration_numpy import (
    centres,
    means,
    page_ranks,
    ranks_of,
    shares_received,
    sums_by_centroid,
)

Reading: TypeAlias = Literal["published", "once"]
READINGS: Final[tuple[Reading, ...]] = ("published", "once")
NEAR: Final = 0.1
"""Up to where coordinates of centroids are equal."""


class PaperRanks:
    """PageRank by the scheme: the sums of shares of the pages that have any."""

    def __init__(self, reading: Reading, nodes: int, steps: int, src: Arrow, dst: Arrow) -> None:
        self.reading, self.nodes, self.steps = reading, nodes, steps
        self.src, self.dst = src, dst
        self.sums, self.there = self._last_sums(src, dst)

    def _last_sums(self, src: Arrow, dst: Arrow) -> tuple[Arrow, Arrow]:
        before = page_ranks(self.nodes, src, dst, self.steps - 1)
        return shares_received(self.nodes, src, dst, before, np.bincount(src, minlength=self.nodes))

    def take(self, src: Arrow, dst: Arrow) -> Arrow:
        """Take in the links of a batch; the ranks."""
        self.src, self.dst = np.concatenate([self.src, src]), np.concatenate([self.dst, dst])
        if self.reading == "once":
            sums, there = self._last_sums(src, dst)
        else:
            sums, there = self._diffuse(src, dst)
        self.sums, self.there = self.sums + sums, self.there | there
        return ranks_of(self.sums, self.there)

    def _diffuse(self, src: Arrow, dst: Arrow) -> tuple[Arrow, Arrow]:
        """The change of the state after all steps, and its keys."""
        degrees = np.bincount(src, minlength=self.nodes)
        sums, there = shares_received(self.nodes, src, dst, (degrees > 0).astype(float), degrees)
        degrees = np.bincount(self.src, minlength=self.nodes)
        for _ in range(self.steps - 1):
            ranks = ranks_of(self.sums + sums, there)
            sums, there = shares_received(self.nodes, self.src, self.dst, ranks, degrees)
        return np.where(there, self.sums + sums, 0.0), there


class PaperMeans:
    """k-means by the scheme: sums and counts under the centroids that are their keys."""

    def __init__(self, reading: Reading, starts: Arrow, steps: int, history: Arrow) -> None:
        self.reading, self.starts, self.steps = reading, starts, steps
        self.keys, self.sums = self._loop_over(history)

    def _loop_over(self, points: Arrow) -> tuple[Arrow, Arrow]:
        """The loop over some points alone: the keys of its last step, with sums and counts."""
        keys = means(points, self.starts, self.steps - 1)
        return keys, sums_by_centroid(points, keys)

    def take(self, points: Arrow) -> Arrow:
        """Take in the points of a batch; the centroids."""
        keys, change = self._loop_over(points) if self.reading == "once" else self._diffuse(points)
        for key, row in zip(keys, change, strict=True):
            place = self._place(key)
            if place is None:
                self.keys, self.sums = np.vstack([self.keys, key]), np.vstack([self.sums, row])
            else:
                self.sums[place] += row
        return centres(self.sums)

    def _diffuse(self, points: Arrow) -> tuple[Arrow, Arrow]:
        """The keys of the change of the state after all steps, and the change."""
        keys = sums = centroids = self.starts
        for _ in range(self.steps):
            sums = sums_by_centroid(points, centroids)
            keys, sums = centroids[sums[:, 2] > 0], sums[sums[:, 2] > 0]
            for place, key in enumerate(keys):
                known = self._place(key)
                if known is not None:
                    sums[place] += self.sums[known]
            centroids = centres(sums)
        return keys, sums

    def _place(self, key: Arrow) -> int | None:
        """The place of a key that is equal up to the threshold."""
        near = np.flatnonzero((np.abs(self.keys - key) < NEAR).all(axis=1))
        return int(near[0]) if len(near) else None
