"""The least or greatest value of touched keys, before and after a change.

After a change it is the better of the one before and the best that came, unless what was the best
goes: only then the table is read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.kernel.content import Content
from incmrql.kernel.keys import Places
from incmrql.kernel.layouts import Leaf, column_of, column_type, rows_of
from incmrql.kernel.ordered import front
from incmrql.kernel.ordering_bytes import decides
from incmrql.kernel.physical import Ranking
from incmrql.kernel.run_rows import RunRows
from incmrql.kernel.spans import expanded, span_of
from incmrql.kernel.table import Reader, Table
from incmrql.kernel.touched import Touched
from incmrql.types.model import Type

Found = tuple[Places, Content]
"""Rows, and the places of their keys."""


def extremes(  # noqa: PLR0913 (a table, keys, a change of it, and what is asked)
    ranking: Ranking,
    table: Table,
    reader: Reader,
    touched: Touched,
    change: Content,
    type_: Type,
    *,
    last: bool,
) -> tuple[Any, Any]:
    """The least or greatest values of keys before and after, null where there is none."""
    asked = touched.hashes, touched.keys
    before = front(table, reader, None, *asked, 1, last=last)
    n = len(touched)
    old = _column(ranking, [before], n, type_)
    if not len(change):
        return old, old
    words = [change.order, before[1].order]
    if not all(each is not None and decides(ranking.form, each).all() for each in words):
        after = front(table, reader, change, *asked, 1, last=last)
        return old, _column(ranking, [after], n, type_)
    better, again = _after(before, change, touched, last=last)
    keys = touched.keys.take(again)
    places, rows = front(table, reader, change, touched.hashes[again], keys, 1, last=last)
    still = ~np.isin(before[0], again)
    kept = before[0][still], before[1].take(still)
    others = ~np.isin(better[0], again)
    came = better[0][others], better[1].take(others)
    return old, _column(ranking, [kept, came, (again[places], rows)], n, type_)


def _after(before: Found, change: Content, touched: Touched, *, last: bool) -> tuple[Found, Places]:
    """The rows that came and are better than those before; and the keys whose best one went."""
    n = len(touched)
    assert change.order is not None
    assert before[1].order is not None
    there = np.zeros(n, np.bool_)
    there[before[0]] = True
    words = np.zeros(n, np.uint64)
    words[before[0]] = before[1].order
    span = span_of(RunRows.of(change), touched.hashes, touched.keys)
    key_of = np.zeros(len(change), np.int64)
    key_of[expanded(span.starts, span.counts)] = np.repeat(span.asked, span.counts)
    leaving = np.flatnonzero(change.weights < 0)
    at = key_of[leaving]
    again = np.unique(at[there[at] & (words[at] == change.order[leaving])])
    coming = np.flatnonzero(change.weights > 0)
    best, keys = _best(coming, span.starts, span.stops, span.asked, last=last)
    fresh, old = change.order[best], words[keys]
    better = ~there[keys] | ((fresh > old) if last else (fresh < old))
    return (keys[better], change.take(best[better])), again


def _best(
    coming: Places, starts: Places, stops: Places, asked: Places, *, last: bool
) -> tuple[Places, Places]:
    """The first or last of the rows that came of each key, and the key."""
    at = np.searchsorted(coming, stops) - 1 if last else np.searchsorted(coming, starts)
    inside = (at >= 0) & (at < len(coming))
    at, starts, stops, asked = at[inside], starts[inside], stops[inside], asked[inside]
    rows = coming[at]
    own = (rows >= starts) & (rows < stops)
    return rows[own], asked[own]


def _column(ranking: Ranking, found: Sequence[Found], n: int, type_: Type) -> Any:
    """One value for each key that has one; of several for a key the last part's holds."""
    where: npt.NDArray[np.int64] = np.full(n, -1)
    start = 0
    for places, rows in found:
        where[places] = start + np.arange(len(places))
        start += len(rows)
    if isinstance(ranking.element, Leaf):
        values = pa.concat_arrays([rows.rest.columns[0] for _, rows in found])
        taken = values.take(pa.array(where, mask=where < 0))
        wanted = column_type(type_)
        return taken if taken.type == wanted else taken.cast(wanted)
    known = [
        value
        for _, rows in found
        for value in rows_of(rows.rest.columns, ranking.element, len(rows))
    ]
    return column_of([None if i < 0 else known[i] for i in where.tolist()], type_)
