"""The operator protocol, and the simple operators: parameters, constants, maps, unions, order.

Every node of a program is compiled to an operator, which says what a batch does to its rows:

    advance   from the deltas of its inputs to its own delta

One with state does that in two parts, which `advance` composes.  Between them, a large batch is
shuffled by key:

    gather    what rows bring, added up by key, without a look at the state
    meet      that against the state tables, by key: the operator's delta

Whatever runs operators (one task, stages, loops) goes by this and by what an operator states about
itself, never by its class.  Only the compiler knows all classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

import numpy as np

from incmrql.engine.columns.keys import no_keys
from incmrql.engine.columns.layouts import Layout
from incmrql.engine.columns.pipelines import ByRow, Pipeline
from incmrql.engine.columns.rows import Rows, concat_rows, of_values
from incmrql.engine.context import BatchContext, consolidate_rows, rows_of, sorted_rows_of
from incmrql.engine.loops.recompute.columns import apply_pipeline, plain_rows
from incmrql.engine.store.content import SortedRows, aggregate_rows, empty, merge
from incmrql.engine.store.ordered import front
from incmrql.engine.store.sorting import TableSchema
from incmrql.plan.changes import Weighted
from incmrql.reference import Environment, evaluate
from incmrql.types import typed

Evaluator: TypeAlias = Callable[[Sequence[Iterable[Rows]], BatchContext], Iterable[Rows]]
"""From all rows of the inputs to all rows of an operator; it may remember what it was given."""

NamedSchema: TypeAlias = tuple[str, TableSchema]
"""The name of a state table, and its form."""


@dataclass(frozen=True, slots=True)
class Operator(ABC):
    """A node of a program as the engine runs it."""

    inputs: tuple[int, ...] = field(default=(), kw_only=True)
    """The indexes of the operators whose rows it takes, in the program that it is part of."""

    @property
    def state_tables(self) -> tuple[NamedSchema, ...]:
        """The state tables that it reads and adds to."""
        return ()

    @property
    def is_by_row(self) -> bool:
        """Whether the reference evaluator goes through rows one by one for it."""
        return False

    @property
    def is_cross(self) -> bool:
        """Whether all rows of two inputs meet."""
        return False

    def has_rows(self, _given: Sequence[bool]) -> bool:
        """Whether it may have rows, where these inputs have any."""
        return True

    @abstractmethod
    def advance(self, inputs: Sequence[Iterable[Rows]], context: BatchContext) -> Iterable[Rows]:
        """The output delta, in chunks, for the deltas of the inputs."""

    def evaluator(self, _moving: tuple[bool, ...], _most: int) -> Evaluator:
        """What makes all rows from all rows of the inputs, without state, again and again.

        It is told which inputs change from one time to the next, and how many rows a loop inside
        may have.
        """
        return self.advance


def any_by_row(pipelines: Iterable[Pipeline | None]) -> bool:
    """Whether one of some segments goes through rows one by one."""
    return any(each is not None and isinstance(each.how, ByRow) for each in pipelines)


# --- operators without state -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParamOp(Operator):
    """Rows that are given from outside of the program: of an input or a variable of a loop."""

    def advance(self, _inputs: Sequence[Iterable[Rows]], _context: BatchContext) -> Iterable[Rows]:
        """No rows of its own."""
        return ()


@dataclass(frozen=True, slots=True)
class ConstOp(Operator):
    """The elements of an expression, in the first batch."""

    expr: typed.Expr
    layout: Layout

    def advance(self, _inputs: Sequence[Iterable[Rows]], context: BatchContext) -> Iterator[Rows]:
        """All elements in the first batch, and none later."""
        if context.is_first:
            found = Weighted((row, 1) for row in evaluate(self.expr, context.env) or ())
            yield of_values(list(found), self.layout)


@dataclass(frozen=True, slots=True)
class MapOp(Operator):
    """A segment over the rows of its input."""

    pipeline: Pipeline

    @property
    def is_by_row(self) -> bool:
        """Whether the segment goes through rows one by one."""
        return any_by_row([self.pipeline])

    def has_rows(self, given: Sequence[bool]) -> bool:
        """Whether the input has any."""
        return any(given)

    def advance(self, inputs: Sequence[Iterable[Rows]], context: BatchContext) -> Iterator[Rows]:
        """The segment over each chunk."""
        return (self.pipeline.apply(rows, context.env) for rows in inputs[0] if len(rows))

    def evaluator(self, _moving: tuple[bool, ...], _most: int) -> Evaluator:
        """The segment over each chunk, in the columns of loops."""
        return lambda inputs, context: (
            apply_pipeline(self.pipeline, rows, context.env) for rows in inputs[0]
        )


@dataclass(frozen=True, slots=True)
class UnionOp(Operator):
    """The rows of several inputs, each brought to one layout."""

    pipelines: tuple[Pipeline | None, ...]
    """For each input; None where it has the layout."""

    @property
    def is_by_row(self) -> bool:
        """Whether a segment goes through rows one by one."""
        return any_by_row(self.pipelines)

    def has_rows(self, given: Sequence[bool]) -> bool:
        """Whether an input has any."""
        return any(given)

    def advance(self, inputs: Sequence[Iterable[Rows]], context: BatchContext) -> Iterator[Rows]:
        """All chunks of all inputs."""
        for pipeline, chunks in zip(self.pipelines, inputs, strict=True):
            for rows in chunks:
                yield rows if pipeline is None else pipeline.apply(rows, context.env)

    def evaluator(self, _moving: tuple[bool, ...], _most: int) -> Evaluator:
        """All chunks of all inputs, in the columns of loops."""
        return lambda inputs, context: (
            rows if pipeline is None else apply_pipeline(pipeline, rows, context.env)
            for pipeline, chunks in zip(self.pipelines, inputs, strict=True)
            for rows in chunks
        )


# --- operators with state --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StatefulOp(Operator):
    """An operator whose output delta depends on state: what is kept of earlier batches."""

    is_bilinear: ClassVar[bool] = False
    """Whether the rows of a delta meet those of the other side one by one, and no more happens.
    Then every row it makes follows from two rows, whichever others there are."""
    is_single: ClassVar[bool] = False
    """Whether all that is brought to it, and its state, has to be in one place."""

    @property
    @abstractmethod
    def delta_schemas(self) -> tuple[TableSchema, ...]:
        """The forms of what rows are gathered to: contents that can be sent to other tasks."""

    @abstractmethod
    def gather(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[SortedRows]:
        """What rows bring, added up; the state is not looked at."""

    @abstractmethod
    def meet(self, deltas: Sequence[SortedRows], context: BatchContext) -> Iterator[Rows]:
        """The output delta, from what was gathered and the state, to which the deltas are added."""

    def advance(self, inputs: Sequence[Iterable[Rows]], context: BatchContext) -> Iterable[Rows]:
        """The output delta, in chunks."""
        return self.meet(self.gather(inputs, context.env), context)


@dataclass(frozen=True, slots=True)
class OrderOp(StatefulOp):
    """-old +new of the first rows in order."""

    paired: Pipeline | None
    table: str
    schema: TableSchema
    limit: int

    @property
    def state_tables(self) -> tuple[NamedSchema, ...]:
        """The rows in order."""
        return ((self.table, self.schema),)

    @property
    def is_by_row(self) -> bool:
        """Whether pairs are made row by row."""
        return any_by_row([self.paired])

    @property
    def delta_schemas(self) -> tuple[TableSchema, ...]:
        """The form of the table."""
        return (self.schema,)

    def gather(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[SortedRows]:
        """The rows in order."""
        return [all_rows(self.schema, inputs[0], self.paired, env)]

    def meet(self, deltas: Sequence[SortedRows], context: BatchContext) -> Iterator[Rows]:
        """The first rows before, with weight -1, and after."""
        (delta,) = deltas
        if not len(delta):
            return
        table = context.table(self.table, self.schema)
        hashes, keys = delta.hashes[:1], no_keys(()).take(np.zeros(1, np.int64))
        if self.limit:
            _, old = front(table, context.reader, None, hashes, keys, self.limit)
            _, new = front(table, context.reader, delta, hashes, keys, self.limit)
            both = [rows_of(old).times(-1), rows_of(new)]
            schema = TableSchema(self.schema.rest)
            yield rows_of(sorted_rows_of(schema, concat_rows(both, schema.keys)))
        context.add(self.table, delta)

    def evaluator(self, _moving: tuple[bool, ...], _most: int) -> Evaluator:
        """The first of all rows."""

        def first(inputs: Sequence[Iterable[Rows]], context: BatchContext) -> list[Rows]:
            chunks = inputs[0]
            if self.paired is not None:
                chunks = [apply_pipeline(self.paired, rows, context.env) for rows in chunks]
            rows = concat_rows(list(map(plain_rows, chunks)), self.schema.rest)
            return [consolidate_rows(replace(self.schema, most=self.limit), rows)]

        return first


def all_rows(
    schema: TableSchema, chunks: Iterable[Rows], paired: Pipeline | None, env: Environment
) -> SortedRows:
    """Rows, brought to a layout by `paired`, as one content."""
    found = []
    for chunk in chunks:
        rows = chunk if paired is None else paired.apply(chunk, env)
        if len(rows):
            found.append(aggregate_rows(schema, rows.columns, rows.weights))
    return merge(found) if found else empty(schema)
