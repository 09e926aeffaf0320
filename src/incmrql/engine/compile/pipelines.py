"""Maps over rows to segments: columns that are picked, a DuckDB text, or row by row."""

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
from incmrql.lower.relations.builder import Builder
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
    """What all segments of a program are lowered with."""

    program: Program

    def pipeline(
        self,
        given: Given,
        first: typed.Expr,
        then: Sequence[tuple[typed.Variable, typed.Expr]] = (),
        made: Layout | None = None,
    ) -> Pipeline:
        """The segment of a bag over variables, and of maps over its elements."""
        layout = made or _made(given, first, then)
        try:
            how = self._lowered(given, first, then, layout)
        except NotNative as problem:
            return Pipeline(ByRow(tuple(given), first, tuple(then), problem.reason), layout)
        return Pipeline(how, layout)

    def _lowered(
        self,
        given: Given,
        first: typed.Expr,
        then: Sequence[tuple[typed.Variable, typed.Expr]],
        made: Layout,
    ) -> Projection | SqlText:
        program = self.program
        stored = dict(program.stored)
        ctx = Context(lower, Dialect.DUCKDB, program.script, stored, program.arguments)
        builder = Builder(ctx, relation)
        columns = _Columns()
        env = Env({variable: columns.shape(layout) for variable, layout in given})
        flow = Flow(env, [])
        head = emit(first, env, flow, builder)
        for variable, body in then:
            env = env.bind(variable, head)
            head = emit(body, env, flow, builder)
        cells = list(_brought(head, made, ctx))
        if builder.sources or builder.relations:
            raise NotNative("a source inside of a row")
        shared = {place.name: _shared(place) for place in ctx.python_calls}
        picked = _picked(cells, flow, columns)
        if picked is not None:
            return picked
        return SqlText(_printed(cells, flow, ctx, shared), tuple(shared.values()))


def _shared(place: PythonExpression) -> PinnedFunction:
    """The function that a place calls, if it is one that all engines share."""
    types = tuple(variable.type for variable in place.parameters)
    given = tuple(typed.Var(variable, type=variable.type) for variable in place.parameters)
    if all(is_scalar(type_) for type_ in (*types, place.body.type)):
        match place.body:
            case typed.Builtin(name, operands) if operands == given and is_pinned(name):
                return _named(name, types, place.body.type)
            case typed.Cast(operand, "total") if (operand,) == given:
                return _named(None, types, place.body.type)
            case typed.Arithmetic(op, left, right, "total") if (left, right) == given:
                return _named(op, types, place.body.type)
            case body if is_function_of_scalars(body):
                return _expression(place.parameters, types, body)
            case _:
                pass
    raise NotNative(place.reason)


def _named(builtin: str | None, types: tuple[Type, ...], result: Type) -> PinnedFunction:
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


def _made(
    given: Given, first: typed.Expr, then: Sequence[tuple[typed.Variable, typed.Expr]]
) -> Layout:
    scope = dict(given)
    found = of_elements(first, scope)
    for variable, body in then:
        found = of_elements(body, {**scope, variable: found})
    return found


class _Columns:
    """The columns of the rows that are given: the place of each, by the name it has in a text."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def shape(self, layout: Layout) -> Shape:
        """What a variable is in the next columns."""
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
        place = len(self.places)
        name = f"c{place}"
        self.places[name] = place
        return tree.column(name)

    def place(self, cell: exp.Expression) -> int | None:
        """The place of the column that a cell is, if it is one as it was given."""
        is_own = isinstance(cell, exp.Column) and not cell.table
        return self.places.get(cell.name) if is_own else None


def _brought(shape: Shape, layout: Layout, ctx: Context) -> Iterator[exp.Expression]:
    """The expressions of the columns of a layout."""
    match layout:
        case Leaf():
            yield ctx.whole(shape)
        case Struct(parts):
            for inner, part in zip(split(shape).parts, parts, strict=True):
                yield from _brought(inner, part, ctx)
        case Unused():
            return
        case _:
            assert_never(layout)


def _picked(cells: list[exp.Expression], flow: Flow, columns: _Columns) -> Projection | None:
    """Columns as they are, and tests for their presence, if there is nothing else."""
    if flow.explodes or flow.empty:
        return None
    places = [columns.place(cell) for cell in cells]
    present = [_present(test, columns) for test in flow.tests]
    if any(place is None for place in (*places, *present)):
        return None
    return Projection(
        tuple(p for p in places if p is not None), tuple(p for p in present if p is not None)
    )


def _present(test: exp.Expression, columns: _Columns) -> int | None:
    """The column that a test asks to be not null, if that is all it does."""
    found = next(iter(test.find_all(exp.Column)), None)
    place = None if found is None else columns.place(found)
    if found is None or place is None:
        return None
    return place if test == tree.not_null(found.copy()) else None


def _printed(
    cells: list[exp.Expression], flow: Flow, ctx: Context, shared: Mapping[str, PinnedFunction]
) -> str:
    """The text of a segment, which calls shared functions by their own names."""
    named = [exp.alias_(cell, f"r{place}") for place, cell in enumerate(cells)]
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
    for call in whole.find_all(exp.Anonymous):  # in the tree: a text may have such a name in it
        if call.name in shared:
            call.set("this", shared[call.name].name)
    return tree.print_tree(whole, ctx.dialect)
