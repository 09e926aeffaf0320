"""Windows: each row of a partition with the values of functions over the rows around it.

The rows are sorted once; a frame is the range of indices that it has for a row.  Nothing is kept
from row to row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import assert_never

from incmrql.reference.environment import Environment
from incmrql.reference.operators import elements
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.values import Bag, Value, encode
from incmrql.values.encoding import EXACT
from incmrql.values.numbers import INTEGER_RANGES

LONGS = INTEGER_RANGES["long"]


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """The rows of a partition in order, and the values of the sort keys of each."""

    rows: list[Value]
    keys: list[tuple[Value, ...]]
    descending: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.rows)


def window(expr: typed.Window, env: Environment) -> Bag:
    """The pairs (row, values of the functions)."""
    ordered = ordered_rows(expr, elements(env.world.evaluate(expr.operand, env)), env)
    columns = [_column(function, expr.row, ordered, env) for function in expr.functions]
    values = zip(*columns, strict=True) if columns else [() for _ in ordered.rows]
    return Bag(list(zip(ordered.rows, values, strict=True)))


def ordered_rows(expr: typed.Window, rows: Sequence[Value], env: Environment) -> OrderedRows:
    """The rows in order: by the sort keys, then in canonical order."""
    ordered = sorted(rows, key=encode)
    for order in reversed(expr.order):
        # Each sort is stable, so the first key is sorted last.
        keys = {id(row): encode(_value(order.expr, expr.row, row, env)) for row in ordered}
        ordered.sort(key=lambda row: keys[id(row)], reverse=order.descending)
    sort_keys = [
        tuple([_value(order.expr, expr.row, row, env) for order in expr.order]) for row in ordered
    ]
    return OrderedRows(ordered, sort_keys, tuple(order.descending for order in expr.order))


def _value(expr: typed.Expr, variable: typed.Variable, row: Value, env: Environment) -> Value:
    return env.world.evaluate(expr, env.bind(variable, row))


def _column(
    function: typed.WindowFunction, row: typed.Variable, ordered: OrderedRows, env: Environment
) -> list[Value]:
    """The values of a function, row by row."""
    match function:
        case typed.Rank(name, _, buckets):
            return ranks(name, ordered, buckets)
        case typed.Pick(frame, argument):
            values = [_value(argument, row, one, env) for one in ordered.rows]
            picked = [
                pick(values[first:last], function.position, skips_nulls=function.skips_nulls)
                for first, last in frame_ranges(frame, ordered)
            ]
            return [
                _value(function.default, row, one, env) if value is NO_ROW else value
                for one, value in zip(ordered.rows, picked, strict=True)
            ]
        case typed.Total(frame, argument, variable, result):
            values = [_value(argument, row, one, env) for one in ordered.rows]
            return [
                _value(result, variable, frame_values(variable, values[first:last]), env)
                for first, last in frame_ranges(frame, ordered)
            ]
        case _:
            assert_never(function)


def frame_values(variable: typed.Variable, values: list[Value]) -> list[Value]:
    """The values of a frame: a bag, or a list if their order counts."""
    is_list = isinstance(variable.type, Collection) and variable.type.kind == "list"
    return values if is_list else Bag(values)


# --- Ranks ---


def ranks(name: typed.RankName, ordered: OrderedRows, buckets: int) -> list[Value]:
    """The places of all rows."""
    total = len(ordered)
    peers = peer_groups(ordered)
    numbered = [(first, last, number) for number, (first, last) in enumerate(peers, 1)
                for _ in range(first, last)]  # fmt: skip
    match name:
        case "row_number":
            return list(range(1, total + 1))
        case "rank":
            return [first + 1 for first, _, _ in numbered]
        case "dense_rank":
            return [number for _, _, number in numbered]
        case "percent_rank":
            return [first / (total - 1) if total > 1 else 0.0 for first, _, _ in numbered]
        case "cume_dist":
            return [last / total for _, last, _ in numbered]
        case "ntile":
            return [bucket(index, total, buckets) for index in range(total)]
        case _:
            assert_never(name)


def bucket(index: int, total: int, buckets: int) -> int:
    """The bucket, from 1, of a row: sizes differ by one at most, and larger buckets come first."""
    size, larger = divmod(total, buckets)
    in_larger = larger * (size + 1)
    if index < in_larger:
        return index // (size + 1) + 1
    return larger + (index - in_larger) // size + 1


def peer_groups(ordered: OrderedRows) -> list[tuple[int, int]]:
    """The ranges of rows that agree on all sort keys."""
    ranges, start = [], 0
    for _, members in groupby(ordered.keys, encode):
        stop = start + sum(1 for _ in members)
        ranges.append((start, stop))
        start = stop
    return ranges


# --- Frames ---


class _NoRow:
    """Says that a frame has no row at a position."""


NO_ROW = _NoRow()


def pick(values: Sequence[Value], position: int, *, skips_nulls: bool) -> Value | _NoRow:
    """The value at a position from 1, or from -1 at the end; `NO_ROW` if there are too few."""
    if skips_nulls:
        values = [value for value in values if value is not None]
    if len(values) < abs(position):
        return NO_ROW
    return values[position - 1 if position > 0 else position]


def frame_ranges(frame: typed.Frame, ordered: OrderedRows) -> list[tuple[int, int]]:
    """The range of rows that a frame has for each row."""
    total = len(ordered)
    peers = [group for group in peer_groups(ordered) for _ in range(*group)]
    ranges = []
    for index in range(total):
        if frame.kind == "rows":
            first = 0 if frame.first is None else index + frame.first
            last = total if frame.last is None else index + frame.last + 1
        else:
            first = 0 if frame.first is None else _edge(frame.first, index, 0, peers, ordered)
            last = total if frame.last is None else _edge(frame.last, index, 1, peers, ordered)
        start = min(max(first, 0), total)
        ranges.append((start, min(max(last, start), total)))
    return ranges


def _edge(
    offset: Value, index: int, end: int, peers: list[tuple[int, int]], ordered: OrderedRows
) -> int:
    """The first (0) or one after the last row (1) whose key is at an offset or nearer."""
    # A key that says where nulls come may stand before the only real one.
    key = ordered.keys[index][-1] if offset else None
    if key is None:
        return peers[index][end]
    is_descending = ordered.descending[-1]
    edge = encode(shift_key(key, -offset if is_descending else offset))
    nulls_first = ordered.keys[0][-1] is None
    count = 0
    for *_, other in ordered.keys:
        here = encode(other)
        if other is None:
            count += nulls_first
        elif here == edge:
            count += end
        else:
            count += (here > edge) == is_descending
    return count


def shift_key(key: Value, offset: Value) -> Value:
    """A sort key plus an offset: days for dates, microseconds for timestamps.

    What is beyond the last value of a type stays there, as no key is farther.
    """
    match key:
        case datetime():
            try:
                return key + timedelta(microseconds=offset)
            except OverflowError:
                bound = datetime.max if offset > 0 else datetime.min
                return bound.replace(tzinfo=key.tzinfo)
        case date():
            return date.fromordinal(min(max(key.toordinal() + offset, 1), date.max.toordinal()))
        case Decimal():
            return EXACT.add(key, offset)
        case int():
            return min(max(key + offset, LONGS[0]), LONGS[-1])
        case _:
            return key + offset
