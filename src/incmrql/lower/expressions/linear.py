"""Bags that go through the rows of one group: they stay bags of the group as long as they can.

A map, a conversion or a selection over such a bag is one again, so that an aggregate of it can
be computed where the group is formed.
"""

from __future__ import annotations

from dataclasses import replace

from incmrql.lower.context import Context
from incmrql.lower.expressions import patterns
from incmrql.lower.shapes import Cell, Env, Many, NotNative, Parts, Shape
from incmrql.types import typed
from incmrql.types.model import Collection


def mapped(expr: typed.MapOver, subject: Shape, ctx: Context) -> Many | None:
    """A function of every element."""
    if not isinstance(subject, Many) or expr.flatten or not isinstance(expr.type, Collection):
        return None
    inner = subject.side.inner_env().bind(expr.variable, subject.head)
    head = _lowered(expr.body, inner, ctx)
    return None if head is None else replace(subject, head=head, type=expr.type)


def widened(expr: typed.Widen, subject: Many, ctx: Context) -> Many | None:
    """Every element in a wider type."""
    if not isinstance(expr.type, Collection):
        return None
    own = subject.head.type
    if own == expr.type.element:
        return replace(subject, type=expr.type)
    variable = typed.Variable("x", -1, own)
    body = typed.Widen(typed.Var(variable, type=own), type=expr.type.element)
    head = _lowered(body, subject.side.inner_env().bind(variable, subject.head), ctx)
    return None if head is None else replace(subject, head=head, type=expr.type)


def selected(query: typed.Select, domain: Shape, ctx: Context) -> Many | None:
    """A query over one group with conditions and a head; `domain` is that of its first part."""
    plain = query.group is None and not (query.order or query.distinct or query.limit is not None)
    first, *rest = query.qualifiers
    if not (plain and isinstance(domain, Many) and isinstance(first, typed.Generator)):
        return None
    if any(isinstance(qualifier, typed.Generator) for qualifier in rest):
        return None
    try:
        return _selected(query, first, rest, domain, ctx)
    except NotNative:
        return None


def _selected(
    query: typed.Select,
    first: typed.Generator,
    rest: list[typed.Qualifier],
    domain: Many,
    ctx: Context,
) -> Many | None:
    tests, env = patterns.matched(first.pattern, domain.head, domain.side.inner_env(), ctx)
    conditions: list[typed.Expr] = []
    for qualifier in rest:
        match qualifier:
            case typed.Binding(pattern, value):
                found = _needed(value, env, ctx)
                more, env = patterns.matched(pattern, found, env, ctx)
                tests += more
            case typed.Condition(condition):
                conditions.append(condition)
            case typed.Generator():
                return None
    conditions += [each for each in (query.where, query.having) if each is not None]
    for condition in conditions:
        test = ctx.whole(_needed(condition, env, ctx))
        tests.append(test)
    head = _needed(query.head, env, ctx)
    return Many(domain.side, head, query.type, (*domain.tests, *tests))


def _needed(expr: typed.Expr, env: Env, ctx: Context) -> Shape:
    """An expression over the rows of the group alone; else not native here."""
    found = _lowered(expr, env, ctx)
    if found is None:
        raise NotNative("an aggregate that looks at more than its own rows")
    return found


def _lowered(expr: typed.Expr, env: Env, ctx: Context) -> Shape | None:
    """An expression that uses nothing but the rows of the group, or None."""
    try:
        found = ctx.lower(expr, env, ctx)
    except NotNative:
        return None
    return found if _is_made_of_columns(found) else None


def _is_made_of_columns(shape: Shape) -> bool:
    match shape:
        case Cell():
            return True
        case Parts(parts):
            return all(map(_is_made_of_columns, parts))
        case _:
            return False
