"""The canonical form of a state: equal states have equal forms."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from incmrql.plan.changes import Weighted
from incmrql.values import ExactSum, encode

Plain: TypeAlias = Any
"""Integers, bytes and tuples of them."""


_PLAIN: dict[type, Callable[[Any], Plain]] = {
    int: lambda value: value,
    Fraction: lambda value: _number(value),
    ExactSum: lambda value: (value.units, value.infinite, value.minus_infinite, value.nan),
    Weighted: lambda value: tuple(sorted((key, row[1]) for key, row in value.rows.items())),
    tuple: lambda value: tuple(map(plain, value)),
    dict: lambda value: tuple(sorted((key, plain(pair[1])) for key, pair in value.items())),
}


def plain(value: Any) -> Plain:
    """An element of a state's monoid in the one form that equal ones have."""
    form = _PLAIN.get(type(value))
    return encode(value) if form is None else form(value)


def _number(value: Fraction) -> Plain:
    return value.numerator if value.denominator == 1 else (value.numerator, value.denominator)
