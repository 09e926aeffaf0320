"""Functions of windows over some ranks of a partition, in time that follows the number of rows.

Sums over frames are differences of running sums, which are exact; least and greatest values of
frames with an open end run along.  What is left reads each frame by itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import TypeAlias, assert_never

from incmrql.plan.windows import aggregates_of
from incmrql.reference import Environment
from incmrql.reference.aggregates import average_of_exact, exact_part, sum_of_exact
from incmrql.reference.windows import NO_ROW, bucket, frame_values, pick, shift_key
from incmrql.types import typed
from incmrql.types.model import is_float
from incmrql.types.walk import map_children
from incmrql.values import ExactSum, Value, encode

Exact: TypeAlias = ExactSum | Fraction


@dataclass(frozen=True, slots=True)
class Region:
    """Pairs (sort keys, row) of a partition of `total` rows, from the rank `start` on.

    Those from the rank `first` to `stop` are answered.
    """

    rows: list[Value]
    start: int
    total: int
    first: int
    stop: int

    @property
    def end(self) -> int:
        """The rank after the last row."""
        return self.start + len(self.rows)


@dataclass(frozen=True, slots=True)
class Prefix:
    """The exact sum and the number of the values before a region."""

    total: Exact | None
    count: int

    @staticmethod
    def of_totals(values: Sequence[Value]) -> Prefix:
        """All values of a partition: their number, or an exact part and their number."""
        if len(values) == 1:
            return Prefix(None, values[0])
        return Prefix(exact_part(values[0]), values[1])

    def without(
        self, function: typed.WindowFunction, row: typed.Variable, region: Region, env: Environment
    ) -> Prefix:
        """What is left without the values of a region that goes to the end of the partition."""
        assert isinstance(function, typed.Total)
        values = [v for v in _values(function.argument, row, region, env) if v is not None]
        if self.total is None:
            return Prefix(None, self.count - len(values))
        total = self.total
        for value in values:
            total = total - _exact(value)  # type: ignore[operator]
        return Prefix(total, self.count - len(values))


def region_values(
    window: typed.Window, region: Region, prefixes: Sequence[Prefix | None], env: Environment
) -> list[tuple[Value, ...]]:
    """The values of all functions for the rows of a region that are answered."""
    order = _Order.of(region, tuple(key.descending for key in window.order))
    columns = []
    for function, prefix in zip(window.functions, prefixes, strict=True):
        match function:
            case typed.Rank():
                columns.append(_ranks(function, region, order, prefix))
            case typed.Pick():
                columns.append(_picks(function, window.row, region, order, env))
            case typed.Total():
                columns.append(_totals(function, window.row, region, order, prefix, env))
            case _:
                assert_never(function)
    return list(zip(*columns, strict=True))


def _values(
    argument: typed.Expr, row: typed.Variable, region: Region, env: Environment
) -> list[Value]:
    """The values of an argument for all rows of a region."""
    evaluate = env.world.evaluate
    path = _column_of(argument, row)
    if path is not None:
        return [one[path] for _, one in region.rows]
    return [evaluate(argument, env.bind(row, one)) for _, one in region.rows]


def _column_of(argument: typed.Expr, row: typed.Variable) -> int | None:
    match argument:
        case typed.Item(typed.Var(variable), index) if variable == row:
            return index
        case _:
            return None


# --- Order ---


@dataclass(frozen=True, slots=True)
class _Order:
    """The peers of each row, by rank, and the number of the group of peers within the region."""

    firsts: list[int]
    lasts: list[int]
    numbers: list[int]
    keys: list[Value]
    """The last sort key of each row."""
    is_descending: bool

    @staticmethod
    def of(region: Region, descending: tuple[bool, ...]) -> _Order:
        firsts: list[int] = []
        lasts: list[int] = []
        numbers: list[int] = []
        codes = [encode(keys) for keys, _ in region.rows]
        start = 0
        number = 0
        while start < len(codes):
            stop = start + 1
            while stop < len(codes) and codes[stop] == codes[start]:
                stop += 1
            number += 1
            firsts += [region.start + start] * (stop - start)
            lasts += [region.start + stop] * (stop - start)
            numbers += [number] * (stop - start)
            start = stop
        last_keys = [keys[-1] if keys else None for keys, _ in region.rows]
        return _Order(firsts, lasts, numbers, last_keys, bool(descending) and descending[-1])


def _ranks(
    function: typed.Rank, region: Region, order: _Order, prefix: Prefix | None
) -> list[Value]:
    """The places of the rows that are answered; kinds that need more are given whole partitions.

    For dense ranks the prefix has the number of different sort keys in the partition.
    """
    total = region.total
    places = range(region.first - region.start, region.stop - region.start)
    match function.name:
        case "row_number":
            return list(range(region.first + 1, region.stop + 1))
        case "rank":
            return [order.firsts[place] + 1 for place in places]
        case "dense_rank":
            before = 0
            if prefix is not None and places:
                # The rows that are answered begin with the first of some peers, and end with the
                # last row of the partition.
                before = prefix.count - order.numbers[-1]
            return [before + order.numbers[place] for place in places]
        case "percent_rank":
            return [order.firsts[p] / (total - 1) if total > 1 else 0.0 for p in places]
        case "cume_dist":
            return [order.lasts[place] / total for place in places]
        case "ntile":
            return [bucket(region.start + p, total, function.buckets) for p in places]
        case _:
            assert_never(function.name)


# --- Frames ---


def _frames(frame: typed.Frame, region: Region, order: _Order) -> list[tuple[int, int]]:
    """The ranks of the frame of each row that is answered."""
    total = region.total
    edges = _Edges(region, order) if frame.kind == "range" else None
    ranges = []
    for rank in range(region.first, region.stop):
        if edges is None:
            first = 0 if frame.first is None else rank + frame.first
            last = total if frame.last is None else rank + frame.last + 1
        else:
            first = 0 if frame.first is None else edges.at(rank, frame.first, 0)
            last = total if frame.last is None else edges.at(rank, frame.last, 1)
        start = min(max(first, 0), total)
        ranges.append((start, min(max(last, start), total)))
    return ranges


class _Edges:
    """Where the keys at a distance from a row's key are, by bisection."""

    def __init__(self, region: Region, order: _Order) -> None:
        self.region, self.order = region, order
        self._codes: list[bytes] | None = None
        self._from = 0

    def at(self, rank: int, offset: Value, end: int) -> int:
        """The first row (0), or the one after the last (1), at an offset or nearer."""
        place = rank - self.region.start
        key = self.order.keys[place] if offset else None
        if key is None:
            return (self.order.lasts if end else self.order.firsts)[place]
        codes = self._ordered_codes()
        is_descending = self.order.is_descending
        code = encode(shift_key(key, -offset if is_descending else offset))
        # Codes ascend; in a descending order the positions count from the end.
        if is_descending:
            position = bisect_left(codes, code) if end else bisect_right(codes, code)
            position = len(codes) - position
        else:
            position = bisect_right(codes, code) if end else bisect_left(codes, code)
        return self._from + position

    def _ordered_codes(self) -> list[bytes]:
        """The codes of all keys that are not null, ascending: nulls are at one end."""
        if self._codes is None:
            keys = self.order.keys
            there = [place for place, key in enumerate(keys) if key is not None]
            self._from = self.region.start + (there[0] if there else 0)
            codes = [encode(keys[place]) for place in there]
            self._codes = codes[::-1] if self.order.is_descending else codes
        return self._codes


def _picks(
    function: typed.Pick, row: typed.Variable, region: Region, order: _Order, env: Environment
) -> list[Value]:
    values = _values(function.argument, row, region, env)
    start, position = region.start, function.position
    picked: list[Value] = []
    places = range(region.first - start, region.stop - start)
    for place, (first, last) in zip(places, _frames(function.frame, region, order), strict=True):
        if function.skips_nulls:
            value = pick(values[first - start : last - start], position, skips_nulls=True)
        else:
            # The frame may begin before the rows that were read, but not the row that is picked.
            rank = first + position - 1 if position > 0 else last + position
            value = values[rank - start] if first <= rank < last else NO_ROW
        if value is NO_ROW:
            value = env.world.evaluate(function.default, env.bind(row, region.rows[place][1]))
        picked.append(value)
    return picked


# --- Aggregates ---


def _totals(
    function: typed.Total,
    row: typed.Variable,
    region: Region,
    order: _Order,
    prefix: Prefix | None,
    env: Environment,
) -> list[Value]:
    """The results of an aggregate over the frames of the rows that are answered."""
    values = _values(function.argument, row, region, env)
    frames = _frames(function.frame, region, order)
    evaluate, start = env.world.evaluate, region.start
    aggregates = aggregates_of(function)
    if aggregates is None or any(a.function not in _RUNNING for a in aggregates):
        return [
            evaluate(
                function.result, env.bind(function.values, frame_values(function.values, part))
            )
            for part in (values[first - start : last - start] for first, last in frames)
        ]
    columns = [
        _RUNNING[aggregate.function](aggregate, values, frames, start, prefix)
        for aggregate in aggregates
    ]
    variables = [
        typed.Variable("aggregate", _BESIDE + number, aggregate.type)
        for number, aggregate in enumerate(aggregates)
    ]
    result = _over(function.result, list(zip(aggregates, variables, strict=True)))
    if isinstance(result, typed.Var):
        return columns[0]
    numbers = [variable.number for variable in variables]
    return [
        evaluate(result, env.extend(dict(zip(numbers, row_values, strict=True))))
        for row_values in zip(*columns, strict=True)
    ]


_BESIDE = 1 << 43
"""Numbers of variables that no query has."""


def _over(expr: typed.Expr, known: Sequence[tuple[typed.Aggregate, typed.Variable]]) -> typed.Expr:
    """An expression with variables in place of aggregates."""
    for aggregate, variable in known:
        if expr == aggregate:
            return typed.Var(variable, type=variable.type)
    return map_children(lambda child: _over(child, known), expr)


Frames: TypeAlias = Sequence[tuple[int, int]]


def _counts(values: Sequence[Value], prefix: Prefix | None) -> list[int]:
    first = 0 if prefix is None else prefix.count
    return list(accumulate((int(v is not None) for v in values), initial=first))


def _differences(running: Sequence[int], frames: Frames, start: int) -> list[int]:
    """What running totals gain over each frame; a frame from the very start has the prefix too."""
    return [
        running[last - start] - (running[first - start] if first > 0 or start == 0 else 0)
        for first, last in frames
    ]


def _count(
    _: typed.Aggregate, values: Sequence[Value], frames: Frames, start: int,
    prefix: Prefix | None,
) -> list[Value]:  # fmt: skip
    return list(_differences(_counts(values, prefix), frames, start))


def _sum(
    each: typed.Aggregate, values: Sequence[Value], frames: Frames, start: int,
    prefix: Prefix | None,
) -> list[Value]:  # fmt: skip
    totals = _exact_totals(each, values, frames, start, prefix)
    return [sum_of_exact(total, each.type) for total in totals]


def _average(
    each: typed.Aggregate, values: Sequence[Value], frames: Frames, start: int,
    prefix: Prefix | None,
) -> list[Value]:  # fmt: skip
    totals = _exact_totals(each, values, frames, start, prefix)
    counts = _differences(_counts(values, prefix), frames, start)
    return [
        average_of_exact(total, n, each.type) if n else None
        for total, n in zip(totals, counts, strict=True)
    ]


def _exact_totals(
    each: typed.Aggregate, values: Sequence[Value], frames: Frames, start: int,
    prefix: Prefix | None,
) -> list[Exact]:  # fmt: skip
    zero: Exact = ExactSum.zero if is_float(each.operand.type.element) else Fraction(0)  # type: ignore[union-attr]
    first = zero if prefix is None or prefix.total is None else prefix.total
    running: list[Exact] = [first]
    for value in values:
        running.append(running[-1] if value is None else running[-1] + _exact(value))  # type: ignore[operator]
    return [
        running[last - start] - (running[f - start] if f > 0 or start == 0 else zero)  # type: ignore[operator]
        for f, last in frames
    ]


def _exact(value: Value) -> Exact:
    return ExactSum.of(value) if isinstance(value, float) else Fraction(value)


def _extreme(is_better: Callable[[bytes, bytes], bool]) -> Callable[..., list[Value]]:
    """The least or the greatest value of each frame."""

    def best(one: tuple[bytes, Value] | None, other: tuple[bytes, Value] | None) -> (
        tuple[bytes, Value] | None
    ):  # fmt: skip
        if one is None or other is None:
            return other if one is None else one
        return one if not is_better(other[0], one[0]) else other

    def extreme(
        _: typed.Aggregate, values: Sequence[Value], frames: Frames, start: int,
        _before: Prefix | None,
    ) -> list[Value]:  # fmt: skip
        coded = [None if value is None else (encode(value), value) for value in values]
        end = start + len(coded)
        from_start = [None, *accumulate(coded, best)]
        to_end = [None, *accumulate(coded[::-1], best)][::-1]
        extremes = []
        for first, last in frames:
            if first == start:
                one = from_start[last - start]
            elif last == end:
                one = to_end[first - start]
            else:
                one = None
                for other in coded[first - start : last - start]:
                    one = best(one, other)
            extremes.append(None if one is None else one[1])
        return extremes

    return extreme


_RUNNING: dict[str, Callable[..., list[Value]]] = {
    "count": _count,
    "sum": _sum,
    "avg": _average,
    "min": _extreme(lambda one, other: one < other),
    "max": _extreme(lambda one, other: one > other),
}
