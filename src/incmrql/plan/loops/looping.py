"""What is known of a loop before any data are there: its program, and how it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from incmrql.plan.nodes import Edge, Node, inputs

Iterate: TypeAlias = Literal["default", "exact", "recompute", "diffuse"]
"""How loops are kept."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """How loops are kept, and when one that diffuses is run again.

    That is when the figure of its error passes `tolerance` times the sum of the sizes of its
    values, and after `resync` batches.
    """

    way: Iterate = "default"
    tolerance: float | None = None
    resync: int | None = None


@dataclass(frozen=True, slots=True)
class Looping:
    """The nodes of a loop, by their places.

    `inputs` and `variables` are given, in the order of the loop's; `initial` has the rows of the
    variables before the first step, `step` those after a step, and `flags` a row for each that
    says that the loop goes on (None for a variable without flags).
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    inputs: tuple[int, ...]
    variables: tuple[int, ...]
    initial: tuple[int, ...]
    step: tuple[int, ...]
    flags: tuple[int | None, ...]

    @property
    def moving(self) -> frozenset[int]:
        """The variables, and all nodes whose rows depend on them."""
        found = set(self.variables)
        for place, node in enumerate(self.nodes):
            if found.intersection(inputs(node)):
                found.add(place)
        return frozenset(found)

    @property
    def repeated(self) -> tuple[int, ...]:
        """The nodes that are run again in each step of the loop."""
        return tuple(sorted(self.moving.difference(self.variables)))

    @property
    def fixed(self) -> tuple[int, ...]:
        """The nodes whose rows are the same in all steps."""
        moving = self.moving
        return tuple(place for place in range(len(self.nodes)) if place not in moving)
