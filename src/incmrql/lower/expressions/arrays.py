"""Collections inside a row: arrays and their higher-order functions, in both dialects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Final

from sqlglot import exp

from incmrql.lower import tree
from incmrql.lower.context import Context
from incmrql.lower.shapes import NotNative, struct
from incmrql.lower.tree import Dialect
from incmrql.types.model import Basic, Collection, Decimal, Record, Tuple, Type

_DUCKDB: Final = {
    "transform": "list_transform",
    "filter": "list_filter",
    "flatten": "flatten",
    "size": "len",
    "concat": "list_concat",
    "array_max": "list_max",
    "array_min": "list_min",
}
"""DuckDB's names for Spark's functions, where both do the same."""

Body = Callable[[exp.Expression], exp.Expression]


def function(name: str, ctx: Context) -> str:
    """The dialect's name of a function on arrays."""
    if ctx.dialect is Dialect.SPARK:
        return name
    if name not in _DUCKDB:
        raise NotNative(f"DuckDB has no {name} that agrees")
    return _DUCKDB[name]


def make(items: list[exp.Expression], element: Type, ctx: Context) -> exp.Expression:
    """An array of these elements."""
    if ctx.dialect is Dialect.DUCKDB:
        array: exp.Expression = exp.Array(expressions=items)
    else:
        array = tree.call("array", *items)
    return array if items else empty(element, ctx)


def empty(element: Type, ctx: Context) -> exp.Expression:
    """The empty array."""
    kind = tree.type_text(Collection("bag", element), ctx.dialect)
    array = tree.call("array") if ctx.dialect is Dialect.SPARK else exp.Array(expressions=[])
    return tree.cast(array, kind)


def apply(
    name: str, array: exp.Expression, body: Body, ctx: Context, hint: str = "x"
) -> exp.Expression:
    """`transform`, `filter`, `exists` … with a function of one element."""
    parameter = ctx.fresh(hint)
    inner = tree.lambda_([parameter], body(tree.column(parameter)))
    return tree.call(function(name, ctx), array, inner)


def transform(array: exp.Expression, body: Body, ctx: Context, hint: str = "x") -> exp.Expression:
    """The results of a function for all elements."""
    return apply("transform", array, body, ctx, hint)


def keep(array: exp.Expression, test: Body, ctx: Context) -> exp.Expression:
    """The elements for which a test is true."""
    return apply("filter", array, test, ctx)


def some(array: exp.Expression, test: Body, ctx: Context) -> exp.Expression:
    """Whether a test is true for an element; false or null where it is for none."""
    if ctx.dialect is Dialect.SPARK:
        return apply("exists", array, test, ctx)
    if isinstance(array, exp.Array) and array.expressions:
        tests = [tree.parenthesize(test(item)) for item in array.expressions]
        return reduce(partial(tree.binary, exp.Or), tests)
    return tree.binary(exp.GT, size(keep(array, test, ctx), ctx), tree.number(0))


def all_of(array: exp.Expression, test: Body, ctx: Context) -> exp.Expression:
    """Whether a test is false for no element; true or null where it is for none."""
    if ctx.dialect is Dialect.SPARK:
        return apply("forall", array, test, ctx)
    if isinstance(array, exp.Array) and array.expressions:
        tests = [tree.parenthesize(test(item)) for item in array.expressions]
        return reduce(partial(tree.binary, exp.And), tests)

    def fails(item: exp.Expression) -> exp.Expression:
        return exp.Not(this=tree.parenthesize(test(item)))

    return tree.binary(exp.EQ, size(keep(array, fails, ctx), ctx), tree.number(0))


def fold(
    array: exp.Expression,
    zero: exp.Expression,
    step: Callable[[exp.Expression, exp.Expression], exp.Expression],
    ctx: Context,
) -> exp.Expression:
    """`step(accumulator, element)` over all elements, from `zero`."""
    total, item = ctx.fresh("total"), ctx.fresh("x")
    body = tree.lambda_([total, item], step(tree.column(total), tree.column(item)))
    return tree.call(function("aggregate", ctx), array, zero, body)


def size(array: exp.Expression, ctx: Context) -> exp.Expression:
    """The number of elements, a long."""
    return tree.cast(tree.call(function("size", ctx), array), "BIGINT")


def flatten(arrays: exp.Expression, ctx: Context) -> exp.Expression:
    """The elements of all arrays, none of which is null."""
    return tree.call(function("flatten", ctx), arrays)


def concat(parts: list[exp.Expression], ctx: Context) -> exp.Expression:
    """One array after another."""
    return tree.call(function("concat", ctx), *parts)


def at(array: exp.Expression, index: exp.Expression, ctx: Context) -> exp.Expression:
    """The element at an index that starts at 0, or null."""
    if ctx.dialect is Dialect.SPARK:
        return tree.call("get", array, index)
    one = tree.binary(exp.Add, index, tree.number(1))
    return tree.call("list_extract", array, one)


def in_canonical_order(array: exp.Expression, element: Type, ctx: Context) -> exp.Expression:
    """The elements in canonical order; null comes first."""
    return tree.call(function("sort_array", ctx), canonical_items(array, element, ctx))


def distinct(array: exp.Expression, element: Type, ctx: Context) -> exp.Expression:
    """The distinct elements, in order of first occurrence."""
    items = canonical_items(array, element, ctx)
    if ctx.dialect is not Dialect.SPARK or isinstance(element, Basic | Decimal):
        return tree.call(function("array_distinct", ctx), items)

    # For structs, Spark's `array_distinct` compares all pairs.  The keys of a map are found by a
    # search tree instead.  Null cannot be a key, so elements are wrapped in a struct.

    def entry(item: exp.Expression) -> exp.Expression:
        key = tree.call("named_struct", tree.text("v"), item)
        return tree.call("named_struct", tree.text("k"), key, tree.text("v"), tree.boolean(True))

    by_key = tree.call("map_from_entries", transform(items, entry, ctx))
    return transform(tree.call("map_keys", by_key), lambda key: tree.get(key, "v"), ctx)


def canonical_items(array: exp.Expression, element: Type, ctx: Context) -> exp.Expression:
    """The elements in their canonical form."""
    if not holds_bag(element):
        return array
    return transform(array, lambda item: canonical(item, element, ctx), ctx)


def canonical(value: exp.Expression, type_: Type, ctx: Context) -> exp.Expression:
    """A value with its bags sorted, so that SQL compares it like its canonical bytes."""
    if not holds_bag(type_):
        return value
    match type_:
        case Collection("bag", element):
            return in_canonical_order(value, element, ctx)
        case Collection(_, element):
            return canonical_items(value, element, ctx)
        case _:
            parts = tuple(
                canonical(tree.get(value, name), part, ctx) for name, part in tree.parts_of(type_)
            )
            return or_null(value, struct(parts, type_, ctx.dialect))


def or_null(subject: exp.Expression, value: exp.Expression) -> exp.Expression:
    """The value, or null where the subject is."""
    return tree.case([(tree.not_null(subject), value)], None)


def holds_bag(type_: Type) -> bool:
    """Whether values contain a bag, whose order in an array has no meaning."""
    match type_:
        case Collection(kind, element):
            return kind == "bag" or holds_bag(element)
        case Tuple(items):
            return any(map(holds_bag, items))
        case Record(fields):
            return any(holds_bag(field) for _, field in fields)
        case _:
            return False
