"""The monoids under which the states of nodes merge.

    state(X + Y) = state(X) ⊗ state(Y)        state(X - Y) = state(X) ⊗ inverse(state(Y))

for changes X and Y of the node's inputs.  The state of a group has a key exactly while its
multiplicity is not 0.

    Join      ⊎ of pairs, for each kept side
    Groups    ⇑ (multiplicity, (multiplicities, accumulators, ⊎ of tables, ⊎ of rows)).  An
              accumulator over the distinct values of a table follows from the table.
    Ordered   ⊎; the first rows of ⊎ where nothing is ever deleted, in tables too
    Repeated  none: the last result is replaced
"""

from __future__ import annotations

import math

from incmrql.plan.changes import NegativeWeight, Weighted
from incmrql.plan.monoids import BAG, COUNT, Monoid, groups, product, user_monoid
from incmrql.plan.nodes import Groups, Join, Node, Ordered, Table
from incmrql.plan.reading import limit_value
from incmrql.reference import Environment
from incmrql.values import Value, encode, show


def state_monoid(node: Node, env: Environment | None = None) -> Monoid | None:
    """The monoid of a node's states; None if the node has no state, or one that is replaced.

    Without an environment the monoid has its name only and cannot merge.
    """
    match node:
        case Join(kept=kept):
            return product(*[BAG for _ in kept])
        case Groups():
            counts = product(*[COUNT for _ in node.inputs])
            monoids = zip(node.accumulators, group_monoids(node, env), strict=True)
            accumulators = product(*[monoid for a, monoid in monoids if a.distinct is None])
            tables = product(*[_table_monoid(table, env) for table in node.tables])
            rows = product(*[BAG for _ in node.kept])
            return groups(product(counts, accumulators, tables, rows))
        case Ordered(grows=False):
            return BAG
        case Ordered(descending=order, limit=limit):
            return first_of(order, limit_value(limit, env))
        case _:
            return None


def group_monoids(node: Groups, env: Environment | None) -> tuple[Monoid, ...]:
    """The monoid of each accumulator; those of user aggregations need an environment."""
    monoids = []
    for accumulator in node.accumulators:
        monoid = accumulator.monoid
        if accumulator.kind == "user" and env is not None:
            aggregation = env.world.script.aggregations[monoid.name]
            monoid = user_monoid(aggregation, env, commutative=True, idempotent=monoid.idempotent)
        monoids.append(monoid)
    return tuple(monoids)


def _table_monoid(table: Table, env: Environment | None) -> Monoid:
    return BAG if table.most is None else first_of(table.order, limit_value(table.most, env))


def first_of(order: tuple[bool, ...] | None, most: int | None) -> Monoid:
    """The first `most` values of two bags: the state of an order from which nothing is deleted."""

    def merge(left: Weighted, right: Weighted) -> Weighted:
        result, remaining = Weighted(), math.inf if most is None else most
        for value, weight in _sorted_rows(BAG.merge(left, right), order):
            if remaining <= 0:
                break
            if weight < 0:
                raise NegativeWeight(f"an order holds {weight} times {show(value)}")
            result.add(value, int(min(weight, remaining)))
            remaining -= weight
        return result

    return Monoid("first of ⊎" if most is None else f"first {most} of ⊎", Weighted(), merge)


def _sorted_rows(bag: Weighted, order: tuple[bool, ...] | None) -> list[tuple[Value, int]]:
    """The values of a bag in canonical order, or pairs (key tuple, value) by their keys first."""
    if order is None:
        return sorted(bag, key=lambda row: encode(row[0]))
    rows = sorted(bag, key=lambda row: encode(row[0][1]))
    for index, descending in reversed(list(enumerate(order))):
        rows.sort(key=lambda row: encode(row[0][0][index]), reverse=descending)
    return rows
