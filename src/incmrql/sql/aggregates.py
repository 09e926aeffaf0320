"""Aggregates over the rows of a group: native, where the group is formed.

An aggregate whose operand goes through the rows of one group and nothing else is a native
aggregate beside the group's key.  Any other is a fold over an array (`folds`).
"""

from __future__ import annotations

from sqlglot import exp

from incmrql.sql import arrays, folds, spreads, sums, tree
from incmrql.sql.best import first_of
from incmrql.sql.context import WIDE, Context
from incmrql.sql.rounding import OUTSIDE, integer_mean, mean_of, narrow_mean, rounded
from incmrql.sql.shapes import Cell, Env, Many, NotNative, Parts, Shape
from incmrql.sql.summing import Summing, or_else
from incmrql.types import typed
from incmrql.types.model import LONG, Decimal, Type

_SUMS = ("sum", "avg", "sum#part")
_OF_PARTS = ("sum#total", "avg#total")


def aggregate(
    name: str,
    operand: typed.Expr,
    extra: typed.Expr | None,
    type_: Type,
    env: Env,
    ctx: Context,
) -> Shape:
    """An aggregate of a collection."""
    if name == "count" and isinstance(operand, typed.Builtin) and operand.function == "distinct":
        inner = ctx.lower(operand.arguments[0], env, ctx)
        if isinstance(inner, Many):
            return _different(inner, type_, ctx)
    if name == "first":
        best = first_of(operand, env, ctx, present=True)
        if best is not None:
            return best
    shape = ctx.lower(operand, env, ctx)
    if isinstance(shape, Many) and extra is None:
        if name in spreads.NAMES and env.lambdas:
            raise NotNative(f"{name} of a group for every element")
        found = _of_group(name, shape, type_, ctx)
        if found is not None:
            return found
    return folds.aggregate(name, shape, extra, type_, ctx)


def _kept(many: Many, value: exp.Expression) -> exp.Expression:
    """A value for the rows that a bag keeps, null for the others."""
    condition = tree.conjunction(many.tests)
    return value if condition is None else tree.case([(condition, value)], None)


def _of_group(name: str, many: Many, type_: Type, ctx: Context) -> Shape | None:
    """A native aggregate beside the group's key; what it is without rows stands outside."""

    def want(aggregated: exp.Expression) -> exp.Expression:
        return many.side.want(aggregated, name, ctx)

    if name == "exists":
        rows = want(tree.call("count", _kept(many, tree.number(1))))
        some = tree.binary(exp.GT, rows, tree.number(0))
        return Cell(or_else(some, tree.boolean(False)), type_, present=True)
    if name in _OF_PARTS:
        return _of_parts(name, many, type_, ctx)
    element = many.head.type
    argument = _kept(many, ctx.whole(many.head))
    match name:
        case "count":
            head = many.head
            there = isinstance(head, Parts) or (isinstance(head, Cell) and head.present)
            counted = _kept(many, tree.number(1)) if there else argument
            return Cell(or_else(want(tree.call("count", counted)), sums.long(0)), type_, True)
        case "min" | "max":
            return Cell(want(tree.call(name, arrays.canonical(argument, element, ctx))), type_)
        case "first":
            return Cell(want(tree.call("min", arrays.canonical(argument, element, ctx))), type_)
        case "some" | "all":
            test = want(tree.call("bool_or" if name == "some" else "bool_and", argument))
            return Cell(or_else(test, tree.boolean(name == "all")), type_, present=True)
        case "collect":
            listed = want(tree.call("collect_list", argument))
            return Cell(or_else(listed, arrays.empty(element, ctx)), type_, present=True)
        case _ if name in _SUMS:
            number = want(tree.call("count", argument)) if name == "avg" else tree.null()
            narrow = isinstance(many.head, Cell) and many.head.narrow
            summing = Summing(
                lambda f, _: want(tree.call("sum", f(argument))),
                number,
                element,
                narrow,
                lambda values: many.side.derive(values, "sum", ctx),
            )
            return summing.result(name, type_, ctx)
        case _ if name in spreads.NAMES:
            return spreads.spread(
                name,
                argument,
                element,
                lambda value: want(tree.call("sum", value)),
                lambda value: many.side.prepare(value, name, ctx),
                ctx,
            )
        case _:
            return None


def _different(many: Many, type_: Type, ctx: Context) -> Cell:
    """The number of different elements that are not null."""
    kept = _kept(many, arrays.canonical(ctx.whole(many.head), many.head.type, ctx))
    if many.side.iterated:  # windows count no distinct values
        counted = tree.call("size", many.side.want(tree.call("collect_set", kept), "set", ctx))
        return Cell(or_else(tree.cast(counted, "BIGINT"), sums.long(0)), type_, present=True)
    counted = tree.call("count", exp.Distinct(expressions=[kept]))
    return Cell(or_else(many.side.want(counted, "count", ctx), sums.long(0)), type_, present=True)


def _of_parts(name: str, many: Many, type_: Type, ctx: Context) -> Shape | None:
    """A sum or average of sums that were made below a join, each taken several times."""
    if not isinstance(many.head, Parts) or many.tests:
        return None
    part, *rest = many.head.parts
    counts = [ctx.whole(each) for each in rest]
    weight = counts[-1]

    def total(value: exp.Expression) -> exp.Expression:
        return many.side.want(tree.call("sum", value), "sum", ctx)

    number = total(tree.binary(exp.Mul, counts[0], weight)) if name == "avg#total" else None
    if isinstance(part, Parts) and len(part.parts) == 1:  # Spark's own sum
        plain = total(tree.binary(exp.Mul, ctx.whole(part.parts[0]), weight))
        found = or_else(plain, sums.double(0.0))
        return Cell(found if number is None else mean_of(found, number), type_)
    if isinstance(part, Parts):
        summed = sums.Summed.of([ctx.whole(each) for each in part.parts])
        merge = sums.wide_times if ctx.window is WIDE else sums.times
        merged = merge(total, summed, weight)
        found = rounded(merged, ctx.window, lambda values: many.side.derive(values, "sum", ctx))
        found = or_else(found, sums.double(0.0))
        if number is None:
            return Cell(found, type_, present=True)
        return Cell(mean_of(found, number), type_)
    if part.type == LONG and ctx.window is not WIDE:  # a count, or a sum of 32-bit integers
        whole = or_else(total(tree.binary(exp.Mul, ctx.whole(part), weight)), sums.long(0))
        size = total(tree.binary(exp.Mul, _size(ctx.whole(part)), weight))
        if number is None:
            return Cell(_unless_large(size, whole), type_, present=True)
        return Cell(_unless_large(size, narrow_mean(whole, number, ctx)), type_)
    if part.type == LONG:
        part = Cell(tree.cast(ctx.whole(part), "DECIMAL(19, 0)"), Decimal(19, 0))
    if not isinstance(part.type, Decimal) or part.type.scale or isinstance(type_, Decimal):
        return None
    product = tree.binary(exp.Mul, ctx.whole(part), tree.cast(weight, "DECIMAL(19, 0)"))
    whole = total(tree.cast(product, "DECIMAL(38, 0)"))
    if number is not None:
        return Cell(integer_mean(whole, number), type_)
    zero = tree.cast(tree.number(0), "DECIMAL(38, 0)")
    return Cell(tree.cast(or_else(whole, zero), "BIGINT", attempt=True), type_)


def _size(value: exp.Expression) -> exp.Expression:
    return tree.call("abs", tree.cast(value, "DOUBLE"))


def _unless_large(size: exp.Expression, result: exp.Expression) -> exp.Expression:
    """What a sum of longs gives, unless it may not fit a long: then it is done in 38 digits."""
    large = tree.binary(exp.GTE, size, sums.double(2.0**62))
    return tree.case([(large, tree.call("raise_error", tree.text(OUTSIDE)))], result)
