"""Built-ins on collections.  Null counts as the empty collection; bags go in canonical order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from incmrql.reference.aggregates import aggregate
from incmrql.reference.operators import compare, distinct, elements, in_order
from incmrql.types.model import ANY
from incmrql.values import Bag, Value, ordered


def _member(value: Value, values: Value) -> bool:
    """Whether an element equals the value; null equals nothing."""
    return any(compare("=", value, element) for element in elements(values))


def _flatten(collections: Value) -> list[Value]:
    return [element for values in in_order(collections) for element in elements(values)]


def _zip(left: Value, right: Value) -> list[Value]:
    return list(zip(in_order(left), in_order(right), strict=False))


COLLECTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "member": _member,
    "elem": lambda values: aggregate("first", values, ANY),
    "distinct": lambda values: Bag(distinct(elements(values))),
    "sort": lambda values: ordered(elements(values)),
    "reverse": lambda values: in_order(values)[::-1],
    "flatten": _flatten,
    "zip": _zip,
    "index": lambda values: [(x, position) for position, x in enumerate(in_order(values))],
    "range": lambda _first, _last: None,  # one of them is null
}
