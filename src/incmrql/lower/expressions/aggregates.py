"""Aggregates and folds: over a collection inside a row, or native over the rows of a group.

If the operand iterates over the rows of one group only, the aggregate is a native SQL aggregate of
that group.  Otherwise it is a fold over an array.
"""

from __future__ import annotations

from sqlglot import exp

from incmrql.lower import tree
from incmrql.lower.context import WIDE, Context
from incmrql.lower.expressions import arrays
from incmrql.lower.expressions.access import first_of
from incmrql.lower.expressions.collections import array_of
from incmrql.lower.shapes import Cell, Env, GroupBag, NotNative, Parts, Shape
from incmrql.lower.sums import aggregates, limbs
from incmrql.lower.sums.aggregates import Summing, or_else
from incmrql.lower.sums.rounding import OUTSIDE, integer_mean, mean_of, narrow_mean, round_sum
from incmrql.lower.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import LONG, Collection, Decimal, Type, is_float, is_integer, is_scalar

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
            is_nonempty = tree.binary(exp.GT, arrays.size(array, ctx), tree.number(0))
            return Cell(is_nonempty, type_, present=True)
        case "count":
            return Cell(arrays.size(present, ctx), type_, present=True)
        case "collect":
            return Cell(present, type_, present=True)
        case "first" if shape.type.kind == "list":
            return Cell(arrays.at(present, tree.number(0), ctx), type_)
        case "min" | "max" | "first":
            if ctx.dialect is Dialect.DUCKDB and not is_scalar(element):
                raise NotNative(f"{name} of {element} in a row")
            name_in_dialect = arrays.function("array_max" if name == "max" else "array_min", ctx)
            return Cell(
                tree.call(name_in_dialect, arrays.canonical_items(array, element, ctx)), type_
            )
        case "some" | "all":
            test = arrays.some if name == "some" else arrays.all_of
            result = test(array, lambda x: x, ctx)
            return Cell(or_else(result, tree.boolean(name == "all")), type_, present=True)
        case "sum" | "avg":
            return _sum(name, present, element, type_, ctx)
        case "median":
            return Cell(_median(present, element, ctx), type_)
        case _:
            raise NotNative(f"{name} of a collection in a row")


def _sum(name: str, present: exp.Expression, element: Type, type_: Type, ctx: Context) -> Shape:
    """An exact sum as one fold for each of its limbs."""
    if ctx.dialect is Dialect.DUCKDB and name == "sum" and is_integer(element):
        total_or_null = tree.cast(tree.call("list_sum", present), "BIGINT", attempt=True)
        is_empty = tree.binary(exp.EQ, arrays.size(present, ctx), tree.number(0))
        return Cell(tree.case([(is_empty, limbs.long(0))], total_or_null), type_)
    if ctx.dialect is not Dialect.SPARK or isinstance(element, Decimal):
        raise NotNative(f"{name} of {element} in a row")

    def total(f: limbs.Elementwise, zero: exp.Expression) -> exp.Expression:
        return arrays.fold(present, zero, lambda a, x: tree.binary(exp.Add, a, f(x)), ctx)

    shape = Summing(total, arrays.size(present, ctx), element, narrow=False).result(
        name, type_, ctx
    )
    if shape is None:
        raise NotNative(f"{name} of {element} in a row")
    return shape


def _median(present: exp.Expression, element: Type, ctx: Context) -> exp.Expression:
    """The middle value, or the mean of the two middle values, rounded once."""
    if not (is_float(element) or is_integer(element)):
        raise NotNative(f"median of {element} in a row")
    ordered = tree.call(arrays.function("sort_array", ctx), present)
    size = tree.call(arrays.function("size", ctx), present)
    positions = [tree.binary(exp.Sub, size, tree.number(1)), size]
    halves = [
        exp.IntDiv(this=tree.parenthesize(position), expression=tree.number(2))
        for position in positions
    ]
    low, high = (arrays.at(ordered, tree.cast(half, "INT"), ctx) for half in halves)
    if element == LONG:
        middle = [tree.cast(value, "DECIMAL(38, 0)") for value in (low, high)]
        return integer_mean(tree.binary(exp.Add, middle[0], middle[1]), limbs.long(2))
    two = limbs.double(2.0)
    low, high = (tree.cast(value, "DOUBLE") for value in (low, high))
    sum_ = tree.binary(exp.Add, low, high)
    sum_of_halves = tree.binary(
        exp.Add, tree.binary(exp.Div, low, two), tree.binary(exp.Div, high, two)
    )
    large = tree.binary(exp.GT, tree.call("abs", sum_), limbs.double(1e308))
    return tree.case([(large, sum_of_halves)], tree.binary(exp.Div, sum_, two))


def user_aggregate(expr: typed.UserAggregate, env: Env, ctx: Context) -> Shape:
    """A user aggregation as a fold: merges the unit of each element."""
    aggregation = ctx.script.aggregations[expr.aggregation]
    operand = ctx.lower(expr.operand, env, ctx)
    array, element = _in_order(operand, ctx)
    present = arrays.keep(array, tree.not_null, ctx)
    kind = tree.type_text(expr.type, ctx.dialect)
    inside = Env(lambdas=True)

    def step(so_far: exp.Expression, x: exp.Expression) -> exp.Expression:
        accumulator: Shape = Cell(x, element)
        if aggregation.unit is not None:
            (parameter,) = aggregation.unit.parameters
            accumulator = ctx.lower(aggregation.unit.body, inside.bind(parameter, accumulator), ctx)
        left, right = aggregation.merge.parameters
        inner = inside.bind(left, Cell(so_far, left.type)).bind(right, accumulator)
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
    """The elements in the order of folds, and their type."""
    if not isinstance(shape.type, Collection):
        raise NotNative("the elements of a tree")
    array, element = array_of(shape, ctx), shape.type.element
    if shape.type.kind == "bag":
        array = arrays.in_canonical_order(array, element, ctx)
    return array, element


# --- Over the rows of a group ---


_SUMS = ("sum", "avg", "sum#part")
_TOTALS = ("sum#total", "avg#total")


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
        if isinstance(inner, GroupBag):
            return _count_distinct(inner, type_, ctx)
    if name == "first":
        first = first_of(operand, env, ctx, present=True)
        if first is not None:
            return first
    shape = ctx.lower(operand, env, ctx)
    if isinstance(shape, GroupBag) and extra is None:
        if name in aggregates.NAMES and env.lambdas:
            raise NotNative(f"{name} of a group for every element")
        result = _aggregate_group(name, shape, type_, ctx)
        if result is not None:
            return result
    return aggregate_elements(name, shape, extra, type_, ctx)


def _filter(many: GroupBag, value: exp.Expression) -> exp.Expression:
    """The value for rows that pass the tests of a bag, null for the others."""
    condition = tree.conjunction(many.tests)
    return value if condition is None else tree.case([(condition, value)], None)


def _aggregate_group(name: str, many: GroupBag, type_: Type, ctx: Context) -> Shape | None:
    """A native aggregate of the group's rows, with its default for an empty group."""

    def group_column(aggregated: exp.Expression) -> exp.Expression:
        return many.side.aggregate_column(aggregated, name, ctx)

    if name == "exists":
        rows = group_column(tree.call("count", _filter(many, tree.number(1))))
        is_nonempty = tree.binary(exp.GT, rows, tree.number(0))
        return Cell(or_else(is_nonempty, tree.boolean(False)), type_, present=True)
    if name in _TOTALS:
        return _total_of_parts(name, many, type_, ctx)
    element = many.head.type
    argument = _filter(many, ctx.whole(many.head))
    match name:
        case "count":
            head = many.head
            never_null = isinstance(head, Parts) or (isinstance(head, Cell) and head.present)
            counted = _filter(many, tree.number(1)) if never_null else argument
            return Cell(
                or_else(group_column(tree.call("count", counted)), limbs.long(0)), type_, True
            )
        case "min" | "max":
            return Cell(
                group_column(tree.call(name, arrays.canonical(argument, element, ctx))), type_
            )
        case "first":
            return Cell(
                group_column(tree.call("min", arrays.canonical(argument, element, ctx))), type_
            )
        case "some" | "all":
            test = group_column(tree.call("bool_or" if name == "some" else "bool_and", argument))
            return Cell(or_else(test, tree.boolean(name == "all")), type_, present=True)
        case "collect":
            array = group_column(tree.call("collect_list", argument))
            return Cell(or_else(array, arrays.empty(element, ctx)), type_, present=True)
        case _ if name in _SUMS:
            number = group_column(tree.call("count", argument)) if name == "avg" else tree.null()
            narrow = isinstance(many.head, Cell) and many.head.narrow
            summing = Summing(
                lambda f, _: group_column(tree.call("sum", f(argument))),
                number,
                element,
                narrow,
                lambda values: many.side.derive(values, "sum", ctx),
            )
            return summing.result(name, type_, ctx)
        case _ if name in aggregates.NAMES:
            return aggregates.variance_or_stddev(
                name,
                argument,
                element,
                lambda value: group_column(tree.call("sum", value)),
                lambda value: many.side.prepare(value, name, ctx),
                ctx,
            )
        case _:
            return None


def _count_distinct(many: GroupBag, type_: Type, ctx: Context) -> Cell:
    """The number of distinct elements that are not null."""
    values = _filter(many, arrays.canonical(ctx.whole(many.head), many.head.type, ctx))
    if many.side.iterated:  # SQL windows do not support count(distinct)
        counted = tree.call(
            "size", many.side.aggregate_column(tree.call("collect_set", values), "set", ctx)
        )
        return Cell(or_else(tree.cast(counted, "BIGINT"), limbs.long(0)), type_, present=True)
    counted = tree.call("count", exp.Distinct(expressions=[values]))
    return Cell(
        or_else(many.side.aggregate_column(counted, "count", ctx), limbs.long(0)),
        type_,
        present=True,
    )


def _total_of_parts(name: str, many: GroupBag, type_: Type, ctx: Context) -> Shape | None:
    """A sum or average of partial sums from below a join, each times its weight."""
    if not isinstance(many.head, Parts) or many.tests:
        return None
    part, *rest = many.head.parts
    counts = [ctx.whole(cell) for cell in rest]
    weight = counts[-1]

    def total(value: exp.Expression) -> exp.Expression:
        return many.side.aggregate_column(tree.call("sum", value), "sum", ctx)

    number = total(tree.binary(exp.Mul, counts[0], weight)) if name == "avg#total" else None
    if isinstance(part, Parts) and len(part.parts) == 1:  # Spark's own sum
        plain = total(tree.binary(exp.Mul, ctx.whole(part.parts[0]), weight))
        result = or_else(plain, limbs.double(0.0))
        return Cell(result if number is None else mean_of(result, number), type_)
    if isinstance(part, Parts):
        summed = limbs.SumParts.of([ctx.whole(cell) for cell in part.parts])
        merge = limbs.wide_weighted_sums if ctx.window is WIDE else limbs.weighted_sums
        scaled_sum = merge(total, summed, weight)
        result = round_sum(
            scaled_sum, ctx.window, lambda values: many.side.derive(values, "sum", ctx)
        )
        result = or_else(result, limbs.double(0.0))
        if number is None:
            return Cell(result, type_, present=True)
        return Cell(mean_of(result, number), type_)
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
    """The result of a sum of longs, or an error if the sum may not fit a long."""
    # The error makes the session run the query again with sums of 38 digits.
    large = tree.binary(exp.GTE, size, limbs.double(2.0**62))
    return tree.case([(large, tree.call("raise_error", tree.text(OUTSIDE)))], result)
