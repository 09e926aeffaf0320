"""Linear segments: from a table of rows with weights to another, row by row in meaning.

One small interface with two implementations: over columns where every expression allows it, and
by the reference evaluator where one does not.  A third, in DuckDB, is to take their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from incmrql.incremental import Answer, Linear, Program
from incmrql.kernel.columns import (
    WEIGHT,
    gathered,
    is_spread,
    names,
    rows_table,
    schema,
    spread,
    table_rows,
    types_of,
    weights_of,
)
from incmrql.kernel.vectors import Scope, Vector, vector
from incmrql.reference import Environment, evaluate, new_world
from incmrql.types import typed
from incmrql.types.model import Type
from incmrql.types.walk import map_children, substitute
from incmrql.values import Value


class Segment(Protocol):
    """A function from a table with weights to a table with weights."""

    def apply(self, table: Any) -> Any:
        """The rows that the rows of a table give."""


def linear_segment(program: Program) -> Segment:
    """Elements of the stream (`c0 ...`) to parts of keys and values (`k0 ...`)."""
    linear, element = program.linear, program.stream.element
    outputs = (*program.fold.keys, *[column.type for column in linear.columns])
    shape = _one_pair(linear.body)
    if shape is not None:
        condition, key, value = shape
        over = {linear.value: value}
        columns = [_simple(substitute(column, over)) for column in linear.columns]
        parts = list(key.items) if isinstance(key, typed.MakeTuple) and key.items else [key]
        held = tuple(names("c", len(types_of(element))))
        scope: Scope = {linear.row: held if is_spread(element) else held[0]}
        if len(parts) == len(program.fold.keys):
            made = _columnar(condition, [*parts, *columns], scope, outputs)
            if made is not None:
                return made
    return _LinearRows(program, outputs)


def answer_segment(program: Program) -> Segment:
    """Parts of keys and aggregates (`k0 ...`) to elements of the answer (`k0 ...`)."""
    answer, outputs = program.answer, types_of(program.answer.element)
    inputs = [*answer.keys, *answer.aggregates]
    shape = _one_element(answer.body)
    if shape is not None:
        condition, head = shape
        parts = _parts(head)
        scope: Scope = {variable: f"k{i}" for i, variable in enumerate(inputs)}
        if len(parts) == len(outputs):
            made = _columnar(condition, parts, scope, outputs)
            if made is not None:
                return made
    return _AnswerRows(program, answer, tuple(inputs))


# --- over columns --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Columns:
    """A filter and a column for each output."""

    condition: Vector | None
    outputs: tuple[Vector, ...]
    schema: Any

    def apply(self, table: Any) -> Any:
        """The rows that pass the filter, as their output columns."""
        if self.condition is not None:
            table = table.filter(pc.fill_null(self.condition(table), False))
        columns = [output(table) for output in self.outputs]
        return pa.table([*columns, table.column(WEIGHT)], schema=self.schema)


def _columnar(
    condition: typed.Expr | None,
    outputs: Sequence[typed.Expr],
    scope: Scope,
    types: tuple[Type, ...],
) -> Segment | None:
    passes = None if condition is None else vector(condition, scope)
    columns = [vector(output, scope) for output in outputs]
    made = tuple(column for column in columns if column is not None)
    if len(made) < len(columns) or (condition is not None and passes is None):
        return None
    return _Columns(passes, made, schema("k", types))


def _one_element(body: typed.Expr) -> tuple[typed.Expr | None, typed.Expr] | None:
    """The condition and the element of `if c then {e} else {}` or `{e}`."""
    match body:
        case typed.MakeCollection((element,)):
            return None, element
        case typed.If(condition, typed.MakeCollection((element,)), typed.MakeCollection(())):
            return condition, element
        case _:
            return None


def _one_pair(body: typed.Expr) -> tuple[typed.Expr | None, typed.Expr, typed.Expr] | None:
    """The condition, the key and the value of a body that gives at most one pair."""
    match _one_element(body):
        case (condition, typed.MakeTuple((key, value))):
            return condition, key, value
        case _:
            return None


def _parts(head: typed.Expr) -> list[typed.Expr]:
    match head:
        case typed.MakeTuple(items) | typed.MakeRecord(items) if items:
            return list(items)
        case _:
            return [head]


def _simple(expr: typed.Expr) -> typed.Expr:
    """Fields and components of what is made on the spot, taken at once."""
    expr = map_children(_simple, expr)
    match expr:
        case typed.Item(typed.MakeTuple(items), index):
            return items[index]
        case typed.Field(typed.MakeRecord(items) as record, name):
            return items[[field for field, _ in record.type.fields].index(name)]  # type: ignore[union-attr]
        case _:
            return expr


# --- row by row ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _LinearRows:
    """The segment of a stream by the reference evaluator."""

    program: Program
    outputs: tuple[Type, ...]

    def apply(self, table: Any) -> Any:
        """The pairs of every row, as columns."""
        env = Environment(new_world(self.program.script))
        element = self.program.stream.element
        rows: list[tuple[list[Value], int]] = []
        inputs = table_rows(table, "c", types_of(element))
        for values, weight in zip(inputs, weights_of(table).tolist(), strict=True):
            row = gathered(values, element)
            rows += [(pair, weight) for pair in _pairs(self.program.linear, row, env)]
        return rows_table("k", self.outputs, rows)


def _pairs(linear: Linear, row: Value, env: Environment) -> list[list[Value]]:
    """The columns of each pair that a row gives."""
    made: list[list[Value]] = []
    for key, value in evaluate(linear.body, env.bind(linear.row, row)) or ():
        inner = env.bind(linear.value, value)
        columns = [evaluate(column, inner) for column in linear.columns]
        made.append([*(key if isinstance(key, tuple) and key else [key]), *columns])
    return made


@dataclass(frozen=True)
class _AnswerRows:
    """The answer by the reference evaluator."""

    program: Program
    answer: Answer
    inputs: tuple[typed.Variable, ...]

    def apply(self, table: Any) -> Any:
        """The elements that each key has, as columns."""
        env = Environment(new_world(self.program.script))
        types = tuple(variable.type for variable in self.inputs)
        element = self.answer.element
        rows: list[tuple[list[Value], int]] = []
        inputs = table_rows(table, "k", types)
        for values, weight in zip(inputs, weights_of(table).tolist(), strict=True):
            bound = {v.number: value for v, value in zip(self.inputs, values, strict=True)}
            found = evaluate(self.answer.body, env.extend(bound)) or ()
            rows += [(spread(each, element), weight) for each in found]
        return rows_table("k", types_of(element), rows)
