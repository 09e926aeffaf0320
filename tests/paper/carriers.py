"""Values of the language as elements of monoids, and back; diffusion.

A bag is a `Weighted`, an exact part a number that is not rounded; everything else is itself.

    diffusion   ⊗^     ⇑ ⊕: a right outer join by the diffusion of ⊕      any other: ⊗ itself
"""

from __future__ import annotations

from typing import Any

from incmrql.incremental.changes import Weighted
from incmrql.incremental.monoids import BAG, FLOATS, SUM, Keyed, Monoid
from incmrql.incremental.paper.carriers import Operation, by_parts, is_keyed, is_product
from incmrql.reference.partial_sums import as_part, of_floats, of_others
from incmrql.types.model import Record, Tuple, Type
from incmrql.values import Record as RecordValue
from incmrql.values import Value


def carrier(monoid: Monoid, value: Value) -> Any:
    """A value of the language as an element of a monoid."""
    if is_product(monoid):
        parts = value.values_ if isinstance(value, RecordValue) else value
        return tuple(carrier(each, part) for each, part in zip(monoid.parts, parts, strict=True))
    if monoid == BAG:
        return Weighted((row, 1) for row in value)
    if monoid == SUM:
        return of_others([(value, 1)])
    if monoid == FLOATS:
        return of_floats([(value, 1)])
    return value


def language_value(monoid: Monoid, type_: Type, found: Any) -> Value:
    """An element of a monoid as a value of the language, of a type."""
    if is_product(monoid):
        return _several(monoid, type_, found)
    if monoid == BAG:
        return found.bag()
    if monoid in (SUM, FLOATS):
        return as_part(found, type_)
    return found


def _several(monoid: Monoid, type_: Type, found: Any) -> Value:
    match type_:
        case Tuple(items):
            parts = zip(monoid.parts, items, found, strict=True)
            return tuple(language_value(each, one, part) for each, one, part in parts)
        case Record(fields):
            both = zip(monoid.parts, fields, found, strict=True)
            return RecordValue(
                (name, language_value(each, one, part)) for each, (name, one), part in both
            )
        case _:
            raise TypeError(f"{type_} has no parts")


def diffusion(monoid: Monoid) -> Operation:
    """The paper's ⊗^: what of T ⊗ ΔT has a key in ΔT."""
    if is_keyed(monoid):
        return _right_outer(diffusion(monoid.parts[0]))
    if is_product(monoid):
        return by_parts([diffusion(each) for each in monoid.parts])
    return monoid.merge


def _right_outer(inner: Operation) -> Operation:
    def joined(old: Keyed, new: Keyed) -> Keyed:
        return {
            key: (k, inner(old[key][1], value) if key in old else value)
            for key, (k, value) in new.items()
        }

    return joined


def replaced(old: Keyed, new: Keyed) -> Keyed:
    """`new` in the place of `old` at its keys: what a diffused state is for."""
    return {**old, **new}
