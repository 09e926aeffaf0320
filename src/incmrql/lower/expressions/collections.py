"""Queries over collections inside a row, and the built-ins on collections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from incmrql.lower import tree
from incmrql.lower.context import Context
from incmrql.lower.expressions import arrays, linear, patterns, ranking
from incmrql.lower.shapes import Cell, Env, Many, NotNative, Parts, Shape
from incmrql.types import typed
from incmrql.types.model import LONG, Collection, Tuple, Type


def items_of(expr: typed.Expr, env: Env, ctx: Context) -> exp.Expression:
    """The elements of a collection as an array; null counts as empty."""
    return array_of(ctx.lower(expr, env, ctx), ctx)


def array_of(shape: Shape, ctx: Context) -> exp.Expression:
    """A collection as an array that is not null."""
    if not isinstance(shape.type, Collection):
        raise NotNative("the elements of a tree")
    present = isinstance(shape, Many) or (isinstance(shape, Cell) and shape.present)
    found = ctx.whole(shape)
    return found if present else tree.call("coalesce", found, arrays.empty(_element(shape), ctx))


def _element(shape: Shape) -> Type:
    assert isinstance(shape.type, Collection)
    return shape.type.element


def map_over(expr: typed.MapOver, env: Env, ctx: Context) -> Shape:
    """A function of every element; null over null."""
    subject = ctx.lower(expr.subject, env, ctx)
    if not isinstance(subject.type, Collection):
        raise NotNative("the elements of a tree")
    many = linear.mapped(expr, subject, ctx)
    if many is not None:
        return many
    element = subject.type.element

    def body(item: exp.Expression) -> exp.Expression:
        inner = env.inside().bind(expr.variable, Cell(item, element))
        if expr.flatten:
            return items_of(expr.body, inner, ctx)
        return ctx.tree(expr.body, inner)

    mapped = arrays.transform(ctx.whole(subject), body, ctx, expr.variable.name)
    present = isinstance(subject, Many) or (isinstance(subject, Cell) and subject.present)
    return Cell(arrays.flatten(mapped, ctx) if expr.flatten else mapped, expr.type, present=present)


def comprehension(query: typed.Select, env: Env, ctx: Context) -> Shape:
    """A query over collections of its row."""
    if query.group is not None:
        raise NotNative("a group-by inside a row")
    many = _of_group(query, env, ctx)
    if many is not None:
        return many
    where = [typed.Condition(c) for c in (query.where, query.having) if c is not None]
    qualifiers = (*query.qualifiers, *where)
    head = query.head.type
    if query.order:
        made = _ordered(query, qualifiers, env, ctx)
    else:
        made = rows(qualifiers, lambda inner: ctx.lower(query.head, inner, ctx), head, env, ctx)
        if query.limit is not None:
            made = arrays.in_canonical_order(made, head, ctx)
    if query.distinct:
        made = arrays.distinct(made, head, ctx)
    if query.limit is not None:
        made = _cut(made, query.limit, env, ctx)
    return Cell(made, query.type, present=True)


def _of_group(query: typed.Select, env: Env, ctx: Context) -> Many | None:
    """A query that goes through the rows of a group, if it does."""
    first = query.qualifiers[0] if query.qualifiers else None
    if env.lambdas or not isinstance(first, typed.Generator):
        return None
    return linear.selected(query, ctx.lower(first.domain, env, ctx), ctx)


def _ordered(
    query: typed.Select, qualifiers: Sequence[typed.Qualifier], env: Env, ctx: Context
) -> exp.Expression:
    """The heads in the order of their keys, then in canonical order."""
    if ranking.can_turn(query.order, ctx):
        pair = ranking.ranked_type(query, ctx)
        pairs = rows(qualifiers, lambda inner: ranking.lowered(query, inner, ctx), pair, env, ctx)
        in_line = tree.call(arrays.function("sort_array", ctx), pairs)
    else:
        pair = Tuple((*[order.expr.type for order in query.order], query.head.type))
        pairs = rows(
            qualifiers, lambda inner: ranking.as_they_are(query, inner, ctx), pair, env, ctx
        )
        downward = [order.descending for order in query.order]
        in_line = ranking.compared(pairs, [*downward, False], ctx)
    return arrays.transform(in_line, lambda item: ranking.last_part(item, pair), ctx)


def _cut(array: exp.Expression, limit: typed.Expr, env: Env, ctx: Context) -> exp.Expression:
    """The first elements; a limit that is null or negative leaves none."""
    wanted = tree.call("coalesce", ctx.tree(limit, env), tree.number(0))
    most = tree.call("least", arrays.size(array, ctx), wanted)
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
    written = _written_out(qualifiers, head, element, env, ctx)
    if written is not None:
        return written
    if qualifiers and isinstance(qualifiers[0], typed.Generator):
        return _generated(qualifiers[0], qualifiers[1:], head, element, env, ctx)
    tests, inner, rest = _leading(qualifiers, env, ctx)
    if rest:
        made = rows(rest, head, element, inner, ctx)
    else:
        made = arrays.make([ctx.whole(head(inner))], element, ctx)
    condition = tree.conjunction(tests)
    return made if condition is None else tree.case([(condition, made)], arrays.empty(element, ctx))


_MOST_WRITTEN: Final = 64


def _written_out(
    qualifiers: Sequence[typed.Qualifier],
    head: Callable[[Env], Shape],
    element: Type,
    env: Env,
    ctx: Context,
) -> exp.Expression | None:
    """The heads for the elements of a collection that is written in the query, one by one."""
    match qualifiers:
        case [typed.Generator(typed.Bind(variable), typed.MakeCollection(items))] if (
            0 < len(items) <= _MOST_WRITTEN
        ):
            heads = [head(env.bind(variable, ctx.lower(each, env, ctx))) for each in items]
            return arrays.make([ctx.whole(each) for each in heads], element, ctx)
        case _:
            return None


def _generated(
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

    def bound(item: exp.Expression) -> tuple[list[exp.Expression], Env, Sequence[typed.Qualifier]]:
        tests, inner = patterns.matched(first.pattern, Cell(item, _element(domain)), inside, ctx)
        more, inner, after = _leading(rest, inner, ctx)
        return [*tests, *more], inner, after

    probe = bound(tree.column(ctx.fresh("x")))
    if probe[0]:
        array = arrays.keep(array, lambda x: tree.conjunction(bound(x)[0]) or exp.true(), ctx)
    if not probe[2]:
        if isinstance(first.pattern, typed.Bind) and _is_same(head, first.pattern, inside, ctx):
            return array
        return arrays.transform(array, lambda x: ctx.whole(head(bound(x)[1])), ctx)

    def inner_rows(item: exp.Expression) -> exp.Expression:
        _, inner, after = bound(item)
        return rows(after, head, element, inner, ctx)

    return arrays.flatten(arrays.transform(array, inner_rows, ctx), ctx)


def _is_same(head: Callable[[Env], Shape], pattern: typed.Bind, env: Env, ctx: Context) -> bool:
    """Whether a head is the element itself."""
    mark = Cell(tree.column(ctx.fresh("x")), pattern.variable.type)
    try:
        return head(env.bind(pattern.variable, mark)) is mark
    except NotNative:
        return False


def _leading(
    qualifiers: Sequence[typed.Qualifier], env: Env, ctx: Context
) -> tuple[list[exp.Expression], Env, Sequence[typed.Qualifier]]:
    """The tests and variables of all qualifiers before the next generator, and what follows."""
    tests: list[exp.Expression] = []
    for place, qualifier in enumerate(qualifiers):
        match qualifier:
            case typed.Generator():
                return tests, env, qualifiers[place:]
            case typed.Binding(pattern, value):
                more, env = patterns.matched(pattern, ctx.lower(value, env, ctx), env, ctx)
                tests += more
            case typed.Condition(condition):
                tests.append(ctx.tree(condition, env))
    return tests, env, ()


def collection_builtin(
    name: str, arguments: Sequence[typed.Expr], type_: Type, env: Env, ctx: Context
) -> Shape:
    """A built-in on collections; null counts as the empty one."""
    if name == "member":
        return _member(arguments[0], arguments[1], type_, env, ctx)
    if name == "range":
        return _range([ctx.tree(end, env) for end in arguments], type_, ctx)
    if name == "elem":
        from incmrql.lower.expressions.aggregates import aggregate

        return aggregate("first", arguments[0], None, type_, env, ctx)
    given = [ctx.lower(argument, env, ctx) for argument in arguments]
    found = [array_of(shape, ctx) for shape in given]
    element = _element(given[0])
    ordered = [_in_order(a, shape.type, ctx) for a, shape in zip(found, given, strict=True)]
    return Cell(_BUILTINS[name](found, ordered, element, type_, ctx), type_, present=True)


def _in_order(array: exp.Expression, type_: Type, ctx: Context) -> exp.Expression:
    """A list as it stands, a bag in canonical order."""
    assert isinstance(type_, Collection)
    is_bag = type_.kind == "bag"
    return arrays.in_canonical_order(array, type_.element, ctx) if is_bag else array


def _member(value: typed.Expr, values: typed.Expr, type_: Type, env: Env, ctx: Context) -> Cell:
    wanted = ctx.tree(value, env)
    array = items_of(values, env, ctx)
    item = typed.Variable("x", -1, value.type)
    known = typed.Variable("y", -2, value.type)
    inner = env.inside().bind(known, Cell(wanted, value.type))
    same = typed.Compare(
        "=", typed.Var(item, type=value.type), typed.Var(known, type=value.type), type=type_
    )
    test = arrays.apply(
        "exists", array, lambda x: ctx.tree(same, inner.bind(item, Cell(x, value.type))), ctx
    )
    return Cell(tree.call("coalesce", test, tree.boolean(False)), type_, present=True)


def _range(ends: list[exp.Expression], type_: Type, ctx: Context) -> Cell:
    first, last = (tree.cast(end, "BIGINT") for end in ends)
    backward = tree.binary(exp.GT, first, last)
    made = tree.call(arrays.function("sequence", ctx), first, last)
    known = tree.conjunction([tree.not_null(end) for end in ends])
    assert known is not None
    branches = [(backward, arrays.empty(LONG, ctx)), (known, made)]
    return Cell(tree.case(branches, None), type_)


def _zipped(ordered: list[exp.Expression], type_: Type, ctx: Context) -> exp.Expression:
    sizes = [tree.call(arrays.function("size", ctx), each) for each in ordered]
    shortest = tree.call("least", *sizes)
    cut = [tree.call(arrays.function("slice", ctx), e, tree.number(1), shortest) for e in ordered]
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
    return tree.call(arrays.function("zip_with", ctx), *cut, body)


def _indexed(ordered: exp.Expression, type_: Type, ctx: Context) -> exp.Expression:
    item, place = ctx.fresh("x"), ctx.fresh("place")
    assert isinstance(type_, Collection)
    (_, element), (_, long) = tree.parts_of(type_.element)
    numbered = Cell(tree.cast(tree.column(place), "BIGINT"), long)
    pair = Parts((Cell(tree.column(item), element), numbered), type_.element)
    body = tree.lambda_([item, place], ctx.whole(pair))
    return tree.call(arrays.function("transform", ctx), ordered, body)


def _flattened(
    found: list[exp.Expression],
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

    source = ordered[0] if is_list else found[0]
    return arrays.flatten(arrays.transform(source, present, ctx), ctx)


_BUILTINS: dict[
    str,
    Callable[[list[exp.Expression], list[exp.Expression], Type, Type, Context], exp.Expression],
] = {
    "distinct": lambda found, _, element, __, ctx: arrays.distinct(found[0], element, ctx),
    "sort": lambda found, _, element, __, ctx: arrays.in_canonical_order(found[0], element, ctx),
    "reverse": lambda _, ordered, __, ___, ctx: tree.call(
        arrays.function("reverse", ctx), ordered[0]
    ),
    "flatten": _flattened,
    "zip": lambda _, ordered, __, type_, ctx: _zipped(ordered, type_, ctx),
    "index": lambda _, ordered, __, type_, ctx: _indexed(ordered[0], type_, ctx),
}
