"""Whether the laws of a user aggregation hold.

    merge(merge(a, b), c) = merge(a, merge(b, c))        merge(zero, a) = a = merge(a, zero)

and where there is an inverse, which makes a commutative group of them:

    merge(a, b) = merge(b, a)        merge(merge(a, b), inverse(b)) = a

Tried on random accumulators that a query could produce: units of small elements, merged a few
times.  The unit law is also tried on extreme elements: there associativity may fail by rounding
and overflow alone, of which the language makes no secret, but nothing excuses the zero.  Nor an
inverse that does not take away all that was merged: whoever declares one says it does.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from incmrql.diagnostics import DataError
from incmrql.reference.calls import apply
from incmrql.reference.environment import Environment, World
from incmrql.reference.random_values import NoValues, random_value
from incmrql.types import typed
from incmrql.types.model import PREDEFINED
from incmrql.types.walk import nodes
from incmrql.values import Value, identical, show

TRIPLES = 200


def check_aggregation(
    aggregation: typed.Aggregation, world: World, rng: random.Random
) -> str | None:
    """A counterexample to the laws, as text; None if none was found or none can be made."""
    env = Environment(world)
    zero = world.evaluate(aggregation.zero, env)

    def merge(left: Value, right: Value) -> Value:
        return apply(aggregation.merge, [left, right], env)

    def not_inverse(a: Value, b: Value) -> str | None:
        if aggregation.inverse is None:
            return None
        away = apply(aggregation.inverse, [b], env)
        return _not_commutative(a, b, merge) or _not_taken_away(a, b, away, merge)

    def try_small() -> str | None:
        a, b, c = (_accumulator(aggregation, env, rng) for _ in range(3))
        return _not_unit(zero, a, merge) or _not_associative(a, b, c, merge) or not_inverse(a, b)

    def try_extreme() -> str | None:
        a, b = (_one(aggregation, env, rng, extreme=True) for _ in range(2))
        return _not_unit(zero, a, merge) or not_inverse(a, b)

    trials = (try_small,) if _has_loops(aggregation, world) else (try_small, try_extreme)
    for trial in trials * TRIPLES:
        try:
            found = trial()
        except NoValues:
            return None
        except DataError:
            continue  # a function that takes no such elements, which there may never be
        if found:
            return found
    return None


def _has_loops(aggregation: typed.Aggregation, world: World) -> bool:
    """Whether a loop may be run, of which an extreme element could be the number of steps."""
    bodies = [aggregation.merge.body, *[f.body for f in world.script.functions.values()]]
    if aggregation.unit is not None:
        bodies.append(aggregation.unit.body)
    return any(isinstance(node, typed.Repeat) for body in bodies for node in nodes(body))


def _accumulator(aggregation: typed.Aggregation, env: Environment, rng: random.Random) -> Value:
    """Up to three elements as accumulators, merged."""
    count = rng.randint(1, 3)
    merged = _one(aggregation, env, rng)
    for _ in range(count - 1):
        merged = apply(aggregation.merge, [merged, _one(aggregation, env, rng)], env)
    return merged


def _one(
    aggregation: typed.Aggregation, env: Environment, rng: random.Random, *, extreme: bool = False
) -> Value:
    """The accumulator of one random element."""
    data = env.world.script.data or PREDEFINED
    element = random_value(aggregation.element, rng, data, extreme=extreme)
    return element if aggregation.unit is None else apply(aggregation.unit, [element], env)


def _not_unit(zero: Value, a: Value, merge: Callable[[Value, Value], Value]) -> str | None:
    for left, right in ((zero, a), (a, zero)):
        merged = merge(left, right)
        if not identical(merged, a):
            return f"merge({show(left)}, {show(right)}) = {show(merged)} but must be {show(a)}"
    return None


def _not_commutative(a: Value, b: Value, merge: Callable[[Value, Value], Value]) -> str | None:
    one, other = merge(a, b), merge(b, a)
    if identical(one, other):
        return None
    x, y = show(a), show(b)
    return f"merge({x}, {y}) = {show(one)} but merge({y}, {x}) = {show(other)}"


def _not_taken_away(
    a: Value, b: Value, away: Value, merge: Callable[[Value, Value], Value]
) -> str | None:
    left = merge(merge(a, b), away)
    if identical(left, a):
        return None
    x, y, z = show(a), show(b), show(away)
    return f"merge(merge({x}, {y}), {z}) = {show(left)} but must be {x}, as inverse({y}) = {z}"


def _not_associative(
    a: Value, b: Value, c: Value, merge: Callable[[Value, Value], Value]
) -> str | None:
    left, right = merge(merge(a, b), c), merge(a, merge(b, c))
    if identical(left, right):
        return None
    x, y, z = show(a), show(b), show(c)
    return (
        f"merge(merge({x}, {y}), {z}) = {show(left)} "
        f"but merge({x}, merge({y}, {z})) = {show(right)}"
    )
