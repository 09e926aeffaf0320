"""Where the rows of keys lie in sorted contents, found by binary searches over all keys at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from incmrql.engine.columns.accumulators import Parts, tidy
from incmrql.engine.columns.keys import Keys, Mask, Places
from incmrql.engine.store.content import SortedRows, concat, empty, settled
from incmrql.engine.store.segments import Segment, SegmentRows, bounds
from incmrql.engine.store.sorting import decides, group, order_bytes
from incmrql.engine.store.tables import Reader, StateTable
from incmrql.values.exact.sums import Integers
from incmrql.values.hashing.columns import Hashes
from incmrql.values.hashing.columns import buckets as buckets_of


@dataclass(frozen=True, slots=True)
class Span:
    """For keys that have rows in a run: the key's place, and where its rows start and stop."""

    rows: SegmentRows
    asked: Places
    starts: Places
    stops: Places

    def only(self, chosen: Mask) -> Span:
        """The span of some of its keys."""
        if chosen.all():
            return self
        return Span(self.rows, self.asked[chosen], self.starts[chosen], self.stops[chosen])

    def within(self, starts: Places, stops: Places) -> Span:
        """The span with other rows of its keys."""
        return Span(self.rows, self.asked, starts, stops)

    @property
    def counts(self) -> Places:
        """How many rows each key has."""
        return self.stops - self.starts

    @property
    def positions(self) -> Places:
        """The places of all rows in the run, key after key."""
        return expanded(self.starts, self.counts)

    @property
    def places(self) -> Places:
        """The place of the key of each of these rows."""
        return np.repeat(self.asked, self.counts)


def expanded(starts: Places, counts: Places) -> Places:
    """The numbers from each start on, as many as its count says."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - counts), counts) + np.arange(total)


def portions(counts: Places, most: int) -> Iterator[slice]:
    """Consecutive slices of rows whose counts add up to `most` at the most, or that are one row."""
    until = np.cumsum(counts)
    start = 0
    while start < len(counts):
        done = until[start - 1] if start else 0
        stop = max(int(np.searchsorted(until, done + most, "right")), start + 1)
        yield slice(start, stop)
        start = stop


def span_of(rows: SegmentRows, hashes: Hashes, keys: Keys, wanted: Places | None = None) -> Span:
    """The rows of keys in a run.  `wanted` are the places of the keys that may be there."""
    sought = hashes if wanted is None else hashes[wanted]
    starts, stops = rows.keys_between(sought)
    there = np.flatnonzero(starts < stops)
    asked = there if wanted is None else wanted[there]
    starts, stops = starts[there], stops[there]
    sure = rows.same_keys(starts, keys, asked)
    longer = np.flatnonzero(sure & (stops > starts + 1))
    sure[longer] = rows.same_keys(stops[longer] - 1, keys, asked[longer])
    if not sure.all():
        starts, stops = _own_rows(rows, keys, asked, (starts, stops), np.flatnonzero(~sure))
    span = Span(rows, asked, starts, stops)
    return span.only(starts < stops)


def _own_rows(
    rows: SegmentRows, keys: Keys, asked: Places, between: tuple[Places, Places], doubtful: Places
) -> tuple[Places, Places]:
    """The rows of keys where other keys share their hash: looked at one by one."""
    starts, stops = between[0].copy(), between[1].copy()
    counts = stops[doubtful] - starts[doubtful]
    of = np.repeat(np.arange(len(doubtful)), counts)
    positions = expanded(starts[doubtful], counts)
    own = rows.same_keys(positions, keys, asked[doubtful[of]])
    found = np.bincount(of[own], minlength=len(doubtful))
    first = stops[doubtful]
    np.minimum.at(first, of[own], positions[own])
    starts[doubtful] = first
    stops[doubtful] = first + found
    return starts, stops


def find_rows(
    span: Span, rows: SortedRows, at: Places, starts: Places, stops: Places
) -> tuple[Places, Mask]:
    """Where rows at some places are among those of their keys, or would be; and whether they are.

    `at` has a place in `rows` for each key of the span; the search is from `starts` to `stops`.
    """
    mine = span.rows
    if not mine.has_order or rows.order is None:
        return starts, starts < stops
    sought = rows.order[at]
    lows = bisect(starts, stops, lambda some, middle: mine.order_at(middle) < sought[some])
    found = lows < stops
    found[found] = mine.order_at(lows[found]) == sought[found]
    hits = np.flatnonzero(found)
    open_ = hits[~decides(mine.schema, sought[hits])]
    if len(open_):
        same = mine.same_rest(lows[open_], rows.rest, at[open_])
        _find_by_bytes(mine, (rows, at), (lows, stops, found), open_[~same])
    return lows, found


def _find_by_bytes(
    mine: SegmentRows,
    asked: tuple[SortedRows, Places],
    search: tuple[Places, Places, Mask],
    open_: Places,
) -> None:
    """Go on from the first row of the same word, where that is another row."""
    if not len(open_):
        return
    descending = mine.schema.descending
    (rows, at), (lows, stops, found) = asked, search
    sought = rows.take(at[open_])
    words = sought.order
    assert words is not None
    first = lows[open_]
    ends = bisect(first, stops[open_], lambda some, middle: mine.order_at(middle) == words[some])
    wanted = order_bytes(sought.rest, descending)

    def earlier(some: Places, middle: Places) -> Mask:
        here = order_bytes(mine.rest_at(middle), descending)
        return here.precedes(wanted.take(some))

    lows[open_] = positions = bisect(first, ends, earlier)
    inside = np.flatnonzero(positions < ends)
    found[open_] = False
    found[open_[inside]] = mine.same_rest(positions[inside], sought.rest, inside)


def bisect(starts: Places, stops: Places, goes_on: Callable[[Places, Places], Mask]) -> Places:
    """For each search the first place where it does not go on."""
    lows, highs = starts.copy(), stops.copy()
    some = np.flatnonzero(lows < highs)
    while len(some):
        middle = (lows[some] + highs[some]) >> 1
        further = goes_on(some, middle)
        lows[some[further]] = middle[further] + 1
        highs[some[~further]] = middle[~further]
        some = some[lows[some] < highs[some]]
    return lows


def weight_between(rows: SegmentRows, starts: Places, stops: Places) -> Integers:
    """The sums of the weights from starts to stops, by what is known of the sums before them."""
    total = np.zeros(len(starts), np.int64)
    some = np.flatnonzero(starts < stops)
    first = starts[some]
    total[some] = rows.before_at(stops[some] - 1) - rows.before_at(first) + rows.weights_at(first)
    return total


# --- Look-ups in tables ---


MOST_ROWS: Final = 1 << 20
"""Rows of a chunk of partners."""


def look_up(table: StateTable, reader: Reader, touched: SortedRows) -> tuple[Integers, Parts]:
    """The multiplicities and accumulators that the table has for rows, zero where it has none."""
    weights = np.zeros(len(touched), np.int64)
    parts: Parts = {}
    for span in spans(table, reader, touched.hashes, touched.keys):
        positions, found = find_rows(span, touched, span.asked, span.starts, span.stops)
        asked, positions = span.asked[found], positions[found]
        reader.tally.rows += len(asked)
        weights[asked] += span.rows.weights_at(positions)
        for name, column in span.rows.parts_at(positions).items():
            total = parts.setdefault(name, np.zeros(len(touched), np.int64))
            total[asked] += column
    return weights, tidy(parts)


def partners(
    table: StateTable, reader: Reader, hashes: Hashes, keys: Keys, most_rows: int = MOST_ROWS
) -> Iterator[tuple[Places, SortedRows]]:
    """All rows of keys as they lie in the runs: the place of the key, and the row, in chunks."""
    waiting: list[tuple[Places, SortedRows]] = []
    size = 0
    for span in spans(table, reader, hashes, keys):
        for places, rows in _chunks(span, most_rows):
            reader.tally.rows += len(rows)
            if waiting and size + len(rows) > most_rows:
                yield _together(waiting)
                waiting, size = [], 0
            waiting.append((places, rows))
            size += len(rows)
    if waiting:
        yield _together(waiting)


def _chunks(span: Span, most_rows: int) -> Iterator[tuple[Places, SortedRows]]:
    ends = np.cumsum(span.counts)
    total = int(ends[-1]) if len(ends) else 0
    for first in range(0, total, most_rows):
        last = min(first + most_rows, total)
        left, right = np.searchsorted(ends, [first, last - 1], "right")
        cut = slice(left, right + 1)
        starts = np.maximum(first - (ends - span.counts)[cut], 0)
        counts = np.minimum(last - (ends - span.counts)[cut], span.counts[cut]) - starts
        positions = expanded(span.starts[cut] + starts, counts)
        yield np.repeat(span.asked[cut], counts), span.rows.take(positions)


def _together(parts: list[tuple[Places, SortedRows]]) -> tuple[Places, SortedRows]:
    places = np.concatenate([places for places, _ in parts])
    return places, concat([rows for _, rows in parts])


def grouped_rows(
    table: StateTable, reader: Reader, hashes: Hashes, keys: Keys, extra: SortedRows | None = None
) -> tuple[Places, SortedRows]:
    """All rows of keys, each once with what all runs add up to: the place of the key, and the row.

    In the order of places, then of the table.  `extra` counts as one more run.
    """
    found = spans(table, reader, hashes, keys, extra)
    return merged_spans(table, reader, found)


def merged_spans(table: StateTable, reader: Reader, found: list[Span]) -> tuple[Places, SortedRows]:
    """The rows of several spans of the same keys, each once, in the order of places."""
    places, rows = gathered(table, reader, found)
    whole, firsts = settled(rows, group(places.view(np.uint64), None, rows.within(), merged=True))
    return places[firsts], whole


def gathered(table: StateTable, reader: Reader, found: list[Span]) -> tuple[Places, SortedRows]:
    """The rows of several spans, one after the other, and the places of their keys."""
    some = [span for span in found if len(span.asked)]
    if not some:
        return np.zeros(0, np.int64), empty(table.schema)
    places, rows = _together([(span.places, span.rows.take(span.positions)) for span in some])
    reader.tally.rows += len(rows)
    return places, rows


def spans(
    table: StateTable, reader: Reader, hashes: Hashes, keys: Keys, extra: SortedRows | None = None
) -> list[Span]:
    """Where the rows of keys lie in the runs, in the order of the runs; `extra` is one more."""
    found = []
    for run in table.runs:
        wanted = _wanted(table, run, hashes)
        found.append(span_of(reader.whole(table, run), hashes, keys, wanted))
    if extra is not None and len(extra):
        found.append(span_of(SegmentRows.of(extra.with_before()), hashes, keys))
    return [span for span in found if len(span.asked)]


def _wanted(table: StateTable, run: Segment, hashes: Hashes) -> Places | None:
    """The keys in the buckets of a run that count; None for all."""
    if len(run.buckets) == table.buckets:
        return None
    if len(run.buckets) == 1:
        bucket = run.buckets[0]
        cuts = (0, *np.searchsorted(hashes, bounds(table.buckets)), len(hashes))
        return np.arange(cuts[bucket], cuts[bucket + 1])
    return np.flatnonzero(np.isin(buckets_of(hashes, table.buckets), run.buckets))
