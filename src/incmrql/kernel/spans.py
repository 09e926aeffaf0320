"""Where the rows of keys lie in sorted contents, found by binary searches over all keys at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from incmrql.kernel.content import Content
from incmrql.kernel.keys import Keys, Mask, Places
from incmrql.kernel.ordering_bytes import decides, order_bytes
from incmrql.kernel.run_rows import RunRows
from incmrql.values.exact.sums import Integers
from incmrql.values.hash_columns import Hashes


@dataclass(frozen=True, slots=True)
class Span:
    """For keys that have rows in a run: the key's place, and where its rows start and stop."""

    rows: RunRows
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


def span_of(rows: RunRows, hashes: Hashes, keys: Keys, wanted: Places | None = None) -> Span:
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
    rows: RunRows, keys: Keys, asked: Places, between: tuple[Places, Places], doubtful: Places
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
    span: Span, rows: Content, at: Places, starts: Places, stops: Places
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
    open_ = hits[~decides(mine.form, sought[hits])]
    if len(open_):
        same = mine.same_rest(lows[open_], rows.rest, at[open_])
        _find_by_bytes(mine, (rows, at), (lows, stops, found), open_[~same])
    return lows, found


def _find_by_bytes(
    mine: RunRows,
    asked: tuple[Content, Places],
    search: tuple[Places, Places, Mask],
    open_: Places,
) -> None:
    """Go on from the first row of the same word, where that is another row."""
    if not len(open_):
        return
    descending = mine.form.descending
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


def weight_between(rows: RunRows, starts: Places, stops: Places) -> Integers:
    """The sums of the weights from starts to stops, by what is known of the sums before them."""
    total = np.zeros(len(starts), np.int64)
    some = np.flatnonzero(starts < stops)
    first = starts[some]
    total[some] = rows.before_at(stops[some] - 1) - rows.before_at(first) + rows.weights_at(first)
    return total
