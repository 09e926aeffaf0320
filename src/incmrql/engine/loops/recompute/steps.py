"""The recompute way: runs a loop from its beginning, over all rows of its inputs, in one task.

Operators that do not depend on the variables run once.  If a join or a group has the same keys as
in the step before, it reuses which rows match: only the values are new.
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
class LoopStats:
    """What a run of a loop took."""

    steps: int
    rows: int
    """Rows of all variables, summed over the steps."""
    moved: int
    """Rows that steps removed or added, summed over the steps."""
    before: tuple[Rows, ...] = field(default=(), compare=False, repr=False)
    """The rows of the variables before the last step."""


class TooManyRows(Exception):
    """A step of a loop produces more rows than allowed."""


def recompute_loop(
    step: LoopOp, inputs: Sequence[Rows], context: BatchContext, most: int = sys.maxsize
) -> tuple[Rows, LoopStats]:
    """The rows of the chosen variable when the loop ends, consolidated, and what that took.

    Raises `TooManyRows` if some operator has more than `most` rows in a step.
    """
    machine = Steps(
        step.plain, inputs, BatchContext({}, context.reader, context.env, is_first=True), most
    )
    variables = [_Variable(layout) for layout in step.plain.variables]
    for variable, rows in zip(variables, machine.initial(), strict=True):
        variable.replace_rows(rows)
    steps = size = moved = 0
    is_running = True
    before: tuple[Rows, ...] = ()
    while is_running and (step.limit is None or steps < step.limit):
        if step.limit is None and steps >= context.env.world.max_steps:
            raise endless_loop_error(steps)
        before = tuple(variable.rows for variable in variables)
        new, flagged = machine.step(before)
        differing = sum(v.replace_rows(rows) for v, rows in zip(variables, new, strict=True))
        is_running = flagged if any(step.node.term.flagged) else differing > 0
        if step.limit is not None and not differing:
            is_running = False  # further steps would give the same rows again
        steps += 1
        size += sum(len(variable.rows) for variable in variables)
        moved += differing
    return variables[step.node.term.chosen].rows, LoopStats(steps, size, moved, before)


# --- variables -------------------------------------------------------------------------------


class _Variable:
    """The rows of a variable, consolidated."""

    def __init__(self, layout: Layout) -> None:
        self.types = leaves(layout)
        self.rows = concat_rows([], self.types)
        self.numbering = Numbering(self.types[:1])

    def replace_rows(self, rows: Rows) -> int:
        """Set new rows; returns how many rows that removes and adds."""
        before, self.rows = self.rows, rows
        if self.types:
            # The first column is often a key that no two rows share and that stays the same from
            # one step to the next.  Then rows can be compared one to one, in their other columns.
            last = self.numbering.last
            numbers = self.numbering.of(rows.columns[:1], len(rows))
            if len(numbers) == len(rows) == len(before) and last is not None and last[2] is numbers:
                return 2 * self._count_differing(before)
        both = concat_rows([before, rows], self.types)
        numbers = number_keys(both.columns, self.types, len(both))
        old, new = np.split(numbers.of_row, [len(before)])
        weights = np.zeros((2, len(numbers)), np.int64)
        np.add.at(weights[0], old, before.weights)
        np.add.at(weights[1], new, rows.weights)
        distinct = np.flatnonzero(weights[1])
        if len(distinct) < len(rows):
            self.rows = Rows(numbers.keys(distinct), weights[1][distinct])
        return int((weights[0] != weights[1]).sum())

    def _count_differing(self, before: Rows) -> int:
        """How many rows differ from those before; both have the same first column, in order."""
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
            step.evaluator(tuple(index in moving for index in step.inputs), most)
            for step in inner.steps
        ]
        users = Counter(place for step in inner.steps for place in step.inputs)
        users.update(looping.step)
        users.update(place for place in looping.flags if place is not None)
        self.streamed = {place for place in self.repeated if users[place] == 1}
        """Operators with a single reader: their chunks stay lazy, never all in memory."""
        whole: RowsByStep = {p: [rows] for p, rows in zip(looping.inputs, inputs, strict=True)}
        self.known = self.run(looping.constant_nodes, whole)

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
        """The rows of one operator in an iteration."""
        flow = self._flow(variables)
        self.run((index for index in self.repeated if index <= place), flow)
        return list(map(plain_rows, flow[place]))

    def _flow(self, variables: Sequence[Rows]) -> RowsByStep:
        """The rows of the operators that do not change, and of the variables."""
        places = self.inner.looping.variables
        return self.known | {p: [rows] for p, rows in zip(places, variables, strict=True)}

    def _variables(
        self, flow: RowsByStep, places: Sequence[int], pipelines: Sequence[Pipeline | None]
    ) -> list[Rows]:
        """The rows of the variables, each converted to its layout."""
        types = map(leaves, self.inner.variables)
        return self.results(flow, zip(places, pipelines, types, strict=True))

    def convert(self, rows: Rows, pipeline: Pipeline | None) -> Rows:
        """The result of a pipeline over rows, in plain columns."""
        return plain_rows(rows if pipeline is None else apply_pipeline(pipeline, rows, self.env))

    def output(self, place: int, inputs: Sequence[Iterable[Rows]]) -> Iterable[Rows]:
        """All rows of an operator, from all rows of its inputs."""
        chunks = self._limited_rows(place, inputs)
        return chunks if place in self.streamed else list(chunks)

    def _limited_rows(self, place: int, inputs: Sequence[Iterable[Rows]]) -> Iterator[Rows]:
        """The rows of an operator; raises `TooManyRows` beyond the limit."""
        count = 0
        for rows in self.evaluators[place](inputs, self.context):
            count += len(rows)
            if count > self.most:
                raise TooManyRows
            yield rows
