"""The state of an affine loop that diffuses: programs of changes, a matrix and vectors.

| table | key | holds |
|---|---|---|
| labels | label | its number |
| numbers | number of a label | the vectors: the result, the next step, what is held back, ... |
| matrix | number of a column | the row's number and the coefficient, with weights |
| account | number of a figure | the figures of the error bound |
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
"""With more steps, the way of each label from step to step is not kept."""


@dataclass(frozen=True, slots=True)
class AffinePart:
    """Some operators of a program of changes, by index, and the tables that they keep.

    `inputs` are the indices of the loop's inputs, and `variable` that of its variable if it is an
    input as well.  `results` are the operators whose rows are wanted, each with the pipeline that
    converts them and the resulting types.  `tables` maps the program's tables to the loop's.
    """

    steps: Mapping[int, Operator]
    inputs: tuple[int, ...]
    variable: int | None
    results: tuple[tuple[int, Pipeline | None, tuple[Type, ...]], ...]
    tables: tuple[tuple[str, NamedSchema], ...]


@dataclass(frozen=True, slots=True)
class AffineTables:
    """The programs and tables of an affine loop.

    `start` computes the initial rows of the variable, and the rows that a step has without it;
    `entries` computes (row, origin, coefficient) from rows of the variable with value 0.0.
    """

    start: AffinePart
    entries: AffinePart
    row: Layout
    """The layout of a row of the variable."""
    types: tuple[Type, ...]
    """The types of its columns."""
    value: int
    """The column with the value."""
    entry: Layout
    """The layout of an entry as it is computed."""
    opened: Layout
    """The layout that entries are converted to; an origin that may be null is one column."""
    steady: bool
    """Whether constants do not depend on which rows exist."""
    grouped: bool
    """Whether a row exists if any row that adds to it exists; else it exists without them."""
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
        """All tables with their schemas."""
        parts = [named for part in (self.start, self.entries) for _, named in part.tables]
        return (*parts, self.labels, self.numbers, self.matrix, self.account)
