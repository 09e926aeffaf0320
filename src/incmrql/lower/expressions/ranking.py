"""`order by` inside a row: tuples whose ascending order, null first, is the requested order.

Descending keys are reversed where that is exact, so that one native sort, or a native minimum,
handles several directions; null comes last then, and NaN first.
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


def reversed_key(key: Cell, ctx: Context) -> list[Cell] | None:
    """Cells whose ascending order is the descending order of a key; None if there are none."""
    value = key.tree
    if ctx.dialect is not Dialect.SPARK:
        return None
    null_last = Cell(tree.is_null(value), BOOL, present=True)
    match key.type:
        case type_ if type_ == BOOL:
            return [null_last, Cell(exp.Not(this=tree.parenthesize(value)), BOOL)]
        case type_ if is_integer(type_):
            return [null_last, Cell(_complement(value), type_)]
        case type_ if is_float(type_):
            not_nan = exp.Not(this=tree.call("isnan", value))
            return [null_last, Cell(not_nan, BOOL), Cell(_minus(value), type_)]
        case Decimal() as type_:
            return [null_last, Cell(_minus(value), type_)]
        case type_ if type_ == DATE:
            return [null_last, Cell(_complement(tree.call("unix_date", value)), INT)]
        case type_ if type_ == TIMESTAMP:
            return [null_last, Cell(_complement(tree.call("unix_micros", value)), LONG)]
        case _:
            return None


def _complement(value: exp.Expression) -> exp.Expression:
    """-x - 1, which exists for every integer (unlike -x)."""
    return exp.BitwiseNot(this=tree.parenthesize(value))


def _minus(value: exp.Expression) -> exp.Expression:
    return exp.Neg(this=tree.parenthesize(value))


def can_reverse(order: Sequence[typed.Order], ctx: Context) -> bool:
    """Whether all descending keys can be reversed."""
    probe = tree.null()
    return all(not o.descending or reversed_key(Cell(probe, o.expr.type), ctx) for o in order)


def sort_tuple(query: typed.Select, keys: Sequence[Shape], head: Shape, ctx: Context) -> Parts:
    """The keys, all for ascending order, and then the head; all in canonical form."""
    cells: list[Cell] = []
    for order, key in zip(query.order, keys, strict=True):
        canonical_key = _canonical(key, ctx)
        cells += (reversed_key(canonical_key, ctx) if order.descending else None) or [canonical_key]
    return _tuple([*cells, _canonical(head, ctx)])


def lower_plain_tuple(query: typed.Select, env: Env, ctx: Context) -> Parts:
    """The keys of a query, none reversed, and its head."""
    exprs = [*[order.expr for order in query.order], query.head]
    return _tuple([_canonical(ctx.lower(part, env, ctx), ctx) for part in exprs])


def lower_sort_tuple(query: typed.Select, env: Env, ctx: Context) -> Parts:
    """The keys of a query, for ascending order, and its head."""
    keys = [ctx.lower(order.expr, env, ctx) for order in query.order]
    return sort_tuple(query, keys, ctx.lower(query.head, env, ctx), ctx)


def sort_tuple_type(query: typed.Select, ctx: Context) -> Type:
    """The type of `sort_tuple`."""
    probes = [Cell(tree.null(), order.expr.type) for order in query.order]
    return sort_tuple(query, probes, Cell(tree.null(), query.head.type), ctx).type


def _canonical(shape: Shape, ctx: Context) -> Cell:
    return Cell(arrays.canonical(ctx.whole(shape), shape.type, ctx), shape.type)


def _tuple(cells: Sequence[Cell]) -> Parts:
    return Parts(tuple(cells), Tuple(tuple(cell.type for cell in cells)))


def last_part(pair: exp.Expression, type_: Type) -> exp.Expression:
    """The head: the last field of a sort tuple."""
    return tree.get(pair, tree.parts_of(type_)[-1][0])


def sort_by_comparison(pairs: exp.Expression, downward: list[bool], ctx: Context) -> exp.Expression:
    """Structs sorted by their fields, some of them descending; null is least."""
    left, right = ctx.fresh("left"), ctx.fresh("right")
    branches: list[tuple[exp.Expression, exp.Expression]] = []
    for field, down in enumerate(downward, 1):
        a, b = (tree.get(tree.column(side), f"_{field}") for side in (left, right))
        if down:
            a, b = b, a
        less = tree.binary(exp.LT, a, b)
        null_first = tree.conjunction([tree.is_null(a), tree.not_null(b)])
        more = tree.binary(exp.GT, a, b)
        null_second = tree.conjunction([tree.not_null(a), tree.is_null(b)])
        assert null_first is not None
        assert null_second is not None
        branches += [(test, tree.number(-1)) for test in (less, null_first)]
        branches += [(test, tree.number(1)) for test in (more, null_second)]
    body = tree.lambda_([left, right], tree.case(branches, tree.number(0)))
    return tree.call(arrays.function("array_sort", ctx), pairs, body)
