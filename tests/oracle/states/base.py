"""What nodes remember, and what they do with changes: the calculus, over dictionaries.

    advance(changes of the inputs)   the change of the output
    commit()                         remember
    cancel()                         forget, and be as before

so that a batch that fails anywhere leaves everything as it was.  `value` is what is remembered
as an element of a monoid (`incmrql.plan.merging`).  `work` counts the rows that
came in, the remembered rows that were read, and the rows that went out in the last batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from incmrql.algebra.interpret import elements
from incmrql.errors import InternalError
from incmrql.plan.changes import Weighted
from incmrql.plan.nodes import Columns, Join, Linear, Repeated
from incmrql.reference import Environment, evaluate
from incmrql.types import typed
from incmrql.values import Bag, Value, decode
from tests.oracle.changes import by_key, narrow_rows


@dataclass(slots=True)
class Work:
    """Rows of one batch at one node."""

    taken: int = 0
    read: int = 0
    sent: int = 0


class State(Protocol):
    """A node at work."""

    work: Work

    def advance(self, changes: Sequence[Weighted]) -> Weighted:
        """The change of the output."""

    def commit(self) -> None:
        """Remember what the last change brought."""

    def cancel(self) -> None:
        """Be as before the last change."""

    @property
    def value(self) -> Any:
        """What is remembered."""

    @property
    def size(self) -> int:
        """How many rows, or accumulators, are remembered."""


@dataclass(slots=True)
class LinearState:
    """Maps, row by row; remembers nothing."""

    node: Linear
    env: Environment
    work: Work = field(default_factory=Work)

    def advance(self, changes: Sequence[Weighted]) -> Weighted:
        """f(ΔX)."""
        result = Weighted()
        for value, weight in changes[0]:
            rows: list[Value] = [value]
            for variable, body in self.node.steps:
                rows = [e for row in rows for e in _each(body, self.env.bind(variable, row))]
            for row in rows:
                result.add(row, weight)
        return result

    def commit(self) -> None:
        """Nothing."""

    def cancel(self) -> None:
        """Nothing."""

    @property
    def value(self) -> tuple[()]:
        """Nothing."""
        return ()

    @property
    def size(self) -> int:
        """Nothing."""
        return 0


@dataclass(slots=True)
class MergeState:
    """All rows of the inputs; remembers nothing."""

    work: Work = field(default_factory=Work)

    def advance(self, changes: Sequence[Weighted]) -> Weighted:
        """ΔX + ΔY."""
        union = Weighted()
        for change in changes:
            union.merge(change)
        return union

    def commit(self) -> None:
        """Nothing."""

    def cancel(self) -> None:
        """Nothing."""

    @property
    def value(self) -> tuple[()]:
        """Nothing."""
        return ()

    @property
    def size(self) -> int:
        """Nothing."""
        return 0


@dataclass(slots=True)
class JoinState:
    """The rows of each side by key."""

    node: Join
    env: Environment
    sides: tuple[dict[bytes, Weighted], dict[bytes, Weighted]] = field(
        default_factory=lambda: ({}, {})
    )
    work: Work = field(default_factory=Work)
    _pending: list[dict[bytes, tuple[Value, Weighted]]] = field(default_factory=list)

    def advance(self, changes: Sequence[Weighted]) -> Weighted:
        """ΔX⋈Y + X⋈ΔY + ΔX⋈ΔY, for the keys that changed."""
        change = Weighted()
        left, right = self._pending = self._by_key(changes)
        for identity, (key, rows) in left.items():
            self._meet(key, rows, self._rows_of_key(1, identity), change)
            if identity in right:
                self._meet(key, rows, right[identity][1], change)
        for identity, (key, rows) in right.items():
            self._meet(key, self._rows_of_key(0, identity), rows, change)
        return change

    def take(self, changes: Sequence[Weighted]) -> None:
        """Remember changes without answering."""
        self._pending = self._by_key(changes)
        self.commit()

    def _by_key(self, changes: Sequence[Weighted]) -> list[dict[bytes, tuple[Value, Weighted]]]:
        both = zip(changes, self.node.columns, strict=True)
        return [_narrow_by_key(change, columns) for change, columns in both]

    def _rows_of_key(self, side: int, identity: bytes) -> Weighted:
        rows = self.sides[side].get(identity) or Weighted()
        self.work.read += len(rows)
        return rows

    def _meet(self, key: Value, left: Weighted, right: Weighted, change: Weighted) -> None:
        for one, times in left:
            for other, weight in right:
                group = (key, (Bag([one]), Bag([other])))
                for row in _each(self.node.body, self.env.bind(self.node.group, group)):
                    change.add(row, times * weight)

    def commit(self) -> None:
        """Add the changes to the sides that are kept."""
        for side in self.node.kept:
            kept = self.sides[side]
            for identity, (_, rows) in self._pending[side].items():
                known = kept.setdefault(identity, Weighted())
                known.merge(rows)
                if side in self.node.single:
                    check_single(known)
                if not known:
                    del kept[identity]
        self._pending = []

    def cancel(self) -> None:
        """Forget the changes."""
        self._pending = []

    @property
    def value(self) -> tuple[Weighted, ...]:
        """The pairs (key, row) of the sides that are kept."""
        return tuple(
            Weighted(
                ((decode(identity), row), weight)
                for identity, rows in self.sides[side].items()
                for row, weight in rows
            )
            for side in self.node.kept
        )

    @property
    def size(self) -> int:
        """The rows of both sides."""
        return sum(len(rows) for side in self.sides for rows in side.values())


@dataclass(slots=True)
class RepeatedState:
    """The inputs of a loop and its last result."""

    node: Repeated
    env: Environment
    inputs: list[Weighted] = field(default_factory=list)
    result: Weighted = field(default_factory=Weighted)
    work: Work = field(default_factory=Work)
    _pending: tuple[list[Weighted], Weighted] | None = None
    _has_run: bool = False

    def advance(self, changes: Sequence[Weighted]) -> Weighted:
        """The loop again over all of its inputs, unless nothing changed."""
        difference = Weighted()
        self._pending = None
        if self._has_run and not any(changes):
            return difference
        inputs = [rows.copy() for rows in self.inputs] or [Weighted() for _ in changes]
        env = self.env
        for variable, rows, change in zip(self.node.variables, inputs, changes, strict=True):
            rows.merge(change)
            self.work.read += len(rows)
            env = env.bind(variable, rows.bag())
        result = Weighted((row, 1) for row in elements(self.node.term, env))
        self._pending = inputs, result
        difference.merge(result)
        difference.merge(self.result, -1)
        return difference

    def commit(self) -> None:
        """Remember inputs and result."""
        if self._pending is not None:
            self.inputs, self.result = self._pending
            self._has_run = True
            self._pending = None

    def cancel(self) -> None:
        """Forget the changes."""
        self._pending = None

    @property
    def value(self) -> tuple[Weighted, ...]:
        """The inputs, and what the loop made of them."""
        return (*self.inputs, self.result)

    @property
    def size(self) -> int:
        """The rows of the inputs and of the result."""
        return sum(map(len, self.inputs)) + len(self.result)


def check_single(rows: Weighted) -> None:
    """Raise if a key has several rows though a key of theirs is declared and checked."""
    if rows.total > 1:
        raise InternalError(f"several rows where one was declared: {rows!r}")


def _narrow_by_key(pairs: Weighted, columns: Columns) -> dict[bytes, tuple[Value, Weighted]]:
    groups = by_key(pairs).items()
    return {identity: (key, narrow_rows(rows, columns)) for identity, (key, rows) in groups}


def _each(body: typed.Expr, env: Environment) -> list[Value]:
    """The elements that a body makes; of null, none."""
    return list(evaluate(body, env) or ())
