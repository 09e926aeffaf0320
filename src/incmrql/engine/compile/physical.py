"""A program as the engine runs it: operators, what they are made of, and answers.

All that can be known before there are data is worked out here, once; tasks only follow it.
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
class Side:
    """A side of a join or of groups: pairs of the input, which `paired` makes if it is given.

    `columns` are those of the value that are kept, in a table if there is one.
    """

    paired: Pipeline | None
    value: Layout
    """Of what is kept of a value."""
    columns: tuple[int, ...]
    table: str | None
    schema: TableSchema
    owns: bool = True
    """Whether it adds to the table; an earlier join does so for others over the same rows."""

    @property
    def key_width(self) -> int:
        """The number of columns of the key."""
        return len(self.schema.keys)


@dataclass(frozen=True, slots=True)
class Fused:
    """A join and the fold above it, which groups by what one side has and adds up the other's.

    Rows of the side that is added up are added up before they meet their partners, so that each
    partner is met once, by a sum.  `added` makes the columns that the lifts look at of key and
    row, and `grouped` the key of the fold of key and partner.
    """

    side: int
    """That is added up."""
    added: Pipeline
    lifts: tuple[Lift, ...]
    grouped: Pipeline
    counted: bool
    schema: TableSchema
    """Of the fold's accumulators."""


@dataclass(frozen=True, slots=True)
class Block:
    """What rows of a side, or different values of a table, bring to accumulators.

    The segment makes the columns of the key, and then those that the lifts look at.
    """

    pipeline: Pipeline
    lifts: tuple[Lift, ...]
    counted: bool = False
    """Whether the rows themselves are counted."""
    table: int | None = None
    """The table whose different values come and go; None for the rows of the side."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """A table of values in order: what rows of a side bring to it.

    `element` is what is kept; with `paired`, pairs of the keys of an order and a value.
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
    """A request that merges all values of a table as a user says."""

    request: Request
    table: int
    aggregation: str


@dataclass(frozen=True, slots=True)
class GroupScan:
    """A request that goes through the rows of a side."""

    request: Request


CompiledRequest: TypeAlias = AccumulatorRead | RankingRead | RankingMerge | GroupScan


@dataclass(frozen=True, slots=True)
class Inner:
    """The steps of a loop's own program; `looping` says which places are what.

    `initial` and `step` bring rows to the layout of each variable, where they have another one.
    """

    steps: tuple[Operator, ...]
    layouts: tuple[Layout, ...]
    looping: LoopProgram
    variables: tuple[Layout, ...]
    initial: tuple[Pipeline | None, ...]
    step: tuple[Pipeline | None, ...]

    @property
    def is_by_row(self) -> bool:
        """Whether the reference evaluator goes through rows one by one in some step."""
        pipelines = (*self.initial, *self.step)
        return any_by_row(pipelines) or any(step.is_by_row for step in self.steps)

    @property
    def is_cross(self) -> bool:
        """Whether all rows of two inputs meet in some step."""
        return any(step.is_cross for step in self.steps)


@dataclass(frozen=True, slots=True)
class Numbered:
    """The program of all steps of a loop, and the tables that it keeps.

    `tables` has the names of the loop's tables for those of the program; `slots` the tables of
    each step with groups, by key; `differences` those of the variables, by number; `stored` the
    forms of the program's tables and the column that has the number.
    """

    inner: Inner
    tables: tuple[tuple[str, str], ...]
    slots: Mapping[int, tuple[NamedSchema, ...]]
    differences: tuple[NamedSchema, ...]
    stored: Mapping[str, tuple[TableSchema, int]]
    brought: Pipeline | None
    """From the rows of the chosen variable to those of the answer."""

    @property
    def own(self) -> tuple[NamedSchema, ...]:
        """All tables, by the loop's names."""
        names = dict(self.tables)
        stored = [(names[name], schema) for name, (schema, _) in self.stored.items()]
        return (*stored, *self.differences)


@dataclass(frozen=True, slots=True)
class Means:
    """A loop over centroids: its shape, and the tables of sums and of places."""

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
    """Rows that follow from the tables of a fold: those of its keys, through maps above it."""

    place: int
    fold: GroupOp
    """The one at this place."""
    maps: tuple[Pipeline, ...] = ()
    keyed: bool = False
    """Whether different keys have different rows, so that nothing is to be added up."""


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """A part of an answer: the rows of a node, from which they follow or the table with them."""

    place: int
    layout: Layout
    table: str | None
    derived: Derived | None
    schema: TableSchema
    paired: Pipeline | None
    """Brings the rows of the node to the layout of a part in order."""
    order: tuple[bool, ...] | None
    variable: typed.Variable


@dataclass(frozen=True, slots=True)
class Answer:
    """An output: its parts; the row it makes of the one it is, or the expression it is."""

    output: Output
    parts: tuple[AnswerPart, ...]
    row: Pipeline | None
    """From the one part's rows to rows of the answer."""
    layout: Layout
    shown: Pipeline | None
    """From rows of the answer to a column for each field, as people and files see them."""

    @property
    def is_keyed(self) -> bool:
        """Whether its rows are known to differ where they come from different keys."""
        part = self.main
        return part is not None and part.derived is not None and part.derived.keyed

    @property
    def main(self) -> AnswerPart | None:
        """The one part that the answer is, if it is a collection."""
        one = self.output.part
        return None if one is None else self.parts[self.output.parts.index(one)]

    @property
    def is_kept(self) -> bool:
        """Whether all of it can be had from the state."""
        return all(part.table is not None or part.derived is not None for part in self.parts)

    @property
    def is_placed(self) -> bool:
        """Whether it is a list: a change of it has the place of each row in its last column."""
        return self.output.is_list

    @property
    def is_single(self) -> bool:
        """Whether all of it has to be in one place: a value, or rows in order."""
        return self.output.part is None or self.output.is_list


@dataclass(frozen=True, slots=True)
class Physical:
    """A whole program: an operator for each node, the answers, and all state tables."""

    steps: tuple[Operator, ...]
    layouts: tuple[Layout, ...]
    answers: tuple[Answer, ...]
    tables: tuple[TableInfo, ...]
    scopes: tuple[Scope, ...] = ()
    """What each step may read of its state."""

    def source(self, place: int) -> SourceOp:
        """The source at a place."""
        found = self.steps[place]
        assert isinstance(found, SourceOp)
        return found

    @property
    def schemas(self) -> tuple[tuple[str, TableSchema], ...]:
        """The forms of all state tables, by name."""
        return tuple((table.name, table.schema) for table in self.tables)
