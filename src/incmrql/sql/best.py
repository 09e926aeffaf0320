"""The first element of an ordered query inside a row: a minimum, and no sort.

`elem(select … order by …)` and `(select … order by …)[0]` are the head beside the least keys.
Over the rows of a group that is a native aggregate, whose state is one row.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from incmrql.sql import arrays, linear, ranking, tree
from incmrql.sql.collections import rows
from incmrql.sql.context import Context
from incmrql.sql.shapes import Cell, Env, Many, Parts
from incmrql.types import typed
from incmrql.types.model import BOOL, Collection, Tuple


def first_of(expr: typed.Expr, env: Env, ctx: Context, *, present: bool) -> Cell | None:
    """The first element of an ordered query, or the first that is `present`; None if it is not one.

    A query with a limit has the same first element, but not the same first one that is present.
    """
    if (
        not isinstance(expr, typed.Select)
        or not expr.order
        or not ranking.can_turn(expr.order, ctx)
    ):
        return None
    if expr.group is not None or not _leaves_one(expr.limit, present=present):
        return None
    query = _without_null(replace(expr, limit=None)) if present else replace(expr, limit=None)
    return _of_group(query, env, ctx) or _of_row(query, env, ctx)


def _leaves_one(limit: typed.Expr | None, *, present: bool) -> bool:
    """Whether the first element is still the first under a limit."""
    match limit:
        case None:
            return True
        case typed.Const(int(number)):
            return number > 0 and not present
        case _:
            return False


def _without_null(query: typed.Select) -> typed.Select:
    """A query whose heads are not null."""
    known = typed.Compare("=", query.head, query.head, type=BOOL)
    kept = known if query.having is None else typed.Logic("and", query.having, known, type=BOOL)
    return replace(query, having=kept)


def _of_group(query: typed.Select, env: Env, ctx: Context) -> Cell | None:
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
    many = linear.selected(plain, ctx.lower(first.domain, env, ctx), ctx)
    if not isinstance(many, Many) or not isinstance(many.head, Parts):
        return None
    *keys, head = many.head.parts
    made = ranking.ranked(query, keys, head, ctx)
    condition = tree.conjunction(many.tests)
    whole = ctx.whole(made)
    kept = whole if condition is None else tree.case([(condition, whole)], None)
    least = many.side.want(tree.call("min", kept), "first", ctx)
    return Cell(ranking.last_part(least, made.type), query.head.type)


def _of_row(query: typed.Select, env: Env, ctx: Context) -> Cell:
    """The least of the ranked heads of an array."""
    type_ = ranking.ranked_type(query, ctx)
    where = [typed.Condition(c) for c in (query.where, query.having) if c is not None]
    made: exp.Expression = rows(
        (*query.qualifiers, *where),
        lambda inner: ranking.lowered(query, inner, ctx),
        type_,
        env,
        ctx,
    )
    least = tree.call(arrays.function("array_min", ctx), made)
    return Cell(ranking.last_part(least, type_), query.head.type)
