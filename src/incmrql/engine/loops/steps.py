"""One interpreter for the steps of a loop's own program, shared by all ways to run the loop.

| way | what flows through the steps | subclass |
|---|---|---|
| recompute | all rows of the variables, iteration by iteration | `recompute.steps.Steps` |
| exact | deltas that carry the number of their iteration | `exact.Machine` |
| diffuse | deltas of the loop's matrix | `affine.state.PartRun` |

The interpreter walks the steps in order and hands rows on.  A subclass says what one step makes of
its inputs: that is all in which the ways differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from incmrql.engine.columns.pipelines import Pipeline
from incmrql.engine.columns.rows import Rows, concat_rows
from incmrql.engine.operators.base import Operator
from incmrql.reference import Environment
from incmrql.types.model import Type

RowsByStep: TypeAlias = dict[int, Iterable[Rows]]
"""Rows in chunks, by the place of the step that makes them."""
Output: TypeAlias = tuple[int, Pipeline | None, tuple[Type, ...]]
"""A step whose rows are wanted, the segment that brings them to the wanted columns, their types."""


class StepInterpreter(ABC):
    """The steps of a loop's program, run in order."""

    steps: Sequence[Operator] | Mapping[int, Operator]
    env: Environment

    @abstractmethod
    def output(self, place: int, inputs: Sequence[Iterable[Rows]]) -> Iterable[Rows]:
        """The rows that a step makes of its inputs."""

    def run(self, places: Iterable[int], rows: RowsByStep) -> RowsByStep:
        """Run steps in order, but for those whose rows are given; `rows` with theirs."""
        for place in places:
            if place not in rows:
                inputs = [rows.get(each, ()) for each in self.steps[place].inputs]
                rows[place] = self.output(place, inputs)
        return rows

    def results(self, rows: RowsByStep, outputs: Iterable[Output]) -> list[Rows]:
        """The rows of some steps, in the columns that are wanted."""
        return [
            concat_rows([self.brought(each, pipeline) for each in rows.get(place, ())], types)
            for place, pipeline, types in outputs
        ]

    def brought(self, rows: Rows, pipeline: Pipeline | None) -> Rows:
        """Rows as a segment makes them; they themselves without one."""
        return rows if pipeline is None else pipeline.apply(rows, self.env)
