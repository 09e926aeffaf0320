"""How a loop is diffused, or why it is not, and what is known of the error of its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from incmrql.plan.program import LoopProgram

if TYPE_CHECKING:
    from incmrql.plan.diffusion.slopes import Path

REFUSED: Final = "A104"


@dataclass(frozen=True, slots=True)
class Affine:
    """An affine step: `program` is the step, `entries` its matrix as a step.

    `paths` is where rows have their value.  It is `steady` if constants do not depend on which
    rows are there.
    """

    program: LoopProgram
    entries: LoopProgram
    paths: tuple[Path, ...]
    steady: bool


@dataclass(frozen=True, slots=True)
class Centroids:
    """Groups by the nearest row, averaged.

    `averaged` is the node that averages, and `assigned` the one below that gives each point its
    nearest row.  `points` and `pairs` are the nodes that this one takes points from, and pairs of
    them with rows of the variable; `fed` and `ranked` are the inputs that these are made of.
    """

    program: LoopProgram
    averaged: int
    assigned: int
    points: int
    pairs: int
    fed: int
    ranked: int


@dataclass(frozen=True, slots=True)
class Residual:
    """Any other step over rows with doubles, and why no bound is known."""

    program: LoopProgram
    paths: tuple[Path, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A loop that is not diffused, and why."""

    message: str
    hint: str
    code: str = REFUSED


@dataclass(frozen=True, slots=True)
class StatedError:
    """What is known of the error of a result: a figure, what it is made of, the result's norm."""

    kind: Literal["bound", "residual"]
    figure: float
    norm: float
    """The sum of the sizes of all values."""
    parts: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The error as text can hold it."""
        told = {"kind": self.kind, "figure": self.figure, "norm": self.norm}
        return {**told, "parts": dict(self.parts)} if self.parts else told


class UnmeasuredError(Exception):
    """Values that are no numbers, or rows of one label that are not the same."""
