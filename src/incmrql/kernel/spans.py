"""Where the rows of keys lie in sorted contents, found by binary searches over all keys at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from incmrql.kernel.content import Content
from incmrql.kernel.keys import Keys, Mask, Places, same_keys
from incmrql.kernel.ordering_bytes import decides, order_bytes
from incmrql.kernel.sums import Integers
from incmrql.values.hash_columns import Hashes


@dataclass(frozen=True, slots=True)
class Span:
    """For keys that have rows in a content: the key's place, and where its rows start and stop."""

    content: Content
    asked: Places
    starts: Places
    stops: Places

    def only(self, chosen: Mask) -> Span:
        """The span of some of its keys."""
        if chosen.all():
            return self
        return Span(self.content, self.asked[chosen], self.starts[chosen], self.stops[chosen])

    def within(self, starts: Places, stops: Places) -> Span:
        """The span with other rows of its keys."""
        return Span(self.content, self.asked, starts, stops)

    @property
    def counts(self) -> Places:
        """How many rows each key has."""
        return self.stops - self.starts

    @property
    def positions(self) -> Places:
        """The places of all rows in the content, key after key."""
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


def span_of(content: Content, hashes: Hashes, keys: Keys, wanted: Places | None = None) -> Span:
    """The rows of keys in a content.  `wanted` are the places of the keys that may be there."""
    sought = hashes if wanted is None else hashes[wanted]
    starts = np.searchsorted(content.hashes, sought, "left")
    stops = _ends(content.hashes, sought, starts)
    there = np.flatnonzero(starts < stops)
    asked = there if wanted is None else wanted[there]
    starts, stops = starts[there], stops[there]
    sure = same_keys(content.keys, starts, keys, asked)
    longer = np.flatnonzero(sure & (stops > starts + 1))
    sure[longer] = same_keys(content.keys, stops[longer] - 1, keys, asked[longer])
    if not sure.all():
        starts, stops = _own_rows(content, keys, asked, (starts, stops), np.flatnonzero(~sure))
    span = Span(content, asked, starts, stops)
    return span.only(starts < stops)


def _ends(hashes: Hashes, sought: Hashes, starts: Places) -> Places:
    """Where each of the hashes is no longer found; a key mostly has one row or many."""
    stops = starts.copy()
    inside = np.flatnonzero(starts < len(hashes))
    there = inside[hashes[starts[inside]] == sought[inside]]
    stops[there] += 1
    more = there[stops[there] < len(hashes)]
    more = more[hashes[stops[more]] == sought[more]]
    stops[more] = np.searchsorted(hashes, sought[more], "right")
    return stops


def _own_rows(
    content: Content, keys: Keys, asked: Places, rows: tuple[Places, Places], doubtful: Places
) -> tuple[Places, Places]:
    """The rows of keys where other keys share their hash: looked at one by one."""
    starts, stops = rows[0].copy(), rows[1].copy()
    counts = stops[doubtful] - starts[doubtful]
    of = np.repeat(np.arange(len(doubtful)), counts)
    positions = expanded(starts[doubtful], counts)
    own = same_keys(content.keys, positions, keys, asked[doubtful[of]])
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
    content = span.content
    if content.order is None or rows.order is None:
        return starts, starts < stops
    order, sought = content.order, rows.order[at]
    lows = bisect(starts, stops, lambda some, middle: order[middle] < sought[some])
    found = lows < stops
    found[found] = order[lows[found]] == sought[found]
    hits = np.flatnonzero(found)
    open_ = hits[~decides(content.form, sought[hits])]
    if len(open_):
        same = same_keys(content.rest, lows[open_], rows.rest, at[open_])
        _find_by_bytes(content, (rows, at), (lows, stops, found), open_[~same])
    return lows, found


def _find_by_bytes(
    content: Content,
    asked: tuple[Content, Places],
    search: tuple[Places, Places, Mask],
    open_: Places,
) -> None:
    """Go on from the first row of the same word, where that is another row."""
    if not len(open_):
        return
    order, descending = content.order, content.form.descending
    assert order is not None
    (rows, at), (lows, stops, found) = asked, search
    sought = rows.take(at[open_])
    words = sought.order
    assert words is not None
    first = lows[open_]
    ends = bisect(first, stops[open_], lambda some, middle: order[middle] == words[some])
    wanted = order_bytes(sought.rest, descending)

    def earlier(some: Places, middle: Places) -> Mask:
        here = order_bytes(content.rest.take(middle), descending)
        return here.precedes(wanted.take(some))

    lows[open_] = positions = bisect(first, ends, earlier)
    inside = np.flatnonzero(positions < ends)
    found[open_] = False
    found[open_[inside]] = same_keys(content.rest, positions[inside], sought.rest, inside)


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


def weight_between(content: Content, starts: Places, stops: Places) -> Integers:
    """The sums of the weights from starts to stops, by what is known of the sums before them."""
    before = content.before
    assert before is not None
    total = np.zeros(len(starts), np.int64)
    some = np.flatnonzero(starts < stops)
    first = starts[some]
    total[some] = before[stops[some] - 1] - before[first] + content.weights[first]
    return total
