"""Walking typed expressions: the one module that knows where a node keeps its parts.

Expressions hold other expressions directly or inside qualifiers, groups, branches, patterns,
lambdas and sources; all of these are frozen dataclasses, so one walk over their fields serves.
Since every binder has a variable of its own, a variable is free where it is used and not bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args

from incmrql.diagnostics import Span
from incmrql.types import typed

_EXPRESSIONS = get_args(typed.Expr)
_OPAQUE = (Span, typed.Variable)


def map_children(f: Callable[[typed.Expr], typed.Expr], expr: typed.Expr) -> typed.Expr:
    """`expr` with `f` applied to each expression directly inside it."""
    mapped: typed.Expr = _rebuilt(expr, lambda part: _map_part(f, part))
    return mapped


def _map_part(f: Callable[[typed.Expr], typed.Expr], part: Any) -> Any:
    if isinstance(part, _EXPRESSIONS):
        return f(part)
    if isinstance(part, tuple):
        return tuple([_map_part(f, item) for item in part])
    if _is_plain_node(part):
        return _rebuilt(part, lambda inner: _map_part(f, inner))
    return part


def _is_plain_node(part: Any) -> bool:
    """A part of the tree that is no expression and may hold some."""
    return (
        is_dataclass(part)
        and type(part).__module__.startswith(typed.__name__)
        and not (isinstance(part, (*_OPAQUE, type)))
    )


def _rebuilt(node: Any, f: Callable[[Any], Any]) -> Any:
    """A node with `f` applied to its fields; the same node if nothing changed."""
    changed = {}
    for part in fields(node):
        before = getattr(node, part.name)
        if part.name in ("type", "span") or isinstance(before, _OPAQUE):
            continue
        after = f(before)
        if after is not before and after != before:
            changed[part.name] = after
    return replace(node, **changed) if changed else node


def children(expr: typed.Expr) -> Iterator[typed.Expr]:
    """The expressions directly inside `expr`."""
    return _parts(expr, top=True)


def _parts(part: Any, *, top: bool = False) -> Iterator[typed.Expr]:
    if isinstance(part, _EXPRESSIONS) and not top:
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from _parts(item)
    elif top or _is_plain_node(part):
        for each in fields(part):
            yield from _parts(getattr(part, each.name))


def nodes(expr: typed.Expr) -> Iterator[typed.Expr]:
    """`expr` and all expressions inside it."""
    yield expr
    for child in children(expr):
        yield from nodes(child)


def bound(part: Any) -> set[typed.Variable]:
    """The variables that binders anywhere inside bind."""
    if isinstance(part, typed.Var):
        return set()
    if isinstance(part, typed.Variable):
        return {part}
    if isinstance(part, tuple):
        return set().union(*map(bound, part))
    if isinstance(part, _EXPRESSIONS) or _is_plain_node(part):
        return set().union(*(bound(getattr(part, each.name)) for each in fields(part)))
    return set()


def used(expr: typed.Expr) -> set[typed.Variable]:
    """The variables that occur."""
    return {node.variable for node in nodes(expr) if isinstance(node, typed.Var)}


def free(expr: typed.Expr) -> set[typed.Variable]:
    """The variables that occur and are bound outside."""
    return used(expr) - bound(expr)


def is_random(expr: typed.Expr) -> bool:
    """Whether an expression may have another value each time."""
    return any(isinstance(n, typed.Builtin) and n.function == "random" for n in nodes(expr))


def root(expr: typed.Expr) -> typed.Variable | None:
    """The variable that a chain of fields and components starts from, if it is one."""
    while isinstance(expr, typed.Field | typed.Item):
        expr = expr.subject
    return expr.variable if isinstance(expr, typed.Var) else None


def substitute(expr: typed.Expr, values: Mapping[typed.Variable, typed.Expr]) -> typed.Expr:
    """`expr` with expressions in the places of variables."""
    if isinstance(expr, typed.Var):
        return values.get(expr.variable, expr)
    return map_children(lambda child: substitute(child, values), expr) if values else expr


def renamed(expr: typed.Expr, fresh: Callable[[typed.Variable], typed.Variable]) -> typed.Expr:
    """`expr` with a new variable for every binder inside it."""
    names = {variable: fresh(variable) for variable in sorted(bound(expr), key=_number)}
    result: typed.Expr = _rename(expr, names)
    return result


def _number(variable: typed.Variable) -> int:
    return variable.number


def _rename(part: Any, names: Mapping[typed.Variable, typed.Variable]) -> Any:
    if isinstance(part, typed.Variable):
        return names.get(part, part)
    if isinstance(part, tuple):
        return tuple([_rename(item, names) for item in part])
    if isinstance(part, _EXPRESSIONS) or _is_plain_node(part):
        changed = {}
        for each in fields(part):
            before = getattr(part, each.name)
            after = before if each.name in ("type", "span") else _rename(before, names)
            if after is not before:
                changed[each.name] = after
        return replace(part, **changed) if changed else part
    return part
