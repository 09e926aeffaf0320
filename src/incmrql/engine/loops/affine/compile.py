"""Compiles an affine loop to the programs and tables that diffuse it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from incmrql.algebra.term import CMap, GroupBy, pair
from incmrql.engine.columns.layouts import (
    Layout,
    Leaf,
    Struct,
    common_layout,
    index_of,
    leaves,
    pair_of,
    width,
)
from incmrql.engine.compile.physical import Inner
from incmrql.engine.loops.affine.tables import MATRIX, NUMBERED, AffinePart, AffineTables
from incmrql.engine.loops.steps import Output
from incmrql.engine.operators.base import Operator, ParamOp, StatefulOp
from incmrql.engine.operators.groups import GroupOp
from incmrql.engine.operators.joins import JoinOp
from incmrql.engine.store.sorting import STATE_OF_A_STEP, TableSchema
from incmrql.plan.diffusion.slopes import Path, Slopes, simplify
from incmrql.plan.diffusion.slopes import leaves as components
from incmrql.plan.diffusion.ways import Affine
from incmrql.plan.nodes import Join, Linear, Node, Repeated
from incmrql.types import typed
from incmrql.types.model import BOOL, DOUBLE, LONG, Record
from incmrql.types.walk import map_children

if TYPE_CHECKING:
    from incmrql.engine.compile.loops import LoopCompiler


MOST_STEPS: Final = 200
"""The most steps for which it is tracked at which of them a row exists."""


def compile_affine(
    loop: LoopCompiler, shape: Affine, plain: Inner, inputs: Sequence[Layout], limit: int | None
) -> AffineTables | str:
    """The programs and tables of an affine loop; or a text that says why it is recomputed instead.

    `plain` is the program of one step.
    """
    row = plain.variables[0]
    value = _column(row, shape.paths[0])
    grouped = True if not shape.steady else _is_grouped(loop.node, plain)
    if value is None:
        return "rows of the loop may be null"
    if width(row) == 1:
        return "rows have no component besides their value"
    if limit is not None and limit <= 0:
        return "the loop has no steps"
    if not shape.steady and limit is not None and limit > MOST_STEPS:
        return f"rows come and go in more than {MOST_STEPS} steps"
    if grouped is None:
        return "the rows of a step have no key"
    entries = _entries(loop, shape, row, inputs)
    start = _start(loop, plain)
    if any(_is_other(step) for part in (start, entries[0]) for step in part.steps.values()):
        return "it contains an order or another loop"
    types = leaves(row)
    labels = TableSchema((*types[:value], *types[value + 1 :]), (LONG,))
    return AffineTables(
        start=start,
        entries=entries[0],
        row=row,
        types=types,
        value=value,
        entry=entries[1],
        opened=entries[2],
        steady=shape.steady,
        grouped=grouped,
        limit=limit,
        labels=(loop.table("al", labels, "numbers of labels"), labels),
        numbers=(loop.table("an", NUMBERED, "vectors by label"), NUMBERED),
        matrix=(loop.table("am", MATRIX, "coefficients of a step"), MATRIX),
        account=(loop.table("aa", NUMBERED, "figures of the error bound"), NUMBERED),
    )


def _is_other(step: Operator) -> bool:
    """Whether an operator is stateful, and neither a join nor groups."""
    return isinstance(step, StatefulOp) and not isinstance(step, JoinOp | GroupOp)


def _column(layout: Layout, path: Path) -> int | None:
    """The column of a component of a row; None if it has no column of its own."""
    start = 0
    for name in path:
        if not isinstance(layout, Struct):
            return None
        is_record = isinstance(layout.type, Record)
        index = index_of(layout.type, str(name)) if is_record else int(name)
        start += sum(width(part) for part in layout.parts[:index])
        layout = layout.parts[index]
    return start if layout == Leaf(DOUBLE) else None


# --- which rows a step has -------------------------------------------------------------------


def _is_grouped(node: Repeated, plain: Inner) -> bool | None:
    """Whether a row exists if a row that adds to it does, or without them; None if unknown."""
    step = plain.steps[plain.looping.step[0]]
    if isinstance(step, GroupOp) and step.mode == "linear" and step.linear is not None:
        free = step.inputs[step.linear] not in plain.looping.varying
        return False if free else None
    match node.term.step[0]:
        case CMap(group, body, GroupBy(source)):
            head = _only(simplify(body))
            keys = tuple(path for path, _ in components(pair(source)[0]))
            known = None if head is None else Slopes({}, heads=[head]).key_paths(group, keys)
            return None if known is None else True
        case _:
            return None


def _only(body: typed.Expr) -> typed.Expr | None:
    """The only row that a body can have; None if there may be several."""
    match body:
        case typed.MakeCollection((one,)):
            return one
        case typed.If(_, typed.MakeCollection((one,)), typed.MakeCollection(())):
            return one
        case _:
            return None


# --- programs --------------------------------------------------------------------------------


def _entries(
    loop: LoopCompiler, shape: Affine, row: Layout, inputs: Sequence[Layout]
) -> tuple[AffinePart, Layout, Layout]:
    """The program that computes the matrix, the layout of its rows, and the one to convert them to.

    In the latter, an origin that may be null is one column.
    """
    looping = replace(shape.entries, nodes=tuple(map(_without_sums, shape.entries.nodes)))
    (variable,) = looping.variables
    layouts = {**dict(zip(looping.inputs, inputs, strict=True)), variable: row}
    compiler = loop.compile_steps(looping, layouts)
    place = looping.step[0]
    compiled = compiler.layouts[place]
    entry = common_layout(compiled, _entry(row, row))
    is_packed = common_layout(entry, _entry(row, row)) != _entry(row, row)
    wanted = _entry(row, Leaf(row.type)) if is_packed else entry
    pipeline = compiler.converter(place, common_layout(compiled, wanted))
    steps = _steps_for(compiler.steps, [place])
    opened = common_layout(compiled, wanted)
    part = _part(loop, "ae", steps, looping.inputs, [(place, pipeline, leaves(opened))], variable)
    return part, opened, wanted


def _without_sums(node: Node) -> Node:
    """A node without `sum` over a single number in its maps: such sums would run row by row."""
    match node:
        case Linear(steps=steps):
            return replace(
                node,
                steps=tuple((variable, _without_single_sums(body)) for variable, body in steps),
            )
        case Join(body=body):
            return replace(node, body=_without_single_sums(body))
        case _:
            return node


def _without_single_sums(expr: typed.Expr) -> typed.Expr:
    """An expression with `sum({x})` replaced by x, or by 0.0 if x is null."""
    expr = map_children(_without_single_sums, expr)
    match expr:
        case typed.Aggregate("sum", typed.MakeCollection((one,)), None) if expr.type == DOUBLE:
            is_known = typed.Compare("=", one, one, type=BOOL)
            return typed.If(is_known, one, typed.Const(0.0, type=DOUBLE), type=DOUBLE)
        case _:
            return expr


def _entry(row: Layout, origin: Layout) -> Struct:
    """The layout of (row, (origin, coefficient))."""
    return pair_of(row, pair_of(origin, Leaf(DOUBLE)))


def _start(loop: LoopCompiler, plain: Inner) -> AffinePart:
    """The program of a step without rows of the variable, and of its initial rows."""
    looping = plain.looping
    empty = _empty(plain)
    steps = {
        place: step
        for place, step in _steps_for(plain.steps, [*looping.initial, *looping.step]).items()
        if place not in empty
    }
    types = leaves(plain.variables[0])
    results = [
        (looping.initial[0], plain.initial[0], types),
        (looping.step[0], plain.step[0], types),
    ]
    return _part(loop, "as", steps, looping.inputs, results)


def _empty(inner: Inner) -> frozenset[int]:
    """The operators that have no rows while the variable has none."""
    empty = set(inner.looping.variables)
    for place, step in enumerate(inner.steps):
        if not step.has_rows([index not in empty for index in step.inputs]):
            empty.add(place)
    return frozenset(empty)


def _steps_for(steps: Sequence[Operator], wanted: Iterable[int]) -> dict[int, Operator]:
    """The operators that are needed to compute the rows of the wanted ones."""
    needed = set(wanted)
    for place in reversed(range(len(steps))):
        if place in needed:
            needed.update(steps[place].inputs)
    return {place: steps[place] for place in sorted(needed)}


def _part(
    loop: LoopCompiler,
    letters: str,
    steps: dict[int, Operator],
    inputs: tuple[int, ...],
    results: Sequence[Output],
    variable: int | None = None,
) -> AffinePart:
    """A part of the loop, with tables for its operators whose names start with `letters`."""
    tables = tuple(
        (name, (loop.table(f"{letters}{name}", schema, STATE_OF_A_STEP), schema))
        for step in steps.values()
        for name, schema in step.state_tables
    )
    working = {place: step for place, step in steps.items() if not isinstance(step, ParamOp)}
    return AffinePart(working, inputs, variable, tuple(results), tables)
