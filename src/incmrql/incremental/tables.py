"""Values of a group in order: how a table takes in changes, and what is read of it.

A table takes a change in at once and can give it back, for weighted values form a group: to undo
is to add the inverse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Protocol, assert_never

from incmrql.diagnostics import InternalError
from incmrql.incremental.changes import Weighted
from incmrql.incremental.nodes import Reading, Request
from incmrql.incremental.ranked import Rank, Ranked, rank
from incmrql.reference import Environment, evaluate
from incmrql.reference.aggregates import aggregate
from incmrql.reference.navigate import Fail, element_at
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.values import Bag, Value


class Spanned(Protocol):
    """Values in order that are read by their places."""

    @property
    def total(self) -> int:
        """How many there are."""

    def span(self, start: int, stop: int) -> list[Value]:
        """The values from one place to another, without the keys of their order."""


@dataclass(slots=True)
class TableState:
    """The values of a table for one key."""

    order: tuple[bool, ...] | None
    most: int | None = None
    """How many of the first values are kept; all of them if it is None."""
    ranked: Ranked = field(default_factory=Ranked)
    _undo: list[tuple[Rank, Value, int]] = field(default_factory=list)

    def change(self, elements: Weighted) -> Weighted:
        """Take in elements; the change of the different ones, each once."""
        found = Weighted()
        for element, weight in elements:
            if element is None and self.order is None:
                continue
            after = self._add(element, weight)
            came = (after > 0) - (after - weight > 0)
            if came:
                found.add(element if self.order is None else element[1], came)
        if self.most is not None:
            for element, weight in list(self.ranked.weights(self.most, self.ranked.total)):
                self._add(element, -weight)
        return found

    def _add(self, element: Value, weight: int) -> int:
        place = rank(element, self.order)
        self._undo.append((place, element, -weight))
        return self.ranked.add(place, element, weight)

    def cancel(self) -> None:
        """Give back what was taken in since the last commit."""
        for place, element, weight in self._undo:
            self.ranked.add(place, element, weight)
        self.commit()

    def commit(self) -> None:
        """What was taken in stays."""
        self._undo = []

    def taken(self) -> int:
        """How many values were read since this was last asked."""
        count, self.ranked.read = self.ranked.read, 0
        return count

    @property
    def total(self) -> int:
        """How many values there are."""
        return self.ranked.total

    @property
    def weights(self) -> Weighted:
        """All elements."""
        return Weighted(self.ranked)

    def span(self, start: int, stop: int) -> list[Value]:
        """The values from one place to another, without the keys of their order."""
        found = self.ranked.span(start, stop)
        return list(found) if self.order is None else [value for _, value in found]


def read(request: Request, reading: Reading, table: Spanned, env: Environment) -> Value:
    """What a request comes to: only the values that it answers with are read."""
    count = table.total
    fail = partial(env.world.failed, request.asked.span)
    if reading.variable is not None:
        everything = Bag(table.span(0, count))
        return evaluate(reading.arguments[0], env.bind(reading.variable, everything))
    given = [evaluate(argument, env) for argument in reading.arguments]
    match reading.how:
        case "least":
            return table.span(0, 1)[0] if count else None
        case "greatest":
            return table.span(count - 1, count)[0] if count else None
        case "between":
            return _between(request, table, given[0] if given else Fraction(1, 2), fail)
        case "first":
            most = max(given[0] or 0, 0) if given else count
            return _collection(request.asked, table.span(0, min(most, count)))
        case "at":
            return _at(table, given[0], fail)
        case "slice":
            return _slice(table, given[0], given[1])
        case "all":
            raise InternalError("all values of a table without a variable for them")
        case _:
            assert_never(reading.how)


def _between(request: Request, table: Spanned, p: Value, fail: Fail) -> Value:
    """The percentile as the reference evaluator has it, of the two values around its rank."""
    count, type_ = table.total, request.asked.type
    if p is None or not 0 <= p <= 1 or not count:
        return aggregate("percentile", Bag(), type_, p, fail)
    place = (count - 1) * Fraction(p)
    below = math.floor(place)
    values = table.span(below, below + (1 if place == below else 2))
    return aggregate("percentile", values, type_, place - below, fail)


def _at(table: Spanned, index: Value, fail: Fail) -> Value:
    count = table.total
    if index is None:
        return None
    place = index + count if index < 0 else index
    if 0 <= place < count:
        return table.span(place, place + 1)[0]
    return element_at([None] * count, index, fail)


def _slice(table: Spanned, first: Value, last: Value) -> Value:
    if first is None or last is None:
        return None
    count = table.total
    start = first + count if first < 0 else first
    end = last + count if last < 0 else last
    return table.span(max(start, 0), max(end + 1, 0))


def _collection(asked: typed.Expr, values: Iterable[Value]) -> Value:
    """A list, or a bag where there is no order."""
    assert isinstance(asked.type, Collection)
    return list(values) if asked.type.kind == "list" else Bag(values)
