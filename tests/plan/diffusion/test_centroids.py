"""k-means by diffusion: new points go to the nearest centroid, old ones stay where they are."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from random import Random

import pytest

from incmrql.errors import DataError
from incmrql.reference import Environment, new_world
from incmrql.values import Record
from tests.effort import scale
from tests.oracle.diffusion.state import DiffusedState, Error, Settings
from tests.oracle.states.base import RepeatedState
from tests.oracle.stepper import Stepper
from tests.plan.diffusion.test_diffuse import (
    TABLES,
    Both,
    loop_of,
    point,
    script_and_plan,
    shape_of,
)
from tests.plan.diffusion.test_shape import MEANS
from tests.plan.stepping import Batch

NEAR, FAR = point(0, 0), point(9, 9)


class Run:
    """Centroids over a stream of points."""

    def __init__(self, settings: Settings | None = None) -> None:
        script, plan = script_and_plan(MEANS)
        place, node = loop_of(plan)
        env = Environment(new_world(script, registered={name: [] for name in TABLES}))
        state = DiffusedState(node, env, settings or Settings(), shape_of(MEANS))
        self.both = Both(state, RepeatedState(node, env))
        self.stepper = Stepper(plan, env)
        self.stepper._states[place] = self.both

    def step(self, batch: Batch) -> Error:
        self.stepper.step(batch)
        return self.both.diffused.error

    def insert(self, *points: Record) -> Error:
        return self.step({"P": [(row, 1) for row in points]})

    def delete(self, *points: Record) -> Error:
        return self.step({"P": [(row, -1) for row in points]})

    @property
    def got(self) -> list[tuple[float, float]]:
        return sorted((row["X"], row["Y"]) for row in self.both.diffused.result.bag())

    @property
    def wanted(self) -> list[tuple[float, float]]:
        return sorted((row["X"], row["Y"]) for row in self.both.exact.result.bag())


def mean(points: Iterable[Record]) -> tuple[float, float]:
    """The exact sums, rounded once, and then divided."""
    rows = list(points)
    x, y = (sum((Fraction(row[name]) for row in rows), Fraction(0)) for name in ("X", "Y"))
    return float(x) / len(rows), float(y) / len(rows)


def cloud(chance: Random, x: float, many: int = 10) -> list[Record]:
    return [point(x + chance.random(), x + chance.random()) for _ in range(many)]


@pytest.mark.slow
def test_centroids_are_exact_means_of_the_points_they_were_given() -> None:
    for seed in range(scale(8, 20)):
        chance = Random(seed)
        low, high = cloud(chance, 0.0), cloud(chance, 8.0)
        run = Run()
        assert run.insert(*low, *high).kind == "resynchronised"
        for _ in range(4):
            more = [cloud(chance, 0.0, 2), cloud(chance, 8.0, 3)]
            low += more[0]
            high += more[1]
            error = run.insert(*more[0], *more[1])
            assert error.kind == "residual"
            assert error.figure > 0.0
            assert run.got == sorted([mean(low), mean(high)]) == run.wanted
        gone = [low.pop(3), high.pop(5)]
        run.delete(*gone)
        assert run.got == sorted([mean(low), mean(high)])


def test_old_points_are_not_assigned_again() -> None:
    """Many points come to the centroid 9, which then is nearer to the point 4 than its own, 2."""
    run = Run()
    run.insert(point(0, 0), point(4, 4), point(9, 9))
    assert run.got == run.wanted == [(2.0, 2.0), (9.0, 9.0)]
    more = [point(5.6, 5.6)] * 30
    assert run.insert(*more).kind == "residual"
    assert run.got == [(2.0, 2.0), mean([point(9, 9), *more])]
    assert run.wanted == [(0.0, 0.0), mean([point(4, 4), point(9, 9), *more])]


def test_a_point_that_is_there_already_comes_again() -> None:
    run = Run()
    run.insert(NEAR, point(1, 1), FAR)
    run.insert(NEAR, NEAR)
    assert run.got == [(0.25, 0.25), (9.0, 9.0)]
    run.delete(NEAR, NEAR, NEAR)
    assert run.got == [(1.0, 1.0), (9.0, 9.0)]


@pytest.mark.slow
def test_only_centroids_are_read_for_new_points() -> None:
    read = []
    for many in (20, 400):
        chance = Random(1)
        run = Run()
        run.insert(*cloud(chance, 0.0, many), *cloud(chance, 8.0, many))
        run.insert(*cloud(chance, 0.0, 3))
        read.append(run.both.diffused.work.read)
    assert read[0] == read[1] > 0


def test_a_deleted_point_is_taken_from_the_nearest_and_centroids_do_not_go_below_nothing() -> None:
    """More is taken from a centroid than it was given: then the loop is run again."""
    run = Run()
    run.insert(point(0, 0), point(4, 4), point(9, 9))
    run.insert(*[point(5.9, 5.9)] * 30)
    assert run.delete(*[point(5.9, 5.9)] * 30, point(9, 9)).kind == "resynchronised"
    assert run.got == run.wanted


def test_sums_are_exact_whatever_comes_between() -> None:
    run = Run()
    run.insert(point(0.1, 0.2), point(0.3, 0.3), FAR)
    before = run.got
    huge = point(-1e16, -1e16)
    run.insert(huge)
    assert run.got != before
    run.delete(huge)
    assert run.got == before


def test_centroids_that_moved_far_are_computed_again() -> None:
    run = Run(Settings(error=0.05))
    run.insert(point(0, 0), point(4, 4), point(9, 9))
    kinds = [run.insert(point(5.9, 5.9)).kind for _ in range(3)]
    assert "resynchronised" in kinds
    every = Run(Settings(every=2))
    every.insert(NEAR, FAR)
    assert [every.insert(NEAR).kind for _ in range(4)] == ["residual", "resynchronised"] * 2


@pytest.mark.parametrize("settings", [Settings(), Settings(every=2)])
def test_a_batch_that_fails_leaves_centroids_as_they_were(settings: Settings) -> None:
    chance = Random(5)
    run, other = Run(settings), Run(settings)
    batches = [cloud(chance, x, 3) for x in (0.0, 8.0, 4.0, 4.0, 2.0)]
    for points in batches:
        run.both.fails = True
        with pytest.raises(DataError):
            run.insert(*points, points[0])
        run.both.fails = False
        assert run.insert(*points) == other.insert(*points)
        assert run.got == other.got
        assert run.both.diffused.size == other.both.diffused.size
    assert run.delete(batches[0][0]) == other.delete(batches[0][0])
    assert run.got == other.got


def test_no_points_at_all() -> None:
    run = Run()
    run.step({})
    assert run.got == run.wanted
    run.insert(NEAR, FAR)
    assert run.got == run.wanted
    run.delete(NEAR, FAR)
    assert run.got == run.wanted
