"""What state tables hold for keys and rows: looked up, as it lies in the runs, or merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from incmrql.kernel.accumulators import Parts, tidy
from incmrql.kernel.content import Content, concat, empty, settled
from incmrql.kernel.keys import Keys, Places
from incmrql.kernel.run_rows import RunRows
from incmrql.kernel.runs import Run, bounds
from incmrql.kernel.sorting import group
from incmrql.kernel.spans import Span, expanded, find_rows, span_of
from incmrql.kernel.table import Reader, Table
from incmrql.values.exact.sums import Integers
from incmrql.values.hash_columns import Hashes
from incmrql.values.hash_columns import buckets as buckets_of

MOST_ROWS: Final = 1 << 20
"""Rows of a chunk of partners."""


def look_up(table: Table, reader: Reader, touched: Content) -> tuple[Integers, Parts]:
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
    table: Table, reader: Reader, hashes: Hashes, keys: Keys, most_rows: int = MOST_ROWS
) -> Iterator[tuple[Places, Content]]:
    """All rows of keys as they lie in the runs: the place of the key, and the row, in chunks."""
    waiting: list[tuple[Places, Content]] = []
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


def _chunks(span: Span, most_rows: int) -> Iterator[tuple[Places, Content]]:
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


def _together(parts: list[tuple[Places, Content]]) -> tuple[Places, Content]:
    places = np.concatenate([places for places, _ in parts])
    return places, concat([rows for _, rows in parts])


def grouped_rows(
    table: Table, reader: Reader, hashes: Hashes, keys: Keys, extra: Content | None = None
) -> tuple[Places, Content]:
    """All rows of keys, each once with what all runs add up to: the place of the key, and the row.

    In the order of places, then of the table.  `extra` counts as one more run.
    """
    found = spans(table, reader, hashes, keys, extra)
    return merged_spans(table, reader, found)


def merged_spans(table: Table, reader: Reader, found: list[Span]) -> tuple[Places, Content]:
    """The rows of several spans of the same keys, each once, in the order of places."""
    places, rows = gathered(table, reader, found)
    whole, firsts = settled(rows, group(places.view(np.uint64), None, rows.within(), merged=True))
    return places[firsts], whole


def gathered(table: Table, reader: Reader, found: list[Span]) -> tuple[Places, Content]:
    """The rows of several spans, one after the other, and the places of their keys."""
    some = [span for span in found if len(span.asked)]
    if not some:
        return np.zeros(0, np.int64), empty(table.form)
    places, rows = _together([(span.places, span.rows.take(span.positions)) for span in some])
    reader.tally.rows += len(rows)
    return places, rows


def spans(
    table: Table, reader: Reader, hashes: Hashes, keys: Keys, extra: Content | None = None
) -> list[Span]:
    """Where the rows of keys lie in the runs, in the order of the runs; `extra` is one more."""
    found = []
    for run in table.runs:
        wanted = _wanted(table, run, hashes)
        found.append(span_of(reader.whole(table, run), hashes, keys, wanted))
    if extra is not None and len(extra):
        found.append(span_of(RunRows.of(extra.with_before()), hashes, keys))
    return [span for span in found if len(span.asked)]


def _wanted(table: Table, run: Run, hashes: Hashes) -> Places | None:
    """The keys in the buckets of a run that count; None for all."""
    if len(run.buckets) == table.buckets:
        return None
    if len(run.buckets) == 1:
        bucket = run.buckets[0]
        cuts = (0, *np.searchsorted(hashes, bounds(table.buckets)), len(hashes))
        return np.arange(cuts[bucket], cuts[bucket + 1])
    return np.flatnonzero(np.isin(buckets_of(hashes, table.buckets), run.buckets))
