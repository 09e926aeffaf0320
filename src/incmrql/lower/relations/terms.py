"""Terms to SQL: each step is a named relation, and the query is one text.

A cMap becomes the SELECT that its body's shape says (`flows`): `{e}` columns, `if` a filter, a
generator over a collection of the row an explode.  Over a group (`joins`), generators become
joins, and everything else asks the group for aggregates (`builder.Side`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar, assert_never

from sqlglot import exp

from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Loop,
    Repeat,
    Scan,
    Shared,
    Sort,
    Term,
    Union,
    Values,
    element,
)
from incmrql.lower import tree
from incmrql.lower.expressions import arrays
from incmrql.lower.relations.builder import (
    LoweredRelation,
    RelationBuilder,
    copy_relation,
    same_structure,
    view,
)
from incmrql.lower.relations.flows import Flow, emit, select_rows
from incmrql.lower.relations.joins import lower_groups
from incmrql.lower.relations.picking import is_never_null, pick_steps
from incmrql.lower.shapes import Cell, Env, Parts, leaves, map_leaves, split
from incmrql.lower.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import Collection, Type

T = TypeVar("T", Scan, Values, Repeat)


def relation(term: Term, b: RelationBuilder) -> LoweredRelation:
    """A term as a relation."""
    match term:
        case Scan():
            name, size = _view_name(b.sources, term, "source"), b.ctx.size_of(term)
            view_ = view(name, element(term), b, packed=is_packed(term), size=size)
            return view_ if term.picks is None else _mark_present(view_, term)
        case Values():
            return view(_view_name(b.constants, term, "values"), element(term), b, packed=True)
        case Loop(variable):
            return copy_relation(b.loops[variable.number], b)
        case Shared(variable):
            if variable.number not in b.shared_relations:
                b.shared_relations[variable.number] = relation(b.shared[variable.number], b)
            return copy_relation(b.shared_relations[variable.number], b)
        case Repeat():
            return view(_view_name(b.repeats, term, "loop"), element(term), b, packed=True)
        case CMap():
            return _cmap(term, b)
        case GroupBy() | CoGroup():
            return _cmap(_groups_themselves(term), b)
        case Union(parts):
            return _union([relation(part, b) for part in parts], element(term), b)
        case Sort():
            return _sort(term, b)
        case _:
            assert_never(term)


def _view_name(views: list[tuple[str, T]], term: T, hint: str) -> str:
    """The name of a view: one for equal terms."""
    for name, existing in views:
        if existing == term:
            return name
    views.append((f"{hint}_{len(views) + 1}", term))
    return views[-1][0]


def may_hold_null(source: typed.Source) -> bool:
    """Whether a row of a source may be null itself, and so has to stay in one column."""
    return source.format in ("json", "python")


def is_packed(scan: Scan) -> bool:
    """Whether the rows of a scan are in one column."""
    return scan.picks is None and may_hold_null(scan.source)


def _mark_present(view_: LoweredRelation, scan: Scan) -> LoweredRelation:
    """A view of what is picked, with what is known never to be null."""
    parts = split(view_.row).parts
    names = [name for name, _ in tree.parts_of(scan.element)]
    cells = [
        replace(cell, present=is_never_null(scan, name)) if isinstance(cell, Cell) else cell
        for name, cell in zip(names, parts, strict=True)
    ]
    return replace(view_, row=Parts(tuple(cells), scan.element))


def _groups_themselves(term: GroupBy | CoGroup) -> CMap:
    variable = typed.Variable("group", -1, element(term))
    itself = typed.Var(variable, type=variable.type)
    body = typed.MakeCollection((itself,), type=Collection("bag", variable.type))
    return CMap(variable, body, term)


def _cmap(term: CMap, b: RelationBuilder) -> LoweredRelation:
    match term.source:
        case GroupBy(source):
            return lower_groups(term, [source], b)
        case CoGroup(left, right):
            return lower_groups(term, [left, right], b)
        case Scan() if (
            b.ctx.dialect is Dialect.SPARK and (picking := pick_steps(term, b.ctx)) is not None
        ):
            return _cmap(picking, b)
        case _:
            source_rows = relation(term.source, b)
            flow = Flow(
                Env({term.variable: source_rows.row}),
                [],
                size=source_rows.size,
                grouped=source_rows.grouped,
            )
            flow.present |= set(source_rows.present)
            head = emit(term.body, flow.env, flow, b)
            return select_rows(head, exp.to_table(source_rows.name), flow, b)


def _union(parts: list[LoweredRelation], type_: Type, b: RelationBuilder) -> LoweredRelation:
    """The rows of several relations, in the same columns."""
    rows = [part.row for part in parts]
    if any(not same_structure(rows[0], row) for row in rows[1:]):
        rows = [Cell(b.ctx.whole(row), type_) for row in rows]
    first = list(leaves(rows[0]))
    names = [b.ctx.fresh(_hint(cell)) for cell in first]
    whole: exp.Expression | None = None
    for part, row in zip(parts, rows, strict=True):
        cells = [exp.alias_(cell.tree, name) for cell, name in zip(leaves(row), names, strict=True)]
        select = exp.select(*(cells or [exp.alias_(tree.boolean(True), "unit0")])).from_(part.name)
        whole = select if whole is None else exp.Union(
            this=whole, expression=select, distinct=False
        )  # fmt: skip
    assert whole is not None
    columns = iter(names)
    row = map_leaves(lambda cell: Cell(tree.column(next(columns)), cell.type), rows[0])
    return LoweredRelation(b.define(whole), row)


def _hint(cell: Cell) -> str:
    return cell.tree.name if isinstance(cell.tree, exp.Column) else "c"


def _sort(term: Sort, b: RelationBuilder) -> LoweredRelation:
    source = relation(term.source, b)
    pair = split(source.row)
    value = pair.parts[1]
    columns = list(leaves(value))
    select = exp.select(*[cell.tree for cell in columns] or [tree.boolean(True)])
    select = select.from_(source.name)
    if term.limit is not None:
        select = select.order_by(*order_of(term, source, b))
        select = select.limit(limit_of(term.limit, b))
    return LoweredRelation(b.define(select), value, source.present)


def order_of(term: Sort, source: LoweredRelation, b: RelationBuilder) -> list[exp.Expression]:
    """The sort keys, then the value in canonical order."""
    key, value = split(source.row).parts
    keys = split(key).parts
    order: list[exp.Expression] = []
    for shape, down in zip(keys, term.descending, strict=True):
        order += [_order_item(cell, b, down=down) for cell in leaves(shape)]
    order += [_order_item(cell, b, down=False) for cell in leaves(value)]
    return order


def _order_item(cell: Cell, b: RelationBuilder, *, down: bool) -> exp.Expression:
    value = arrays.canonical(cell.tree, cell.type, b.ctx)
    return exp.Ordered(this=value, desc=down, nulls_first=not down)


def limit_of(limit: typed.Expr, b: RelationBuilder) -> exp.Expression:
    """How many rows a limit leaves: none where it is null or negative."""
    if not b.ctx.can_evaluate(limit):
        return b.ctx.tree(limit, Env())
    return tree.number(max(b.ctx.constant_value(limit) or 0, 0))
