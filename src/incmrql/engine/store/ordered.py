"""Rows of ordered tables by their place within a key: from the front, from the end, or by rank.

    totals   how many rows a key has, by weight
    front    the first or last rows of a key, read in growing chunks of every run
    at       the rows of a key between two ranks, found by bisection over sums of weights

`extra` is a change in memory that counts as one more run: without it tables are as they were,
with it as they will be.  No group is walked; a weight below zero is an error where it is met.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from incmrql.engine.columns.keys import Keys, Mask, Places
from incmrql.engine.store.content import SortedRows, concat, empty, upto
from incmrql.engine.store.lookup import Span, find_rows, gathered, spans, weight_between
from incmrql.engine.store.segments import SegmentRows
from incmrql.engine.store.sorting import Groups, group
from incmrql.engine.store.tables import Reader, StateTable
from incmrql.plan.changes import NegativeWeight
from incmrql.values.exact.sums import Integers
from incmrql.values.hashing.columns import Hashes

# --- Bisection by rank ---
#
# A row is chosen from the longest part and sought in all runs; the sums of weights up to it say on
# which side of it a rank lies, in all runs at once. So a part is halved for a few steps of search.


SMALL: Final = 16
"""So many rows of a key are read rather than searched."""


def narrowed(found: list[Span], starts: Integers, stops: Integers) -> list[Span]:
    """The parts of the spans that hold the rows from one rank to another of each key.

    They are cut at the same row in all spans, and hold few rows besides.
    """
    firsts = _bracketed(found, found, starts)
    rest = [one.within(first.starts, one.stops) for one, first in zip(found, firsts, strict=True)]
    lasts = _bracketed(found, rest, stops - 1)
    return [
        one.within(first.starts, last.stops)
        for one, first, last in zip(found, firsts, lasts, strict=True)
    ]


def _bracketed(found: list[Span], inner: list[Span], ranks: Integers) -> list[Span]:
    """Parts of the spans, cut at the same rows, between which the row of a rank lies."""
    inner = [span.within(span.starts.copy(), span.stops.copy()) for span in inner]
    while True:
        rows, longest = np.zeros((2, len(ranks)), np.int64)
        for span in inner:
            rows[span.asked] += span.counts
            longest[span.asked] = np.maximum(longest[span.asked], span.counts)
        busy = (rows > SMALL) & (longest > 1)
        if not busy.any():
            return inner
        pivots, of = _pivots(inner, busy)
        _halve(found, inner, (pivots, of), (ranks, busy))


def _pivots(inner: list[Span], busy: Mask) -> tuple[SortedRows, Places]:
    """The middle row of the longest part of each busy key, and where it stands among these."""
    longest = np.zeros(len(busy), np.int64)
    of_span = np.full(len(busy), -1, np.int64)
    for number, span in enumerate(inner):
        longer = span.counts > longest[span.asked]
        asked = span.asked[longer]
        longest[asked] = span.counts[longer]
        of_span[asked] = number
    rows, of = [], np.zeros(len(busy), np.int64)
    offset = 0
    for number, span in enumerate(inner):
        chosen = np.flatnonzero(busy[span.asked] & (of_span[span.asked] == number))
        if len(chosen):
            middle = (span.starts[chosen] + span.stops[chosen] - 1) >> 1
            rows.append(span.rows.take(middle))
            of[span.asked[chosen]] = offset + np.arange(len(chosen))
            offset += len(chosen)
    return concat(rows), of


def _halve(
    found: list[Span],
    inner: list[Span],
    pivots: tuple[SortedRows, Places],
    wanted: tuple[Integers, Mask],
) -> None:
    """Cut the parts of busy keys at their pivots, in place."""
    (rows, of), (ranks, busy) = pivots, wanted
    until = np.zeros(len(ranks), np.int64)
    cuts = []
    for outer, span in zip(found, inner, strict=True):
        chosen = np.flatnonzero(busy[span.asked])
        asked = span.asked[chosen]
        here, there = find_rows(span, rows, of[asked], span.starts[chosen], span.stops[chosen])
        ends = here + there
        until[asked] += weight_between(span.rows, outer.starts[chosen], ends)
        cuts.append((span, chosen, ends))
    later = until <= ranks
    for span, chosen, ends in cuts:
        on = later[span.asked[chosen]]
        span.starts[chosen[on]] = ends[on]
        span.stops[chosen[~on]] = ends[~on]


# --- Rows by place ---


_GROWTH: Final = 4
_MOST_AT_FIRST: Final = 64
_NO_LIMIT: Final = np.iinfo(np.int64).max


def totals(
    table: StateTable, reader: Reader, extra: SortedRows | None, hashes: Hashes, keys: Keys
) -> Integers:
    """The weight of all rows of each key."""
    whole = _totals(spans(table, reader, hashes, keys, extra), len(hashes))
    return whole if table.schema.most is None else np.minimum(whole, table.schema.most)


def _totals(found: list[Span], count: int) -> Integers:
    whole = np.zeros(count, np.int64)
    for span in found:
        whole[span.asked] += weight_between(span.rows, span.starts, span.stops)
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
) -> tuple[Places, SortedRows]:
    """The first or last rows of each key, by weight at most `count`: its place, and the row.

    In the order of places, then of the table.
    """
    schema = table.schema
    if schema.most is not None and last != schema.last:
        stops = totals(table, reader, extra, hashes, keys) if last else np.full(len(hashes), count)
        return at(table, reader, extra, hashes, keys, stops - count, stops)
    if schema.most is not None:
        count = min(count, schema.most)
    open_ = spans(table, reader, hashes, keys, extra)
    done: list[tuple[Places, SortedRows]] = []
    length = max(min(count + 1, _MOST_AT_FIRST), 2)
    while open_:
        read = [_head(span, length, last=last) for span in open_]
        places, rows, complete = _front_of(table, reader, (open_, read), count, last=last)
        done.append((places, rows))
        open_ = [span.only(~complete[span.asked]) for span in open_]
        open_ = [span for span in open_ if len(span.asked)]
        length *= _GROWTH
    return _in_order(table, done)


def _head(span: Span, length: int, *, last: bool) -> Span:
    if last:
        return span.within(np.maximum(span.starts, span.stops - length), span.stops)
    return span.within(span.starts, np.minimum(span.stops, span.starts + length))


def _front_of(
    table: StateTable,
    reader: Reader,
    open_: tuple[list[Span], list[Span]],
    count: int,
    *,
    last: bool,
) -> tuple[Places, SortedRows, Mask]:
    """The first rows of those keys of which enough was read; and which keys these are.

    What is sure of a key ends where the first of its runs ends that was not read to its end.
    """
    merged = _Merged.of(table, reader, open_[1])
    sign = -1 if last else 1
    limits = np.full(merged.count, _NO_LIMIT)
    groups, offset = merged.groups.of_row, 0
    for whole, part in zip(*open_, strict=True):
        ends = np.cumsum(part.counts)
        edges = groups[offset + (ends - part.counts if last else ends - 1)] * sign
        cut = part.counts < whole.counts
        asked = part.asked[cut]
        limits[asked] = np.minimum(limits[asked], edges[cut])
        offset += int(ends[-1])
    sure = np.arange(len(merged.weights)) * sign <= limits[merged.places]
    weights = np.where(sure, merged.weights, 0)
    _refuse_negative(weights)
    until = upto(weights, merged.groups.key_starts, last=last)
    complete = limits == _NO_LIMIT
    np.logical_or.at(complete, merged.places, until >= count)
    kept = np.clip(count - (until - weights), 0, weights)
    kept[~complete[merged.places]] = 0
    return *merged.rows(kept), complete


def at(  # noqa: PLR0913, PLR0917 (a table, keys, and what is asked of them)
    table: StateTable,
    reader: Reader,
    extra: SortedRows | None,
    hashes: Hashes,
    keys: Keys,
    starts: Integers,
    stops: Integers,
) -> tuple[Places, SortedRows]:
    """The rows of each key from one rank to another: its place, and the row.

    A row has as many ranks as its weight says; the weight in the result is how many of them are
    asked for.  In the order of places, then of the table.
    """
    found = spans(table, reader, hashes, keys, extra)
    whole = _totals(found, len(hashes))
    starts, stops = _within(table, whole, starts, stops)
    wanted = starts < stops
    found = [span.only(wanted[span.asked]) for span in found]
    found = [span for span in found if len(span.asked)]
    inner = narrowed(found, starts, stops)
    merged = _Merged.of(table, reader, inner)
    _refuse_negative(merged.weights)
    skipped = np.zeros(len(hashes), np.int64)
    for outer, span in zip(found, inner, strict=True):
        skipped[span.asked] += weight_between(span.rows, outer.starts, span.starts)
    places = merged.places
    until = upto(merged.weights, merged.groups.key_starts) + skipped[places]
    first = np.maximum(until - merged.weights, starts[places])
    return merged.rows(np.maximum(np.minimum(until, stops[places]) - first, 0))


def _within(
    table: StateTable, whole: Integers, starts: Integers, stops: Integers
) -> tuple[Integers, Integers]:
    """Ranks that exist, counted from the first row that is kept."""
    most = table.schema.most
    kept = whole if most is None else np.minimum(whole, most)
    skipped = whole - kept if table.schema.last else np.zeros(len(whole), np.int64)
    return np.maximum(starts, 0) + skipped, np.minimum(stops, kept) + skipped


@dataclass(frozen=True, slots=True)
class _Merged:
    """Rows of several runs in order, equal ones together, by the places of their keys."""

    gathered: tuple[Places, SortedRows]
    groups: Groups
    places: Places
    """The place of the key of each group."""
    weights: Integers
    """The sum of the weights of each group."""

    @staticmethod
    def of(table: StateTable, reader: Reader, found: list[Span]) -> _Merged:
        """The rows of spans of the same keys."""
        places, rows = gathered(table, reader, found)
        groups = group(places.view(np.uint64), None, rows.within(), merged=True)
        return _Merged((places, rows), groups, places[groups.firsts], groups.add_up(rows.weights))

    @property
    def count(self) -> int:
        """One more than the greatest place."""
        return int(self.places[-1]) + 1 if len(self.places) else 0

    def rows(self, weights: Integers) -> tuple[Places, SortedRows]:
        """The groups that have a weight as rows, and the places of their keys."""
        kept = np.flatnonzero(weights)
        rows = self.gathered[1].take(self.groups.firsts[kept])
        return self.places[kept], rows.with_weights(weights[kept])


def _refuse_negative(weights: Integers) -> None:
    if (weights < 0).any():
        raise NegativeWeight(f"a table holds {weights.min()} times a row")


def _in_order(
    table: StateTable, parts: list[tuple[Places, SortedRows]]
) -> tuple[Places, SortedRows]:
    """The rows of several parts with different keys, in the order of places."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.zeros(0, np.int64), empty(table.schema)
    places = np.concatenate([each for each, _ in parts])
    order = np.argsort(places, kind="stable")
    return places[order], concat([rows for _, rows in parts]).take(order)


def ranks_of(
    table: StateTable, reader: Reader, extra: SortedRows | None, rows: SortedRows
) -> Integers:
    """How many rows of a table without keys stand before each of some rows; `extra` counts too."""
    before = np.zeros(len(rows), np.int64)
    runs = [reader.whole(table, run) for run in table.runs]
    if extra is not None and len(extra):
        runs.append(SegmentRows.of(extra.with_before()))
    everything = np.arange(len(rows))
    starts = np.zeros(len(rows), np.int64)
    for run in runs:
        stops = np.full(len(rows), len(run))
        span = Span(run, everything, starts, stops)
        positions, _ = find_rows(span, rows, everything, starts, stops)
        before += weight_between(run, starts, positions)
    return before
