"""The value of a request that reads a table: only the values that it needs are read.

The oracle and the engine call this with tables of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import partial
from typing import Protocol, assert_never

from incmrql.errors import InternalError
from incmrql.plan.nodes import Request, TableRead
from incmrql.reference import Environment, evaluate
from incmrql.reference.aggregates import (
    SPARK_PERCENTILES,
    aggregate,
    spark_percentile,
    spark_percentile_span,
)
from incmrql.reference.navigate import Fail, element_at
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.values import Bag, Value


class OrderedValues(Protocol):
    """Values in order that are read by rank, counted from 0."""

    @property
    def total(self) -> int:
        """The number of values."""

    def span(self, start: int, stop: int) -> list[Value]:
        """The values from rank `start` to before `stop`, without the keys of their order."""


def read_value(
    request: Request, reading: TableRead, table: OrderedValues, env: Environment
) -> Value:
    """The value of a request."""
    count = table.total
    fail = partial(env.world.fail, request.expr.span)
    if reading.variable is not None:
        everything = Bag(table.span(0, count))
        return evaluate(reading.arguments[0], env.bind(reading.variable, everything))
    arguments = [evaluate(argument, env) for argument in reading.arguments]
    match reading.how:
        case "least":
            return table.span(0, 1)[0] if count else None
        case "greatest":
            return table.span(count - 1, count)[0] if count else None
        case "between":
            return _percentile(request, table, arguments[0] if arguments else Fraction(1, 2), fail)
        case "first":
            most = max(arguments[0] or 0, 0) if arguments else count
            return _collection(request.expr, table.span(0, min(most, count)))
        case "at":
            return _value_at(table, arguments[0], fail)
        case "slice":
            return _slice(table, arguments[0], arguments[1])
        case "all":
            raise InternalError("all values of a table without a variable for them")
        case _:
            assert_never(reading.how)


def _percentile(request: Request, table: OrderedValues, p: Value, fail: Fail) -> Value:
    """The percentile, from the two values around its rank; as the reference evaluator has it."""
    count, type_ = table.total, request.expr.type
    name = request.expr.function if isinstance(request.expr, typed.Aggregate) else ""
    if name in SPARK_PERCENTILES and count:
        first, last = spark_percentile_span(name, count, p)
        return spark_percentile(name, table.span(first, last + 1), count, p, first)
    if name in SPARK_PERCENTILES:
        return None
    if p is None or not 0 <= p <= 1 or not count:
        return aggregate("percentile", Bag(), type_, p, fail)
    rank = (count - 1) * Fraction(p)
    below = math.floor(rank)
    values = table.span(below, below + (1 if rank == below else 2))
    return aggregate("percentile", values, type_, rank - below, fail)


def _value_at(table: OrderedValues, index: Value, fail: Fail) -> Value:
    count = table.total
    if index is None:
        return None
    rank = index + count if index < 0 else index
    if 0 <= rank < count:
        return table.span(rank, rank + 1)[0]
    return element_at([None] * count, index, fail)


def _slice(table: OrderedValues, first: Value, last: Value) -> Value:
    if first is None or last is None:
        return None
    count = table.total
    start = first + count if first < 0 else first
    end = last + count if last < 0 else last
    return table.span(max(start, 0), max(end + 1, 0))


def _collection(expr: typed.Expr, values: Iterable[Value]) -> Value:
    """A list, or a bag where there is no order."""
    assert isinstance(expr.type, Collection)
    return list(values) if expr.type.kind == "list" else Bag(values)


def limit_value(limit: typed.Expr | None, env: Environment | None) -> int | None:
    """A limit as a number; None without a limit, or without an environment to evaluate it in."""
    if limit is None or env is None:
        return None
    return max(env.world.evaluate(limit, env) or 0, 0)
