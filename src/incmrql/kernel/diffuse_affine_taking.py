"""What the changes of a loop's inputs are for its matrix: programs of changes at work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.incremental.diffuse import UnmeasuredError
from incmrql.kernel.content import Content, asked_keys, concat, merge
from incmrql.kernel.desk import Desk, consolidated, content_of
from incmrql.kernel.diffuse_affine_tables import MATRIX, AffineTables, Part
from incmrql.kernel.form import Form
from incmrql.kernel.keys import Keys
from incmrql.kernel.layouts import Layout, Leaf, Struct
from incmrql.kernel.layouts import width as width_of
from incmrql.kernel.operators import NamedForm
from incmrql.kernel.overlay import Overlay, overlay
from incmrql.kernel.rows import Rows, stacked
from incmrql.kernel.run_rows import RunRows
from incmrql.kernel.spans import span_of
from incmrql.kernel.table import scan
from incmrql.values.exact.sums import Integers

Doubles = npt.NDArray[np.float64]

MOST_RINGS: Final = 200
"""So far labels are followed; a step that makes new ones for ever has no matrix."""
_MANY: Final = 8
"""So many contents are searched one by one."""


def whole(named: NamedForm, desk: Desk) -> Content:
    """All rows of a table, in order."""
    table = desk.table(*named)
    return concat([scan(table, desk.reader, bucket) for bucket in range(table.buckets)])


# --- programs --------------------------------------------------------------------------------


class Running:
    """A part of a program at work; a batch may go through it several times."""

    def __init__(self, part: Part, desk: Desk, *, is_first: bool) -> None:
        self.part = part
        self.inside: Overlay = overlay(desk, dict(part.tables))
        self.inside.is_first = is_first

    def run(self, inputs: Sequence[Rows], variable: Rows | None = None) -> list[Rows]:
        """The changes of the rows that are asked for."""
        part = self.part
        found = {place: [rows] for place, rows in zip(part.inputs, inputs, strict=False)}
        if variable is not None and part.variable is not None:
            found[part.variable] = [variable]
        for place, step in part.steps.items():
            chunks = [found.get(each, []) for each in step.inputs]
            if not step.inputs or any(len(rows) for each in chunks for rows in each):
                found[place] = [rows for rows in step.advance(chunks, self.inside) if len(rows)]
        self.inside.is_first = False
        return [self._made(found, *each) for each in part.made]

    def _made(
        self, found: Mapping[int, list[Rows]], place: int, segment: Any, types: tuple[Any, ...]
    ) -> Rows:
        chunks = found.get(place, [])
        if segment is not None:
            chunks = [segment.apply(rows, self.inside.env) for rows in chunks]
        return stacked(chunks, types)


# --- labels ----------------------------------------------------------------------------------


class Labels:
    """The numbers of labels, from 0 on; those that are new are kept at once."""

    def __init__(self, tables: AffineTables, desk: Desk) -> None:
        self.tables, self.desk = tables, desk
        self.contents = [whole(tables.labels, desk)]
        self.count = len(self.contents[0])

    def of(self, columns: Sequence[Any], count: int) -> Integers:
        """The numbers of the labels of rows, given by all of their columns."""
        if not count:
            return np.zeros(0, np.int64)
        name, form = self.tables.labels
        hashes, keys, of_row = asked_keys(Keys(self._label(columns), form.keys))
        numbers = np.full(len(hashes), -1)
        for content in self.contents:
            span = span_of(RunRows.of(content), hashes, keys)
            numbers[span.asked] = _numbers(content)[span.starts]
        new = np.flatnonzero(numbers < 0)
        if len(new):
            numbers[new] = np.arange(self.count, self.count + len(new))
            self.count += len(new)
            rows = Rows((*keys.take(new).columns, pa.array(numbers[new])), np.ones_like(new))
            content = content_of(form, rows)
            self.desk.change(name, content)
            self.contents.append(content)
            if len(self.contents) > _MANY:
                self.contents = [merge(self.contents)]
        return numbers[of_row]

    def _label(self, columns: Sequence[Any]) -> tuple[Any, ...]:
        value = self.tables.value
        return (*columns[:value], *columns[value + 1 :])

    def rows(self, numbers: Integers, values: Doubles, weights: Integers) -> Rows:
        """The rows of labels that are known by number, with these values."""
        everything = concat(self.contents)
        places = np.empty(self.count, np.int64)
        places[_numbers(everything)] = np.arange(self.count)
        index = pa.array(places[numbers])
        columns = [column.take(index) for column in everything.keys.columns]
        columns.insert(self.tables.value, pa.array(values))
        return Rows(tuple(columns), weights)


def _numbers(content: Content) -> Any:
    return content.rest.columns[0].to_numpy(zero_copy_only=False)


# --- changes ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Valued:
    """Rows by the numbers of their labels."""

    labels: Integers
    values: Doubles
    weights: Integers


@dataclass(slots=True)
class Taken:
    """What changes of the inputs make of the loop's start, of its constants and of its matrix."""

    start: Valued
    alone: Valued
    """Rows of a step that are there without the variable."""
    origins: list[Integers] = field(default_factory=list)
    rows: list[Integers] = field(default_factory=list)
    slopes: list[Doubles] = field(default_factory=list)
    weights: list[Integers] = field(default_factory=list)
    constants: list[Doubles] = field(default_factory=list)
    """What each row has for being there."""

    def matrix(self) -> Content:
        """The change of the matrix."""
        columns = [np.concatenate(each) for each in (self.origins, self.rows, self.slopes)]
        weights = np.concatenate(self.weights)
        return content_of(MATRIX, Rows(tuple(map(pa.array, columns)), weights))

    def said(self) -> tuple[Integers, Integers, Doubles]:
        """The rows whose constants were spoken of; and those that have one now, with it."""
        rows, values = np.concatenate(self.rows), np.concatenate(self.constants)
        if not len(rows):
            return rows, rows, values
        order = np.lexsort((values, rows))
        rows, values = rows[order], values[order]
        bits = values.view(np.int64)
        starts = np.flatnonzero(np.r_[True, (np.diff(rows) != 0) | (np.diff(bits) != 0)])
        weights = np.add.reduceat(np.concatenate(self.weights)[order], starts)
        spoken, came = starts[weights != 0], starts[weights > 0]
        if not np.isfinite(values[came]).all():
            raise UnmeasuredError("a value is null or not finite")
        return rows[spoken], rows[came], values[came]


def take(
    tables: AffineTables, changes: Sequence[Rows], labels: Labels, desk: Desk, *, is_first: bool
) -> Taken:
    """Send changes of the inputs through the programs; labels that are new get their columns."""
    fed = labels.count
    made = Running(tables.start, desk, is_first=is_first).run(changes)
    start, alone = (valued(tables, rows, labels) for rows in made)
    taken = Taken(start, alone)
    entries = Running(tables.entries, desk, is_first=is_first)
    _enter(tables, taken, labels, entries.run(changes)[0])
    for _ in range(MOST_RINGS):
        new = np.arange(fed, labels.count)
        if not len(new):
            return taken
        fed = labels.count
        given = labels.rows(new, np.zeros(len(new)), np.ones_like(new))
        _enter(tables, taken, labels, entries.run((), given)[0])
    raise UnmeasuredError("a step makes new labels for ever")


def valued(tables: AffineTables, rows: Rows, labels: Labels) -> Valued:
    """Rows by the numbers of their labels, equal ones added up."""
    whole = consolidated(Form(tables.types), rows) if len(rows) else rows
    values = whole.columns[tables.value].to_numpy(zero_copy_only=False)
    if not np.isfinite(values).all():
        raise UnmeasuredError("a value is null or not finite")
    return Valued(labels.of(whole.columns, len(whole)), values, whole.weights)


def _enter(tables: AffineTables, taken: Taken, labels: Labels, entries: Rows) -> None:
    """Take in entries that come and go."""
    entries = Rows(tuple(_opened(entries.columns, tables.entry, tables.opened)), entries.weights)
    width = len(tables.types)
    to = labels.of(entries.columns[:width], len(entries))
    origins = entries.columns[width:-1]
    if len(origins) < width:
        there = origins[0].is_valid().to_numpy(zero_copy_only=False)
        entries, to = entries.take(there), to[there]
        origins = tuple(_opened(entries.columns[width:-1], Leaf(tables.row.type), tables.row))
    slopes = entries.columns[-1].fill_null(0.0).to_numpy(zero_copy_only=False)
    if not np.isfinite(slopes).all():
        raise UnmeasuredError("a coefficient is not finite")
    if not tables.steady:
        taken.constants.append(entries.columns[tables.value].to_numpy(zero_copy_only=False))
    taken.origins.append(labels.of(origins, len(entries)))
    taken.rows.append(to)
    taken.slopes.append(slopes)
    taken.weights.append(entries.weights)


def _opened(columns: Sequence[Any], given: Layout, wanted: Layout) -> Iterator[Any]:
    """The columns of a layout, from those of one that is less spread."""
    if not isinstance(wanted, Struct):
        yield from columns
    elif isinstance(given, Struct):
        start = 0
        for one, other in zip(given.parts, wanted.parts, strict=True):
            stop = start + width_of(one)
            yield from _opened(columns[start:stop], one, other)
            start = stop
    else:
        for column, part in zip(columns[0].flatten(), wanted.parts, strict=True):
            yield from _opened([column], Leaf(part.type), part)
