"""A window over groups, as the engine runs it: which rows are read, and the layouts of its rows."""

from __future__ import annotations

from dataclasses import dataclass

from incmrql.engine.columns.layouts import Layout
from incmrql.plan.windows import Front, Reach
from incmrql.types import typed


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """A window over the rows of the first table of values, and which of them are read.

    `before` has the requests of each function for what is before a row, by their indices.
    `row` is the layout of a row, and `layout` that of (key, (row, values of the functions)).
    """

    window: typed.Window
    reach: Reach
    before: tuple[tuple[int, ...], ...]
    row: Layout
    layout: Layout

    @property
    def is_dense(self) -> bool:
        """Whether the first rows are those of the first groups of peers."""
        if not isinstance(self.reach, Front):
            return False
        function = self.window.functions[self.reach.place]
        return isinstance(function, typed.Rank) and function.name == "dense_rank"
