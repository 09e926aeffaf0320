"""Traversal of typed expressions: the one module that knows the fields of nodes.

Expressions hold other expressions directly or inside qualifiers, groups, branches, patterns,
lambdas and sources.  All of these are frozen dataclasses, so one generic traversal is enough.
Every binder has its own variable, so the free variables are those that occur and are not bound.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, get_args

from incmrql.syntax.depth import deep_recursion
from incmrql.types import typed

_EXPRESSIONS = frozenset(get_args(typed.Expr))


_PART_FIELDS: dict[type, tuple[str, ...] | None] = {}


def _part_fields(kind: type) -> tuple[str, ...] | None:
    """The fields of a node class that may hold expressions; None if the class is no node."""
    if kind not in _PART_FIELDS:
        _PART_FIELDS[kind] = None
        is_ours = kind.__module__.startswith(typed.__name__) and kind is not typed.Variable
        if is_ours and is_dataclass(kind):
            names = [field.name for field in fields(kind)]
            _PART_FIELDS[kind] = tuple(n for n in names if n not in ("type", "span"))
    return _PART_FIELDS[kind]


def map_children(f: Callable[[typed.Expr], typed.Expr], expr: typed.Expr) -> typed.Expr:
    """`expr` with `f` applied to each expression directly inside it."""
    mapped: typed.Expr = _map_fields(f, expr)
    return mapped


def _map_fields(f: Callable[[typed.Expr], typed.Expr], node: Any) -> Any:
    """A node with `f` applied to the expressions in its fields; the same node if none changed."""
    changed = {}
    for name in _part_fields(type(node)) or ():
        before = getattr(node, name)
        after = _map_part(f, before)
        if after is not before and after != before:
            changed[name] = after
    return replace(node, **changed) if changed else node


def _map_part(f: Callable[[typed.Expr], typed.Expr], part: Any) -> Any:
    kind = type(part)
    if kind in _EXPRESSIONS:
        return f(part)
    if kind is tuple:
        items = tuple([_map_part(f, item) for item in part])
        return part if all(map(operator.is_, part, items)) else items
    return part if _part_fields(kind) is None else _map_fields(f, part)


def children(node: typed.Expr | typed.Aggregation) -> Iterator[typed.Expr]:
    """The expressions directly inside a node."""
    for name in _part_fields(type(node)) or ():
        yield from _inside(getattr(node, name))


def _inside(part: Any) -> Iterator[typed.Expr]:
    """The outermost expressions in a part of a node."""
    kind = type(part)
    if kind in _EXPRESSIONS:
        yield part
    elif kind is tuple:
        for item in part:
            yield from _inside(item)
    else:
        for name in _part_fields(kind) or ():
            yield from _inside(getattr(part, name))


def nodes(expr: typed.Expr) -> Iterator[typed.Expr]:
    """`expr` and all expressions inside it."""
    yield expr
    for child in children(expr):
        yield from nodes(child)


def bound_variables(part: Any) -> frozenset[typed.Variable]:
    """The variables that binders anywhere inside bind."""
    if type(part) not in _EXPRESSIONS:
        return _bound_inside([part])
    try:
        known: frozenset[typed.Variable] = part.bound
    except AttributeError:
        is_use = type(part) is typed.Var
        known = _NO_VARIABLES if is_use else _bound_inside(_parts(part))
        object.__setattr__(part, "bound", known)
    return known


def _bound_inside(pending: list[Any]) -> frozenset[typed.Variable]:
    """The variables that parts bind; only expressions inside of them deepen the stack."""
    known = _NO_VARIABLES
    while pending:
        part = pending.pop()
        kind = type(part)
        if kind is tuple:
            pending += part
        elif kind is typed.Variable:
            known = _union((known, frozenset((part,))))
        elif kind in _EXPRESSIONS:
            known = _union((known, bound_variables(part)))
        else:
            pending += _parts(part)
    return known


def _parts(node: Any) -> list[Any]:
    """What stands in the fields of a node."""
    return [getattr(node, name) for name in _part_fields(type(node)) or ()]


def used_variables(expr: typed.Expr) -> frozenset[typed.Variable]:
    """The variables that occur."""
    try:
        known = expr.used
    except AttributeError:
        if isinstance(expr, typed.Var):
            known = frozenset((expr.variable,))
        else:
            known = _union(map(used_variables, children(expr)))
        object.__setattr__(expr, "used", known)
    return known


_NO_VARIABLES: Final[frozenset[typed.Variable]] = frozenset()


def _union(sets: Iterable[frozenset[typed.Variable]]) -> frozenset[typed.Variable]:
    """The union of sets: one of them if it has all, so that nodes share what is remembered."""
    union = _NO_VARIABLES
    for variables in sets:
        if not variables <= union:
            union = variables if union <= variables else union | variables
    return union


def free_variables(expr: typed.Expr) -> frozenset[typed.Variable]:
    """The variables that occur and are bound outside."""
    return used_variables(expr) - bound_variables(expr)


def uses_of(variable: typed.Variable, expr: typed.Expr, *, most: int) -> int:
    """How often a variable occurs, counted up to a number."""
    if variable not in used_variables(expr):
        return 0
    if isinstance(expr, typed.Var):
        return 1
    uses = 0
    for child in children(expr):
        uses += uses_of(variable, child, most=most - uses)
        if uses >= most:
            break
    return uses


def is_random(expr: typed.Expr) -> bool:
    """Whether an expression may have a different value each time it is evaluated."""
    return any(isinstance(n, typed.Builtin) and n.function == "random" for n in nodes(expr))


def conjuncts(condition: typed.Expr | None) -> list[typed.Expr]:
    """The parts of a condition that all have to hold."""
    match condition:
        case None:
            return []
        case typed.Logic("and", left, right):
            return [*conjuncts(left), *conjuncts(right)]
        case _:
            return [condition]


def root_variable(expr: typed.Expr) -> typed.Variable | None:
    """The variable at the start of a chain of fields and components, or None."""
    path = component_path(expr)
    return None if path is None else path[0]


def component_path(expr: typed.Expr) -> tuple[typed.Variable, tuple[int | str, ...]] | None:
    """The variable and path of an expression like `v.A#1`; None for other expressions."""
    path: list[int | str] = []
    while isinstance(expr, typed.Field | typed.Item):
        path.append(expr.name if isinstance(expr, typed.Field) else expr.index)
        expr = expr.subject
    return (expr.variable, tuple(reversed(path))) if isinstance(expr, typed.Var) else None


def substitute(expr: typed.Expr, values: Mapping[typed.Variable, typed.Expr]) -> typed.Expr:
    """`expr` with variables replaced by expressions."""
    if isinstance(expr, typed.Var):
        return values.get(expr.variable, expr)
    if used_variables(expr).isdisjoint(values):
        return expr
    return map_children(lambda child: substitute(child, values), expr)


def with_copies(
    expr: typed.Expr,
    variable: typed.Variable,
    value: typed.Expr,
    fresh: Callable[[typed.Variable], typed.Variable],
) -> typed.Expr:
    """`expr` with each use of a variable replaced by a copy of `value` with fresh binders."""
    if variable not in used_variables(expr):
        return expr
    if isinstance(expr, typed.Var):
        return rename_binders(value, fresh)
    return map_children(lambda child: with_copies(child, variable, value, fresh), expr)


def rename_binders(
    expr: typed.Expr, fresh: Callable[[typed.Variable], typed.Variable]
) -> typed.Expr:
    """`expr` with a new variable for every binder inside it."""
    names = {variable: fresh(variable) for variable in sorted(bound_variables(expr), key=_number)}
    result: typed.Expr = _rename(expr, names)
    return result


def _number(variable: typed.Variable) -> int:
    return variable.number


def _rename(part: Any, names: Mapping[typed.Variable, typed.Variable]) -> Any:
    kind = type(part)
    if kind is typed.Variable:
        return names.get(part, part)
    if kind is tuple:
        items = tuple([_rename(item, names) for item in part])
        return part if all(map(operator.is_, part, items)) else items
    if kind in _EXPRESSIONS and _is_without(part, names):
        return part
    changed = {}
    for name in _part_fields(kind) or ():
        before = getattr(part, name)
        after = _rename(before, names)
        if after is not before:
            changed[name] = after
    return replace(part, **changed) if changed else part


def _is_without(expr: typed.Expr, names: Mapping[typed.Variable, typed.Variable]) -> bool:
    return used_variables(expr).isdisjoint(names) and bound_variables(expr).isdisjoint(names)


# --- Other sources ---


def with_sources(
    script: typed.Script, change: Callable[[typed.Source], typed.Source]
) -> typed.Script:
    """The script with `change` applied to every source."""

    def map_sources(expr: typed.Expr) -> typed.Expr:
        inner = map_children(map_sources, expr)
        return (
            replace(inner, source=change(inner.source)) if isinstance(inner, typed.Read) else inner
        )

    with deep_recursion():
        return replace(
            script,
            items=tuple(replace(item, expr=map_sources(item.expr)) for item in script.items),
            queries={name: map_sources(expr) for name, expr in script.queries.items()},
            functions={
                n: replace(f, body=map_sources(f.body)) for n, f in script.functions.items()
            },
        )
