"""Checks whether the laws of a user aggregation hold, on random values of its types.

Small values have sums that stay in range and are exact (doubles are multiples of 1/2).  Extreme
values include the limits of the type.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final, assert_never

from incmrql.errors import DataError
from incmrql.io.spec import DataTypes
from incmrql.reference.calls import apply
from incmrql.reference.environment import Environment, World
from incmrql.reference.operators import collection, fit_to_type
from incmrql.types import typed
from incmrql.types.model import (
    BOOL,
    DOUBLE,
    LONG,
    PREDEFINED,
    STRING,
    Any,
    Basic,
    Collection,
    Data,
    Function,
    Nothing,
    Record,
    Tuple,
    Type,
)
from incmrql.types.model import Decimal as DecimalType
from incmrql.types.walk import nodes
from incmrql.values import Bag, Value, identical, show
from incmrql.values import Data as DataValue
from incmrql.values import Record as RecordValue
from incmrql.values.numbers import INTEGER_RANGES

_DEPTH: Final = 2
"""Nesting of data types in data types; a type whose values cannot end there may go deeper."""
_DEEPEST: Final = -3
_LENGTHS: Final = (0, 1, 1, 2, 2, 3, 8, 40)
_EXTREMES: Final[Mapping[str, tuple[Value, ...]]] = {
    **{name: (all_[0], -1, 0, 1, all_[-1]) for name, all_ in INTEGER_RANGES.items()},
    "bool": (False, True),
    "float": (-(2.0**127), -1.0, 0.0, 1.0, 2.0**-100, 2.0**127),
    "double": (-1e300, -(2.0**31), -1.0, 0.0, 1.0, 1e-300, 2.0**31, 1e300),
    "string": ("", "\0", "a", "z" * 40, "\U0010ffff" * 3),
    "date": (date.min, date(1970, 1, 1), date.max),
    "timestamp": (
        datetime.min.replace(tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
    ),
}


class NoValues(Exception):
    """There are no random values of this type."""


def random_value(
    type_: Type, rng: random.Random, data: DataTypes = PREDEFINED, *, extreme: bool = False
) -> Value:
    """A small or an extreme random value of a type; raises `NoValues`."""
    return _ValueGenerator(rng, data, extreme).value(type_, _DEPTH)


@dataclass(frozen=True, slots=True)
class _ValueGenerator:
    rng: random.Random
    data: DataTypes
    extreme: bool

    def value(self, type_: Type, depth: int) -> Value:
        match type_:
            case Basic():
                return self.scalar(type_.name)
            case DecimalType():
                return fit_to_type(self.decimal(type_), type_)
            case Tuple(items):
                return tuple([self.value(item, depth) for item in items])
            case Record(fields):
                return RecordValue.of(type_.names, [self.value(t, depth) for _, t in fields])
            case Collection(_, element):
                most = 0 if depth <= 0 and _holds_data(element) else 2
                count = self.rng.randint(0, most)
                return collection(type_, [self.value(element, depth) for _ in range(count)])
            case Data(name):
                return self.data_value(name, depth - 1)
            case Any():
                return self.value(self.rng.choice((BOOL, LONG, DOUBLE, STRING)), depth)
            case Nothing():
                return None
            case Function():
                raise NoValues
            case _:
                assert_never(type_)

    def data_value(self, name: str, depth: int) -> DataValue:
        """A value of a data type; below `depth` 0 only by constructors that hold no data type."""
        constructors = self.data.get(name, ())
        leaves = [
            constructor for constructor in constructors if not _holds_data(constructor.content)
        ]
        candidates = leaves if leaves and depth <= 0 else constructors
        if not candidates or depth < _DEEPEST:
            raise NoValues
        constructor = self.rng.choice(candidates)
        content = self.value(constructor.content, depth)
        if constructor.name == "JObject":
            content = Bag(dict(content).items())  # a name occurs once
        return DataValue(constructor.name, constructor.position, content)

    def decimal(self, type_: DecimalType) -> Decimal:
        largest = Decimal("9" * (type_.precision - type_.scale) or "0")
        if self.extreme:
            return self.rng.choice((largest.copy_negate(), Decimal(0), largest))
        return Decimal(self.rng.randint(-4, 4))

    def scalar(self, name: str) -> Value:
        if self.extreme and name in _EXTREMES:
            return self.rng.choice(_EXTREMES[name])
        number = self.rng.randint(-8, 8)
        match name:
            case "bool":
                return number > 0
            case "float" | "double":
                return number / 2
            case "string":
                return "".join(self.rng.choices("ab", k=self.rng.choice(_LENGTHS)))
            case "date":
                return date(2026, 1, 1) + timedelta(days=number)
            case "timestamp":
                return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
            case _:
                return number


def _holds_data(type_: Type) -> bool:
    """Whether values of a type may hold those of a data type."""
    match type_:
        case Data():
            return True
        case Tuple(items):
            return any(_holds_data(item) for item in items)
        case Record(fields):
            return any(_holds_data(field) for _, field in fields)
        case Collection(_, element):
            return _holds_data(element)
        case _:
            return False


# --- The laws ---
#
# merge(merge(a, b), c) = merge(a, merge(b, c))        merge(zero, a) = a = merge(a, zero)
#
# and where there is an inverse, which makes a commutative group of them:
#
# merge(a, b) = merge(b, a)        merge(merge(a, b), inverse(b)) = a
#
# The laws are tried on random accumulators that a query could produce: units of small elements,
# merged a few times.  Unit and inverse are also tried on extreme elements.  Associativity is not:
# there it may fail by rounding and overflow alone, which the language allows.


TRIPLES = 200


def check_aggregation(
    aggregation: typed.Aggregation, world: World, rng: random.Random
) -> str | None:
    """A counterexample to the laws, as text; None if none was found or none can be made."""
    env = Environment(world)
    zero = world.evaluate(aggregation.zero, env)

    def merge(left: Value, right: Value) -> Value:
        return apply(aggregation.merge, [left, right], env)

    def inverse_violation(a: Value, b: Value) -> str | None:
        if aggregation.inverse is None:
            return None
        opposite = apply(aggregation.inverse, [b], env)
        return _commutativity_violation(a, b, merge) or _inverse_violation(a, b, opposite, merge)

    def try_small() -> str | None:
        a, b, c = (_merged_accumulator(aggregation, env, rng) for _ in range(3))
        return (
            _unit_violation(zero, a, merge)
            or _associativity_violation(a, b, c, merge)
            or inverse_violation(a, b)
        )

    def try_extreme() -> str | None:
        a, b = (_random_accumulator(aggregation, env, rng, extreme=True) for _ in range(2))
        return _unit_violation(zero, a, merge) or inverse_violation(a, b)

    trials = (try_small,) if _has_loops(aggregation, world) else (try_small, try_extreme)
    for trial in trials * TRIPLES:
        try:
            counterexample = trial()
        except NoValues:
            return None
        except DataError:
            continue  # the function rejects such elements, and perhaps the data has none of them
        if counterexample:
            return counterexample
    return None


def _has_loops(aggregation: typed.Aggregation, world: World) -> bool:
    """Whether a loop may run: an extreme element could be its number of steps."""
    bodies = [aggregation.merge.body, *[f.body for f in world.script.functions.values()]]
    if aggregation.unit is not None:
        bodies.append(aggregation.unit.body)
    return any(isinstance(node, typed.Repeat) for body in bodies for node in nodes(body))


def _merged_accumulator(
    aggregation: typed.Aggregation, env: Environment, rng: random.Random
) -> Value:
    """The merged accumulators of up to three random elements."""
    count = rng.randint(1, 3)
    merged = _random_accumulator(aggregation, env, rng)
    for _ in range(count - 1):
        merged = apply(aggregation.merge, [merged, _random_accumulator(aggregation, env, rng)], env)
    return merged


def _random_accumulator(
    aggregation: typed.Aggregation, env: Environment, rng: random.Random, *, extreme: bool = False
) -> Value:
    """The accumulator of one random element."""
    data = env.world.script.data or PREDEFINED
    element = random_value(aggregation.element, rng, data, extreme=extreme)
    return element if aggregation.unit is None else apply(aggregation.unit, [element], env)


def _unit_violation(zero: Value, a: Value, merge: Callable[[Value, Value], Value]) -> str | None:
    for left, right in ((zero, a), (a, zero)):
        merged = merge(left, right)
        if not identical(merged, a):
            return f"merge({show(left)}, {show(right)}) = {show(merged)} but must be {show(a)}"
    return None


def _commutativity_violation(
    a: Value, b: Value, merge: Callable[[Value, Value], Value]
) -> str | None:
    forward, backward = merge(a, b), merge(b, a)
    if identical(forward, backward):
        return None
    x, y = show(a), show(b)
    return f"merge({x}, {y}) = {show(forward)} but merge({y}, {x}) = {show(backward)}"


def _inverse_violation(
    a: Value, b: Value, inverse: Value, merge: Callable[[Value, Value], Value]
) -> str | None:
    left = merge(merge(a, b), inverse)
    if identical(left, a):
        return None
    x, y, z = show(a), show(b), show(inverse)
    return f"merge(merge({x}, {y}), {z}) = {show(left)} but must be {x}, as inverse({y}) = {z}"


def _associativity_violation(
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
