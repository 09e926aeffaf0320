"""Templates: trees with holes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from incmrql.syntax.ast.nodes import Literal, Node

Held = TypeVar("Held")
"""What the holes of a template hold: expressions, or patterns where the template is one."""


@dataclass(frozen=True, slots=True)
class Hole(Node, Generic[Held]):
    """`{{e}}`."""

    content: Held


@dataclass(frozen=True, slots=True)
class XmlText(Node):
    """Text between tags, or in an attribute."""

    text: str


@dataclass(frozen=True, slots=True)
class XmlElement(Node, Generic[Held]):
    """An element with attributes (each a run of text and holes) and children."""

    tag: str
    attributes: tuple[tuple[str, tuple[XmlText | Hole[Held], ...]], ...]
    children: tuple[XmlElement[Held] | XmlText | Hole[Held], ...]


@dataclass(frozen=True, slots=True)
class JsonObject(Node, Generic[Held]):
    """`{"a": …}`; as a pattern it matches objects that have these members, and maybe others."""

    members: tuple[tuple[str, JsonPart[Held]], ...]


@dataclass(frozen=True, slots=True)
class JsonArray(Node, Generic[Held]):
    """`[…]`."""

    items: tuple[JsonPart[Held], ...]


@dataclass(frozen=True, slots=True)
class JsonLeaf(Node):
    """A string, number, boolean or null of JSON."""

    literal: Literal


JsonPart: TypeAlias = "JsonObject[Held] | JsonArray[Held] | JsonLeaf | Hole[Held]"
