"""Elements of collections by place, by key, and in slices."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from incmrql.sql import arrays, tree
from incmrql.sql.best import first_of
from incmrql.sql.collections import items_of
from incmrql.sql.context import Context
from incmrql.sql.shapes import Cell, Env, NotNative
from incmrql.types import typed
from incmrql.types.model import BOOL, INT, Collection

MOST_IN_ROW: Final = 2**31
"""Elements that no array has more of."""


def at(expr: typed.At, env: Env, ctx: Context) -> Cell:
    """`xs[i]`: null where there is no such element."""
    if not isinstance(expr.subject.type, Collection):
        raise NotNative("an index into a tree")
    known = expr.index.value if isinstance(expr.index, typed.Const) else None
    if known == 0:
        best = first_of(expr.subject, env, ctx, present=False)
        if best is not None:
            return best
    array, index = ctx.tree(expr.subject, env), ctx.tree(expr.index, env)
    if known is not None and 0 <= known < MOST_IN_ROW:
        return Cell(arrays.at(array, tree.number(known), ctx), expr.type)
    place = tree.cast(_from_end(array, index, ctx), tree.type_text(INT, ctx.dialect), attempt=True)
    return Cell(arrays.at(array, place, ctx), expr.type)


def _from_end(array: exp.Expression, index: exp.Expression, ctx: Context) -> exp.Expression:
    """A place counted from the front: negative ones count from the end."""
    behind = tree.binary(exp.Add, arrays.size(array, ctx), index)
    return tree.case([(tree.binary(exp.LT, index, tree.number(0)), behind)], index)


def look_up(expr: typed.LookUp, env: Env, ctx: Context) -> Cell:
    """The least of the values beside a key; null comes first."""
    key = expr.key
    if not isinstance(expr.subject.type, Collection):
        raise NotNative("a look-up in a tree")
    pair = typed.Variable("pair", -4, expr.subject.type.element)
    found = typed.Item(typed.Var(pair, type=pair.type), 0, type=key.type)
    wanted = typed.Variable("key", -5, key.type)
    same = typed.Compare("=", found, typed.Var(wanted, type=key.type), type=BOOL)
    inner = env.inside().bind(wanted, Cell(ctx.tree(key, env), key.type))
    array = arrays.keep(
        items_of(expr.subject, env, ctx),
        lambda x: ctx.tree(same, inner.bind(pair, Cell(x, pair.type))),
        ctx,
    )
    values = arrays.transform(array, lambda x: tree.get(x, "_2"), ctx)
    ranked = arrays.in_canonical_order(values, expr.type, ctx)
    return Cell(arrays.at(ranked, tree.number(0), ctx), expr.type)


def slice_of(expr: typed.SliceOf, env: Env, ctx: Context) -> Cell:
    """`xs[i:j]`: the elements from one place to another, both included."""
    array = ctx.tree(expr.subject, env)
    zero, one = tree.number(0), tree.number(1)
    first, last = (_from_end(array, ctx.tree(end, env), ctx) for end in (expr.first, expr.last))
    start = tree.call("greatest", first, zero)
    end = tree.call("least", tree.binary(exp.Add, last, one), arrays.size(array, ctx))
    length = tree.call("greatest", tree.binary(exp.Sub, end, start), zero)
    known = tree.conjunction([tree.not_null(array), tree.not_null(first), tree.not_null(last)])
    assert known is not None
    ints = [tree.cast(n, "INT", attempt=True) for n in (tree.binary(exp.Add, start, one), length)]
    cut = tree.call(arrays.function("slice", ctx), array, *ints)
    return Cell(tree.case([(known, cut)], None), expr.type)
