"""A term as one SQL text, with all that an engine needs to run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from incmrql.algebra.term import Repeat, Scan, Sort, Term, Values, element
from incmrql.sql import tree
from incmrql.sql.context import Context, PythonPlace
from incmrql.sql.relations import Builder, columns_of, order_of, relation
from incmrql.sql.shapes import Parts, Shape, leaves, split
from incmrql.types.model import Type


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL text, and the views and Python functions that it names.

    Its columns are the fields of a record element, or one `value`.
    """

    text: str
    element: Type
    sources: tuple[tuple[str, Scan], ...]
    constants: tuple[tuple[str, Values], ...]
    repeats: tuple[tuple[str, Repeat], ...]
    places: tuple[PythonPlace, ...]


def statement(
    term: Term,
    ctx: Context,
    shared: Mapping[int, Term] | None = None,
    loops: dict[int, str] | None = None,
) -> Statement:
    """The text of a term.

    `shared` are the terms that it names, `loops` the views of the variables of loops around it.
    """
    builder = Builder(ctx, loops=loops or {}, shared=shared or {})
    if isinstance(term, Sort) and term.ordered:
        source = relation(term.source, builder)
        row: Shape = split(source.row, ctx.dialect).parts[1]
        final = _columns(row, element(term), ctx).from_(source.name)
        final = final.order_by(*order_of(term, source, builder))
        if term.limit is not None:
            from incmrql.sql.relations import limit_of

            final = final.limit(tree.number(limit_of(term.limit, builder)))
    else:
        source = relation(term, builder)
        final = _columns(source.row, element(term), ctx).from_(source.name)
    for name, select in builder.relations:
        final = final.with_(name, as_=select, copy=False)
    text = tree.print_tree(final, ctx.dialect, pretty=True)
    used = tuple(place for place in ctx.places if f"{place.name}(" in text)
    return Statement(
        text,
        element(term),
        tuple(builder.sources),
        tuple(builder.constants),
        tuple(builder.repeats),
        used,
    )


def _columns(row: Shape, type_: Type, ctx: Context) -> exp.Select:
    """The columns that a row is given as."""
    columns = columns_of(type_)
    if columns == (("value", type_),) or not isinstance(row, Parts):
        return exp.select(exp.alias_(ctx.whole(row), "value", quoted=True))
    parts = split(row, ctx.dialect).parts
    chosen = [
        exp.alias_(ctx.whole(part), name, quoted=True)
        for part, (name, _) in zip(parts, columns, strict=True)
    ]
    return exp.select(*chosen)


__all__ = ["Parts", "Statement", "leaves", "statement"]
