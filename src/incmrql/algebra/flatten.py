"""Comprehensions flattened: a query that ranges over a query ranges over what that one does.

select h from p in (select g from qs where c), rs  =  select h from qs, c, p = g, rs

An equality over p is then one over the variables of qs, where g says no more than that, so that it
can be the key of a join with what came before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from incmrql.algebra import build
from incmrql.algebra.reading import Reading
from incmrql.algebra.rows import Names
from incmrql.types import typed
from incmrql.types.model import Collection, Record
from incmrql.types.walk import children, map_children, nodes, substitute


@dataclass(frozen=True, slots=True)
class Clauses:
    """A query with its from clause flat and its conditions taken apart."""

    qualifiers: tuple[typed.Qualifier, ...]
    conditions: tuple[typed.Expr, ...]
    select: typed.Select


def flattened(select: typed.Select, reading: Reading, names: Names) -> Clauses:
    """The clauses of a query."""
    qualifiers: list[typed.Qualifier] = []
    conditions: list[typed.Expr] = []
    for qualifier in _flat(select.qualifiers, reading, names):
        if isinstance(qualifier, typed.Condition):
            conditions += build.conjuncts(qualifier.condition)
        else:
            qualifiers.append(qualifier)
    conditions += build.conjuncts(select.where)
    known = _known(qualifiers)
    return Clauses(tuple(qualifiers), tuple(_through(c, known) for c in conditions), select)


def _known(qualifiers: list[typed.Qualifier]) -> dict[typed.Variable, typed.Expr]:
    """What variables are bound to that are made of others in a simple way."""
    found: dict[typed.Variable, typed.Expr] = {}
    for qualifier in qualifiers:
        if isinstance(qualifier, typed.Binding):
            value = projected(substitute(qualifier.value, found))
            parts = pattern_parts(qualifier.pattern, value)
            found |= {variable: part for variable, part in parts.items() if _is_known(part)}
    return found


def _is_known(expr: typed.Expr) -> bool:
    return isinstance(expr, typed.MakeRecord | typed.MakeTuple) or _is_simple(expr)


def _through(condition: typed.Expr, known: Mapping[typed.Variable, typed.Expr]) -> typed.Expr:
    """An equality of variables that are not bound to others; else the condition."""
    if not isinstance(condition, typed.Compare) or condition.op != "=":
        return condition
    found = projected(substitute(condition, known))
    return found if all(map(_is_simple, children(found))) else condition


_SIMPLE = (typed.Var, typed.Const, typed.Field, typed.Item, typed.Widen, typed.Arithmetic,
           typed.Negate)  # fmt: skip


def _is_simple(expr: typed.Expr) -> bool:
    """Whether an expression has one value however often it is computed, and soon."""
    return all(isinstance(node, _SIMPLE) for node in nodes(expr))


def _flat(
    qualifiers: tuple[typed.Qualifier, ...], reading: Reading, names: Names
) -> Iterator[typed.Qualifier]:
    for qualifier in qualifiers:
        if not isinstance(qualifier, typed.Generator):
            yield qualifier
            continue
        inner = _plain(reading.resolved(qualifier.domain, names), reading, names)
        if inner is None:
            yield qualifier
            continue
        yield from _flat(inner.qualifiers, reading, names)
        if inner.where is not None:
            yield typed.Condition(inner.where)
        yield typed.Binding(qualifier.pattern, inner.head)


def _plain(domain: typed.Expr, reading: Reading, names: Names) -> typed.Select | None:
    """The query that a domain is, if it has nothing but from, where and head."""
    if not reading.reads(domain):
        return None
    match domain:
        case typed.Widen(operand):
            inner = _plain(reading.resolved(operand, names), reading, names)
            if inner is None or not isinstance(domain.type, Collection):
                return None
            wanted = domain.type.element
            head = inner.head
            if head.type != wanted:
                head = typed.Widen(head, type=wanted, span=head.span)
            return replace(inner, head=head)
        case typed.Select(distinct=False, group=None, limit=None):
            return domain
        case _:
            return None


def pattern_variables(pattern: Any) -> list[typed.Variable]:
    """The variables that a pattern binds, in order."""
    if isinstance(pattern, typed.Bind):
        return [pattern.variable]
    if isinstance(pattern, tuple):
        return [v for part in pattern for v in pattern_variables(part)]
    if is_dataclass(pattern) and not isinstance(pattern, type):
        parts = (getattr(pattern, part.name) for part in fields(pattern))
        return [v for part in parts for v in pattern_variables(part)]
    return []


def pattern_parts(pattern: typed.Pattern, value: typed.Expr) -> dict[typed.Variable, typed.Expr]:
    """What the variables of a pattern stand for, as far as the text of the value says it."""
    match pattern, value:
        case typed.Bind(variable), _:
            return {variable: value}
        case typed.TupleOf(patterns), typed.MakeTuple(items):
            pairs = zip(patterns, items, strict=True)
            return {v: e for each, item in pairs for v, e in pattern_parts(each, item).items()}
        case _:
            return {}


def projected(expr: typed.Expr) -> typed.Expr:
    """The expression with parts of what is made in it in the places of projections."""
    match map_children(projected, expr):
        case typed.Field(typed.MakeRecord(items) as made, name) if isinstance(made.type, Record):
            return items[made.type.names.index(name)]
        case typed.Item(typed.MakeTuple(items), place):
            return items[place]
        case other:
            return other
