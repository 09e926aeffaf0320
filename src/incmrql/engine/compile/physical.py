"""The physical plan: a program as operators, with their parts, answers and state tables.

Everything that does not depend on data is decided here, once; tasks only follow it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from incmrql.engine.columns.accumulators import AccumulatorRead, Lift
from incmrql.engine.columns.layouts import Layout
from incmrql.engine.columns.pipelines import Pipeline
from incmrql.engine.operators.base import NamedSchema, Operator, any_by_row
from incmrql.engine.operators.source import SourceOp
from incmrql.engine.store.sorting import TableInfo, TableSchema
from incmrql.plan.nodes import Request, TableRead
from incmrql.plan.program import Output
from incmrql.types import typed

if TYPE_CHECKING:
    from incmrql.engine.operators.groups import GroupOp
    from incmrql.plan.access import Scope
    from incmrql.plan.diffusion.ways import Centroids
    from incmrql.plan.program import LoopProgram


@dataclass(frozen=True, slots=True)
class PhysicalSide:
    """A side of a join or of groups: pairs (key, value) of an input.

    `paired` makes the pairs from the input's rows, None if they are pairs in this layout already.
    `columns` are those of the value that are kept, in a table if there is one.
    """

    paired: Pipeline | None
    value: Layout
    """The layout of the columns that are kept of a value."""
    columns: tuple[int, ...]
    table: str | None
    schema: TableSchema
    owns: bool = True
    """Whether it adds to the table; of several joins over the same rows, the first one does."""

    @property
    def key_width(self) -> int:
        """The number of columns of the key."""
        return len(self.schema.keys)


@dataclass(frozen=True, slots=True)
class Fused:
    """A join and the fold above it, which groups by values of one side and sums those of the other.

    Rows of the summed side are added up before the join, so that each partner is joined once, with
    a sum.  `added` computes the columns that the lifts read from key and row, and `grouped` the key
    of the fold from key and partner.
    """

    side: int
    """The side that is summed."""
    added: Pipeline
    lifts: tuple[Lift, ...]
    grouped: Pipeline
    counted: bool
    schema: TableSchema
    """The schema of the fold's accumulators."""


@dataclass(frozen=True, slots=True)
class PhysicalBlock:
    """What rows of a side, or distinct values of a table, contribute to accumulators.

    The pipeline computes the columns of the key, and then those that the lifts read.
    """

    pipeline: Pipeline
    lifts: tuple[Lift, ...]
    counted: bool = False
    """Whether the rows themselves are counted."""
    table: int | None = None
    """The table whose distinct values contribute; None for the rows of the side."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """A table of values in order, and the pipeline that computes them from the rows of a side.

    `element` is the layout of what is kept; with `paired`, pairs of sort keys and a value.
    """

    name: str
    side: int
    pipeline: Pipeline
    element: Layout
    schema: TableSchema
    paired: bool
    drops_null: bool


@dataclass(frozen=True, slots=True)
class RankingRead:
    """A request that reads a table."""

    request: Request
    table: int
    reading: TableRead


@dataclass(frozen=True, slots=True)
class RankingMerge:
    """A request that merges all values of a table by a user's aggregation."""

    request: Request
    table: int
    aggregation: str


@dataclass(frozen=True, slots=True)
class GroupScan:
    """A request that is evaluated over all rows of a side."""

    request: Request


CompiledRequest: TypeAlias = AccumulatorRead | RankingRead | RankingMerge | GroupScan


@dataclass(frozen=True, slots=True)
class Inner:
    """The operators of a loop's own program; `looping` says which of them compute what.

    `initial` and `step` convert rows to the layout of each variable; None where they have it.
    """

    steps: tuple[Operator, ...]
    layouts: tuple[Layout, ...]
    looping: LoopProgram
    variables: tuple[Layout, ...]
    initial: tuple[Pipeline | None, ...]
    step: tuple[Pipeline | None, ...]

    @property
    def is_by_row(self) -> bool:
        """Whether some operator evaluates rows one by one in Python."""
        pipelines = (*self.initial, *self.step)
        return any_by_row(pipelines) or any(step.is_by_row for step in self.steps)

    @property
    def is_cross(self) -> bool:
        """Whether some operator is a cross join."""
        return any(step.is_cross for step in self.steps)


@dataclass(frozen=True, slots=True)
class NumberedLoop:
    """The program of a loop over rows numbered by iteration, and the tables that it keeps.

    `tables` maps names of the program's tables to those of the loop's; `slots` are the tables of
    each operator with groups, by key; `differences` those of the variables, by iteration; `stored`
    the schemas of the program's tables and the column that has the iteration.
    """

    inner: Inner
    tables: tuple[tuple[str, str], ...]
    slots: Mapping[int, tuple[NamedSchema, ...]]
    differences: tuple[NamedSchema, ...]
    stored: Mapping[str, tuple[TableSchema, int]]
    to_answer: Pipeline | None
    """From the rows of the chosen variable to those of the answer."""

    @property
    def own(self) -> tuple[NamedSchema, ...]:
        """All tables, with the loop's names."""
        names = dict(self.tables)
        stored = [(names[name], schema) for name, (schema, _) in self.stored.items()]
        return (*stored, *self.differences)


@dataclass(frozen=True, slots=True)
class Means:
    """A loop over centroids that diffuses: its shape, and the tables of sums and of positions."""

    shape: Centroids
    inner: Inner
    averaged: GroupOp
    """The operator that averages."""
    sums: NamedSchema
    centres: NamedSchema

    @property
    def own(self) -> tuple[NamedSchema, ...]:
        """Both tables."""
        return (self.sums, self.centres)

    @property
    def row(self) -> Layout:
        """The layout of a centroid."""
        return self.inner.variables[0]


@dataclass(frozen=True, slots=True)
class Derived:
    """Rows that can be computed from the tables of a fold, through the maps above it."""

    place: int
    fold: GroupOp
    """The operator at this index."""
    maps: tuple[Pipeline, ...] = ()
    keyed: bool = False
    """Whether different keys have different rows, so that nothing has to be added up."""


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """A part of an answer: rows of a node, kept in a table or derived from other state."""

    place: int
    layout: Layout
    table: str | None
    derived: Derived | None
    schema: TableSchema
    paired: Pipeline | None
    """For a part in order: converts rows of the node to pairs of sort keys and value."""
    order: tuple[bool, ...] | None
    variable: typed.Variable


@dataclass(frozen=True, slots=True)
class PhysicalOutput:
    """An output: its parts, and how to compute rows, or the single value, from them."""

    output: Output
    parts: tuple[AnswerPart, ...]
    row: Pipeline | None
    """From rows of the main part to rows of the answer; None if they are the same."""
    layout: Layout
    shown: Pipeline | None
    """From rows of the answer to a column for each field, as in files; None if they are."""

    @property
    def is_keyed(self) -> bool:
        """Whether rows of different keys are known to differ."""
        part = self.main
        return part is not None and part.derived is not None and part.derived.keyed

    @property
    def main(self) -> AnswerPart | None:
        """The part with the rows of the answer, if that is a collection."""
        part = self.output.part
        return None if part is None else self.parts[self.output.parts.index(part)]

    @property
    def is_kept(self) -> bool:
        """Whether the whole answer can be computed from the state."""
        return all(part.table is not None or part.derived is not None for part in self.parts)

    @property
    def is_placed(self) -> bool:
        """Whether it is a list: its changes have each row's position in the last column."""
        return self.output.is_list

    @property
    def is_single(self) -> bool:
        """Whether one task has to compute it as a whole: a single value, or rows in order."""
        return self.output.part is None or self.output.is_list


@dataclass(frozen=True, slots=True)
class Physical:
    """A whole program: an operator for each node, the answers, and all state tables."""

    steps: tuple[Operator, ...]
    layouts: tuple[Layout, ...]
    answers: tuple[PhysicalOutput, ...]
    tables: tuple[TableInfo, ...]
    scopes: tuple[Scope, ...] = ()
    """What each step may read of its state."""

    def source(self, place: int) -> SourceOp:
        """The source with an index."""
        step = self.steps[place]
        assert isinstance(step, SourceOp)
        return step

    @property
    def schemas(self) -> tuple[tuple[str, TableSchema], ...]:
        """The schemas of all state tables, by name."""
        return tuple((table.name, table.schema) for table in self.tables)
