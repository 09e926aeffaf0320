"""The rows of a source, and the ledger that refuses changes of them that cannot be.

A ledger counts the rows of a source, so that a deletion of a row that is not there is noticed; with
a declared key it also notices rows that share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from incmrql.engine.columns.layouts import Layout
from incmrql.engine.columns.pipelines import Pipeline
from incmrql.engine.columns.rows import Rows, to_values
from incmrql.engine.context import BatchContext, merge_all, sorted_rows_of
from incmrql.engine.operators.base import NamedSchema, Operator
from incmrql.engine.store.content import SortedRows, keys_of_rows
from incmrql.engine.store.lookup import grouped_rows, look_up
from incmrql.errors import DataError
from incmrql.plan.program import Stream
from incmrql.values import Value, show

MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class SourceOp(Operator):
    """The rows of a source.  With a declared key, `key` makes pairs of it and the row."""

    stream: Stream
    layout: Layout
    insert_only: bool
    key: Pipeline | None = None
    ledger: NamedSchema | None = None

    @property
    def state_tables(self) -> tuple[NamedSchema, ...]:
        """The ledger, if there is one."""
        return () if self.ledger is None else (self.ledger,)

    def advance(self, _inputs: Sequence[Iterable[Rows]], _context: BatchContext) -> Iterable[Rows]:
        """No rows of its own: a batch gives them."""
        return ()

    def ledger_delta(self, rows: Sequence[Rows], context: BatchContext) -> SortedRows | None:
        """What changes of the source add to its ledger, if it has one."""
        if self.insert_only and any((each.weights < 0).any() for each in rows):
            deleted = next(each.take(each.weights < 0) for each in rows if (each.weights < 0).any())
            first = show(to_values(deleted, self.layout)[0][0])
            message = f"rows are deleted from a stream that only grows: {first}"
            raise DataError("R205", message, place=self.stream.name)
        if self.ledger is None:
            return None
        _, schema = self.ledger
        keyed = rows if self.key is None else [self.key.apply(each, context.env) for each in rows]
        return merge_all(schema, [sorted_rows_of(schema, each) for each in keyed])

    def check(self, deltas: Sequence[SortedRows | None], context: BatchContext) -> None:
        """Refuse a change of the source that cannot be; the ledger remembers one that can."""
        some = [delta for delta in deltas if delta is not None]
        if not some or self.ledger is None:
            return
        name, schema = self.ledger
        delta = merge_all(schema, some)
        absent = self.missing(delta, context)
        if len(absent):
            raise self._of_missing(absent)
        if self.key is not None:
            several = next(self.crowded(delta, context), None)
            if several is not None:
                raise self._of_crowded(several)
        context.add(name, delta)

    def missing(self, delta: SortedRows, context: BatchContext) -> SortedRows:
        """The rows that a delta deletes more often than they are there; weights say by how many."""
        assert self.ledger is not None
        leaving = delta.take(delta.weights < 0)
        if not len(leaving):
            return leaving
        there, _ = look_up(context.table(*self.ledger), context.reader, leaving)
        after = there + leaving.weights
        return leaving.take(after < 0).with_weights(after[after < 0])

    def crowded(
        self, delta: SortedRows, context: BatchContext
    ) -> Iterator[list[tuple[Value, int]]]:
        """For each declared key that several rows share after a delta: these rows with weights."""
        assert self.ledger is not None
        hashes, keys, _ = keys_of_rows(delta)
        places, rows = grouped_rows(
            context.table(*self.ledger), context.reader, hashes, keys, delta
        )
        counts = np.bincount(places, weights=rows.weights, minlength=len(hashes))
        for key in np.flatnonzero(counts > 1):
            mine = rows.take(places == key)
            yield to_values(Rows(mine.rest.columns, mine.weights), self.layout)

    def _of_missing(self, absent: SortedRows) -> DataError:
        first = absent.slice(0, MOST_NAMED)
        columns = first.rest.columns if self.key is not None else first.keys.columns
        rows = to_values(Rows(columns, first.weights), self.layout)
        shown = ", ".join(show(row, 10) for row, _ in rows)
        more = f" and {len(absent) - len(first)} more" if len(absent) > len(first) else ""
        place = self.stream.deletes or self.stream.path or self.stream.name
        is_pushed = self.stream.source.format == "registered"
        hint = "" if is_pushed else "Fix or remove what deletes them; the batch was not ingested."
        message = f"rows are deleted that are not there: {shown}{more}"
        return DataError("R205", message, place=place, hint=hint)

    def _of_crowded(self, found: Sequence[tuple[Value, int]]) -> DataError:
        several = [row for row, weight in found for _ in range(weight)]
        shown = ", ".join(show(row, 10) for row in several[:MOST_NAMED])
        names = ", ".join(dict(self.stream.source.options)["key"])
        return DataError(
            "R304",
            f"{len(several)} rows have the same key, {names}: {shown}",
            place=self.stream.name,
            hint="Delete the old row in the batch that brings the new one, or declare no key.",
        )
