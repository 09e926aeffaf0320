"""A loop from its beginning, over all rows of its inputs: its steps one by one, inside a task.

Steps below the variables are done once.  A join or a group whose keys are those of the step of the
loop before knows which rows meet: only the values are new.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from incmrql.diagnostics import InternalError
from incmrql.incremental.changes import Weighted
from incmrql.kernel.desk import Desk, consolidated
from incmrql.kernel.keys import Keys, same_keys
from incmrql.kernel.layouts import Layout, leaves
from incmrql.kernel.loop_steps import RowsByStep, StepInterpreter
from incmrql.kernel.physical import (
    Fixed,
    Grouped,
    Handed,
    Inner,
    Joined,
    Looped,
    Mapped,
    Sorted,
    Step,
    Taken,
    United,
    below,
)
from incmrql.kernel.recompute_columns import Numbering, apply_segment, number_keys, plain_rows
from incmrql.kernel.recompute_groups import Grouping, goes_row_by_row
from incmrql.kernel.recompute_joins import Joining
from incmrql.kernel.rows import Rows, of_values, stacked
from incmrql.kernel.segment import ByRow, Segment
from incmrql.reference import Environment, evaluate
from incmrql.reference.repeat import too_long


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
    step: Looped, inputs: Sequence[Rows], desk: Desk, most: int = sys.maxsize
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
            # The first column is often a key that no two rows share and that stays from one step
            # to the next.  Then rows stand face to face, and only other columns may differ.
            known = self.numbering.last
            found = self.numbering.of(rows.columns[:1], len(rows))
            if len(found) == len(rows) == len(before) and known is not None and known[2] is found:
                return 2 * self._count_differing(before)
        both = stacked([before, rows], self.types)
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
        self, inner: Inner, inputs: Sequence[Rows], desk: Desk, most: int = sys.maxsize
    ) -> None:
        self.inner, self.desk, self.most = inner, desk, most
        self.steps, self.env = inner.steps, desk.env
        looping = inner.looping
        self.repeated, moving = looping.repeated, looping.moving
        self.workers: dict[int, Joining | Grouping] = {}
        for place, step in enumerate(inner.steps):
            changes = tuple(each in moving for each in below(step))
            if isinstance(step, Joined):
                self.workers[place] = Joining(step, changes)
            elif isinstance(step, Grouped):
                self.workers[place] = Grouping(step, changes)
        users = Counter(place for step in inner.steps for place in below(step))
        users.update(looping.step)
        users.update(place for place in looping.flags if place is not None)
        self.streamed = {place for place in self.repeated if users[place] == 1}
        """Steps whose rows only one other step reads: they are never all there at once."""
        given: RowsByStep = {p: [rows] for p, rows in zip(looping.inputs, inputs, strict=True)}
        self.known = self.run(looping.fixed, given)

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
        self, flow: RowsByStep, places: Sequence[int], segments: Sequence[Segment | None]
    ) -> list[Rows]:
        types = map(leaves, self.inner.variables)
        return self.results(flow, zip(places, segments, types, strict=True))

    def brought(self, rows: Rows, segment: Segment | None) -> Rows:
        """Rows as a segment makes them, with their values in them."""
        return plain_rows(rows if segment is None else apply_segment(segment, rows, self.env))

    def output(self, place: int, inputs: Sequence[Iterable[Rows]]) -> Iterable[Rows]:
        """All rows that a step makes of all rows of its inputs."""
        chunks = self._at_most(place, inputs)
        return chunks if place in self.streamed else list(chunks)

    def _at_most(self, place: int, inputs: Sequence[Iterable[Rows]]) -> Iterator[Rows]:
        """The rows of a step, as long as they are not too many."""
        count = 0
        for rows in self._compute(place, inputs):
            count += len(rows)
            if count > self.most:
                raise TooManyRows
            yield rows

    def _compute(self, place: int, inputs: Sequence[Iterable[Rows]]) -> Iterable[Rows]:
        step, env = self.steps[place], self.env
        match step:
            case Mapped(segment=segment):
                return (apply_segment(segment, rows, env) for rows in inputs[0])
            case United(segments=segments):
                return (
                    rows if segment is None else apply_segment(segment, rows, env)
                    for segment, chunks in zip(segments, inputs, strict=True)
                    for rows in chunks
                )
            case Joined() | Grouped():
                worker = self.workers[place]
                if isinstance(worker, Joining):
                    return worker.meet(inputs, env)
                return worker.meet(inputs, self.desk)
            case Fixed(expr, layout):
                rows = Weighted((row, 1) for row in evaluate(expr, env) or ())
                return [of_values(list(rows), layout)]
            case Sorted():
                return [_first_rows(step, inputs[0], env)]
            case Looped(layouts=layouts):
                given = [
                    stacked(list(map(plain_rows, chunks)), leaves(layout))
                    for chunks, layout in zip(inputs, layouts, strict=True)
                ]
                return [recompute_loop(step, given, self.desk, self.most)[0]]
            case Taken() | Handed():
                raise InternalError("rows that come from outside are given")


def _first_rows(step: Sorted, chunks: Iterable[Rows], env: Environment) -> Rows:
    """The first rows in order."""
    found = [c if step.paired is None else apply_segment(step.paired, c, env) for c in chunks]
    rows = stacked(list(map(plain_rows, found)), step.form.rest)
    return consolidated(replace(step.form, most=step.limit), rows)


# --- what a row costs ------------------------------------------------------------------------


def has_row_by_row(inner: Inner) -> bool:
    """Whether the evaluator goes through rows one by one in some step of a loop."""
    segments = [*inner.initial, *inner.step, *[s for step in inner.steps for s in _segments(step)]]
    if any(segment is not None and isinstance(segment.how, ByRow) for segment in segments):
        return True
    return any(
        (isinstance(step, Grouped) and goes_row_by_row(step))
        or (isinstance(step, Looped) and has_row_by_row(step.plain))
        for step in inner.steps
    )


def has_cross_join(inner: Inner) -> bool:
    """Whether all rows of two sides meet in some step of a loop."""
    return any(
        (isinstance(step, Joined) and not leaves(step.key))
        or (isinstance(step, Looped) and has_cross_join(step.plain))
        for step in inner.steps
    )


def _segments(step: Step) -> Iterator[Segment | None]:
    match step:
        case Mapped(segment=segment):
            yield segment
        case United(segments=segments):
            yield from segments
        case Sorted(paired=paired):
            yield paired
        case Joined(sides=sides, body=body):
            yield from [side.paired for side in sides]
            yield body
        case Grouped(sides=sides, blocks=blocks, rankings=rankings, body=body):
            yield from [side.paired for side in sides]
            yield from [block.segment for each in blocks for block in each]
            yield from [ranking.segment for ranking in rankings]
            yield body
        case _:
            return
