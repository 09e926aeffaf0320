"""Comprehensions flattened: a query that ranges over a query ranges over what that one does.

select h from p in (select g from qs where c), rs  =  select h from qs, c, p = g, rs
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from incmrql.algebra import build
from incmrql.algebra.reading import Reading
from incmrql.algebra.rows import Names
from incmrql.types import typed
from incmrql.types.model import Collection


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
    return Clauses(tuple(qualifiers), tuple(conditions), select)


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
