"""The meaning of terms, in plain Python: what rules and other engines are tested against."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Loop,
    Repeat,
    Scan,
    Shared,
    Sort,
    Term,
    Union,
    Values,
)
from incmrql.reference import Environment, evaluate
from incmrql.reference.queries import Ending, iterate
from incmrql.types import typed
from incmrql.values import Bag, Value, encode


def elements(term: Term, env: Environment) -> list[Value]:
    """The elements of a term, as often as they are there."""
    match term:
        case Scan(source):
            return list(evaluate(typed.Read(source, type=source.row), env))
        case Values(expr):
            return list(evaluate(expr, env) or ())
        case Loop(variable) | Shared(variable):
            return list(env.values[variable.number])
        case CMap(variable, body, source):
            results: list[Value] = []
            for value in elements(source, env):
                results += evaluate(body, env.bind(variable, value)) or ()
            return results
        case GroupBy(source):
            return [(key, Bag(values)) for key, values in _groups(elements(source, env))]
        case CoGroup(left, right):
            return _cogroup(elements(left, env), elements(right, env))
        case Union(parts):
            return [value for part in parts for value in elements(part, env)]
        case Sort():
            return _sort(term, elements(term.source, env), env)
        case Repeat():
            return _repeat(term, env)
        case _:
            assert_never(term)


def _groups(pairs: Iterable[tuple[Value, Value]]) -> list[tuple[Value, list[Value]]]:
    """Each key once, with its values."""
    groups: dict[bytes, tuple[Value, list[Value]]] = {}
    for key, value in pairs:
        groups.setdefault(encode(key), (key, []))[1].append(value)
    return list(groups.values())


def _cogroup(left: list[Value], right: list[Value]) -> list[Value]:
    """Each key of either side, with its values on both."""
    marked = [(key, (0, value)) for key, value in left] + [
        (key, (1, value)) for key, value in right
    ]
    return [
        (key, tuple(Bag([value for side, value in values if side == n]) for n in (0, 1)))
        for key, values in _groups(marked)
    ]


def _sort(term: Sort, pairs: list[Value], env: Environment) -> list[Value]:
    """The values by their keys, then in canonical order."""
    ranked = sorted(pairs, key=lambda pair: encode(pair[1]))
    for place in reversed(range(len(term.descending))):
        ranked.sort(key=_key_at(place), reverse=term.descending[place])
    limit = None if term.limit is None else max(evaluate(term.limit, env) or 0, 0)
    return [value for _, value in ranked[:limit]]


def _key_at(place: int) -> Callable[[tuple[Value, Value]], bytes]:
    return lambda pair: encode(pair[0][place])


def _repeat(term: Repeat, env: Environment) -> list[Value]:
    """A loop, step by step, as the reference evaluator does it."""
    limit = None if term.limit is None else evaluate(term.limit, env) or 0

    def step(values: list[Value]) -> list[Value]:
        inner = env
        for variable, rows in zip(term.variables, values, strict=True):
            inner = inner.bind(variable, rows)
        return [Bag(elements(body, inner)) for body in term.step]

    ending = Ending(term.flagged, limit, env.world.max_steps)
    initial = [Bag(elements(start, env)) for start in term.initial]
    return list(iterate(initial, step, ending)[term.chosen])
