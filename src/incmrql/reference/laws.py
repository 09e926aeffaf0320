"""Whether the laws of a user aggregation hold.

    merge(merge(a, b), c) = merge(a, merge(b, c))        merge(zero, a) = a = merge(a, zero)

Tried on small random accumulators that a query could produce: units of elements, merged a few
times.  Doubles are multiples of a half, so that rounding cannot break a law.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import assert_never

from incmrql.reference.calls import apply
from incmrql.reference.environment import Environment, World
from incmrql.reference.operators import collection, fitted
from incmrql.types import typed
from incmrql.types.model import Any, Basic, Collection, Data, Function, Nothing, Record, Tuple, Type
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Record as RecordValue
from incmrql.values import Value, identical, show

TRIPLES = 200


class _NoValues(Exception):
    """There are no random values of this type."""


def check_aggregation(
    aggregation: typed.Aggregation, world: World, rng: random.Random
) -> str | None:
    """A counterexample to the laws, as text; None if none was found or none can be made."""
    env = Environment(world)
    zero = world.evaluate(aggregation.zero, env)

    def merge(left: Value, right: Value) -> Value:
        return apply(aggregation.merge, [left, right], env)

    for _ in range(TRIPLES):
        try:
            a, b, c = (_accumulator(aggregation, env, rng) for _ in range(3))
        except _NoValues:
            return None
        found = _not_unit(zero, a, merge) or _not_associative(a, b, c, merge)
        if found:
            return found
    return None


def _accumulator(aggregation: typed.Aggregation, env: Environment, rng: random.Random) -> Value:
    """Up to three elements as accumulators, merged."""
    merged = None
    for count in range(rng.randint(1, 3)):
        element = random_value(aggregation.element, rng)
        unit = aggregation.unit
        one = element if unit is None else apply(unit, [element], env)
        merged = one if count == 0 else apply(aggregation.merge, [merged, one], env)
    return merged


def _not_unit(zero: Value, a: Value, merge: Callable[[Value, Value], Value]) -> str | None:
    for left, right in ((zero, a), (a, zero)):
        merged = merge(left, right)
        if not identical(merged, a):
            return f"merge({show(left)}, {show(right)}) = {show(merged)} but must be {show(a)}"
    return None


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


def random_value(type_: Type, rng: random.Random) -> Value:
    """A small random value of a type."""
    match type_:
        case Basic():
            return _random_scalar(type_.name, rng)
        case DecimalType():
            return fitted(Decimal(rng.randint(-4, 4)), type_)
        case Tuple(items):
            return tuple([random_value(item, rng) for item in items])
        case Record(fields):
            return RecordValue.of(type_.names, [random_value(part, rng) for _, part in fields])
        case Collection(_, element):
            return collection(type_, [random_value(element, rng) for _ in range(rng.randint(0, 2))])
        case Nothing():
            return None
        case Any() | Data() | Function():
            raise _NoValues
        case _:
            assert_never(type_)


def _random_scalar(name: str, rng: random.Random) -> Value:
    number = rng.randint(-8, 8)
    match name:
        case "bool":
            return number > 0
        case "float" | "double":
            return number / 2
        case "string":
            return "".join(rng.choices("ab", k=abs(number) % 3))
        case "date":
            return date(2026, 1, 1) + timedelta(days=number)
        case "timestamp":
            return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
        case _:
            return number
