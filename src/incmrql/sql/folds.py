"""Aggregates and folds over a collection inside a row."""

from __future__ import annotations

from sqlglot import exp

from incmrql.sql import arrays, sums, tree
from incmrql.sql.collections import array_of
from incmrql.sql.context import Context
from incmrql.sql.rounding import integer_mean
from incmrql.sql.shapes import Cell, Env, NotNative, Shape
from incmrql.sql.summing import Summing, or_else
from incmrql.sql.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import LONG, Collection, Decimal, Type, is_float, is_integer


def aggregate(
    name: str, shape: Shape, extra: typed.Expr | None, type_: Type, ctx: Context
) -> Shape:
    """An aggregate of the elements of an array; null counts as empty."""
    if not isinstance(shape.type, Collection):
        raise NotNative("the elements of a tree")
    if extra is not None:
        raise NotNative(f"{name} of a collection in a row")
    element = shape.type.element
    array = array_of(shape, ctx)
    present = arrays.keep(array, tree.not_null, ctx)
    match name:
        case "exists":
            some = tree.binary(exp.GT, arrays.size(array, ctx), tree.number(0))
            return Cell(some, type_, present=True)
        case "count":
            return Cell(arrays.size(present, ctx), type_, present=True)
        case "collect":
            return Cell(present, type_, present=True)
        case "first" if shape.type.kind == "list":
            return Cell(arrays.at(present, tree.number(0), ctx), type_)
        case "min" | "max" | "first":
            which = arrays.function("array_max" if name == "max" else "array_min", ctx)
            return Cell(tree.call(which, arrays.canonical_items(array, element, ctx)), type_)
        case "some" | "all":
            test = "exists" if name == "some" else "forall"
            found = arrays.apply(test, array, lambda x: x, ctx)
            return Cell(or_else(found, tree.boolean(name == "all")), type_, present=True)
        case "sum" | "avg":
            return _sum(name, present, element, type_, ctx)
        case "median":
            return Cell(_median(present, element, ctx), type_)
        case _:
            raise NotNative(f"{name} of a collection in a row")


def _sum(name: str, present: exp.Expression, element: Type, type_: Type, ctx: Context) -> Shape:
    """An exact sum, by one fold for each of its parts."""
    if ctx.dialect is not Dialect.SPARK or isinstance(element, Decimal):
        raise NotNative(f"{name} of {element} in a row")

    def total(f: sums.Of, zero: exp.Expression) -> exp.Expression:
        return arrays.fold(present, zero, lambda a, x: tree.binary(exp.Add, a, f(x)), ctx)

    found = Summing(total, arrays.size(present, ctx), element, narrow=False).result(
        name, type_, ctx
    )
    if found is None:
        raise NotNative(f"{name} of {element} in a row")
    return found


def _median(present: exp.Expression, element: Type, ctx: Context) -> exp.Expression:
    """The middle value, or the mean of the two, rounded once."""
    if not (is_float(element) or is_integer(element)):
        raise NotNative(f"median of {element} in a row")
    in_line = tree.call(arrays.function("sort_array", ctx), present)
    size = tree.call(arrays.function("size", ctx), present)
    places = [tree.binary(exp.Sub, size, tree.number(1)), size]
    halves = [exp.IntDiv(this=tree.wrapped(place), expression=tree.number(2)) for place in places]
    low, high = (arrays.at(in_line, tree.cast(half, "INT"), ctx) for half in halves)
    if element == LONG:
        both = [tree.cast(each, "DECIMAL(38, 0)") for each in (low, high)]
        return integer_mean(tree.binary(exp.Add, both[0], both[1]), sums.long(2))
    two = sums.double(2.0)
    low, high = (tree.cast(each, "DOUBLE") for each in (low, high))
    sum_ = tree.binary(exp.Add, low, high)
    apart = tree.binary(exp.Add, tree.binary(exp.Div, low, two), tree.binary(exp.Div, high, two))
    large = tree.binary(exp.GT, tree.call("abs", sum_), sums.double(1e308))
    return tree.case([(large, apart)], tree.binary(exp.Div, sum_, two))


def user_aggregate(expr: typed.UserAggregate, env: Env, ctx: Context) -> Shape:
    """A user aggregation: its merge over what its unit makes of each element."""
    aggregation = ctx.script.aggregations[expr.aggregation]
    operand = ctx.lower(expr.operand, env, ctx)
    array, element = _in_order(operand, ctx)
    present = arrays.keep(array, tree.not_null, ctx)
    kind = tree.type_text(expr.type, ctx.dialect)
    inside = Env(lambdas=True)

    def step(so_far: exp.Expression, x: exp.Expression) -> exp.Expression:
        one: Shape = Cell(x, element)
        if aggregation.unit is not None:
            (parameter,) = aggregation.unit.parameters
            one = ctx.lower(aggregation.unit.body, inside.bind(parameter, one), ctx)
        left, right = aggregation.merge.parameters
        inner = inside.bind(left, Cell(so_far, left.type)).bind(right, one)
        return tree.cast(ctx.tree(aggregation.merge.body, inner), kind)

    zero = tree.cast(ctx.tree(aggregation.zero, Env(lambdas=env.lambdas)), kind)
    return Cell(arrays.fold(present, zero, step, ctx), expr.type)


def fold(expr: typed.Fold, env: Env, ctx: Context) -> Shape:
    """A fold over the elements in their order, a bag's in canonical order."""
    array, element = _in_order(ctx.lower(expr.operand, env, ctx), ctx)
    total, item = expr.function.parameters
    kind = tree.type_text(expr.type, ctx.dialect)

    def step(so_far: exp.Expression, x: exp.Expression) -> exp.Expression:
        inner = env.inside().bind(total, Cell(so_far, total.type)).bind(item, Cell(x, element))
        return tree.cast(ctx.tree(expr.function.body, inner), kind)

    zero = tree.cast(ctx.tree(expr.zero, env), kind)
    return Cell(arrays.fold(array, zero, step, ctx), expr.type)


def _in_order(shape: Shape, ctx: Context) -> tuple[exp.Expression, Type]:
    """The elements in the order in which folds take them, and their type."""
    if not isinstance(shape.type, Collection):
        raise NotNative("the elements of a tree")
    array, element = array_of(shape, ctx), shape.type.element
    if shape.type.kind == "bag":
        array = arrays.in_canonical_order(array, element, ctx)
    return array, element
