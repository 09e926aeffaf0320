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

from incmrql.incremental.changes import Negative
from incmrql.kernel.content import Content, concat, empty, upto
from incmrql.kernel.keys import Keys, Mask, Places
from incmrql.kernel.look import gathered, spans
from incmrql.kernel.ranks import narrowed
from incmrql.kernel.run_rows import RunRows
from incmrql.kernel.sorting import Groups, group
from incmrql.kernel.spans import Span, find_rows, weight_between
from incmrql.kernel.table import Reader, Table
from incmrql.values.exact.sums import Integers
from incmrql.values.hash_columns import Hashes

_GROWTH: Final = 4
_MOST_AT_FIRST: Final = 64
_NO_LIMIT: Final = np.iinfo(np.int64).max


def totals(
    table: Table, reader: Reader, extra: Content | None, hashes: Hashes, keys: Keys
) -> Integers:
    """The weight of all rows of each key."""
    whole = _totals(spans(table, reader, hashes, keys, extra), len(hashes))
    return whole if table.form.most is None else np.minimum(whole, table.form.most)


def _totals(found: list[Span], count: int) -> Integers:
    whole = np.zeros(count, np.int64)
    for span in found:
        whole[span.asked] += weight_between(span.rows, span.starts, span.stops)
    if (whole < 0).any():
        raise Negative(f"a table holds {whole.min()} rows of a key")
    return whole


def front(  # noqa: PLR0913 (a table, keys, and what is asked of them)
    table: Table,
    reader: Reader,
    extra: Content | None,
    hashes: Hashes,
    keys: Keys,
    count: int,
    *,
    last: bool = False,
) -> tuple[Places, Content]:
    """The first or last rows of each key, by weight at most `count`: its place, and the row.

    In the order of places, then of the table.
    """
    form = table.form
    if form.most is not None and last != form.last:
        stops = totals(table, reader, extra, hashes, keys) if last else np.full(len(hashes), count)
        return at(table, reader, extra, hashes, keys, stops - count, stops)
    if form.most is not None:
        count = min(count, form.most)
    open_ = spans(table, reader, hashes, keys, extra)
    done: list[tuple[Places, Content]] = []
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
    table: Table,
    reader: Reader,
    open_: tuple[list[Span], list[Span]],
    count: int,
    *,
    last: bool,
) -> tuple[Places, Content, Mask]:
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
    table: Table,
    reader: Reader,
    extra: Content | None,
    hashes: Hashes,
    keys: Keys,
    starts: Integers,
    stops: Integers,
) -> tuple[Places, Content]:
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
    table: Table, whole: Integers, starts: Integers, stops: Integers
) -> tuple[Integers, Integers]:
    """Ranks that exist, counted from the first row that is kept."""
    most = table.form.most
    kept = whole if most is None else np.minimum(whole, most)
    skipped = whole - kept if table.form.last else np.zeros(len(whole), np.int64)
    return np.maximum(starts, 0) + skipped, np.minimum(stops, kept) + skipped


@dataclass(frozen=True, slots=True)
class _Merged:
    """Rows of several runs in order, equal ones together, by the places of their keys."""

    gathered: tuple[Places, Content]
    groups: Groups
    places: Places
    """The place of the key of each group."""
    weights: Integers
    """The sum of the weights of each group."""

    @staticmethod
    def of(table: Table, reader: Reader, found: list[Span]) -> _Merged:
        """The rows of spans of the same keys."""
        places, rows = gathered(table, reader, found)
        groups = group(places.view(np.uint64), None, rows.within(), merged=True)
        return _Merged((places, rows), groups, places[groups.firsts], groups.add_up(rows.weights))

    @property
    def count(self) -> int:
        """One more than the greatest place."""
        return int(self.places[-1]) + 1 if len(self.places) else 0

    def rows(self, weights: Integers) -> tuple[Places, Content]:
        """The groups that have a weight as rows, and the places of their keys."""
        kept = np.flatnonzero(weights)
        rows = self.gathered[1].take(self.groups.firsts[kept])
        return self.places[kept], rows.with_weights(weights[kept])


def _refuse_negative(weights: Integers) -> None:
    if (weights < 0).any():
        raise Negative(f"a table holds {weights.min()} times a row")


def _in_order(table: Table, parts: list[tuple[Places, Content]]) -> tuple[Places, Content]:
    """The rows of several parts with different keys, in the order of places."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.zeros(0, np.int64), empty(table.form)
    places = np.concatenate([each for each, _ in parts])
    order = np.argsort(places, kind="stable")
    return places[order], concat([rows for _, rows in parts]).take(order)


def ranks_of(table: Table, reader: Reader, extra: Content | None, rows: Content) -> Integers:
    """How many rows of a table without keys stand before each of some rows; `extra` counts too."""
    before = np.zeros(len(rows), np.int64)
    runs = [reader.whole(table, run) for run in table.runs]
    if extra is not None and len(extra):
        runs.append(RunRows.of(extra.with_before()))
    everything = np.arange(len(rows))
    starts = np.zeros(len(rows), np.int64)
    for run in runs:
        stops = np.full(len(rows), len(run))
        span = Span(run, everything, starts, stops)
        positions, _ = find_rows(span, rows, everything, starts, stops)
        before += weight_between(run, starts, positions)
    return before
