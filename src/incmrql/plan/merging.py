"""What nodes remember: weighted values in order, read by rank, and how states are merged.

    at(n)      the value at place n, each value as often as its weight says
    first(n)   the first n values, and no other is looked at

Ranks are tuples of bytes that sort like the values.  On the way to a place the counts of blocks
are added up, and the weights of one block; a value is read where it is given out.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Final, Protocol, TypeAlias, assert_never

from incmrql.errors import InternalError
from incmrql.plan.changes import NegativeWeight, Weighted
from incmrql.plan.monoids import BAG, COUNT, Monoid, groups, product, user
from incmrql.plan.nodes import Groups, Join, Node, Ordered, Request, Table, TableRead
from incmrql.reference import Environment, evaluate
from incmrql.reference.aggregates import aggregate
from incmrql.reference.navigate import Fail, element_at
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.values import Bag, Value, encode, show

# --- What a request reads ---


class Spanned(Protocol):
    """Values in order that are read by their places."""

    @property
    def total(self) -> int:
        """How many there are."""

    def span(self, start: int, stop: int) -> list[Value]:
        """The values from one place to another, without the keys of their order."""


def read(request: Request, reading: TableRead, table: Spanned, env: Environment) -> Value:
    """What a request comes to: only the values that it answers with are read."""
    count = table.total
    fail = partial(env.world.failed, request.expr.span)
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
            return _collection(request.expr, table.span(0, min(most, count)))
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
    count, type_ = table.total, request.expr.type
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


# --- Values by rank ---


BLOCK: Final = 64
"""The most ranks of a block."""


class _Falling(bytes):
    """Bytes whose order is turned around."""

    __slots__ = ()

    def __lt__(self, other: bytes) -> bool:
        return bytes.__gt__(self, other)

    def __gt__(self, other: bytes) -> bool:
        return bytes.__lt__(self, other)


Rank: TypeAlias = tuple[bytes, ...]


def rank(value: Value, order: Sequence[bool] | None) -> Rank:
    """The place of a value in canonical order, or of a pair (key tuple, value) by its keys."""
    if order is None:
        return (encode(value),)
    keys = zip(value[0], order, strict=True)
    ranks = [_Falling(encode(key)) if falls else encode(key) for key, falls in keys]
    return (*ranks, encode(value[1]))


@dataclass(slots=True)
class _Block:
    """Some neighbours, and how many values they are."""

    ranks: list[Rank]
    count: int


@dataclass(slots=True)
class Ranked:
    """Values with weights, by rank.  `read` counts the values that were looked at."""

    rows: dict[Rank, tuple[Value, int]] = field(default_factory=dict)
    total: int = 0
    """The sum of the weights."""
    read: int = 0
    _blocks: list[_Block] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def weight(self, place: Rank) -> int:
        """How often a value is there."""
        found = self.rows.get(place)
        return 0 if found is None else found[1]

    def add(self, place: Rank, value: Value, weight: int) -> int:
        """Add a value so many times; how often it is there now."""
        if not weight:
            return self.weight(place)
        known = place in self.rows
        after = self.weight(place) + weight
        at = self._block(place)
        block = self._blocks[at]
        block.count += weight
        self.total += weight
        if after:
            self.rows[place] = (value, after)
            if not known:
                block.ranks.insert(bisect_left(block.ranks, place), place)
                self._split(at)
        elif known:
            del self.rows[place]
            del block.ranks[bisect_left(block.ranks, place)]
            if not block.ranks:
                del self._blocks[at]
        return after

    def _block(self, place: Rank) -> int:
        """The block where a rank is or belongs."""
        if not self._blocks:
            self._blocks.append(_Block([], 0))
            return 0
        at = bisect_left(self._blocks, place, key=lambda block: block.ranks[-1])
        return min(at, len(self._blocks) - 1)

    def _split(self, at: int) -> None:
        ranks = self._blocks[at].ranks
        if len(ranks) > BLOCK:
            halves = ranks[: BLOCK // 2], ranks[BLOCK // 2 :]
            self._blocks[at : at + 1] = [_Block(half, self._sum(half)) for half in halves]

    def _sum(self, ranks: list[Rank]) -> int:
        return sum([self.rows[each][1] for each in ranks])

    def at(self, place: int) -> Value:
        """The value at a place from 0, which must be there."""
        return next(self.span(place, place + 1))

    def first(self, count: int) -> Iterator[Value]:
        """The first values, at most so many."""
        return self.span(0, count)

    def span(self, start: int, stop: int) -> Iterator[Value]:
        """The values from one place to another, each as often as it is there."""
        for value, weight in self.weights(start, stop):
            for _ in range(weight):
                yield value

    def weights(self, start: int, stop: int) -> Iterator[tuple[Value, int]]:
        """The values from one place to another, with how often they are there."""
        before = 0
        for block in self._blocks:
            if before >= stop:
                return
            if before + block.count <= start:
                before += block.count
                continue
            for place in block.ranks:
                value, weight = self.rows[place]
                if weight < 0:
                    raise NegativeWeight(f"a table holds {weight} times {show(value)}")
                if before >= stop:
                    return
                here = min(before + weight, stop) - max(before, start)
                before += weight
                if here > 0:
                    self.read += 1
                    yield value, here

    def __iter__(self) -> Iterator[tuple[Value, int]]:
        """All values in order, with their weights; not counted as read."""
        for block in self._blocks:
            for place in block.ranks:
                yield self.rows[place]


# --- States as monoids ---
#
# state(X + Y) = state(X) ⊗ state(Y)        state(X - Y) = state(X) ⊗ inverse(state(Y))
#
# over changes at the node's own inputs.  In the state of a bag a key is there exactly while its
# multiplicity is not 0.
#
#   Join      ⊎ of pairs, for each side that is kept
#   Groups    ⇑ (multiplicity, (multiplicities, accumulators, ⊎ of tables, ⊎ of rows)); what is
#             accumulated over the different values of a table follows from the table
#   Ordered   ⊎; the first rows of ⊎ where nothing is taken away, in tables too
#   Repeated  none: its last result is replaced


def state_monoid(node: Node, env: Environment | None = None) -> Monoid | None:
    """What the states of a node are merged by; None if it has none, or they are not merged.

    Without an environment it can be named only.
    """
    match node:
        case Join(kept=kept):
            return product(*[BAG for _ in kept])
        case Groups():
            counts = product(*[COUNT for _ in node.inputs])
            each = zip(node.accumulators, group_monoids(node, env), strict=True)
            accumulators = product(*[monoid for a, monoid in each if a.distinct is None])
            tables = product(*[_table_monoid(table, env) for table in node.tables])
            rows = product(*[BAG for _ in node.kept])
            return groups(product(counts, accumulators, tables, rows))
        case Ordered(grows=False):
            return BAG
        case Ordered(descending=order, limit=limit):
            return first_of(order, how_many(limit, env))
        case _:
            return None


def group_monoids(node: Groups, env: Environment | None) -> tuple[Monoid, ...]:
    """What the accumulators of a node are merged by; those of users where they are evaluated."""
    found = []
    for each in node.accumulators:
        monoid = each.monoid
        if each.kind == "user" and env is not None:
            aggregation = env.world.script.aggregations[monoid.name]
            monoid = user_monoid(aggregation, env, idempotent=monoid.idempotent)
        found.append(monoid)
    return tuple(found)


def user_monoid(
    aggregation: typed.Aggregation, env: Environment, *, idempotent: bool = False
) -> Monoid:
    """The monoid of a user aggregation that is commutative, where it is evaluated."""
    return user(aggregation, env, commutative=True, idempotent=idempotent)


def _table_monoid(table: Table, env: Environment | None) -> Monoid:
    return BAG if table.most is None else first_of(table.order, how_many(table.most, env))


def how_many(limit: typed.Expr | None, env: Environment | None) -> int | None:
    """A limit as a number, where there are one and an environment."""
    if limit is None or env is None:
        return None
    return max(env.world.evaluate(limit, env) or 0, 0)


def first_of(order: tuple[bool, ...] | None, most: int | None) -> Monoid:
    """The first values of both: what need be remembered of an order that only grows."""

    def merged(one: Weighted, other: Weighted) -> Weighted:
        ranked = Ranked()
        for bag in (one, other):
            for value, weight in bag:
                ranked.add(rank(value, order), value, weight)
        return Weighted(ranked.weights(0, ranked.total if most is None else most))

    return Monoid("first of ⊎" if most is None else f"first {most} of ⊎", Weighted(), merged)
