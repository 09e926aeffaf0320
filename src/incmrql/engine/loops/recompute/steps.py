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

from incmrql.engine.columns.keys import Keys, same_keys
from incmrql.engine.columns.layouts import Layout, leaves
from incmrql.engine.columns.pipelines import Pipeline
from incmrql.engine.columns.rows import Rows, concat_rows
from incmrql.engine.compile.physical import Inner
from incmrql.engine.context import BatchContext
from incmrql.engine.loops.recompute.columns import (
    Numbering,
    apply_pipeline,
    number_keys,
    plain_rows,
)
from incmrql.engine.loops.steps import RowsByStep, StepInterpreter
from incmrql.reference.queries import endless_loop_error

if TYPE_CHECKING:
    from incmrql.engine.loops.operator import LoopOp


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


def recompute_loop(
    step: LoopOp, inputs: Sequence[Rows], context: BatchContext, most: int = sys.maxsize
) -> tuple[Rows, Ran]:
    """The rows of the chosen variable when the loop ends, each once; and what that took.

    Nothing in a step may have more rows than `most`, or `TooManyRows` is raised.
    """
    machine = Steps(
        step.plain, inputs, BatchContext({}, context.reader, context.env, is_first=True), most
    )
    variables = [_Variable(layout) for layout in step.plain.variables]
    for variable, rows in zip(variables, machine.initial(), strict=True):
        variable.take_in(rows)
    steps = size = moved = 0
    goes_on = True
    before: tuple[Rows, ...] = ()
    while goes_on and (step.limit is None or steps < step.limit):
        if step.limit is None and steps >= context.env.world.max_steps:
            raise endless_loop_error(steps)
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
        self.rows = concat_rows([], self.types)
        self.numbering = Numbering(self.types[:1])

    def take_in(self, rows: Rows) -> int:
        """Have other rows; how many rows that takes away and brings."""
        before, self.rows = self.rows, rows
        if self.types:
            # The first column is often a key that no two rows share and that stays from one step
            # to the next.  Then rows stand face to face, and only other columns may differ.
            known = self.numbering.last
            found = self.numbering.of(rows.columns[:1], len(rows))
            if len(found) == len(rows) == len(before) and known is not None and known[2] is found:
                return 2 * self._count_differing(before)
        both = concat_rows([before, rows], self.types)
        found = number_keys(both.columns, self.types, len(both))
        old, new = np.split(found.of_row, [len(before)])
        weights = np.zeros((2, len(found)), np.int64)
        np.add.at(weights[0], old, before.weights)
        np.add.at(weights[1], new, rows.weights)
        there = np.flatnonzero(weights[1])
        if len(there) < len(rows):
            self.rows = Rows(found.keys(there), weights[1][there])
        return int((weights[0] != weights[1]).sum())

    def _count_differing(self, before: Rows) -> int:
        """How many rows differ, where they have the same first columns, which all differ."""
        everything = np.arange(len(before))
        one, two = (Keys(rows.columns[1:], self.types[1:]) for rows in (before, self.rows))
        same = same_keys(one, everything, two, everything)
        return int((~same | (before.weights != self.rows.weights)).sum())


# --- steps -----------------------------------------------------------------------------------


class Steps(StepInterpreter):
    """All rows of the variables, iteration by iteration."""

    def __init__(
        self, inner: Inner, inputs: Sequence[Rows], context: BatchContext, most: int = sys.maxsize
    ) -> None:
        self.inner, self.context, self.most = inner, context, most
        self.steps, self.env = inner.steps, context.env
        looping = inner.looping
        self.repeated, moving = looping.step_nodes, looping.varying
        self.evaluators = [
            step.evaluator(tuple(each in moving for each in step.inputs), most)
            for step in inner.steps
        ]
        users = Counter(place for step in inner.steps for place in step.inputs)
        users.update(looping.step)
        users.update(place for place in looping.flags if place is not None)
        self.streamed = {place for place in self.repeated if users[place] == 1}
        """Steps whose rows only one other step reads: they are never all there at once."""
        given: RowsByStep = {p: [rows] for p, rows in zip(looping.inputs, inputs, strict=True)}
        self.known = self.run(looping.constant_nodes, given)

    def initial(self) -> list[Rows]:
        """The rows of the variables before the first iteration."""
        return self._variables(self.known, self.inner.looping.initial, self.inner.initial)

    def step(self, variables: Sequence[Rows]) -> tuple[list[Rows], bool]:
        """The rows of the variables after an iteration, and whether a flag is true."""
        looping = self.inner.looping
        flow = self.run(self.repeated, self._flow(variables))
        rows = self._variables(flow, looping.step, self.inner.step)
        flags = [flow[place] for place in looping.flags if place is not None]
        return rows, any(len(chunk) for chunks in flags for chunk in chunks)

    def at(self, place: int, variables: Sequence[Rows]) -> list[Rows]:
        """The rows of one step in an iteration."""
        flow = self._flow(variables)
        self.run((each for each in self.repeated if each <= place), flow)
        return list(map(plain_rows, flow[place]))

    def _flow(self, variables: Sequence[Rows]) -> RowsByStep:
        """The rows of the steps that do not change, and of the variables."""
        places = self.inner.looping.variables
        return self.known | {p: [rows] for p, rows in zip(places, variables, strict=True)}

    def _variables(
        self, flow: RowsByStep, places: Sequence[int], segments: Sequence[Pipeline | None]
    ) -> list[Rows]:
        types = map(leaves, self.inner.variables)
        return self.results(flow, zip(places, segments, types, strict=True))

    def brought(self, rows: Rows, pipeline: Pipeline | None) -> Rows:
        """Rows as a segment makes them, with their values in them."""
        return plain_rows(rows if pipeline is None else apply_pipeline(pipeline, rows, self.env))

    def output(self, place: int, inputs: Sequence[Iterable[Rows]]) -> Iterable[Rows]:
        """All rows that a step makes of all rows of its inputs."""
        chunks = self._at_most(place, inputs)
        return chunks if place in self.streamed else list(chunks)

    def _at_most(self, place: int, inputs: Sequence[Iterable[Rows]]) -> Iterator[Rows]:
        """The rows of a step, as long as they are not too many."""
        count = 0
        for rows in self.evaluators[place](inputs, self.context):
            count += len(rows)
            if count > self.most:
                raise TooManyRows
            yield rows
