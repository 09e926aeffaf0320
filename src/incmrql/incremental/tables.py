"""Values of a group in order: what a request reads of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import partial
from typing import Protocol, assert_never

from incmrql.diagnostics import InternalError
from incmrql.incremental.nodes import Reading, Request
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
