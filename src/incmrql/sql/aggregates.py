"""Aggregates: over the rows of a group as native aggregates, over an array as folds.

An aggregate whose operand goes through the rows of one group and nothing else is computed
where the group is formed.  Anything else first becomes an array.
"""

from __future__ import annotations

from sqlglot import exp

from incmrql.sql import arrays, sums, tree
from incmrql.sql.collections import array_of, items_of
from incmrql.sql.context import Context
from incmrql.sql.shapes import Cell, Env, Many, NotNative, Parts, Shape
from incmrql.sql.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import (
    BYTE,
    INT,
    NOTHING,
    SHORT,
    Collection,
    Decimal,
    Type,
    is_float,
    is_integer,
)

_NARROW = (BYTE, SHORT, INT)
_NATIVE = ("count", "sum", "avg", "min", "max", "some", "all", "first", "collect", "exists")


def aggregate(
    name: str,
    operand: typed.Expr,
    extra: typed.Expr | None,
    type_: Type,
    env: Env,
    ctx: Context,
) -> Shape:
    """An aggregate of a collection."""
    distinct = isinstance(operand, typed.Builtin) and operand.function == "distinct"
    if name == "count" and isinstance(operand, typed.Builtin) and distinct:
        inner = ctx.lower(operand.arguments[0], env, ctx)
        if isinstance(inner, Many):
            return _different(inner, type_, ctx)
    shape = ctx.lower(operand, env, ctx)
    if isinstance(shape, Many) and extra is None and name in _NATIVE:
        found = _of_group(name, shape, type_, ctx)
        if found is not None:
            return found
    if not isinstance(shape.type, Collection):
        raise NotNative("the elements of a tree")
    is_list = shape.type.kind == "list"
    array = array_of(shape, ctx)
    narrow = _is_narrow(operand)
    return _of_array(name, array, shape.type.element, type_, ctx, ordered=is_list, narrow=narrow)


def _is_narrow(operand: typed.Expr) -> bool:
    if not isinstance(operand, typed.Widen) or not isinstance(operand.operand.type, Collection):
        return False
    return operand.operand.type.element in _NARROW


def _of_group(name: str, linear: Many, type_: Type, ctx: Context) -> Shape | None:
    """A native aggregate beside the group's key; what it is without rows stands outside."""
    side, condition = linear.side, tree.conjunction(linear.tests)

    def want(aggregated: exp.Expression) -> exp.Expression:
        return side.want(aggregated, name, ctx)

    def kept(value: exp.Expression) -> exp.Expression:
        return value if condition is None else tree.case([(condition, value)], None)

    def total(f: sums.Of, _zero: exp.Expression) -> exp.Expression:
        return want(tree.call("sum", f(argument)))

    if name == "exists":
        rows = want(tree.call("count", kept(tree.number(1))))
        return Cell(_or(tree.binary(exp.GT, rows, tree.number(0)), tree.boolean(False)), type_, True)
    whole = ctx.whole(linear.head)
    argument = kept(whole)
    element = linear.head.type
    match name:
        case "count":
            present = isinstance(linear.head, Parts)
            counted = kept(tree.number(1)) if present else argument
            rows = want(tree.call("count", counted))
            return Cell(_or(rows, tree.number(0)), type_, present=True)
        case "min" | "max":
            return Cell(want(tree.call(name, arrays.canonical(argument, element, ctx))), type_)
        case "first":
            return Cell(want(tree.call("min", arrays.canonical(argument, element, ctx))), type_)
        case "some":
            return Cell(_or(want(tree.call("bool_or", argument)), tree.boolean(False)), type_, True)
        case "all":
            return Cell(_or(want(tree.call("bool_and", argument)), tree.boolean(True)), type_, True)
        case "collect":
            listed = want(tree.call("collect_list", argument))
            return Cell(_or(listed, arrays.empty(element, ctx)), type_, present=True)
        case _:
            number = want(tree.call("count", argument)) if name == "avg" else tree.null()
            return _sum(name, total, number, linear.head.type, type_, ctx, narrow=linear.narrow)


def _different(many: Many, type_: Type, ctx: Context) -> Cell:
    """The number of different elements that are not null."""
    whole = arrays.canonical(ctx.whole(many.head), many.head.type, ctx)
    condition = tree.conjunction(many.tests)
    kept = whole if condition is None else tree.case([(condition, whole)], None)
    if many.side.iterated:  # windows count no distinct values
        counted = tree.call("size", many.side.want(tree.call("collect_set", kept), "set", ctx))
        return Cell(_or(tree.cast(counted, "BIGINT"), sums.long(0)), type_, present=True)
    counted = tree.call("count", exp.Distinct(expressions=[kept]))
    return Cell(_or(many.side.want(counted, "count", ctx), sums.long(0)), type_, present=True)


def _or(value: exp.Expression, default: exp.Expression) -> exp.Expression:
    return tree.call("coalesce", value, default)


def _sum(
    name: str,
    total: sums.Total,
    number: exp.Expression,
    element: Type,
    type_: Type,
    ctx: Context,
    *,
    narrow: bool,
) -> Shape | None:
    """`sum` or `avg` from sums of what is made of each element."""
    some = tree.binary(exp.GT, number, tree.number(0))
    if is_float(element):
        if ctx.fast_sums:
            found = _or(total(lambda x: x, sums.double(0.0)), sums.double(0.0))
        else:
            parts = sums.parts(total, ctx.window, ctx)
            found = _or(sums.rounded(parts, ctx.window, ctx), sums.double(0.0))
        if name == "sum":
            return Cell(found, type_, present=True)
        mean = tree.binary(exp.Div, found, tree.cast(number, "DOUBLE"))
        return Cell(tree.case([(some, tree.binary(exp.Add, mean, sums.double(0.0)))], None), type_)
    if is_integer(element) or element == NOTHING:
        high, low = sums.integer_sum(total, narrow=narrow)
        if name == "avg":
            return Cell(sums.integer_mean(high, low, number), type_)
        if narrow:
            return Cell(_or(total(lambda x: tree.cast(x, "BIGINT"), sums.long(0)), sums.long(0)), type_)
        none = tree.is_null(high)
        return Cell(tree.case([(none, sums.long(0))], sums.as_long(high, low)), type_)
    if isinstance(element, Decimal) and element.precision <= 28 and name == "sum":
        found = total(lambda x: x, tree.null())
        zero = tree.cast(tree.number(0), tree.type_text(type_, ctx.dialect))
        kind = tree.type_text(type_, ctx.dialect)
        return Cell(_or(tree.cast(found, kind, attempt=True), zero), type_)
    return None


def _of_array(
    name: str,
    array: exp.Expression,
    element: Type,
    type_: Type,
    ctx: Context,
    *,
    ordered: bool,
    narrow: bool,
) -> Shape:
    """An aggregate of the elements of an array that is not null."""

    def present() -> exp.Expression:
        return arrays.keep(array, tree.not_null, ctx)

    def total(f: sums.Of, zero: exp.Expression) -> exp.Expression:
        return arrays.fold(present(), zero, lambda a, x: tree.binary(exp.Add, a, f(x)), ctx)

    match name:
        case "exists":
            some = tree.binary(exp.GT, arrays.size(array, ctx), tree.number(0))
            return Cell(some, type_, present=True)
        case "count":
            return Cell(arrays.size(present(), ctx), type_, present=True)
        case "collect":
            return Cell(present(), type_, present=True)
        case "first" if ordered:
            return Cell(arrays.at(present(), tree.number(0), ctx), type_)
        case "min" | "max" | "first":
            which = arrays.function("array_max" if name == "max" else "array_min", ctx)
            return Cell(tree.call(which, arrays.canonical_items(array, element, ctx)), type_)
        case "some":
            found = arrays.apply("exists", array, lambda x: x, ctx)
            return Cell(_or(found, tree.boolean(False)), type_, present=True)
        case "all":
            found = arrays.apply("forall", array, lambda x: x, ctx)
            return Cell(_or(found, tree.boolean(True)), type_, present=True)
        case "sum" | "avg" if ctx.dialect is Dialect.SPARK and not isinstance(element, Decimal):
            number = arrays.size(present(), ctx)
            summed = _sum(name, total, number, element, type_, ctx, narrow=narrow)
            if summed is not None:
                return summed
            raise NotNative(f"{name} of {element}")
        case _:
            raise NotNative(f"{name} of a collection in a row")


def user_aggregate(expr: typed.UserAggregate, env: Env, ctx: Context) -> Shape:
    """A user aggregation over an array, where its parts are native."""
    aggregation = ctx.script.aggregations[expr.aggregation]
    raise NotNative(f'user aggregation "{aggregation.name}"')


def fold(expr: typed.Fold, env: Env, ctx: Context) -> Shape:
    """A fold over an array in its order, or in canonical order for a bag."""
    operand = ctx.lower(expr.operand, env, ctx)
    if not isinstance(operand.type, Collection):
        raise NotNative("the elements of a tree")
    array, element = array_of(operand, ctx), operand.type.element
    if operand.type.kind == "bag":
        array = arrays.in_canonical_order(array, element, ctx)
    total, item = expr.function.parameters

    def step(so_far: exp.Expression, x: exp.Expression) -> exp.Expression:
        inner = env.inside().bind(total, Cell(so_far, total.type)).bind(item, Cell(x, element))
        return tree.cast(ctx.tree(expr.function.body, inner), kind)

    kind = tree.type_text(expr.type, ctx.dialect)
    zero = tree.cast(ctx.tree(expr.zero, env), kind)
    return Cell(arrays.fold(array, zero, step, ctx), expr.type)


__all__ = ["aggregate", "fold", "items_of", "user_aggregate"]
