"""Lookups in state tables: the rows of many keys, by binary search for all keys at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from incmrql.engine.columns.accumulators import Parts, normalize_parts
from incmrql.engine.columns.keys import Indices, Keys, Mask
from incmrql.engine.store.content import SortedRows, concat, empty, sum_groups
from incmrql.engine.store.segments import Segment, SegmentRows, bounds
from incmrql.engine.store.sorting import decides, group, order_bytes
from incmrql.engine.store.tables import Reader, StateTable
from incmrql.values.exact.sums import Integers
from incmrql.values.hashing.columns import Hashes
from incmrql.values.hashing.columns import buckets as buckets_of


@dataclass(frozen=True, slots=True)
class KeySpan:
    """The keys that have rows in a segment: their indices, and where their rows start and stop."""

    rows: SegmentRows
    key_indices: Indices
    starts: Indices
    stops: Indices

    def only(self, chosen: Mask) -> KeySpan:
        """The span of the chosen keys."""
        if chosen.all():
            return self
        return KeySpan(self.rows, self.key_indices[chosen], self.starts[chosen], self.stops[chosen])

    def within(self, starts: Indices, stops: Indices) -> KeySpan:
        """The same keys with narrower ranges of rows."""
        return KeySpan(self.rows, self.key_indices, starts, stops)

    @property
    def counts(self) -> Indices:
        """The number of rows of each key."""
        return self.stops - self.starts

    @property
    def positions(self) -> Indices:
        """The positions of all rows in the segment, key after key."""
        return expand_ranges(self.starts, self.counts)

    @property
    def row_keys(self) -> Indices:
        """The index of the key of each of these rows."""
        return np.repeat(self.key_indices, self.counts)


def expand_ranges(starts: Indices, counts: Indices) -> Indices:
    """The ranges [start, start + count) one after the other, as one array."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - counts), counts) + np.arange(total)


def slices_by_count(counts: Indices, most: int) -> Iterator[slice]:
    """Consecutive slices of rows whose counts sum to at most `most`, or that have one row."""
    until = np.cumsum(counts)
    start = 0
    while start < len(counts):
        done = until[start - 1] if start else 0
        stop = max(int(np.searchsorted(until, done + most, "right")), start + 1)
        yield slice(start, stop)
        start = stop


def span_of(
    rows: SegmentRows, hashes: Hashes, keys: Keys, candidates: Indices | None = None
) -> KeySpan:
    """The rows of keys in a segment; `candidates` are the indices of keys that may have rows."""
    sought = hashes if candidates is None else hashes[candidates]
    starts, stops = rows.keys_between(sought)
    hits = np.flatnonzero(starts < stops)
    key_indices = hits if candidates is None else candidates[hits]
    starts, stops = starts[hits], stops[hits]
    is_same = rows.same_keys(starts, keys, key_indices)
    longer = np.flatnonzero(is_same & (stops > starts + 1))
    is_same[longer] = rows.same_keys(stops[longer] - 1, keys, key_indices[longer])
    if not is_same.all():
        starts, stops = _narrow_to_keys(
            rows, keys, key_indices, (starts, stops), np.flatnonzero(~is_same)
        )
    span = KeySpan(rows, key_indices, starts, stops)
    return span.only(starts < stops)


def _narrow_to_keys(
    rows: SegmentRows,
    keys: Keys,
    key_indices: Indices,
    between: tuple[Indices, Indices],
    doubtful: Indices,
) -> tuple[Indices, Indices]:
    """The ranges of rows, narrowed where several keys share a hash: each row is compared."""
    starts, stops = between[0].copy(), between[1].copy()
    counts = stops[doubtful] - starts[doubtful]
    of = np.repeat(np.arange(len(doubtful)), counts)
    positions = expand_ranges(starts[doubtful], counts)
    own = rows.same_keys(positions, keys, key_indices[doubtful[of]])
    counts_found = np.bincount(of[own], minlength=len(doubtful))
    first = stops[doubtful]
    np.minimum.at(first, of[own], positions[own])
    starts[doubtful] = first
    stops[doubtful] = first + counts_found
    return starts, stops


def find_rows(
    span: KeySpan, rows: SortedRows, at: Indices, starts: Indices, stops: Indices
) -> tuple[Indices, Mask]:
    """The rank of a row of each key among the key's rows, or where it belongs, and if it exists.

    `at` is the index in `rows` of each key's row; the search is from `starts` to `stops`.
    """
    mine = span.rows
    if not mine.has_order or rows.order is None:
        return starts, starts < stops
    sought = rows.order[at]
    lows = bisect(starts, stops, lambda some, middle: mine.order_at(middle) < sought[some])
    is_there = lows < stops
    is_there[is_there] = mine.order_at(lows[is_there]) == sought[is_there]
    hits = np.flatnonzero(is_there)
    open_ = hits[~decides(mine.schema, sought[hits])]
    if len(open_):
        same = mine.same_rest(lows[open_], rows.rest, at[open_])
        _find_by_bytes(mine, (rows, at), (lows, stops, is_there), open_[~same])
    return lows, is_there


def _find_by_bytes(
    mine: SegmentRows,
    request: tuple[SortedRows, Indices],
    search: tuple[Indices, Indices, Mask],
    open_: Indices,
) -> None:
    """Continue the search among rows with the same word, where the first of them differs."""
    # Several rows of a key may share a word. They are in the order of their bytes, so the search
    # ends with a bisection by bytes, for these few rows only.
    if not len(open_):
        return
    descending = mine.schema.descending
    (rows, at), (lows, stops, is_there) = request, search
    sought = rows.take(at[open_])
    words = sought.order
    assert words is not None
    first = lows[open_]
    ends = bisect(first, stops[open_], lambda some, middle: mine.order_at(middle) == words[some])
    sought_bytes = order_bytes(sought.rest, descending)

    def earlier(some: Indices, middle: Indices) -> Mask:
        here = order_bytes(mine.rest_at(middle), descending)
        return here.precedes(sought_bytes.take(some))

    lows[open_] = positions = bisect(first, ends, earlier)
    inside = np.flatnonzero(positions < ends)
    is_there[open_] = False
    is_there[open_[inside]] = mine.same_rest(positions[inside], sought.rest, inside)


def bisect(
    starts: Indices, stops: Indices, is_before: Callable[[Indices, Indices], Mask]
) -> Indices:
    """For each range, the first position at which `is_before` is false."""
    lows, highs = starts.copy(), stops.copy()
    searching = np.flatnonzero(lows < highs)
    while len(searching):
        middle = (lows[searching] + highs[searching]) >> 1
        is_lower = is_before(searching, middle)
        lows[searching[is_lower]] = middle[is_lower] + 1
        highs[searching[~is_lower]] = middle[~is_lower]
        searching = searching[lows[searching] < highs[searching]]
    return lows


def weight_between(rows: SegmentRows, starts: Indices, stops: Indices) -> Integers:
    """The sums of the weights from starts to stops, from the stored running sums."""
    total = np.zeros(len(starts), np.int64)
    some = np.flatnonzero(starts < stops)
    first = starts[some]
    total[some] = rows.before_at(stops[some] - 1) - rows.before_at(first) + rows.weights_at(first)
    return total


# --- Look-ups in tables ---


MOST_ROWS: Final = 1 << 20
"""Rows of a chunk of partners."""


def look_up(table: StateTable, reader: Reader, touched: SortedRows) -> tuple[Integers, Parts]:
    """The weights and accumulators that the table has for rows, zero where it has no such row."""
    weights = np.zeros(len(touched), np.int64)
    parts: Parts = {}
    for span in find_spans(table, reader, touched.hashes, touched.keys):
        positions, is_found = find_rows(span, touched, span.key_indices, span.starts, span.stops)
        key_indices, positions = span.key_indices[is_found], positions[is_found]
        reader.tally.rows += len(key_indices)
        weights[key_indices] += span.rows.weights_at(positions)
        for name, column in span.rows.parts_at(positions).items():
            total = parts.setdefault(name, np.zeros(len(touched), np.int64))
            total[key_indices] += column
    return weights, normalize_parts(parts)


def partners(
    table: StateTable, reader: Reader, hashes: Hashes, keys: Keys, most_rows: int = MOST_ROWS
) -> Iterator[tuple[Indices, SortedRows]]:
    """Chunks of all rows of keys in all segments, not summed: the index of the key, and the row."""
    waiting: list[tuple[Indices, SortedRows]] = []
    size = 0
    for span in find_spans(table, reader, hashes, keys):
        for row_keys, rows in _chunks(span, most_rows):
            reader.tally.rows += len(rows)
            if waiting and size + len(rows) > most_rows:
                yield _concat_chunks(waiting)
                waiting, size = [], 0
            waiting.append((row_keys, rows))
            size += len(rows)
    if waiting:
        yield _concat_chunks(waiting)


def _chunks(span: KeySpan, most_rows: int) -> Iterator[tuple[Indices, SortedRows]]:
    ends = np.cumsum(span.counts)
    total = int(ends[-1]) if len(ends) else 0
    for first in range(0, total, most_rows):
        last = min(first + most_rows, total)
        left, right = np.searchsorted(ends, [first, last - 1], "right")
        cut = slice(left, right + 1)
        starts = np.maximum(first - (ends - span.counts)[cut], 0)
        counts = np.minimum(last - (ends - span.counts)[cut], span.counts[cut]) - starts
        positions = expand_ranges(span.starts[cut] + starts, counts)
        yield np.repeat(span.key_indices[cut], counts), span.rows.take(positions)


def _concat_chunks(parts: list[tuple[Indices, SortedRows]]) -> tuple[Indices, SortedRows]:
    row_keys = np.concatenate([row_keys for row_keys, _ in parts])
    return row_keys, concat([rows for _, rows in parts])


def grouped_rows(
    table: StateTable, reader: Reader, hashes: Hashes, keys: Keys, extra: SortedRows | None = None
) -> tuple[Indices, SortedRows]:
    """All rows of keys, summed over all segments: the index of the key, and the row.

    They are in the order of keys, then of the table.  `extra` counts as one more segment.
    """
    spans = find_spans(table, reader, hashes, keys, extra)
    return merge_spans(table, reader, spans)


def merge_spans(
    table: StateTable, reader: Reader, spans: list[KeySpan]
) -> tuple[Indices, SortedRows]:
    """The rows of spans of the same keys, with equal rows summed, in the order of the keys."""
    row_keys, rows = rows_of_spans(table, reader, spans)
    whole, firsts = sum_groups(
        rows, group(row_keys.view(np.uint64), None, rows.within(), merged=True)
    )
    return row_keys[firsts], whole


def rows_of_spans(
    table: StateTable, reader: Reader, spans: list[KeySpan]
) -> tuple[Indices, SortedRows]:
    """The rows of all spans, one after the other, and the indices of their keys."""
    non_empty = [span for span in spans if len(span.key_indices)]
    if not non_empty:
        return np.zeros(0, np.int64), empty(table.schema)
    row_keys, rows = _concat_chunks(
        [(span.row_keys, span.rows.take(span.positions)) for span in non_empty]
    )
    reader.tally.rows += len(rows)
    return row_keys, rows


def find_spans(
    table: StateTable, reader: Reader, hashes: Hashes, keys: Keys, extra: SortedRows | None = None
) -> list[KeySpan]:
    """The rows of keys in each segment, in the order of segments; `extra` is one more segment."""
    spans = []
    for segment in table.segments:
        candidates = _keys_in_buckets(table, segment, hashes)
        spans.append(span_of(reader.whole(table, segment), hashes, keys, candidates))
    if extra is not None and len(extra):
        spans.append(span_of(SegmentRows.of(extra.with_before()), hashes, keys))
    return [span for span in spans if len(span.key_indices)]


def _keys_in_buckets(table: StateTable, segment: Segment, hashes: Hashes) -> Indices | None:
    """The indices of the keys that are in live buckets of a segment; None for all keys."""
    if len(segment.buckets) == table.buckets:
        return None
    if len(segment.buckets) == 1:
        bucket = segment.buckets[0]
        cuts = (0, *np.searchsorted(hashes, bounds(table.buckets)), len(hashes))
        return np.arange(cuts[bucket], cuts[bucket + 1])
    return np.flatnonzero(np.isin(buckets_of(hashes, table.buckets), segment.buckets))
