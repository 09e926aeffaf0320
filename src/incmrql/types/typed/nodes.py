"""What all typed nodes share, and variables."""

from __future__ import annotations

from dataclasses import dataclass, field

from incmrql.diagnostics import NOWHERE, Span
from incmrql.types.model import Type


@dataclass(frozen=True, slots=True)
class Variable:
    """A bound name; the number tells apart variables that share it."""

    name: str
    number: int
    type: Type


@dataclass(frozen=True, slots=True)
class Node:
    """What every node has."""

    type: Type = field(kw_only=True)
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)
