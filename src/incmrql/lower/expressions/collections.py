"""Queries over collections inside a row, and the built-ins on collections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from incmrql.lower import tree
from incmrql.lower.context import Context
from incmrql.lower.expressions import arrays, linear, patterns, ranking
from incmrql.lower.shapes import Cell, Env, GroupBag, NotNative, Parts, Shape
from incmrql.types import typed
from incmrql.types.model import LONG, Collection, Tuple, Type, is_scalar


def items_of(expr: typed.Expr, env: Env, ctx: Context) -> exp.Expression:
    """The elements of a collection as an array; null counts as empty."""
    return array_of(ctx.lower(expr, env, ctx), ctx)


def array_of(shape: Shape, ctx: Context) -> exp.Expression:
    """A collection as an array that is not null."""
    if not isinstance(shape.type, Collection):
        raise NotNative("the elements of a tree")
    present = isinstance(shape, GroupBag) or (isinstance(shape, Cell) and shape.present)
    array = ctx.whole(shape)
    return array if present else tree.call("coalesce", array, arrays.empty(_element(shape), ctx))


def _element(shape: Shape) -> Type:
    assert isinstance(shape.type, Collection)
    return shape.type.element


def map_over(expr: typed.MapOver, env: Env, ctx: Context) -> Shape:
    """A function of every element; null over null."""
    subject = ctx.lower(expr.subject, env, ctx)
    if not isinstance(subject.type, Collection):
        raise NotNative("the elements of a tree")
    many = linear.map_elements(expr, subject, ctx)
    if many is not None:
        return many
    element = subject.type.element

    def body(item: exp.Expression) -> exp.Expression:
        inner = env.inside().bind(expr.variable, Cell(item, element))
        if expr.flatten:
            return items_of(expr.body, inner, ctx)
        return ctx.tree(expr.body, inner)

    results = arrays.transform(ctx.whole(subject), body, ctx, expr.variable.name)
    present = isinstance(subject, GroupBag) or (isinstance(subject, Cell) and subject.present)
    return Cell(
        arrays.flatten(results, ctx) if expr.flatten else results, expr.type, present=present
    )


def comprehension(query: typed.Select, env: Env, ctx: Context) -> Shape:
    """A query over collections of its row."""
    if query.group is not None:
        raise NotNative("a group-by inside a row")
    many = _over_group(query, env, ctx)
    if many is not None:
        return many
    where = [typed.Condition(c) for c in (query.where, query.having) if c is not None]
    qualifiers = (*query.qualifiers, *where)
    head = query.head.type
    if query.order:
        heads = _sort_heads(query, qualifiers, env, ctx)
    else:
        heads = rows(qualifiers, lambda inner: ctx.lower(query.head, inner, ctx), head, env, ctx)
        if query.limit is not None:
            heads = arrays.in_canonical_order(heads, head, ctx)
    if query.distinct:
        heads = arrays.distinct(heads, head, ctx)
    if query.limit is not None:
        heads = _limit_array(heads, query.limit, env, ctx)
    return Cell(heads, query.type, present=True)


def _over_group(query: typed.Select, env: Env, ctx: Context) -> GroupBag | None:
    """A query over the rows of a group as a bag of the group, else None."""
    first = query.qualifiers[0] if query.qualifiers else None
    if env.lambdas or not isinstance(first, typed.Generator):
        return None
    return linear.select_elements(query, ctx.lower(first.domain, env, ctx), ctx)


def _sort_heads(
    query: typed.Select, qualifiers: Sequence[typed.Qualifier], env: Env, ctx: Context
) -> exp.Expression:
    """The heads in the order of their keys, then in canonical order."""
    if ranking.can_reverse(query.order, ctx):
        pair = ranking.sort_tuple_type(query, ctx)
        pairs = rows(
            qualifiers, lambda inner: ranking.lower_sort_tuple(query, inner, ctx), pair, env, ctx
        )
        in_order = tree.call(arrays.function("sort_array", ctx), pairs)
    else:
        pair = Tuple((*[order.expr.type for order in query.order], query.head.type))
        pairs = rows(
            qualifiers, lambda inner: ranking.lower_plain_tuple(query, inner, ctx), pair, env, ctx
        )
        downward = [order.descending for order in query.order]
        in_order = ranking.sort_by_comparison(pairs, [*downward, False], ctx)
    return arrays.transform(in_order, lambda item: ranking.last_part(item, pair), ctx)


def _limit_array(
    array: exp.Expression, limit: typed.Expr, env: Env, ctx: Context
) -> exp.Expression:
    """The first elements; none if the limit is null or negative."""
    length = tree.call("coalesce", ctx.tree(limit, env), tree.number(0))
    most = tree.call("least", arrays.size(array, ctx), length)
    count = tree.cast(tree.call("greatest", most, tree.number(0)), "INT")
    return tree.call(arrays.function("slice", ctx), array, tree.number(1), count)


def rows(
    qualifiers: Sequence[typed.Qualifier],
    head: Callable[[Env], Shape],
    element: Type,
    env: Env,
    ctx: Context,
) -> exp.Expression:
    """The array of the heads for every way to bind the qualifiers."""
    unrolled = _unroll_literal(qualifiers, head, element, env, ctx)
    if unrolled is not None:
        return unrolled
    if qualifiers and isinstance(qualifiers[0], typed.Generator):
        return _lower_generator(qualifiers[0], qualifiers[1:], head, element, env, ctx)
    tests, inner, rest = _bind_until_generator(qualifiers, env, ctx)
    if rest:
        heads = rows(rest, head, element, inner, ctx)
    else:
        heads = arrays.make([ctx.whole(head(inner))], element, ctx)
    condition = tree.conjunction(tests)
    return (
        heads if condition is None else tree.case([(condition, heads)], arrays.empty(element, ctx))
    )


_MOST_UNROLLED: Final = 64


def _unroll_literal(
    qualifiers: Sequence[typed.Qualifier],
    head: Callable[[Env], Shape],
    element: Type,
    env: Env,
    ctx: Context,
) -> exp.Expression | None:
    """The heads for each element of a collection literal; None if the query is different."""
    match qualifiers:
        case [typed.Generator(typed.Bind(variable), typed.MakeCollection(items))] if (
            0 < len(items) <= _MOST_UNROLLED
        ):
            shapes = [head(env.bind(variable, ctx.lower(item, env, ctx))) for item in items]
            return arrays.make([ctx.whole(item) for item in shapes], element, ctx)
        case _:
            return None


def _lower_generator(
    first: typed.Generator,
    rest: Sequence[typed.Qualifier],
    head: Callable[[Env], Shape],
    element: Type,
    env: Env,
    ctx: Context,
) -> exp.Expression:
    domain = ctx.lower(first.domain, env, ctx)
    array = array_of(domain, ctx)
    inside = env.inside()

    def bind_item(
        item: exp.Expression,
    ) -> tuple[list[exp.Expression], Env, Sequence[typed.Qualifier]]:
        tests, inner = patterns.match_pattern(
            first.pattern, Cell(item, _element(domain)), inside, ctx
        )
        more_tests, inner, after = _bind_until_generator(rest, inner, ctx)
        return [*tests, *more_tests], inner, after

    # Lower the generator once with a dummy item, to see whether it has tests and what follows.
    probe = bind_item(tree.column(ctx.fresh("x")))
    if probe[0]:
        array = arrays.keep(array, lambda x: tree.conjunction(bind_item(x)[0]) or exp.true(), ctx)
    if not probe[2]:
        if isinstance(first.pattern, typed.Bind) and _is_same(head, first.pattern, inside, ctx):
            return array
        return arrays.transform(array, lambda x: ctx.whole(head(bind_item(x)[1])), ctx)

    def inner_rows(item: exp.Expression) -> exp.Expression:
        _, inner, after = bind_item(item)
        return rows(after, head, element, inner, ctx)

    return arrays.flatten(arrays.transform(array, inner_rows, ctx), ctx)


def _is_same(head: Callable[[Env], Shape], pattern: typed.Bind, env: Env, ctx: Context) -> bool:
    """Whether a head is the element itself."""
    mark = Cell(tree.column(ctx.fresh("x")), pattern.variable.type)
    try:
        return head(env.bind(pattern.variable, mark)) is mark
    except NotNative:
        return False


def _bind_until_generator(
    qualifiers: Sequence[typed.Qualifier], env: Env, ctx: Context
) -> tuple[list[exp.Expression], Env, Sequence[typed.Qualifier]]:
    """The tests and variables of the qualifiers before the next generator, and the rest."""
    tests: list[exp.Expression] = []
    for index, qualifier in enumerate(qualifiers):
        match qualifier:
            case typed.Generator():
                return tests, env, qualifiers[index:]
            case typed.Binding(pattern, value):
                more_tests, env = patterns.match_pattern(
                    pattern, ctx.lower(value, env, ctx), env, ctx
                )
                tests += more_tests
            case typed.Condition(condition):
                tests.append(ctx.tree(condition, env))
    return tests, env, ()


def collection_builtin(
    name: str, arguments: Sequence[typed.Expr], type_: Type, env: Env, ctx: Context
) -> Shape:
    """A built-in on collections; null counts as the empty collection."""
    if name == "member":
        return _member(arguments[0], arguments[1], type_, env, ctx)
    if name == "range":
        return _range([ctx.tree(end, env) for end in arguments], type_, ctx)
    if name == "elem":
        from incmrql.lower.expressions.aggregates import aggregate

        return aggregate("first", arguments[0], None, type_, env, ctx)
    shapes = [ctx.lower(argument, env, ctx) for argument in arguments]
    unordered = [array_of(shape, ctx) for shape in shapes]
    element = _element(shapes[0])
    ordered = [_in_order(a, shape.type, ctx) for a, shape in zip(unordered, shapes, strict=True)]
    return Cell(_BUILTINS[name](unordered, ordered, element, type_, ctx), type_, present=True)


def _in_order(array: exp.Expression, type_: Type, ctx: Context) -> exp.Expression:
    """A list unchanged, a bag in canonical order."""
    assert isinstance(type_, Collection)
    is_bag = type_.kind == "bag"
    return arrays.in_canonical_order(array, type_.element, ctx) if is_bag else array


def _member(value: typed.Expr, values: typed.Expr, type_: Type, env: Env, ctx: Context) -> Cell:
    key = ctx.tree(value, env)
    is_duckdb = ctx.dialect is tree.Dialect.DUCKDB
    if is_duckdb and is_scalar(value.type) and isinstance(values, typed.MakeCollection):
        if not values.items:
            return Cell(tree.boolean(False), type_, present=True)
        items = [ctx.tree(item, env) for item in values.items]
        is_one = exp.In(this=tree.parenthesize(key), expressions=items)
        return Cell(tree.call("coalesce", is_one, tree.boolean(False)), type_, present=True)
    array = items_of(values, env, ctx)
    item = typed.Variable("x", -1, value.type)
    key_variable = typed.Variable("y", -2, value.type)
    inner = env.inside().bind(key_variable, Cell(key, value.type))
    same = typed.Compare(
        "=", typed.Var(item, type=value.type), typed.Var(key_variable, type=value.type), type=type_
    )
    test = arrays.some(array, lambda x: ctx.tree(same, inner.bind(item, Cell(x, value.type))), ctx)
    return Cell(tree.call("coalesce", test, tree.boolean(False)), type_, present=True)


def _range(ends: list[exp.Expression], type_: Type, ctx: Context) -> Cell:
    first, last = (tree.cast(end, "BIGINT") for end in ends)
    backward = tree.binary(exp.GT, first, last)
    sequence = tree.call(arrays.function("sequence", ctx), first, last)
    all_present = tree.conjunction([tree.not_null(end) for end in ends])
    assert all_present is not None
    branches = [(backward, arrays.empty(LONG, ctx)), (all_present, sequence)]
    return Cell(tree.case(branches, None), type_)


def _zip(ordered: list[exp.Expression], type_: Type, ctx: Context) -> exp.Expression:
    sizes = [tree.call(arrays.function("size", ctx), array) for array in ordered]
    shortest = tree.call("least", *sizes)
    prefixes = [
        tree.call(arrays.function("slice", ctx), e, tree.number(1), shortest) for e in ordered
    ]
    a, b = ctx.fresh("a"), ctx.fresh("b")
    assert isinstance(type_, Collection)
    pair = Parts(
        tuple(
            Cell(tree.column(name), part)
            for name, (_, part) in zip((a, b), tree.parts_of(type_.element), strict=True)
        ),
        type_.element,
    )
    body = tree.lambda_([a, b], ctx.whole(pair))
    return tree.call(arrays.function("zip_with", ctx), *prefixes, body)


def _index(ordered: exp.Expression, type_: Type, ctx: Context) -> exp.Expression:
    item, position = ctx.fresh("x"), ctx.fresh("place")
    assert isinstance(type_, Collection)
    (_, element), (_, long) = tree.parts_of(type_.element)
    place: exp.Expression = tree.cast(tree.column(position), "BIGINT")
    if ctx.dialect is tree.Dialect.DUCKDB:  # counts from 1, and Spark from 0
        place = tree.binary(exp.Sub, place, tree.number(1))
    numbered = Cell(place, long)
    pair = Parts((Cell(tree.column(item), element), numbered), type_.element)
    body = tree.lambda_([item, position], ctx.whole(pair))
    return tree.call(arrays.function("transform", ctx), ordered, body)


def _flatten(
    unordered: list[exp.Expression],
    ordered: list[exp.Expression],
    element: Type,
    type_: Type,
    ctx: Context,
) -> exp.Expression:
    is_list = isinstance(type_, Collection) and type_.kind == "list"
    assert isinstance(element, Collection)
    inner = element.element

    def present(array: exp.Expression) -> exp.Expression:
        return tree.call("coalesce", array, arrays.empty(inner, ctx))

    source = ordered[0] if is_list else unordered[0]
    return arrays.flatten(arrays.transform(source, present, ctx), ctx)


_BUILTINS: dict[
    str,
    Callable[[list[exp.Expression], list[exp.Expression], Type, Type, Context], exp.Expression],
] = {
    "distinct": lambda unordered, _, element, __, ctx: arrays.distinct(unordered[0], element, ctx),
    "sort": lambda unordered, _, element, __, ctx: arrays.in_canonical_order(
        unordered[0], element, ctx
    ),
    "reverse": lambda _, ordered, __, ___, ctx: tree.call(
        arrays.function("reverse", ctx), ordered[0]
    ),
    "flatten": _flatten,
    "zip": lambda _, ordered, __, type_, ctx: _zip(ordered, type_, ctx),
    "index": lambda _, ordered, __, type_, ctx: _index(ordered[0], type_, ctx),
}
