"""Running a construction: h of the data there is, ⊗ of two states, a of a state.

A state is an element of ⊗: a weighted bag of pairs (θ, v) for ⊎, a value for each θ for ⇑.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from incmrql.algebra.interpret import elements
from incmrql.algebra.rows import Names
from incmrql.algebra.term import Term
from incmrql.algebra.walk import variables_of
from incmrql.errors import InternalError
from incmrql.paper.annotated import SMap0
from incmrql.paper.construct import Construction, PerKey, Projected, Reduced, Split, Whole
from incmrql.plan.changes import Weighted
from incmrql.plan.monoids import BAG, KeyedValues, Monoid
from incmrql.reference import Environment, evaluate
from incmrql.types import typed
from incmrql.types.walk import substitute
from incmrql.values import Bag, Value, encode
from tests.paper.annotated import expanded
from tests.paper.carriers import carrier, diffusion, language_value

X = TypeVar("X")


def state_of(made: Construction, env: Environment) -> Any:
    """h: the state over the data of an environment."""
    rows = elements(_term(made), env)
    if made.merge == BAG:
        return Weighted((row, 1) for row in rows)
    (part,) = made.merge.parts
    pairs = [(theta, carrier(part, value)) for theta, value in rows]
    if isinstance(made.answer, Reduced):
        first = [((), part.zero)] if isinstance(made.h, SMap0) else []
        return reduced(part, first + pairs)
    return _unique(pairs)


def _term(made: Construction) -> Term:
    numbers = [v.number for v in variables_of((made.h, made.form.body))]
    return expanded(made.h, Names(max(numbers, default=0)))


def reduced(part: Monoid, pairs: Sequence[tuple[Value, Any]]) -> KeyedValues:
    """reduce(⇑ ⊕, X): the values of each key merged."""
    found: dict[bytes, tuple[Value, Any]] = {}
    for key, value in pairs:
        known = encode(key)
        merged = part.merge(found[known][1], value) if known in found else value
        found[known] = (key, merged)
    return found


def _unique(pairs: Sequence[tuple[Value, Any]]) -> KeyedValues:
    found = {encode(key): (key, value) for key, value in pairs}
    if len(found) < len(pairs):
        raise InternalError("a lineage is there twice")
    return found


def answer_of(made: Construction, state: Any, env: Environment) -> Value:
    """a: the collection, or for a header the bag of its one value."""
    rows = Bag(_answers(made, state, env))
    if made.total is None:
        return rows
    return Bag([evaluate(made.total.head, env.bind(made.total.members, rows))])


def _answers(made: Construction, state: Any, env: Environment) -> list[Value]:
    match made.answer:
        case Projected():
            return [value for _, value in state.bag()]
        case Reduced(parts):
            (monoid,) = made.merge.parts
            total = monoid.total([value for _, value in state.values()])
            return [evaluate(parts.rest, _bound(parts, monoid, total, env))]
        case PerKey(group, parts):
            (monoid,) = made.merge.parts
            by_key = reduced(monoid, [(theta[0], value) for theta, value in state.values()])
            found: list[Value] = []
            for key, (_, values) in by_key.values():
                inner = _bound(parts, parts.monoid, values, env.bind(group, (key, None)))
                found += evaluate(parts.rest, inner) or ()
            return found


def _bound(parts: Split, monoid: Monoid, values: Any, env: Environment) -> Environment:
    """What is kept, in the variables that F finds it in."""
    found = language_value(monoid, parts.values.type, values)
    for each, value in zip(parts.kept, found, strict=True):
        env = env.bind(each.variable, value)
    return env


def answer_whole(whole: Whole, states: Sequence[Any], env: Environment) -> Value:
    """The result of a query from the states of its parts."""
    start = env
    for (variable, made), state in zip(whole.parts, states, strict=True):
        env = env.bind(variable, answer_of(made, state, start))
    return evaluate(whole.result, env)


def iterated(
    monoid: Monoid,
    state: Any,
    start: X,
    steps: int,
    h: Callable[[X], Any],
    a: Callable[[Any], X],
) -> Any:
    """The paper's loop: ΔT ← T ⊗^ h(ΔX), ΔX ← a(ΔT), so many times, and at last T ⊗ ΔT.

    `h` is that of the change.  Approximate, and for ⊗ that is not idempotent T counts twice.
    """
    spread, change = diffusion(monoid), monoid.zero
    for _ in range(steps):
        change = spread(state, h(start))
        start = a(change)
    return monoid.merge(state, change)


def together(parts: Split) -> typed.Expr:
    """F(e1, …, en): the expression that was taken apart, opened."""
    return substitute(parts.rest, {each.variable: each.expr for each in parts.kept})
