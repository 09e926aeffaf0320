"""Queries, patterns and loops.

A row is an environment.  The steps of a query run one after the other over all rows, in the order
in which the query is read: qualifiers, condition, groups, head, order, limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from incmrql.errors import DataError
from incmrql.reference.casts import cast, is_null
from incmrql.reference.environment import Bindings, Environment, World, place
from incmrql.reference.joins import Domain, domains
from incmrql.reference.navigate import pairs_of
from incmrql.reference.operators import elements
from incmrql.types import typed
from incmrql.values import Bag, Data, Record, Value, encode, identical

# --- Patterns ---


def match_pattern(pattern: typed.Pattern, value: Value) -> Bindings | None:
    """The variables of the pattern with their values; None if the value does not match."""
    bindings: Bindings = {}
    return bindings if _matches(pattern, value, bindings) else None


def _matches(pattern: typed.Pattern, value: Value, bindings: Bindings) -> bool:
    """Whether the value matches; adds the variables to `bindings`."""
    match pattern:
        case typed.Bind(variable):
            bindings[variable.number] = value
            return True
        case typed.Anything():
            return True
        case typed.Equals(constant, _):
            return identical(constant, value)
        case typed.TupleOf(items):
            return isinstance(value, tuple) and _all_match(items, value, bindings)
        case typed.ListOf(items):
            is_list = isinstance(value, list) and not isinstance(value, Bag)
            return is_list and _all_match(items, value, bindings)
        case typed.DataOf(constructor, content):
            is_constructor = isinstance(value, Data) and value.constructor == constructor.name
            return is_constructor and _matches(content, value.content, bindings)
        case typed.Fields(fields):
            return _fields_match(fields, value, bindings)
        case typed.Members(members):
            return _members_match(members, value, bindings)
        case typed.ReadAs(inner, _, target):
            result = cast(value, target)
            readable = result is not None or is_null(value)
            return readable and _matches(inner, result, bindings)
        case _:
            assert_never(pattern)


def _all_match(
    patterns: tuple[typed.Pattern, ...], values: tuple[Value, ...] | list[Value], bindings: Bindings
) -> bool:
    if len(patterns) != len(values):
        return False
    for pattern, value in zip(patterns, values, strict=True):
        if not _matches(pattern, value, bindings):
            return False
    return True


def _fields_match(
    fields: tuple[tuple[str, typed.Pattern], ...], value: Value, bindings: Bindings
) -> bool:
    if not isinstance(value, Record):
        return False
    for name, pattern in fields:
        if name not in value or not _matches(pattern, value[name], bindings):
            return False
    return True


def _members_match(
    members: tuple[tuple[str, typed.Pattern], ...], value: Value, bindings: Bindings
) -> bool:
    for name, pattern in members:
        values = pairs_of(value, name)
        if not values or not _matches(pattern, values[0], bindings):
            return False
    return True


# --- Queries ---


def select(query: typed.Select, env: Environment) -> list[Value]:
    """The answer of a query: a list if it is ordered, else a bag."""
    rows = bind_qualifiers(query.qualifiers, query.where, env)
    rows = [row for row in rows if holds(query.where, row)]
    if query.group is not None:
        rows = group_rows(query.group, rows, env)
    rows = [row for row in rows if holds(query.having, row)]
    heads = [env.world.evaluate(query.head, row) for row in rows]
    answer = [heads[position] for position in answer_positions(query, heads, rows, env)]
    return answer if query.order else Bag(answer)


def bind_qualifiers(
    qualifiers: tuple[typed.Qualifier, ...], where: typed.Expr | None, env: Environment
) -> list[Environment]:
    """One environment for each way to bind the variables of the qualifiers.

    Some of those for which the condition `where` does not hold may be left out.
    """
    rows = [env]
    for qualifier, domain in zip(qualifiers, _domains(qualifiers, where, env.world), strict=True):
        if domain is not None and rows:
            assert isinstance(qualifier, typed.Generator)
            values = elements(env.world.evaluate(qualifier.domain, env))
            matches = partial(_matches_of, qualifier.pattern, values)
            rows = domain.joined(rows, values, matches, uses_index=_may_use_index(env.world))
        else:
            rows = [extended for row in rows for extended in _bind_qualifier(qualifier, row)]
    return rows


def _matches_of(pattern: typed.Pattern, values: list[Value]) -> list[Bindings]:
    matches = [match_pattern(pattern, value) for value in values]
    return [match for match in matches if match is not None]


def _domains(
    qualifiers: tuple[typed.Qualifier, ...], where: typed.Expr | None, world: World
) -> tuple[Domain | None, ...]:
    """What is known of the domains of a from clause, found out once."""
    key = id(qualifiers), id(where)
    if key not in world.domains:
        world.domains[key] = qualifiers, where, domains(qualifiers, where)
    known: tuple[Domain | None, ...] = world.domains[key][2]
    return known


def _may_use_index(world: World) -> bool:
    return world.uses_index and not world.fail_arithmetic


def _bind_qualifier(qualifier: typed.Qualifier, row: Environment) -> list[Environment]:
    evaluate = row.world.evaluate
    match qualifier:
        case typed.Generator(pattern, domain):
            return _bind_pattern(pattern, elements(evaluate(domain, row)), row)
        case typed.Binding(pattern, value):
            return _bind_pattern(pattern, [evaluate(value, row)], row)
        case typed.Condition(condition):
            return [row] if evaluate(condition, row) else []
        case _:
            assert_never(qualifier)


def _bind_pattern(
    pattern: typed.Pattern, values: list[Value], row: Environment
) -> list[Environment]:
    matches = [match_pattern(pattern, value) for value in values]
    return [row.extend(bindings) for bindings in matches if bindings is not None]


def holds(condition: typed.Expr | None, row: Environment) -> bool:
    """Whether a row satisfies a condition; null does not count as true."""
    return condition is None or row.world.evaluate(condition, row) is True


def group_rows(group: typed.Group, rows: list[Environment], env: Environment) -> list[Environment]:
    """One environment for each group whose keys match the patterns of the keys."""
    groups = []
    for key, indexes in group_members(group, rows):
        bindings = group_bindings(group, key, [rows[index] for index in indexes])
        if bindings is not None:
            groups.append(env.extend(bindings))
    return groups


def group_members(
    group: typed.Group, rows: list[Environment]
) -> list[tuple[tuple[Value, ...], list[int]]]:
    """The keys that occur, each with the indexes of its rows."""
    groups: dict[bytes, tuple[tuple[Value, ...], list[int]]] = {}
    for index, row in enumerate(rows):
        key = tuple([row.world.evaluate(expr, row) for expr in group.keys])
        groups.setdefault(encode(key), (key, []))[1].append(index)
    return list(groups.values())


def group_bindings(
    group: typed.Group, key: tuple[Value, ...], members: list[Environment]
) -> Bindings | None:
    """The variables of a group with their values; None if its key does not match."""
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


def answer_positions(
    query: typed.Select, heads: list[Value], rows: list[Environment], env: Environment
) -> list[int]:
    """The indexes of the rows in the answer, in order: sorted, distinct, limited.

    Rows that are equal in all sort keys are ordered by their heads.  Each sort is stable, so the
    first key is sorted last.  Without keys the order only matters to a limit.
    """
    indexes = sorted(range(len(heads)), key=lambda index: encode(heads[index]))
    for order in reversed(query.order):
        keys = [encode(env.world.evaluate(order.expr, row)) for row in rows]
        indexes.sort(key=keys.__getitem__, reverse=order.descending)
    if query.distinct:
        first: dict[bytes, int] = {}
        for index in indexes:
            first.setdefault(encode(heads[index]), index)
        indexes = list(first.values())
    if query.limit is not None:
        indexes = indexes[: max(env.world.evaluate(query.limit, env) or 0, 0)]
    return indexes


# --- Loops ---


@dataclass(frozen=True, slots=True)
class Ending:
    """When a loop ends: variables with flags, its own limit, and the maximum number of steps."""

    flagged: tuple[bool, ...]
    limit: int | None
    most: int
    where: str = ""


def repeat(loop: typed.Repeat, env: Environment) -> Value:
    """The variable's value when the loop ends, or the tuple of all variables' values."""
    evaluate = env.world.evaluate
    limit = None if loop.limit is None else evaluate(loop.limit, env) or 0
    ending = Ending(loop.flagged, limit, env.world.max_steps, place(loop.span))

    def step(values: list[Value]) -> list[Value]:
        row = env.extend({v.number: x for v, x in zip(loop.variables, values, strict=True)})
        return [evaluate(expr, row) for expr in loop.step]

    values = iterate([evaluate(initial, env) for initial in loop.initial], step, ending)
    return values[0] if len(values) == 1 else tuple(values)


def iterate(
    values: list[Value], step: Callable[[list[Value]], list[Value]], ending: Ending
) -> list[Value]:
    """The values of a loop's variables when it ends."""
    steps, running = 0, True
    while running and (ending.limit is None or steps < ending.limit):
        if ending.limit is None and steps >= ending.most:
            raise endless_loop_error(steps, ending.where)
        results = step(values)
        new_values = [
            _without_flags(x) if f else x for x, f in zip(results, ending.flagged, strict=True)
        ]
        running = _continues(ending, results, new_values, values)
        values, steps = new_values, steps + 1
    return values


def _without_flags(flagged: Value) -> Value:
    """The collection of pairs (row, flag) without the flags."""
    return None if flagged is None else type(flagged)([pair and pair[0] for pair in flagged])


def _continues(
    ending: Ending, results: list[Value], new_values: list[Value], before: list[Value]
) -> bool:
    if any(ending.flagged):
        flags = [
            pair and pair[1]
            for pairs, flagged in zip(results, ending.flagged, strict=True)
            if flagged and pairs is not None
            for pair in pairs
        ]
        return True in flags
    return ending.limit is not None or not identical(new_values, before)


def endless_loop_error(steps: int, where: str = "") -> DataError:
    """The error for a loop that exceeds the maximum number of steps."""
    message = f"the loop still changes after {steps:,} steps"
    return DataError("R202", message, place=where, hint="Give it an end with `limit n`.")
