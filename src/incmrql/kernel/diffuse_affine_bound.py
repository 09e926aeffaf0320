"""How far a diffused affine loop can be from its own result.

`tests/oracle/diffusion/bound.py` says why the bound holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from incmrql.kernel.desk import Desk
from incmrql.kernel.diffuse_affine_tables import AffineTables
from incmrql.kernel.diffuse_affine_taking import Doubles, whole
from incmrql.kernel.diffuse_affine_vectors import Matrix, Vectors, keep
from incmrql.kernel.keys import Mask

_ULP: Final = 2.0**-48
"""More than what a step of a few dozen operations rounds, relative to what it adds up."""
_ABOVE: Final = 1.0 + 2.0**-50
"""What a sum of sizes may be short of, by rounding."""
_RINGS: Final = 16.0
"""So many rings round as much as `_ULP` says."""
_SINGLE: Final = 5


@dataclass(slots=True)
class Flowed:
    """What one batch did: where the loop starts, and ring by ring what moved and was cut off."""

    start: Doubles
    moved: list[Doubles] = field(default_factory=list)
    cut: list[float] = field(default_factory=list)
    flipped: list[float] = field(default_factory=list)
    """Constants that came or went."""


@dataclass(slots=True)
class Account:
    """The figures that the bounds are made of."""

    norm: float
    """The greatest sum of sizes in a column, since the loop was run."""
    rate: float
    """What it was then."""
    drift: float
    rounded: float
    """How often sums were rounded since then: once in each batch, and a little in each ring."""
    scale: float
    """The greatest sum of sizes that was added up since then."""
    strays: Doubles
    """For each step, how far the loop may be from what is known of its way."""

    @staticmethod
    def new(tables: AffineTables, norm: float) -> Account:
        """After the loop was run."""
        steps = tables.limit if tables.keeps_ways else 0
        assert steps is not None
        drift = 0.0 if tables.keeps_ways else math.inf
        return Account(norm, min(max(norm, 0.1), 1.0), drift, 0.0, 0.0, np.zeros(steps))

    @staticmethod
    def load(tables: AffineTables, desk: Desk) -> Account:
        """The figures that are kept."""
        content = whole(tables.account, desk)
        numbers = content.keys.columns[0].to_numpy(zero_copy_only=False)
        figures = np.zeros(len(content), np.int64)
        figures[numbers] = content.parts.get("figure.v", figures)
        doubles = figures.view(np.float64)
        norm, rate, drift, rounded, scale = doubles[:_SINGLE].tolist()
        return Account(norm, rate, drift, rounded, scale, doubles[_SINGLE:].copy())

    def figures(self) -> dict[str, Any]:
        """All figures as one vector."""
        single = [self.norm, self.rate, self.drift, self.rounded, self.scale]
        return {"figure.v": np.concatenate([single, self.strays])}

    def keep(self, before: Account | None, tables: AffineTables, desk: Desk) -> None:
        """Keep these figures in the place of others."""
        old = None if before is None else before.figures()
        known = 0 if before is None else _SINGLE + len(before.strays)
        keep(tables.account, old, self.figures(), known, desk)

    @property
    def most(self) -> float:
        """The norm of the step, at the most."""
        return self.norm * _ABOVE


def present(tables: AffineTables, vectors: Vectors) -> Mask:
    """Which rows one more step has."""
    some = vectors.adding + vectors.alones if tables.grouped else vectors.alones
    there: Mask = some > 0
    return there


def _missing(tables: AffineTables, vectors: Vectors) -> Doubles:
    """By step, the constants of rows that are there and not in one more step.

    The other way round they are negative.
    """
    there = (vectors.counts > 0).astype(np.int64) - present(tables, vectors)
    found: Doubles = vectors.constant * there
    return found


def _weighed(rate: float, sizes: Doubles) -> float:
    """What comes of sizes at steps 1, 2, ... by the last one."""
    steps = len(sizes)
    return float((rate ** (steps - 1.0 - np.arange(steps)) * sizes).sum())


def add_batch(
    account: Account,
    tables: AffineTables,
    vectors: tuple[Vectors, Vectors],
    turned: Matrix,
    flowed: Flowed,
) -> None:
    """Add what a batch brings, given the vectors before and after and how the matrix changed.

    The ways of the labels are brought up to date.
    """
    before, after = vectors
    account.rounded += 1.0 + len(flowed.cut) / _RINGS
    c, n = account.most, tables.limit
    if n is None or not (tables.keeps_ways and c < 1.0):
        account.drift = math.inf
    if n is None or math.isinf(account.drift):
        return
    absent = np.zeros(n)
    if not tables.steady:
        absent = np.abs(_missing(tables, after) - _missing(tables, before)).sum(axis=1)
    most, sizes = _turned(account, before, turned)
    cuts, flips = np.array(flowed.cut), np.array(flowed.flipped)
    places = np.arange(len(cuts))
    started = float(np.abs(flowed.start).sum())
    late = float((c ** (n - places) * cuts).sum())
    late += float(((c ** (n - 1.0 - places) + c**n) * flips).sum())
    pending = float(np.abs(before.held).sum())
    account.drift += c**n * started + _weighed(c, sizes) + late / (1.0 - c) + _weighed(c, absent)
    account.drift += most * pending / (1.0 - c) ** 2
    every = float(cuts.sum() + 2.0 * flips.sum()) / (1.0 - c) + float(absent.sum())
    for step in range(1, n):
        account.strays[step] += c**step * started + _weighed(c, sizes[:step]) + every
    after.ways[0] += flowed.start
    for place, moved in enumerate(flowed.moved):
        after.ways[: place + 1] -= moved


def _turned(account: Account, before: Vectors, turned: Matrix) -> tuple[float, Doubles]:
    """The greatest change of a column, and what the changes make of the way at each step."""
    most = float(turned.sizes().max(initial=0.0))
    found = np.array([float(np.abs(turned.times(way)).sum()) for way in before.ways])
    return most, found + most * account.strays


def error_of(
    account: Account, tables: AffineTables, vectors: Vectors, most_steps: int
) -> dict[str, Any]:
    """What is known of the error: a bound while the norm is below 1, else a residual."""
    c = account.most
    n = most_steps if tables.limit is None else tables.limit
    residual = float(np.abs(vectors.next - vectors.result).sum())
    if not 0.0 <= c < 1.0:
        return _told("residual", residual, {"residual": residual}, vectors)
    absent = 0.0
    if not tables.steady:
        missing = np.abs(_missing(tables, vectors)).sum(axis=1)
        absent = max(1.0, c / account.rate) ** n * _weighed(account.rate, missing)
    steps = min(n, 1.0 / (1.0 - c)) + account.rounded + 1.0
    rounding = _ULP * steps * account.scale / (1.0 - c) ** 2
    parts = {
        "norm of the step": c,
        "residual": residual * (1.0 + c**n) / (1.0 - c),
        "stopping": c**n * float(np.abs(vectors.start - vectors.result).sum()),
        "rows not there": absent,
        "drift": account.drift,
        "held back": float(np.abs(vectors.held).sum()) / (1.0 - c),
        "rounding": rounding,
    }
    fixed = parts["residual"] + parts["stopping"] + absent + rounding
    differences = account.drift + parts["held back"] + rounding
    parts |= {"by the fixed point": fixed, "by differences": differences}
    return _told("bound", min(fixed, differences), parts, vectors)


def _told(kind: str, figure: float, parts: dict[str, float], vectors: Vectors) -> dict[str, Any]:
    return {"kind": kind, "figure": figure, "parts": parts, "size": vectors.size}


def grow(account: Account, vectors: Vectors, more: float) -> None:
    """Remember the greatest sum of sizes that was added up; `more` was, beside the vectors."""
    sizes = (vectors.result, vectors.start, vectors.next)
    account.scale = max(account.scale, more + sum(float(np.abs(each).sum()) for each in sizes))
