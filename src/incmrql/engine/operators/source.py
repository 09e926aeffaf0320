"""The rows of a source, and the ledger that refuses impossible changes of them.

A ledger counts the rows of a source, so that the deletion of a row that does not exist is detected;
with a declared key it also detects rows that share one.
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
    """The rows of a source.  With a declared key, `key` computes pairs of key and row."""

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
        """No rows of its own: the batch provides them."""
        return ()

    def ledger_delta(self, rows: Sequence[Rows], context: BatchContext) -> SortedRows | None:
        """The delta of the source's ledger, if it has one; refuses deletions if it only grows."""
        deleting = (
            [chunk for chunk in rows if (chunk.weights < 0).any()] if self.insert_only else []
        )
        if deleting:
            deleted = deleting[0].take(deleting[0].weights < 0)
            first = show(to_values(deleted, self.layout)[0][0])
            message = f"rows are deleted from a stream that only grows: {first}"
            raise DataError("R205", message, place=self.stream.name)
        if self.ledger is None:
            return None
        _, schema = self.ledger
        keyed = rows if self.key is None else [self.key.apply(chunk, context.env) for chunk in rows]
        return merge_all(schema, [sorted_rows_of(schema, chunk) for chunk in keyed])

    def check(self, deltas: Sequence[SortedRows | None], context: BatchContext) -> None:
        """Refuse an impossible change of the source; adds others to the ledger."""
        some = [delta for delta in deltas if delta is not None]
        if not some or self.ledger is None:
            return
        name, schema = self.ledger
        delta = merge_all(schema, some)
        absent = self.missing(delta, context)
        if len(absent):
            raise self._missing_error(absent)
        if "key" in dict(self.stream.source.options):
            sharing = next(self.rows_sharing_a_key(delta, context), None)
            if sharing is not None:
                raise self._key_error(sharing)
        context.add(name, delta)

    def missing(self, delta: SortedRows, context: BatchContext) -> SortedRows:
        """The rows that a delta deletes too often; negative weights say by how much."""
        assert self.ledger is not None
        leaving = delta.take(delta.weights < 0)
        if not len(leaving):
            return leaving
        before, _ = look_up(context.table(*self.ledger), context.reader, leaving)
        after = before + leaving.weights
        return leaving.take(after < 0).with_weights(after[after < 0])

    def rows_sharing_a_key(
        self, delta: SortedRows, context: BatchContext
    ) -> Iterator[list[tuple[Value, int]]]:
        """For each declared key that several rows have after a delta: these rows with weights."""
        assert self.ledger is not None
        hashes, keys, _ = keys_of_rows(delta)
        key_indices, rows = grouped_rows(
            context.table(*self.ledger), context.reader, hashes, keys, delta
        )
        counts = np.bincount(key_indices, weights=rows.weights, minlength=len(hashes))
        for key in np.flatnonzero(counts > 1):
            sharing = rows.take(key_indices == key)
            yield to_values(Rows(sharing.rest.columns, sharing.weights), self.layout)

    def _missing_error(self, absent: SortedRows) -> DataError:
        first = absent.slice(0, MOST_NAMED)
        columns = first.rest.columns if self.key is not None else first.keys.columns
        rows = to_values(Rows(columns, first.weights), self.layout)
        reader = self.stream.source.reader
        width = len(reader.columns) if reader is not None and reader.computed else None
        shown = ", ".join(show(row if width is None else row[:width], 10) for row, _ in rows)
        more = f" and {len(absent) - len(first)} more" if len(absent) > len(first) else ""
        place = self.stream.deletes or self.stream.path or self.stream.name
        is_pushed = self.stream.source.format == "registered"
        hint = "" if is_pushed else "Fix or remove what deletes them; the batch was not ingested."
        message = f"rows are deleted that are not there: {shown}{more}"
        return DataError("R205", message, place=place, hint=hint)

    def _key_error(self, sharing: Sequence[tuple[Value, int]]) -> DataError:
        several = [row for row, weight in sharing for _ in range(weight)]
        shown = ", ".join(show(row, 10) for row in several[:MOST_NAMED])
        names = ", ".join(dict(self.stream.source.options)["key"])
        return DataError(
            "R304",
            f"{len(several)} rows have the same key, {names}: {shown}",
            place=self.stream.name,
            hint="Delete the old row in the batch that brings the new one, or declare no key.",
        )
