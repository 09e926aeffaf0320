"""The loops by NumPy, over all data: what diffused results are compared with."""

from __future__ import annotations

from typing import Any as Arrow

import numpy as np


def page_ranks(nodes: int, src: Arrow, dst: Arrow, steps: int) -> Arrow:
    """The ranks after some steps; a page that has none has 0."""
    degrees = np.bincount(src, minlength=nodes)
    ranks = (degrees > 0).astype(float)
    for _ in range(steps):
        sums, there = shares_received(nodes, src, dst, ranks, degrees)
        ranks = ranks_of(sums, there)
    return ranks


def shares_received(
    nodes: int, src: Arrow, dst: Arrow, ranks: Arrow, degrees: Arrow
) -> tuple[Arrow, Arrow]:
    """The sums of the shares that pages get over links, and which pages get any."""
    known = ranks[src] > 0
    src, dst = src[known], dst[known]
    sums = np.bincount(dst, weights=ranks[src] / degrees[src], minlength=nodes)
    return sums, np.bincount(dst, minlength=nodes) > 0


def ranks_of(sums: Arrow, there: Arrow) -> Arrow:
    """The ranks of pages by the shares that they get."""
    return np.where(there, 0.15 + 0.85 * sums, 0.0)


def sums_by_centroid(points: Arrow, centroids: Arrow) -> Arrow:
    """For each centroid the sums of the points that are nearest to it, and their number."""
    apart = [((points - centroid) ** 2).sum(axis=1) for centroid in centroids]
    near = np.argmin(apart, axis=0)
    weights = (points[:, 0], points[:, 1], None)
    return np.stack([np.bincount(near, w, len(centroids)).astype(float) for w in weights], 1)


def centres(sums: Arrow) -> Arrow:
    """The centroids of sums and counts, of those that have points."""
    there = sums[sums[:, 2] > 0]
    return there[:, :2] / there[:, 2:]


def means(points: Arrow, centroids: Arrow, steps: int) -> Arrow:
    """The centroids after some steps."""
    for _ in range(steps):
        after = centres(sums_by_centroid(points, centroids))
        if after.shape == centroids.shape and (after == centroids).all():
            break
        centroids = after
    return centroids
