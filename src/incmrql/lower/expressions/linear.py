"""Queries over the bag of a group that give a bag of the same group (`GroupBag`).

A map, a conversion or a selection over such a bag is again a `GroupBag`, so that an aggregate of it
is a native aggregate of the group, and no array is built.
"""

from __future__ import annotations

from dataclasses import replace

from incmrql.lower.context import BEYOND_ROWS, Context
from incmrql.lower.expressions import patterns
from incmrql.lower.shapes import Cell, Env, GroupBag, NotNative, Parts, Shape
from incmrql.types import typed
from incmrql.types.model import Collection


def map_elements(expr: typed.MapOver, subject: Shape, ctx: Context) -> GroupBag | None:
    """A function of every element."""
    if not isinstance(subject, GroupBag) or expr.flatten or not isinstance(expr.type, Collection):
        return None
    env = subject.side.inner_env().bind(expr.variable, subject.head)
    head = _lower_over_rows(expr.body, env, ctx)
    return None if head is None else replace(subject, head=head, type=expr.type)


def widen_elements(expr: typed.Widen, subject: GroupBag, ctx: Context) -> GroupBag | None:
    """Every element in a wider type."""
    if not isinstance(expr.type, Collection):
        return None
    own = subject.head.type
    if own == expr.type.element:
        return replace(subject, type=expr.type)
    variable = typed.Variable("x", -1, own)
    body = typed.Widen(typed.Var(variable, type=own), type=expr.type.element)
    head = _lower_over_rows(body, subject.side.inner_env().bind(variable, subject.head), ctx)
    return None if head is None else replace(subject, head=head, type=expr.type)


def select_elements(query: typed.Select, domain: Shape, ctx: Context) -> GroupBag | None:
    """A query over one group with conditions and a head; `domain` is its first generator's."""
    plain = query.group is None and not (query.order or query.distinct or query.limit is not None)
    first, *rest = query.qualifiers
    if not (plain and isinstance(domain, GroupBag) and isinstance(first, typed.Generator)):
        return None
    if any(isinstance(qualifier, typed.Generator) for qualifier in rest):
        return None
    try:
        return _select_elements(query, first, rest, domain, ctx)
    except NotNative:
        return None


def _select_elements(
    query: typed.Select,
    first: typed.Generator,
    rest: list[typed.Qualifier],
    domain: GroupBag,
    ctx: Context,
) -> GroupBag | None:
    tests, env = patterns.match_pattern(first.pattern, domain.head, domain.side.inner_env(), ctx)
    conditions: list[typed.Expr] = []
    for qualifier in rest:
        match qualifier:
            case typed.Binding(pattern, value):
                shape = _lower_or_raise(value, env, ctx)
                more, env = patterns.match_pattern(pattern, shape, env, ctx)
                tests += more
            case typed.Condition(condition):
                conditions.append(condition)
            case typed.Generator():
                return None
    conditions += [clause for clause in (query.where, query.having) if clause is not None]
    for condition in conditions:
        test = ctx.whole(_lower_or_raise(condition, env, ctx))
        tests.append(test)
    head = _lower_or_raise(query.head, env, ctx)
    return GroupBag(domain.side, head, query.type, (*domain.tests, *tests))


def _lower_or_raise(expr: typed.Expr, env: Env, ctx: Context) -> Shape:
    """An expression over the rows of the group alone; raises `NotNative` if it uses more."""
    shape = _lower_over_rows(expr, env, ctx)
    if shape is None:
        raise NotNative(BEYOND_ROWS)
    return shape


def _lower_over_rows(expr: typed.Expr, env: Env, ctx: Context) -> Shape | None:
    """An expression over the rows of the group alone, or None if it uses more."""
    try:
        shape = ctx.lower(expr, env, ctx)
    except NotNative:
        return None
    return shape if _is_made_of_columns(shape) else None


def _is_made_of_columns(shape: Shape) -> bool:
    match shape:
        case Cell():
            return True
        case Parts(parts):
            return all(map(_is_made_of_columns, parts))
        case _:
            return False
