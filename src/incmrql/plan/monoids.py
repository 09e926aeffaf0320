"""Monoids as data: what states are merged with, and which laws hold of each.

    merge(merge(a, b), c) = merge(a, merge(b, c))      merge(zero, a) = a = merge(a, zero)

    commutative   merge(a, b) = merge(b, a)            so the order of rows does not matter
    idempotent    merge(a, a) = a                      so rows that come again do no harm
    invertible    merge(a, inverse(a)) = zero          so a deletion is an insertion of the inverse

Numbers are exact: integers, fractions and `ExactSum`; nothing is rounded before the answer.
Values are compared, and least or greatest, by their canonical bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, TypeAlias

from incmrql.errors import InternalError
from incmrql.plan.changes import Weighted
from incmrql.reference import Environment
from incmrql.reference.calls import apply
from incmrql.types import typed
from incmrql.types.model import Record, is_scalar
from incmrql.types.walk import component_path
from incmrql.values import ExactSum, Value, encode, show

Merge: TypeAlias = Callable[[Any, Any], Any]
Inverse: TypeAlias = Callable[[Any], Any]
Keyed: TypeAlias = Mapping[bytes, tuple[Value, Any]]
"""A value for each key, by the canonical bytes of the key."""


@dataclass(frozen=True, slots=True)
class Monoid:
    """A monoid.  Two of the same name and parts are the same one."""

    name: str
    zero: Any = field(compare=False, repr=False)
    merge: Merge = field(compare=False, repr=False)
    commutative: bool = True
    idempotent: bool = False
    inverse: Inverse | None = field(default=None, compare=False, repr=False)
    parts: tuple[Monoid, ...] = field(default=(), repr=False)

    @property
    def invertible(self) -> bool:
        """Whether every value can be taken away again."""
        return self.inverse is not None

    def total(self, values: list[Any]) -> Any:
        """All values merged, from the left."""
        found = self.zero
        for value in values:
            found = self.merge(found, value)
        return found

    def minus(self, one: Any, other: Any) -> Any:
        """`one` without `other`, of which it is made: merging the inverse."""
        if self.inverse is None:
            raise InternalError(f"{self.name} has no inverse")
        return self.merge(one, self.inverse(other))

    def __str__(self) -> str:
        return self.name


# --- numbers -----------------------------------------------------------------------------------


def _add(one: Any, other: Any) -> Any:
    return one + other


def _negate(value: Any) -> Any:
    return -value


def _multiply(one: int | Fraction, other: int | Fraction) -> int | Fraction:
    return one * other


COUNT: Final = Monoid("count", 0, _add, inverse=_negate)
SUM: Final = Monoid("+", 0, _add, inverse=_negate)
"""Exact sums of integers and decimals."""
FLOATS: Final = Monoid("+ of doubles", ExactSum.zero, _add, inverse=_negate)
"""Exact sums of doubles, infinite ones and NaN among them."""
PRODUCT: Final = Monoid("*", 1, _multiply)
"""Exact products; 0 has no inverse."""


# --- least, greatest, and, or --------------------------------------------------------------------


def _least(one: Value, other: Value) -> Value:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other, key=encode)


def _greatest(one: Value, other: Value) -> Value:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other, key=encode)


def _and(one: bool, other: bool) -> bool:
    return one and other


def _or(one: bool, other: bool) -> bool:
    return one or other


MIN: Final = Monoid("min", None, _least, idempotent=True)
"""The least value; null is that of none."""
MAX: Final = Monoid("max", None, _greatest, idempotent=True)
AND: Final = Monoid("and", True, _and, idempotent=True)
OR: Final = Monoid("or", False, _or, idempotent=True)


# --- collections ---------------------------------------------------------------------------------


def _bag_sum(one: Weighted, other: Weighted) -> Weighted:
    found = one.copy()
    found.merge(other)
    return found


def _negated_bag(bag: Weighted) -> Weighted:
    found = Weighted()
    found.merge(bag, -1)
    return found


def _concat(one: list[Value], other: list[Value]) -> list[Value]:
    return [*one, *other]


BAG: Final = Monoid("⊎", Weighted(), _bag_sum, inverse=_negated_bag)
"""Weighted bags."""
LIST: Final = Monoid("++", [], _concat, commutative=False)
"""Lists, one after the other: what an order is made with."""


# --- what does not change ------------------------------------------------------------------------


class _Absent:
    """Not there yet: the zero of what does not change."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()


def _equal(one: Any, other: Any) -> Any:
    if one is ABSENT or other is ABSENT:
        return other if one is ABSENT else one
    if encode(one) != encode(other):
        raise InternalError(f"what should not change is {show(one)} and {show(other)}")
    return one


INVARIANT: Final = Monoid("□", ABSENT, _equal, idempotent=True)
"""Merges equal values only: of others it has no result."""


# --- made of others ------------------------------------------------------------------------------


def product(*parts: Monoid) -> Monoid:
    """Tuples, merged component by component."""

    def merged(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        pairs = zip(parts, one, other, strict=True)
        return tuple([part.merge(a, b) for part, a, b in pairs])

    def inverted(value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([part.minus(part.zero, each) for part, each in zip(parts, value, strict=True)])

    return Monoid(
        f"({', '.join(part.name for part in parts)})",
        tuple(part.zero for part in parts),
        merged,
        all(part.commutative for part in parts),
        all(part.idempotent for part in parts),
        inverted if all(part.invertible for part in parts) else None,
        parts,
    )


def keyed(part: Monoid) -> Monoid:
    """⇑: the full outer join by key, values of the same key merged.

    A key that came never leaves, not even with the zero beside it (a sum of 0 is a sum); so this
    has no inverse.  What does is `groups`.
    """

    def merged(one: Keyed, other: Keyed) -> Keyed:
        return _outer(part, one, other)

    return Monoid(f"⇑ {part}", {}, merged, part.commutative, part.idempotent, None, (part,))


def groups(part: Monoid) -> Monoid:
    """⇑ of (multiplicity, value), without the keys that have nothing: ⇑ with an inverse.

    In the state of a bag a key has nothing exactly when its multiplicity is 0.  A change may have
    a key of multiplicity 0 that says something: {3} more and {5} less.
    """
    whole = product(COUNT, part)

    def merged(one: Keyed, other: Keyed) -> Keyed:
        both = _outer(whole, one, other)
        return {key: pair for key, pair in both.items() if pair[1] != whole.zero}

    def inverted(value: Keyed) -> Keyed:
        return {key: (k, whole.minus(whole.zero, each)) for key, (k, each) in value.items()}

    inverse = inverted if part.invertible else None
    return Monoid(f"⇑ {whole}", {}, merged, part.commutative, inverse=inverse, parts=(whole,))


def _outer(part: Monoid, one: Keyed, other: Keyed) -> dict[bytes, tuple[Value, Any]]:
    found = dict(one)
    for key, (value, more) in other.items():
        found[key] = (value, part.merge(found[key][1], more) if key in found else more)
    return found


def user_monoid(
    aggregation: typed.Aggregation,
    env: Environment,
    *,
    commutative: bool = False,
    idempotent: bool = False,
) -> Monoid:
    """The monoid of a user aggregation; with its inverse, if there is one.

    Only its being a monoid is asked of users and tried (`reference.laws`), so it counts as
    nothing more than that unless the caller knows better.
    """
    outer = env.outermost()
    merge, zero = aggregation.merge, env.world.evaluate(aggregation.zero, outer)

    def merged(one: Value, other: Value) -> Value:
        return apply(merge, [one, other], outer)

    away = aggregation.inverse
    inverse = None if away is None else lambda value: apply(away, [value], outer)
    return Monoid(aggregation.name, zero, merged, commutative, idempotent, inverse)


# --- Commutative user aggregations ---
#
# The language asks that a merge be associative, and tries it; by rounding and overflow even that
# may fail, and nothing is said of the order. To be sure that a merge gives the same bits in every
# order it must be seen to: least and greatest, `and`, `or` and `union`, component by component.
#
# (a, b) -> (min(a#0, b#0), a#1 or b#1)


Path: TypeAlias = tuple[int | str, ...]


def commutative_monoid(aggregation: typed.Aggregation) -> Monoid | None:
    """The monoid of an aggregation that is commutative, known by its name.

    It is seen to be, or declared so with an inverse.

    What it merges is known where there is a world to evaluate it in (`monoids.user`).
    """
    merge = aggregation.merge
    if aggregation.inverse is not None:
        return Monoid(aggregation.name, None, _no_world, inverse=_no_world)
    if not _is_pointwise(merge.body, merge.parameters, ()):
        return None
    idempotent = not _has_union(merge.body)
    return Monoid(aggregation.name, None, _no_world, idempotent=idempotent)


def _no_world(*_given: Any) -> Any:
    raise InternalError("an aggregation is merged without a world")


def _is_pointwise(body: typed.Expr, both: tuple[typed.Variable, ...], path: Path) -> bool:
    """Whether a body merges what both variables have at a path, each component on its own."""
    match body:
        case typed.Builtin("min" | "max", (left, right)) if is_scalar(body.type):
            return _are_operands(left, right, both, path)
        case typed.Logic(_, left, right) | typed.Combine("union", left, right):
            return _are_operands(left, right, both, path)
        case typed.MakeTuple(items):
            return all(_is_pointwise(e, both, (*path, n)) for n, e in enumerate(items))
        case typed.MakeRecord(values):
            assert isinstance(body.type, Record)
            names = body.type.names
            fields = zip(names, values, strict=True)
            return all(_is_pointwise(value, both, (*path, name)) for name, value in fields)
        case _:
            return False


def _are_operands(
    left: typed.Expr, right: typed.Expr, both: tuple[typed.Variable, ...], path: Path
) -> bool:
    """Whether two expressions are the components at a path of either variable."""
    return {component_path(left), component_path(right)} == {(variable, path) for variable in both}


def _has_union(body: typed.Expr) -> bool:
    match body:
        case typed.Combine():
            return True
        case typed.MakeTuple(items) | typed.MakeRecord(items):
            return any(map(_has_union, items))
        case _:
            return False
