"""The ways to diffuse a loop, or the reason not to, and the stated error of its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from incmrql.plan.program import LoopProgram

if TYPE_CHECKING:
    from incmrql.plan.diffusion.slopes import Path

NOT_DIFFUSED: Final = "A104"


@dataclass(frozen=True, slots=True)
class Affine:
    """An affine step: `program` is the step, `entries` computes its matrix.

    `paths` are the paths of the value in rows.  The step is `steady` if its constants do not depend
    on which rows exist.
    """

    program: LoopProgram
    entries: LoopProgram
    paths: tuple[Path, ...]
    steady: bool


@dataclass(frozen=True, slots=True)
class Centroids:
    """A step that groups points by their nearest row and averages each group; fields are indices.

    `averaged` is the node that averages, and `assigned` the node below that gives each point its
    nearest row.  That one reads the nodes `points` and `pairs`: points, and pairs of a point and a
    row of the variable.  `fed` and `ranked` are the loop inputs that these two read.
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
    """Any other step over rows with doubles, and the reason why no bound is known."""

    program: LoopProgram
    paths: tuple[Path, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class NotDiffused:
    """The reason why a loop is not diffused."""

    message: str
    hint: str
    code: str = NOT_DIFFUSED


@dataclass(frozen=True, slots=True)
class StatedError:
    """The error of a result: a figure, its parts, and the norm of the result."""

    kind: Literal["bound", "residual"]
    figure: float
    norm: float
    """The sum of the absolute values of the result."""
    parts: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The error as JSON."""
        data = {"kind": self.kind, "figure": self.figure, "norm": self.norm}
        return {**data, "parts": dict(self.parts)} if self.parts else data


class UnmeasuredError(Exception):
    """The error cannot be measured: values are not numbers, or rows of one label differ."""
