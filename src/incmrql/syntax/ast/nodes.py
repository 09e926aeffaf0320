"""What all nodes share, and constants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import TypeAlias

from incmrql.diagnostics import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Node:
    """What every node has."""

    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


LiteralKind: TypeAlias = OneOf["null", "bool", "int", "long", "double", "string"]


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A constant."""

    value: str | int | float | bool | None
    kind: LiteralKind
