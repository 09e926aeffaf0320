"""The first or last row of each key in an order, without sorting: the least word, then the ties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from incmrql.kernel.form import Form
from incmrql.kernel.keys import Keys, Places
from incmrql.kernel.layouts import Gone, Layout, Leaf, column_type, part, width
from incmrql.kernel.ordering_bytes import order_bytes, order_words
from incmrql.kernel.physical import Ranking, Read
from incmrql.kernel.recompute_columns import apart, gathered, plain, taken
from incmrql.kernel.rows import Rows
from incmrql.types import typed
from incmrql.types.model import Type, is_float


def reads_first(wanted: Read, ranking: Ranking) -> bool:
    """Whether a request reads no more than the first or last row of a key."""
    reading = wanted.reading
    if reading.variable is not None:
        return False
    match reading.how:
        case "least" | "greatest":
            return isinstance(ranking.element, Leaf)
        case "first" | "at":
            (place,) = reading.arguments or (None,)
            value = _value(ranking)
            flat = isinstance(value, Leaf) or all(isinstance(e, Leaf) for e in _parts(value))
            wanted_ = 1 if reading.how == "first" else 0
            return flat and isinstance(place, typed.Const) and place.value == wanted_
        case _:
            return False


def _value(ranking: Ranking) -> Layout:
    return part(ranking.element, 1) if ranking.paired else ranking.element


def _parts(layout: Layout) -> tuple[Layout, ...]:
    return (layout,) if isinstance(layout, Leaf | Gone) else layout.parts or (Gone(layout.type),)


@dataclass(frozen=True, slots=True)
class Runs:
    """Stretches of rows with one key."""

    numbers: Places
    """Of the key of each row."""
    starts: Places
    of_runs: Places
    """The numbers of the keys of runs."""
    lengths: Places

    @staticmethod
    def of(numbers: Places) -> Runs:
        """The runs of rows whose keys have these numbers."""
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        lengths = np.diff(np.append(starts, len(numbers)))
        return Runs(numbers, starts, numbers[starts], lengths)


def first_rows(ranking: Ranking, rows: Rows, runs: Runs, count: int, *, last: bool) -> Places:
    """The first row of each key, or the last; -1 where there is none."""
    chosen = np.full(count, -1)
    if not len(rows):
        return chosen
    form = ranking.form
    rest = Rows(tuple(rows.columns[len(form.keys) :]), rows.weights)
    assert form.descending is not None
    words, most = _sortable(plain(rest.columns[0]), form.rest[0], falls=form.descending[0] != last)
    best = np.full(count, most)
    np.minimum.at(best, runs.of_runs, np.minimum.reduceat(words, runs.starts))
    places = np.flatnonzero(words == np.repeat(best[runs.of_runs], runs.lengths))
    keys = runs.numbers[places]
    chosen[keys] = places
    tied = np.isin(keys, keys[chosen[keys] != places])
    if tied.any():
        keys, places = keys[tied], places[tied]
        order = _ranks(form, taken(rest, places))
        sorted_ = np.lexsort((order if last else -order, keys))
        chosen[keys[sorted_]] = places[sorted_]
    return chosen


def _sortable(column: Any, type_: Type, *, falls: bool) -> tuple[Any, Any]:
    """Numbers that sort like the values of a column, as far as they go; and the greatest one."""
    if is_float(type_) and not column.null_count:
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if not np.isnan(numbers.min()):
            return -numbers if falls else numbers, np.inf
    words = order_words(Keys((column,), (type_,)), (falls,))
    return words, np.iinfo(np.uint64).max


def _ranks(form: Form, rows: Rows) -> Places:
    """The places of rows in their order."""
    rest = Keys(tuple(map(plain, rows.columns)), form.rest)
    return order_bytes(rest, form.descending).ranks()


def answers(wanted: Read, ranking: Ranking, rows: Rows, chosen: Places) -> Any:
    """What a request makes of the rows that are chosen, as a column with a row for each key."""
    type_ = column_type(wanted.request.variable.type)
    value = _value(ranking)
    columns = rows.columns[len(rows.columns) - width(value) :]
    if wanted.reading.how in ("least", "greatest"):
        found = plain(columns[0]).take(pa.array(chosen, mask=chosen < 0))
        return found if found.type == type_ else found.cast(type_)
    bases, places = apart(columns)
    index = chosen if places is None else places.to_numpy(zero_copy_only=False)[chosen]
    is_one = wanted.reading.how == "at"
    packed = type_ if is_one else type_.value_type
    (single,) = bases if isinstance(value, Leaf) else (_packed(bases, packed),)
    if is_one:
        single = single if single.type == type_ else single.cast(type_)
        if (chosen < 0).any():
            return single.take(pa.array(index, mask=chosen < 0))
        return gathered(single, pa.array(index))
    if places is None:
        there = chosen[chosen >= 0]
        single = single.take(pa.array(there))
        index = np.cumsum(chosen >= 0) - 1
    count = len(single)
    ends = np.append(np.arange(count + 1), count).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(ends), single)
    lists = lists if lists.type == type_ else lists.cast(type_)
    return pa.DictionaryArray.from_arrays(
        pa.array(np.where(chosen < 0, count, index)), lists, safe=False
    )


def _packed(columns: tuple[Any, ...], type_: Any) -> Any:
    fields = [type_.field(i) for i in range(type_.num_fields)]
    return pa.StructArray.from_arrays(list(columns), fields=fields)
