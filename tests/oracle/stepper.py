"""The reference stepper: a plan, run batch by batch over dictionaries.

What it answers after any batches is what the reference evaluator answers over all the data so
far; how batches are cut does not matter.  A batch that is refused changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from incmrql.errors import DataError, nearest
from incmrql.plan.changes import NegativeWeight, Weighted
from incmrql.plan.loops.program import numbered_program
from incmrql.plan.nodes import Constant, Input, Node, Plan, Repeated, ResultPart
from incmrql.plan.program import LoopMode
from incmrql.reference import Environment, evaluate, from_python
from incmrql.types import typed
from incmrql.values import Value
from tests.oracle.diffusion.state import DiffusedState
from tests.oracle.ledgers import Ledgers, check_key, rows_by_key
from tests.oracle.plain import Plain, plain
from tests.oracle.states.base import RepeatedState, State, Work
from tests.oracle.states.dispatch import node_changes, state_of
from tests.oracle.states.loops import NumberedState
from tests.oracle.states.ordered import in_order


@dataclass(slots=True)
class Stepper:
    """A plan at work.  `changes` has what the last batch changed in each part of the answer."""

    plan: Plan
    env: Environment
    iterate: LoopMode = "recompute"
    batches: int = 0
    changes: dict[typed.Variable, Weighted] = field(default_factory=dict)
    _states: list[State | None] = field(init=False)
    _work: list[Work] = field(default_factory=list)
    _ledgers: Ledgers = field(init=False)
    _parts: list[Weighted] = field(init=False)
    _answer: Value = None

    def __post_init__(self) -> None:
        self._states = [_state(node, self.env, self.iterate) for node in self.plan.nodes]
        self._ledgers = Ledgers(self.plan)
        self._parts = [Weighted() for _ in self.plan.parts]

    def step(self, batch: Mapping[str, Iterable[tuple[Value, int]]]) -> Weighted:
        """Take in changes of streams, by their names; the change of the answer.

        The change of a collection are its rows.  Any other answer is taken away and put back
        whole, if it is another one.
        """
        given = self._input_changes(batch)
        self._ledgers.check(given)
        merged: list[Weighted] = []
        try:
            outputs = self._advance(given)
            change = self._merge_parts(outputs, merged)
        except NegativeWeight as problem:
            self._undone(merged)
            raise self._deletion_error(problem) from None
        except BaseException:
            self._undone(merged)
            raise
        for state in filter(None, self._states):
            state.commit()
        self._ledgers.commit(given)
        self.batches += 1
        return change

    def _deletion_error(self, problem: NegativeWeight) -> Exception:
        """The error where deletions are trusted: one of them deletes a row that is not there."""
        trusted = [
            node.name
            for node in self.plan.nodes
            if isinstance(node, Input) and not (node.insert_only or node.ledger)
        ]
        if not trusted:
            return problem
        message = f"a row is deleted that is not there: {problem}"
        hint = "Without trusted_deletes such a batch is refused, and the row is named."
        return DataError("R205", message, place=", ".join(trusted), hint=hint)

    def _undone(self, merged: list[Weighted]) -> None:
        """Be as before a batch that failed."""
        for state in filter(None, self._states):
            state.cancel()
        for rows, change in zip(self._parts, merged, strict=False):
            rows.merge(change, -1)

    def answer(self) -> Value:
        """The answer over all the data so far."""
        if not self.batches:
            self.step({})
        return self._evaluate()

    def _evaluate(self) -> Value:
        env = self.env
        for part, rows in zip(self.plan.parts, self._parts, strict=True):
            env = env.bind(part.variable, _value(part, rows))
        return evaluate(self.plan.result, env)

    def state(self) -> Plain:
        """All that is remembered, in the one form that equal states have."""
        states = [
            self._ledgers.value(place) if state is None else state.value
            for place, state in enumerate(self._states)
        ]
        return tuple(map(plain, states))

    @property
    def work(self) -> list[Work]:
        """What each node did in the last batch."""
        return self._work

    @property
    def sizes(self) -> list[int]:
        """How many rows or accumulators each node remembers."""
        return [0 if state is None else state.size for state in self._states]

    def _input_changes(
        self, batch: Mapping[str, Iterable[tuple[Value, int]]]
    ) -> dict[int, Weighted]:
        """The changes of the inputs, by place."""
        streams = {
            node.name: place
            for place, node in enumerate(self.plan.nodes)
            if isinstance(node, Input) and node.source.streaming
        }
        changes: dict[int, Weighted] = {}
        for name, rows in batch.items():
            if name not in streams:
                message = f'the query reads no stream "{name}"'
                raise DataError("R208", message, hint=nearest(name, streams))
            node = self.plan.nodes[streams[name]]
            assert isinstance(node, Input)
            pushed = node.source.format == "registered"
            changes[streams[name]] = Weighted(
                (from_python(row, node.source.row) if pushed else row, weight)
                for row, weight in rows
            )
        return changes

    def _advance(self, given: Mapping[int, Weighted]) -> list[Weighted]:
        """The change of every node."""

        def outside(place: int) -> Weighted:
            return given.get(place) or self._first(self.plan.nodes[place])

        changes, self._work = node_changes(self.plan.nodes, self._states, outside)
        return changes

    def _first(self, node: Node) -> Weighted:
        """The rows that are there from the first batch on, and only then are a change."""
        if self.batches:
            return Weighted()
        match node:
            case Constant(expr):
                return Weighted((row, 1) for row in evaluate(expr, self.env) or ())
            case Input(source=source) if not source.streaming:
                rows = evaluate(typed.Read(source, type=source.row), self.env)
                weighted = Weighted((row, 1) for row in rows)
                check_key(node, rows_by_key(node, weighted).values())
                return weighted
            case _:
                return Weighted()

    def _merge_parts(self, outputs: list[Weighted], merged: list[Weighted]) -> Weighted:
        """Merge the outputs into the parts and note them; returns the change of the answer."""
        changes: dict[typed.Variable, Weighted] = {}
        for part, rows in zip(self.plan.parts, self._parts, strict=True):
            rows.merge(outputs[part.place])
            merged.append(outputs[part.place])
            changes[part.variable] = _values(part, outputs[part.place])
        change = self._change(changes)
        self.changes = changes
        return change

    def _change(self, changes: dict[typed.Variable, Weighted]) -> Weighted:
        if isinstance(self.plan.result, typed.Var):
            return changes[self.plan.result.variable].copy()
        if self.batches and not any(changes.values()):
            return Weighted()
        before, self._answer = self._answer, self._evaluate()
        change = Weighted([(self._answer, 1)])
        if self.batches:
            change.add(before, -1)
        return change


def _loop(node: Repeated, env: Environment, iterate: LoopMode) -> State:
    """A loop at work."""
    if iterate == "diffuse":
        return DiffusedState(node, env)
    steps = numbered_program(node, env.world.script) if iterate == "exact" else ""
    if isinstance(steps, str):
        return RepeatedState(node, env)
    return NumberedState(node, env, steps)


def _state(node: Node, env: Environment, iterate: LoopMode) -> State | None:
    return _loop(node, env, iterate) if isinstance(node, Repeated) else state_of(node, env)


def _value(part: ResultPart, rows: Weighted) -> Value:
    """The collection that a part is."""
    return rows.bag() if part.order is None else in_order(rows, part.order)


def _values(part: ResultPart, change: Weighted) -> Weighted:
    """The change of a part in its elements."""
    if part.order is None:
        return change
    return Weighted((value, weight) for (_, value), weight in change)
