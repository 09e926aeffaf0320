"""Matching a value with a pattern."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from incmrql.reference.casts import cast, is_null
from incmrql.reference.navigate import pairs_of
from incmrql.types import typed
from incmrql.values import Bag, Data, Record, Value, identical

Bindings: TypeAlias = dict[int, Value]


def match_pattern(pattern: typed.Pattern, value: Value) -> Bindings | None:
    """The variables of the pattern with their values; None if the value does not match."""
    bindings: Bindings = {}
    return bindings if _matches(pattern, value, bindings) else None


def _matches(pattern: typed.Pattern, value: Value, bindings: Bindings) -> bool:
    """Whether the value matches; the variables met so far are noted in `bindings`."""
    match pattern:
        case typed.Bind(variable):
            bindings[variable.number] = value
            return True
        case typed.Anything():
            return True
        case typed.Equals(constant, _):
            return identical(constant, value)
        case typed.TupleOf(items):
            return isinstance(value, tuple) and _all_match(items, value, bindings)
        case typed.ListOf(items):
            is_list = isinstance(value, list) and not isinstance(value, Bag)
            return is_list and _all_match(items, value, bindings)
        case typed.Made(constructor, content):
            made = isinstance(value, Data) and value.constructor == constructor.name
            return made and _matches(content, value.content, bindings)
        case typed.Fields(fields):
            return _fields_match(fields, value, bindings)
        case typed.Members(members):
            return _members_match(members, value, bindings)
        case typed.ReadAs(inner, _, target):
            read = cast(value, target)
            readable = read is not None or is_null(value)
            return readable and _matches(inner, read, bindings)
        case _:
            assert_never(pattern)


def _all_match(
    patterns: tuple[typed.Pattern, ...], values: tuple[Value, ...] | list[Value], bindings: Bindings
) -> bool:
    if len(patterns) != len(values):
        return False
    for pattern, value in zip(patterns, values, strict=True):
        if not _matches(pattern, value, bindings):
            return False
    return True


def _fields_match(
    fields: tuple[tuple[str, typed.Pattern], ...], value: Value, bindings: Bindings
) -> bool:
    if not isinstance(value, Record):
        return False
    for name, pattern in fields:
        if name not in value or not _matches(pattern, value[name], bindings):
            return False
    return True


def _members_match(
    members: tuple[tuple[str, typed.Pattern], ...], value: Value, bindings: Bindings
) -> bool:
    for name, pattern in members:
        found = pairs_of(value, name)
        if not found or not _matches(pattern, found[0], bindings):
            return False
    return True
