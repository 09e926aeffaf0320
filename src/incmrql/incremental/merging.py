"""What a node remembers as an element of a monoid: its merge and its deletions.

    state(X + Y) = state(X) ⊗ state(Y)        state(X - Y) = state(X) ⊗ inverse(state(Y))

over changes at the node's own inputs.  In the state of a bag a key is there exactly while its
multiplicity is not 0.

    Join      ⊎ of pairs, for each side that is kept
    Groups    ⇑ (multiplicity, (multiplicities, accumulators, ⊎ of tables, ⊎ of rows)); what is
              accumulated over the different values of a table follows from the table
    Ordered   ⊎; the first rows of ⊎ where nothing is taken away, in tables too
    Repeated  none: its last result is replaced
"""

from __future__ import annotations

from incmrql.incremental.changes import Weighted
from incmrql.incremental.monoids import BAG, COUNT, Monoid, groups, product, user
from incmrql.incremental.nodes import Groups, Join, Node, Ordered, Table
from incmrql.incremental.ranked import Ranked, rank
from incmrql.reference import Environment
from incmrql.types import typed


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
