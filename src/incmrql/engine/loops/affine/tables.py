"""What is kept of a diffused affine loop: its programs of changes, its matrix and its vectors.

| table | by | has |
|---|---|---|
| labels | label | its number |
| numbers | number of a label | the vectors: the result, the next step, what is held back, ... |
| matrix | number of a column | the row's number and the coefficient, as often as it is there |
| account | number of a figure | what is known of the error |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from incmrql.engine.columns.layouts import Layout
from incmrql.engine.columns.pipelines import Pipeline
from incmrql.engine.operators.base import NamedSchema, Operator
from incmrql.engine.store.sorting import TableSchema
from incmrql.types.model import DOUBLE, LONG, Type

MATRIX: Final = TableSchema((LONG,), (LONG, DOUBLE))
NUMBERED: Final = TableSchema((LONG,))

MOST_WAYS: Final = 64
"""With more steps the way of each label is not kept."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some places of a program of changes, in order, and the tables that they keep.

    `inputs` are the places of the loop's inputs, and `variable` that of its variable if rows of
    it are given.  `made` are the places whose rows are asked for, each with what brings them to
    the columns wanted and the types of these.  `tables` has the loop's tables by the names of the
    program's.
    """

    steps: Mapping[int, Operator]
    inputs: tuple[int, ...]
    variable: int | None
    made: tuple[tuple[int, Pipeline | None, tuple[Type, ...]], ...]
    tables: tuple[tuple[str, NamedSchema], ...]


@dataclass(frozen=True, slots=True)
class AffineTables:
    """The programs and tables of an affine loop.

    `start` makes the first rows of the variable and the rows of a step that are there without it;
    `entries` makes (row, origin, coefficient) of rows of the variable whose value is 0.0.
    """

    start: Part
    entries: Part
    row: Layout
    """Of the variable."""
    types: tuple[Type, ...]
    """Of the columns of a row."""
    value: int
    """The column that has the value."""
    entry: Layout
    """Of an entry as it is made."""
    opened: Layout
    """The columns that it is opened to: an origin that may be null is one."""
    steady: bool
    """Whether constants do not depend on which rows are there."""
    grouped: bool
    """Whether a row is there if any that adds to it is; else, rows are there without them."""
    limit: int | None
    labels: NamedSchema
    numbers: NamedSchema
    matrix: NamedSchema
    account: NamedSchema

    @property
    def keeps_ways(self) -> bool:
        """Whether the way of each label from step to step is kept."""
        return self.limit is not None and self.limit <= MOST_WAYS

    @property
    def own(self) -> tuple[NamedSchema, ...]:
        """All tables with their forms."""
        parts = [named for part in (self.start, self.entries) for _, named in part.tables]
        return (*parts, self.labels, self.numbers, self.matrix, self.account)
