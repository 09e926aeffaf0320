"""The state of an affine loop that diffuses, in memory: labels by number, matrix and vectors.

Deltas of the inputs go through programs of changes, whose rows are deltas of the matrix, of the
initial rows and of the constants (`loop_change`).

Vectors are stored as columns of integers that are added up, like all accumulators: a double as the
integer with the same 64 bits, and a change of it as the difference of these integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.engine.columns.accumulators import Parts
from incmrql.engine.columns.keys import Keys
from incmrql.engine.columns.layouts import Layout, Leaf, Struct
from incmrql.engine.columns.layouts import width as width_of
from incmrql.engine.columns.rows import Rows
from incmrql.engine.context import BatchContext, Overlay, consolidate_rows, overlay, sorted_rows_of
from incmrql.engine.loops.affine.tables import MATRIX, NUMBERED, AffinePart, AffineTables
from incmrql.engine.loops.steps import RowsByStep, StepInterpreter
from incmrql.engine.operators.base import NamedSchema
from incmrql.engine.store.content import SortedRows, aggregate_rows, concat, distinct_keys, merge
from incmrql.engine.store.lookup import grouped_rows, span_of
from incmrql.engine.store.segments import SegmentRows
from incmrql.engine.store.sorting import RowGroups, TableSchema
from incmrql.engine.store.tables import scan
from incmrql.plan.diffusion.ways import UnmeasuredError
from incmrql.types.model import LONG
from incmrql.values.exact.sums import Integers

Doubles = npt.NDArray[np.float64]

MOST_RINGS: Final = 200
"""The most rounds in which new labels may appear; a step that makes them for ever has no matrix."""
_MANY: Final = 8
"""More pieces of the table of labels than this are merged before they are searched."""


def all_rows(named: NamedSchema, context: BatchContext) -> SortedRows:
    """All rows of a table, in order."""
    table = context.table(*named)
    return concat([scan(table, context.reader, bucket) for bucket in range(table.buckets)])


# --- programs --------------------------------------------------------------------------------


class PartRun(StepInterpreter):
    """Runs a part of a program of changes; a batch may run it several times."""

    def __init__(self, part: AffinePart, context: BatchContext, *, is_first: bool) -> None:
        self.part, self.steps = part, part.steps
        self.inside: Overlay = overlay(context, {name: own for name, (own, _) in part.tables})
        self.inside.is_first = is_first
        self.env = self.inside.env

    def changes(self, inputs: Sequence[Rows], variable: Rows | None = None) -> list[Rows]:
        """The deltas of the part's results, for deltas of its inputs."""
        part = self.part
        deltas: RowsByStep = {p: [rows] for p, rows in zip(part.inputs, inputs, strict=False)}
        if variable is not None and part.variable is not None:
            deltas[part.variable] = [variable]
        rows = self.run(part.steps, deltas)
        self.inside.is_first = False
        return self.results(rows, part.results)

    def output(self, place: int, inputs: Sequence[Iterable[Rows]]) -> Iterable[Rows]:
        """The delta of an operator; nothing if it has inputs and none of them changes."""
        step = self.part.steps[place]
        if step.inputs and not any(len(rows) for chunks in inputs for rows in chunks):
            return ()
        return [rows for rows in step.advance(inputs, self.inside) if len(rows)]


# --- labels ----------------------------------------------------------------------------------


class Labels:
    """Numbers labels from 0; new numbers are added to the state at once."""

    def __init__(self, tables: AffineTables, context: BatchContext) -> None:
        self.tables, self.context = tables, context
        self.contents = [all_rows(tables.labels, context)]
        self.count = len(self.contents[0])

    def of(self, columns: Sequence[Any], count: int) -> Integers:
        """The numbers of the labels of rows, given all columns of the rows."""
        if not count:
            return np.zeros(0, np.int64)
        name, schema = self.tables.labels
        hashes, keys, of_row = distinct_keys(Keys(self._label(columns), schema.keys))
        numbers = np.full(len(hashes), -1)
        for content in self.contents:
            span = span_of(SegmentRows.of(content), hashes, keys)
            numbers[span.key_indices] = _numbers(content)[span.starts]
        new = np.flatnonzero(numbers < 0)
        if len(new):
            numbers[new] = np.arange(self.count, self.count + len(new))
            self.count += len(new)
            rows = Rows((*keys.take(new).columns, pa.array(numbers[new])), np.ones_like(new))
            content = sorted_rows_of(schema, rows)
            self.context.add(name, content)
            self.contents.append(content)
            if len(self.contents) > _MANY:
                self.contents = [merge(self.contents)]
        return numbers[of_row]

    def _label(self, columns: Sequence[Any]) -> tuple[Any, ...]:
        """The columns without the value."""
        value = self.tables.value
        return (*columns[:value], *columns[value + 1 :])

    def rows(self, numbers: Integers, values: Doubles, weights: Integers) -> Rows:
        """The rows of numbered labels, with these values."""
        everything = concat(self.contents)
        positions = np.empty(self.count, np.int64)
        positions[_numbers(everything)] = np.arange(self.count)
        index = pa.array(positions[numbers])
        columns = [column.take(index) for column in everything.keys.columns]
        columns.insert(self.tables.value, pa.array(values))
        return Rows(tuple(columns), weights)


def _numbers(content: SortedRows) -> Any:
    return content.rest.columns[0].to_numpy(zero_copy_only=False)


# --- changes ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """Rows as numbers of labels, values and weights."""

    labels: Integers
    values: Doubles
    weights: Integers


@dataclass(slots=True)
class LoopChange:
    """The changes that a batch makes to the loop's initial rows, constants and matrix."""

    start: LabelledRows
    alone: LabelledRows
    """Rows that a step has without the variable."""
    origins: list[Integers] = field(default_factory=list)
    rows: list[Integers] = field(default_factory=list)
    slopes: list[Doubles] = field(default_factory=list)
    weights: list[Integers] = field(default_factory=list)
    constants: list[Doubles] = field(default_factory=list)
    """The value that a row has without any contribution, for each entry."""

    def matrix(self) -> SortedRows:
        """The delta of the matrix."""
        columns = [np.concatenate(parts) for parts in (self.origins, self.rows, self.slopes)]
        weights = np.concatenate(self.weights)
        return sorted_rows_of(MATRIX, Rows(tuple(map(pa.array, columns)), weights))

    def changed_constants(self) -> tuple[Integers, Integers, Doubles]:
        """The rows whose constants changed; and those that have a constant now, with its value."""
        rows, values = np.concatenate(self.rows), np.concatenate(self.constants)
        if not len(rows):
            return rows, rows, values
        order = np.lexsort((values, rows))
        rows, values = rows[order], values[order]
        bits = values.view(np.int64)
        starts = np.flatnonzero(np.r_[True, (np.diff(rows) != 0) | (np.diff(bits) != 0)])
        weights = np.add.reduceat(np.concatenate(self.weights)[order], starts)
        changed, new = starts[weights != 0], starts[weights > 0]
        if not np.isfinite(values[new]).all():
            raise UnmeasuredError("a value is null or not finite")
        return rows[changed], rows[new], values[new]


def loop_change(
    tables: AffineTables,
    changes: Sequence[Rows],
    labels: Labels,
    context: BatchContext,
    *,
    is_first: bool,
) -> LoopChange:
    """What deltas of the inputs change in a loop, with the columns of new labels."""
    known = labels.count
    starts = PartRun(tables.start, context, is_first=is_first).changes(changes)
    start, alone = (values_by_label(tables, rows, labels) for rows in starts)
    change = LoopChange(start, alone)
    entries = PartRun(tables.entries, context, is_first=is_first)
    _add_entries(tables, change, labels, entries.changes(changes)[0])
    for _ in range(MOST_RINGS):
        new = np.arange(known, labels.count)
        if not len(new):
            return change
        known = labels.count
        # A row with value 0.0 yields the column of its label: entries are linear in the rows.
        rows = labels.rows(new, np.zeros(len(new)), np.ones_like(new))
        _add_entries(tables, change, labels, entries.changes((), rows)[0])
    raise UnmeasuredError("a step makes new labels for ever")


def values_by_label(tables: AffineTables, rows: Rows, labels: Labels) -> LabelledRows:
    """Rows as numbers of labels, values and weights; consolidated."""
    whole = consolidate_rows(TableSchema(tables.types), rows) if len(rows) else rows
    values = whole.columns[tables.value].to_numpy(zero_copy_only=False)
    if not np.isfinite(values).all():
        raise UnmeasuredError("a value is null or not finite")
    return LabelledRows(labels.of(whole.columns, len(whole)), values, whole.weights)


def _add_entries(tables: AffineTables, change: LoopChange, labels: Labels, entries: Rows) -> None:
    """Add a delta of entries to a change of the matrix."""
    entries = Rows(
        tuple(_open_columns(entries.columns, tables.entry, tables.opened)), entries.weights
    )
    width = len(tables.types)
    to = labels.of(entries.columns[:width], len(entries))
    origins = entries.columns[width:-1]
    if len(origins) < width:
        is_known = origins[0].is_valid().to_numpy(zero_copy_only=False)
        entries, to = entries.take(is_known), to[is_known]
        origins = tuple(_open_columns(entries.columns[width:-1], Leaf(tables.row.type), tables.row))
    slopes = entries.columns[-1].fill_null(0.0).to_numpy(zero_copy_only=False)
    if not np.isfinite(slopes).all():
        raise UnmeasuredError("a coefficient is not finite")
    if not tables.steady:
        change.constants.append(entries.columns[tables.value].to_numpy(zero_copy_only=False))
    change.origins.append(labels.of(origins, len(entries)))
    change.rows.append(to)
    change.slopes.append(slopes)
    change.weights.append(entries.weights)


def _open_columns(columns: Sequence[Any], given: Layout, wanted: Layout) -> Iterator[Any]:
    """The columns of a layout, from those of one with fewer columns for the same values."""
    if not isinstance(wanted, Struct):
        yield from columns
    elif isinstance(given, Struct):
        start = 0
        for one, other in zip(given.parts, wanted.parts, strict=True):
            stop = start + width_of(one)
            yield from _open_columns(columns[start:stop], one, other)
            start = stop
    else:
        for column, part in zip(columns[0].flatten(), wanted.parts, strict=True):
            yield from _open_columns([column], Leaf(part.type), part)


# --- vectors and matrix -----------------------------------------------------------------------


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
    """Differences that were too small to flow on."""
    next: Doubles
    """The result after one more step."""
    adding: Integers
    """The number of matrix entries by which rows of the result add to a row."""
    starts: Integers
    start: Doubles
    """The number of initial rows, and the sum of their values."""
    alones: Integers
    alone: Doubles
    """The number of rows that a step has without the variable, and their value."""
    constant: Doubles
    """The value that a row has without any contribution."""
    ways: Doubles
    """By step and label: the known distance of the loop from the result before the step."""
    counts: Integers
    """By step and label: the number of entries by which existing rows add to a row."""

    @staticmethod
    def empty(tables: AffineTables, count: int) -> Vectors:
        """Vectors of zeros."""
        ways = tables.limit if tables.keeps_ways else 0
        counts = 0 if tables.steady else tables.limit
        assert ways is not None
        assert counts is not None
        single = {name: np.zeros(count, kind) for name, kind in _SINGLE.items()}
        return Vectors(
            **single, ways=np.zeros((ways, count)), counts=np.zeros((counts, count), np.int64)
        )

    @staticmethod
    def load(tables: AffineTables, count: int, context: BatchContext) -> Vectors:
        """The stored vectors, with zeros for new labels."""
        vectors = Vectors.empty(tables, count)
        content = all_rows(tables.numbers, context)
        numbers = content.keys.columns[0].to_numpy(zero_copy_only=False)
        for name, column in vectors.columns().items():
            bits = content.parts.get(name)
            if bits is not None:
                column.view(np.int64)[numbers] = bits
        return vectors

    def extend(self, count: int) -> Vectors:
        """A copy with zeros for new labels."""

        def longer(column: npt.NDArray[Any]) -> Any:
            room = [(0, 0)] * (column.ndim - 1)
            return np.pad(column, [*room, (0, count - column.shape[-1])])

        single = {name: longer(getattr(self, name)) for name in _SINGLE}
        return Vectors(**single, ways=longer(self.ways), counts=longer(self.counts))

    def columns(self) -> Columns:
        """The vectors by the names of their accumulators."""
        columns: Columns = {f"{name}.v": getattr(self, name) for name in _SINGLE}
        columns |= {f"way{step}.v": column for step, column in enumerate(self.ways)}
        columns |= {f"count{step}.v": column for step, column in enumerate(self.counts)}
        return columns

    @property
    def size(self) -> float:
        """The sum of the absolute values of the result."""
        return float(np.abs(self.result).sum())


def keep(
    named: NamedSchema, before: Columns | None, after: Columns, known: int, context: BatchContext
) -> None:
    """Replace vectors in the state, which has the first `known` labels already."""
    count = len(next(iter(after.values())))
    changes = {}
    is_changed = np.zeros(count, np.bool_)
    for name, column in after.items():
        bits = column.view(np.int64)
        if before is not None:
            bits = bits - before[name].view(np.int64)
        changes[name] = bits
        is_changed |= bits != 0
    weights = np.zeros(count, np.int64)
    weights[known:] = 1
    numbers = np.flatnonzero(is_changed | (weights > 0))
    if not len(numbers):
        return

    def lift_rows(groups: RowGroups) -> Parts:
        chosen = {name: bits[numbers][groups.firsts] for name, bits in changes.items()}
        return {name: bits for name, bits in chosen.items() if bits.any()}

    content = aggregate_rows(NUMBERED, (pa.array(numbers),), weights[numbers], lift_rows)
    context.add(named[0], content)


@dataclass(slots=True)
class Matrix:
    """The columns of a matrix that were read so far: entries by column, row and coefficient.

    The delta of the batch is part of the matrix; it is None if the entries are all there is.
    """

    count: int
    origins: Integers
    rows: Integers
    slopes: Doubles
    weights: Integers
    _tables: AffineTables | None = None
    _context: BatchContext | None = None
    _change: SortedRows | None = None
    _known: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    @staticmethod
    def of(content: SortedRows, count: int) -> Matrix:
        """The matrix that has only the given entries, over `count` labels."""
        return Matrix(count, *entries_of(content))

    @staticmethod
    def of_stored_rows(
        tables: AffineTables, change: SortedRows, count: int, context: BatchContext
    ) -> Matrix:
        """The matrix of the state, after a delta; no column is read yet."""
        none = entries_of(change.slice(0, 0))
        return Matrix(count, *none, tables, context, change, np.zeros(count, np.bool_))

    def read_columns(self, origins: Integers) -> None:
        """Read columns that were not read yet."""
        if self._tables is None or self._context is None:
            return
        new = origins[~self._known[origins]]
        if not len(new):
            return
        self._known[new] = True
        hashes, keys, _ = distinct_keys(Keys((pa.array(new),), (LONG,)))
        table = self._context.table(*self._tables.matrix)
        _, content = grouped_rows(table, self._context.reader, hashes, keys, self._change)
        more = entries_of(content)
        old = self.origins, self.rows, self.slopes, self.weights
        self.origins, self.rows, self.slopes, self.weights = (
            np.concatenate(both) for both in zip(old, more, strict=True)
        )

    def times(self, vector: Doubles) -> Doubles:
        """The matrix times a vector, which must be 0 for columns that were not read."""
        return sums_by_label(
            self.rows, self.weights * self.slopes * vector[self.origins], self.count
        )

    def count_times(self, vector: Integers) -> Integers:
        """The same with 1 for each entry instead of its coefficient."""
        return integer_sums_by_label(self.rows, self.weights * vector[self.origins], self.count)

    def sizes(self) -> Doubles:
        """For each column, the sum of the absolute coefficients."""
        return sums_by_label(self.origins, self.weights * np.abs(self.slopes), self.count)

    def only(self, known: int) -> Matrix:
        """The columns of the first `known` labels, with one entry for each row."""
        chosen = self.origins < known
        at = self.origins[chosen] * self.count + self.rows[chosen]
        both, of = np.unique(at, return_inverse=True)
        sums = sums_by_label(of, self.weights[chosen] * self.slopes[chosen], len(both))
        return Matrix(
            self.count, both // self.count, both % self.count, sums, np.ones(len(both), np.int64)
        )


def sums_by_label(labels: Integers, numbers: npt.NDArray[Any], count: int) -> Doubles:
    """The sums of numbers by label."""
    sums: npt.NDArray[Any] = np.bincount(labels, numbers, count)
    return sums.astype(np.float64, copy=False)


def integer_sums_by_label(labels: Integers, numbers: Integers, count: int) -> Integers:
    """The sums of whole numbers by label."""
    return np.rint(sums_by_label(labels, numbers, count)).astype(np.int64)


def entries_of(content: SortedRows) -> tuple[Integers, Integers, Doubles, Integers]:
    """The columns, rows, coefficients and weights of entries."""
    origins = content.keys.columns[0].to_numpy(zero_copy_only=False)
    rows, slopes = (column.to_numpy(zero_copy_only=False) for column in content.rest.columns)
    return origins, rows, slopes, content.weights
