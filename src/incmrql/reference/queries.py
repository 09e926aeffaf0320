"""Queries: rows from the qualifiers, a condition, groups, a head, an order, a limit.

A row is an environment.  The steps run one after the other over all rows, in the order in
which a query is read.
"""

from __future__ import annotations

from typing import assert_never

from incmrql.reference.environment import Environment
from incmrql.reference.operators import elements
from incmrql.reference.patterns import Bindings, match_pattern
from incmrql.types import typed
from incmrql.types.walk import bound, is_random, used
from incmrql.values import Bag, Record, Value, encode


def select(query: typed.Select, env: Environment) -> list[Value]:
    """The answer of a query: a list if it is ordered, else a bag."""
    rows = bound_rows(query.qualifiers, env)
    rows = [row for row in rows if holds(query.where, row)]
    if query.group is not None:
        rows = grouped(query.group, rows, env)
    rows = [row for row in rows if holds(query.having, row)]
    heads = [env.world.evaluate(query.head, row) for row in rows]
    chosen = [heads[position] for position in positions(query, heads, rows, env)]
    return chosen if query.order else Bag(chosen)


def bound_rows(qualifiers: tuple[typed.Qualifier, ...], env: Environment) -> list[Environment]:
    """The environment with the variables of the qualifiers, once for each way to bind them."""
    rows = [env]
    for place, qualifier in enumerate(qualifiers):
        if len(rows) > 1 and _is_the_same_for_all(qualifiers, place, env):
            assert isinstance(qualifier, typed.Generator)
            values = elements(env.world.evaluate(qualifier.domain, env))
            rows = [longer for row in rows for longer in _matching(qualifier.pattern, values, row)]
        else:
            rows = [longer for row in rows for longer in _qualified(qualifier, row)]
    return rows


def _is_the_same_for_all(
    qualifiers: tuple[typed.Qualifier, ...], place: int, env: Environment
) -> bool:
    """Whether a domain uses no variable that the qualifiers before it bind.

    Such a domain is evaluated once: queries nested in from clauses would else take time
    exponential in their depth.
    """
    known = env.world.shared.setdefault((id(qualifiers), place), (qualifiers, None))[1]
    if known is None:
        qualifier, before = qualifiers[place], bound(qualifiers[:place])
        known = isinstance(qualifier, typed.Generator) and not (
            used(qualifier.domain) & before or is_random(qualifier.domain)
        )
        env.world.shared[id(qualifiers), place] = (qualifiers, known)
    return known


def _qualified(qualifier: typed.Qualifier, row: Environment) -> list[Environment]:
    evaluate = row.world.evaluate
    match qualifier:
        case typed.Generator(pattern, domain):
            return _matching(pattern, elements(evaluate(domain, row)), row)
        case typed.Binding(pattern, value):
            return _matching(pattern, [evaluate(value, row)], row)
        case typed.Condition(condition):
            return [row] if evaluate(condition, row) else []
        case _:
            assert_never(qualifier)


def _matching(pattern: typed.Pattern, values: list[Value], row: Environment) -> list[Environment]:
    matches = [match_pattern(pattern, value) for value in values]
    return [row.extend(bindings) for bindings in matches if bindings is not None]


def holds(condition: typed.Expr | None, row: Environment) -> bool:
    """Whether a row satisfies a condition; null does not count as true."""
    return condition is None or row.world.evaluate(condition, row) is True


def grouped(group: typed.Group, rows: list[Environment], env: Environment) -> list[Environment]:
    """One environment for each group whose keys match the patterns of the keys."""
    formed = []
    for key, places in buckets(group, rows):
        bindings = group_bindings(group, key, [rows[place] for place in places])
        if bindings is not None:
            formed.append(env.extend(bindings))
    return formed


def buckets(
    group: typed.Group, rows: list[Environment]
) -> list[tuple[tuple[Value, ...], list[int]]]:
    """The keys that occur, each with the positions of its rows."""
    found: dict[bytes, tuple[tuple[Value, ...], list[int]]] = {}
    for position, row in enumerate(rows):
        key = tuple([row.world.evaluate(expr, row) for expr in group.keys])
        found.setdefault(encode(key), (key, []))[1].append(position)
    return list(found.values())


def group_bindings(
    group: typed.Group, key: tuple[Value, ...], members: list[Environment]
) -> Bindings | None:
    """The variables of a group; None if its key does not match."""
    bindings = match_pattern(typed.TupleOf(group.patterns), key)
    if bindings is None:
        return None
    for variable, lifted in group.lifted:
        bindings[lifted.number] = Bag([row.values[variable.number] for row in members])
    names = tuple([variable.name for variable in group.rows])
    bindings[group.partition.number] = Bag(
        [Record.of(names, [row.values[v.number] for v in group.rows]) for row in members]
    )
    return bindings


def positions(
    query: typed.Select, heads: list[Value], rows: list[Environment], env: Environment
) -> list[int]:
    """Which rows are in the answer, in which order: sorted, made distinct, cut off.

    Rows that are equal in all sort keys go by their heads.  Each sort is stable, so the first
    key is sorted last.  Without keys the order only matters to a limit.
    """
    chosen = sorted(range(len(heads)), key=lambda place: encode(heads[place]))
    for order in reversed(query.order):
        keys = [encode(env.world.evaluate(order.expr, row)) for row in rows]
        chosen.sort(key=keys.__getitem__, reverse=order.descending)
    if query.distinct:
        first: dict[bytes, int] = {}
        for place in chosen:
            first.setdefault(encode(heads[place]), place)
        chosen = list(first.values())
    if query.limit is not None:
        chosen = chosen[: max(env.world.evaluate(query.limit, env) or 0, 0)]
    return chosen
