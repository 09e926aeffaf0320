"""Elements of collections inside a row: by index, by key, in slices, and the first in order.

`elem(select … order by …)` and `(select … order by …)[0]` are the head beside the least keys.
Over the rows of a group this is a native `min`, whose state is a single row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlglot import exp

from incmrql.lower import tree
from incmrql.lower.context import Context
from incmrql.lower.expressions import arrays, linear, ranking
from incmrql.lower.expressions.collections import items_of, rows
from incmrql.lower.shapes import Cell, Env, GroupBag, NotNative, Parts
from incmrql.types import typed
from incmrql.types.model import BOOL, INT, Collection, Tuple


def first_of(expr: typed.Expr, env: Env, ctx: Context, *, present: bool) -> Cell | None:
    """The first element of an ordered query; None if the expression is not an ordered query.

    With `present`, the first element that is not null: a query with a limit has the same first
    element, but not necessarily the same first element that is not null.
    """
    if (
        not isinstance(expr, typed.Select)
        or not expr.order
        or not ranking.can_reverse(expr.order, ctx)
    ):
        return None
    if expr.group is not None or not _keeps_first(expr.limit, present=present):
        return None
    query = _without_null(replace(expr, limit=None)) if present else replace(expr, limit=None)
    return _first_of_group(query, env, ctx) or _first_of_array(query, env, ctx)


def _keeps_first(limit: typed.Expr | None, *, present: bool) -> bool:
    """Whether a query without the limit has the same first element."""
    match limit:
        case None:
            return True
        case typed.Const(int(number)):
            return number > 0 and not present
        case _:
            return False


def _without_null(query: typed.Select) -> typed.Select:
    """The query restricted to heads that are not null."""
    not_null = typed.Compare("=", query.head, query.head, type=BOOL)
    condition = (
        not_null if query.having is None else typed.Logic("and", query.having, not_null, type=BOOL)
    )
    return replace(query, having=condition)


def _first_of_group(query: typed.Select, env: Env, ctx: Context) -> Cell | None:
    """A native minimum beside the group's key."""
    first = query.qualifiers[0] if query.qualifiers else None
    if env.lambdas or not isinstance(first, typed.Generator):
        return None
    parts = (*[order.expr for order in query.order], query.head)
    pair = Tuple(tuple(part.type for part in parts))
    plain = replace(
        query,
        distinct=False,
        order=(),
        head=typed.MakeTuple(parts, type=pair),
        type=Collection("bag", pair),
    )
    many = linear.select_elements(plain, ctx.lower(first.domain, env, ctx), ctx)
    if not isinstance(many, GroupBag) or not isinstance(many.head, Parts):
        return None
    *keys, head = many.head.parts
    ranked = ranking.sort_tuple(query, keys, head, ctx)
    condition = tree.conjunction(many.tests)
    whole = ctx.whole(ranked)
    filtered = whole if condition is None else tree.case([(condition, whole)], None)
    least = many.side.aggregate_column(tree.call("min", filtered), "first", ctx)
    return Cell(ranking.last_part(least, ranked.type), query.head.type)


def _first_of_array(query: typed.Select, env: Env, ctx: Context) -> Cell:
    """The least of the ranked heads of an array."""
    type_ = ranking.sort_tuple_type(query, ctx)
    where = [typed.Condition(c) for c in (query.where, query.having) if c is not None]
    pairs: exp.Expression = rows(
        (*query.qualifiers, *where),
        lambda inner: ranking.lower_sort_tuple(query, inner, ctx),
        type_,
        env,
        ctx,
    )
    least = tree.call(arrays.function("array_min", ctx), pairs)
    return Cell(ranking.last_part(least, type_), query.head.type)


# --- By index, key and slice ---


MOST_IN_ROW: Final = 2**31
"""No array has more elements."""


def at(expr: typed.At, env: Env, ctx: Context) -> Cell:
    """`xs[i]`: null where there is no such element."""
    if not isinstance(expr.subject.type, Collection):
        raise NotNative("an index into a tree")
    constant = expr.index.value if isinstance(expr.index, typed.Const) else None
    if constant == 0:
        first = first_of(expr.subject, env, ctx, present=False)
        if first is not None:
            return first
    array, index = ctx.tree(expr.subject, env), ctx.tree(expr.index, env)
    if constant is not None and 0 <= constant < MOST_IN_ROW:
        return Cell(arrays.at(array, tree.number(constant), ctx), expr.type)
    position = tree.cast(
        _from_end(array, index, ctx), tree.type_text(INT, ctx.dialect), attempt=True
    )
    return Cell(arrays.at(array, position, ctx), expr.type)


def _from_end(array: exp.Expression, index: exp.Expression, ctx: Context) -> exp.Expression:
    """An index from the front; negative indexes count from the end."""
    behind = tree.binary(exp.Add, arrays.size(array, ctx), index)
    return tree.case([(tree.binary(exp.LT, index, tree.number(0)), behind)], index)


def look_up(expr: typed.LookUp, env: Env, ctx: Context) -> Cell:
    """The least of the values beside a key; null comes first."""
    key = expr.key
    if not isinstance(expr.subject.type, Collection):
        raise NotNative("a look-up in a tree")
    pair = typed.Variable("pair", -4, expr.subject.type.element)
    pair_key = typed.Item(typed.Var(pair, type=pair.type), 0, type=key.type)
    key_variable = typed.Variable("key", -5, key.type)
    same = typed.Compare("=", pair_key, typed.Var(key_variable, type=key.type), type=BOOL)
    inner = env.inside().bind(key_variable, Cell(ctx.tree(key, env), key.type))
    array = arrays.keep(
        items_of(expr.subject, env, ctx),
        lambda x: ctx.tree(same, inner.bind(pair, Cell(x, pair.type))),
        ctx,
    )
    values = arrays.transform(array, lambda x: tree.get(x, "_2"), ctx)
    sort_tuple = arrays.in_canonical_order(values, expr.type, ctx)
    return Cell(arrays.at(sort_tuple, tree.number(0), ctx), expr.type)


def slice_of(expr: typed.SliceOf, env: Env, ctx: Context) -> Cell:
    """`xs[i:j]`: the elements from one index to another, both included."""
    array = ctx.tree(expr.subject, env)
    zero, one = tree.number(0), tree.number(1)
    first, last = (_from_end(array, ctx.tree(end, env), ctx) for end in (expr.first, expr.last))
    start = tree.call("greatest", first, zero)
    end = tree.call("least", tree.binary(exp.Add, last, one), arrays.size(array, ctx))
    length = tree.call("greatest", tree.binary(exp.Sub, end, start), zero)
    all_present = tree.conjunction(
        [tree.not_null(array), tree.not_null(first), tree.not_null(last)]
    )
    assert all_present is not None
    ints = [tree.cast(n, "INT", attempt=True) for n in (tree.binary(exp.Add, start, one), length)]
    elements = tree.call(arrays.function("slice", ctx), array, *ints)
    return Cell(tree.case([(all_present, elements)], None), expr.type)
