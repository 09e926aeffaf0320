"""Types as they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from incmrql.syntax.ast.nodes import Node


@dataclass(frozen=True, slots=True)
class NamedType(Node):
    """`int`, or a type that the script declares."""

    name: str


@dataclass(frozen=True, slots=True)
class TupleType(Node):
    """`(int, string)`."""

    items: tuple[TypeTree, ...]


@dataclass(frozen=True, slots=True)
class RecordType(Node):
    """`< A: int, B: string >`."""

    fields: tuple[tuple[str, TypeTree], ...]


@dataclass(frozen=True, slots=True)
class ListType(Node):
    """`[int]`."""

    element: TypeTree


@dataclass(frozen=True, slots=True)
class BagType(Node):
    """`{int}`."""

    element: TypeTree


@dataclass(frozen=True, slots=True)
class AppliedType(Node):
    """`bag(int)`, `list(int)`."""

    name: str
    arguments: tuple[TypeTree, ...]


@dataclass(frozen=True, slots=True)
class DecimalType(Node):
    """`decimal(10, 2)`."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class DistributedType(Node):
    """`!{int}`: a collection said to be spread over machines; the same type otherwise."""

    inner: TypeTree


TypeTree: TypeAlias = (
    NamedType
    | TupleType
    | RecordType
    | ListType
    | BagType
    | AppliedType
    | DecimalType
    | DistributedType
)
