"""Windows over groups: -old +new of the rows that a change concerns, read by rank.

The rows of a partition are in a table in the order of the window.  `plan.windows.reach_of` says
which ranks a change concerns; these are read before and after the batch, with the rows around them
that their frames need.  Values are those of `reference.windows`: `tests/engine/test_windows.py`
compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from incmrql.engine.columns.layouts import column_type, leaves, rows_of, values_of, width
from incmrql.engine.columns.rows import Rows, of_values
from incmrql.engine.compile.windows import WindowPlan
from incmrql.engine.context import BatchContext
from incmrql.engine.operators.frames import Prefix, Region, region_values
from incmrql.engine.store.content import SortedRows, aggregate_rows
from incmrql.engine.store.lookup import look_up, span_of
from incmrql.engine.store.ordered import ranks_in_keys, rows_between, totals
from incmrql.engine.store.segments import SegmentRows
from incmrql.engine.store.tables import StateTable
from incmrql.io.by_row import note_by_row
from incmrql.plan.windows import Everything, Front, Near, Onward
from incmrql.reference import Environment
from incmrql.types import typed
from incmrql.values import Value
from incmrql.values.exact.sums import Integers

if TYPE_CHECKING:
    from incmrql.engine.operators.groups import GroupOp
    from incmrql.engine.operators.requests import Affected, Answers


@dataclass(frozen=True, slots=True)
class _Piece:
    """Ranks of a partition that are answered: those from `first` to `stop`, of the key at `key`."""

    key: int
    first: int
    stop: int


def window_delta(
    step: GroupOp, affected: Affected, answers: Answers, context: BatchContext
) -> Iterator[Rows]:
    """The answers that the rows of a batch take back and give."""
    assert step.window is not None
    change = affected.rankings[0]
    if not len(change):
        return
    reader = _Reader(step, step.window, affected, answers, context)
    rows: list[tuple[Value, int]] = []
    for is_new, sign in ((False, -1), (True, 1)):
        for piece in reader.pieces(change, is_new=is_new):
            rows += [(row, sign) for row in piece]
    yield step.body.apply(of_values(rows, step.window.layout), context.env)


@dataclass(slots=True)
class _Reader:
    """Reads the rows that a batch concerns, before it and after it."""

    step: GroupOp
    plan: WindowPlan
    affected: Affected
    answers: Answers
    context: BatchContext

    @property
    def table(self) -> StateTable:
        """The table of the rows in order."""
        ranking = self.step.rankings[0]
        return self.context.table(ranking.name, ranking.schema)

    def pieces(self, change: SortedRows, *, is_new: bool) -> Iterator[list[Value]]:
        """The rows (key, (row, values)) of each piece that is concerned."""
        extra = change if is_new else None
        counts = totals(
            self.table, self.context.reader, extra, self.affected.hashes, self.affected.keys
        )
        reach = self.plan.reach
        around = (0, 0)
        match reach:
            case Near(before, after):
                pieces = self._near(change, counts, before, after, is_new=is_new)
                around = (before, after)
            case Onward(before, back):
                pieces = self._onward(change, counts, back)
                around = (before, max(counts.tolist(), default=0))
            case Front():
                yield from self._front(change, counts, extra, reach)
                return
            case Everything():
                pieces = [_Piece(key, 0, count) for key, count in enumerate(counts.tolist())]
        pieces = [piece for piece in pieces if piece.first < piece.stop]
        yield from self._read(pieces, counts, extra, around, is_new=is_new)

    # --- Which ranks ---

    def _near(
        self, change: SortedRows, counts: Integers, before: int, after: int, *, is_new: bool
    ) -> list[_Piece]:
        """The ranks that changed rows concern; those that are read together are one piece."""
        at, ranks, old = self._places(change)
        pieces: list[_Piece] = []
        last_key, shift, last_stop, start, stop = -1, 0, 0, 0, 0

        def close() -> None:
            if last_key >= 0:
                total = int(counts[last_key])
                pieces.append(_Piece(last_key, max(start, 0), min(stop, total)))

        rows = zip(at, ranks, old, change.weights.tolist(), strict=True)
        for key, rank, weight, delta in rows:
            is_same = key == last_key
            if not is_same:
                shift = 0
            # The gap of rows that stay is the same before and after the batch, and so the pieces.
            together = is_same and rank - last_stop <= 2 * (before + after)
            first = rank + (shift if is_new else 0)
            end = first + weight + (delta if is_new else 0)
            if not together:
                close()
                start = first - after
            stop = end + before
            last_key, shift, last_stop = key, shift + delta, rank + weight
        close()
        return pieces

    def _onward(self, change: SortedRows, counts: Integers, back: int) -> list[_Piece]:
        """From the first peer of the first changed row of each key on; rows before it stay."""
        at, _, _ = self._places(change)
        firsts: dict[int, int] = {}
        for place, key in enumerate(at):
            firsts.setdefault(key, place)
        probes = self._peers(change.take(np.array(list(firsts.values()))))
        ranks = ranks_in_keys(self.table, self.context.reader, None, probes).tolist()
        return [
            _Piece(key, max(rank - back, 0), int(counts[key]))
            for key, rank in zip(firsts, ranks, strict=True)
        ]

    def _places(self, change: SortedRows) -> tuple[list[int], list[int], list[int]]:
        """For each changed row: the index of its key, its rank before the batch, its weight."""
        ranks = ranks_in_keys(self.table, self.context.reader, None, change)
        weights, _ = look_up(self.table, self.context.reader, change)
        span = span_of(SegmentRows.of(change), self.affected.hashes, self.affected.keys)
        keys = np.zeros(len(change), np.int64)
        keys[span.positions] = span.row_keys
        return keys.tolist(), ranks.tolist(), weights.tolist()

    def _peers(self, rows: SortedRows) -> SortedRows:
        """For each row, one that sorts before all rows with the same sort keys."""
        ranking = self.step.rankings[0]
        columns = list(rows.columns)
        of_row = width(self.plan.row)
        cut = len(columns) - of_row
        nulls = [pa.nulls(len(rows), column_type(type_)) for type_ in leaves(self.plan.row)]
        ones = np.ones(len(rows), np.int64)
        return aggregate_rows(ranking.schema, [*columns[:cut], *nulls], ones)

    # --- Reading them ---

    def _read(
        self,
        pieces: Sequence[_Piece],
        counts: Integers,
        extra: SortedRows | None,
        around: tuple[int, int],
        *,
        is_new: bool,
    ) -> Iterator[list[Value]]:
        """The answers of pieces, read with some rows before and after them."""
        if not pieces:
            return
        starts = np.array([max(piece.first - around[0], 0) for piece in pieces], np.int64)
        stops = np.array([piece.stop + around[1] for piece in pieces], np.int64)
        stops = np.minimum(stops, counts[[piece.key for piece in pieces]])
        lists = self._rows_between([piece.key for piece in pieces], starts, stops, extra)
        keys = self._keys([piece.key for piece in pieces])
        for piece, key, start, rows in zip(pieces, keys, starts.tolist(), lists, strict=True):
            region = Region(rows, start, int(counts[piece.key]), piece.first, piece.stop)
            env = self._env(key)
            prefixes = self._prefixes(piece.key, region, env, is_new=is_new)
            yield self._answers(key, region, prefixes, env)

    def _answers(
        self, key: Value, region: Region, prefixes: Sequence[Prefix | None], env: Environment
    ) -> list[Value]:
        values = region_values(self.plan.window, region, prefixes, env)
        rows = region.rows[region.first - region.start : region.stop - region.start]
        return [(key, (row, results)) for (_, row), results in zip(rows, values, strict=True)]

    def _keys(self, indices: Sequence[int]) -> list[Value]:
        keys = self.affected.keys.take(np.array(indices, np.int64))
        return rows_of(keys.columns, self.step.key, len(indices))

    def _env(self, key: Value) -> Environment:
        return self.context.env.extend({self.step.group.number: (key, None)})

    def _rows_between(
        self, keys: Sequence[int], starts: Integers, stops: Integers, extra: SortedRows | None
    ) -> list[list[Value]]:
        """The pairs (sort keys, row) at ranks of keys, each as often as it is there."""
        ranking = self.step.rankings[0]
        indices = np.array(keys, np.int64)
        hashes, of_keys = self.affected.hashes[indices], self.affected.keys.take(indices)
        lists: list[list[Value]] = [[] for _ in keys]
        places, rows = rows_between(
            self.table, self.context.reader, extra, hashes, of_keys, starts, stops
        )
        note_by_row(len(rows))
        values = rows_of(rows.rest.columns, ranking.element, len(rows))
        for place, value, weight in zip(
            places.tolist(), values, rows.weights.tolist(), strict=True
        ):
            lists[place] += [value] * weight
        return lists

    def _prefixes(
        self, key: int, region: Region, env: Environment, *, is_new: bool
    ) -> list[Prefix | None]:
        """For each function, the sum and the count of what is before the rows that were read."""
        columns = self.answers.after if is_new else self.answers.before
        prefixes: list[Prefix | None] = []
        for function, requests in zip(self.plan.window.functions, self.plan.before, strict=True):
            if not requests or not region.start:
                prefixes.append(None)
                continue
            values = [
                values_of(columns[index].slice(key, 1), self.answers.types[index])[0]
                for index in requests
            ]
            whole = Prefix.of_totals(values)
            if isinstance(function, typed.Rank):  # which needs the number of all different keys
                prefixes.append(whole)
                continue
            prefixes.append(whole.without(function, self.plan.window.row, region, env))
        return prefixes

    # --- The first rows ---

    def _front(
        self, change: SortedRows, counts: Integers, extra: SortedRows | None, reach: Front
    ) -> Iterator[list[Value]]:
        """The rows whose rank is small enough, with all peers of the last of them."""
        at, _, _ = self._places(change)
        firsts: dict[int, int] = {}
        for place, key in enumerate(at):
            firsts.setdefault(key, place)
        probes = self._peers(change.take(np.array(list(firsts.values()))))
        ranks = ranks_in_keys(self.table, self.context.reader, None, probes).tolist()
        # A row with so many rows before its peers has no small rank, of whatever kind... but the
        # dense one, which counts peers once.
        is_dense = self.plan.is_dense
        open_ = [
            key for key, rank in zip(firsts, ranks, strict=True) if is_dense or rank < reach.most
        ]
        length = reach.most + 1
        while open_:
            stops = np.minimum(counts[open_], length)
            lists = self._rows_between(open_, np.zeros(len(open_), np.int64), stops, extra)
            keys = self._keys(open_)
            later: list[int] = []
            for index, key, rows in zip(open_, keys, lists, strict=True):
                stop = _end_of_front(rows, int(counts[index]), reach.most, is_dense=is_dense)
                if stop is None:
                    later.append(index)
                    continue
                region = Region(rows[:stop], 0, int(counts[index]), 0, stop)
                none = [None] * len(self.plan.window.functions)
                yield self._answers(key, region, none, self._env(key))
            open_, length = later, length * 4


def _end_of_front(rows: Sequence[Value], count: int, most: int, *, is_dense: bool) -> int | None:
    """Where the peers of the last row of a small rank end; None if that is not known yet."""
    seen, previous = 0, None
    for index, (keys, _) in enumerate(rows):
        is_peer = index > 0 and keys == previous
        if not is_peer:
            seen += 1
            if (seen > most) if is_dense else (index >= most):
                return index
        previous = keys
    return len(rows) if len(rows) == count else None
