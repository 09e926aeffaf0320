"""A loop from its beginning, over all rows of its inputs: its steps one by one, inside a task.

Steps below the variables are done once.  A join or a group whose keys are those of the step of the
loop before knows which rows meet: only the values are new.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from incmrql.kernel.desk import Desk
from incmrql.kernel.keys import Keys, same_keys
from incmrql.kernel.layouts import Layout, leaves
from incmrql.kernel.physical import Inner
from incmrql.kernel.recompute_columns import applied, plain_rows
from incmrql.kernel.recompute_keys import Numbering, numbered
from incmrql.kernel.rows import Rows, stacked
from incmrql.kernel.segment import Segment
from incmrql.reference.repeat import too_long

if TYPE_CHECKING:
    from incmrql.kernel.loops import LoopOp


@dataclass(frozen=True, slots=True)
class Ran:
    """What a loop did."""

    steps: int
    rows: int
    """Of all variables, after each step."""
    moved: int
    """Rows that a step left out or brought in, compared with the one before."""
    before: tuple[Rows, ...] = field(default=(), compare=False, repr=False)
    """The rows of the variables before the last step."""


class TooManyRows(Exception):
    """A step of a loop makes more rows than it may."""


def recomputed(
    step: LoopOp, inputs: Sequence[Rows], desk: Desk, most: int = sys.maxsize
) -> tuple[Rows, Ran]:
    """The rows of the chosen variable when the loop ends, each once; and what that took.

    Nothing in a step may have more rows than `most`, or `TooManyRows` is raised.
    """
    machine = Steps(step.plain, inputs, Desk({}, desk.reader, desk.env, is_first=True), most)
    variables = [_Variable(layout) for layout in step.plain.variables]
    for variable, rows in zip(variables, machine.initial(), strict=True):
        variable.take_in(rows)
    steps = size = moved = 0
    goes_on = True
    before: tuple[Rows, ...] = ()
    while goes_on and (step.limit is None or steps < step.limit):
        if step.limit is None and steps >= desk.env.world.max_steps:
            raise too_long(steps)
        before = tuple(variable.rows for variable in variables)
        fresh, flagged = machine.step(before)
        differing = sum(v.take_in(rows) for v, rows in zip(variables, fresh, strict=True))
        goes_on = flagged if any(step.node.term.flagged) else differing > 0
        if step.limit is not None and not differing:
            goes_on = False  # further steps would do the same again
        steps += 1
        size += sum(len(variable.rows) for variable in variables)
        moved += differing
    return variables[step.node.term.chosen].rows, Ran(steps, size, moved, before)


# --- variables -------------------------------------------------------------------------------


class _Variable:
    """The rows of a variable, each once."""

    def __init__(self, layout: Layout) -> None:
        self.types = leaves(layout)
        self.rows = stacked([], self.types)
        self.numbering = Numbering(self.types[:1])

    def take_in(self, rows: Rows) -> int:
        """Have other rows; how many rows that takes away and brings."""
        before, self.rows = self.rows, rows
        if self.types:
            known = self.numbering.last
            found = self.numbering.of(rows.columns[:1], len(rows))
            if len(found) == len(rows) == len(before) and known is not None and known[2] is found:
                return 2 * self._differing(before)
        both = stacked([before, rows], self.types)
        found = numbered(both.columns, self.types, len(both))
        old, new = np.split(found.of_row, [len(before)])
        weights = np.zeros((2, len(found)), np.int64)
        np.add.at(weights[0], old, before.weights)
        np.add.at(weights[1], new, rows.weights)
        there = np.flatnonzero(weights[1])
        if len(there) < len(rows):
            self.rows = Rows(found.keys(there), weights[1][there])
        return int((weights[0] != weights[1]).sum())

    def _differing(self, before: Rows) -> int:
        """How many rows differ, where they have the same first columns, which all differ."""
        everything = np.arange(len(before))
        one, two = (Keys(rows.columns[1:], self.types[1:]) for rows in (before, self.rows))
        same = same_keys(one, everything, two, everything)
        return int((~same | (before.weights != self.rows.weights)).sum())


# --- steps -----------------------------------------------------------------------------------


class Steps:
    """The steps of a loop's program at work."""

    def __init__(
        self, inner: Inner, inputs: Sequence[Rows], desk: Desk, most: int = sys.maxsize
    ) -> None:
        self.inner, self.desk, self.most = inner, desk, most
        self.moving = _moving(inner)
        self.evaluators = [
            step.evaluator(tuple(each in self.moving for each in step.inputs), most)
            for step in inner.steps
        ]
        looping = inner.looping
        self.users = Counter(place for step in inner.steps for place in step.inputs)
        self.users.update(looping.step)
        self.users.update(place for place in looping.flags if place is not None)
        self.known: dict[int, Iterable[Rows]] = {
            place: [rows] for place, rows in zip(looping.inputs, inputs, strict=True)
        }
        for place in range(len(inner.steps)):
            if place not in self.moving and place not in self.known:
                self.known[place] = list(self._advanced(place, self.known))

    def initial(self) -> list[Rows]:
        """The rows of the variables before the first step."""
        looping = self.inner.looping
        return self._brought(looping.initial, self.inner.initial, self.known)

    def step(self, variables: Sequence[Rows]) -> tuple[list[Rows], bool]:
        """The rows of the variables after a step; and whether a flag says that the loop goes on."""
        looping = self.inner.looping
        found = dict(self.known)
        found.update(
            {place: [rows] for place, rows in zip(looping.variables, variables, strict=True)}
        )
        for place in sorted(self.moving - found.keys()):
            chunks = self._advanced(place, found)
            found[place] = chunks if self.users[place] == 1 else list(chunks)
        rows = self._brought(looping.step, self.inner.step, found)
        flags = [found[place] for place in looping.flags if place is not None]
        return rows, any(len(chunk) for chunks in flags for chunk in chunks)

    def at(self, place: int, variables: Sequence[Rows]) -> list[Rows]:
        """The rows of a place in a step."""
        found = dict(self.known)
        found.update(
            {p: [rows] for p, rows in zip(self.inner.looping.variables, variables, strict=True)}
        )
        for each in sorted(self.moving - found.keys()):
            if each <= place:
                found[each] = list(self._advanced(each, found))
        return list(map(plain_rows, found[place]))

    def _brought(
        self,
        places: Sequence[int],
        segments: Sequence[Segment | None],
        found: dict[int, Iterable[Rows]],
    ) -> list[Rows]:
        env = self.desk.env
        rows = []
        for place, segment, layout in zip(places, segments, self.inner.variables, strict=True):
            chunks = found[place]
            made = [c if segment is None else applied(segment, c, env) for c in chunks]
            rows.append(stacked(list(map(plain_rows, made)), leaves(layout)))
        return rows

    def _advanced(self, place: int, found: dict[int, Iterable[Rows]]) -> Iterator[Rows]:
        """The rows of a step, as long as they are not too many."""
        count = 0
        for rows in self._made(place, found):
            count += len(rows)
            if count > self.most:
                raise TooManyRows
            yield rows

    def _made(self, place: int, found: dict[int, Iterable[Rows]]) -> Iterable[Rows]:
        inputs = [found[each] for each in self.inner.steps[place].inputs]
        return self.evaluators[place](inputs, self.desk)


def _moving(inner: Inner) -> frozenset[int]:
    """The places whose rows depend on a variable."""
    found = set(inner.looping.variables)
    for place, step in enumerate(inner.steps):
        if found.intersection(step.inputs):
            found.add(place)
    return frozenset(found)
