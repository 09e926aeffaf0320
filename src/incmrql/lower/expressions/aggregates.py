"""Aggregates and folds: over a collection inside a row, or native over the rows of a group.

An aggregate whose operand goes through the rows of one group and nothing else is a native
aggregate beside the group's key.  Any other is a fold over an array.
"""

from __future__ import annotations

from sqlglot import exp

from incmrql.lower import tree
from incmrql.lower.context import WIDE, Context
from incmrql.lower.expressions import arrays
from incmrql.lower.expressions.access import first_of
from incmrql.lower.expressions.collections import array_of
from incmrql.lower.shapes import Cell, Env, Many, NotNative, Parts, Shape
from incmrql.lower.sums import aggregates, limbs
from incmrql.lower.sums.aggregates import Summing, or_else
from incmrql.lower.sums.rounding import OUTSIDE, integer_mean, mean_of, narrow_mean, rounded
from incmrql.lower.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import LONG, Collection, Decimal, Type, is_float, is_integer

# --- Over a collection ---


def aggregate_elements(
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

    def total(f: limbs.Of, zero: exp.Expression) -> exp.Expression:
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
        return integer_mean(tree.binary(exp.Add, both[0], both[1]), limbs.long(2))
    two = limbs.double(2.0)
    low, high = (tree.cast(each, "DOUBLE") for each in (low, high))
    sum_ = tree.binary(exp.Add, low, high)
    apart = tree.binary(exp.Add, tree.binary(exp.Div, low, two), tree.binary(exp.Div, high, two))
    large = tree.binary(exp.GT, tree.call("abs", sum_), limbs.double(1e308))
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


# --- Over the rows of a group ---


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
        if name in aggregates.NAMES and env.lambdas:
            raise NotNative(f"{name} of a group for every element")
        found = _of_group(name, shape, type_, ctx)
        if found is not None:
            return found
    return aggregate_elements(name, shape, extra, type_, ctx)


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
            return Cell(or_else(want(tree.call("count", counted)), limbs.long(0)), type_, True)
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
        case _ if name in aggregates.NAMES:
            return aggregates.spread(
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
        return Cell(or_else(tree.cast(counted, "BIGINT"), limbs.long(0)), type_, present=True)
    counted = tree.call("count", exp.Distinct(expressions=[kept]))
    return Cell(or_else(many.side.want(counted, "count", ctx), limbs.long(0)), type_, present=True)


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
        found = or_else(plain, limbs.double(0.0))
        return Cell(found if number is None else mean_of(found, number), type_)
    if isinstance(part, Parts):
        summed = limbs.Summed.of([ctx.whole(each) for each in part.parts])
        merge = limbs.wide_times if ctx.window is WIDE else limbs.times
        merged = merge(total, summed, weight)
        found = rounded(merged, ctx.window, lambda values: many.side.derive(values, "sum", ctx))
        found = or_else(found, limbs.double(0.0))
        if number is None:
            return Cell(found, type_, present=True)
        return Cell(mean_of(found, number), type_)
    if part.type == LONG and ctx.window is not WIDE:  # a count, or a sum of 32-bit integers
        whole = or_else(total(tree.binary(exp.Mul, ctx.whole(part), weight)), limbs.long(0))
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
    large = tree.binary(exp.GTE, size, limbs.double(2.0**62))
    return tree.case([(large, tree.call("raise_error", tree.text(OUTSIDE)))], result)
