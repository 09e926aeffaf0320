"""A loop that is kept exactly: the differences from step to step, over dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from incmrql.plan.changes import Weighted
from incmrql.plan.loops.driving import LoopDelta, drive
from incmrql.plan.nodes import Constant, Groups, Join, Node, Repeated
from incmrql.plan.nodes import inputs as inputs_of
from incmrql.plan.program import LoopProgram
from incmrql.reference import Environment, evaluate
from incmrql.reference.queries import Ending
from incmrql.values import encode
from tests.oracle.states.base import JoinState, Work
from tests.oracle.states.dispatch import state_of
from tests.oracle.states.groups import GroupsState

Rows = list[Weighted]
"""The rows of each side of some keys, pairs ((step, key), value)."""


def ending_of(node: Repeated, env: Environment) -> Ending:
    """When the loop of a node ends."""
    limit = None if node.term.limit is None else evaluate(node.term.limit, env) or 0
    return Ending(node.term.flagged, limit, env.world.max_steps)


@dataclass(slots=True)
class PointsState:
    """Groups by step and key: the rows of a group are those of all steps up to its own."""

    node: Groups
    env: Environment
    rows: dict[bytes, Rows] = field(default_factory=dict)
    later: dict[int, set[bytes]] = field(default_factory=dict)
    """The keys that changed in this batch and have rows of later steps."""
    read: int = 0
    before: dict[bytes, Rows] = field(default_factory=dict)
    """The rows of keys that changed in this batch, as they were."""

    def advance(self, number: int, changes: Sequence[Weighted]) -> Weighted:
        """What changes at a step: of the differences of answers from the step before."""
        brought = self._by_key(changes)
        touched = set(brought) | self.later.pop(number, set())
        older, newer = self._none(), self._none()
        for key in touched:
            known = self.rows.get(key) or self._none()
            old = self.before.setdefault(key, [rows.copy() for rows in known])
            new = brought.get(key) or self._none()
            for side, rows in enumerate(known):
                rows.merge(new[side])
                older[side].merge(old[side])
                newer[side].merge(rows)
                self.read += len(old[side])
            self.rows[key] = known
            for step in self._steps(known) | self._steps(old):
                if step > number:
                    self.later.setdefault(step, set()).add(key)
        change = Weighted()
        for sides, until, sign in (
            (newer, number, 1),
            (newer, number - 1, -1),
            (older, number, -1),
            (older, number - 1, 1),
        ):
            change.merge(self._answers(sides, number, until), sign)
        return change

    def commit(self) -> None:
        """Remember what the batch brought."""
        for key in self.before:
            if not any(map(len, self.rows[key])):
                del self.rows[key]
        self._clear()

    def cancel(self) -> None:
        """Be as before the batch."""
        self.rows.update(self.before)
        self._clear()

    def forget(self, number: int) -> None:
        """Keep nothing of the steps from this one on."""
        for key, sides in self.rows.items():
            self.before.setdefault(key, [rows.copy() for rows in sides])
            self.rows[key] = [_until(rows, number - 1) for rows in sides]

    def _clear(self) -> None:
        self.before, self.later = {}, {}

    def _none(self) -> Rows:
        return [Weighted() for _ in self.node.inputs]

    def _by_key(self, changes: Sequence[Weighted]) -> dict[bytes, Rows]:
        groups: dict[bytes, Rows] = {}
        for side, rows in enumerate(changes):
            for ((step, key), value), weight in rows:
                mine = groups.setdefault(encode(key), self._none())
                mine[side].add(((step, key), value), weight)
        return groups

    @staticmethod
    def _steps(sides: Rows) -> set[int]:
        return {step for rows in sides for ((step, _), _), _ in rows}

    def _answers(self, sides: Rows, number: int, until: int) -> Weighted:
        """The answers over the rows up to a step, as those of step `number`."""
        given = [
            Weighted(
                (((number, key), value), weight)
                for ((step, key), value), weight in rows
                if step <= until
            )
            for rows in sides
        ]
        return GroupsState(self.node, self.env).advance(given)


def _until(rows: Weighted, number: int) -> Weighted:
    return Weighted((row, weight) for row, weight in rows if row[0][0] <= number)


@dataclass(slots=True)
class NumberedState:
    """The differences of a loop's variables from step to step, and its nodes."""

    node: Repeated
    env: Environment
    looping: LoopProgram
    work: Work = field(default_factory=Work)
    states: list[Any] = field(init=False)
    differences: list[list[Weighted]] = field(default_factory=list)
    flags: dict[int, int] = field(default_factory=dict)
    stop: int | None = None
    _pending: tuple[_Machine, LoopDelta[Weighted] | None] | None = None

    def __post_init__(self) -> None:
        self.states = [_state(node, self.env) for node in self.looping.nodes]

    def advance(self, changes: Sequence[Weighted]) -> Weighted:
        """The changes through step after step, as far as they reach."""
        is_first = self.stop is None
        if not is_first and not any(changes):
            return Weighted()
        ending = ending_of(self.node, self.env)
        machine = _Machine(self.looping, self.states, self.env, self.differences, changes, is_first)
        self._pending = machine, None
        before = self._read()
        course = drive(machine, ending, self.flags, self.stop)
        self.work.read += self._read() - before
        self._pending = machine, course
        return course.answer[self.node.term.chosen]

    def _read(self) -> int:
        points = sum(state.read for state in self.states if isinstance(state, PointsState))
        return points + sum(
            state.work.read for state in self.states if isinstance(state, JoinState)
        )

    def commit(self) -> None:
        """Remember the differences."""
        if self._pending is None or self._pending[1] is None:
            return
        course = self._pending[1]
        for state in self.states:
            if isinstance(state, PointsState):
                state.commit()
        for number, rows in enumerate(course.differences):
            if number == len(self.differences):
                self.differences.append([Weighted() for _ in rows])
            for known, change in zip(self.differences[number], rows, strict=True):
                known.merge(change)
        while self.differences and not any(map(len, self.differences[-1])):
            self.differences.pop()
        for number, count in course.flags.items():
            self.flags[number] = self.flags.get(number, 0) + count
        self.flags = {number: count for number, count in self.flags.items() if count}
        self.stop = course.stop
        self._pending = None

    def cancel(self) -> None:
        """Be as before the last change."""
        if self._pending is not None:
            self._pending[0].cancel()
        self._pending = None

    @property
    def value(self) -> tuple[Weighted, ...]:
        """The differences of each variable, with the numbers of their steps."""
        return tuple(
            Weighted(
                ((number, row), weight)
                for number, rows in enumerate(self.differences)
                for row, weight in rows[variable]
            )
            for variable in range(len(self.looping.variables))
        )

    @property
    def size(self) -> int:
        """The rows of all differences and of all nodes."""
        points = [s for s in self.states if isinstance(s, PointsState)]
        rows = sum(len(side) for s in points for sides in s.rows.values() for side in sides)
        joins = sum(state.size for state in self.states if isinstance(state, JoinState))
        return (
            rows + joins + sum(len(difference) for rows in self.differences for difference in rows)
        )


def _state(node: Node, env: Environment) -> Any:
    return PointsState(node, env) if isinstance(node, Groups) else state_of(node, env)


@dataclass(slots=True)
class _Machine:
    """The nodes of a loop at work in one batch."""

    looping: LoopProgram
    states: list[Any]
    env: Environment
    known: list[list[Weighted]]
    changes: Sequence[Weighted]
    is_first: bool
    pending: dict[int, dict[int, Weighted]] = field(default_factory=dict)
    joined: list[tuple[int, list[Weighted]]] = field(default_factory=list)
    """What joins were given, so that it can be taken back."""
    still: dict[int, Weighted] = field(default_factory=dict)
    """The changes of nodes that do not depend on a variable."""

    def start(self) -> list[Weighted]:
        outputs = dict(zip(self.looping.inputs, self.changes, strict=True))
        self.still = self._run(0, outputs, self.looping.constant_nodes)
        return [_without_number(self.still[place]) for place in self.looping.initial]

    def step(self, number: int, changes: Sequence[Weighted]) -> tuple[list[Weighted], int]:
        outputs = dict(self.still) if number == 0 else {}
        for place, rows in zip(self.looping.variables, changes, strict=True):
            outputs[place] = Weighted(((number, row), weight) for row, weight in rows)
        outputs = self._run(number, outputs, self.looping.step_nodes)
        next_rows = [_without_number(outputs.get(place, Weighted())) for place in self.looping.step]
        flags = [outputs[place].total for place in self.looping.flags if place is not None]
        return next_rows, sum(flags)

    def _run(self, number: int, outputs: dict[int, Weighted], places: Sequence[int]) -> Any:
        """All nodes at some places at one step."""
        for place in places:
            if place in outputs:
                continue
            rows = self._node(place, number, outputs)
            if isinstance(self.looping.nodes[place], Join):
                rows = self._now(place, number, rows)
            outputs[place] = rows
        return outputs

    def _now(self, place: int, number: int, result: Weighted) -> Weighted:
        """The rows of a join at a step; those of later steps wait."""
        rows = self.pending.get(number, {}).pop(place, Weighted())
        for row, weight in result:
            if row[0] == number:
                rows.add(row, weight)
            else:
                later = self.pending.setdefault(row[0], {})
                later.setdefault(place, Weighted()).add(row, weight)
        return rows

    def _node(self, place: int, number: int, outputs: dict[int, Weighted]) -> Weighted:
        node, state = self.looping.nodes[place], self.states[place]
        below = [outputs.get(source, Weighted()) for source in inputs_of(node)]
        match node:
            case Constant(expr):
                rows = evaluate(expr, self.env) or () if self.is_first else ()
                return Weighted((row, 1) for row in rows)
            case Groups():
                if not any(below) and number not in state.later:
                    return Weighted()
                done: Weighted = state.advance(number, below)
                return done
            case Join():
                if not any(below):
                    return Weighted()
                done = state.advance(below)
                state.commit()
                self.joined.append((place, below))
                return done
            case _:
                return state.advance(below)  # type: ignore[no-any-return]

    def waits(self, number: int) -> bool:
        if number == 0 and any(self.still.values()):
            return True
        if any(self.pending.get(number, {}).values()):
            return True
        return any(isinstance(s, PointsState) and s.later.get(number) for s in self.states)

    def waits_after(self, number: int) -> bool:
        steps = {
            *self.pending,
            *[n for s in self.states if isinstance(s, PointsState) for n in s.later],
        }
        return any(self.waits(step) for step in steps if step > number)

    def differences(self, number: int) -> list[Weighted]:
        if number < len(self.known):
            return self.known[number]
        return [Weighted() for _ in self.looping.variables]

    def forget(self, number: int) -> None:
        for place, state in enumerate(self.states):
            if isinstance(state, PointsState):
                state.forget(number)
            elif isinstance(state, JoinState):
                gone = [_numbered_from(rows, number) for rows in state.value]
                state.take(gone)
                self.joined.append((place, gone))

    def cancel(self) -> None:
        for place, given in reversed(self.joined):
            self.states[place].take([_negative(change) for change in given])
        for state in self.states:
            if isinstance(state, PointsState):
                state.cancel()

    def sums(self, parts: Sequence[Sequence[Weighted]]) -> list[Weighted]:
        totals = [Weighted() for _ in self.looping.variables]
        for part in parts:
            for rows, change in zip(totals, part, strict=True):
                rows.merge(change)
        return totals

    @staticmethod
    def negative(rows: Weighted) -> Weighted:
        return _negative(rows)


def _negative(rows: Weighted) -> Weighted:
    return Weighted((row, -weight) for row, weight in rows)


def _without_number(rows: Weighted) -> Weighted:
    return Weighted((row[1], weight) for row, weight in rows)


def _numbered_from(pairs: Weighted, number: int) -> Weighted:
    """The pairs (key, (step, row)) from a step on, taken away."""
    return Weighted((pair, -weight) for pair, weight in pairs if pair[1][0] >= number)
