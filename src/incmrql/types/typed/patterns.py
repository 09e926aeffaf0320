"""Patterns with their variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any as AnyValue
from typing import TypeAlias

from incmrql.types.model import Constructor, Type
from incmrql.types.typed.nodes import Variable


@dataclass(frozen=True, slots=True)
class Bind:
    """Matches anything, null too, and names it."""

    variable: Variable


@dataclass(frozen=True, slots=True)
class Anything:
    """Matches anything."""


@dataclass(frozen=True, slots=True)
class Equals:
    """Matches the values identical to this constant (already in the subject's type)."""

    value: AnyValue
    subject: Type
    """The type both are compared in."""


@dataclass(frozen=True, slots=True)
class TupleOf:
    """Matches a tuple, component by component; not null."""

    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """Matches a list of exactly this length; not null."""

    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """Matches what this constructor made, and its content."""

    constructor: Constructor
    content: Pattern


@dataclass(frozen=True, slots=True)
class Fields:
    """Matches a record by some of its fields; not null."""

    fields: tuple[tuple[str, Pattern], ...]


@dataclass(frozen=True, slots=True)
class Members:
    """Matches a bag of pairs (name, value) that has all these names, and maybe others."""

    members: tuple[tuple[str, Pattern], ...]


@dataclass(frozen=True, slots=True)
class ReadAs:
    """Matches what can be cast from `source` to `target` and then matches the pattern.

    Null is cast to null; what is not null and fails to convert does not match.
    """

    pattern: Pattern
    source: Type
    target: Type


Pattern: TypeAlias = Bind | Anything | Equals | TupleOf | ListOf | Made | Fields | Members | ReadAs
