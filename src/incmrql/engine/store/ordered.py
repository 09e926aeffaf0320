"""Rows of ordered tables by position within a key: from the front, from the end, or by rank.

    totals         the total weight of the rows of a key
    front          the first or last rows of a key, read in growing chunks of every segment
    rows_between   the rows of a key between two ranks, found by bisection over sums of weights
    ranks_in_keys  where rows are, or would be, among the rows of their keys

`extra` is a delta in memory that counts as one more segment: without it tables are as before the
batch, with it as after.  No key is scanned; a weight below zero is an error where it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from incmrql.engine.columns.keys import Indices, Keys, Mask
from incmrql.engine.store.content import SortedRows, concat, empty, running_weights
from incmrql.engine.store.lookup import (
    KeySpan,
    find_rows,
    find_spans,
    rows_of_spans,
    weight_between,
)
from incmrql.engine.store.segments import SegmentRows
from incmrql.engine.store.sorting import RowGroups, group
from incmrql.engine.store.tables import Reader, StateTable
from incmrql.plan.changes import NegativeWeight
from incmrql.values.exact.sums import Integers
from incmrql.values.hashing.columns import Hashes

# --- Bisection by rank ---
#
# A rank counts rows of all segments, so one segment alone does not tell where it lies. A pivot row
# is chosen from the segment with the most rows left and searched in every segment; the sums of the
# weights before it say on which side of the pivot the rank lies, in all segments at once.


SMALL: Final = 16
"""Up to this many rows of a key are read instead of searched."""


def narrow_spans(spans: list[KeySpan], starts: Integers, stops: Integers) -> list[KeySpan]:
    """Narrower spans that hold the rows between two ranks of each key, and few other rows.

    All spans are cut at the same rows.
    """
    firsts = _bracket(spans, spans, starts)
    rest = [
        span.within(first.starts, span.stops) for span, first in zip(spans, firsts, strict=True)
    ]
    lasts = _bracket(spans, rest, stops - 1)
    return [
        span.within(first.starts, last.stops)
        for span, first, last in zip(spans, firsts, lasts, strict=True)
    ]


def _bracket(spans: list[KeySpan], inner: list[KeySpan], ranks: Integers) -> list[KeySpan]:
    """Narrower spans, all cut at the same rows, that hold the row of a rank of each key."""
    inner = [span.within(span.starts.copy(), span.stops.copy()) for span in inner]
    while True:
        rows, longest = np.zeros((2, len(ranks)), np.int64)
        for span in inner:
            rows[span.key_indices] += span.counts
            longest[span.key_indices] = np.maximum(longest[span.key_indices], span.counts)
        busy = (rows > SMALL) & (longest > 1)
        if not busy.any():
            return inner
        pivots, of = _pivots(inner, busy)
        _halve(spans, inner, (pivots, of), (ranks, busy))


def _pivots(inner: list[KeySpan], busy: Mask) -> tuple[SortedRows, Indices]:
    """The middle row of the longest span of each busy key, and its index among these rows."""
    longest = np.zeros(len(busy), np.int64)
    of_span = np.full(len(busy), -1, np.int64)
    for number, span in enumerate(inner):
        longer = span.counts > longest[span.key_indices]
        key_indices = span.key_indices[longer]
        longest[key_indices] = span.counts[longer]
        of_span[key_indices] = number
    rows, of = [], np.zeros(len(busy), np.int64)
    offset = 0
    for number, span in enumerate(inner):
        chosen = np.flatnonzero(busy[span.key_indices] & (of_span[span.key_indices] == number))
        if len(chosen):
            middle = (span.starts[chosen] + span.stops[chosen] - 1) >> 1
            rows.append(span.rows.take(middle))
            of[span.key_indices[chosen]] = offset + np.arange(len(chosen))
            offset += len(chosen)
    return concat(rows), of


def _halve(
    outer_spans: list[KeySpan],
    inner: list[KeySpan],
    pivots: tuple[SortedRows, Indices],
    search: tuple[Integers, Mask],
) -> None:
    """Cut the spans of busy keys at their pivots, in place."""
    (rows, of), (ranks, busy) = pivots, search
    until = np.zeros(len(ranks), np.int64)
    cuts = []
    for outer, span in zip(outer_spans, inner, strict=True):
        chosen = np.flatnonzero(busy[span.key_indices])
        key_indices = span.key_indices[chosen]
        here, is_found = find_rows(
            span, rows, of[key_indices], span.starts[chosen], span.stops[chosen]
        )
        ends = here + is_found
        until[key_indices] += weight_between(span.rows, outer.starts[chosen], ends)
        cuts.append((span, chosen, ends))
    later = until <= ranks
    for span, chosen, ends in cuts:
        is_later = later[span.key_indices[chosen]]
        span.starts[chosen[is_later]] = ends[is_later]
        span.stops[chosen[~is_later]] = ends[~is_later]


# --- Rows by place ---


_GROWTH: Final = 4
_MOST_AT_FIRST: Final = 64
_NO_LIMIT: Final = np.iinfo(np.int64).max


def totals(
    table: StateTable, reader: Reader, extra: SortedRows | None, hashes: Hashes, keys: Keys
) -> Integers:
    """The total weight of the rows of each key."""
    whole = _totals(find_spans(table, reader, hashes, keys, extra), len(hashes))
    return whole if table.schema.most is None else np.minimum(whole, table.schema.most)


def _totals(spans: list[KeySpan], count: int) -> Integers:
    whole = np.zeros(count, np.int64)
    for span in spans:
        whole[span.key_indices] += weight_between(span.rows, span.starts, span.stops)
    if (whole < 0).any():
        raise NegativeWeight(f"a table holds {whole.min()} rows of a key")
    return whole


def front(  # noqa: PLR0913 (a table, keys, and what is asked of them)
    table: StateTable,
    reader: Reader,
    extra: SortedRows | None,
    hashes: Hashes,
    keys: Keys,
    count: int,
    *,
    last: bool = False,
) -> tuple[Indices, SortedRows]:
    """The first or last rows of each key, up to the weight `count`: the key's index, and the row.

    They are in the order of keys, then of the table.
    """
    schema = table.schema
    if schema.most is not None and last != schema.last:
        stops = totals(table, reader, extra, hashes, keys) if last else np.full(len(hashes), count)
        return rows_between(table, reader, extra, hashes, keys, stops - count, stops)
    if schema.most is not None:
        count = min(count, schema.most)
    open_ = find_spans(table, reader, hashes, keys, extra)
    done: list[tuple[Indices, SortedRows]] = []
    length = max(min(count + 1, _MOST_AT_FIRST), 2)
    while open_:
        read = [_head(span, length, last=last) for span in open_]
        places, rows, complete = _front_of(table, reader, (open_, read), count, last=last)
        done.append((places, rows))
        open_ = [span.only(~complete[span.key_indices]) for span in open_]
        open_ = [span for span in open_ if len(span.key_indices)]
        length *= _GROWTH
    return _sort_by_key(table, done)


def _head(span: KeySpan, length: int, *, last: bool) -> KeySpan:
    if last:
        return span.within(np.maximum(span.starts, span.stops - length), span.stops)
    return span.within(span.starts, np.minimum(span.stops, span.starts + length))


def _front_of(
    table: StateTable,
    reader: Reader,
    open_: tuple[list[KeySpan], list[KeySpan]],
    count: int,
    *,
    last: bool,
) -> tuple[Indices, SortedRows, Mask]:
    """The first rows of the keys of which enough was read; and which keys these are.

    A segment that was not read to its end may still have rows after the last one that was read.
    So the order of a key is certain only up to the first such end among its segments.
    """
    merged = _MergedRows.of(table, reader, open_[1])
    sign = -1 if last else 1
    limits = np.full(merged.count, _NO_LIMIT)
    groups, offset = merged.groups.of_row, 0
    for whole, part in zip(*open_, strict=True):
        ends = np.cumsum(part.counts)
        edges = groups[offset + (ends - part.counts if last else ends - 1)] * sign
        cut = part.counts < whole.counts
        key_indices = part.key_indices[cut]
        limits[key_indices] = np.minimum(limits[key_indices], edges[cut])
        offset += int(ends[-1])
    is_complete_row = np.arange(len(merged.weights)) * sign <= limits[merged.places]
    weights = np.where(is_complete_row, merged.weights, 0)
    _refuse_negative(weights)
    until = running_weights(weights, merged.groups.key_starts, last=last)
    complete = limits == _NO_LIMIT
    np.logical_or.at(complete, merged.places, until >= count)
    kept = np.clip(count - (until - weights), 0, weights)
    kept[~complete[merged.places]] = 0
    return *merged.rows(kept), complete


def rows_between(  # noqa: PLR0913, PLR0917 (a table, keys, and what is asked of them)
    table: StateTable,
    reader: Reader,
    extra: SortedRows | None,
    hashes: Hashes,
    keys: Keys,
    starts: Integers,
    stops: Integers,
) -> tuple[Indices, SortedRows]:
    """The rows of each key between two ranks: the key's index, and the row.

    A row has as many ranks as its weight; the weight in the result is the number of requested
    ranks.  Rows are in the order of keys, then of the table.
    """
    spans = find_spans(table, reader, hashes, keys, extra)
    whole = _totals(spans, len(hashes))
    starts, stops = _within(table, whole, starts, stops)
    non_empty = starts < stops
    spans = [span.only(non_empty[span.key_indices]) for span in spans]
    spans = [span for span in spans if len(span.key_indices)]
    inner = narrow_spans(spans, starts, stops)
    merged = _MergedRows.of(table, reader, inner)
    _refuse_negative(merged.weights)
    skipped = np.zeros(len(hashes), np.int64)
    for outer, span in zip(spans, inner, strict=True):
        skipped[span.key_indices] += weight_between(span.rows, outer.starts, span.starts)
    places = merged.places
    until = running_weights(merged.weights, merged.groups.key_starts) + skipped[places]
    first = np.maximum(until - merged.weights, starts[places])
    return merged.rows(np.maximum(np.minimum(until, stops[places]) - first, 0))


def _within(
    table: StateTable, whole: Integers, starts: Integers, stops: Integers
) -> tuple[Integers, Integers]:
    """The ranks, limited to rows that exist and are kept."""
    most = table.schema.most
    kept = whole if most is None else np.minimum(whole, most)
    skipped = whole - kept if table.schema.last else np.zeros(len(whole), np.int64)
    return np.maximum(starts, 0) + skipped, np.minimum(stops, kept) + skipped


@dataclass(frozen=True, slots=True)
class _MergedRows:
    """Rows of several segments in order, grouped by key and row."""

    span_rows: tuple[Indices, SortedRows]
    groups: RowGroups
    places: Indices
    """The index of the key of each group."""
    weights: Integers
    """The sum of the weights of each group."""

    @staticmethod
    def of(table: StateTable, reader: Reader, spans: list[KeySpan]) -> _MergedRows:
        """The rows of spans of the same keys."""
        places, rows = rows_of_spans(table, reader, spans)
        groups = group(places.view(np.uint64), None, rows.within(), merged=True)
        return _MergedRows(
            (places, rows), groups, places[groups.firsts], groups.add_up(rows.weights)
        )

    @property
    def count(self) -> int:
        """One more than the greatest index of a key."""
        return int(self.places[-1]) + 1 if len(self.places) else 0

    def rows(self, weights: Integers) -> tuple[Indices, SortedRows]:
        """The groups with a weight that is not zero, as rows, and the indices of their keys."""
        kept = np.flatnonzero(weights)
        rows = self.span_rows[1].take(self.groups.firsts[kept])
        return self.places[kept], rows.with_weights(weights[kept])


def _refuse_negative(weights: Integers) -> None:
    if (weights < 0).any():
        raise NegativeWeight(f"a table holds {weights.min()} times a row")


def _sort_by_key(
    table: StateTable, parts: list[tuple[Indices, SortedRows]]
) -> tuple[Indices, SortedRows]:
    """The rows of all parts, which have different keys, in the order of the keys."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.zeros(0, np.int64), empty(table.schema)
    places = np.concatenate([indices for indices, _ in parts])
    order = np.argsort(places, kind="stable")
    return places[order], concat([rows for _, rows in parts]).take(order)


def ranks_in_keys(
    table: StateTable, reader: Reader, extra: SortedRows | None, rows: SortedRows
) -> Integers:
    """For each of some rows, the number of rows of the same key that sort before it."""
    before = np.zeros(len(rows), np.int64)
    for span in find_spans(table, reader, rows.hashes, rows.keys, extra):
        positions, _ = find_rows(span, rows, span.key_indices, span.starts, span.stops)
        before[span.key_indices] += weight_between(span.rows, span.starts, positions)
    return before


def ranks_of(
    table: StateTable, reader: Reader, extra: SortedRows | None, rows: SortedRows
) -> Integers:
    """The number of rows of a table without keys that sort before each of some rows."""
    before = np.zeros(len(rows), np.int64)
    segments = [reader.whole(table, segment) for segment in table.segments]
    if extra is not None and len(extra):
        segments.append(SegmentRows.of(extra.with_before()))
    everything = np.arange(len(rows))
    starts = np.zeros(len(rows), np.int64)
    for segment in segments:
        stops = np.full(len(rows), len(segment))
        span = KeySpan(segment, everything, starts, stops)
        positions, _ = find_rows(span, rows, everything, starts, stops)
        before += weight_between(segment, starts, positions)
    return before
