"""Sub-typing, the least common type, and what may be cast.

`widens(a, b)`: every value of `a` can be used where a `b` is expected, after a conversion that
cannot fail.  `join(a, b)`: the least type that both widen to, if there is one.
"""

from __future__ import annotations

from incmrql.types.model import (
    ANY,
    BOOL,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    JSON,
    LONG,
    NOTHING,
    SHORT,
    STRING,
    TIMESTAMP,
    XML,
    Any,
    Basic,
    Collection,
    Data,
    Decimal,
    Function,
    Nothing,
    Record,
    Tuple,
    Type,
    is_float,
    is_integer,
    is_numeric,
)

_RANK = {BYTE: 0, SHORT: 1, INT: 2, LONG: 3, FLOAT: 4, DOUBLE: 5}
_DIGITS = {BYTE: 3, SHORT: 5, INT: 10, LONG: 20}


def decimal_of(type_: Type) -> Decimal:
    """The decimal type that holds every value of an integer type."""
    if isinstance(type_, Decimal):
        return type_
    return Decimal(_DIGITS[type_] if isinstance(type_, Basic) else 38, 0)


def widens(source: Type, target: Type) -> bool:
    """Whether a value of `source` can be used where a `target` is expected."""
    match source, target:
        case _ if source == target:
            return True
        case (Nothing(), _) | (_, Any()):
            return not isinstance(source, Function)
        case Basic(), Basic():
            return source in _RANK and target in _RANK and _RANK[source] <= _RANK[target]
        case Basic(), Decimal():
            return is_integer(source) and _holds(target, decimal_of(source))
        case Decimal(), Basic():
            return target == DOUBLE
        case Decimal(), Decimal():
            return _holds(target, source)
        case Tuple(items), Tuple(others):
            return len(items) == len(others) and all(map(widens, items, others))
        case Record(), Record(fields):
            return all(
                (own := source.field(name)) is not None and widens(own, expected)
                for name, expected in fields
            )
        case Collection(kind, element), Collection(other_kind, expected):
            return other_kind in (kind, "bag") and widens(element, expected)
        case _:
            return False


def join(left: Type, right: Type) -> Type | None:
    """The least type that both widen to."""
    if widens(right, left):
        return left
    if widens(left, right):
        return right
    match left, right:
        case ((Basic() | Decimal()), (Basic() | Decimal())):
            return _join_numbers(left, right)
        case Tuple(items), Tuple(others) if len(items) == len(others):
            joined = [join(a, b) for a, b in zip(items, others, strict=True)]
            known_items = tuple(item for item in joined if item is not None)
            return Tuple(known_items) if len(known_items) == len(joined) else None
        case Record(fields), Record():
            shared = [
                (name, join(own, other))
                for name, own in fields
                if (other := right.field(name)) is not None
            ]
            common = tuple((name, type_) for name, type_ in shared if type_ is not None)
            return Record(common) if common and len(common) == len(shared) else None
        case Collection(kind, element), Collection(other_kind, other_element):
            inner = join(element, other_element)
            common_kind = kind if kind == other_kind else "bag"
            return None if inner is None else Collection(common_kind, inner)
        case _:
            return None


def comparable(left: Type, right: Type) -> Type | None:
    """The type in which two values are compared, or None; `any` only if both are `any`."""
    if (left == ANY) != (right == ANY) and NOTHING not in (left, right):
        return None
    return join(left, right)


def castable(source: Type, target: Type) -> bool:
    """Whether `e as T` makes sense; the conversion may still fail, and is then null."""
    if widens(source, target) or source in (ANY, JSON, XML):
        return not isinstance(target, Function)
    match source, target:
        case _ if is_numeric(source) and is_numeric(target):
            return True
        case ((Basic() | Decimal()), Basic()):
            return (
                STRING in (source, target)
                or (source, target) in _CLOCK
                or _of_truth(source, target)
            )
        case Basic(), Decimal():
            return source in (STRING, BOOL)
        case Tuple(items), Tuple(others):
            return len(items) == len(others) and all(map(castable, items, others))
        case Record(), Record(fields):
            return all(
                (own := source.field(name)) is not None and castable(own, expected)
                for name, expected in fields
            )
        case Collection(_, element), Collection(_, expected):
            return castable(element, expected)
        case _, Data():
            return target == JSON
        case _:
            return False


_CLOCK = {(DATE, TIMESTAMP), (TIMESTAMP, DATE)}


def _of_truth(source: Type, target: Type) -> bool:
    """Whether a cast is between bool and a number: true is 1, and every number but 0 is true."""
    return BOOL in (source, target) and (is_numeric(source) or is_numeric(target))


def _holds(target: Decimal, source: Decimal) -> bool:
    return (
        target.scale >= source.scale
        and target.precision - target.scale >= source.precision - source.scale
    )


def _join_numbers(left: Type, right: Type) -> Type | None:
    if not (is_numeric(left) and is_numeric(right)):
        return None
    if is_float(left) or is_float(right):
        return DOUBLE
    a, b = decimal_of(left), decimal_of(right)
    scale = max(a.scale, b.scale)
    digits = max(a.precision - a.scale, b.precision - b.scale)
    # Keep the scale, as Spark does: a number that then has too many digits becomes null.
    return Decimal(min(38, digits + scale), scale)
