"""A loop kept by diffusion, over dictionaries: its inputs, its result, and the error of the result.

`incmrql.plan.diffusion.shape` says what the figures of the error mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from incmrql.algebra.interpret import elements
from incmrql.plan.changes import Weighted
from incmrql.plan.diffusion.shape import Diffusion, require_diffusion
from incmrql.plan.diffusion.ways import Affine, Centroids, Residual, UnmeasuredError
from incmrql.plan.nodes import Repeated
from incmrql.reference import Environment, evaluate
from incmrql.reference.queries import Ending, iterate
from incmrql.values import Bag, Value
from tests.oracle.diffusion.centroids import Means
from tests.oracle.diffusion.vector import Vector
from tests.oracle.states.base import Work

ErrorKind: TypeAlias = Literal["bound", "residual", "resynchronised"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user asks for.

    Differences of less than `tolerance` times the mean size of a value do not flow.  The loop is
    run again when the figure of the error passes `error` times the sum of the sizes of all
    values, and every few batches.
    """

    tolerance: float = 1e-6
    error: float | None = None
    every: int | None = None


@dataclass(frozen=True, slots=True)
class Error:
    """What is known of the error after a batch, and what the figure is made of."""

    kind: ErrorKind
    figure: float
    parts: tuple[tuple[str, float], ...] = ()


@dataclass(slots=True)
class DiffusedState:
    """The inputs of a loop and its diffused result."""

    node: Repeated
    env: Environment
    settings: Settings = field(default_factory=Settings)
    shape: Diffusion | None = None
    """How the loop is diffused, if that is known; else anything may be deleted."""
    inputs: list[Weighted] = field(default_factory=list)
    result: Weighted = field(default_factory=Weighted)
    error: Error = Error("resynchronised", 0.0)
    work: Work = field(default_factory=Work)
    since: int = 0
    """Batches since the loop was run."""
    _way: Vector | Means | None = None
    _pending: _Pending | None = None

    def __post_init__(self) -> None:
        self.shape = self.shape or require_diffusion(self.node, self.env.world.script)

    def advance(self, changes: Sequence[Weighted]) -> Weighted:
        """The change of the result."""
        if not self.inputs:
            self.inputs = [Weighted() for _ in changes]
        self._pending = _Pending(list(changes), self._way, self.error, self.since)
        if self._way is not None and not any(changes):
            return Weighted()
        for rows, change in zip(self.inputs, changes, strict=True):
            rows.merge(change)
        self._pending.is_merged = True
        try:
            change = self._advance(changes)
        except UnmeasuredError:
            change = self._recompute()
        self.result.merge(change)
        self._pending.change = change
        return change

    def _advance(self, changes: Sequence[Weighted]) -> Weighted:
        way = self._way
        if way is None:
            way = self._way = self._new()
            way.take(self.inputs)
            return self._resynchronise(way)
        self.since += 1
        if self.settings.every is not None and self.since >= self.settings.every:
            way.take(changes)
            return self._resynchronise(way)
        way.follow(changes)
        kind, figure, parts = way.stated_error()
        self.error = Error(kind, figure, parts)
        most = self.settings.error
        passes = most is not None and not figure <= most * way.norm
        if passes or way.is_lost:
            return self._resynchronise(way)
        self._count_work(way)
        return way.change

    def _new(self) -> Vector | Means:
        if isinstance(self.shape, Centroids):
            return Means(self.shape, self.env)
        assert isinstance(self.shape, Affine | Residual)
        return Vector(self.shape, self.env, self._limit(), self.settings.tolerance)

    def _limit(self) -> int | None:
        limit = self.node.term.limit
        return None if limit is None else max(evaluate(limit, self.env) or 0, 0)

    def _resynchronise(self, way: Vector | Means) -> Weighted:
        """Run the loop over all of its inputs and continue from its result."""
        steps = self._run()
        way.reset(steps, self.inputs)
        self.since = 0
        self.error = Error("resynchronised", 0.0)
        self._count_work(way)
        return self._replace(steps[-1])

    def _recompute(self) -> Weighted:
        """The loop's own result, for want of an error bound; the next batch tries again."""
        self._way, self.since = None, 0
        self.error = Error("resynchronised", 0.0)
        return self._replace(self._run()[-1])

    def _replace(self, rows: Sequence[Value]) -> Weighted:
        """The change from the last result to another one."""
        change = Weighted((row, 1) for row in rows)
        change.merge(self.result, -1)
        return change

    def _count_work(self, way: Vector | Means) -> None:
        self.work.read += way.read

    def _run(self) -> list[list[Value]]:
        """The rows of the variable before each step, and at the end."""
        env, term = self.env, self.node.term
        for variable, rows in zip(self.node.variables, self.inputs, strict=True):
            env = env.bind(variable, rows.bag())
            self.work.read += len(rows)
        steps: list[list[Value]] = []

        def step(values: list[Value]) -> list[Value]:
            steps.append(list(values[0]))
            inner = env.bind(term.variables[0], values[0])
            return [Bag(elements(term.step[0], inner))]

        ending = Ending(term.flagged, self._limit(), env.world.max_steps)
        (last,) = iterate([Bag(elements(term.initial[0], env))], step, ending)
        return [*steps, list(last)]

    def commit(self) -> None:
        """Remember the batch."""
        if self._pending is not None and self._way is not None:
            self._way.commit()
        self._pending = None

    def cancel(self) -> None:
        """Be as before the batch."""
        before, self._pending = self._pending, None
        if before is None:
            return
        if before.is_merged:
            for rows, change in zip(self.inputs, before.changes, strict=True):
                rows.merge(change, -1)
            self.result.merge(before.change, -1)
            if before.way is not None:
                before.way.cancel()
        self._way, self.error, self.since = before.way, before.error, before.since

    @property
    def value(self) -> tuple[Weighted, ...]:
        """The inputs, and the result that is kept."""
        return (*self.inputs, self.result)

    @property
    def size(self) -> int:
        """The rows of the inputs and of the result, and what differences flow by."""
        way = 0 if self._way is None else self._way.size
        return sum(map(len, self.inputs)) + len(self.result) + way


@dataclass(slots=True)
class _Pending:
    """What a batch that fails is put back to."""

    changes: list[Weighted]
    way: Vector | Means | None
    error: Error
    since: int
    change: Weighted = field(default_factory=Weighted)
    is_merged: bool = False
