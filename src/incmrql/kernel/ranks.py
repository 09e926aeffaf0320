"""The parts of several sorted runs that hold the rows between two ranks, by bisection.

A row is chosen from the longest part and sought in all runs; the sums of weights up to it say on
which side of it a rank lies, in all runs at once.  So a part is halved for a few steps of search.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from incmrql.kernel.content import Content, concat
from incmrql.kernel.keys import Mask, Places
from incmrql.kernel.spans import Span, find_rows, weight_between
from incmrql.values.exact.sums import Integers

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


def _pivots(inner: list[Span], busy: Mask) -> tuple[Content, Places]:
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
    pivots: tuple[Content, Places],
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
