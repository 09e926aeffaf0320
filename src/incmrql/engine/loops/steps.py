"""One interpreter for the steps of a loop's own program, shared by all ways to run the loop.

| way | what flows through the steps | subclass |
|---|---|---|
| recompute | all rows of the variables, iteration by iteration | `recompute.steps.Steps` |
| exact | deltas that carry the number of their iteration | `exact.Machine` |
| diffuse | deltas of the loop's matrix | `affine.state.PartRun` |

The interpreter runs the operators in order and passes rows on.  A subclass computes the output of
one operator from its inputs; nothing else differs between the ways.
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
"""Rows in chunks, by the index of the operator that produces them."""
Output: TypeAlias = tuple[int, Pipeline | None, tuple[Type, ...]]
"""An operator whose rows are wanted, the pipeline that converts them, and the resulting types."""


class StepInterpreter(ABC):
    """Runs the operators of a loop's program in order."""

    steps: Sequence[Operator] | Mapping[int, Operator]
    env: Environment

    @abstractmethod
    def output(self, place: int, inputs: Sequence[Iterable[Rows]]) -> Iterable[Rows]:
        """The rows that an operator computes from its inputs."""

    def run(self, places: Iterable[int], rows: RowsByStep) -> RowsByStep:
        """Run operators in order, except those whose rows are given; adds their rows to `rows`."""
        for place in places:
            if place not in rows:
                inputs = [rows.get(index, ()) for index in self.steps[place].inputs]
                rows[place] = self.output(place, inputs)
        return rows

    def results(self, rows: RowsByStep, outputs: Iterable[Output]) -> list[Rows]:
        """The rows of some operators, each in one piece and converted."""
        return [
            concat_rows([self.convert(chunk, pipeline) for chunk in rows.get(place, ())], types)
            for place, pipeline, types in outputs
        ]

    def convert(self, rows: Rows, pipeline: Pipeline | None) -> Rows:
        """The result of a pipeline over rows; without one the rows themselves."""
        return rows if pipeline is None else pipeline.apply(rows, self.env)
