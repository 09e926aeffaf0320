"""The vectors and the matrix of a diffused affine loop, by the numbers of labels.

Vectors are kept as columns of integers that are added up, like all accumulators: a double by the
64 bits that it has, and a change of it by the difference of the bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.kernel.accumulators import Parts
from incmrql.kernel.content import Content, added_up, asked_keys
from incmrql.kernel.desk import Desk
from incmrql.kernel.diffuse_affine_tables import NUMBERED, AffineTables
from incmrql.kernel.diffuse_affine_taking import Doubles, whole
from incmrql.kernel.keys import Keys
from incmrql.kernel.look import grouped_rows
from incmrql.kernel.operators import NamedForm
from incmrql.kernel.sorting import Groups
from incmrql.types.model import LONG
from incmrql.values.exact.sums import Integers

Columns = dict[str, npt.NDArray[Any]]

_SINGLE: Final = {
    "there": np.int64, "result": np.float64, "held": np.float64, "next": np.float64,
    "adding": np.int64, "starts": np.int64, "start": np.float64, "alones": np.int64,
    "alone": np.float64, "constant": np.float64,
}  # fmt: skip


@dataclass(slots=True)
class Vectors:
    """One number for each label, or one for each label and step."""

    there: Integers
    """Whether the result has a row."""
    result: Doubles
    held: Doubles
    """Differences that were too small to go on."""
    next: Doubles
    """What one more step makes of the result."""
    adding: Integers
    """How many entries of the matrix from rows of the result add to a row."""
    starts: Integers
    start: Doubles
    """How many rows the loop starts with, and the sum of their values."""
    alones: Integers
    alone: Doubles
    """How many rows a step has without the variable, and their value."""
    constant: Doubles
    """What a row has for being there."""
    ways: Doubles
    """By step and label: how far the loop is from the result before a step, as far as known."""
    counts: Integers
    """By step and label: how many entries from rows that are there add to a row."""

    @staticmethod
    def empty(tables: AffineTables, count: int) -> Vectors:
        """Nothing but zeros."""
        ways = tables.limit if tables.keeps_ways else 0
        counts = 0 if tables.steady else tables.limit
        assert ways is not None
        assert counts is not None
        single = {name: np.zeros(count, kind) for name, kind in _SINGLE.items()}
        return Vectors(
            **single, ways=np.zeros((ways, count)), counts=np.zeros((counts, count), np.int64)
        )

    @staticmethod
    def load(tables: AffineTables, count: int, desk: Desk) -> Vectors:
        """All that is kept, and zeros for more labels."""
        found = Vectors.empty(tables, count)
        content = whole(tables.numbers, desk)
        numbers = content.keys.columns[0].to_numpy(zero_copy_only=False)
        for name, column in found.columns().items():
            bits = content.parts.get(name)
            if bits is not None:
                column.view(np.int64)[numbers] = bits
        return found

    def grown(self, count: int) -> Vectors:
        """A copy with zeros for more labels."""

        def longer(column: npt.NDArray[Any]) -> Any:
            room = [(0, 0)] * (column.ndim - 1)
            return np.pad(column, [*room, (0, count - column.shape[-1])])

        single = {name: longer(getattr(self, name)) for name in _SINGLE}
        return Vectors(**single, ways=longer(self.ways), counts=longer(self.counts))

    def columns(self) -> Columns:
        """The vectors one by one, by the names of accumulators."""
        found: Columns = {f"{name}.v": getattr(self, name) for name in _SINGLE}
        found |= {f"way{step}.v": column for step, column in enumerate(self.ways)}
        found |= {f"count{step}.v": column for step, column in enumerate(self.counts)}
        return found

    @property
    def size(self) -> float:
        """The sum of the sizes of all values."""
        return float(np.abs(self.result).sum())


def keep(named: NamedForm, before: Columns | None, after: Columns, known: int, desk: Desk) -> None:
    """Keep vectors in the place of others; `known` of their numbers are in the table."""
    count = len(next(iter(after.values())))
    changes = {}
    touched = np.zeros(count, np.bool_)
    for name, column in after.items():
        bits = column.view(np.int64)
        if before is not None:
            bits = bits - before[name].view(np.int64)
        changes[name] = bits
        touched |= bits != 0
    weights = np.zeros(count, np.int64)
    weights[known:] = 1
    numbers = np.flatnonzero(touched | (weights > 0))
    if not len(numbers):
        return

    def lifted(groups: Groups) -> Parts:
        chosen = {name: bits[numbers][groups.firsts] for name, bits in changes.items()}
        return {name: bits for name, bits in chosen.items() if bits.any()}

    content = added_up(NUMBERED, (pa.array(numbers),), weights[numbers], lifted)
    desk.change(named[0], content)


@dataclass(slots=True)
class Matrix:
    """The columns of a matrix that were looked at: entries by column, row and coefficient.

    The change of a batch counts too; it is `None` where all is in it.
    """

    count: int
    origins: Integers
    rows: Integers
    slopes: Doubles
    weights: Integers
    _tables: AffineTables | None = None
    _desk: Desk | None = None
    _change: Content | None = None
    _known: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    @staticmethod
    def of(content: Content, count: int) -> Matrix:
        """The entries of a content, over so many labels."""
        return Matrix(count, *entries_of(content))

    @staticmethod
    def kept(tables: AffineTables, change: Content, count: int, desk: Desk) -> Matrix:
        """The matrix that is kept, after a change; nothing is looked at yet."""
        none = entries_of(change.slice(0, 0))
        return Matrix(count, *none, tables, desk, change, np.zeros(count, np.bool_))

    def look_at(self, origins: Integers) -> None:
        """Read some columns, if they were not read yet."""
        if self._tables is None or self._desk is None:
            return
        new = origins[~self._known[origins]]
        if not len(new):
            return
        self._known[new] = True
        hashes, keys, _ = asked_keys(Keys((pa.array(new),), (LONG,)))
        table = self._desk.table(*self._tables.matrix)
        _, content = grouped_rows(table, self._desk.reader, hashes, keys, self._change)
        more = entries_of(content)
        old = self.origins, self.rows, self.slopes, self.weights
        self.origins, self.rows, self.slopes, self.weights = (
            np.concatenate(both) for both in zip(old, more, strict=True)
        )

    def times(self, vector: Doubles) -> Doubles:
        """The matrix times a vector that is 0 where a column was not looked at."""
        return added(self.rows, self.weights * self.slopes * vector[self.origins], self.count)

    def counted(self, vector: Integers) -> Integers:
        """The same with 1 for each entry in the place of its coefficient."""
        return whole_numbers(self.rows, self.weights * vector[self.origins], self.count)

    def sizes(self) -> Doubles:
        """The sums of the sizes of columns."""
        return added(self.origins, self.weights * np.abs(self.slopes), self.count)

    def only(self, known: int) -> Matrix:
        """The columns of the first labels, the coefficients of a row added up."""
        chosen = self.origins < known
        at = self.origins[chosen] * self.count + self.rows[chosen]
        both, of = np.unique(at, return_inverse=True)
        sums = added(of, self.weights[chosen] * self.slopes[chosen], len(both))
        return Matrix(
            self.count, both // self.count, both % self.count, sums, np.ones(len(both), np.int64)
        )


def added(labels: Integers, numbers: npt.NDArray[Any], count: int) -> Doubles:
    """The sums of numbers by label."""
    found: npt.NDArray[Any] = np.bincount(labels, numbers, count)
    return found.astype(np.float64, copy=False)


def whole_numbers(labels: Integers, numbers: Integers, count: int) -> Integers:
    """The sums of whole numbers by label."""
    return np.rint(added(labels, numbers, count)).astype(np.int64)


def entries_of(content: Content) -> tuple[Integers, Integers, Doubles, Integers]:
    """The columns, rows, coefficients and multiplicities of entries."""
    origins = content.keys.columns[0].to_numpy(zero_copy_only=False)
    rows, slopes = (each.to_numpy(zero_copy_only=False) for each in content.rest.columns)
    return origins, rows, slopes, content.weights
