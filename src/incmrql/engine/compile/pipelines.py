"""Compiles maps over rows to pipelines: picked columns, a DuckDB text, or row-by-row evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from incmrql.engine.columns.layouts import Layout, Leaf, Struct, Unused, of_elements
from incmrql.engine.columns.pinned import is_function_of_scalars, is_pinned
from incmrql.engine.columns.pipelines import ByRow, PinnedFunction, Pipeline, Projection, SqlText
from incmrql.io.arrow.columns import WEIGHT
from incmrql.lower import tree
from incmrql.lower.context import Context, PythonExpression
from incmrql.lower.expressions.dispatch import lower
from incmrql.lower.relations.builder import RelationBuilder
from incmrql.lower.relations.flows import Flow, emit
from incmrql.lower.relations.terms import relation
from incmrql.lower.shapes import Cell, Env, NotNative, Parts, Shape, split
from incmrql.lower.sums.rounding import inline_functions
from incmrql.lower.tree import Dialect
from incmrql.plan.program import Program
from incmrql.types import typed
from incmrql.types.model import Type, is_scalar

Given = Sequence[tuple[typed.Variable, Layout]]


@dataclass(frozen=True, slots=True)
class Lowering:
    """Compiles the pipelines of a program."""

    program: Program

    def pipeline(
        self,
        given: Given,
        first: typed.Expr,
        then: Sequence[tuple[typed.Variable, typed.Expr]] = (),
        layout: Layout | None = None,
    ) -> Pipeline:
        """The pipeline of a bag `first` over variables, and of maps `then` over its elements.

        The result has the given layout, by default the one that follows from the expressions.
        """
        layout = layout or _result_layout(given, first, then)
        try:
            how = self._lower(given, first, then, layout)
        except NotNative as problem:
            return Pipeline(ByRow(tuple(given), first, tuple(then), problem.reason), layout)
        return Pipeline(how, layout)

    def _lower(
        self,
        given: Given,
        first: typed.Expr,
        then: Sequence[tuple[typed.Variable, typed.Expr]],
        layout: Layout,
    ) -> Projection | SqlText:
        """The pipeline as picked columns or as SQL; raises `NotNative` if it has to run by row."""
        program = self.program
        stored = dict(program.stored)
        ctx = Context(lower, Dialect.DUCKDB, program.script, stored, program.arguments)
        builder = RelationBuilder(ctx, relation)
        columns = _Columns()
        env = Env({variable: columns.shape(given_layout) for variable, given_layout in given})
        flow = Flow(env, [])
        head = emit(first, env, flow, builder)
        for variable, body in then:
            env = env.bind(variable, head)
            head = emit(body, env, flow, builder)
        cells = list(_layout_cells(head, layout, ctx))
        if builder.sources or builder.relations:
            raise NotNative("a source inside of a row")
        functions = {call.name: _pinned_call(call) for call in ctx.python_calls}
        projection = _projection(cells, flow, columns)
        if projection is not None:
            return projection
        return SqlText(_sql_text(cells, flow, ctx, functions), tuple(functions.values()))


def _pinned_call(call: PythonExpression) -> PinnedFunction:
    """The pinned function that an expression calls; raises `NotNative` if there is none."""
    types = tuple(variable.type for variable in call.parameters)
    parameters = tuple(typed.Var(variable, type=variable.type) for variable in call.parameters)
    if all(is_scalar(type_) for type_ in (*types, call.body.type)):
        match call.body:
            case typed.Builtin(name, operands) if operands == parameters and is_pinned(name):
                return _pinned_function(name, types, call.body.type)
            case typed.Cast(operand, "total") if (operand,) == parameters:
                return _pinned_function(None, types, call.body.type)
            case typed.Arithmetic(op, left, right, "total") if (left, right) == parameters:
                return _pinned_function(op, types, call.body.type)
            case body if is_function_of_scalars(body):
                return _expression(call.parameters, types, body)
            case _:
                pass
    raise NotNative(call.reason)


def _pinned_function(builtin: str | None, types: tuple[Type, ...], result: Type) -> PinnedFunction:
    """A pinned function, under a name that no other signature has."""
    text = f"{builtin} {types} {result}"
    return PinnedFunction(f"pinned_{_digest(text)}", builtin, types, result)


def _expression(
    parameters: tuple[typed.Variable, ...], types: tuple[Type, ...], body: typed.Expr
) -> PinnedFunction:
    """The function of an expression over scalars, which the reference evaluates."""
    name = f"pinned_{_digest(f'{parameters} {body}')}"
    return PinnedFunction(name, None, types, body.type, parameters, body)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _result_layout(
    given: Given, first: typed.Expr, then: Sequence[tuple[typed.Variable, typed.Expr]]
) -> Layout:
    """The layout of the elements after the last map."""
    scope = dict(given)
    layout = of_elements(first, scope)
    for variable, body in then:
        layout = of_elements(body, {**scope, variable: layout})
    return layout


class _Columns:
    """The input columns of a pipeline: the index of each, by its name in the SQL text."""

    def __init__(self) -> None:
        self.indices: dict[str, int] = {}

    def shape(self, layout: Layout) -> Shape:
        """A variable with this layout, in the next columns."""
        match layout:
            case Leaf(type_):
                return Cell(self._next(), type_)
            case Struct(parts, type_):
                return Parts(tuple(map(self.shape, parts)), type_)
            case Unused(type_):
                return Cell(tree.typed_null(type_, Dialect.DUCKDB), type_)
            case _:
                assert_never(layout)

    def _next(self) -> exp.Expression:
        index = len(self.indices)
        name = f"c{index}"
        self.indices[name] = index
        return tree.column(name)

    def index_of(self, cell: exp.Expression) -> int | None:
        """The index of the input column that an expression is; None if it is something else."""
        is_own = isinstance(cell, exp.Column) and not cell.table
        return self.indices.get(cell.name) if is_own else None


def _layout_cells(shape: Shape, layout: Layout, ctx: Context) -> Iterator[exp.Expression]:
    """The expressions of the columns of a layout."""
    match layout:
        case Leaf():
            yield ctx.whole(shape)
        case Struct(parts):
            for inner, part in zip(split(shape).parts, parts, strict=True):
                yield from _layout_cells(inner, part, ctx)
        case Unused():
            return
        case _:
            assert_never(layout)


def _projection(cells: list[exp.Expression], flow: Flow, columns: _Columns) -> Projection | None:
    """A projection, if all that a pipeline does is pick columns and test some for null."""
    if flow.explodes or flow.empty:
        return None
    picked = [columns.index_of(cell) for cell in cells]
    present = [_tested_column(test, columns) for test in flow.tests]
    if any(index is None for index in (*picked, *present)):
        return None
    return Projection(
        tuple(i for i in picked if i is not None), tuple(i for i in present if i is not None)
    )


def _tested_column(test: exp.Expression, columns: _Columns) -> int | None:
    """The column that a test requires to be not null; None if it tests anything else."""
    column = next(iter(test.find_all(exp.Column)), None)
    index = None if column is None else columns.index_of(column)
    if column is None or index is None:
        return None
    return index if test == tree.not_null(column.copy()) else None


def _sql_text(
    cells: list[exp.Expression], flow: Flow, ctx: Context, functions: Mapping[str, PinnedFunction]
) -> str:
    """The SQL text of a pipeline, which calls pinned functions by their own names."""
    named = [exp.alias_(cell, f"r{index}") for index, cell in enumerate(cells)]
    select = exp.select(*named, exp.column(WEIGHT, quoted=True)).from_("given")
    for array, column in flow.explodes:
        alias = exp.TableAlias(
            this=exp.to_identifier(ctx.fresh("each")), columns=[exp.to_identifier(column)]
        )
        unnest = exp.Unnest(expressions=[array], alias=alias)
        select.append("joins", exp.Join(this=unnest, kind="CROSS"))
    tests = [*flow.tests, *([tree.boolean(False)] if flow.empty else [])]
    condition = tree.conjunction(tests)
    if condition is not None:
        select = select.where(condition)
    whole = inline_functions(select)
    for call in whole.find_all(exp.Anonymous):  # not in the text: a string may contain such a name
        if call.name in functions:
            call.set("this", functions[call.name].name)
    return tree.print_tree(whole, ctx.dialect)
