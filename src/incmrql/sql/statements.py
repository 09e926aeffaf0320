"""A term as one SQL text, with all that an engine needs to run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlglot import exp

from incmrql.algebra.term import Repeat, Scan, Sort, Term, Values, element
from incmrql.sql import tree
from incmrql.sql.builder import Builder, columns_of
from incmrql.sql.carrying import Sources, carried
from incmrql.sql.context import Context, PythonPlace
from incmrql.sql.groups import Relation
from incmrql.sql.merging import merged
from incmrql.sql.picking import without
from incmrql.sql.relations import limit_of, order_of, relation
from incmrql.sql.rounding import in_place
from incmrql.sql.shapes import Cell, Parts, Shape, leaves, map_leaves, split
from incmrql.sql.tree import Dialect
from incmrql.sql.unused import columns_from, pruned
from incmrql.types.model import Type

Form: TypeAlias = Literal["rows", "packed", "flat"]
"""How rows are given: `rows` a column for each field of a record that is never null, else one
`value`; `packed` always that one; `flat` the columns that the lowering keeps them in."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL text, and the views and Python functions that it names."""

    text: str
    element: Type
    row: Shape
    """What a row is in the columns of the result."""
    sources: tuple[tuple[str, Scan], ...]
    constants: tuple[tuple[str, Values], ...]
    repeats: tuple[tuple[str, Repeat], ...]
    places: tuple[PythonPlace, ...]


def statement(
    term: Term,
    ctx: Context,
    shared: Mapping[int, Term] | None = None,
    loops: Mapping[int, Relation] | None = None,
    form: Form = "rows",
    *,
    by_key: bool = False,
) -> Statement:
    """The text of a term.

    `shared` are the terms that it names, `loops` the views of the variables of loops around it;
    with `by_key`, pairs lie together that have the same key.
    """
    builder = Builder(ctx, relation, loops=loops or {}, shared=shared or {})
    if isinstance(term, Sort) and term.ordered:
        source = relation(term.source, builder)
        row = split(source.row).parts[1]
        final, shown = _columns(row, element(term), ctx, form)
        final = final.from_(source.name).order_by(*order_of(term, source, builder))
        if term.limit is not None:
            final = final.limit(limit_of(term.limit, builder))
    else:
        source = relation(term, builder)
        final, shown = _columns(source.row, element(term), ctx, form)
        final = final.from_(source.name)
    if by_key:
        _distribute(final, source)
    relations, final = merged(builder.relations, final)
    sources: Sources = builder.sources
    if ctx.dialect is Dialect.SPARK:
        relations, final, sources = carried(relations, final, ctx.places, sources, ctx.fresh)
    if any(scan.picks for _, scan in sources):
        relations = pruned(relations, final)
        selects = [*(select for _, select in relations), final]
        sources = [(name, _less(name, scan, selects)) for name, scan in sources]
    for name, select in relations:
        final = final.with_(name, as_=select, copy=False)
    text = tree.print_tree(in_place(final), ctx.dialect, pretty=True)
    used = tuple(place for place in ctx.places if f"{place.name}(" in text)
    return Statement(
        text,
        element(term),
        shown,
        tuple(sources),
        tuple(builder.constants),
        tuple(builder.repeats),
        used,
    )


def _columns(row: Shape, type_: Type, ctx: Context, form: Form) -> tuple[exp.Select, Shape]:
    """The columns that a row is given as, and what it is in them."""
    columns = columns_of(type_)
    if form == "flat":
        cells = list(leaves(row))
        named = [f"c{place}" for place in range(1, len(cells) + 1)]
        chosen = [exp.alias_(cell.tree, n) for cell, n in zip(cells, named, strict=True)]
        names = iter(named)
        shown = map_leaves(lambda cell: Cell(tree.column(next(names)), cell.type), row)
        return exp.select(*chosen or [exp.alias_(tree.boolean(True), "c0")]), shown
    if form == "packed" or columns == (("value", type_),) or not isinstance(row, Parts):
        whole = exp.alias_(ctx.whole(row), "value", quoted=True)
        return exp.select(whole), Cell(tree.column("value"), type_)
    chosen = [
        exp.alias_(ctx.whole(part), name, quoted=True)
        for part, (name, _) in zip(row.parts, columns, strict=True)
    ]
    shown = Parts(tuple(Cell(tree.column(name), part) for name, part in columns), type_)
    return exp.select(*chosen), shown


def _less(view: str, scan: Scan, selects: list[exp.Expression]) -> Scan:
    """A scan without what it picks and no relation asks for."""
    if scan.picks is None:
        return scan
    return without(scan, {name for name, _ in scan.picks.fields} - columns_from(view, selects))


def _distribute(final: exp.Select, source: Relation) -> None:
    key = list(leaves(split(source.row).parts[0]))
    if key:
        by = exp.Distribute(expressions=[cell.tree.copy() for cell in key])
        final.set("distribute", by)


def view(name: str, row: Shape, size: int | None) -> Relation:
    """A view whose columns hold rows of a shape."""
    return Relation(name, row, size=size)
