"""Comprehensions: the clauses of a select, and what their patterns bind.

    select head from qualifiers where condition ...

A select that ranges over a select is flattened:

    select h from p in (select g from qs where c), rs  =  select h from qs, c, p = g, rs

An equality over p is then one over the variables of qs, where g says no more than that. So it can
be the key of a join with what came before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeAlias

from incmrql.algebra import rows
from incmrql.algebra.rows import Names
from incmrql.algebra.scope import SourceScope
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.types.walk import children, conjuncts, nodes, substitute, used_variables

# --- Clauses of a select ---


def is_plain(select: typed.Select) -> bool:
    """Whether a select has only from, where and head."""
    return not (select.distinct or select.group or select.order or select.limit)


def qualifier_value(qualifier: typed.Qualifier) -> typed.Expr:
    """The expression of a qualifier."""
    match qualifier:
        case typed.Generator(_, value) | typed.Binding(_, value) | typed.Condition(value):
            return value


def exprs_after_where(select: typed.Select) -> list[typed.Expr]:
    """The expressions of a select after its from and where clauses, but for its limit."""
    keys = () if select.group is None else select.group.keys
    return [*keys, *exprs_after_group(select)]


def exprs_after_group(select: typed.Select) -> list[typed.Expr]:
    """The head of a select, its having and its sort keys: they are evaluated for each group."""
    having = () if select.having is None else (select.having,)
    return [select.head, *having, *(order.expr for order in select.order)]


def used_after_group(select: typed.Select) -> set[typed.Variable]:
    """The variables that a select uses after its group by."""
    return set[typed.Variable]().union(*map(used_variables, exprs_after_group(select)))


Comprehension: TypeAlias = tuple[tuple[typed.Qualifier, ...], typed.Expr]


def comprehension(body: typed.Expr, names: Names) -> Comprehension:
    """A collection as qualifiers and a head."""
    match body:
        case typed.MakeCollection((only,)):
            return (), only
        case typed.If(condition, then, typed.MakeCollection(())):
            qualifiers, head = comprehension(then, names)
            return (typed.Condition(condition), *qualifiers), head
        case typed.Select() if is_plain(body):
            where = () if body.where is None else (typed.Condition(body.where),)
            return (*body.qualifiers, *where), body.head
        case _:
            assert isinstance(body.type, Collection)
            one = names.variable("x", body.type.element)
            return (typed.Generator(typed.Bind(one), body),), rows.var(one)


# --- Patterns ---


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


def pattern_bindings(pattern: typed.Pattern, value: typed.Expr) -> dict[typed.Variable, typed.Expr]:
    """What a pattern binds its variables to, as far as the text of the value says it."""
    match pattern, value:
        case typed.Bind(variable), _:
            return {variable: value}
        case typed.TupleOf(patterns), typed.MakeTuple(items):
            pairs = zip(patterns, items, strict=True)
            return {v: e for part, item in pairs for v, e in pattern_bindings(part, item).items()}
        case _:
            return {}


# --- Flattening ---


@dataclass(frozen=True, slots=True)
class Clauses:
    """A select with its from clause flat and its conditions as a list of conjuncts.

    `qualifiers` are generators and bindings.
    """

    qualifiers: tuple[typed.Qualifier, ...]
    conditions: tuple[typed.Expr, ...]
    select: typed.Select


def flatten_clauses(select: typed.Select, scope: SourceScope, names: Names) -> Clauses:
    """The clauses of a select, with those of the selects that it ranges over."""
    qualifiers: list[typed.Qualifier] = []
    conditions: list[typed.Expr] = []
    for qualifier in _flat_qualifiers(select.qualifiers, scope, names):
        if isinstance(qualifier, typed.Condition):
            conditions += conjuncts(qualifier.condition)
        else:
            qualifiers.append(qualifier)
    conditions += conjuncts(select.where)
    bindings = _transparent_bindings(qualifiers)
    return Clauses(
        tuple(qualifiers), tuple(_expand_equality(c, bindings) for c in conditions), select
    )


def _transparent_bindings(
    qualifiers: list[typed.Qualifier],
) -> dict[typed.Variable, typed.Expr]:
    """The variables that are bound to simple expressions, or to records or tuples."""
    bindings: dict[typed.Variable, typed.Expr] = {}
    for qualifier in qualifiers:
        if isinstance(qualifier, typed.Binding):
            value = rows.reduce_projections(substitute(qualifier.value, bindings))
            parts = pattern_bindings(qualifier.pattern, value)
            bindings |= {
                variable: part for variable, part in parts.items() if _is_transparent(part)
            }
    return bindings


def _is_transparent(expr: typed.Expr) -> bool:
    return isinstance(expr, typed.MakeRecord | typed.MakeTuple) or _is_simple(expr)


def _expand_equality(
    condition: typed.Expr, bindings: Mapping[typed.Variable, typed.Expr]
) -> typed.Expr:
    """An equality with its variables expanded, if both sides are simple then; or the condition."""
    if not isinstance(condition, typed.Compare) or condition.op != "=":
        return condition
    expanded = rows.reduce_projections(substitute(condition, bindings))
    return expanded if all(map(_is_simple, children(expanded))) else condition


_SIMPLE = (typed.Var, typed.Const, typed.Field, typed.Item, typed.Widen, typed.Arithmetic,
           typed.Negate)  # fmt: skip


def _is_simple(expr: typed.Expr) -> bool:
    """Whether an expression always has the same value and is cheap to compute again."""
    return all(isinstance(node, _SIMPLE) for node in nodes(expr))


def _flat_qualifiers(
    qualifiers: tuple[typed.Qualifier, ...], scope: SourceScope, names: Names
) -> Iterator[typed.Qualifier]:
    for qualifier in qualifiers:
        if not isinstance(qualifier, typed.Generator):
            yield qualifier
            continue
        inner = _inner_select(scope.resolve(qualifier.domain, names), scope, names)
        if inner is None:
            yield qualifier
            continue
        yield from _flat_qualifiers(inner.qualifiers, scope, names)
        if inner.where is not None:
            yield typed.Condition(inner.where)
        yield typed.Binding(qualifier.pattern, inner.head)


def _inner_select(domain: typed.Expr, scope: SourceScope, names: Names) -> typed.Select | None:
    """The select over a source that a domain is, if it has only from, where and head."""
    if not scope.reads(domain):
        return None
    match domain:
        case typed.Widen(operand):
            inner = _inner_select(scope.resolve(operand, names), scope, names)
            if inner is None or not isinstance(domain.type, Collection):
                return None
            wanted, head = domain.type.element, inner.head
            if head.type != wanted:
                head = typed.Widen(head, type=wanted, span=head.span)
            return replace(inner, head=head)
        case typed.Select(distinct=False, group=None, limit=None):
            return domain  # its order does not count in a bag
        case _:
            return None
