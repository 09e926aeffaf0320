"""Paths in XML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from incmrql.syntax.ast.nodes import Literal, Node


@dataclass(frozen=True, slots=True)
class Step(Node):
    """One step of a path: `/a`, `//a`, `/@a`, `/*`; `.` is the step that stays."""

    axis: OneOf["child", "descendant", "self"]
    name: str
    attribute: bool
    conditions: tuple[int | PathCondition, ...]


@dataclass(frozen=True, slots=True)
class PathCondition(Node):
    """`[path]` or `[path = constant]`."""

    path: tuple[Step, ...]
    equals: Literal | None
