"""Monoids as data: the operations that merge states, and the laws of each.

    merge(merge(a, b), c) = merge(a, merge(b, c))      merge(zero, a) = a = merge(a, zero)

    commutative   merge(a, b) = merge(b, a)            so the order of rows does not matter
    idempotent    merge(a, a) = a                      so repeated rows do no harm
    invertible    merge(a, inverse(a)) = zero          so a deletion is an insertion of the inverse

Numbers are exact: integers, fractions and `ExactSum`; nothing is rounded before the answer.
Values are compared by their canonical bytes, also for least and greatest.
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
KeyedValues: TypeAlias = Mapping[bytes, tuple[Value, Any]]
"""A value for each key, by the canonical bytes of the key."""


@dataclass(frozen=True, slots=True)
class Monoid:
    """A monoid.  Monoids are equal if their names and parts are."""

    name: str
    zero: Any = field(compare=False, repr=False)
    merge: Merge = field(compare=False, repr=False)
    commutative: bool = True
    idempotent: bool = False
    inverse: Inverse | None = field(default=None, compare=False, repr=False)
    parts: tuple[Monoid, ...] = field(default=(), repr=False)

    @property
    def invertible(self) -> bool:
        """Whether every value has an inverse, so that a deletion can be merged."""
        return self.inverse is not None

    def total(self, values: list[Any]) -> Any:
        """All values, merged from the left."""
        result = self.zero
        for value in values:
            result = self.merge(result, value)
        return result

    def minus(self, whole: Any, part: Any) -> Any:
        """`whole` without `part`, which was merged into it: merges the inverse."""
        if self.inverse is None:
            raise InternalError(f"{self.name} has no inverse")
        return self.merge(whole, self.inverse(part))

    def __str__(self) -> str:
        return self.name


# --- numbers -----------------------------------------------------------------------------------


def _add(left: Any, right: Any) -> Any:
    return left + right


def _negate(value: Any) -> Any:
    return -value


def _multiply(left: int | Fraction, right: int | Fraction) -> int | Fraction:
    return left * right


COUNT: Final = Monoid("count", 0, _add, inverse=_negate)
SUM: Final = Monoid("+", 0, _add, inverse=_negate)
"""Exact sums of integers and decimals."""
FLOATS: Final = Monoid("+ of doubles", ExactSum.zero, _add, inverse=_negate)
"""Exact sums of doubles, including infinities and NaN."""
PRODUCT: Final = Monoid("*", 1, _multiply)
"""Exact products; 0 has no inverse."""


# --- least, greatest, and, or --------------------------------------------------------------------


def _least(left: Value, right: Value) -> Value:
    if left is None or right is None:
        return right if left is None else left
    return min(left, right, key=encode)


def _greatest(left: Value, right: Value) -> Value:
    if left is None or right is None:
        return right if left is None else left
    return max(left, right, key=encode)


def _and(left: bool, right: bool) -> bool:
    return left and right


def _or(left: bool, right: bool) -> bool:
    return left or right


MIN: Final = Monoid("min", None, _least, idempotent=True)
"""The least value; null for no values."""
MAX: Final = Monoid("max", None, _greatest, idempotent=True)
AND: Final = Monoid("and", True, _and, idempotent=True)
OR: Final = Monoid("or", False, _or, idempotent=True)


# --- collections ---------------------------------------------------------------------------------


def _bag_sum(left: Weighted, right: Weighted) -> Weighted:
    bag = left.copy()
    bag.merge(right)
    return bag


def _negate_bag(bag: Weighted) -> Weighted:
    negative = Weighted()
    negative.merge(bag, -1)
    return negative


def _concat(left: list[Value], right: list[Value]) -> list[Value]:
    return [*left, *right]


BAG: Final = Monoid("⊎", Weighted(), _bag_sum, inverse=_negate_bag)
"""Weighted bags."""
LIST: Final = Monoid("++", [], _concat, commutative=False)
"""Concatenated lists, in the order of their elements."""


# --- what does not change ------------------------------------------------------------------------


class _Absent:
    """No value yet: the zero of `INVARIANT`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()


def _equal(left: Any, right: Any) -> Any:
    if left is ABSENT or right is ABSENT:
        return right if left is ABSENT else left
    if encode(left) != encode(right):
        raise InternalError(f"what should not change is {show(left)} and {show(right)}")
    return left


INVARIANT: Final = Monoid("□", ABSENT, _equal, idempotent=True)
"""Merges equal values only; merging different ones is an `InternalError`."""


# --- made of others ------------------------------------------------------------------------------


def product(*parts: Monoid) -> Monoid:
    """Tuples, merged component by component."""

    def merge_values(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        pairs = zip(parts, left, right, strict=True)
        return tuple([part.merge(a, b) for part, a, b in pairs])

    def invert(value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([part.minus(part.zero, item) for part, item in zip(parts, value, strict=True)])

    return Monoid(
        f"({', '.join(part.name for part in parts)})",
        tuple(part.zero for part in parts),
        merge_values,
        all(part.commutative for part in parts),
        all(part.idempotent for part in parts),
        invert if all(part.invertible for part in parts) else None,
        parts,
    )


def keyed_map(part: Monoid) -> Monoid:
    """⇑: the full outer join by key, which merges values of the same key.

    A key is never removed, not even if its value is zero (a sum of 0 is a sum), so this has no
    inverse.  `groups` has one, as it counts rows.
    """

    def merge_values(left: KeyedValues, right: KeyedValues) -> KeyedValues:
        return _outer_join(part, left, right)

    return Monoid(f"⇑ {part}", {}, merge_values, part.commutative, part.idempotent, None, (part,))


def groups(part: Monoid) -> Monoid:
    """⇑ of (multiplicity, value), which drops keys whose pair is zero: ⇑ with an inverse.

    In a state, the pair of a key is zero exactly if its multiplicity is 0.  In a change a key of
    multiplicity 0 may still matter: inserting 3 and deleting 5 changes the sum by -2.
    """
    whole = product(COUNT, part)

    def merge_values(left: KeyedValues, right: KeyedValues) -> KeyedValues:
        both = _outer_join(whole, left, right)
        return {key: pair for key, pair in both.items() if pair[1] != whole.zero}

    def invert(value: KeyedValues) -> KeyedValues:
        return {key: (k, whole.minus(whole.zero, pair)) for key, (k, pair) in value.items()}

    inverse = invert if part.invertible else None
    return Monoid(f"⇑ {whole}", {}, merge_values, part.commutative, inverse=inverse, parts=(whole,))


def _outer_join(
    part: Monoid, left: KeyedValues, right: KeyedValues
) -> dict[bytes, tuple[Value, Any]]:
    merged = dict(left)
    for key, (value, more) in right.items():
        merged[key] = (value, part.merge(merged[key][1], more) if key in merged else more)
    return merged


def user_monoid(
    aggregation: typed.Aggregation,
    env: Environment,
    *,
    commutative: bool = False,
    idempotent: bool = False,
) -> Monoid:
    """The monoid of a user aggregation, with its inverse if one is declared.

    Users only promise the laws of a monoid, which are tested on examples (`reference.laws`).  It
    counts as commutative or idempotent only if the caller knows that it is.
    """
    outer = env.outermost()
    merge, zero = aggregation.merge, env.world.evaluate(aggregation.zero, outer)

    def merge_values(left: Value, right: Value) -> Value:
        return apply(merge, [left, right], outer)

    inverse_function = aggregation.inverse
    inverse = (
        None if inverse_function is None else lambda value: apply(inverse_function, [value], outer)
    )
    return Monoid(aggregation.name, zero, merge_values, commutative, idempotent, inverse)


# --- Commutative user aggregations ---
#
# The language asks that a merge be associative, and tries it; by rounding and overflow even that
# may fail, and nothing is said of the order. To be sure that a merge gives the same bits in every
# order it must be seen to: least and greatest, `and`, `or` and `union`, component by component.
#
# (a, b) -> (min(a#0, b#0), a#1 or b#1)


Path: TypeAlias = tuple[int | str, ...]


def commutative_monoid(aggregation: typed.Aggregation) -> Monoid | None:
    """The monoid of a certainly commutative aggregation, with its name only; else None.

    It is commutative if its merge is pointwise, or if an inverse is declared.  Merging needs a
    world to evaluate in: see `user_monoid`.
    """
    merge = aggregation.merge
    if aggregation.inverse is not None:
        return Monoid(aggregation.name, None, _cannot_merge, inverse=_cannot_merge)
    if not _is_pointwise(merge.body, merge.parameters, ()):
        return None
    idempotent = not _has_union(merge.body)
    return Monoid(aggregation.name, None, _cannot_merge, idempotent=idempotent)


def _cannot_merge(*_arguments: Any) -> Any:
    raise InternalError("an aggregation is merged without a world")


def _is_pointwise(body: typed.Expr, both: tuple[typed.Variable, ...], path: Path) -> bool:
    """Whether a body merges the values of two variables at a path, component by component."""
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
    """Whether two expressions are the components at a path of the two variables."""
    return {component_path(left), component_path(right)} == {(variable, path) for variable in both}


def _has_union(body: typed.Expr) -> bool:
    match body:
        case typed.Combine():
            return True
        case typed.MakeTuple(items) | typed.MakeRecord(items):
            return any(map(_has_union, items))
        case _:
            return False
