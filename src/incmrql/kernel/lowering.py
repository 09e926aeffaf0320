"""Maps over rows to segments: columns that are picked, a DuckDB text, or row by row."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from incmrql.incremental.streams import Program
from incmrql.kernel.columns import WEIGHT
from incmrql.kernel.layouts import Gone, Layout, Leaf, Struct, of_elements
from incmrql.kernel.pinned import is_pinned
from incmrql.kernel.segment import ByRow, Picked, Pinned, Segment, Text
from incmrql.sql import tree
from incmrql.sql.builder import Builder
from incmrql.sql.context import Context, PythonPlace
from incmrql.sql.expressions import lower
from incmrql.sql.flows import Flow, emit
from incmrql.sql.relations import relation
from incmrql.sql.rounding import in_place
from incmrql.sql.shapes import Cell, Env, NotNative, Parts, Shape, split
from incmrql.sql.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import Type, is_scalar

Given = Sequence[tuple[typed.Variable, Layout]]


@dataclass(frozen=True, slots=True)
class Lowering:
    """What all segments of a program are lowered with."""

    program: Program

    def segment(
        self,
        given: Given,
        first: typed.Expr,
        then: Sequence[tuple[typed.Variable, typed.Expr]] = (),
        made: Layout | None = None,
    ) -> Segment:
        """The segment of a bag over variables, and of maps over its elements."""
        layout = made or _made(given, first, then)
        try:
            how = self._lowered(given, first, then, layout)
        except NotNative as problem:
            return Segment(ByRow(tuple(given), first, tuple(then), problem.reason), layout)
        return Segment(how, layout)

    def _lowered(
        self,
        given: Given,
        first: typed.Expr,
        then: Sequence[tuple[typed.Variable, typed.Expr]],
        made: Layout,
    ) -> Picked | Text:
        program = self.program
        stored = dict(program.stored)
        ctx = Context(lower, Dialect.DUCKDB, program.script, stored, program.arguments)
        builder = Builder(ctx, relation)
        columns = iter(range(1 << 30))
        env = Env({variable: _shape(layout, columns) for variable, layout in given})
        flow = Flow(env, [])
        head = emit(first, env, flow, builder)
        for variable, body in then:
            env = env.bind(variable, head)
            head = emit(body, env, flow, builder)
        cells = list(_brought(head, made, ctx))
        if builder.sources or builder.relations:
            raise NotNative("a source inside of a row")
        shared = [_shared(place) for place in ctx.places]
        picked = _picked(cells, flow)
        if picked is not None:
            return picked
        text = _printed(cells, flow, ctx)
        for place, function in zip(ctx.places, shared, strict=True):
            text = text.replace(f"{place.name}(", f"{function.name}(")
        return Text(text, tuple(shared))


def _shared(place: PythonPlace) -> Pinned:
    """The function that a place calls, if it is one that all engines share."""
    types = tuple(variable.type for variable in place.parameters)
    given = tuple(typed.Var(variable, type=variable.type) for variable in place.parameters)
    if all(is_scalar(type_) for type_ in (*types, place.body.type)):
        match place.body:
            case typed.Builtin(name, operands) if operands == given and is_pinned(name):
                return _named(name, types, place.body.type)
            case typed.Cast(operand) if (operand,) == given:
                return _named(None, types, place.body.type)
            case _:
                pass
    raise NotNative(place.reason)


def _named(builtin: str | None, types: tuple[Type, ...], result: Type) -> Pinned:
    text = f"{builtin} {types} {result}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return Pinned(f"pinned_{digest}", builtin, types, result)


def _made(
    given: Given, first: typed.Expr, then: Sequence[tuple[typed.Variable, typed.Expr]]
) -> Layout:
    scope = dict(given)
    found = of_elements(first, scope)
    for variable, body in then:
        found = of_elements(body, {**scope, variable: found})
    return found


def _shape(layout: Layout, columns: Iterator[int]) -> Shape:
    """What a variable is in the columns of the rows."""
    match layout:
        case Leaf(type_):
            return Cell(_column(next(columns)), type_)
        case Struct(parts, type_):
            return Parts(tuple(_shape(part, columns) for part in parts), type_)
        case Gone(type_):
            return Cell(tree.typed_null(type_, Dialect.DUCKDB), type_)
        case _:
            assert_never(layout)


def _column(place: int) -> exp.Expression:
    return tree.column(f"c{place}")


def _brought(shape: Shape, layout: Layout, ctx: Context) -> Iterator[exp.Expression]:
    """The expressions of the columns of a layout."""
    match layout:
        case Leaf():
            yield ctx.whole(shape)
        case Struct(parts):
            for inner, part in zip(split(shape).parts, parts, strict=True):
                yield from _brought(inner, part, ctx)
        case Gone():
            return
        case _:
            assert_never(layout)


def _picked(cells: list[exp.Expression], flow: Flow) -> Picked | None:
    """Columns as they are, and tests for their presence, if there is nothing else."""
    if flow.exploded or flow.empty:
        return None
    places = [_place(cell) for cell in cells]
    present = [_present(test) for test in flow.tests]
    if any(place is None for place in (*places, *present)):
        return None
    return Picked(
        tuple(p for p in places if p is not None), tuple(p for p in present if p is not None)
    )


def _place(cell: exp.Expression) -> int | None:
    name = cell.name if isinstance(cell, exp.Column) else ""
    return int(name[1:]) if name[:1] == "c" and name[1:].isdigit() else None


def _present(test: exp.Expression) -> int | None:
    found = next(iter(test.find_all(exp.Column)), None)
    if found is None or _place(found) is None:
        return None
    text = tree.print_tree(tree.not_null(found.copy()), Dialect.DUCKDB)
    return _place(found) if text == tree.print_tree(test, Dialect.DUCKDB) else None


def _printed(cells: list[exp.Expression], flow: Flow, ctx: Context) -> str:
    named = [exp.alias_(cell, f"r{place}") for place, cell in enumerate(cells)]
    select = exp.select(*named, exp.column(WEIGHT, quoted=True)).from_("given")
    for array, column in flow.exploded:
        alias = exp.TableAlias(
            this=exp.to_identifier(ctx.fresh("each")), columns=[exp.to_identifier(column)]
        )
        unnest = exp.Unnest(expressions=[array], alias=alias)
        select.append("joins", exp.Join(this=unnest, kind="CROSS"))
    tests = [*flow.tests, *([tree.boolean(False)] if flow.empty else [])]
    condition = tree.conjunction(tests)
    if condition is not None:
        select = select.where(condition)
    return tree.print_tree(in_place(select), ctx.dialect)
