"""Values of the language as elements of monoids, and back; when two are the same; ⊗^ and ⊗~.

A bag is a `Weighted`, an exact part a number that is not rounded; everything else is itself.

    diffusion   ⊗^     ⇑ ⊕: a right outer join by the diffusion of ⊕      any other: ⊗ itself
    diminisher  ⊗~     ⊎, +: minus     □: □     ⇑ ⊕: a left outer join by the diminisher of ⊕,
                      which drops a key where both values are the same
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from incmrql.plan.changes import Weighted
from incmrql.plan.monoids import (
    BAG,
    COUNT,
    FLOATS,
    INVARIANT,
    SUM,
    KeyedValues,
    Monoid,
    keyed_map,
    product,
)
from incmrql.reference.aggregates import sum_float_parts, sum_fraction_parts, sum_part_value
from incmrql.types.model import Record, Tuple, Type
from incmrql.values import ExactSum, Value, encode
from incmrql.values import Record as RecordValue

Operation: TypeAlias = Callable[[Any, Any], Any]


def is_product(monoid: Monoid) -> bool:
    """Whether a monoid merges tuples part by part."""
    return monoid == product(*monoid.parts)


def is_keyed(monoid: Monoid) -> bool:
    """Whether a monoid is ⇑ of another."""
    return len(monoid.parts) == 1 and monoid == keyed_map(monoid.parts[0])


def same(monoid: Monoid, one: Any, other: Any) -> bool:
    """Whether two elements of a monoid are the same."""
    if is_product(monoid):
        return all(same(part, a, b) for part, a, b in zip(monoid.parts, one, other, strict=True))
    if is_keyed(monoid):
        (part,) = monoid.parts
        return one.keys() == other.keys() and all(
            same(part, one[key][1], other[key][1]) for key in one
        )
    if isinstance(one, Weighted | Fraction | ExactSum | int):
        return bool(one == other)
    return encode(one) == encode(other)


class NoDiminisherError(Exception):
    """The paper has no diminisher of a monoid."""


def diminisher(monoid: Monoid) -> Operation:
    """The paper's ⊗~, which takes away what was merged; raises `NoDiminisherError`."""
    if is_keyed(monoid):
        (part,) = monoid.parts
        return _left_outer(part, diminisher(part))
    if is_product(monoid):
        return by_parts([diminisher(part) for part in monoid.parts])
    if monoid == INVARIANT:
        return monoid.merge
    if monoid in (BAG, SUM, COUNT, FLOATS):
        return monoid.minus
    raise NoDiminisherError(f"{monoid} has no diminisher")


def _left_outer(part: Monoid, inner: Operation) -> Operation:
    def diminish(old: KeyedValues, gone: KeyedValues) -> KeyedValues:
        return {
            key: (k, inner(value, gone[key][1]) if key in gone else value)
            for key, (k, value) in old.items()
            if key not in gone or not same(part, value, gone[key][1])
        }

    return diminish


def by_parts(inner: list[Operation]) -> Operation:
    """An operation on tuples, from one for each part."""

    def each(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(f(a, b) for f, a, b in zip(inner, one, other, strict=True))

    return each


def carrier(monoid: Monoid, value: Value) -> Any:
    """A value of the language as an element of a monoid."""
    if is_product(monoid):
        parts = value.values_ if isinstance(value, RecordValue) else value
        return tuple(carrier(inner, part) for inner, part in zip(monoid.parts, parts, strict=True))
    if monoid == BAG:
        return Weighted((row, 1) for row in value)
    if monoid == SUM:
        return sum_fraction_parts([(value, 1)])
    if monoid == FLOATS:
        return sum_float_parts([(value, 1)])
    return value


def language_value(monoid: Monoid, type_: Type, carried: Any) -> Value:
    """An element of a monoid as a value of the language, of a type."""
    if is_product(monoid):
        return _several(monoid, type_, carried)
    if monoid == BAG:
        return carried.bag()
    if monoid in (SUM, FLOATS):
        return sum_part_value(carried, type_)
    return carried


def _several(monoid: Monoid, type_: Type, carried: Any) -> Value:
    match type_:
        case Tuple(items):
            parts = zip(monoid.parts, items, carried, strict=True)
            return tuple(language_value(inner, one, part) for inner, one, part in parts)
        case Record(fields):
            both = zip(monoid.parts, fields, carried, strict=True)
            return RecordValue(
                (name, language_value(inner, one, part)) for inner, (name, one), part in both
            )
        case _:
            raise TypeError(f"{type_} has no parts")


def diffusion(monoid: Monoid) -> Operation:
    """The paper's ⊗^: what of T ⊗ ΔT has a key in ΔT."""
    if is_keyed(monoid):
        return _right_outer(diffusion(monoid.parts[0]))
    if is_product(monoid):
        return by_parts([diffusion(part) for part in monoid.parts])
    return monoid.merge


def _right_outer(inner: Operation) -> Operation:
    def diffuse(old: KeyedValues, new: KeyedValues) -> KeyedValues:
        return {
            key: (k, inner(old[key][1], value) if key in old else value)
            for key, (k, value) in new.items()
        }

    return diffuse


def replace_at_keys(old: KeyedValues, new: KeyedValues) -> KeyedValues:
    """`old` with the values of `new` at its keys, as a diffused state is used."""
    return {**old, **new}
