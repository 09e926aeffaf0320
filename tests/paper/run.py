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
from tests.paper.annotated import expand
from tests.paper.carriers import carrier, diffusion, language_value

X = TypeVar("X")


def state_of(construction: Construction, env: Environment) -> Any:
    """h: the state over the data of an environment."""
    rows = elements(_term(construction), env)
    if construction.merge == BAG:
        return Weighted((row, 1) for row in rows)
    (part,) = construction.merge.parts
    pairs = [(theta, carrier(part, value)) for theta, value in rows]
    if isinstance(construction.answer, Reduced):
        first = [((), part.zero)] if isinstance(construction.h, SMap0) else []
        return reduce_by_key(part, first + pairs)
    return _unique(pairs)


def _term(construction: Construction) -> Term:
    numbers = [v.number for v in variables_of((construction.h, construction.form.body))]
    return expand(construction.h, Names(max(numbers, default=0)))


def reduce_by_key(part: Monoid, pairs: Sequence[tuple[Value, Any]]) -> KeyedValues:
    """reduce(⇑ ⊕, X): the values of each key merged."""
    merged_by_key: dict[bytes, tuple[Value, Any]] = {}
    for key, value in pairs:
        known = encode(key)
        merged = part.merge(merged_by_key[known][1], value) if known in merged_by_key else value
        merged_by_key[known] = (key, merged)
    return merged_by_key


def _unique(pairs: Sequence[tuple[Value, Any]]) -> KeyedValues:
    by_key = {encode(key): (key, value) for key, value in pairs}
    if len(by_key) < len(pairs):
        raise InternalError("a lineage is there twice")
    return by_key


def answer_of(construction: Construction, state: Any, env: Environment) -> Value:
    """a: the collection, or for a header the bag of its one value."""
    rows = Bag(_answers(construction, state, env))
    if construction.total is None:
        return rows
    return Bag([evaluate(construction.total.head, env.bind(construction.total.members, rows))])


def _answers(construction: Construction, state: Any, env: Environment) -> list[Value]:
    match construction.answer:
        case Projected():
            return [value for _, value in state.bag()]
        case Reduced(parts):
            (monoid,) = construction.merge.parts
            total = monoid.total([value for _, value in state.values()])
            return [evaluate(parts.rest, _bind_kept(parts, monoid, total, env))]
        case PerKey(group, parts):
            (monoid,) = construction.merge.parts
            by_key = reduce_by_key(monoid, [(theta[0], value) for theta, value in state.values()])
            answers: list[Value] = []
            for key, (_, values) in by_key.values():
                inner = _bind_kept(parts, parts.monoid, values, env.bind(group, (key, None)))
                answers += evaluate(parts.rest, inner) or ()
            return answers


def _bind_kept(parts: Split, monoid: Monoid, values: Any, env: Environment) -> Environment:
    """Bind the kept values to the variables that F reads."""
    kept_values = language_value(monoid, parts.values.type, values)
    for part, value in zip(parts.kept, kept_values, strict=True):
        env = env.bind(part.variable, value)
    return env


def answer_whole(whole: Whole, states: Sequence[Any], env: Environment) -> Value:
    """The result of a query from the states of its parts."""
    start = env
    for (variable, construction), state in zip(whole.parts, states, strict=True):
        env = env.bind(variable, answer_of(construction, state, start))
    return evaluate(whole.result, env)


def iterate(
    monoid: Monoid,
    state: Any,
    start: X,
    steps: int,
    h: Callable[[X], Any],
    a: Callable[[Any], X],
) -> Any:
    """The paper's loop: `steps` times ΔT ← T ⊗^ h(ΔX), ΔX ← a(ΔT); then T ⊗ ΔT.

    `h` is that of the change.  Approximate, and for ⊗ that is not idempotent T counts twice.
    """
    spread, change = diffusion(monoid), monoid.zero
    for _ in range(steps):
        change = spread(state, h(start))
        start = a(change)
    return monoid.merge(state, change)


def together(parts: Split) -> typed.Expr:
    """F(e1, …, en): the expression that was taken apart, opened."""
    return substitute(parts.rest, {part.variable: part.expr for part in parts.kept})
