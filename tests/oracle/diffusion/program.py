"""The program of a loop's step at work, and tables that can be put back as they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from incmrql.plan.changes import Weighted
from incmrql.plan.nodes import Constant
from incmrql.plan.program import LoopProgram
from incmrql.reference import Environment, evaluate
from tests.oracle.states.base import State
from tests.oracle.states.dispatch import node_changes, state_of

Item = TypeVar("Item")


@dataclass(slots=True)
class Table(Generic[Item]):
    """Items by canonical bytes; what is put in is remembered with `commit` only."""

    kept: dict[bytes, Item] = field(default_factory=dict)
    pending: dict[bytes, Item | None] = field(default_factory=dict)

    def get(self, identity: bytes) -> Item | None:
        """The item of a key."""
        if identity in self.pending:
            return self.pending[identity]
        return self.kept.get(identity)

    def put(self, identity: bytes, item: Item | None) -> None:
        """Another item for a key; None takes the key away."""
        self.pending[identity] = item

    def clear(self) -> None:
        """Take all keys away."""
        self.pending = dict.fromkeys(self.kept)

    def items(self) -> Iterator[tuple[bytes, Item]]:
        """All keys with their items."""
        for identity, item in {**self.kept, **self.pending}.items():
            if item is not None:
                yield identity, item

    def values(self) -> Iterator[Item]:
        """All items."""
        return (item for _, item in self.items())

    def commit(self) -> None:
        """Remember what was put in."""
        for identity, item in self.pending.items():
            if item is None:
                self.kept.pop(identity, None)
            else:
                self.kept[identity] = item
        self.pending = {}

    def cancel(self) -> None:
        """Forget what was put in."""
        self.pending = {}


@dataclass(slots=True)
class Program:
    """A step over changes of a loop's inputs and of its variable.

    A batch may go through it several times.  `undo` takes all of them back: changes form a
    group, so that what is remembered is as it was.
    """

    looping: LoopProgram
    env: Environment
    read: int = 0
    """Rows of state that were read."""
    _states: list[State | None] = field(init=False)
    _is_new: bool = True
    _was_new: bool = True
    _inputs: list[Weighted] = field(init=False)
    _variable: Weighted = field(init=False)

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._states = [state_of(node, self.env) for node in self.looping.nodes]
        self._is_new = self._was_new = True
        self._forget()

    def _forget(self) -> None:
        self._inputs = [Weighted() for _ in self.looping.inputs]
        self._variable = Weighted()

    def run(self, given: Sequence[Weighted], variable: Weighted) -> list[Weighted]:
        """The change of every node."""
        try:
            changes = self._advance(given, variable)
        except BaseException:
            for state in filter(None, self._states):
                state.cancel()
            raise
        for state in filter(None, self._states):
            state.commit()
        self._is_new = False
        for total, change in zip(self._inputs, given, strict=True):
            total.merge(change)
        self._variable.merge(variable)
        return changes

    def run_variable(self, variable: Weighted) -> list[Weighted]:
        """The change of every node for a change of the variable alone."""
        return self.run([Weighted() for _ in self.looping.inputs], variable)

    def _advance(self, given: Sequence[Weighted], variable: Weighted) -> list[Weighted]:
        known = dict(zip(self.looping.inputs, given, strict=True))
        known[self.looping.variables[0]] = variable

        def outside(place: int) -> Weighted:
            node = self.looping.nodes[place]
            if not isinstance(node, Constant):
                return known[place]
            rows = evaluate(node.expr, self.env) if self._is_new else None
            return Weighted((row, 1) for row in rows or ())

        changes, work = node_changes(self.looping.nodes, self._states, outside)
        self.read += sum(node_work.read for node_work in work)
        return changes

    def commit(self) -> None:
        """Remember the batch."""
        self._was_new = self._is_new
        self._forget()

    def undo(self) -> None:
        """Be as before the batch."""
        if self._was_new:
            self._start()
            return
        back = [_negative(rows) for rows in self._inputs]
        self.run(back, _negative(self._variable))
        self._forget()

    @property
    def size(self) -> int:
        """How much is remembered."""
        return sum(state.size for state in filter(None, self._states))


def _negative(change: Weighted) -> Weighted:
    negative = Weighted()
    negative.merge(change, -1)
    return negative
