"""Elements of monoids: when two are the same, and the paper's diminisher.

    diminisher  ⊗~     ⊎, +: minus     □: □     ⇑ ⊕: a left outer join by the diminisher of ⊕,
                      which drops a key where both values are the same

Part by part over tuples; there is no diminisher of anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from incmrql.incremental.changes import Weighted
from incmrql.incremental.monoids import (
    BAG,
    COUNT,
    FLOATS,
    INVARIANT,
    SUM,
    Keyed,
    Monoid,
    keyed,
    product,
)
from incmrql.values import ExactSum, encode

Operation: TypeAlias = Callable[[Any, Any], Any]


def is_product(monoid: Monoid) -> bool:
    """Whether a monoid merges tuples part by part."""
    return monoid == product(*monoid.parts)


def is_keyed(monoid: Monoid) -> bool:
    """Whether a monoid is ⇑ of another."""
    return len(monoid.parts) == 1 and monoid == keyed(monoid.parts[0])


def same(monoid: Monoid, one: Any, other: Any) -> bool:
    """Whether two elements of a monoid are the same."""
    if is_product(monoid):
        return all(same(each, a, b) for each, a, b in zip(monoid.parts, one, other, strict=True))
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
        return by_parts([diminisher(each) for each in monoid.parts])
    if monoid == INVARIANT:
        return monoid.merge
    if monoid in (BAG, SUM, COUNT, FLOATS):
        return monoid.minus
    raise NoDiminisherError(f"{monoid} has no diminisher")


def _left_outer(part: Monoid, inner: Operation) -> Operation:
    def joined(old: Keyed, gone: Keyed) -> Keyed:
        return {
            key: (k, inner(value, gone[key][1]) if key in gone else value)
            for key, (k, value) in old.items()
            if key not in gone or not same(part, value, gone[key][1])
        }

    return joined


def by_parts(inner: list[Operation]) -> Operation:
    """An operation on tuples, from one for each part."""

    def each(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(f(a, b) for f, a, b in zip(inner, one, other, strict=True))

    return each
