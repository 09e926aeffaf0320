"""Patterns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from incmrql.syntax.ast.nodes import Literal, Node
from incmrql.syntax.ast.templates import JsonPart, XmlElement
from incmrql.syntax.ast.types import TypeTree


@dataclass(frozen=True, slots=True)
class NamePattern(Node):
    """`x` matches anything and names it."""

    name: str


@dataclass(frozen=True, slots=True)
class AnyPattern(Node):
    """`*` matches anything."""


@dataclass(frozen=True, slots=True)
class LiteralPattern(Node):
    """A constant matches itself."""

    literal: Literal


@dataclass(frozen=True, slots=True)
class TuplePattern(Node):
    """`(p, q)`."""

    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class ListPattern(Node):
    """`[p, q]` matches a list of exactly that length."""

    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class DataPattern(Node):
    """`Node(t, a, cs)` matches values that this constructor made."""

    constructor: str
    arguments: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class RecordPattern(Node):
    """`< A: p >` looks at the fields it names."""

    fields: tuple[tuple[str, Pattern], ...]


@dataclass(frozen=True, slots=True)
class TypedPattern(Node):
    """`p as T` matches what can be read as a T."""

    pattern: Pattern
    type: TypeTree


@dataclass(frozen=True, slots=True)
class TemplatePattern(Node):
    """A template whose holes are patterns."""

    body: XmlElement[Pattern] | JsonPart[Pattern]


Pattern: TypeAlias = (
    NamePattern
    | AnyPattern
    | LiteralPattern
    | TuplePattern
    | ListPattern
    | DataPattern
    | RecordPattern
    | TypedPattern
    | TemplatePattern
)
