"""`order by` inside a row: keys as values whose ascending order, null first, is the order wanted.

Downward keys are turned where that is exact, so that one native sort, or a native minimum, does
what several directions ask for; null is last then, and NaN first.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from incmrql.lower import tree
from incmrql.lower.context import Context
from incmrql.lower.expressions import arrays
from incmrql.lower.shapes import Cell, Env, Parts, Shape
from incmrql.lower.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import (
    BOOL,
    DATE,
    INT,
    LONG,
    TIMESTAMP,
    Decimal,
    Tuple,
    Type,
    is_float,
    is_integer,
)


def turned(key: Cell, ctx: Context) -> list[Cell] | None:
    """What is in ascending order when a key is in descending order; None where nothing is."""
    found = key.tree
    if ctx.dialect is not Dialect.SPARK:
        return None
    last = Cell(tree.is_null(found), BOOL, present=True)
    match key.type:
        case type_ if type_ == BOOL:
            return [last, Cell(exp.Not(this=tree.wrapped(found)), BOOL)]
        case type_ if is_integer(type_):
            return [last, Cell(_complement(found), type_)]
        case type_ if is_float(type_):
            number = exp.Not(this=tree.call("isnan", found))
            return [last, Cell(number, BOOL), Cell(_minus(found), type_)]
        case Decimal() as type_:
            return [last, Cell(_minus(found), type_)]
        case type_ if type_ == DATE:
            return [last, Cell(_complement(tree.call("unix_date", found)), INT)]
        case type_ if type_ == TIMESTAMP:
            return [last, Cell(_complement(tree.call("unix_micros", found)), LONG)]
        case _:
            return None


def _complement(value: exp.Expression) -> exp.Expression:
    """-x - 1, which every integer has."""
    return exp.BitwiseNot(this=tree.wrapped(value))


def _minus(value: exp.Expression) -> exp.Expression:
    return exp.Neg(this=tree.wrapped(value))


def can_turn(order: Sequence[typed.Order], ctx: Context) -> bool:
    """Whether all keys can be in ascending order."""
    probe = tree.null()
    return all(not o.descending or turned(Cell(probe, o.expr.type), ctx) for o in order)


def ranked(query: typed.Select, keys: Sequence[Shape], head: Shape, ctx: Context) -> Parts:
    """The keys, all to be in ascending order, and then the head; all in canonical form."""
    cells: list[Cell] = []
    for order, key in zip(query.order, keys, strict=True):
        own = _canonical(key, ctx)
        cells += (turned(own, ctx) if order.descending else None) or [own]
    return _tuple([*cells, _canonical(head, ctx)])


def as_they_are(query: typed.Select, env: Env, ctx: Context) -> Parts:
    """The keys and the head of a query."""
    exprs = [*[order.expr for order in query.order], query.head]
    return _tuple([_canonical(ctx.lower(each, env, ctx), ctx) for each in exprs])


def lowered(query: typed.Select, env: Env, ctx: Context) -> Parts:
    """The keys of a query, turned upward, and its head."""
    keys = [ctx.lower(order.expr, env, ctx) for order in query.order]
    return ranked(query, keys, ctx.lower(query.head, env, ctx), ctx)


def ranked_type(query: typed.Select, ctx: Context) -> Type:
    """The type of `ranked`."""
    probes = [Cell(tree.null(), order.expr.type) for order in query.order]
    return ranked(query, probes, Cell(tree.null(), query.head.type), ctx).type


def _canonical(shape: Shape, ctx: Context) -> Cell:
    return Cell(arrays.canonical(ctx.whole(shape), shape.type, ctx), shape.type)


def _tuple(cells: Sequence[Cell]) -> Parts:
    return Parts(tuple(cells), Tuple(tuple(cell.type for cell in cells)))


def last_part(pair: exp.Expression, type_: Type) -> exp.Expression:
    """The head of what was ranked."""
    return tree.get(pair, tree.parts_of(type_)[-1][0])


def compared(pairs: exp.Expression, downward: list[bool], ctx: Context) -> exp.Expression:
    """Structs by their parts, some of them downward; null is least."""
    left, right = ctx.fresh("left"), ctx.fresh("right")
    branches: list[tuple[exp.Expression, exp.Expression]] = []
    for place, down in enumerate(downward, 1):
        a, b = (tree.get(tree.column(side), f"_{place}") for side in (left, right))
        if down:
            a, b = b, a
        less = tree.binary(exp.LT, a, b)
        nothing = tree.conjunction([tree.is_null(a), tree.not_null(b)])
        more = tree.binary(exp.GT, a, b)
        something = tree.conjunction([tree.not_null(a), tree.is_null(b)])
        assert nothing is not None
        assert something is not None
        branches += [(test, tree.number(-1)) for test in (less, nothing)]
        branches += [(test, tree.number(1)) for test in (more, something)]
    body = tree.lambda_([left, right], tree.case(branches, tree.number(0)))
    return tree.call(arrays.function("array_sort", ctx), pairs, body)
