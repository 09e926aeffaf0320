"""The operator protocol, and the simple operators: parameters, constants, maps, unions, order.

Every node of a program is compiled to an operator, which computes its own delta in a batch:

    advance   from the deltas of its inputs to its own delta

A stateful operator does that in two halves, which `advance` composes.  Between them, a large batch
is shuffled by key:

    gather    what the rows contribute, added up by key, without reading the state
    meet      the operator's delta, from what was gathered and the state tables, by key

Whatever runs operators (one task, stages, loops) relies on this and on what an operator states
about itself, never on its class.  Only the compiler knows all classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

import numpy as np

from incmrql.engine.columns.keys import no_keys
from incmrql.engine.columns.layouts import Layout
from incmrql.engine.columns.pipelines import Pipeline
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
"""From all rows of the inputs to all rows of an operator; may keep what it computed last."""

NamedSchema: TypeAlias = tuple[str, TableSchema]
"""The name of a state table, and its schema."""


@dataclass(frozen=True, slots=True)
class Operator(ABC):
    """A node of a program, as the engine runs it."""

    inputs: tuple[int, ...] = field(default=(), kw_only=True)
    """The indexes of the operators whose rows it reads, in its program."""

    @property
    def state_tables(self) -> tuple[NamedSchema, ...]:
        """The state tables that it reads and adds deltas to."""
        return ()

    @property
    def is_by_row(self) -> bool:
        """Whether it evaluates rows one by one in Python."""
        return False

    @property
    def is_cross(self) -> bool:
        """Whether it is a cross join."""
        return False

    def has_rows(self, _inputs: Sequence[bool]) -> bool:
        """Whether it may have rows, given which of its inputs have any."""
        return True

    @abstractmethod
    def advance(self, inputs: Sequence[Iterable[Rows]], context: BatchContext) -> Iterable[Rows]:
        """The output delta, in chunks, for the deltas of the inputs."""

    def evaluator(self, _moving: tuple[bool, ...], _most: int) -> Evaluator:
        """A function that computes all rows from all rows of the inputs, without state.

        It is called for every step of a loop: `moving` says which inputs change between calls,
        `most` how many rows a loop inside may have.
        """
        return self.advance


def any_by_row(pipelines: Iterable[Pipeline | None]) -> bool:
    """Whether one of the pipelines evaluates rows one by one."""
    return any(pipeline is not None and pipeline.is_by_row for pipeline in pipelines)


# --- operators without state -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParamOp(Operator):
    """Rows that come from outside of the program: of an input or a variable of a loop."""

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
            elements = Weighted((row, 1) for row in evaluate(self.expr, context.env) or ())
            yield of_values(list(elements), self.layout)


@dataclass(frozen=True, slots=True)
class MapOp(Operator):
    """A pipeline over the rows of its input."""

    pipeline: Pipeline

    @property
    def is_by_row(self) -> bool:
        """Whether the pipeline evaluates rows one by one."""
        return any_by_row([self.pipeline])

    def has_rows(self, inputs: Sequence[bool]) -> bool:
        """Whether the input has any."""
        return any(inputs)

    def advance(self, inputs: Sequence[Iterable[Rows]], context: BatchContext) -> Iterator[Rows]:
        """The pipeline over each chunk."""
        return (self.pipeline.apply(rows, context.env) for rows in inputs[0] if len(rows))

    def evaluator(self, _moving: tuple[bool, ...], _most: int) -> Evaluator:
        """The pipeline over each chunk, in the columns of loops."""
        return lambda inputs, context: (
            apply_pipeline(self.pipeline, rows, context.env) for rows in inputs[0]
        )


@dataclass(frozen=True, slots=True)
class UnionOp(Operator):
    """The rows of several inputs, converted to one layout."""

    pipelines: tuple[Pipeline | None, ...]
    """The conversion of each input; None where it has the layout."""

    @property
    def is_by_row(self) -> bool:
        """Whether a conversion evaluates rows one by one."""
        return any_by_row(self.pipelines)

    def has_rows(self, inputs: Sequence[bool]) -> bool:
        """Whether an input has any."""
        return any(inputs)

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
    """An operator whose output delta depends on the state that earlier batches left."""

    is_bilinear: ClassVar[bool] = False
    """Whether the operator is linear in each input, like a join: every output row follows from two
    input rows, whichever others there are."""
    is_single: ClassVar[bool] = False
    """Whether one task has to get all that is gathered for it, and all of its state."""

    @property
    @abstractmethod
    def delta_schemas(self) -> tuple[TableSchema, ...]:
        """The schemas of the gathered rows, which can be sent to other tasks."""

    @abstractmethod
    def gather(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[SortedRows]:
        """What the rows contribute, added up, without reading the state."""

    @abstractmethod
    def meet(self, deltas: Sequence[SortedRows], context: BatchContext) -> Iterator[Rows]:
        """The output delta, from what was gathered and the state; adds the deltas to the state."""

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
        """Whether pairs are computed row by row."""
        return any_by_row([self.paired])

    @property
    def delta_schemas(self) -> tuple[TableSchema, ...]:
        """The schema of the table."""
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
    """The sorted rows of chunks, which `paired` converts to the layout of the schema."""
    parts = []
    for chunk in chunks:
        rows = chunk if paired is None else paired.apply(chunk, env)
        if len(rows):
            parts.append(aggregate_rows(schema, rows.columns, rows.weights))
    return merge(parts) if parts else empty(schema)
