"""Taking values apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from incmrql.types.typed.nodes import Node, Variable

if TYPE_CHECKING:
    from incmrql.types.typed.queries import Expr


@dataclass(frozen=True, slots=True)
class Field(Node):
    """A field of a record."""

    subject: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Item(Node):
    """A component of a tuple, from 0."""

    subject: Expr
    index: int


@dataclass(frozen=True, slots=True)
class Navigate(Node):
    """A step from a tree (XML, JSON or any) or a look-up by name.

    `children`: XML children with this tag, `*` all elements: a list.  `attribute`: the value of
    this XML attribute or null.  `attributes`: all of them, a bag of pairs.  `member`: the member
    of a JSON object, or null.  `dynamic`: whatever the value of type any turns out to offer.
    """

    kind: Literal["children", "attribute", "attributes", "member", "dynamic"]
    subject: Expr
    name: str


@dataclass(frozen=True, slots=True)
class At(Node):
    """`e[i]`: an element of a list or JSON array (negative from the end), or null."""

    subject: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class LookUp(Node):
    """The value beside a key in a collection of pairs, or null; of several the least."""

    subject: Expr
    key: Expr


@dataclass(frozen=True, slots=True)
class SliceOf(Node):
    """`e[i:j]` of a list, both ends included."""

    subject: Expr
    first: Expr
    last: Expr


@dataclass(frozen=True, slots=True)
class MapOver(Node):
    """`body` for every element; with `flatten`, the elements of every body's collection."""

    variable: Variable
    subject: Expr
    body: Expr
    flatten: bool
