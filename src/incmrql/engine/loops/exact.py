"""The exact way: deltas go through the steps of a loop, over rows numbered by iteration.

A row with number i is part of the difference between iterations i-1 and i.  Joins find partners of
all iterations at once; pairs that belong to a later iteration wait for it.  The answer of a group
is not linear in its rows, so it is computed four times for each affected key, and iteration i
changes it by

    (after up to i - after up to i-1) - (before up to i - before up to i-1)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from incmrql.engine.columns.accumulators import Parts, normalize_parts
from incmrql.engine.columns.keys import Keys, concat_keys
from incmrql.engine.columns.layouts import leaves
from incmrql.engine.columns.pipelines import Pipeline
from incmrql.engine.columns.rows import Rows, concat_rows, no_rows
from incmrql.engine.compile.physical import Inner, NumberedLoop
from incmrql.engine.context import BatchContext, Overlay, consolidate_rows, overlay, sorted_rows_of
from incmrql.engine.loops.steps import RowsByStep, StepInterpreter
from incmrql.engine.operators.base import Operator, StatefulOp
from incmrql.engine.store.content import SortedRows, aggregate_rows, distinct_keys, empty, merge
from incmrql.engine.store.lookup import partners
from incmrql.engine.store.sorting import RowGroups, TableSchema
from incmrql.engine.store.tables import scan
from incmrql.reference import Environment
from incmrql.types.model import LONG, Type

BEFORE, BEFORE_LESS, AFTER, AFTER_LESS = range(4)
_SIGNS: Final = np.array([-1, 1, 1, -1], np.int64)


@dataclass(slots=True)
class Machine(StepInterpreter):
    """Runs the iterations of a loop in one batch, for `plan.loops.driving`.

    `given` are the deltas of the inputs, or all of their rows if no state is kept yet.
    """

    numbered: NumberedLoop
    given: Sequence[Rows]
    context: BatchContext
    is_first: bool
    inside: Overlay = field(init=False)
    env: Environment = field(init=False)
    steps: Sequence[Operator] = field(init=False)
    repeated: tuple[int, ...] = field(init=False)
    still: RowsByStep = field(default_factory=dict)
    """The deltas of operators that do not depend on the variables."""
    pending: dict[int, dict[int, list[Rows]]] = field(default_factory=dict)
    """By iteration and operator, pairs that an earlier iteration found."""
    later: dict[int, dict[int, list[Keys]]] = field(default_factory=dict)
    """By iteration and operator, the keys of changed groups that have rows of that iteration."""
    number: int = 0
    """The current iteration."""
    sent: int = 0

    def __post_init__(self) -> None:
        self.inside = overlay(self.context, dict(self.numbered.tables))
        self.inside.is_first = self.is_first
        self.env, self.steps = self.inside.env, self.inner.steps
        self.repeated = self.inner.looping.step_nodes

    @property
    def inner(self) -> Inner:
        """The program of the loop."""
        return self.numbered.inner

    def start(self) -> list[Rows]:
        """Ingest the deltas of the inputs; returns those of the initial rows of the variables."""
        looping = self.inner.looping
        given: RowsByStep = {p: [rows] for p, rows in zip(looping.inputs, self.given, strict=True)}
        self.still = self.run(looping.constant_nodes, given)
        return self._variables(self.still, looping.initial, self.inner.initial)

    def step(self, number: int, changes: Sequence[Rows]) -> tuple[list[Rows], int]:
        """Run an iteration over deltas of the variables; returns their next ones, and of flags."""
        looping = self.inner.looping
        self.number = number
        flow = dict(self.still) if number == 0 else {}
        for place, rows in zip(looping.variables, changes, strict=True):
            flow[place] = [Rows((_numbers(number, len(rows)), *rows.columns), rows.weights)]
        self.run(self.repeated, flow)
        results = self._variables(flow, looping.step, self.inner.step)
        flags = [
            int(rows.weights.sum())
            for place in looping.flags
            if place is not None
            for rows in flow.get(place, ())
        ]
        return results, sum(flags)

    def waits(self, number: int) -> bool:
        """Whether an iteration has work to do even if its variables do not change."""
        if number == 0 and any(len(rows) for chunks in self.still.values() for rows in chunks):
            return True
        return bool(self.pending.get(number) or self.later.get(number))

    def waits_after(self, number: int) -> bool:
        """Whether a later iteration has work to do."""
        return any(step > number for step in (*self.pending, *self.later))

    def differences(self, number: int) -> list[Rows]:
        """The difference of each variable at an iteration, as it was before the batch."""
        key = _numbers(number, 1)
        differences = []
        for (name, schema), layout in zip(
            self.numbered.differences, self.inner.variables, strict=True
        ):
            types = leaves(layout)[1:]
            hashes, keys, _ = distinct_keys(Keys((key,), (LONG,)))
            parts = [
                Rows(rows.rest.columns, rows.weights)
                for _, rows in partners(
                    self.context.table(name, schema), self.context.reader, hashes, keys
                )
            ]
            differences.append(consolidate_rows(TableSchema(types), concat_rows(parts, types)))
        return differences

    def forget(self, number: int) -> None:
        """Delete the state of this iteration and of all later ones."""
        for name, (where, column) in self.numbered.stored.items():
            table = self.inside.table(name, where)
            for bucket in range(table.buckets):
                content = scan(table, self.inside.reader, bucket)
                gone = content.take(_longs(content.columns[column]) >= number)
                self.inside.add(name, _negative(gone))

    def sums(self, parts: Sequence[Sequence[Rows]]) -> list[Rows]:
        """All rows of each variable, consolidated."""
        sums = []
        for variable, layout in enumerate(self.inner.variables):
            types = leaves(layout)[1:]
            whole = concat_rows([part[variable] for part in parts], types)
            sums.append(consolidate_rows(TableSchema(types), whole) if len(whole) else whole)
        return sums

    @staticmethod
    def negative(rows: Rows) -> Rows:
        """The rows with negated weights."""
        return rows.times(-1)

    # --- one operator ----------------------------------------------------------------------

    def output(self, place: int, inputs: Sequence[Iterable[Rows]]) -> list[Rows]:
        """The delta of an operator in this iteration."""
        chunks = [rows for rows in self._changes(place, inputs) if len(rows)]
        self.sent += sum(map(len, chunks))
        return chunks

    def _changes(self, place: int, inputs: Sequence[Iterable[Rows]]) -> Iterable[Rows]:
        step = self.steps[place]
        if isinstance(step, StatefulOp):
            changes_of = self._join if step.is_bilinear else self._group
            return changes_of(place, step, self.number, inputs)
        has_work = any(inputs) if step.inputs else self.number == 0
        return step.advance(inputs, self.inside) if has_work else ()

    def _join(
        self, place: int, step: StatefulOp, number: int, inputs: Sequence[Iterable[Rows]]
    ) -> Iterable[Rows]:
        """The pairs of this iteration; pairs of later ones go to `pending`."""
        pairs = self.pending.get(number, {}).pop(place, [])
        if not self.pending.get(number):
            self.pending.pop(number, None)
        if any(inputs):
            # A table holds the rows of all iterations, so one search finds the partners in all.
            for rows in step.advance(inputs, self.inside):
                steps = _longs(rows.columns[0])
                for iteration in np.unique(steps).tolist():
                    own = rows.take(steps == iteration)
                    if iteration == number:
                        pairs.append(own)
                    else:
                        self.pending.setdefault(iteration, {}).setdefault(place, []).append(own)
        return pairs

    def _group(
        self, place: int, step: StatefulOp, number: int, inputs: Sequence[Iterable[Rows]]
    ) -> Iterable[Rows]:
        """The change of the answers of affected keys in this iteration."""
        waiting = self.later.get(number, {}).pop(place, [])
        if not self.later.get(number):
            self.later.pop(number, None)
        slots = self.numbered.slots[place]
        new: list[SortedRows | None] = [None] * len(slots)
        if any(inputs):
            gathered = step.gather(inputs, self.inside.env)
            new = [
                _by_key(content, schema) if len(content) else None
                for content, (_, schema) in zip(gathered, slots, strict=True)
            ]
        keys = [*waiting, *[delta.keys for delta in new if delta is not None]]
        if not keys:
            return []
        hashes, affected, _ = distinct_keys(concat_keys(keys))
        variants: list[SortedRows] = []
        for (name, schema), delta, tagged in zip(slots, new, step.delta_schemas, strict=True):
            old, added = self._rows_of_keys(name, schema, hashes, affected)
            self._note_later(place, number, old)
            variants.append(_variants(tagged, number, old, added, delta))
        # The four variants are groups of their own, by tag and key, and meet no state: the answers
        # of one pass are added up with the signs of their tags.
        nothing = BatchContext({}, self.inside.reader, self.inside.env, is_first=True)
        answers = list(step.meet(variants, nothing))
        for (name, _), delta in zip(slots, new, strict=True):
            if delta is not None:
                self.inside.add(name, delta)
        types = leaves(self.inner.layouts[place])
        return [_with_signs(rows, number, types) for rows in answers if len(rows)]

    def _rows_of_keys(
        self, name: str, schema: TableSchema, hashes: Any, keys: Keys
    ) -> tuple[list[SortedRows], list[SortedRows]]:
        """The rows of keys before the batch, and those that its earlier iterations added."""
        table = self.inside.table(name, schema)
        reader = self.inside.reader
        assert self.inside.below is not None
        before = self.inside.below.table(self.inside.names[name], schema)
        old = [rows for _, rows in partners(before, reader, hashes, keys)]
        # The batch only appends: its levels come after those that were there before.
        added = replace(table, bases=(), levels=table.levels[len(before.levels) :])
        return old, [rows for _, rows in partners(added, reader, hashes, keys)]

    def _note_later(self, place: int, number: int, old: Sequence[SortedRows]) -> None:
        """Remember the keys that have rows of later iterations."""
        # What this iteration changes in a group it also changes in the sums up to later ones, where
        # the group's answer may change for other reasons too: these iterations compute it again.
        for rows in old:
            steps = _longs(rows.rest.columns[0])
            for iteration in np.unique(steps[steps > number]).tolist():
                own = rows.keys.take(np.flatnonzero(steps == iteration))
                self.later.setdefault(iteration, defaultdict(list))[place].append(own)

    def _variables(
        self, flow: RowsByStep, places: Sequence[int], pipelines: Sequence[Pipeline | None]
    ) -> list[Rows]:
        """Rows of the variables without their numbers, consolidated."""
        types = [leaves(layout) for layout in self.inner.variables]
        numbered = self.results(flow, zip(places, pipelines, types, strict=True))
        return [
            consolidate_rows(TableSchema(columns[1:]), Rows(rows.columns[1:], rows.weights))
            if len(rows)
            else no_rows(columns[1:])
            for rows, columns in zip(numbered, types, strict=True)
        ]


def difference(
    numbered: NumberedLoop, variable: int, number: int, rows: Rows
) -> tuple[str, SortedRows]:
    """The name of the table of a variable's differences, and rows as a delta of it."""
    name, schema = numbered.differences[variable]
    return name, sorted_rows_of(
        schema, Rows((_numbers(number, len(rows)), *rows.columns), rows.weights)
    )


def _by_key(content: SortedRows, schema: TableSchema) -> SortedRows:
    """Rows by (iteration, key), reordered by key: the iteration becomes the first of the rest."""
    width = len(content.schema.keys)
    columns = content.columns
    moved = (*columns[1:width], columns[0], *columns[width:])
    return aggregate_rows(schema, moved, content.weights, _same_parts(content.parts))


def _same_parts(parts: Parts) -> Any:
    """A function that adds up the same accumulators by the groups of another schema."""

    def lift_rows(groups: RowGroups) -> Parts:
        return normalize_parts({name: groups.add_up(column) for name, column in parts.items()})

    return lift_rows if parts else None


def _variants(
    schema: TableSchema,
    number: int,
    old: Sequence[SortedRows],
    added: Sequence[SortedRows],
    new: SortedRows | None,
) -> SortedRows:
    """The rows of groups in four variants: before and after, up to `number` and up to one less."""
    pieces: list[SortedRows] = []
    before = ((BEFORE, number), (BEFORE_LESS, number - 1))
    after = ((AFTER, number), (AFTER_LESS, number - 1))
    for contents, tags in (
        (old, (*before, *after)),
        (added, after),
        ([] if new is None else [new], after[:1]),
    ):
        for content in contents:
            steps = _longs(content.rest.columns[0])
            for tag, until in tags:
                chosen = content.take(steps <= until)
                if len(chosen):
                    pieces.append(_with_tag(chosen, schema, tag))
    return merge(pieces) if pieces else empty(schema)


def _with_tag(content: SortedRows, schema: TableSchema, tag: int) -> SortedRows:
    keys, rest = content.keys.columns, content.rest.columns
    columns = (_numbers(tag, len(content)), *keys, *rest[1:])
    return aggregate_rows(schema, columns, content.weights, _same_parts(content.parts))


def _with_signs(rows: Rows, number: int, types: Sequence[Type]) -> Rows:
    """The change of an iteration, from the answers of the four variants."""
    weights = rows.weights * _SIGNS[_longs(rows.columns[0])]
    columns = (_numbers(number, len(rows)), *rows.columns[1:])
    return consolidate_rows(TableSchema(tuple(types)), Rows(columns, weights))


def _numbers(number: int, count: int) -> Any:
    return pa.array(np.full(count, number, np.int64))


def _longs(column: Any) -> Any:
    return column.to_numpy(zero_copy_only=False)


def _negative(content: SortedRows) -> SortedRows:
    parts = {name: -column for name, column in content.parts.items()}
    return replace(content.with_weights(-content.weights), parts=parts)
