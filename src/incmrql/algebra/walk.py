"""Walking terms: the one module that knows where a term keeps its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, assert_never

from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Loop,
    Query,
    Repeat,
    Scan,
    Shared,
    Sort,
    Term,
    Union,
    Values,
)
from incmrql.diagnostics import Span
from incmrql.types import typed


def children(term: Term) -> tuple[Term, ...]:
    """The terms directly below."""
    match term:
        case Scan() | Values() | Loop() | Shared():
            return ()
        case CMap(source=source) | GroupBy(source) | Sort(source=source):
            return (source,)
        case CoGroup(left, right):
            return (left, right)
        case Union(parts):
            return parts
        case Repeat(initial=initial, step=step):
            return (*initial, *step)
        case _:
            assert_never(term)


def map_children(f: Callable[[Term], Term], term: Term) -> Term:
    """`term` with `f` applied to each term directly below; the same term if nothing changed."""
    below = children(term)
    changed = tuple(map(f, below))
    if all(before is after for before, after in zip(below, changed, strict=True)):
        return term
    return _with_children(term, changed)


def _with_children(term: Term, below: tuple[Term, ...]) -> Term:
    match term:
        case Scan() | Values() | Loop() | Shared():
            return term
        case CMap() | GroupBy() | Sort():
            return replace(term, source=below[0])
        case CoGroup():
            return CoGroup(below[0], below[1])
        case Union():
            return Union(below)
        case Repeat(initial=initial):
            return replace(term, initial=below[: len(initial)], step=below[len(initial) :])
        case _:
            assert_never(term)


def terms(term: Term) -> Iterator[Term]:
    """`term` and all terms below it."""
    yield term
    for child in children(term):
        yield from terms(child)


def variables_of(part: Any) -> Iterator[typed.Variable]:
    """All variables that occur, in the order of the text."""
    if isinstance(part, typed.Variable):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from variables_of(item)
    elif is_dataclass(part) and not isinstance(part, Span | type):
        for each in fields(part):
            if each.name not in ("type", "span"):
                yield from variables_of(getattr(part, each.name))


def map_variables(query: Query, f: Callable[[typed.Variable], typed.Variable]) -> Query:
    """A query with its variables replaced."""
    mapped: Query = with_variables(query, f)
    return mapped


def with_variables(part: Any, f: Callable[[typed.Variable], typed.Variable]) -> Any:
    """Any part of a query, or several in a tuple, with the variables replaced."""
    if isinstance(part, typed.Variable):
        return f(part)
    if isinstance(part, tuple):
        return tuple([with_variables(item, f) for item in part])
    if is_dataclass(part) and not isinstance(part, Span | type):
        changed = {}
        for each in fields(part):
            if each.name in ("type", "span"):
                continue
            before = getattr(part, each.name)
            after = with_variables(before, f)
            if after is not before:
                changed[each.name] = after
        return replace(part, **changed) if changed else part
    return part
