"""Whether a typed pattern fits the type that it is matched with, and what it binds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from incmrql.types import typed
from incmrql.types.lattice import castable
from incmrql.types.model import (
    ANY,
    NOTHING,
    STRING,
    Collection,
    Constructor,
    Data,
    Record,
    Tuple,
    Type,
)
from tests.types.inhabits import inhabits

Declared = Mapping[str, tuple[Constructor, ...]]


def binders(pattern: typed.Pattern) -> Iterator[typed.Variable]:
    """The variables of a pattern, in order."""
    match pattern:
        case typed.Bind(variable):
            yield variable
        case typed.Anything() | typed.Equals():
            return
        case typed.TupleOf(items) | typed.ListOf(items):
            for item in items:
                yield from binders(item)
        case typed.Fields(named) | typed.Members(named):
            for _, inner in named:
                yield from binders(inner)
        case typed.DataOf(_, inner) | typed.ReadAs(inner, _, _):
            yield from binders(inner)


def check_pattern(pattern: typed.Pattern, subject: Type, data: Declared) -> Iterator[str]:
    """What does not fit, as sentences.  A subject of type any or null fits every pattern."""
    loose = subject in (ANY, NOTHING)
    match pattern:
        case typed.Bind(variable):
            if variable.type != subject:
                yield f"{variable.name} is {variable.type} and matches {subject}"
        case typed.Anything():
            return
        case typed.Equals(value, in_type):
            if in_type != subject or not inhabits(value, subject, data):
                yield f"the constant {value!r} of {in_type} matches {subject}"
        case typed.ReadAs(inner, source, target):
            if source != subject or not castable(source, target):
                yield f"{subject} is read as {target} from {source}"
            yield from check_pattern(inner, target, data)
        case typed.DataOf(constructor, inner):
            known = constructor in data.get(constructor.owner, ())
            if not known or not (loose or subject == Data(constructor.owner)):
                yield f"{constructor.name} matches {subject}"
            yield from check_pattern(inner, constructor.content, data)
        case _:
            yield from _check_parts(pattern, subject, data)


def _check_parts(pattern: typed.Pattern, subject: Type, data: Declared) -> Iterator[str]:
    loose = subject in (ANY, NOTHING)
    match pattern, subject:
        case typed.TupleOf(items), Tuple(types) if len(items) == len(types):
            for item, type_ in zip(items, types, strict=True):
                yield from check_pattern(item, type_, data)
        case typed.ListOf(items), Collection("list", element):
            for item in items:
                yield from check_pattern(item, element, data)
        case typed.Fields(named), Record():
            for name, inner in named:
                part = subject.field(name)
                if part is None:
                    yield f"a pattern has the field {name} of {subject}"
                else:
                    yield from check_pattern(inner, part, data)
        case typed.Members(named), Collection("bag", Tuple((key, value))) if key == STRING:
            for _, inner in named:
                yield from check_pattern(inner, value, data)
        case ((typed.TupleOf(items) | typed.ListOf(items)), _) if loose:
            for item in items:
                yield from check_pattern(item, subject, data)
        case typed.Fields(named), _ if loose:
            for _, inner in named:
                yield from check_pattern(inner, subject, data)
        case _:
            yield f"{type(pattern).__name__} matches {subject}"
